"""Load photos by name or path, as a classifier takes them. Sample photographs come with scikit-image and need no download."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from PIL import Image

from proofmap.classifier.raw import as_classifier
from proofmap.core.errors import InputError, require
from proofmap.core.files import check_ends, distinct_names, suggest_path
from proofmap.core.inputs import Pictures
from proofmap.core.inputs.pictures import SUFFIXES, decode_image
from proofmap.core.tensors import NamedImages
from proofmap.core.text import check_known, did_you_mean, one_line
from proofmap.data.dataset import reader
from proofmap.data.folders import ImageFiles, files_below, printable

SAMPLES: dict[str, str] = {
    "astronaut": "astronaut.png",
    "brick": "brick.png",
    "camera": "camera.png",
    "cat": "chelsea.png",
    "clock": "clock_motion.png",
    "coffee": "coffee.png",
    "coins": "coins.png",
    "grass": "grass.png",
    "gravel": "gravel.png",
    "hubble": "hubble_deep_field.jpg",
    "moon": "moon.png",
    "motorcycle": "motorcycle_left.png",
    "page": "page.png",
    "retina": "retina.jpg",
    "rocket": "rocket.jpg",
    "tissue": "ihc.png",
}
"""Short names of the photographs, and their files."""

_MOST_LISTED = 20_000  # names of a folder
SAMPLE = "sample:"
"""The prefix that marks the name of a sample photograph in a list of files."""


def sample_path(name: str) -> Path:
    """The file of a sample photograph on this machine."""
    check_known("sample", name, SAMPLES, most=1)
    package = require(
        "skimage",
        extra="demo",
        purpose=f"the sample photograph {name!r} (distractors may also be a folder: fill=images:FOLDER)",
    )
    assert package.__file__ is not None
    path = Path(package.__file__).parent / "data" / SAMPLES[name]
    if not path.is_file():
        raise InputError(
            f"scikit-image is installed, but its file {SAMPLES[name]} is not; reinstall scikit-image"
        )
    return path


def find_photos(places: Iterable[str | Path]) -> list[Path]:
    """The image files among files, folders and samples (``sample:cat``), in a fixed order. Folders inside folders are searched too."""
    found: list[Path] = []
    for place in map(str, places):
        path = sample_path(place[len(SAMPLE) :]) if place.startswith(SAMPLE) else Path(place)
        if not place.strip():
            raise InputError("a photo without a name was given; name a file or folder")
        if not path.exists():
            raise InputError(
                f"{place} is an address; photos are read from files, so download it first"
                if "://" in place
                else no_such_place(place)
            )
        check_ends(path)
        inside = (
            [path / file for file in files_below(path) if (path / file).is_file()]
            if path.is_dir()
            else [path]
        )
        if not inside:
            raise InputError(f"the folder {place} holds no images ({', '.join(sorted(SUFFIXES))})")
        found += inside
    if not found:
        raise InputError("no image was given; name at least one file or folder")
    return found


def no_such_place(place: str, suffixes: Collection[str] = SUFFIXES) -> str:
    """The error message for a path that does not exist. It suggests a similar name, a sample, or files nearby with these suffixes."""
    hint = (
        suggest_path(place)
        or did_you_mean(Path(place).stem.lower(), SAMPLES, most=1, before=SAMPLE)
        or _nearby(Path(place).parent, suffixes)
        or f" Sample photographs are named as in {SAMPLE}rocket."
    )
    return f"there is no file or folder {place}.{hint}"


def _nearby(folder: Path, suffixes: Collection[str]) -> str:
    """A sentence that names up to three files with these suffixes in a folder; empty if there are none."""
    found: list[str] = []
    with suppress(OSError, ValueError), os.scandir(folder) as entries:
        names = (entry.name for entry in islice(entries, _MOST_LISTED) if not entry.name.startswith("."))
        found = sorted(name for name in names if Path(name).suffix.lower() in suffixes)
    shown = ", ".join(one_line(str(folder / name)) for name in found[:3])
    return f" Near it: {shown}{f' and {len(found) - 3} more' if len(found) > 3 else ''}." if found else ""


def load_sample(name: str) -> Image.Image:
    """A sample photograph as RGB."""
    return decode_image(sample_path(name)).convert("RGB")


# ---- as datasets ----


@reader("samples", "samples", "the 16 photographs inside scikit-image; no labels")
def sample_photos() -> ImageFiles:
    """The photographs inside scikit-image, by their short names, without labels."""
    paths = [sample_path(name) for name in SAMPLES]
    return ImageFiles(
        paths[0].parent,
        [path.name for path in paths],
        names=list(SAMPLES),
        title="samples",
        settings={"dataset": "samples"},
    )


@reader("photos", "PHOTO PHOTO ...", "photos and folders named one by one")
def photographs(places: Sequence[str | Path]) -> ImageFiles:
    """The photos in files and folders, named by their files. ``sample:cat`` is a photograph that comes with scikit-image."""
    samples = {place: str(place)[len(SAMPLE) :] for place in places if str(place).startswith(SAMPLE)}
    paths = find_photos(places)
    called = {sample_path(name): name for name in samples.values()}
    names = distinct_names([called.get(path) or printable(path.name) for path in paths])
    files = [os.path.abspath(path) for path in paths]
    absolute = [str(place) if place in samples else os.path.abspath(place) for place in dict.fromkeys(places)]
    return ImageFiles(
        "", files, names=names, title="photos", settings={"dataset": "photos", "places": absolute}
    )


# ---- as tensors -------------------------------------------------------------------------------------------------


def load_images(paths: str | Path | Sequence[str | Path], classifier: Any) -> NamedImages:
    """Photos ``(N, 3, H, W)`` on the classifier's device, resized and cropped by the classifier's preprocessing.

    The classifier may be a net of timm as it is. Gray-scale becomes RGB; transparent pixels show the classifier's gray. A folder stands for all images inside it, ``sample:cat`` for a
    sample photograph. The tensor and its slices (``photos[:2]``) have ``file_names``, which tables and pages use: see
    :class:`proofmap.core.tensors.NamedImages`.
    """
    given = [paths] if isinstance(paths, (str, Path)) else list(paths)
    classifier = as_classifier(classifier, paths)
    inputs = classifier.inputs
    if not isinstance(inputs, Pictures) or inputs.channels not in (1, 3):
        raise InputError(
            f"photos are pictures of 1 or 3 channels, but the classifier takes {inputs.noun} of {inputs.channels}"
        )
    photos = []
    paths = find_photos(given)
    for path in paths:
        photo = decode_image(path)
        try:
            photos.append(inputs.prepare(photo))
        except InputError as error:
            raise InputError(f"{printable(str(path))}: {error}") from None
        inputs.warn_of_crop(path.name, photo)
    images = torch.stack(photos).to(classifier.device)
    return NamedImages.of(images, [printable(path.stem) for path in paths])
