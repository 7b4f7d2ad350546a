"""Inputs of linear classifiers for the paper's linear case (section 5): synthetic ones with an exact margin, and real ones (digits, languages).

An input is represented by its *contributions* z_i = y w_i x_i to the predicted label y, a float tensor ``(..., d)``; their sum is the margin.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.resources import files

import torch
from torch import Tensor

from proofmap.core.errors import InputError, require
from proofmap.core.streams import key_of, normal
from proofmap.models.text_models import identifier


def contributions(w: Tensor, x: Tensor) -> Tensor:
    """The contributions z_i = y w_i x_i ``(..., d)`` in float64, with y the predicted label and w and x scaled to norm 1.

    >>> contributions(torch.tensor([1.0, 0.0, 0.0, 0.0]), torch.tensor([-3.0, 4.0, 0.0, 0.0])).sum().item()
    0.6
    """
    w, x = (v.double() / v.double().norm(dim=-1, keepdim=True) for v in (w, x))
    z = w * x
    total = z.sum(dim=-1, keepdim=True)
    if not bool(total.isfinite().all()) or bool((total == 0).any()):
        raise InputError(
            "a linear classifier needs finite w and x whose product is not 0, so that it has a label"
        )
    return z * total.sign()


RIDGE = 1e-3


@dataclass(frozen=True, eq=False)
class LinearInput:
    """One input of a linear classifier, as its contributions ``(d,)`` to the predicted label."""

    name: str
    z: Tensor
    bound: float
    """B: the largest of all |w_i| and |x_i|, times sqrt(d)."""

    @property
    def margin(self) -> float:
        return float(self.z.sum())

    @staticmethod
    def made(name: str, d: int, gamma: float, *, seed: int = 0) -> LinearInput:
        """The synthetic input called ``name`` with d coordinates and a margin of (nearly) gamma. The seed matters only for
        ``gaussian``.
        """
        if name not in MADE:
            raise InputError(f"there is no synthetic input {name!r}; known are {', '.join(MADE)}")
        return gaussian(d, gamma, seed=seed) if name == "gaussian" else MADE[name](d, gamma)


def signs(d: int, gamma: float) -> LinearInput:
    """An input with w_i, x_i = +-1 / sqrt(d): every coordinate has the same weight, and B = 1.

    The margin is (plus - minus) / d, where plus and minus are the numbers of positive and negative contributions. They add up to d,
    and are chosen so that the margin is as near to gamma as possible.
    """
    plus = round(d * (1 + gamma) / 2)
    z = torch.full((d,), -1.0 / d, dtype=torch.float64)
    z[:plus] = 1.0 / d
    return LinearInput("signs", z, 1.0)


def spikes(d: int, gamma: float, bound: int = 3) -> LinearInput:
    """An input with the largest variance that B allows: w and x are nonzero only on the same d / B^2 coordinates, where they are
    +-B / sqrt(d).
    """
    k = d // bound**2
    if k < 2:
        raise InputError(f"spikes with B = {bound} need at least {2 * bound**2} coordinates, not {d}")
    plus = round(k * (1 + gamma) / 2)
    z = torch.zeros(d, dtype=torch.float64)
    z[:k], z[:plus] = -1.0 / k, 1.0 / k
    return LinearInput("spikes", z, math.sqrt(d / k))


def gaussian(d: int, gamma: float, *, seed: int = 0) -> LinearInput:
    """A random input: w is uniform on the sphere, and x = gamma w + sqrt(1 - gamma^2) u with u uniform among the unit vectors
    orthogonal to w.
    """
    keys = torch.tensor([key_of("linear case", seed, d, part) for part in ("w", "u")])
    w, u = normal(keys, d).double()
    w = w / w.norm()
    u = u - (u @ w) * w
    x = gamma * w + math.sqrt(1 - gamma**2) * u / u.norm()
    return LinearInput("gaussian", w * x, _bound(w, x))


MADE: Mapping[str, Callable[[int, float], LinearInput]] = {
    "signs": signs,
    "gaussian": gaussian,
    "spikes": spikes,
}
"""Functions that make synthetic inputs from d and gamma, by name."""


def digits(number: int, rivals: int = 9) -> list[LinearInput]:
    """Inputs from handwritten digits (8 x 8 pixels, scikit-learn), classified by ridge regression: the predicted digit against
    another digit.

    The classifier has no intercept. It is trained on the images with even indices, scaled to norm 1. The inputs come from the first
    ``number`` images with odd indices that it classifies correctly. Each image is paired with its ``rivals`` next best digits; w is
    the difference between the weights of the two digits.
    """
    data = require(
        "sklearn.datasets", extra="theory", purpose="the linear classifier of digits"
    ).load_digits()
    images, truth = torch.from_numpy(data.data).double(), torch.from_numpy(data.target).long()
    images = images / images.norm(dim=1, keepdim=True)
    seen, targets = images[::2], torch.nn.functional.one_hot(truth[::2], 10).double() * 2 - 1
    square = seen.T @ seen + RIDGE * torch.eye(images.shape[1], dtype=torch.float64)
    weights = torch.linalg.solve(square, seen.T @ targets)
    ranked = (images[1::2] @ weights).topk(1 + rivals, dim=1).indices.tolist()
    right = [i for i, order in enumerate(ranked) if order[0] == truth[2 * i + 1]]
    return [
        _real(f"{ranked[i][0]} not {other}", weights[:, ranked[i][0]] - weights[:, other], images[2 * i + 1])
        for i in right[:number]
        for other in ranked[i][1:]
    ]


def languages(number: int, rivals: int = 5) -> list[LinearInput]:
    """Inputs from ``number`` sentences, classified by py3langid (naive Bayes, 142 languages): the predicted language against each
    of the ``rivals`` next most probable languages.

    The score is linear in x_i = log(1 + count of the feature i), with the log-probabilities of features as weights. The coordinates
    are the features that occur, since the others are 0. The priors are left out, because they do not depend on the set of features.
    """
    model, count = identifier("the linear classifier of languages")
    found = []
    for sentence in _sentences()[:number]:
        visits = count(model.tk_nextmove, model._rowbase, model.tk_output, model._encode(sentence))
        features = sorted(visits)
        x = torch.tensor([math.log1p(visits[f]) for f in features], dtype=torch.float64)
        table = torch.from_numpy(model.nb_ptc[features]).double()
        first, *others = (x @ table).topk(1 + rivals).indices.tolist()
        names = model.nb_classes
        found += [
            _real(f"{names[first]} not {names[other]}", table[:, first] - table[:, other], x)
            for other in others
        ]
    return found


REAL = {"digits": digits, "languages": languages}
"""Functions that load real inputs, by name. Their arguments are the number of images or sentences, and the number of other labels
for each.
"""


def _sentences() -> list[str]:
    text = (files("proofmap.theory") / "sentences.txt").read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def _real(name: str, w: Tensor, x: Tensor) -> LinearInput:
    return LinearInput(name, contributions(w, x), _bound(w / w.norm(), x / x.norm()))


def _bound(w: Tensor, x: Tensor) -> float:
    return math.sqrt(len(w)) * max(float(w.abs().max()), float(x.abs().max()))
