"""The small vision transformer: its shape, its frozen view, and the weights that travel with the package."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn

from proofmap.classifier import Classifier
from proofmap.data.arrays import load_cifar
from proofmap.models import load_classifier
from proofmap.models.cifar_vit import Attention, CifarViT, classifier_arguments
from tests.toys import drawn, pixels


def random_net() -> CifarViT:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return CifarViT().eval()


def test_attention_is_that_of_torch() -> None:
    ours, theirs = drawn(Attention(8, 2)), nn.MultiheadAttention(8, 2, batch_first=True).eval()
    pairs = {"in_proj_weight": ours.qkv.weight, "in_proj_bias": ours.qkv.bias}
    pairs |= {"out_proj.weight": ours.proj.weight, "out_proj.bias": ours.proj.bias}
    theirs.load_state_dict(pairs)
    x: Tensor = torch.rand(2, 5, 8, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(ours(x), theirs(x, x, x)[0], rtol=1e-4, atol=1e-5)


def test_the_frozen_view_is_the_same_function() -> None:
    f, images = Classifier(random_net(), **classifier_arguments(), batch_size=4), pixels(3, 32)
    torch.testing.assert_close(f.frozen().logits(images), f.logits(images), rtol=1e-3, atol=1e-4)


def test_the_weights_in_the_package_are_right_on_real_pictures(data: Path) -> None:
    images, labels = load_cifar(data / "cifar-10-batches-py" / "test_batch")
    f = load_classifier("cifar10-vit", batch_size=100)
    assert float((f.logits(images[:300]).argmax(dim=1) == labels[:300]).float().mean()) > 0.72
