"""The picture of the page on series: a proof on the line of a sound.

    python -m docs.series_picture

A small net learns in seconds whether a short whistle in noise rises or falls; nothing is downloaded. Makes ``whistle.webp``.
"""

from __future__ import annotations

import torch
from PIL import Image
from torch import Tensor, nn

import proofmap as pm
from proofmap.core.inputs import Series
from proofmap.report.sheets import explained_sheet

from .make_pictures import PICTURES

LENGTH, RATE, WHISTLE = 2000, 8000, 500
INPUTS = Series(length=LENGTH, mean=(0.0,), std=(0.4,), rate=float(RATE), segments=20)


def sounds(number: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Noise with a whistle of a sixteenth of a second at a random time, from 1 to 2 kHz or back."""
    falls = torch.arange(number) % 2
    share = torch.linspace(0, 1, WHISTLE)
    pitch = 1000 + 1000 * torch.where(falls[:, None] == 1, 1 - share, share)
    whistle = torch.sin(2 * torch.pi * pitch.cumsum(dim=1) / RATE) * torch.hann_window(WHISTLE)
    x = 0.15 * torch.randn(number, LENGTH, generator=generator)
    starts = torch.randint(0, LENGTH - WHISTLE, (number,), generator=generator)
    for row, start, sound in zip(x, starts.tolist(), whistle, strict=True):
        row[start : start + WHISTLE] += sound
    return x[:, None], falls


def trained() -> nn.Module:
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    first = nn.Conv1d(1, 24, 32, stride=4), nn.ReLU(), nn.MaxPool1d(4)
    net = nn.Sequential(
        *first, nn.Conv1d(24, 24, 9), nn.ReLU(), nn.AdaptiveMaxPool1d(1), nn.Flatten(), nn.Linear(24, 2)
    )
    optimiser = torch.optim.Adam(net.parameters(), 3e-3)
    for _ in range(150):
        x, y = sounds(32, generator)
        loss = nn.functional.cross_entropy(net(x / INPUTS.std[0]), y)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return net.eval()


def whistle() -> Image.Image:
    x, _ = sounds(2, torch.Generator().manual_seed(3))
    classifier = pm.Classifier(trained(), inputs=INPUTS, names=["rises", "falls"])
    proof = pm.explain(classifier, x[:1], labels="all", method="belief-order")
    return explained_sheet(proof.evaluation, 0)


if __name__ == "__main__":
    torch.set_num_threads(1)
    whistle().save(PICTURES / "whistle.webp", "WEBP", lossless=True)
