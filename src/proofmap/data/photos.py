"""Photos by name, as a classifier takes them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core.errors import InputError
from proofmap.core.inputs import Pictures
from proofmap.core.pictures import find_images, read_image


def load_images(paths: str | Path | Sequence[str | Path], classifier: Classifier) -> Tensor:
    """Photos ``(N, 3, H, W)`` on the classifier's device, resized and cropped by its own preprocessing.

    Gray-scale becomes RGB; transparency shows the classifier's gray; a folder stands for all images inside it.
    """
    places = [paths] if isinstance(paths, (str, Path)) else list(paths)
    if not isinstance(classifier.inputs, Pictures):
        raise InputError(f"photos are pictures, but the classifier takes {classifier.inputs.noun}")
    if classifier.channels not in (1, 3):
        raise InputError(f"photos have 1 or 3 channels, but the classifier takes {classifier.channels}")
    photos = [classifier.inputs.prepare(read_image(path)) for path in find_images(places)]
    return torch.stack(photos).to(classifier.device)
