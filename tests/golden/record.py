"""A record of results as plain numbers, and the comparison of two records."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import proofmap as pm
from proofmap.results.records import MethodResult

RECORDS = Path(__file__).parent / "records"
DIGITS = 7
UNCOUNTED = {"revisions", "digest", "pool", "source", "code", "made_with"}
"""Keys of settings that say where something comes from, and not what is computed."""


def rounded(value: Any) -> Any:
    """``value`` as data of JSON: tensors and arrays as lists, floats with 7 digits, NaN as None."""
    if isinstance(value, Tensor):
        value = value.detach().cpu().numpy()
    if isinstance(value, (np.ndarray, np.generic)):
        value = value.tolist()
    if isinstance(value, float):
        return (
            None
            if math.isnan(value)
            else float(f"{value:.{DIGITS}g}")
            if math.isfinite(value)
            else str(value)
        )
    if isinstance(value, Mapping):
        return {str(key): rounded(x) for key, x in value.items() if key not in UNCOUNTED}
    if isinstance(value, (list, tuple)):
        return [rounded(x) for x in value]
    return value if value is None or isinstance(value, (bool, int, str)) else str(value)


def seen_from(maps: Tensor, views: int = 3) -> Tensor:
    """Sums of each map ``(N, L, *positions)`` with fixed weights, ``(N, L, views)``, in units of the map's largest value; and the value itself."""
    flat = maps.flatten(2).double()
    flat = torch.where(flat.isfinite(), flat, 0.0)
    weights = torch.from_numpy(np.random.default_rng(3).uniform(-1, 1, (flat.shape[2], views)))
    largest = flat.abs().amax(dim=2, keepdim=True)
    return torch.cat([flat @ weights / largest.clamp_min(1e-30), largest], dim=2)


def of_method(result: MethodResult, *, curves: bool = False) -> dict[str, Any]:
    """What is recorded of a method: its maps, values and curves, and its settings."""
    found: dict[str, Any] = {
        "settings": result.settings,
        "label_free": result.label_free,
        "signed": result.signed,
        "maps": seen_from(result.maps),
        "auc": result.insertion.auc,
        "values": dict(result.values),
        "pairs": dict(result.pairs),
        "scores": {score.name: of_score(score) for score in result.scores},
    }
    if curves:
        curve = result.insertion
        found["curve"] = {
            key: getattr(curve, key) for key in ("counts", "probabilities", "error", "matrix", "h")
        }
    return found


def of_score(score: pm.Score) -> list[Any]:
    """Value, n, direction and limits. The interval only of 20 values or more: that of few is being worked on."""
    numbers = [score.value, score.n, score.higher_is_better, list(score.limits)]
    return [*numbers, score.low, score.high] if score.n >= 20 else numbers


def of(evaluation: pm.Evaluation, *, curves: Sequence[str] = ()) -> dict[str, Any]:
    """What is recorded of an evaluation. ``curves`` are the methods whose whole curves are recorded."""
    return {
        "labels": evaluation.labels,
        "f": evaluation.f,
        "methods": {r.name: of_method(r, curves=r.name in curves) for r in evaluation.results},
        "metrics": {s.name: s.settings for s in evaluation.results[0].scores},
        "over the run": [[s.name, s.subject, s.value, s.n] for s in evaluation.run_scores],
    }


def differences(found: Any, expected: Any, tolerances: Mapping[str, float], at: str = "") -> Iterator[str]:
    """Where two records differ. ``tolerances`` maps parts of a path to the largest difference, relative to numbers above 1; the widest counts."""
    if isinstance(expected, dict) and isinstance(found, dict):
        for key in [*expected, *(key for key in found if key not in expected)]:
            if key in found and key in expected:
                yield from differences(found[key], expected[key], tolerances, f"{at}/{key}")
            else:
                yield f"{at}/{key}: {'missing' if key in expected else 'new'}"
    elif isinstance(expected, list) and isinstance(found, list) and len(found) == len(expected):
        for k, pair in enumerate(zip(found, expected, strict=True)):
            yield from differences(*pair, tolerances, f"{at}[{k}]")
    elif type(found) in (int, float) and type(expected) in (int, float):
        tolerance = max(size for part, size in tolerances.items() if part in at)
        if not abs(found - expected) <= tolerance * max(1.0, abs(expected)):
            yield f"{at}: {found}, recorded {expected} (tolerance {tolerance:g})"
    elif found != expected:
        yield f"{at}: {found!r}, recorded {expected!r}"


def path_of(name: str) -> Path:
    return RECORDS / f"{name}.json"


def read(name: str) -> Any:
    return json.loads(path_of(name).read_text(encoding="utf-8"))


def write(name: str, record: Any) -> Path:
    """Write a record with one line for each list of numbers."""
    path_of(name).write_text(_text(record) + "\n", encoding="utf-8")
    return path_of(name)


def _text(value: Any, indent: str = "") -> str:
    if isinstance(value, dict) and value and any(isinstance(x, dict) for x in value.values()):
        inner = ",\n".join(f"{indent} {json.dumps(k)}: {_text(x, indent + ' ')}" for k, x in value.items())
        return f"{{\n{inner}\n{indent}}}"
    if isinstance(value, dict) and len(json.dumps(value)) > 150:
        inner = ",\n".join(f"{indent} {json.dumps(k)}: {json.dumps(x)}" for k, x in value.items())
        return f"{{\n{inner}\n{indent}}}"
    return json.dumps(value)
