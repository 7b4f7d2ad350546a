"""The part of a net behind one of its layers, for methods that change the output of a layer and read the net's output.

All information about the input must pass through the layer. :func:`find_bottleneck` and :class:`Tail` check this: they give the part behind
the layer the features (the layer's output) of one input, and the layers before it another input. The logits must be those of the first
input.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from proofmap.classifier import Classifier
from proofmap.classifier.kernels import steady_kernels
from proofmap.classifier.outputs import as_logits
from proofmap.classifier.view import view_of
from proofmap.core.errors import InputError
from proofmap.core.inputs import Pictures
from proofmap.methods.probe import is_spatial, module_of, watch_outputs

_AGREE = 0.01
"""Largest difference between the logits of the part behind the layer and those of the whole net, relative to the largest logit."""


class Tail:
    """The part of the net behind ``layer``: ``features(images)`` returns the output of the layer, and ``tail(features)`` returns the logits.

    Earlier layers are not run again. They are replaced in a private view of the net, which shares the net's weights, and return their
    output for a blank input.
    """

    def __init__(self, classifier: Classifier, layer: str, dtype: torch.dtype | None = None) -> None:
        self.classifier, self.layer = classifier, layer
        self.dtype = dtype or classifier.dtype
        self.whole = _private(classifier, self.dtype)
        self.rest = _private(classifier, self.dtype)
        self._given: Tensor | None = None
        self._blank = classifier.normalised(classifier.blank(1), self.dtype)
        finished = _order(self.whole, self._blank)
        if layer not in finished:
            known = [name for name, outputs in finished.items() if outputs is not None]
            raise InputError(
                f"the net has no layer {layer!r} that runs; its last ones are {', '.join(known[-6:])}"
            )
        self._cut(list(finished), finished)
        probe = classifier.inputs.probe().to(classifier.device)
        with torch.no_grad(), steady_kernels(tf32=False):
            expected, features = (
                self._logits(self.whole(classifier.normalised(probe, self.dtype))),
                self.features(probe),
            )
            try:
                found = self(features)
            except InputError:
                raise
            except Exception as error:  # such as a net that reads a layer's attributes instead of running it
                raise InputError(
                    f"the part of the net after layer {layer!r} cannot be run by itself ({error}); name another layer"
                ) from error
        if bool((found - expected).abs().max() > _AGREE * (1 + expected.abs().max())):
            raise InputError(f"the net's output does not depend on layer {layer!r} alone; name another one")

    def features(self, images: Tensor) -> Tensor:
        """The output of the layer ``(N, C, h, w)``, in float32, for images ``(N, *shape)``."""
        outputs: dict[str, Any] = {}
        with watch_outputs(self.whole, [self.layer], outputs.__setitem__), torch.no_grad():
            self.whole(self.classifier.normalised(images, self.dtype))
        output = outputs[self.layer]
        if not isinstance(output, Tensor) or output.ndim != 4:
            raise InputError(
                f"layer {self.layer!r} does not give a spatial map (N, C, h, w); name another one"
            )
        return output.float()

    def __call__(self, features: Tensor) -> Tensor:
        """Logits ``(N, A)`` for features ``(N, C, h, w)``, differentiable in the features."""
        self._given = features.to(self.dtype)
        try:
            return self._logits(self.rest(self._blank.expand(len(features), *self._blank.shape[1:])))
        finally:
            self._given = None

    def _logits(self, out: Tensor) -> Tensor:
        return as_logits(out.float(), self.classifier.outputs)

    def _cut(self, order: list[str], outputs: dict[str, Any]) -> None:
        """Make every module that ends before the layer return its recorded output, and make the layer return the given features."""
        modules = dict(self.rest.named_modules())
        for name in order[: order.index(self.layer)]:
            if isinstance(outputs[name], Tensor):
                modules[name].forward = self._answer(outputs[name])
        modules[self.layer].forward = lambda *inputs, **options: self._given

    def _answer(self, output: Tensor) -> Callable[..., Tensor]:
        """A forward function that returns a module's recorded output for one blank input, repeated to the batch size of the given features."""

        def forward(*inputs: Any, **options: Any) -> Tensor:
            assert self._given is not None, "the rest of the net is run on features"
            return output.expand(len(self._given), *output.shape[1:])

        return forward


def find_bottleneck(classifier: Classifier) -> str:
    """The name of the last layer that all information passes through and whose map ``(h, w)`` is at least twice as fine, along each axis, as
    that of the last spatial layer. If there is no such layer, the last spatial layer that all information passes through.
    """
    if not isinstance(classifier.inputs, Pictures) or not isinstance(classifier.net, nn.Module):
        raise InputError(
            "a bottleneck needs a spatial layer of a torch module that takes pictures; use a method without layers"
        )
    view = _private(classifier, classifier.dtype)
    blank = torch.zeros_like(classifier.blank(1), dtype=classifier.dtype)
    spatial = {
        name: output.shape[2:]
        for name, output in _order(view, blank).items()
        if isinstance(output, Tensor) and output.ndim == 4 and is_spatial(output.shape[2:], classifier.size)
    }
    if spatial:
        coarse = list(spatial.values())[-1]
        fine = [n for n, (h, w) in spatial.items() if h >= 2 * coarse[0] and w >= 2 * coarse[1]]
        rest = [n for n in spatial if n not in fine]
        for name in [*reversed(fine), *reversed(rest)]:
            try:
                Tail(classifier, name)
            except InputError:
                continue
            return name
    raise InputError(
        "no layer has a spatial map (N, C, h, w) that all information passes; name one with layer="
    )


def _private(classifier: Classifier, dtype: torch.dtype) -> nn.Module:
    return view_of(module_of(classifier, "a bottleneck"), classifier.device).to(dtype)


def _order(net: nn.Module, x: Tensor) -> dict[str, Any]:
    """The output of each module, in the order in which the modules ended; None for a module that ran more than once."""
    outputs: dict[str, Any] = {}

    def note(name: str, output: Any) -> None:
        again = name in outputs
        outputs.pop(name, None)
        outputs[name] = None if again else output

    with watch_outputs(net, [name for name, _ in net.named_modules() if name], note), torch.no_grad():
        net(x)
    return outputs
