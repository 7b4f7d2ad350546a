"""Fills: what hidden pixels show, the same for the same key, whatever the batch; also painted by a net."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy
import torch
import torch.nn.functional as F
from PIL import Image
from torch import Tensor, nn

import proofmap as pm
from proofmap.classifier import Classifier
from proofmap.core import streams
from proofmap.core.errors import InputError
from proofmap.core.inputs import Inputs
from proofmap.core.streams import image_keys
from proofmap.data.distractors import Pool
from proofmap.fills import Blur, Fill, Gray, Images, Noise, make_fill
from proofmap.fills.infill import Infill
from proofmap.fills.simple import Median
from proofmap.session import Session
from tests.lazily import Lazily
from tests.sessions import bound
from tests.toys import PICTURES, ROWS, SERIES, TEXT, classifier_of, conv_classifier, pixels, values

MEAN, STD = (0.5, 0.4, 0.3), (0.2, 0.25, 0.3)


def classifier(size: int | tuple[int, int] = 12, channels: int = 3) -> Classifier:
    return Classifier(lambda x: x.flatten(1)[:, :4], size=size, mean=MEAN[:channels], std=STD[:channels])


@pytest.fixture
def images() -> Tensor:
    return torch.rand(6, 3, 12, 12, generator=torch.Generator().manual_seed(0))


@pytest.fixture
def keys(images: Tensor) -> Tensor:
    return image_keys(images, 0, "fill")


def pictures(n: int = 5) -> np.ndarray:
    """Different pictures of the input's size, uint8 (n, 12, 12, 3)."""
    return np.random.default_rng(1).integers(0, 256, (n, 12, 12, 3), dtype=np.uint8)


@pytest.mark.parametrize(
    "found, told",
    [
        (None, "NoneType"),
        (np.zeros((6, 3, 12, 12)), "ndarray"),
        (torch.zeros(6, 3, 12), r"torch.float32 of shape \(6, 3, 12\)"),
        (torch.zeros(6, 3, 12, 12, dtype=torch.uint8), r"torch.uint8 of shape \(6, 3, 12, 12\)"),
    ],
)
def test_a_fill_of_ones_own_that_returns_something_else_is_named(
    images: Tensor, keys: Tensor, found: object, told: str
) -> None:
    described = {"name": "own", "description": "for tests", "backgrounds": lambda self, *given: found}
    fill = type("Own", (Fill,), described)()
    expected = rf"the fill own: backgrounds\(.* of the shape \(6, 3, 12, 12\) of the images, not {told}$"
    with pytest.raises(InputError, match=expected):
        bound(fill, classifier())(images, keys)
    reads_mask = {"reads_mask": True, "backgrounds_behind": described["backgrounds"]}
    behind = type("Own", (Fill,), {**described, **reads_mask})()
    with pytest.raises(InputError, match=r"the fill own: backgrounds_behind\(.*, not "):
        bound(behind, classifier()).behind(images, keys, torch.ones(6, 12, 12, dtype=torch.bool))


# ---- pools ----------------------------------------------------------------------------------------------------


def pool_of(fill: Images, f: Classifier | None = None) -> Pool:
    """The pool that a fill draws from in a session of its own."""
    return fill.drawn_from(Session(f or classifier()))


# ---- gray -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fill, color", [("gray", MEAN), ("gray:color=1:0:0.5", (1, 0, 0.5)), ("gray:color=0", (0, 0, 0))]
)
def test_gray_normalises_to_zero_or_is_any_colour(
    fill: str, color: tuple[float, ...], images: Tensor, keys: Tensor
) -> None:
    ready = bound(make_fill(fill), classifier())
    assert torch.equal(ready(images, keys), torch.tensor(color).view(1, 3, 1, 1).expand_as(images))
    assert ready.record()["color"] == pytest.approx(list(color))


@pytest.mark.parametrize(
    "kind, settings, message",
    [
        *(
            (Gray, {"color": color}, r"color must have 3 channels with values in \[0, 1\], or one value")
            for color in ((1.5, 0.0, 0.0), (-0.1,) * 3, (float("nan"),) * 3, (0.5, 0.5))
        ),
        (Blur, {"sigma": 0}, "sigma must be positive"),
        (Blur, {"sigma": -1.0}, "sigma must be positive"),
        (Blur, {"kernel": 4}, "needs an odd kernel"),
        (Blur, {"kernel": 0}, "kernel must be a whole number"),
        (Blur, {"border": "egde"}, "border must be"),
        (Median, {"kernel": 4}, "odd"),
        (Noise, {"sigma": 0.0}, "sigma must be positive"),
        (Images, {"size": 0}, "at least 1"),
        (Images, {"crop": "center"}, "one of random, none, not 'center'"),
        *(
            (Images, {"source": source}, "distractors are pictures; arrays has 0 pictures")
            for source in (np.zeros((0, 12, 12, 3), dtype=np.uint8), torch.zeros(0, 3, 12, 12))
        ),
    ],
)
def test_a_fill_that_cannot_be_is_refused(kind: type[Fill], settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        bound(kind(**settings), classifier())


@pytest.mark.parametrize(
    "fill, inputs, message",
    [
        ("mask", PICTURES, "the fill mask is for texts, and the net takes images"),
        ("closed", TEXT, "the fill closed is for nets of tokens, and this model takes strings"),
        ("zero", TEXT, "the fill zero is for nets of tokens, and this model takes strings"),
        ("time-shift", ROWS, "time-shift is for series, and the net takes rows"),
        ("near-rows", SERIES, "near-rows is for rows, and the net takes series; use one of gray"),
        (Infill(net=lambda x, holes: x), ROWS, "the fill infill is for images, and the net takes rows"),
    ],
    ids=lambda given: given if isinstance(given, str) else type(given).__name__,
)
def test_a_fill_says_for_which_inputs_it_is(fill: Any, inputs: Inputs, message: str) -> None:
    with pytest.raises(InputError, match=message):
        bound(make_fill(fill), classifier_of(inputs))


# ---- blur -----------------------------------------------------------------------------------------------------


def rise_kernel(length: int, sigma: float) -> np.ndarray:
    """As RISE's evaluation builds it: a Gaussian filter of one bright pixel."""
    delta = np.zeros((length, length))
    delta[length // 2, length // 2] = 1
    return scipy.ndimage.gaussian_filter(delta, sigma)


@pytest.mark.parametrize("length, sigma", [(11, 5.0), (11, 1.0), (5, 5.0), (1, 2.0), (21, 0.5), (3, 30.0)])
def test_the_kernel_is_that_of_scipy(length: int, sigma: float) -> None:
    line = Blur(sigma=sigma, kernel=length).weights()
    np.testing.assert_allclose(torch.outer(line, line).numpy(), rise_kernel(length, sigma), atol=1e-7)
    assert line.sum().item() == pytest.approx(1)


def test_blur_is_the_substrate_of_rise(images: Tensor, keys: Tensor) -> None:
    # RISE convolves the normalised image with the full kernel, padded by zeros
    mean, std = torch.tensor(MEAN).view(1, 3, 1, 1), torch.tensor(STD).view(1, 3, 1, 1)
    kernel = torch.zeros(3, 3, 11, 11, dtype=torch.float64)
    for channel in range(3):
        kernel[channel, channel] = torch.from_numpy(rise_kernel(11, 5))
    expected = F.conv2d(((images - mean) / std).double(), kernel, padding=5).float()
    blurred = bound(Blur(), classifier())(images, keys)
    torch.testing.assert_close((blurred - mean) / std, expected, rtol=1e-4, atol=1e-5)


# ---- noise ----------------------------------------------------------------------------------------------------


def test_noise_is_normal_around_the_gray() -> None:
    f = classifier(40)
    drawn = bound(Noise(sigma=0.05), f)(torch.zeros(2, 3, 40, 40), torch.tensor([3, 4]))
    standard = (drawn - torch.tensor(MEAN).view(1, 3, 1, 1)) / 0.05
    assert scipy.stats.kstest(standard.flatten().numpy(), "norm").pvalue > 1e-3
    assert abs(np.corrcoef(standard[0].flatten(), standard[1].flatten())[0, 1]) < 0.06


# ---- images ---------------------------------------------------------------------------------------------------


def shown(fill: Images, keys: Tensor) -> set[bytes]:
    """The different backgrounds, as the bytes of 8-bit pictures (H, W, C)."""
    background = bound(fill, classifier())(torch.zeros(len(keys), 3, 12, 12), keys)
    eight = (background * 255).round().to(torch.uint8).permute(0, 2, 3, 1)
    return {picture.numpy().tobytes() for picture in eight}


def folder_of(pixels: np.ndarray, folder: Path) -> Path:
    for i, picture in enumerate(pixels):
        (folder / f"{i % 2}").mkdir(parents=True, exist_ok=True)
        Image.fromarray(picture).save(folder / f"{i % 2}" / f"{i}.png")
    return folder


SOURCES: dict[str, Callable[[np.ndarray, Path], Any]] = {
    "folder": folder_of,
    "folder as text": lambda p, folder: str(folder_of(p, folder)),
    "files": lambda p, folder: sorted(folder_of(p, folder).rglob("*.png")),
    "files as text": lambda p, folder: [str(file) for file in folder_of(p, folder).rglob("*.png")],
    "array of 8 bits": lambda p, folder: p,
    "array with channels first": lambda p, folder: p.transpose(0, 3, 1, 2),
    "array of floats": lambda p, folder: p.astype(np.float32) / 255,
    "tensor": lambda p, folder: torch.from_numpy(p).permute(0, 3, 1, 2).float() / 255,
    "tensor of 8 bits": lambda p, folder: torch.from_numpy(p),
    "list of arrays": lambda p, folder: list(p),
}


@pytest.mark.parametrize("kind", SOURCES)
def test_pictures_of_the_right_size_are_shown_as_they_are_from(kind: str, tmp_path: Path) -> None:
    pixels = pictures()
    fill = Images(source=SOURCES[kind](pixels, tmp_path), crop="none")
    assert shown(fill, torch.arange(200)) == {picture.tobytes() for picture in pixels}


def test_every_picture_of_the_pool_is_equally_likely() -> None:
    fill = bound(Images(source=pictures(8), crop="none"), classifier())
    drawn = fill(torch.zeros(4000, 3, 12, 12), torch.arange(4000))
    _, counts = drawn.flatten(1)[:, :6].unique(dim=0, return_counts=True)
    assert len(counts) == 8
    assert scipy.stats.chisquare(counts.numpy()).pvalue > 1e-3


def test_a_pool_is_the_same_for_the_same_seed_and_another_for_another() -> None:
    def pool(seed: int) -> Pool:
        return pool_of(Images(source=pictures(), size=9, seed=seed))

    assert torch.equal(pool(0).values, pool(0).values)
    assert pool(0).digest == pool(0).digest
    assert not torch.equal(pool(0).values, pool(1).values)
    assert pool(0).digest != pool(1).digest
    other = pool_of(Images(source=pictures(), size=9), classifier((9, 6)))
    assert other.values.shape == (9, 3, 9, 6) and other.digest != pool(0).digest


# ---- records and names ----------------------------------------------------------------------------------------


def test_records_say_what_was_shown(tmp_path: Path) -> None:
    f = classifier()
    assert Gray().settings() == {"fill": "gray", "color": None}
    assert bound(Gray(), f).record() == {"fill": "gray", "color": [0.5, 0.4, 0.3]}
    assert bound(Blur(sigma=3), f).record() == {
        "fill": "blur",
        "sigma": 3,
        "kernel": 11,
        "border": [0.5, 0.4, 0.3],
    }
    assert bound(Noise(), f).record() == {"fill": "noise", "sigma": 0.2, "center": [0.5, 0.4, 0.3]}
    folder = folder_of(pictures(), tmp_path / "photos")
    fill = Images(source=folder, size=3, seed=4)
    digest = pool_of(fill).digest
    assert bound(fill, f).record() == {
        "fill": "images",
        "source": str(folder),
        "size": 3,
        "crop": "random",
        "seed": 4,
        "part": "all",
        "pool": "3 images of a pool that was named",
        "digest": digest,
    }
    assert len(digest) == 16
    assert Images(source=pictures()).settings()["source"] == "ndarray"


@pytest.mark.parametrize("copies", [1, 2, 5])
def test_an_image_that_a_pool_holds_several_times_is_passed_over_each_time(copies: int) -> None:
    f = classifier()
    x, y = torch.rand(1, 3, *f.size), torch.rand(2, 3, *f.size)
    x, y = ((t * 255).round() / 255 for t in (x, y))
    pool = torch.cat([x.expand(copies, -1, -1, -1), y, x])
    ready = bound(Images(source=pool, crop="none"), f)
    keys = torch.arange(400)
    drawn = ready(x.expand(400, -1, -1, -1), keys)
    assert not bool((drawn - x).abs().amax(dim=(1, 2, 3)).lt(1e-3).any())
    others = {int((drawn[k] - y[1]).abs().amax() < 1e-3) for k in range(400)}
    assert others == {0, 1}  # both of the others are drawn
    with pytest.raises(InputError, match="contains only the explained image"):
        bound(Images(source=x.expand(3, -1, -1, -1), crop="none"), f)(x, keys[:1])


# ---- against OpenCV --------------------------------------------------------------------------------------------


def test_the_median_is_that_of_opencv(keys: Tensor) -> None:
    cv2 = pytest.importorskip("cv2")
    f, x = classifier(), pixels(2, 12, seed=4)
    found = bound(Median(kernel=5), f)(x, keys[:2])
    for image, median in zip(x, found, strict=True):
        bytes_ = (image * 255).round().to(torch.uint8).permute(1, 2, 0).contiguous().numpy()
        expected = torch.from_numpy(cv2.medianBlur(bytes_, 5)).permute(2, 0, 1) / 255
        torch.testing.assert_close(median, expected)


def test_a_blur_that_repeats_the_edge_is_that_of_opencv(keys: Tensor) -> None:
    cv2 = pytest.importorskip("cv2")
    f, x = classifier(), pixels(1, 12, seed=4)
    found = bound(make_fill("blur:sigma=1.5,kernel=15,border=edge"), f)(x, keys[:1])[0]
    picture = x[0].permute(1, 2, 0).contiguous().numpy()
    expected = cv2.GaussianBlur(picture, (15, 15), 1.5, borderType=cv2.BORDER_REPLICATE)
    torch.testing.assert_close(found, torch.from_numpy(expected).permute(2, 0, 1), rtol=0, atol=2e-5)


# ---- nets that paint -----------------------------------------------------------------------------------------


cv2 = Lazily("cv2")


class Diffusion(nn.Module):
    """A net that paints holes with weighted means of what is shown, ever further away; it has weights and a mode."""

    def __init__(self, channels: int = 3) -> None:
        super().__init__()
        self.mix = nn.Conv2d(channels, channels, 3, padding=1, groups=channels, bias=False)
        self.drop = nn.Dropout(0.9)
        nn.init.constant_(self.mix.weight, 1 / 9)

    def forward(self, images: Tensor, holes: Tensor) -> Tensor:
        x = images
        for _ in range(8):
            x = torch.where(holes > 0, self.drop(self.mix(x)), images)
        return x


def half_shown(x: Tensor) -> Tensor:
    keep = torch.zeros(len(x), *x.shape[2:], dtype=torch.bool)
    keep[:, :, : x.shape[3] // 2] = True
    return keep


def test_the_net_sees_gray_in_the_holes_and_paints_them() -> None:
    f, x = conv_classifier(), pixels(3, 8)
    seen: list[tuple[Tensor, Tensor]] = []

    def paint(images: Tensor, holes: Tensor) -> Tensor:
        seen.append((images.clone(), holes.clone()))
        images.zero_()  # its own copy
        return 1.5 * images + 2 * holes  # beyond the limits

    keep = half_shown(x)
    ready = bound(Infill(net=paint, batch=2), f)
    found = ready.behind(x, streams.image_keys(x, 0, "fill"), keep)
    assert [len(images) for images, _ in seen] == [2, 1]
    images, holes = (torch.cat(parts) for parts in zip(*seen, strict=True))
    gray = f.inputs.per_channel(f.gray)
    torch.testing.assert_close(images, torch.where(keep[:, None], x, gray))
    assert torch.equal(holes[:, 0], (~keep).float())
    assert found.max() == 1 and torch.equal(found, torch.where(keep[:, None], x, 1.0))
    assert torch.equal(ready(x, streams.image_keys(x, 0, "fill")), torch.ones_like(x))  # nothing is shown


def test_the_users_net_stays_as_it_is_and_is_used_in_evaluation_mode() -> None:
    f, x, net = conv_classifier(), pixels(2, 8), Diffusion().train()
    keys = streams.image_keys(x, 0, "fill")
    ready = bound(Infill(net=net), f)
    assert torch.equal(
        ready.behind(x, keys, half_shown(x)), ready.behind(x, keys, half_shown(x))
    )  # no dropout
    assert net.training and net.mix.weight.requires_grad
    before = ready.record()
    with torch.no_grad():
        net.mix.weight.mul_(0.5)
    assert ready.record() == before != bound(Infill(net=net), f).record()  # the weights are in the record


def test_a_file_names_the_net_and_its_code_is_recorded(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("import torch\ndef dark(images, holes):\n    return torch.zeros_like(images)\n")
    fill = make_fill(f"infill:{file}:dark")
    f, x = conv_classifier(), pixels(1, 8)
    assert fill.title() == f"infill:net={file}:dark"
    first = bound(fill, f)
    assert float(first(x, streams.image_keys(x, 0, "fill")).max()) == 0
    file.write_text("import torch\ndef dark(images, holes):\n    return torch.zeros_like(images) + .25\n")
    again = bound(make_fill(f"infill:{file}:dark"), f)
    assert first.record() != again.record()
    found = pm.evaluate(
        f, x, methods=["gradient"], metrics=[f"insertion:fill=infill({file}:dark)"], labels="top1"
    )
    assert "infill" in found.table()


@pytest.mark.parametrize(
    "net, message",
    [
        (3, "net = a function or a torch module .* not int"),
        (Diffusion, "not Diffusion"),
        ("painter", "or FILE.py:NAME of one, not painter"),
        (lambda images, holes: holes, "must return finite images"),
        (lambda images, holes: None, "must return finite images .* not None"),
        (lambda images, holes: images / 0 - images / 0, "must return finite images"),
    ],
)
def test_what_paints_nothing_is_refused(net: Any, message: str) -> None:
    f, x = conv_classifier(), pixels(1, 8)
    with pytest.raises(InputError, match=message):
        bound(Infill(net=net), f)(x, streams.image_keys(x, 0, "fill"))


def test_it_is_for_judging() -> None:
    with pytest.raises(InputError, match="infill"):
        pm.LearnedMask(fill=Infill(net=Diffusion()))(
            classifier_of(PICTURES), values(PICTURES, 1), torch.tensor([[0]])
        )
