"""What a method is, how it is written down, and how other packages add theirs."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core import registry
from proofmap.core.errors import InputError
from proofmap.fills import Blur, Noise
from proofmap.methods import METHODS, LearnedMask, Method, make_method
from proofmap.methods.cams import GradCAM
from proofmap.methods.controls import Random, TopLabel
from proofmap.methods.from_function import FromFunction
from proofmap.methods.gradients.plain import Gradient
from proofmap.plugins.identity import identity
from proofmap.session import Session
from tests.toys import linear_classifier, normal, pixels

SIZE = 4
LABELS = torch.tensor([[0, 2], [1, 3]])


@pytest.fixture
def f() -> Classifier:
    return linear_classifier(SIZE, 4)


@pytest.fixture
def images() -> Tensor:
    return pixels(2, SIZE)


# ---- specs -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "spec, method",
    [
        ("random", Random()),
        (" gradient ", Gradient()),
        ("gradient:channels=mean", Gradient(channels="mean")),
        ("random:per_label=true,seed_offset=3", Random(per_label=True, seed_offset=3)),
        ("random:per-label=False", Random()),
        ("learned-mask:tv=0.5,scale=4,steps=7", LearnedMask(tv=0.5, scale=4, steps=7)),
        ("learned-mask:l1=1e-3,fill=gray,merge=sum", LearnedMask(l1=1e-3, fill="gray", merge="sum")),
        ("learned-mask:l1=none,scale=2.5", LearnedMask(scale=2.5)),
        ("learned-mask:preset=paper", LearnedMask.preset("paper")),
        ("learned-mask:preset=released,tv=0.1", LearnedMask.preset("released", tv=0.1)),
        ("grad-cam:layer=features.3", GradCAM(layer="features.3")),
        ("grad-cam:layer=3", GradCAM(layer="3")),
        ("top-label:gradient", TopLabel(of=Gradient())),
        ("top-label:learned-mask:tv=0.5,steps=3", TopLabel(of=LearnedMask(tv=0.5, steps=3))),
        ("top-label:top-label:random", TopLabel(of=TopLabel(of=Random()))),
        ("learned-mask:fill=blur(sigma=3,kernel=5),tv=0", LearnedMask(fill=Blur(sigma=3, kernel=5), tv=0)),
        ({"method": "learned-mask", "tv": 0.5, "fill": {"fill": "noise"}}, LearnedMask(tv=0.5, fill=Noise())),
        ({"method": "top-label", "of": "random"}, TopLabel(of=Random())),
    ],
)
def test_a_method_is_written_with_its_settings(spec: Any, method: Method) -> None:
    assert make_method(spec) == method


def test_a_method_stays_what_it_is() -> None:
    method = Random(seed_offset=5)
    assert make_method(method) is method


@pytest.mark.parametrize(
    "spec, told",
    [
        ("grad-camm", r"no method is named 'grad-camm'\. Did you mean 'grad-cam'"),
        ("", "no method is named ''"),
        (
            "saliency-9000",
            r"Known are: .*belief-mask, .*real-time-saliency, .*, and \d+ more; proofmap list methods lists them",
        ),
        (
            "learned-mask:tvv=0.1",
            "'learned-mask' has no setting 'tvv'. Did you mean 'tv'\\? Its settings are: preset, steps, distractors",
        ),
        ("learned-mask:fast", "has no setting 'fast'"),
        ("centered-gaussian:width=3", "Its settings are: sigma"),
        ("learned-mask:steps=many", "steps must be a whole number, not 'many'"),
        ("learned-mask:steps=2.5", "steps must be a whole number, not '2.5'"),
        ("learned-mask:steps=0", "steps must be a whole number of at least 1, not 0"),
        ("learned-mask:tv=big", "tv must be a number, not 'big'"),
        ("learned-mask:tv=-1", "tv must be at least 0"),
        ("learned-mask:tv_border=no", "tv_border must be true or false, not 'no'"),
        ("learned-mask:objective=best", "objective must be one of nll, nll-of-mean, released, not 'best'"),
        ("learned-mask:preset=slow", "no preset 'slow'; known are fast, paper, released"),
        ("learned-mask:fill=grey", "no fill is named 'grey'"),
        ("random:preset=paper", "'random' has no setting 'preset'"),
        ("gradient:channels=median", "channels must be one of max, sum, mean, not 'median'"),
        ("centered-gaussian:sigma=0", "sigma must be positive"),
        ("top-label", "needs the method whose map it shows, such as top-label:grad-cam"),
        ("top-label:nothing", "no method is named 'nothing'"),
    ],
)
def test_what_cannot_be_read_is_told(spec: str, told: str) -> None:
    with pytest.raises(InputError, match=told):
        make_method(spec)


def test_only_names_methods_and_functions_are_methods() -> None:
    with pytest.raises(InputError, match="a method is a name, a Method or a function, not int"):
        make_method(3)  # type: ignore[arg-type]


# ---- settings that travel ----------------------------------------------------------------------------------


# ---- what the call does around a method ---------------------------------------------------------------------


class Given(Method):
    """Returns what it was given."""

    name: ClassVar[str] = "given"
    description: ClassVar[str] = "for tests"
    given: Any = None

    def maps(self, session: Session, images: Tensor, labels: Tensor) -> Tensor:
        given: Tensor = self.given
        return given


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


def test_a_method_may_write_into_the_images_and_labels_that_it_is_given(
    f: Classifier, images: Tensor
) -> None:
    class Writing(Given):
        def maps(self, session: Session, images: Tensor, labels: Tensor) -> Tensor:
            images.requires_grad_(True).data.zero_()
            labels.zero_()
            return super().maps(session, images, labels)

    x, labels = images.clone(), LABELS.clone()
    Writing(given=normal(2, 2, SIZE, SIZE))(f, x, labels)
    assert torch.equal(x, images) and not x.requires_grad and torch.equal(labels, LABELS)


def test_a_method_that_returns_another_shape_is_told(f: Classifier, images: Tensor) -> None:
    with pytest.raises(InputError, match=r"returned maps \(2, 2, 3, 4\), expected \(2, 2, 4, 4\)"):
        Given(given=normal(2, 2, 3, 4))(f, images, LABELS)


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
