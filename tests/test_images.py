"""Photos as people have them: every kind is read as one expects, and every bad one is named."""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from proofmap.classifier import Classifier
from proofmap.core.errors import InputError
from proofmap.core.inputs.pictures import decode_image, fit, fitted_size
from proofmap.data import load_dataset
from proofmap.data.photos import find_photos, load_images
from proofmap.judging import evaluate, explain
from proofmap.report.html import write_report

RED, GREEN, BLUE, WHITE = (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255)
MEAN = (0.5, 0.4, 0.3)


def classifier(size: int | tuple[int, int] = 8, channels: int = 3, **arguments: Any) -> Classifier:
    mean = MEAN[:channels] if channels <= 3 else (0.5,) * channels
    return Classifier(lambda x: x.flatten(1)[:, :4], size=size, mean=mean, std=(1.0,) * channels, **arguments)


def noise(height: int, width: int, channels: int = 3) -> np.ndarray:
    shape = (height, width, channels) if channels > 1 else (height, width)
    return np.random.default_rng(0).integers(0, 256, shape, dtype=np.uint8)


def save(folder: Path, name: str, image: Image.Image | np.ndarray, **options: Any) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    (image if isinstance(image, Image.Image) else Image.fromarray(image)).save(path, **options)
    return path


# ---- what is read ---------------------------------------------------------------------------------------------


def test_pixels_arrive_as_they_were_saved(tmp_path: Path) -> None:
    pixels = noise(8, 8)
    loaded = load_images(save(tmp_path, "a.png", pixels), classifier(8))
    assert loaded.shape == (1, 3, 8, 8)
    assert loaded.dtype == torch.float32
    np.testing.assert_array_equal((loaded[0] * 255).round().numpy(), pixels.transpose(2, 0, 1))


def test_gray_scale_has_three_equal_channels(tmp_path: Path) -> None:
    pixels = noise(8, 8, 1)
    (loaded,) = load_images(save(tmp_path, "gray.png", pixels), classifier(8))
    for channel in loaded:
        np.testing.assert_array_equal((channel * 255).round().numpy(), pixels)


def test_transparent_pixels_show_the_classifiers_gray(tmp_path: Path) -> None:
    pixels = np.zeros((8, 8, 4), dtype=np.uint8)
    pixels[:, :4] = (*RED, 255)
    pixels[:, 4:] = (*RED, 0)
    path = save(tmp_path, "rgba.png", pixels)
    assert decode_image(path).mode == "RGBA"
    (loaded,) = load_images(path, classifier(8))
    torch.testing.assert_close(loaded[:, 0, 0], torch.tensor([1.0, 0.0, 0.0]))
    torch.testing.assert_close(loaded[:, 0, 7], torch.tensor(MEAN))


@pytest.mark.parametrize("mode", ["P", "L", "RGB"])
def test_one_colour_declared_transparent_is_transparent(tmp_path: Path, mode: str) -> None:
    image = Image.new("RGB", (8, 8), WHITE)
    image.paste(Image.new("RGB", (4, 8), (0, 0, 0)), (0, 0))
    image = image.convert(mode)
    black = image.getpixel((0, 0))
    (loaded,) = load_images(save(tmp_path, "key.png", image, transparency=black), classifier(8))
    torch.testing.assert_close(loaded[:, 0, 0], torch.tensor(MEAN), rtol=0, atol=1e-3)
    torch.testing.assert_close(loaded[:, 0, 7], torch.ones(3))


@pytest.mark.parametrize("name", ["deep.png", "deep.tif"])
def test_sixteen_bits_keep_their_scale(tmp_path: Path, name: str) -> None:
    deep = np.linspace(0, 65535, 64).round().astype(np.uint16).reshape(8, 8)
    (loaded,) = load_images(save(tmp_path, name, deep), classifier(8))
    expected = torch.from_numpy(deep / 65535).float().expand(3, 8, 8)
    torch.testing.assert_close(loaded, expected, rtol=0, atol=0.5 / 255 + 1e-6)


def test_print_colours_become_screen_colours(tmp_path: Path) -> None:
    cyan = Image.new("CMYK", (8, 8), (255, 0, 0, 0))
    (loaded,) = load_images(save(tmp_path, "cmyk.jpg", cyan), classifier(8))
    torch.testing.assert_close(loaded[:, 0, 0], torch.tensor([0.0, 1.0, 1.0]), rtol=0, atol=0.05)


TURNS: dict[int, Callable[[np.ndarray], np.ndarray]] = {
    1: lambda a: a,
    2: lambda a: a[:, ::-1],
    3: lambda a: a[::-1, ::-1],
    4: lambda a: a[::-1],
    5: lambda a: a.transpose(1, 0, 2),
    6: lambda a: np.rot90(a, -1),
    7: lambda a: a[::-1, ::-1].transpose(1, 0, 2),
    8: lambda a: np.rot90(a, 1),
}


@pytest.mark.parametrize("orientation", TURNS)
def test_photos_are_turned_upright(tmp_path: Path, orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation
    stored = noise(4, 6)
    path = save(tmp_path, "turned.png", stored, exif=exif)
    np.testing.assert_array_equal(np.asarray(decode_image(path)), TURNS[orientation](stored))


def test_an_animation_shows_its_first_picture(tmp_path: Path) -> None:
    frames = [Image.new("RGB", (8, 8), colour) for colour in (RED, GREEN, BLUE)]
    for name in ("moving.gif", "moving.webp", "moving.png"):
        path = save(tmp_path, name, frames[0], save_all=True, append_images=frames[1:], lossless=True)
        (loaded,) = load_images(path, classifier(8))
        torch.testing.assert_close(loaded[:, 4, 4], torch.tensor([1.0, 0.0, 0.0]))


# ---- preparing ------------------------------------------------------------------------------------------------


def test_a_classifier_of_one_channel_gets_the_brightness(tmp_path: Path) -> None:
    pixels = noise(8, 8)
    (loaded,) = load_images(save(tmp_path, "a.png", pixels), classifier(8, channels=1))
    assert loaded.shape == (1, 8, 8)
    brightness = (pixels * np.array([0.299, 0.587, 0.114])).sum(axis=2) / 255  # ITU-R BT.601
    np.testing.assert_allclose(loaded[0].numpy(), brightness, atol=1e-5)


# ---- finding --------------------------------------------------------------------------------------------------


def test_folders_are_searched_in_depth_and_in_a_fixed_order(tmp_path: Path) -> None:
    names = ["b.png", "a/z.JPG", "a/b/c.png", "a.png", "c/1.png", "c/10.png", "c/2.png"]
    for name in names:
        save(tmp_path, name, noise(4, 4))
    (tmp_path / "notes.txt").write_text("not a picture")
    (tmp_path / "folder.png").mkdir()
    found = [str(path.relative_to(tmp_path)) for path in find_photos([tmp_path])]
    assert found == ["a/b/c.png", "a/z.JPG", "a.png", "b.png", "c/1.png", "c/10.png", "c/2.png"]


def test_what_is_named_comes_in_the_order_it_is_named(tmp_path: Path) -> None:
    for name in ("one/b.png", "one/a.png", "z.png"):
        save(tmp_path, name, noise(4, 4))
    places = [tmp_path / "z.png", str(tmp_path / "one"), tmp_path / "z.png"]
    assert [path.name for path in find_photos(places)] == ["z.png", "a.png", "b.png", "z.png"]


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    for read, place, told in (
        (lambda path: load_images(path, classifier()), "cat.png", r"there is no file or folder .*cat\.png"),
        (decode_image, "cat.png", r"there is no file .*cat\.png"),
        (decode_image, "", "cannot be read as an image"),
    ):
        with pytest.raises(InputError, match=told):
            read(tmp_path / place)


def test_a_pipe_or_a_device_is_refused_wherever_a_picture_is_expected(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.png")
    (tmp_path / "endless.png").symlink_to("/dev/zero")
    (tmp_path / "table.csv").write_text("file\npipe.png\nendless.png\n")
    dataset = load_dataset(str(tmp_path / "table.csv"))
    for i, name in enumerate(("pipe.png", "endless.png")):
        for read in (decode_image, lambda path: find_photos([path])):
            with pytest.raises(InputError, match=f"{name} is a pipe or a device"):
                read(tmp_path / name)
        for look in (dataset.read, dataset.digest):
            with pytest.raises(InputError, match=f"{name} is a pipe or a device"):
                look(i)


# ---- what is refused ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content", [b"", b"hello", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff\xe0", b"GIF89a", b"\0" * 99]
)
def test_a_file_that_is_no_picture_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "good.png").write_bytes(encoded("PNG"))
    (tmp_path / "bad.png").write_bytes(content)
    with pytest.raises(InputError, match=r"bad\.png cannot be read as an image"):
        load_images(tmp_path, classifier())


def encoded(form: str, **options: Any) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(noise(24, 31)).save(buffer, form, **options)
    return buffer.getvalue()


@pytest.mark.parametrize(
    "form, options", [("JPEG", {}), ("JPEG", {"progressive": True}), ("PNG", {}), ("WEBP", {})]
)
@pytest.mark.parametrize("share", [0.05, 0.3, 0.6, 0.9])
def test_a_truncated_picture_is_named(
    tmp_path: Path, form: str, options: dict[str, Any], share: float
) -> None:
    whole = encoded(form, **options)
    path = tmp_path / "half.img"
    path.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(InputError, match=r"half\.img cannot be read as an image"):
        decode_image(path)


@pytest.mark.filterwarnings("ignore::UserWarning:PIL")
@pytest.mark.parametrize("form", ["JPEG", "PNG", "GIF", "BMP", "WEBP", "PPM"])
def test_a_damaged_picture_is_read_or_named_and_nothing_else(tmp_path: Path, form: str) -> None:
    whole, rng = encoded(form), np.random.default_rng(0)
    path = tmp_path / "damaged.img"
    for _ in range(60):
        content = bytearray(whole)
        for place in rng.integers(0, min(200, len(whole)), 3):
            content[place] = rng.integers(0, 256)
        path.write_bytes(bytes(content))
        try:
            outcome = decode_image(path).mode
        except InputError as error:
            outcome = str(error)
        assert outcome in ("RGB", "RGBA") or "damaged.img" in outcome


@pytest.mark.parametrize("form", ["PNG", "TIFF", "BMP", "PPM"])  # others cannot have such a side
@pytest.mark.parametrize("turned", [False, True])
def test_a_side_that_is_too_long_is_refused_unread(
    form: str, turned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = (1, 65_536) if turned else (65_536, 1)
    file = io.BytesIO()
    Image.new("L", size).save(file, form)
    monkeypatch.setattr(Image.Image, "load", lambda *_: pytest.fail("it was decoded"))
    with pytest.raises(
        InputError, match=rf"hair has {size[0]} x {size[1]} pixels; at most 65,535 are read in width"
    ):
        decode_image(file.getvalue(), "hair")


def test_a_hair_that_would_grow_to_gigabytes_is_refused(tmp_path: Path) -> None:
    path = save(tmp_path, "hair.png", Image.new("L", (60_000, 1)))
    with pytest.raises(InputError, match=r"hair\.png: .*60000 x 1 pixels is too narrow.*crop it first"):
        load_images(path, classifier(224))


@pytest.mark.parametrize("mode", ["F", "I"])
def test_pixels_without_a_range_are_refused(tmp_path: Path, mode: str) -> None:
    path = save(tmp_path, "raw.tif", Image.new(mode, (8, 8)))
    with pytest.raises(InputError, match=rf"raw\.tif has '{mode}' pixels without a known range"):
        decode_image(path)


# ---- other proportions -----------------------------------------------------------------------------------------


def test_sizes_and_crops_are_those_of_torchvision(torchvision: ModuleType) -> None:
    """Over many proportions: the size after Resize, and the pixel that CenterCrop begins with."""
    from torchvision.transforms import functional

    different = 0
    for width in range(200, 420, 7):
        for height in range(190, 430, 11):
            resized = functional.resize(Image.new("L", (width, height)), 256).size
            scaled, (left, top) = fitted_size((width, height), (224, 224), 256)
            assert scaled == resized, (width, height)
            assert (left, top) == (round((resized[0] - 224) / 2), round((resized[1] - 224) / 2))
            different += scaled != tuple(round(256 / min(width, height) * side) for side in (width, height))
    assert different > 100  # rounding would give other sizes


@pytest.mark.parametrize("photo", [(61, 40), (40, 61), (50, 50), (33, 97)])
def test_a_cropped_photo_is_torchvisions_pixel_for_pixel(
    torchvision: ModuleType, photo: tuple[int, int]
) -> None:
    from torchvision.transforms import functional

    pixels = np.random.default_rng(0).integers(0, 256, (photo[1], photo[0], 3), dtype=np.uint8)
    image = Image.fromarray(pixels)
    expected = functional.center_crop(functional.resize(image, 24), [20, 20])
    assert np.array_equal(np.asarray(fit(image, (20, 20), 24, "bilinear")), np.asarray(expected))


def test_padding_shows_all_of_a_photo_on_the_nets_gray(tmp_path: Path) -> None:
    Image.new("RGB", (60, 10), (255, 0, 0)).save(tmp_path / "wide.png")
    f = classifier(12).fitting("pad")
    (image,) = load_images(tmp_path / "wide.png", f)
    assert bool((image[:, 5:7] == torch.tensor([1.0, 0.0, 0.0]).view(3, 1, 1)).all())
    gray = f.gray.view(3, 1, 1)
    torch.testing.assert_close(image[:, :5], gray.expand(3, 5, 12), rtol=0, atol=1 / 250)  # bytes
    assert f.settings()["fit"] == "pad" and "fit" not in classifier(12).settings()


def test_squashing_shows_all_of_a_photo_out_of_proportion() -> None:
    half = np.zeros((10, 60, 3), dtype=np.uint8)
    half[:, 30:] = 255
    squashed = np.asarray(fit(Image.fromarray(half), (12, 12), None, "box", "squash"))
    assert (squashed[:, :6] == 0).all() and (squashed[:, 6:] == 255).all()


def test_a_photo_of_which_little_is_seen_is_named(tmp_path: Path) -> None:
    Image.new("RGB", (120, 20)).save(tmp_path / "panorama.png")
    with pytest.warns(UserWarning, match=r"panorama.png is 120 x 20: the net sees the middle 17 % of it"):
        load_images(tmp_path / "panorama.png", classifier(8))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load_images(tmp_path / "panorama.png", classifier(8).fitting("pad"))


# ---- names -------------------------------------------------------------------------------------------------


def test_photos_go_by_the_names_of_their_files(tmp_path: Path) -> None:
    for place in ("a/cat.png", "b/cat.png", "tabby.v2.png"):
        (tmp_path / place).parent.mkdir(exist_ok=True)
        Image.fromarray(noise(9, 9, 3)).save(tmp_path / place)
    f = classifier(8)
    photos = load_images(tmp_path, f)
    proof = explain(f, photos, method="gradient", labels="top1")
    assert proof.evaluation.image_names == ("cat", "cat-2", "tabby.v2")
    assert "tabby.v2.gradient.png" in {path.name for path in proof.save(tmp_path / "out")}
    write_report(proof.evaluation, tmp_path / "page.html", explained=True)
    assert "tabby.v2" in (tmp_path / "page.html").read_text()
    found = evaluate(f, photos, methods=["gradient"], labels="top1", names=["x", "y", "z"])
    assert found.image_names == ("x", "y", "z"), "names that are given come first"
    for some in (
        photos[:2],
        photos[[0, 1]],
        photos[torch.tensor([True, True, False])],
        photos.double()[:2].float(),
    ):
        assert evaluate(f, some, methods=["gradient"]).image_names == ("cat", "cat-2")
    assert evaluate(f, photos[2:], methods=["gradient"], labels="top1").image_names == ("tabby.v2",)
    assert evaluate(f, photos * 0.5, methods=["gradient"]).image_names[0] == "image-0", "other images"
