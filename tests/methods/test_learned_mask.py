"""The paper's method and the terms of its objective, against a second implementation in float64, and in its behaviour."""

from __future__ import annotations

import copy
import math
from dataclasses import field, replace
from typing import Any, ClassVar

import numpy as np
import pytest
import scipy
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from proofmap.classifier import Classifier
from proofmap.core import streams
from proofmap.core.progress import Progress
from proofmap.fills import Blur, Fill, Gray, Images, Noise
from proofmap.methods import LearnedMask
from proofmap.methods.grids import smoothing, upsampling
from proofmap.methods.masks.engine import Slots
from proofmap.methods.masks.learned import LearnedMaskProblem, Objective, data_term
from proofmap.session import Session
from tests.sessions import bound
from tests.toys import MEAN, STD, drawn, normal, pixels

SIZE = (8, 10)
LABELS = torch.tensor([[0, 2], [3, 1]])
TOLERANCE = 1e-5
"""Of masks after tens of steps: float32 against float64, or one batch against another."""


def lively(labels: int = 4, **options: Any) -> Classifier:
    """A net that looks at every place, so that masks differ from place to place and from label to label."""
    net = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.Tanh(), nn.Flatten(), nn.Linear(320, labels))
    return Classifier(drawn(net), size=SIZE, **{"mean": MEAN, "std": STD, "batch_size": 64, **options})


class Recorded(Fill):
    """Another fill that remembers what it was asked for and what it gave."""

    name: ClassVar[str] = "recorded"
    inner: Any
    keys: Any = field(default_factory=list, compare=False)  # shared by copies with another inner fill
    given: Any = field(default_factory=list, compare=False)

    @property
    def random(self) -> bool:  # type: ignore[override]
        return self.inner.random

    def backgrounds(self, session: Session, images: Tensor, keys: Tensor) -> Tensor:
        self.keys.extend(keys.tolist())
        self.given.append(self.inner(session, images, keys))
        return self.given[-1]


def reference(
    s: LearnedMask, f: Classifier, images: Tensor, labels: Tensor, given: list[Tensor], start: Tensor
) -> tuple[Tensor, list[float]]:
    """Masks ``(P, K, H, W)`` and losses for P pairs: the objective written out pair by pair, torch's own Adam,
    torch's own interpolation, float64. ``given`` are the backgrounds of each step, or one for all of them."""
    net = copy.deepcopy(f.net).double()  # type: ignore[union-attr]
    mean, std = (torch.tensor(v, dtype=torch.float64).view(-1, 1, 1) for v in (f.mean, f.std))
    x, (height, width) = images.double(), images.shape[2:]
    l1 = 1 / (height * width) if s.l1 is None else s.l1
    weights = start.double().clone().requires_grad_(True)
    adam = torch.optim.Adam([weights], lr=s.learning_rate)
    losses = []

    def enlarged() -> Tensor:
        low = weights.sigmoid() if s.masks == 1 else weights.softmax(dim=1)
        return F.interpolate(low, size=(height, width), mode="bilinear", align_corners=False)

    for step in range(s.steps):
        background = given[step if len(given) > 1 else 0].double()
        background = background.view(len(x), -1, *x.shape[1:])  # (P, K D or 1, C, H, W)
        masks, total = enlarged(), torch.zeros((), dtype=torch.float64)
        for p, label in enumerate(labels.tolist()):
            for k in range(s.masks):
                m = masks[p, k]
                draws = background[p] if len(given) == 1 else background[p].chunk(s.masks)[k]
                if s.masks == 1:
                    composites = m * x[p] + (1 - m) * draws
                else:
                    behind = masks[p, -1]
                    composites = m * x[p] + behind * draws + (1 - m - behind) * mean
                z = net((composites - mean) / std)
                kept = z[:, list(f.label_set)] if f.renormalise else z
                softmax = torch.zeros_like(z)
                softmax[:, list(f.label_set) if f.renormalise else list(range(z.shape[1]))] = kept.softmax(
                    dim=1
                )
                p_mean = softmax.mean(dim=0)
                if s.objective == "nll":
                    data = -softmax[:, label].log().mean()
                elif s.objective == "nll-of-mean":
                    data = -p_mean[label].log()
                else:
                    data = -p_mean[label] + p_mean[list(f.label_set)].exp().sum().log()
                down, across = m[:-1] - m[1:], m[:, :-1] - m[:, 1:]
                if not s.tv_border:
                    down, across = down[:, :-1], across[:-1]
                power = torch.square if s.variation == "squared" else torch.abs
                total = total + data + l1 * m.abs().sum() + s.tv * (power(down).sum() + power(across).sum())
        losses.append(total.item() / len(x))
        shrink = (1 + math.cos(math.pi * step / s.steps)) / 2 if s.decay == "cosine" else 1.0
        adam.param_groups[0]["lr"] = s.learning_rate * shrink
        adam.zero_grad()
        total.backward()
        adam.step()
    return enlarged().detach()[:, : s.masks], losses


def problem_of(
    s: LearnedMask, f: Classifier, images: Tensor, labels: Tensor, fill: Fill, seed: int = 0
) -> tuple[LearnedMaskProblem, Slots]:
    """The pairs ``(images[p], labels[p])`` in slots, as :class:`LearnedMask` sets them up."""
    keys = streams.pair_keys(images, list(enumerate(labels.tolist())), seed, "learned-mask")
    problem = LearnedMaskProblem(replace(s, fill=fill), Session(f), f.frozen())
    image_of, step = torch.arange(len(images)), torch.zeros_like(labels)
    slots = {"images": images, "image_of": image_of, "labels": labels, "keys": keys, "step": step}
    return problem, slots | problem.enter(slots)


# ---- Adam --------------------------------------------------------------------------------------------------


# ---- against the second implementation ---------------------------------------------------------------------

CASES: dict[str, dict[str, Any]] = {
    "released": {
        "objective": "released",
        "tv_border": False,
        "tv": 0.01,
        "scale": 4,
        "learning_rate": 0.05,
        "decay": "constant",
    },
    "printed": {"objective": "nll", "tv": 0.01, "scale": 4, "learning_rate": 0.05, "decay": "constant"},
    "the defaults": {},
    "mean inside the log": {"objective": "nll-of-mean"},
    # from a start without equal neighbours: where they are equal, rounding decides the sign of the difference
    "absolute variation": {"variation": "absolute", "tv": 0.01, "masks": 2, "init_noise": 1.0},
    "no variation, own l1": {"tv": 0.0, "l1": 0.02},
    "every pixel for itself": {"scale": 1},
    "a scale that divides nothing": {"scale": 3},
    "half a scale": {"scale": 2.5},
    "one place for all": {"scale": 100},
    "one distractor": {"distractors": 1},
    "gray": {"fill": Gray()},
    "a colour": {"fill": Gray(color=(1.0, 0.0, 0.5))},
    "blur": {"fill": Blur()},
    "images": {"fill": Images(source=pixels(5, SIZE, seed=9), crop="none", part="all")},
    "labels that keep their probabilities": {"renormalise": False, "objective": "released"},
    "the same, printed": {"renormalise": False, "objective": "nll"},
    "two masks": {"masks": 2, "init_noise": 0.5},
    "three masks, printed": {"masks": 3, "init_noise": 0.5, "objective": "nll", "tv_border": False},
}


@pytest.mark.parametrize("case", CASES)
def test_ten_steps_are_those_of_a_second_implementation(case: str) -> None:
    options = {"distractors": 3, "scale": 2, "fill": Noise(sigma=0.3), **CASES[case]}
    recorded = Recorded(inner=options.pop("fill"))
    f = lively(6).restricted([0, 1, 2, 3], renormalise=options.pop("renormalise", True))
    s, images = LearnedMask(steps=10, fill=recorded, merge="sum", **options), pixels(2, SIZE)
    maps, given = s(f, images, LABELS), recorded.given
    assert len(given) == (10 if recorded.random else 1)
    if not recorded.random:  # once per image
        given = [given[0].repeat_interleave(2, 0)]
    twice, labels = images.repeat_interleave(2, 0), LABELS.flatten()
    start = problem_of(s, f, twice, labels, recorded)[1]["weights"]
    expected, losses = reference(s, f, twice, labels, given, start)
    torch.testing.assert_close(maps.flatten(0, 1), expected.sum(dim=1).float(), rtol=0, atol=TOLERANCE)
    assert losses[-1] < losses[0]


# ---- settings ----------------------------------------------------------------------------------------------


def test_the_presets_are_the_published_settings() -> None:
    for name, objective, whole in (("paper", "nll", True), ("released", "released", False)):
        s = LearnedMask.preset(name)
        assert (s.steps, s.distractors, s.learning_rate, s.decay) == (2000, 10, 0.05, "constant")
        assert (s.scale, s.tv, s.variation, s.masks, s.fill) == (4, 0.01, "squared", 1, Images())
        assert (s.objective, s.tv_border, s.l1) == (objective, whole, None)
    assert LearnedMask.preset("fast") == LearnedMask()
    assert LearnedMask.preset("released", tv=0.1).tv == 0.1


# ---- draws -------------------------------------------------------------------------------------------------


def draws_of(images: Tensor, labels: Tensor, *, batch_size: int, seed: int = 0, masks: int = 1) -> list[int]:
    fill = Recorded(inner=Noise())
    s = LearnedMask(steps=5, distractors=3, scale=4, fill=fill, masks=masks)
    s(lively(batch_size=batch_size), images, labels, seed=seed)
    return sorted(fill.keys)


def test_every_pair_step_mask_and_distractor_has_a_draw_of_its_own() -> None:
    keys = draws_of(pixels(2, SIZE), LABELS, batch_size=64, masks=2)
    assert len(keys) == len(set(keys)) == 4 * 5 * 2 * 3


# ---- nets with planted proofs --------------------------------------------------------------------------------


# ---- several masks -----------------------------------------------------------------------------------------


def test_merging_takes_the_largest_or_the_sum_of_the_masks() -> None:
    f, images, labels = lively(), pixels(2, SIZE), torch.tensor([[0, 2], [1, -1]])
    for merge in ("max", "sum"):
        s = LearnedMask(steps=3, masks=3, scale=3, init_noise=1.0, fill=Noise(), merge=merge)
        masks = bound(s, f).each_mask(images, labels, seed=0, progress=Progress())
        assert masks.shape == (2, 2, 3, *SIZE)
        merged = masks.amax(dim=2) if merge == "max" else masks.sum(dim=2)
        torch.testing.assert_close(s(f, images, labels), merged, rtol=0, atol=1e-6)


# ---- what is learned ---------------------------------------------------------------------------------------


# ---- stopping ----------------------------------------------------------------------------------------------


# ---- terms of the objective ----------------------------------------------------------------------------------


# ---- enlarging ---------------------------------------------------------------------------------------------

SIDES = [
    (1, 1),
    (1, 7),
    (2, 8),
    (56, 224),
    (28, 224),
    (7, 224),
    (4, 15),
    (5, 13),
    (9, 32),
    (10, 10),
    (75, 299),
]


@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("low, high", SIDES)
def test_enlarging_is_torchs_with_corners_aligned_or_not(low: int, high: int, corners: bool) -> None:
    masks = normal(2, 3, low, low).double()  # in float32 torch rounds the places, by up to 5e-5 of a value
    matrix = upsampling(low, high, corners=corners).double()
    theirs = F.interpolate(masks, size=(high, high), mode="bilinear", align_corners=corners)
    torch.testing.assert_close(matrix @ masks @ matrix.T, theirs, rtol=0, atol=1e-6)


@pytest.mark.parametrize("side, sigma", [(1, 2.0), (9, 0.0), (9, 0.7), (20, 3.0), (5, 4.0)])
def test_smoothing_is_scipys_gaussian_filter(side: int, sigma: float) -> None:
    line = normal(side, seed=side).double().numpy()
    ours = smoothing(side, sigma).double().numpy() @ line
    expected = (
        scipy.ndimage.gaussian_filter1d(line, sigma, mode="nearest", radius=math.ceil(4 * sigma))
        if sigma
        else line
    )
    np.testing.assert_allclose(ours, expected, atol=1e-6)


# ---- total variation and size ------------------------------------------------------------------------------


# ---- objectives --------------------------------------------------------------------------------------------


# ---- independent labels ------------------------------------------------------------------------------------


@pytest.mark.parametrize("objective", ["nll", "nll-of-mean", "released"])
def test_objectives_of_independent_labels_are_their_formulas(objective: Objective) -> None:
    p, labels = (2 * normal(4, 3, 5)).double().sigmoid(), torch.tensor([1, 3, 4, 1])
    ours = data_term(p.log(), labels, None, objective).tolist()
    for k, label in enumerate(labels.tolist()):
        own = [float(v) for v in p[k, :, label]]
        mean = sum(own) / 3
        expected = {
            "nll": sum(-math.log(v) for v in own) / 3,
            "nll-of-mean": -math.log(mean),
            "released": -mean + math.log(math.exp(mean) + math.exp(1 - mean)),
        }[objective]
        assert ours[k] == pytest.approx(expected, rel=1e-6)
