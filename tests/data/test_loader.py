"""The loader: all pictures in order, decoded ahead but not far ahead, faults beside them, and no thread left."""

from __future__ import annotations

import _thread
import importlib
import re
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from proofmap.classifier import Classifier
from proofmap.core.errors import InputError, MissingExtra
from proofmap.data import Dataset, ImageBlock, load_blocks, loader, open_data, rebuild_dataset
from proofmap.data.folders import image_folder
from proofmap.data.photos import SAMPLES, find_photos, load_images, load_sample, photographs, sample_path
from tests.data.made_up import Scripted, bomb, jpeg, noise, save

LONG = 600.0  # seconds after which something that must happen has not


def classifier(size: int | tuple[int, int] = 4, channels: int = 3, **arguments: Any) -> Classifier:
    mean, std = (0.5, 0.4, 0.3)[:channels], (1.0,) * channels
    if channels > 3:
        mean = (0.5,) * channels
    return Classifier(lambda x: x.flatten(1)[:, :4], size=size, mean=mean, std=std, **arguments)


def loader_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("proofmap-loader")]


@pytest.fixture(autouse=True, scope="module")
def three_threads() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(loader, "_cores", lambda: 3)
        yield


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    yield
    assert loader_threads() == []


def brightness(block: ImageBlock) -> list[int]:
    return (block.images[:, 0, 0, 0] * 255).round().int().tolist()


# ---- what arrives ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("block_size, ahead", [(1, 0), (3, 2), (50, 7)])
def test_every_picture_arrives_once_and_in_order(block_size: int, ahead: int) -> None:
    pictures = Scripted(23)
    order = [*range(22, -1, -2), *range(1, 23, 2), 5]  # also twice
    blocks = list(load_blocks(pictures, classifier(), order, block_size=block_size, ahead=ahead))
    assert [i for block in blocks for i in block.indices] == order
    assert [value for block in blocks for value in brightness(block)] == order
    assert [len(block.images) for block in blocks[:-1]] == [block_size] * (len(blocks) - 1)
    assert all(not block.failures for block in blocks)


def test_the_order_is_kept_when_the_first_is_the_slowest() -> None:
    second = threading.Event()

    def first_waits_for_second(i: int) -> None:
        second.set() if i == 1 else second.wait(LONG)

    (block,) = load_blocks(Scripted(2, first_waits_for_second), classifier())
    assert second.is_set() and brightness(block) == [0, 1]


@pytest.mark.filterwarnings("ignore:.*the net sees the middle")
def test_images_are_prepared_as_by_load_images(tmp_path: Path) -> None:
    save(tmp_path, "a.png", noise(0, 20, 31))
    save(tmp_path, "b.jpg", noise(1, 40, 13))
    save(tmp_path, "clear.png", np.dstack([noise(2, 9, 9), noise(3, 9, 9)[:, :, 0]]))
    save(tmp_path, "gray.png", noise(4, 12, 12)[:, :, 0])
    save(tmp_path, "deep.png", (noise(5)[:, :, 0].astype(np.uint16) * 257))
    save(tmp_path, "turned.jpg", noise(6, 8, 16), exif=_turned())
    for f in (
        classifier(8),
        classifier((6, 9), resize=11, interpolation="bicubic"),
        classifier(7, channels=1),
    ):
        (block,) = load_blocks(image_folder(tmp_path), f)
        assert block.images.shape == (6, f.inputs.channels, *f.size)
        torch.testing.assert_close(block.images, load_images(tmp_path, f), rtol=0, atol=1e-6)


def _turned() -> Image.Exif:
    exif = Image.Exif()
    exif[0x0112] = 6
    return exif


def test_a_picture_that_is_already_cut_loses_no_margin() -> None:
    cut = Image.fromarray(noise(0, 8, 8))
    f = classifier(8, resize=10)
    np.testing.assert_array_equal(
        (f.inputs.prepare(cut, cropped=True) * 255).round().numpy(), noise(0, 8, 8).transpose(2, 0, 1)
    )
    expected = cut.resize((10, 10), Image.Resampling.BILINEAR).crop((1, 1, 9, 9))
    np.testing.assert_array_equal(
        (f.inputs.prepare(cut) * 255).round().numpy(), np.asarray(expected).transpose(2, 0, 1)
    )


def test_the_datasets_own_frame_is_respected() -> None:
    edge = Image.new("RGB", (8, 8), (255, 255, 255))
    edge.paste((0, 0, 0), (1, 1, 7, 7))

    class Edged(Scripted):
        def read(self, i: int) -> Image.Image:
            return edge

    for cropped in (True, False):
        (block,) = load_blocks(Edged(1, cropped=cropped), classifier(8, resize=12))
        assert bool(block.images[0, :, 0].eq(1).all()) is cropped


def test_no_indices_are_no_blocks() -> None:
    assert list(load_blocks(Scripted(3), classifier(), [])) == []


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_images_arrive_on_the_classifiers_device() -> None:
    f = classifier(device="cuda")
    for block in load_blocks(Scripted(9), f, block_size=4):
        assert block.images.device.type == "cuda"
        assert brightness(block) == list(block.indices)


# ---- how far ahead --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ahead", [0, 1, 3])
def test_no_more_is_decoded_than_the_look_ahead(ahead: int) -> None:
    pictures = Scripted(100)
    blocks = load_blocks(pictures, classifier(), block_size=4, ahead=ahead)
    for taken in range(1, 10):
        next(blocks)
        assert max(pictures.started) < 4 * (taken + ahead)
    blocks.close()


def test_the_next_blocks_are_decoded_while_one_is_in_use() -> None:
    far = threading.Event()

    def tell(i: int) -> None:
        if i == 11:
            far.set()

    blocks = load_blocks(Scripted(40, tell), classifier(), block_size=4, ahead=2)
    assert next(blocks).indices == (0, 1, 2, 3)
    assert far.wait(LONG), "nobody asked for the third block yet, but it should be on its way"
    blocks.close()


def test_several_threads_decode_at_once() -> None:
    meeting = threading.Barrier(3)
    (block,) = load_blocks(Scripted(3, lambda i: _wait(meeting)), classifier())
    assert not block.failures  # a barrier that is not passed breaks


def _wait(meeting: threading.Barrier) -> None:
    meeting.wait(LONG)


# ---- faults ---------------------------------------------------------------------------------------------------


class Faulty(Scripted):
    """Pictures of the given numbers cannot be read."""

    def __init__(self, n: int, bad: set[int]) -> None:
        super().__init__(n)
        self.bad = bad

    def read(self, i: int) -> Image.Image:
        if i in self.bad:
            raise InputError(f"picture {i} is torn")
        return super().read(i)


@given(st.integers(1, 12).flatmap(lambda n: st.tuples(st.just(n), st.sets(st.integers(0, n - 1)))))
def test_each_picture_is_an_image_or_a_failure(case: tuple[int, set[int]]) -> None:
    n, bad = case
    blocks = list(load_blocks(Faulty(n, bad), classifier(), block_size=5))
    assert [len(block.indices) + len(block.failures) for block in blocks] == [
        min(5, n - k) for k in range(0, n, 5)
    ]
    assert [i for block in blocks for i in block.indices] == [i for i in range(n) if i not in bad]
    assert [i for block in blocks for i in brightness(block)] == [i for i in range(n) if i not in bad]
    told = [failure for block in blocks for failure in block.failures.items()]
    assert told == [(f"picture-{i}", f"picture {i} is torn") for i in sorted(bad)]


BAD: dict[str, tuple[bytes, str]] = {
    "cut.jpg": (jpeg(60, 70)[:2500], "cut.jpg cannot be read as an image: image file is truncated"),
    "empty.jpg": (b"", "empty.jpg cannot be read as an image"),
    "text.jpg": (b"hello", "text.jpg cannot be read as an image"),
    "large.png": (bomb(10_000), "large.png is too large .*MAX_IMAGE_PIXELS"),  # Pillow would only warn
    "huge.png": (bomb(20_000), "huge.png is too large .*MAX_IMAGE_PIXELS"),
    "script.png": (
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n",
        "script.png cannot be read as an image: it is damaged, or not in a format",
    ),
}


@pytest.mark.parametrize("filters", ["error", "ignore"])
@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_named_and_the_rest_arrives(tmp_path: Path, name: str, filters: Any) -> None:
    content, told = BAD[name]
    save(tmp_path, "a.png"), save(tmp_path, "z.png", 1)
    (tmp_path / name).write_bytes(content)
    with warnings.catch_warnings():
        warnings.simplefilter(filters, Image.DecompressionBombWarning)
        (block,) = load_blocks(image_folder(tmp_path), classifier())
    assert block.indices == (0, 2)
    ((named, reason),) = block.failures.items()
    assert named == name
    assert re.search(f"{tmp_path}/{told}", reason)


def test_what_vanishes_or_leads_nowhere_is_a_failure(tmp_path: Path) -> None:
    for name in ("a.png", "b.png"):
        save(tmp_path, name)
    (tmp_path / "c.png").symlink_to(tmp_path / "nowhere.png")
    photos = image_folder(tmp_path)
    (tmp_path / "b.png").unlink()
    (block,) = load_blocks(photos, classifier())
    assert block.indices == (0,)
    assert list(block.failures) == ["b.png", "c.png"]
    assert all("there is no file" in reason for reason in block.failures.values())
    with pytest.raises(InputError, match=r"b\.png cannot be read: No such file"):
        photos.digest(1)


# ---- ends -----------------------------------------------------------------------------------------------------


def endless(**arguments: Any) -> Iterator[ImageBlock]:
    return load_blocks(Scripted(10_000), classifier(), block_size=2, **arguments)


def test_an_abandoned_iteration_leaves_no_thread() -> None:
    for _ in endless():
        assert loader_threads()
        break
    assert loader_threads() == []


def test_ctrl_c_while_waiting_leaves_no_thread() -> None:
    interrupted = threading.Event()

    def interrupt(i: int) -> None:
        if i == 20:
            interrupted.set()
            _thread.interrupt_main()

    def consume() -> None:
        for _ in load_blocks(Scripted(10_000, interrupt), classifier(), block_size=4, ahead=1):
            pass

    with pytest.raises(KeyboardInterrupt):
        consume()
    assert interrupted.is_set()
    assert loader_threads() == []


# ---- arguments ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call, told",
    [
        (lambda d: load_blocks(d, classifier(), [0, 3]), "no item 3: scripted has 0 to 2"),
        (lambda d: load_blocks(d, classifier(), [-1]), "no item -1"),
        (lambda d: load_blocks(d, classifier(), block_size=0), "block_size must be at least 1, got 0"),
        (lambda d: load_blocks(d, classifier(channels=4)), "the classifier takes 4"),
    ],
)
def test_wrong_arguments_are_refused_at_once(call: Callable[[Dataset], object], told: str) -> None:
    with pytest.raises(InputError, match=told):
        call(Scripted(3))


# ---- real photos ----------------------------------------------------------------------------------------------


# ---- The photographs inside scikit-image: all there, all readable, and missed with a helpful word ---------------------


@pytest.mark.parametrize("name", SAMPLES)
def test_every_sample_is_a_photograph(name: str) -> None:
    pytest.importorskip("skimage")
    photo = load_sample(name)
    assert photo.mode == "RGB"
    assert min(photo.size) >= 150
    assert len(np.unique(np.asarray(photo.resize((32, 32))))) > 10  # not one colour


def test_an_unknown_sample_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(InputError, match="no sample is named 'zebra'\\. Known are: astronaut, brick"):
        sample_path("zebra")


@pytest.mark.parametrize(
    "given, told",
    [
        ("photos/holidy.jpg", "no file or folder photos/holidy.jpg. Did you mean 'photos/Holiday.JPG'?"),
        ("photoz/holiday.jpg", "Did you mean 'photos'?"),
        ("photoz/Holiday.JPG", "Did you mean 'photos/Holiday.JPG'?"),
        ("photos/xyz.png", "Near it: photos/Holiday.JPG, photos/b.png, photos/c.png and 1 more."),
        ("photos/b.jpg", "Did you mean 'photos/b.png'"),
        ("rocket.jpg", "Did you mean 'sample:rocket'?"),
        ("rocket", "Did you mean 'sample:rocket'?"),
        ("motorcycl.png", "Did you mean 'sample:motorcycle'?"),
        ("xyz.png", "Sample photographs are named as in sample:rocket"),
        ("other/folder/xyz.png", "Sample photographs are named as in sample:rocket"),
        ("https://example.org/cat.jpg", "is an address; photos are read from files, so download it first"),
        ("sample:rockt", "no sample is named 'rockt'. Did you mean 'rocket'? Known are: astronaut"),
    ],
)
def test_a_photo_that_is_not_there_is_answered_with_what_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str, told: str
) -> None:
    (tmp_path / "photos").mkdir()
    for name in ("Holiday.JPG", "b.png", "c.png", "d.webp", "notes.txt", ".hidden.png"):
        (tmp_path / "photos" / name).touch()
    monkeypatch.chdir(tmp_path)
    for ask in (photographs, open_data, find_photos):
        with pytest.raises(InputError, match=re.escape(told)):
            ask([given])  # type: ignore[operator]


def test_without_scikit_image_one_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError(f"No module named {name!r}")

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(MissingExtra, match=r"pip install 'proofmap\[demo\]'"):
        load_sample("cat")


# ---- photos named one by one ----


def photo(path: Path, value: int = 0) -> Path:
    path.parent.mkdir(exist_ok=True)
    Image.fromarray(np.full((8, 8, 3), value, dtype=np.uint8)).save(path)
    return path


def test_photos_folders_and_samples_come_in_the_order_named(tmp_path: Path) -> None:
    one, two = photo(tmp_path / "b.png", 1), photo(tmp_path / "more" / "b.png", 2)
    found = photographs([str(one), "sample:cat", str(tmp_path / "more")])
    assert list(found.names) == ["b.png", "cat", "b.png-2"]
    assert found.path(2) == two
    again = rebuild_dataset(found.settings())
    assert list(again.names) == list(found.names) and again.digest(2) == found.digest(2)


def test_one_string_is_a_dataset_unless_it_is_a_photo(tmp_path: Path) -> None:
    one = photo(tmp_path / "photos" / "a.png")
    assert open_data([str(one)]).title == "photos"
    assert open_data(str(tmp_path / "photos")).title == "photos"  # the folder's own name
    assert open_data(["samples"]).title == "samples"
    table = tmp_path / "photos" / "labels.csv"
    table.write_text("file,class_index\na.png,3\n")
    assert open_data([str(table)]).truth(0) == 3
    with pytest.raises(InputError, match="no data was named"):
        open_data([])
    with pytest.raises(InputError, match="no file or folder"):
        open_data([str(one), str(tmp_path / "gone.png")])
