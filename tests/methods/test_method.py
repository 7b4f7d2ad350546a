"""What a method is, how other packages add theirs, what its passes are, and that nothing outlives the call."""

from __future__ import annotations

import gc
import sys
from collections import Counter
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core import registry
from proofmap.methods import METHODS, Cost, Method, make_method
from proofmap.methods.from_function import FromFunction
from proofmap.plugins.identity import identity
from proofmap.session import Session
from tests.methods.test_gradients import LABELS as THREE_ROWS
from tests.methods.test_lrp import classifier, pooled_net
from tests.sessions import bound
from tests.toys import counted_classifier, linear_classifier, normal, pixels

SIZE = 4
LABELS = torch.tensor([[0, 2], [1, 3]])


@pytest.fixture
def f() -> Classifier:
    return linear_classifier(SIZE, 4)


@pytest.fixture
def images() -> Tensor:
    return pixels(2, SIZE)


# ---- specs -------------------------------------------------------------------------------------------------


# ---- settings that travel ----------------------------------------------------------------------------------


# ---- what the call does around a method ---------------------------------------------------------------------


class Given(Method):
    """Returns what it was given."""

    name: ClassVar[str] = "given"
    description: ClassVar[str] = "for tests"
    given: Any = None

    def maps(self, session: Session, images: Tensor, labels: Tensor) -> Tensor:
        return self.given


class GivenOnce(Given):
    label_free = True


def test_maps_come_back_as_float32_without_history(f: Classifier, images: Tensor) -> None:
    maps = normal(2, 2, SIZE, SIZE).double().requires_grad_(True)
    found = Given(given=maps * 2)(f, images, LABELS)
    assert found.dtype == torch.float32 and not found.requires_grad
    torch.testing.assert_close(found, (maps * 2).float().detach())


def test_a_label_free_method_is_asked_for_one_map_and_shows_it_for_all(f: Classifier, images: Tensor) -> None:
    one = normal(2, 1, SIZE, SIZE)
    maps = GivenOnce(given=one)(f, images, LABELS)
    assert torch.equal(maps, one.expand(-1, 2, -1, -1))


# ---- functions ---------------------------------------------------------------------------------------------


def brightness(classifier: Classifier, images: Tensor, labels: Tensor) -> Tensor:
    return images.mean(dim=1, keepdim=True).expand(-1, labels.shape[1], -1, -1)


def test_any_function_is_a_method(f: Classifier, images: Tensor) -> None:
    method = make_method(brightness)
    assert method == FromFunction(function=brightness)
    assert method.settings() == {"method": "brightness", "code": identity(brightness)}
    torch.testing.assert_close(method(f, images, LABELS)[:, 1], images.mean(dim=1))


def test_an_object_that_can_be_called_is_a_method_named_after_its_class(
    f: Classifier, images: Tensor
) -> None:
    class Bright:
        def __call__(self, classifier: Classifier, images: Tensor, labels: Tensor) -> Tensor:
            return brightness(classifier, images, labels)

    method = make_method(Bright())
    assert method.settings() == {"method": "Bright", "code": identity(Bright())}
    assert method(f, images, LABELS).shape == (2, 2, SIZE, SIZE)


# ---- methods of other packages -----------------------------------------------------------------------------

PLUGIN = """
from __future__ import annotations
from typing import ClassVar
import torch
from proofmap.methods import Method

class Checkerboard(Method):
    name: ClassVar[str] = "{name}"
    description: ClassVar[str] = "every second pixel"
    start: int = 0
    label_free = True

    def maps(self, session, images, labels):
        rows, columns = (torch.arange(side) for side in images.shape[2:])
        board = (rows[:, None] + columns + self.start) % 2
        return board.float().expand(len(images), 1, *images.shape[2:])
"""


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    """Pretends that a package with these entry points is installed; the registry forgets it afterwards."""

    def install(*points: tuple[str, str], source: str = PLUGIN.format(name="checkerboard")) -> None:
        (tmp_path / "checkered.py").write_text(source)
        monkeypatch.syspath_prepend(str(tmp_path))
        monkeypatch.delitem(sys.modules, "checkered", raising=False)
        found = [EntryPoint(name, value, "proofmap.methods") for name, value in points]
        monkeypatch.setattr(registry, "entry_points", lambda group: [p for p in found if p.group == group])
        monkeypatch.setattr(METHODS, "_known", dict(METHODS._known))
        monkeypatch.setattr(METHODS, "_asked", False)

    return install


def test_an_installed_package_adds_a_method(installed: Any, f: Classifier, images: Tensor) -> None:
    installed(("checkerboard", "checkered:Checkerboard"))
    method = make_method("checkerboard:start=1")
    assert "checkerboard" in METHODS
    maps = method(f, images, LABELS)
    assert maps[0, 0].tolist() == maps[1, 1].tolist() == [[1, 0, 1, 0], [0, 1, 0, 1]] * 2


def test_every_method_runs_on_deterministic_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    seen = []

    def watching(classifier: Classifier, images: Tensor, labels: Tensor) -> Tensor:
        seen.append((torch.backends.cudnn.deterministic, torch.backends.cudnn.allow_tf32))
        return torch.zeros(*labels.shape, *images.shape[2:])

    before = torch.backends.cudnn.deterministic, torch.backends.cudnn.allow_tf32
    FromFunction(function=watching)(linear_classifier(8, 3), pixels(1, 8), torch.tensor([[0]]))
    assert seen == [(True, False)]
    assert (torch.backends.cudnn.deterministic, torch.backends.cudnn.allow_tf32) == before


# ---- passes --------------------------------------------------------------------------------------------------


SHARED = {
    "gradient": 1,
    "gradient-x-input": 1,
    "guided-backprop": 1,
    "lrp": 1,
    "contrastive-lrp": 1,
    "deep-lift": 2,
    "smooth-grad:samples=3": 3,
    "integrated-gradients:steps=30": 32,
    "grad-cam": 1,
    "layer-cam": 1,
    "score-cam": 13,
    "occlusion:window=3,stride=2": 17,
    "rise:masks=70,grid=3": 70,
    "belief-order:regions=4,superpixels=grid": 16,
}
"""Passes of methods for which all labels share the forward passes."""


@pytest.mark.parametrize("spec, passes", SHARED.items())
def test_all_labels_share_the_forward_passes(spec: str, passes: int) -> None:
    f, tally = counted_classifier(size=8)
    ready = bound(make_method(spec), f)
    f.frozen()  # which looks at the net
    for labels in ([[0]], [[0, 1, 2]]):
        tally.reset()
        ready(pixels(1, 8), torch.tensor(labels))
        cost = ready.cost(len(labels[0])) or Cost()
        assert tally.images == passes and (cost.gradient or cost.forward == passes)


@pytest.mark.parametrize(
    "spec",
    [
        "belief-mask:passes=7,fills=gray+noise,grid=4",
        "diffmask:steps=2,grid=4,fill=noise",
        "extremal-perturbation:steps=2,areas=0.2,step=60,sigma=60",
        "fong-vedaldi:steps=2,grid=8",
        "fong-vedaldi:steps=1,fill=noise",
        "fong-vedaldi:preset=pytorch,steps=2",
        "iba:steps=2,samples=2,fill=noise,pool=8",
        "igos++:iterations=2,integration=2,grid=8",
        "rate-distortion:steps=2,grid=4",
        "learned-mask:steps=4,scale=2,fill=noise",
        "learned-mask:steps=4,scale=2,fill=gray",
        "learned-mask:steps=4,scale=2,fill=noise,masks=3",
        "shapley:regions=5",
        "shapley:regions=5,fill=noise",
        "kernel-shap:samples=20,regions=5",
        "greedy-insertion:regions=9",
        "greedy-insertion:regions=9,candidates=3",
    ],
)
def test_the_cost_is_what_goes_through_the_net(spec: str) -> None:
    f, tally = counted_classifier(size=(9, 11))
    f.frozen()  # which looks at the net
    ready = bound(make_method(spec), f)
    for labels in ([[0]], [[0, 1, 2]]):
        tally.reset()
        ready(pixels(1, (9, 11)), torch.tensor(labels))
        cost = ready.cost(len(labels[0])) or Cost()
        if "igos" in spec:  # as long as its line search may be
            assert cost.gradient < tally.images <= cost.passes
        else:
            assert tally.images == cost.passes


# ---- memory --------------------------------------------------------------------------------------------------


SPECS = [
    "smooth-grad:samples=2",
    "integrated-gradients:steps=30",
    "guided-backprop",
    "rect-grad",
    "lrp",
    "contrastive-lrp:dual=negated",
    "deep-lift",
]


def tensors() -> int:
    """Tensors and steps of autograd's graph that Python knows of."""
    kinds = Counter(map(type, gc.get_objects()))
    return sum(n for kind, n in kinds.items() if issubclass(kind, Tensor) or "Backward" in kind.__name__)


def test_no_tensor_outlives_the_call() -> None:
    """With the collector off, so that a circle of references that holds the graph would show."""
    f, images = classifier(pooled_net(), batch_size=8), pixels(2, 8)
    methods = [make_method(spec) for spec in SPECS]
    for method in methods:  # what is made once and kept: a frozen view, batch sizes
        method(f, images, THREE_ROWS[:2])
    gc.collect()
    gc.freeze()  # only what is made from now on is looked at
    gc.disable()
    try:
        before = tensors()
        for method in methods:
            for _ in range(3):
                method(f, images, THREE_ROWS[:2])
            assert tensors() <= before, method.name
    finally:
        gc.enable()
