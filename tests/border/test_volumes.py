"""Volumes and videos ``(N, C, D, H, W)``: nets and maps as they are, files, pictures; and the numbers of pictures for volumes of one slice."""

from __future__ import annotations

import itertools
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.numpy import save_file
from torch import Tensor, nn

import proofmap as pm
from proofmap.core.errors import InputError
from proofmap.core.inputs import Pictures
from proofmap.data import load_dataset
from proofmap.data.specs import read_for
from proofmap.fills import Blur, make_fill
from proofmap.fills.simple import Median
from proofmap.methods import METHODS, make_method
from proofmap.methods.attention import find_tokens
from proofmap.methods.cams import find_layer
from proofmap.methods.masks.extremal import MaxConvolution
from proofmap.methods.masks.fong_vedaldi import enlarged_each
from proofmap.methods.masks.method import MaskMethod, total_variation
from proofmap.methods.method import default_method
from proofmap.methods.perturbation.regions import cut
from proofmap.methods.probe import Grid
from proofmap.metrics.localisation import inside_boxes
from tests.command import invoke
from tests.sessions import bound
from tests.toys import PatchNet, drawn, normal

SIZE = (4, 5, 6)
LABELS = torch.tensor([[1, 0], [0, 1]])
FEW = {
    "extremal-perturbation": "extremal-perturbation:steps=4",
    "belief-mask": "belief-mask:passes=12",
    "learned-mask": "learned-mask:steps=4",
    "fong-vedaldi": "fong-vedaldi:steps=4",
    "rate-distortion": "rate-distortion:steps=4",
    "iba": "iba:steps=2,samples=2,pool=4",
    "igos++": "igos++:iterations=2",
    "diffmask": "diffmask:steps=4",
}
NET = drawn(nn.Sequential(nn.Conv3d(1, 3, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(360, 2)))


@pytest.fixture(scope="module")
def f() -> pm.Classifier:
    return pm.Classifier(NET, inputs=pm.Volumes(size=SIZE), names=["healthy", "ill"])


@pytest.fixture(scope="module")
def x() -> Tensor:
    return normal(2, 1, *SIZE)


# ---- the calls --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("net", [NET, lambda volumes: NET(volumes).softmax(1)], ids=["module", "function"])
def test_modules_and_functions_are_explained_and_judged(net: Any, x: Tensor) -> None:
    with pytest.warns(
        UserWarning, match=r"inputs \(1 x 4 x 5 x 6\) as the net takes them; hidden voxels show 0"
    ):
        proof = pm.explain(net, x, labels="all", method="occlusion:window=2")
    assert proof.maps.shape == (2, 2, *SIZE) and "volume-1" in str(proof)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = pm.evaluate(net, x, methods=["gradient", "kernel-shap:regions=4,samples=20"], labels="all")
        judge = pm.Judge(net, methods="gradient", labels="all")
        judge.update(x)
    assert found["gradient"]["soundness"].value == pytest.approx(
        judge.compute()["gradient"]["soundness"].value
    )


@pytest.mark.parametrize("shape", [SIZE, (2, 3, 2), (1, *SIZE), (*SIZE, 1), (2, *SIZE), (2, 2, 2, 2)])
def test_given_maps_of_every_shape(shape: tuple[int, ...], f: pm.Classifier, x: Tensor) -> None:
    maps = normal(2, *shape, seed=3)
    several = len(shape) == 4 and shape[0] == 2
    labels = LABELS if several else LABELS[:, 0]
    found = pm.evaluate(f, x, maps=maps.numpy(), labels=labels)
    plain = maps if several else maps.reshape(2, 1, *[side for side in shape if side > 1])
    expected = F.interpolate(plain, size=SIZE, mode="trilinear", align_corners=False)
    torch.testing.assert_close(found.results[0].maps, expected)
    sound = pm.soundness(f, x, maps, labels=labels)
    assert sound.shape == labels.shape and bool(sound.isfinite().all())


def test_wrong_shapes_are_answered_with_those_that_would_do(f: pm.Classifier, x: Tensor) -> None:
    with pytest.raises(InputError, match=r"These would do: \(2, 4, 5, 6\), one map for each volume"):
        pm.evaluate(f, x, maps=x[..., 0, 0], labels=LABELS[:, 0])
    with pytest.raises(InputError, match=r"volumes have an axis of channels: write x.unsqueeze\(-4\)"):
        pm.explain(f, x[:, 0], method="gradient")
    with pytest.raises(InputError, match=r"channels come before height and width: write x.movedim\(-1, -4\)"):
        pm.explain(f, x.movedim(1, -1), method="gradient")
    with pytest.raises(InputError, match=r"for volumes write inputs=pm.Volumes\(size=\(4, 5, 6\)\)"):
        pm.Classifier(NET, size=SIZE)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "name, content",
    [
        ("scan.npy", lambda x: np.save("scan.npy", x[0, 0])),
        ("scans.npy", lambda x: np.save("scans.npy", x[:, 0])),
        (
            "scans.npz",
            lambda x: np.savez("scans.npz", images=x, labels=[1, 0], label_names=["healthy", "ill"]),
        ),
        ("scans.safetensors", lambda x: save_file({"scans": x}, "scans.safetensors")),
    ],
)
def test_files_from_the_command_line(
    name: str, content: Any, x: Tensor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    content(x.numpy())
    Path("net.py").write_text("from tests.border.test_volumes import NET\n")
    arguments = [
        "--model",
        "net.py:NET?size=4x5x6",
        "--method",
        "grad-cam",
        "--labels",
        "all",
        "--out",
        "out",
    ]
    code, output = invoke("explain", name, *arguments)
    assert code == 0 and "volume-00000" in output, output
    assert {"report.html", "volume-00000.grad-cam.png"} <= {path.name for path in Path("out").iterdir()}
    assert torch.equal(torch.from_numpy(load_dataset(read_for(name, "volumes")).read(0)), x[0])


def test_files_that_hold_no_volumes(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.zeros((3, 4)))
    with pytest.raises(InputError, match=r"volumes must be \(N, channels, .* got \(3, 4\)"):
        load_dataset(f"npz:{tmp_path / 'a.npy'}?layout=volumes")
    (tmp_path / "b.safetensors").write_bytes(b"no header")
    with pytest.raises(InputError, match="cannot be read as safetensors"):
        load_dataset(tmp_path / "b.safetensors")
    with pytest.raises(InputError, match="there is no file"):
        load_dataset(f"npz:{tmp_path / 'c.safetensors'}")


# ---- exact answers ----------------------------------------------------------------------------------------------


def test_a_linear_net_has_exact_answers(x: Tensor) -> None:
    weights = normal(2, 1, *SIZE, seed=5)
    linear = nn.Linear(120, 2, bias=False)
    linear.weight.data = weights.flatten(1)
    f = pm.Classifier(nn.Sequential(nn.Flatten(), linear), inputs=pm.Volumes(size=SIZE))
    expected = (x[:, None] * weights[LABELS])[:, :, 0]
    for method in (
        "gradient-x-input",
        "integrated-gradients:steps=24",
        "occlusion:window=1,stride=1,fill=gray,quantity=logit",
        "shapley:orders=1,regions=120,superpixels=grid,fill=gray,quantity=logit",
        "deep-lift",
    ):
        found = make_method(method)(f, x, LABELS)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4, msg=method)


def test_insertion_shows_voxels_one_by_one_as_a_plain_loop(f: pm.Classifier, x: Tensor) -> None:
    maps = normal(2, 2, *SIZE, seed=7)
    areas = pm.insertion_auc(f, x, maps, labels=LABELS, points=120)
    for i, j in itertools.product(range(2), range(2)):
        shown, curve = (
            torch.zeros_like(x[i]),
            [float(f.probabilities(torch.zeros_like(x[:1]))[0, LABELS[i, j]])],
        )
        for k in maps[i, j].flatten().argsort(descending=True).tolist():
            shown.view(-1)[k] = x[i].flatten()[k]
            curve.append(float(f.probabilities(shown[None])[0, LABELS[i, j]]))
        expected = sum(curve[1:]) / 120
        assert float(areas[i, j]) == pytest.approx(expected, abs=1e-5)


def test_grad_cam_is_that_of_captum_enlarged_along_three_axes(x: Tensor) -> None:
    captum = pytest.importorskip("captum.attr")
    net = drawn(
        nn.Sequential(
            nn.Conv3d(1, 4, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool3d(1),
            nn.Flatten(),
            nn.Linear(4, 2),
        )
    )
    f = pm.Classifier(net, inputs=pm.Volumes(size=SIZE))
    assert find_layer(f).name == "1"
    for j in range(2):
        cam = captum.LayerGradCam(net, net[1]).attribute(x, target=LABELS[:, j], relu_attributions=True)
        expected = F.interpolate(cam.detach(), size=SIZE, mode="trilinear", align_corners=False)[:, 0]
        torch.testing.assert_close(make_method("grad-cam")(f, x, LABELS)[:, j], expected)


def test_total_variation_counts_differences_along_three_axes() -> None:
    masks = normal(3, 1, *SIZE)
    found = total_variation(masks, power="squared", border=True, axes=3)
    expected = [sum(float(mask.diff(dim=axis).square().sum()) for axis in (0, 1, 2)) for mask in masks[:, 0]]
    assert found.flatten().tolist() == pytest.approx(expected, rel=1e-4)


def test_the_tokens_of_a_transformer_lie_in_three_axes() -> None:
    net = PatchNet((8, 6), 2, channels=1)
    net.patches = nn.Conv3d(1, 8, 2, stride=2)  # type: ignore[assignment]
    f = pm.Classifier(drawn(net), inputs=pm.Volumes(size=(4, 4, 6)))
    assert find_tokens(f).grid == Grid((2, 2, 3), first=1)
    maps = make_method("attention-rollout")(f, normal(2, 1, 4, 4, 6), "top1")
    assert maps.shape == (2, 1, 4, 4, 6) and maps.std() > 0


def test_supervoxels_follow_the_values() -> None:
    volumes = torch.zeros(1, 1, 6, 8, 8)
    volumes[..., 1:3, 1:4, 2:7] = 10.0
    index = cut(volumes, pm.Volumes(size=(6, 8, 8)), 8, "slic", 1.0).index[0]
    inside = volumes[0, 0] > 0
    assert not set(index[inside].tolist()) & set(index[~inside].tolist())


def test_boxes_are_in_every_slice() -> None:
    inside = inside_boxes([(1, 2, 3, 5)], (2, 6, 4), torch.device("cpu"))
    assert torch.equal(inside[0], inside[1]) and inside[0].nonzero().tolist() == [
        [y, x] for y in (2, 3, 4) for x in (1, 2)
    ]


# ---- volumes of one slice ---------------------------------------------------------------------------------------

FLAT = Pictures(size=(8, 10), mean=(0.3, -0.2), std=(1.5, 0.7), unlimited=True)
SLICE = pm.Volumes(size=(1, 8, 10), mean=FLAT.mean, std=FLAT.std)


def one_slice() -> tuple[pm.Classifier, pm.Classifier]:
    """A net of pictures, and the same net of volumes."""
    flat = drawn(
        nn.Sequential(
            nn.Conv2d(2, 5, 3, padding=1), nn.ReLU(), nn.Conv2d(5, 6, 3, 2, 1), nn.ReLU(),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 3),
        )
    )  # fmt: skip
    deep = nn.Sequential(
        nn.Conv3d(2, 5, (1, 3, 3), padding=(0, 1, 1)), nn.ReLU(), nn.Conv3d(5, 6, (1, 3, 3), (1, 2, 2), (0, 1, 1)),
        nn.ReLU(), nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(6, 3),
    )  # fmt: skip
    weights = {name: w.unsqueeze(2) if w.ndim == 4 else w for name, w in flat.state_dict().items()}
    deep.load_state_dict(weights)
    return pm.Classifier(flat, inputs=FLAT), pm.Classifier(deep, inputs=SLICE)


@pytest.mark.parametrize(
    "spec",
    [
        "random:per_label=true", "centered-gaussian", "edges", "blurred:gradient", "gradient", "smooth-grad:samples=2",
        "integrated-gradients:steps=24", "guided-backprop", "lrp", "deep-lift", "grad-cam", "grad-cam++", "layer-cam",
        "score-cam", "occlusion:window=3,stride=2,fill=noise", "rise:masks=20,grid=3", "shapley:orders=2,regions=4",
        "kernel-shap:samples=20,regions=6", "greedy-insertion:regions=4,candidates=2", "belief-order:regions=4,budget=32",
        "learned-mask:steps=3,fill=blur", "belief-mask:passes=12", "extremal-perturbation:steps=2,step=60,sigma=60",
        "fong-vedaldi:steps=2,grid=6", "iba:steps=2,samples=2,pool=8", "rate-distortion:steps=2,grid=4",
        "igos++:iterations=2", "diffmask:steps=2,grid=4",
    ],
)  # fmt: skip
def test_a_volume_of_one_slice_has_the_map_of_a_picture(spec: str) -> None:
    (flat, deep), x, method = one_slice(), normal(4, 2, 8, 10), make_method(spec)
    labels = torch.tensor([[0, 1]] * 4)
    expected = method(flat, x, labels)
    torch.testing.assert_close(method(deep, x[:, :, None], labels)[:, :, 0], expected, rtol=1e-5, atol=1e-6)


def test_a_volume_of_one_slice_has_the_scores_of_a_picture() -> None:
    (flat, deep), x = one_slice(), normal(4, 2, 8, 10)
    metrics = ["soundness", "deletion", "roughness", "saliency-metric", "energy-inside", "sum-to-logit"]
    scores = [
        pm.evaluate(
            net,
            images,
            methods="gradient-x-input",
            metrics=metrics,
            fills=["blur", "median", "images"],
            labels="top2",
        ).to_dict()
        for net, images in ((flat, x), (deep, x[:, :, None]))
    ]
    assert scores[1] == pytest.approx(scores[0], abs=1e-6, nan_ok=True)


# ---- pictures ---------------------------------------------------------------------------------------------------


def test_pictures_show_the_slices_where_the_proof_lies() -> None:
    inputs = pm.Volumes(size=(40, 6, 8))
    heat = normal(40, 6, 8)
    heat[17:24] += 20
    view = inputs.facing([heat])
    assert set(range(17, 24)) <= set(view.shown) and len(view.shown) == 9 and view == inputs
    assert view.view_words == f"Slices {', '.join(map(str, view.shown))} of 0 to 39, row by row."
    places = view.pixel_positions()
    assert sorted(places[places >= 0].tolist()) == [z * 48 + k for z in view.shown for k in range(48)]
    x = normal(1, *inputs.size)
    drawn = view.picture(x)
    assert drawn.shape == (*view.picture_size(), 3) and bool((drawn[places.numpy() < 0] == 255).all())
    found = torch.from_numpy(drawn[..., 0])[places >= 0].float()
    expected = x.flatten()[places[places >= 0]]
    assert torch.stack([found, expected]).corrcoef()[0, 1] > 0.999


def test_sheets_pages_and_notebooks_name_the_slices(x: Tensor, tmp_path: Path) -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(12 * 5 * 6, 2))
    f = pm.Classifier(drawn(net), inputs=pm.Volumes(size=(12, 5, 6)))
    found = pm.evaluate(f, normal(2, 1, 12, 5, 6), methods=["gradient-x-input", "random"], labels="all")
    page = pm.write_report(found, tmp_path / "report.html")
    view = f.inputs.facing(found.map_of(r, 0, j) for r in found.results for j in range(2))
    assert view.view_words in page.read_text() and "<img" in found._repr_html_()
    assert {"volume-0.compared.png"} <= {path.name for path in found.save(tmp_path / "saved")}


# ---- masks ------------------------------------------------------------------------------------------------------


def test_coarse_maps_are_enlarged_along_all_three_axes(f: pm.Classifier, x: Tensor) -> None:
    coarse = torch.randn(2, 2, 2, 2, 3, generator=torch.Generator().manual_seed(1))
    expected = F.interpolate(coarse, size=SIZE, mode="trilinear", align_corners=False)
    labels = torch.tensor([[0, 1], [0, 1]])
    torch.testing.assert_close(make_method(lambda f, x, a: coarse)(f, x, labels), expected)


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
    with pytest.raises(
        InputError, match="their voxels lie in more than two dimensions; use one of gray, noise, blur"
    ):
        bound(make_fill("road"), f)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda f, x: make_method("grad-cam:layer=9")(f, x, LABELS), "the net has no layer '9'"),
        (lambda f, x: make_method("attention-rollout")(f, x, LABELS), "use a class activation map"),
        (
            lambda f, x: make_method("phang-masker:weights=a.safetensors")(f, x, LABELS),
            "Masks without training: belief",
        ),
        (
            lambda f, x: make_method("grad-cam")(f.with_net(lambda v: NET(v)), x, LABELS),
            "needs a torch module",
        ),
        (
            lambda f, x: pm.evaluate(f, x, methods="gradient", fills=["time-shift"]),
            "use one of gray, noise, blur",
        ),
    ],
)
def test_what_volumes_cannot_do_is_refused(call: Any, message: str, f: pm.Classifier, x: Tensor) -> None:
    with pytest.raises(InputError, match=message):
        call(f, x)
