"""Small evaluations to make pages of, and what a page carries, read back without a browser."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Sequence
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

import proofmap as pm
from tests.toys import linear_classifier, normal, pixels

STRANGE = ('<script>alert("1")</script>', "</script><b>", "a & b", 'it\'s "so"', "🦊 fox\u2028", "plain")


def judged(
    n: int = 3,
    size: int | tuple[int, int] = (20, 28),
    *,
    methods: Sequence[Any] = ("gradient", "gradient-x-input", "random"),
    names: Sequence[str] | None = None,
    label_names: Sequence[str] = STRANGE,
    channels: int = 3,
    **options: Any,
) -> pm.Evaluation:
    """An evaluation of methods on noise, by a linear net; ``options`` as for ``evaluate``."""
    middle = {"mean": (0.5,) * channels, "std": (0.25,) * channels}
    f = linear_classifier(size, len(label_names), strength=0.02, names=list(label_names), **middle)
    return pm.evaluate(f, pixels(n, size, channels=channels), methods=list(methods), names=names, **options)


def listed(evaluation: pm.Evaluation, n: int, seed: int = 0) -> pm.Evaluation:
    """The same methods on ``n`` made-up images of which there are numbers only."""

    def more(tensor: torch.Tensor) -> torch.Tensor:
        return tensor[torch.arange(n) % len(tensor)]

    results = []
    for k, r in enumerate(evaluation.results):
        curves = {
            key: more(getattr(r.insertion, key)) for key in ("labels", "f", "probabilities", "auc", "error")
        }
        values = {name: normal(n, seed=seed + 10 * k + j).sigmoid() for j, name in enumerate(r.values)}
        insertion = replace(r.insertion, **curves, matrix=None)
        results.append(replace(r, values=values, insertion=insertion, maps=r.maps[:0]))
    return replace(
        evaluation,
        results=tuple(results),
        image_names=tuple(f"image {i}" for i in range(n)),
        labels=more(evaluation.labels),
        f=more(evaluation.f),
        images=evaluation.images[:0],
        pictured=(),
    )


class PageParts(HTMLParser):
    """A page as a browser reads it: its elements, the texts of its scripts, and all text outside of them."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.text = ""
        self._inside: tuple[str, dict[str, str | None]] | None = None
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag in ("script", "style"):
            self._inside = (tag, dict(attrs))
            if tag == "script":
                self.scripts.append((dict(attrs), ""))

    def handle_endtag(self, tag: str) -> None:
        if tag in ("script", "style"):
            self._inside = None

    def handle_data(self, data: str) -> None:
        if self._inside is None:
            self.text += data + " "
        elif self._inside[0] == "script":
            attributes, text = self.scripts[-1]
            self.scripts[-1] = (attributes, text + data)

    @property
    def record(self) -> dict[str, Any]:
        """The data of the page."""
        found: dict[str, Any] = json.loads(next(t for a, t in self.scripts if a.get("id") == "record"))
        return found

    def levels(self, image: int) -> np.ndarray:
        """The levels ``(maps, H, W)`` of an image shown in full, method by method."""
        shown = self.record["pictured"][image]
        sources = [str(a["src"]) for tag, a in self.elements if tag == "img" and a.get("class") == "levels"]
        own = sources[image * len(shown["methods"]) : (image + 1) * len(shown["methods"])]
        sheets = [np.asarray(Image.open(io.BytesIO(base64.b64decode(uri.partition(",")[2])))) for uri in own]
        return np.concatenate(sheets)[..., 0].reshape(-1, shown["height"], shown["width"])
