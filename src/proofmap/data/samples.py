"""The photographs that ship inside scikit-image's wheel: enough to show everything without a download."""

from __future__ import annotations

from pathlib import Path

from PIL import Image

from proofmap.core.errors import InputError, require
from proofmap.core.pictures import read_image

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
        raise InputError(f"no sample is named {name!r}; known are {', '.join(SAMPLES)}")
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


def load_sample(name: str) -> Image.Image:
    """A sample photograph as RGB."""
    return read_image(sample_path(name)).convert("RGB")
