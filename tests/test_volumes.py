"""Volumes, the kind of input that the documentation adds: voxels have neighbours, so masks, blur and coarse maps work as on pictures."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import proofmap as pm
from proofmap.core.errors import InputError
from proofmap.fills import Blur, make_fill
from proofmap.fills.simple import Median
from proofmap.methods import METHODS, make_method
from proofmap.methods.masks.extremal import MaxConvolution
from proofmap.methods.masks.fong_vedaldi import enlarged_each
from proofmap.methods.masks.method import MaskMethod
from proofmap.methods.method import default_method
from tests.docs.pages import DOCS, blocks
from tests.sessions import bound
from tests.toys import drawn

SIZE = (4, 5, 6)
LABELS = torch.tensor([[1, 0], [0, 1]])
FEW = {
    "extremal-perturbation": "extremal-perturbation:steps=4",
    "belief-mask": "belief-mask:passes=12",
    "learned-mask": "learned-mask:steps=4",
    "fong-vedaldi": "fong-vedaldi:steps=4",
    "rate-distortion": "rate-distortion:steps=4",
    "igos++": "igos++:iterations=2",
    "diffmask": "diffmask:steps=4",
}


@pytest.fixture(scope="module")
def f() -> pm.Classifier:
    page = blocks(DOCS / "extend.md")
    code = next(block.code for block in page if "class Volumes" in block.code)
    namespace: dict[str, Any] = {"__name__": __name__}
    exec(code.replace("@KINDS.register\n", ""), namespace)
    inputs = namespace["Volumes"](size=SIZE, mean=(0.0,), std=(1.0,))
    net = nn.Sequential(nn.Conv3d(1, 3, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(360, 2))
    return pm.Classifier(drawn(net), inputs=inputs, names=["healthy", "ill"])


@pytest.fixture(scope="module")
def x() -> Tensor:
    return torch.randn(2, 1, *SIZE, generator=torch.Generator().manual_seed(0))


def test_coarse_maps_are_enlarged_along_all_three_axes(f: pm.Classifier, x: Tensor) -> None:
    coarse = torch.randn(2, 2, 2, 2, 3, generator=torch.Generator().manual_seed(1))
    expected = F.interpolate(coarse, size=SIZE, mode="trilinear", align_corners=False)
    labels = torch.tensor([[0, 1], [0, 1]])
    torch.testing.assert_close(make_method(lambda f, x, a: coarse)(f, x, labels), expected)


def test_captums_layer_grad_cam_is_enlarged(f: pm.Classifier, x: Tensor) -> None:
    captum = pytest.importorskip("captum.attr")
    module = f.as_module()
    maps = make_method(captum.LayerGradCam(module, module.net[0]))(f, x, LABELS)
    assert maps.shape == (2, 2, *SIZE) and maps.std() > 0


@pytest.mark.parametrize("name", sorted(FEW))
def test_methods_that_learn_masks_make_maps(name: str, f: pm.Classifier, x: Tensor) -> None:
    assert issubclass(METHODS[name], MaskMethod)
    maps = make_method(FEW[name])(f, x, LABELS)
    assert maps.shape == (2, 2, *SIZE) and bool(maps.isfinite().all()) and maps.std() > 0


def test_the_default_method_explains_volumes(f: pm.Classifier, x: Tensor) -> None:
    assert default_method(f) == "belief-mask"  # voxels have three axes
    proof = pm.explain(f, x, labels="all", method="belief-mask:passes=12")
    assert "blur" in str(proof.evaluation.results[0].settings["fills"])


def test_extremal_masks_of_volumes_are_the_smooth_maximum_of_a_plain_loop(f: pm.Classifier) -> None:
    method = make_method("extremal-perturbation")
    shape = MaxConvolution(method, f.inputs, torch.device("cpu"))  # type: ignore[arg-type]
    weights = torch.zeros(1, 1, *shape.cells)
    weights[0, 0, 2, 7, 3] = 1.0  # one parameter: masks fall with the distance from it
    points = shape(weights)[0, 0]
    best = [int(i) for i in torch.unravel_index(points.argmax(), points.shape)]
    assert [i // 2 for i in best] == [2, 7, 3]
    swapped = shape(weights.flip(2, 3, 4))[0, 0]
    torch.testing.assert_close(swapped, points.flip(0, 1, 2))


def test_masks_of_volumes_are_enlarged_by_one_matrix_for_each_pair(f: pm.Classifier) -> None:
    low = torch.randn(2, 1, 2, 3, 2)
    up = [torch.randn(2, side, cells) for side, cells in zip(SIZE, (2, 3, 2), strict=True)]
    expected = torch.einsum("pkabc,pxa,pyb,pzc->pkxyz", low, *up)
    torch.testing.assert_close(enlarged_each(low, up), expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(enlarged_each(low[:1], [m[0] for m in up]), expected[:1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("border", [None, "edge"])
def test_blur_is_a_gaussian_along_all_three_axes(border: Any, f: pm.Classifier, x: Tensor) -> None:
    fill = Blur(sigma=1.0, kernel=3, border=border)
    line = fill.weights()
    padded = F.pad(x, [1] * 6, mode="replicate") if border else F.pad(x, [1] * 6)
    windows = padded.unfold(2, 3, 1).unfold(3, 3, 1).unfold(4, 3, 1)
    expected = torch.einsum("ncdhwabe,a,b,e->ncdhw", windows, line, line, line)
    found = bound(fill, f)(x, torch.zeros(2, dtype=torch.int64))
    torch.testing.assert_close(found, expected)


def test_the_median_is_that_of_a_cube(f: pm.Classifier, x: Tensor) -> None:
    padded = F.pad(x, [1] * 6, mode="replicate")
    found = bound(Median(kernel=3), f)(x, torch.zeros(2, dtype=torch.int64))
    assert found[1, 0, 2, 0, 5] == padded[1, 0, 2:5, 0:3, 5:8].flatten().median()


def test_road_says_what_it_cannot_do(f: pm.Classifier) -> None:
    with pytest.raises(InputError, match="their voxels lie in more than two dimensions"):
        bound(make_fill("road"), f)
