"""Servers of models of rows, of series and of texts, with their probabilities in plain numpy."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
import torch

import proofmap as pm
from proofmap.app.choices import Choices
from proofmap.app.items import Items
from proofmap.app.nets import Nets, Offer
from proofmap.app.server import Server
from proofmap.core.inputs import Series, Text
from proofmap.data import load_dataset
from proofmap.data.table_rows import TableData

COLUMNS = ("age", "income", "visits", "city")
ROWS = pd.DataFrame(
    {
        "age": [30.0, 60.0, 45.0, 20.0],
        "income": [1.5, 4.0, 2.5, 0.5],
        "visits": [3.0, 0.0, 7.0, 1.0],
        "city": ["Ulm", "Bonn", "Ulm", "Ulm"],
        "churned": ["no", "yes", "no", "yes"],
    }
)


def churn(frame: pd.DataFrame) -> np.ndarray:
    """The probabilities of no and yes."""
    score = 0.08 * (frame["age"] - 40) - 0.4 * (frame["visits"] - 3) + 1.0 * (frame["city"] == "Bonn")
    yes = 1 / (1 + np.exp(-score.to_numpy(float)))
    return np.stack([1 - yes, yes], axis=1)


def mood(texts: Sequence[str]) -> np.ndarray:
    """The probabilities of good and bad: how often these words occur."""
    score = np.array([2.0 * text.count("good") - 2.0 * text.count("bad") + 0.5 for text in texts])
    good = 1 / (1 + np.exp(-score))
    return np.stack([good, 1 - good], axis=1)


def rows_model() -> pm.Classifier:
    return pm.Classifier(churn, data=ROWS.drop(columns="churned"), names=("no", "yes"), batch_size=64)


def customers() -> Items:
    return Items(TableData(ROWS, target="churned", title="customers.csv"), ["customers.csv"])


def texts_model() -> pm.Classifier:
    return pm.Classifier(mood, inputs=Text(length=40), names=("good", "bad"), batch_size=64)


BEATS = np.array(
    [
        [[0, 3, 1, 0, 0, 0, 0, 1], [1, 1, 1, 1, 1, 1, 1, 1]],
        [[0, 0, 0, 1, 0, 2, 2, 0], [0, 1, 0, 1, 0, 1, 0, 1]],
        [[0, 1, 0, 0, 1, 0, 0, 0], [2, 0, 0, 0, 0, 0, 0, 2]],
    ],
    dtype=np.float32,
)
"""Series ``(N, C, T)``; only the first channel matters."""


def beat(series: np.ndarray) -> np.ndarray:
    """The probabilities of early and late: where the first channel is larger."""
    early = 1 / (1 + np.exp(-(series[:, 0, :4].sum(axis=1) - series[:, 0, 4:].sum(axis=1))))
    return np.stack([early, 1 - early], axis=1)


class Beat(torch.nn.Module):
    """The logits of :func:`beat`."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        early = x[:, 0, :4].sum(dim=1) - x[:, 0, 4:].sum(dim=1)
        return torch.stack([early, torch.zeros_like(early)], dim=1)


def series_model(segments: int | None = 4) -> pm.Classifier:
    inputs = Series(length=8, mean=(0, 0), std=(1, 1), names=("left", "right"), rate=2.0, segments=segments)
    return pm.Classifier(Beat(), inputs=inputs, names=("early", "late"), batch_size=64)


def beats(folder: Path) -> Items:
    """The items of a file of series with labels."""
    np.savez(folder / "beats.npz", series=BEATS, labels=np.array(["early", "late", "early"]))
    return Items(load_dataset(folder / "beats.npz"), ["series:beats.npz"])


def series_server(folder: Path) -> Server:
    return _settled(series_model(), beats(folder))


def rows_server() -> Server:
    return _settled(rows_model(), customers())


def texts_server() -> Server:
    return _settled(texts_model(), Items())


def _settled(model: pm.Classifier, items: Items) -> Server:
    nets = Nets([Offer("toy", "a toy", lambda: model, ("--model", "toy.py:make"))])
    nets.settle()
    return Server(nets, Choices(), items=items)
