"""Photos by name, as a classifier takes them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path

import torch
from PIL import Image

from proofmap.classifier import Classifier
from proofmap.core.errors import InputError
from proofmap.core.inputs import Pictures
from proofmap.core.named_images import NamedImages
from proofmap.core.pictures import read_image
from proofmap.data.folders import printable
from proofmap.data.samples import find_photos

LEAST_SHARE = 0.4
"""A photo of 3 : 2, cut as nets for ImageNet cut it, keeps half of its area; below this the crop is worth a word."""


class CropWarning(UserWarning):
    """The net sees only a small part of a photo."""


def load_images(paths: str | Path | Sequence[str | Path], classifier: Classifier) -> NamedImages:
    """Photos ``(N, 3, H, W)`` on the classifier's device, resized and cropped by its own preprocessing.

    Gray-scale becomes RGB; transparency shows the classifier's gray; a folder stands for all images inside it, and
    ``sample:cat`` for a photograph that ships along. The tensor has ``file_names``, which tables, pages and pictures made from it
    use; so does every part of it (``photos[:2]``), see :class:`proofmap.core.named_images.NamedImages`.
    """
    given = [paths] if isinstance(paths, (str, Path)) else list(paths)
    if not isinstance(classifier.inputs, Pictures):
        raise InputError(f"photos are pictures, but the classifier takes {classifier.inputs.noun}")
    if classifier.channels not in (1, 3):
        raise InputError(f"photos have 1 or 3 channels, but the classifier takes {classifier.channels}")
    photos = []
    paths = find_photos(given)
    for path in paths:
        photo = read_image(path)
        photos.append(classifier.inputs.prepare(photo))
        warn_of_crop(path.name, photo, classifier.inputs)
    images = torch.stack(photos).to(classifier.device)
    return NamedImages.of(images, [printable(path.stem) for path in paths])


def warn_of_crop(name: str, photo: Image.Image, inputs: Pictures) -> None:
    """Say so where the net sees less than half of what a usual crop leaves of a photo."""
    share = inputs.seen_share(photo)
    if share < LEAST_SHARE:
        warnings.warn(
            f"{name} is {photo.width} x {photo.height}: the net sees the middle {100 * share:.0f} % of it. "
            "fit='pad' (--fit pad) shows all of it, fit='squash' all of it out of proportion",
            CropWarning,
            stacklevel=3,
        )
