"""A vision transformer for 32x32 images, small enough for this package to contain its weights.

The architecture is that of Dosovitskiy et al., *An image is worth 16x16 words* (ICLR 2021): tokens of 4x4 pixels, a class token,
learned position embeddings, pre-norm blocks, logits from the class token. Two convolutions with stride 2 make the
tokens (Xiao et al., *Early convolutions help transformers see better*, NeurIPS 2021), because there are few training images.
``benchmarks/train_vit.py`` trains the net.
"""

from __future__ import annotations

from functools import partial
from importlib.resources import files
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from proofmap.models.names import label_names
from proofmap.models.spec import ModelInfo
from proofmap.models.weights import OwnNet, load_state

_PACKAGED = str(  # in half precision
    files("proofmap.models").joinpath("cifar10_vit.safetensors")
)
DIM, DEPTH, HEADS, HIDDEN, SIDE = 128, 6, 4, 256, 8


class Attention(nn.Module):
    """Multi-head self-attention: ``(N, T, dim)`` to ``(N, T, dim)``."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v)
        out: Tensor = self.proj(y.transpose(1, 2).flatten(2))
        return out


class Block(nn.Module):
    """A pre-norm transformer block: attention, then a two-layer MLP, each after a layer norm and with a residual connection."""

    def __init__(self, dim: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(dim), Attention(dim, heads)
        self.norm2 = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, hidden), nn.GELU(), nn.Linear(hidden, dim))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        out: Tensor = x + self.mlp(self.norm2(x))
        return out


class CifarViT(nn.Module):
    """A net from normalised images ``(N, 3, 32, 32)`` to logits ``(N, num_classes)``, with 0.88 million weights.

    >>> CifarViT().eval()(torch.zeros(1, 3, 32, 32)).shape
    torch.Size([1, 10])
    """

    def __init__(self, num_classes: int = 10) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, DIM // 2, 3, 2, padding=1, bias=False),
            nn.BatchNorm2d(DIM // 2),
            nn.ReLU(),
            nn.Conv2d(DIM // 2, DIM, 3, 2, padding=1, bias=False),
            nn.BatchNorm2d(DIM),
        )
        self.class_token = nn.Parameter(0.02 * torch.randn(1, 1, DIM))
        self.positions = nn.Parameter(0.02 * torch.randn(1, 1 + SIDE * SIDE, DIM))
        self.blocks = nn.Sequential(*(Block(DIM, HEADS, HIDDEN) for _ in range(DEPTH)))
        self.norm, self.fc = nn.LayerNorm(DIM), nn.Linear(DIM, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        patches = self.stem(x).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.class_token.expand(x.shape[0], -1, -1), patches], dim=1)
        logits: Tensor = self.fc(self.norm(self.blocks(tokens + self.positions))[:, 0])
        return logits


def classifier_arguments() -> dict[str, Any]:
    """The arguments of Classifier for this net, other than the net itself."""
    return {
        "size": 32,
        "mean": (0.4914, 0.4822, 0.4465),
        "std": (0.2470, 0.2435, 0.2616),
        "names": label_names("cifar10"),
    }


MODELS = (
    OwnNet(
        ModelInfo(
            name="cifar10-vit",
            size=32,
            weights="inside this package",
            description="CIFAR-10; a small vision transformer, 8 x 8 patches and a class token",
        ),
        build=CifarViT,
        arguments=classifier_arguments,
        published=partial(load_state, _PACKAGED),
    ),
)
