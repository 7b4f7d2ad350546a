"""Nets that state their size, normalisation and names; batches that are normalised already."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image

import proofmap as pm
from proofmap.core.inputs import Pictures
from tests.toys import conv_net, pixels

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SCALE = torch.tensor(MEAN).view(-1, 1, 1), torch.tensor(STD).view(-1, 1, 1)
PIXELS = pixels(4, 8)
X = (PIXELS - SCALE[0]) / SCALE[1]


class Mode(Enum):
    BICUBIC = "bicubic"


def preset() -> SimpleNamespace:
    """What ``weights.transforms()`` of torchvision states."""
    return SimpleNamespace(crop_size=[8], resize_size=[10], mean=MEAN, std=STD, interpolation=Mode.BICUBIC)


def test_transforms_state_size_and_normalisation() -> None:
    net = pm.Classifier(conv_net(), transforms=preset())
    assert net.inputs == Pictures(size=8, mean=MEAN, std=STD, resize=10, interpolation="bicubic")  # type: ignore[arg-type]
    with pytest.raises(
        pm.InputError, match=r"transforms must be those of torchvision's weights.*not function"
    ):
        pm.Classifier(conv_net(), transforms=lambda x: x)


def test_a_net_of_timm_states_all(timm: ModuleType) -> None:
    net = pm.Classifier(timm.create_model("test_vit.r160_in1k", pretrained=False))
    loaded = pm.load_classifier("timm:test_vit.r160_in1k?pretrained=false")
    assert net.inputs == loaded.inputs and net.names[:3] == loaded.names[:3]
    bare = timm.create_model("test_vit.r160_in1k", pretrained=False, num_classes=3)
    assert pm.Classifier(bare, size=160).names == ("0", "1", "2")


def test_normalised_batches_give_the_numbers_of_pixels() -> None:
    net = pm.Classifier(conv_net(), size=8, mean=MEAN, std=STD, normalised=True)
    of_pixels = pm.Classifier(conv_net(), size=8, mean=MEAN, std=STD)
    assert torch.allclose(net.probabilities(X), of_pixels.probabilities(PIXELS), atol=1e-5)
    how = {"methods": "gradient,occlusion:window=4,stride=4", "labels": "top2", "metrics": "soundness"}
    found, expected = pm.evaluate(net, X, **how), pm.evaluate(of_pixels, PIXELS, **how)
    assert found.to_dict() == pytest.approx(expected.to_dict(), abs=1e-3)
    assert net.gray.tolist() == [0, 0, 0]
    assert Pictures.from_record(net.inputs.record()) == net.inputs


def test_pictures_have_their_colours_and_photos_are_read(tmp_path: Path) -> None:
    net = pm.Classifier(conv_net(), size=8, mean=MEAN, std=STD, normalised=True)
    of_pixels = pm.Classifier(conv_net(), size=8, mean=MEAN, std=STD)
    assert np.array_equal(net.inputs.picture(X[0]), of_pixels.inputs.picture(PIXELS[0]))
    Image.fromarray((PIXELS[0].movedim(0, -1).numpy() * 255).round().astype(np.uint8)).save(
        tmp_path / "a.png"
    )
    read = pm.load_images([tmp_path / "a.png"], net)
    assert torch.allclose(read, X[:1], atol=1e-5)


def test_pixels_are_refused_where_normalised_ones_were_announced() -> None:
    net = pm.Classifier(conv_net(), size=8, mean=MEAN, std=STD, normalised=True)
    with pytest.raises(
        pm.InputError,
        match=r"the images lie in \[0.*, 1\], as pixels do, but .* values down to -2\.12; normalise them",
    ):
        pm.explain(net, PIXELS)
