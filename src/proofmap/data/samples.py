"""The photographs that ship inside scikit-image's wheel: enough to show everything without a download."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from pathlib import Path

from PIL import Image

from proofmap.core.errors import InputError, require
from proofmap.core.near import alike, beside
from proofmap.core.pictures import SUFFIXES, find_images, read_image
from proofmap.core.text import did_you_mean

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
"""Short names of the photographs, and the files they are."""

SAMPLE = "sample:"
"""What stands before the name of one, where files are named too."""


def sample_path(name: str) -> Path:
    """The file of a sample photograph on this machine."""
    if name not in SAMPLES:
        raise InputError(
            f"no sample is named {name!r}.{did_you_mean(name, SAMPLES, most=1)} Known are: {', '.join(SAMPLES)}"
        )
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
    """The image files among files, folders and samples (``sample:cat``), in a fixed order; one that is not there is answered
    with what lies near it, or with the samples."""
    return find_images([_file(str(place)) for place in places])


def _file(place: str) -> Path:
    if place.startswith(SAMPLE):
        return sample_path(place[len(SAMPLE) :])
    if os.path.exists(place):
        return Path(place)
    if not place.strip():
        raise InputError("a photo without a name was given; name a file or folder")
    if "://" in place:
        raise InputError(f"{place} is an address; photos are read from files, so download it first")
    raise InputError(no_such_place(place))


def no_such_place(place: str, suffixes: Collection[str] = SUFFIXES) -> str:
    """That there is no file or folder here, and what there is: a name like it, the sample of that name, or files beside it
    of these suffixes."""
    hint = (
        alike(place)
        or did_you_mean(Path(place).stem.lower(), SAMPLES, most=1, before=SAMPLE)
        or beside(place, suffixes)
        or f" Photographs that ship along are named as in {SAMPLE}rocket."
    )
    return f"there is no file or folder {place}.{hint}"


def load_sample(name: str) -> Image.Image:
    """A sample photograph as RGB."""
    return read_image(sample_path(name)).convert("RGB")
