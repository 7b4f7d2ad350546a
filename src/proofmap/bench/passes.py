"""Counts how many passes of the net a method needs for one image. A pass is one image through the net."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn
from torch.nn.modules import module as torch_module
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from proofmap.classifier import Classifier
from proofmap.classifier.frozen import Frozen
from proofmap.classifier.probability_models import ProbabilityModel
from proofmap.classifier.view import LogitsModule
from proofmap.methods.method import Method
from proofmap.session import Session


class PassCount:
    """The number of images that were given to a net."""

    images: int = 0


def passes_of(session: Session, method: Method, image: Tensor, labels: Tensor) -> int:
    """The number of passes that a method needs for one image ``(1, *shape)`` with labels ``(1, L)``.

    Methods of Proofmap state their cost, which the contract tests of methods check. Any other method runs once on this image. The result is
    then the largest of three numbers: the cost that it states, the number of images that it gives to the net, and the number of passes
    that its floating-point operations amount to. The last one covers methods that call only parts of the net. It counts three times the
    operations of a forward pass as one pass, because a pass with gradient has at most that many.
    """
    stated = method.cost(labels.shape[1], session)
    if stated is not None and type(method).__module__.startswith("proofmap."):
        return stated.passes
    classifier = session.net
    _ = classifier.batches, classifier.frozen().batches  # finding them takes passes, too
    one, work = Operations(), Operations()
    with one:
        classifier.probabilities(image)
    with counted_passes(classifier) as count, work:
        session.maps(method, image, labels)
    by_work = work.total // (3 * one.total) if one.total else 0
    return max(count.images, by_work, 0 if stated is None else stated.passes)


class Operations(TorchDispatchMode):
    """Counts the floating-point operations of convolutions and matrix products, by torch's own formulas.

    Torch's ``FlopCounterMode`` also follows modules, and fails inside ``torch.autograd.grad`` of nets with hooks.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.total = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = kwargs or {}
        known = flop_registry.get(func._overloadpacket)
        if known is None:
            with self:
                parts = func.decompose(*args, **given)
            if parts is not NotImplemented:
                return parts
        out = func(*args, **given)
        if known is not None:
            self.total += known(*args, **given, out_val=out)
        return out


@contextmanager
def counted_passes(classifier: Classifier) -> Iterator[PassCount]:
    """Count the images that go through the net of a classifier, its frozen copies, and its copies for other libraries.

    Calls of a single layer or part of the net are not counted.
    """
    net = classifier.net
    if isinstance(net, ProbabilityModel):
        with _counted_calls(net) as count:
            yield count
        return
    kinds = (Frozen, LogitsModule, type(net))
    count, inside = PassCount(), 0

    def begin(module: nn.Module, inputs: Any) -> None:
        nonlocal inside
        if isinstance(module, kinds):
            if inside == 0 and inputs and isinstance(inputs[0], Tensor):
                count.images += len(inputs[0])
            inside += 1

    def end(module: nn.Module, inputs: Any, output: Any) -> None:
        nonlocal inside
        if isinstance(module, kinds):
            inside -= 1

    hooks = [
        torch_module.register_module_forward_pre_hook(begin),
        torch_module.register_module_forward_hook(end, always_call=True),
    ]
    try:
        yield count
    finally:
        for hook in hooks:
            hook.remove()


@contextmanager
def _counted_calls(model: ProbabilityModel) -> Iterator[PassCount]:
    """Count the inputs that a model without gradients receives."""
    count, call = PassCount(), model.call

    def counted(given: Any) -> Any:
        count.images += len(given)
        return call(given)

    model.call = counted
    try:
        yield count
    finally:
        model.call = call
