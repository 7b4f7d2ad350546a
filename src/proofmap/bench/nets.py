"""The nets of the tasks whose data is inside this package.

``benchmarks/train_bench_nets.py`` trained the nets and made their data. The model of texts comes from the package py3langid, and
``benchmarks/make_bench_texts.py`` made its texts.

Task files name these functions as ``FILE.py:FUNCTION``, as any user's study does.
"""

from __future__ import annotations

from pathlib import Path

from torch import nn

from proofmap.classifier import Classifier
from proofmap.core.errors import require
from proofmap.core.inputs import Series, Text
from proofmap.models import load_classifier
from proofmap.models.weights import load_into, load_state

FOLDER = Path(__file__).parent / "tasks"
SHAPES = ("disc", "square", "triangle", "cross")
EVENTS = ("bump", "dip", "burst")
TUMOURS = ("malignant", "benign")
LANGUAGES = ("en", "fr", "de", "es", "it")
SIDE, LENGTH, SEGMENTS, WORDS = 32, 128, 32, 24


def picture_layers() -> nn.Sequential:
    """The layers of a small convolutional net for pictures of 32 x 32 pixels."""
    return nn.Sequential(
        nn.Conv2d(3, 16, 4, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(16, 24, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(24, 32, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(32, len(SHAPES)),
    )


def series_layers() -> nn.Sequential:
    """The layers of a small convolutional net for series with one channel and 128 time steps."""
    return nn.Sequential(
        nn.Conv1d(1, 12, 7, padding=3),
        nn.ReLU(),
        nn.Conv1d(12, 16, 7, stride=2, padding=3),
        nn.ReLU(),
        nn.AdaptiveAvgPool1d(1),
        nn.Flatten(),
        nn.Linear(16, len(EVENTS)),
    )


def table_layers(columns: int = 30) -> nn.Sequential:
    """The layers of a net with one hidden layer for rows of a table with this number of columns."""
    return nn.Sequential(nn.Linear(columns, 16), nn.ReLU(), nn.Linear(16, len(TUMOURS)))


def smoke() -> Classifier:
    """A net that recognises the larger of two shapes in a picture."""
    net = _with_weights(picture_layers(), "smoke")
    half = (0.5, 0.5, 0.5)
    return Classifier(net, size=SIDE, mean=half, std=half, names=SHAPES, name="proofbench-smoke")


def series() -> Classifier:
    """A net that recognises the larger of two events in a noisy series."""
    inputs = Series(length=LENGTH, mean=(0.0,), std=(1.0,), segments=SEGMENTS)
    return Classifier(
        _with_weights(series_layers(), "series"), inputs=inputs, names=EVENTS, name="proofbench-series"
    )


def table() -> Classifier:
    """A net that classifies tumours of the Wisconsin breast cancer data by 30 measurements."""
    pandas = require("pandas", extra="pandas", purpose="the task table")
    frame = pandas.read_csv(FOLDER / "table-train.csv").drop(columns="diagnosis")
    return Classifier(
        _with_weights(table_layers(), "table"), data=frame, names=TUMOURS, name="proofbench-table"
    )


def text() -> Classifier:
    """A model that recognises the language of a text, one of five: py3langid, which is linear in n-grams and has no gradients."""
    f = load_classifier("py3langid")
    changes = {"inputs": Text(length=WORDS), "label_set": LANGUAGES, "renormalise": None}
    return f.with_net(f.net, **changes, name="proofbench-text")


def _with_weights(net: nn.Sequential, name: str) -> nn.Sequential:
    file = FOLDER / f"{name}.safetensors"
    load_into(net, load_state(file), source=file.name)
    return net.eval()
