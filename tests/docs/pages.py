"""The documentation's pages, their blocks of code, and a small world for the code to run in."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from proofmap.data.distractors import Distractors, Pool
from proofmap.methods import LearnedMask
from proofmap.methods.masks.belief import BeliefMask
from proofmap.metrics import METRICS
from proofmap.models import registry
from proofmap.models.weights import OwnNet

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [
    *sorted(p for p in DOCS.rglob("*.md") if "results" not in p.parts),
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
]

NAMES = ("tabby", "tiger cat", "Egyptian cat", *(f"label {k}" for k in range(3, 12)))

_BLOCK = re.compile(
    r"(?:^<!-- (?P<comment>[^\n]*) -->\n)?^```(?P<language>\w+)(?P<rest>[^\n]*)\n(?P<code>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True)
class CodeBlock:
    """A block of code; a titled one is a file, and a comment before it says how to treat it."""

    language: str
    title: str
    code: str
    comment: str
    line: int

    @property
    def needs(self) -> str:
        """A package without which the block is not run."""
        return self.comment.removeprefix("needs ") if self.comment.startswith("needs ") else ""

    @property
    def runs(self) -> bool:
        """Python does unless a comment says why not; commands do when a comment says so, and are parsed anyway."""
        if self.language == "python":
            return not self.comment.startswith("not run")
        return self.comment == "run"


def blocks(page: Path) -> Iterator[CodeBlock]:
    text = page.read_text(encoding="utf-8")
    for found in _BLOCK.finditer(text):
        title = re.search(r'title="([^"]+)"', found["rest"])
        line = text[: found.start("code")].count("\n") + 1
        yield CodeBlock(
            found["language"], title[1] if title else "", found["code"], found["comment"] or "", line
        )


def commands(block: CodeBlock) -> list[str]:
    """The commands of a block, without their comments."""
    lines = re.sub(r"\\\n\s*", " ", block.code).splitlines()
    return [line for line in map(str.strip, lines) if line and not line.startswith("#")]


# ---- the small world -----------------------------------------------------------------------------------------------


class TinyNet(nn.Module):
    """Stands for EfficientNet-Lite0 on the pages: a dozen labels, few of them believed, no time at all."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Conv2d(3, 8, 5, stride=4)
        self.activation = nn.ReLU()
        self.head = nn.Linear(8, len(NAMES))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.head(self.activation(self.features(x)).mean(dim=(2, 3)))
        return 20 * out


def tiny_model() -> Any:
    """What the registry of models holds, around the tiny net."""
    settings = {"size": 16, "mean": (0.5,) * 3, "std": (0.25,) * 3, "names": NAMES}
    info = registry._OWN[registry.DEFAULT_MODEL].info
    return OwnNet(info, TinyNet, lambda: dict(settings), published=lambda: TinyNet().state_dict())


def few_distractors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pools have eight pictures, made as the usual ones are."""
    build, whole = Pool.build, Distractors._whole_pool

    def few(source: Any, inputs: Any, **settings: Any) -> Pool:
        return build(source, inputs, **{**settings, "size": 8})

    def few_of_a_session(self: Distractors, inputs: Any, size: int, crop: str, seed: int) -> Pool:
        return whole(self, inputs, 8, crop, seed)

    monkeypatch.setattr(Pool, "build", few)
    monkeypatch.setattr(Distractors, "_whole_pool", few_of_a_session)


def few_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Masks that a page asks for without a number of passes are learned in a tenth of the usual one."""
    for method, setting in ((BeliefMask, "passes"), (LearnedMask, "steps")):
        defaults = method.__init__.__kwdefaults__
        monkeypatch.setitem(defaults, setting, defaults[setting] // 10)


def few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Metrics average over two backgrounds of a random fill by default, to save time; the package averages over ten."""
    for name in METRICS:
        defaults = METRICS[name].__init__.__kwdefaults__ or {}
        if "draws" in defaults:
            monkeypatch.setitem(defaults, "draws", 2)


def write_photos(folder: Path) -> None:
    """``cat.png``, ``cat.jpg``, ``photo.jpg`` and the folder ``photos``."""
    (folder / "photos").mkdir()
    random = np.random.default_rng(0)
    for name in ("cat.png", "cat.jpg", "photo.jpg", *(f"photos/{k}.jpg" for k in range(6))):
        coarse = random.integers(0, 256, (5, 6, 3), dtype=np.uint8)
        Image.fromarray(coarse).resize((48, 40), Image.Resampling.BICUBIC).save(folder / name)
