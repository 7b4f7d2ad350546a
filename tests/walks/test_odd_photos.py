"""Someone with odd photos: every one is explained, or refused by name with the reason; in a folder the others go on."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.test_cli import MODEL, NET
from tests.walks.conftest import Proofmap

EXPLAIN = (*MODEL, "--method", "gradient", "--labels", "top2", "--quiet")


def photo(width: int = 48, height: int = 40, mode: str = "RGB") -> Image.Image:
    coarse = np.random.default_rng(0).integers(0, 256, (6, 6, 3), dtype=np.uint8)
    return Image.fromarray(coarse).resize((width, height)).convert(mode)


def file_of(image: Image.Image, format: str, **options: object) -> bytes:
    file = io.BytesIO()
    image.save(file, format, **options)  # type: ignore[arg-type]
    return file.getvalue()


def turned() -> bytes:
    exif = Image.Exif()
    exif[0x0112] = 6  # taken with the camera turned by a quarter
    return file_of(photo(), "JPEG", exif=exif)


def transparent() -> bytes:
    image = photo(mode="RGBA")
    image.putalpha(100)
    return file_of(image, "PNG")


def deep() -> bytes:
    values = np.random.default_rng(0).integers(0, 65536, (40, 48)).astype(np.uint16)
    return file_of(Image.fromarray(values), "PNG")


HEIC = b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + bytes(200)
GOOD: dict[str, Callable[[], bytes]] = {
    "turned.jpg": turned,
    "gray.png": lambda: file_of(photo(mode="L"), "PNG"),
    "palette.png": lambda: file_of(photo(mode="P"), "PNG"),
    "transparent.png": transparent,
    "cmyk.jpg": lambda: file_of(photo(mode="CMYK"), "JPEG"),
    "pixel.png": lambda: file_of(photo(1, 1), "PNG"),
    "animated.gif": lambda: file_of(
        photo(), "GIF", save_all=True, append_images=[photo(mode="L").convert("RGB")]
    ),
    "deep.png": deep,
    "wrong-suffix.png": lambda: file_of(photo(), "JPEG"),
    "straße 猫.png": lambda: file_of(photo(), "PNG"),
}
BAD: dict[str, Callable[[], bytes]] = {
    "truncated.jpg": lambda: file_of(photo(200, 200), "JPEG")[:-400],
    "renamed-heic.jpg": lambda: HEIC,
    "empty.png": lambda: b"",
    "text.png": lambda: b"not a picture",
}


@pytest.fixture
def photos(here: Path) -> Path:
    (here / "net.py").write_text(NET)
    (here / "photos").mkdir()
    return here / "photos"


def written(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()} if folder.exists() else set()


OURS = {"scores.csv", "pairs.csv", "evaluation.json", "maps.safetensors", "report.html"}


@pytest.mark.parametrize("name", [*BAD, "phone.heic"])
def test_a_photo_that_cannot_be_read_is_named(
    photos: Path, here: Path, proofmap: Proofmap, name: str
) -> None:
    (photos / name).write_bytes(BAD.get(name, lambda: HEIC)())
    proofmap("explain", f"photos/{name}", *EXPLAIN).refuses(name, "cannot be read")
    assert written(here / "proofs") == set()


@pytest.mark.filterwarnings("ignore:.*the net sees the middle")
def test_a_panorama_is_explained_by_its_middle_and_the_page_says_so(
    photos: Path, here: Path, proofmap: Proofmap
) -> None:
    photo(1200, 200).save(photos / "panorama.jpg")
    proofmap("explain", "photos/panorama.jpg", *EXPLAIN).works()
    page = (here / "proofs" / "report.html").read_text(encoding="utf-8")
    assert "The net sees 17 % of the original" in page
    assert "shown in full" not in re.sub(r"<script.*?</script>", "", page, flags=re.DOTALL)
    for fit in ("pad", "squash"):
        proofmap("explain", "photos/panorama.jpg", *EXPLAIN, "--fit", fit, "--force").works()
        assert "inside the frame" not in (here / "proofs" / "report.html").read_text(encoding="utf-8")


def test_a_turned_photo_is_upright(photos: Path, here: Path, proofmap: Proofmap) -> None:
    """A photo that the camera stored turned gives, to the last digit, what the one that was stored upright gives."""
    exif = Image.open(io.BytesIO(turned())).getexif()
    (photos / "turned.png").write_bytes(file_of(photo(), "PNG", exif=exif))
    photo().transpose(Image.Transpose.ROTATE_270).save(photos / "upright.png")
    photo().save(photos / "lying.png")
    proofmap("explain", "photos", *EXPLAIN, "--labels", "all").works()
    with open(here / "proofs" / "pairs.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    f = {name: [row["f"] for row in rows if row["image"] == name] for name in ("turned", "upright", "lying")}
    assert len(f["turned"]) == 4 and f["turned"] == f["upright"] != f["lying"]


def test_a_folder_of_all_of_them(photos: Path, here: Path, proofmap: Proofmap) -> None:
    for name, made in {**GOOD, **BAD}.items():
        (photos / name).write_bytes(made())
    answer = proofmap("explain", "photos", *EXPLAIN)
    assert answer.code == 3, "some could not be read"
    assert answer.err.count("failed: ") == len(BAD)
    for name in BAD:
        assert re.search(rf"failed: .*{re.escape(name)} cannot be read", answer.err)
    names = {f"{Path(name).stem.replace(' ', '_')}.gradient.png" for name in GOOD}
    assert written(here / "proofs") == OURS | names
    flags = ("--data", "photos", "--methods", "gradient", "--no-pictures", "--quiet", "--out", "run")
    answer = proofmap("evaluate", *flags, *MODEL)
    assert answer.code == 3 and f"{len(BAD)} failed" in answer.err
    assert f"{len(GOOD)} images" in answer.out


def test_a_folder_of_nothing_that_can_be_read(photos: Path, here: Path, proofmap: Proofmap) -> None:
    (photos / "notes.txt").write_text("no picture")
    proofmap("explain", "photos", *EXPLAIN).refuses("holds no images", ".png")
    proofmap("explain", "nowhere", *EXPLAIN).refuses("there is no file or folder nowhere")
    assert not (here / "proofs").exists()
