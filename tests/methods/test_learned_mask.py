"""The paper's method, against a second implementation in float64, and in its behaviour."""

from __future__ import annotations

import copy
import math
from dataclasses import field, replace
from typing import Any, ClassVar

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from proofmap.classifier import Classifier
from proofmap.core import streams
from proofmap.core.progress import Progress, ProgressTask
from proofmap.fills import Blur, Fill, Gray, Images, Noise
from proofmap.methods import LearnedMask
from proofmap.methods.masks.engine import Slots, adam_step
from proofmap.methods.masks.learned import LearnedMaskProblem
from proofmap.session import Session
from tests.mask_toys import unnormalised
from tests.sessions import bound
from tests.toys import MEAN, STD, Linear, PassCounter, drawn, normal, pixels

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
        given: Tensor = self.given[-1]
        return given


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


@pytest.mark.parametrize("size", [1.0, 1e-4, 1e-9])
def test_the_written_out_adam_is_torchs(size: float) -> None:
    ours = normal(3, 5, seed=1)
    theirs = ours.clone().requires_grad_(True)
    adam = torch.optim.Adam([theirs], lr=0.05)
    slots = {"weights": ours, "first": torch.zeros_like(ours), "second": torch.zeros_like(ours)}
    for step in range(50):
        rate = 0.05 * (1 - step / 100)
        gradient = size * (ours + normal(3, 5, seed=step))
        adam_step(slots | {"step": torch.full((3,), step + 1)}, gradient, torch.full((3,), rate), 0.999)
        adam.param_groups[0]["lr"] = rate
        theirs.grad = gradient
        adam.step()
        torch.testing.assert_close(ours, theirs.detach(), rtol=0, atol=1e-6)


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
    "two masks": {"masks": 2, "init_noise": 0.5},
    "three masks, printed": {"masks": 3, "init_noise": 0.5, "objective": "nll", "tv_border": False},
}


@pytest.mark.parametrize("case", CASES)
def test_twenty_steps_are_those_of_a_second_implementation(case: str) -> None:
    fill = Recorded(inner=Noise(sigma=0.3))
    s = LearnedMask(steps=20, fill=fill, merge="sum", **{"distractors": 3, "scale": 2, **CASES[case]})
    f, images = lively(), pixels(2, SIZE)
    maps = s(f, images, LABELS)
    assert len(fill.given) == 20
    twice, labels = images.repeat_interleave(2, 0), LABELS.flatten()
    start = problem_of(s, f, twice, labels, fill)[1]["weights"]
    expected, losses = reference(s, f, twice, labels, fill.given, start)
    torch.testing.assert_close(maps.flatten(0, 1), expected.sum(dim=1).float(), rtol=0, atol=TOLERANCE)
    assert losses[-1] < losses[0]


@pytest.mark.parametrize(
    "fill",
    [
        Gray(),
        Gray(color=(1.0, 0.0, 0.5)),
        Blur(),
        Noise(),
        Images(source=pixels(5, SIZE, seed=9), crop="none", part="all"),
    ],
    ids=lambda fill: fill.name,
)
def test_every_fill_stands_behind_the_mask(fill: Fill) -> None:
    recorded = Recorded(inner=fill)
    s = LearnedMask(steps=10, distractors=2, scale=2, fill=recorded)
    f, images = lively(), pixels(2, SIZE)
    maps = s(f, images, LABELS)
    assert len(recorded.given) == (10 if fill.random else 1)
    given = recorded.given if fill.random else [recorded.given[0].repeat_interleave(2, 0)]  # once per image
    twice, labels = images.repeat_interleave(2, 0), LABELS.flatten()
    start = torch.zeros(4, 1, 4, 5)
    expected, _ = reference(s, f, twice, labels, given, start)
    torch.testing.assert_close(maps.flatten(0, 1), expected[:, 0].float(), rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("renormalise", [True, False])
@pytest.mark.parametrize("objective", ["released", "nll"])
def test_a_restricted_label_set_enters_the_objective(renormalise: bool, objective: Any) -> None:
    fill = Recorded(inner=Noise())
    s = LearnedMask(steps=10, distractors=2, scale=2, objective=objective, fill=fill)
    f = lively(6).restricted([1, 2, 4], renormalise=renormalise)
    images, labels = pixels(1, SIZE), torch.tensor([4])
    maps = s(f, images, labels[None])
    expected, _ = reference(s, f, images, labels, fill.given, torch.zeros(1, 1, 4, 5))
    torch.testing.assert_close(maps[0], expected[:, 0].float(), rtol=0, atol=TOLERANCE)


def test_the_released_loss_is_its_formula() -> None:
    """One step on a linear net, with weights that are not the start: -p_a + log sum exp p, 1/(HW) |m| and the crop."""
    f = Classifier(Linear(0.3 * normal(5, 3 * 48)), size=(6, 8), mean=MEAN, std=STD)
    images, labels = pixels(2, (6, 8)), torch.tensor([1, 4])
    s = LearnedMask(objective="released", tv_border=False, tv=0.07, scale=2, distractors=3)
    problem, slots = problem_of(s, f, images, labels, Noise())
    slots["step"] += 11
    weights = normal(2, 1, 3, 4, seed=4).requires_grad_(True)
    loss, backgrounds = problem.losses(weights, slots), unnormalised(f, problem.backgrounds(slots))
    assert backgrounds.shape == (2, 1, 3, 3, 6, 8)
    low = weights.detach().sigmoid().double()
    masks = F.interpolate(low, size=(6, 8), mode="bilinear", align_corners=False)[:, 0]
    for p in range(2):
        m = masks[p]
        shown = m * images[p] + (1 - m) * backgrounds[p, 0]
        mean = f.probabilities(shown.float().clamp(0, 1)).double().mean(dim=0)
        data = -mean[labels[p]] + math.log(sum(math.exp(v) for v in mean.tolist()))
        crop = sum(
            float((m[i, j] - m[i + 1, j]) ** 2 + (m[i, j] - m[i, j + 1]) ** 2)
            for i in range(5)
            for j in range(7)
        )
        assert loss[p].item() == pytest.approx(float(data) + m.sum().item() / 48 + 0.07 * crop, rel=1e-5)


# ---- settings ----------------------------------------------------------------------------------------------


def test_the_presets_are_the_published_settings() -> None:
    for name, objective, whole in (("paper", "nll", True), ("released", "released", False)):
        s = LearnedMask.preset(name)
        assert (s.steps, s.distractors, s.learning_rate, s.decay) == (2000, 10, 0.05, "constant")
        assert (s.scale, s.tv, s.variation, s.masks, s.fill) == (4, 0.01, "squared", 1, Images())
        assert (s.objective, s.tv_border, s.l1) == (objective, whole, None)
    assert LearnedMask.preset("fast") == LearnedMask()
    assert LearnedMask.preset("released", tv=0.1).tv == 0.1


def test_no_l1_means_one_over_the_number_of_pixels() -> None:
    f, images = lively(), pixels(2, SIZE)
    default, spelled = (
        LearnedMask(steps=5, scale=2, fill="gray", l1=l1)(f, images, LABELS) for l1 in (None, 1 / 80)
    )
    assert torch.equal(default, spelled)


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

LEFT, RIGHT = (slice(2, 6), slice(1, 5)), (slice(2, 6), slice(7, 11))


def planted() -> tuple[Classifier, Tensor]:
    """Two labels, each proved by the brightness of its own patch alone; the image shows both, among noise."""
    weight = torch.zeros(3, 8, 12)
    weight[0][LEFT], weight[1][RIGHT] = 0.6, 0.6
    image = 0.3 + 0.4 * pixels(1, (8, 12), channels=1)
    for patch in (LEFT, RIGHT):
        image[0, 0][patch] = 1.0
    return Classifier(Linear(weight.flatten(1)), size=(8, 12), mean=[0.5], std=[0.5]), image


# ---- several masks -----------------------------------------------------------------------------------------


class EitherPatch(nn.Module):
    """Each of two patches proves label 0 alone, and half of both proves less than the whole of one."""

    def forward(self, x: Tensor) -> Tensor:
        left, right = (x[:, 0, rows, columns].mean(dim=(1, 2)) for rows, columns in (LEFT, RIGHT))
        z = 6 * (left**2 + right**2) - 2
        return torch.stack([z, torch.zeros_like(z)], dim=1)


def two_masks(init_noise: float) -> tuple[Tensor, Tensor, float]:
    """The larger and the smaller of two masks at every pixel, both over the same gray, and their last loss."""
    f = Classifier(EitherPatch(), size=(8, 12), mean=[0.5], std=[0.5])
    _, image = planted()
    s, notes = LearnedMask(steps=100, scale=1, tv=0.001, masks=2, fill="gray", init_noise=init_noise), Notes()
    largest, total = (
        replace(s, merge=merge)(f, image, torch.tensor([[0]]), progress=notes)[0, 0]
        for merge in ("max", "sum")
    )
    return largest, total - largest, notes.losses[-1]


def test_two_masks_share_out_two_proofs() -> None:
    larger, smaller, loss = two_masks(LearnedMask().init_noise)
    for patch in (LEFT, RIGHT):
        assert larger[patch].mean() > 0.5 and smaller[patch].mean() < 0.1
    proved, not_proved, size = math.log(1 + math.e) - 1, math.log(1 + math.e), 32 / 96
    assert loss < 2 * proved + size + 0.15 < proved + not_proved + size  # one patch each, not both to one


def test_merging_takes_the_largest_or_the_sum_of_the_masks() -> None:
    f, images, labels = lively(), pixels(2, SIZE), torch.tensor([[0, 2], [1, -1]])
    for merge in ("max", "sum"):
        s = LearnedMask(steps=3, masks=3, scale=3, init_noise=1.0, fill=Noise(), merge=merge)
        masks = bound(s, f).each_mask(images, labels, seed=0, progress=Progress())
        assert masks.shape == (2, 2, 3, *SIZE)
        merged = masks.amax(dim=2) if merge == "max" else masks.sum(dim=2)
        torch.testing.assert_close(s(f, images, labels), merged, rtol=0, atol=1e-6)


# ---- what is learned ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("preset, scale", [("fast", 1), ("fast", 2), ("released", 1), ("paper", 2)])
@pytest.mark.parametrize("fill", [Gray(), Noise(sigma=0.2)], ids=lambda fill: fill.name)
def test_each_labels_mask_finds_the_patch_that_proves_it(preset: str, scale: int, fill: Fill) -> None:
    f, image = planted()
    rate = 0.2 if preset != "fast" else LearnedMask().learning_rate
    s = LearnedMask.preset(preset, steps=100, scale=scale, fill=fill, distractors=2, learning_rate=rate)
    for map_, own, other in zip(
        s(f, image, torch.tensor([[0, 1]]))[0], (LEFT, RIGHT), (RIGHT, LEFT), strict=True
    ):
        outside = map_.clone()
        outside[own] = math.nan
        assert map_[own].mean() > 0.3
        assert map_[own].mean() > 4 * outside.nanmean() and map_[own].mean() > 8 * map_[other].mean()


class Notes(Progress):
    """Progress that keeps the losses it is told."""

    def __init__(self) -> None:
        self.losses: list[float] = []
        self.ended = 0

    def task(self, what: str, passes: int) -> ProgressTask:
        task = super().task(what, passes)
        owner = self

        class Noting(type(task)):  # type: ignore[misc]
            def advance(self, passes: int, note: str = "") -> None:
                owner.losses += [float(note.removeprefix("loss "))] if note else []

            def __exit__(self, *error: object) -> None:
                owner.ended += 1

        noting: ProgressTask = Noting()
        return noting


def test_more_variation_penalty_makes_smoother_masks_and_more_l1_smaller_ones() -> None:
    f, image = planted()

    def learned(**options: Any) -> Tensor:
        s = LearnedMask(steps=100, scale=1, fill="gray", **options)
        return s(f, image, torch.tensor([[0]]))[0, 0]

    rough, smooth = (learned(tv=tv).diff(dim=0).square().sum() for tv in (0.0, 0.5))
    assert smooth < 0.5 * rough
    large, small = (learned(l1=l1).sum() for l1 in (0.001, 0.05))
    assert small < 0.8 * large


# ---- stopping ----------------------------------------------------------------------------------------------


@pytest.fixture
def interrupted() -> tuple[nn.Module, Classifier, PassCounter]:
    """A net in training mode, inside a classifier, that is interrupted at its 30th pass."""
    tally = PassCounter()

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Sequential(
                nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Dropout(), nn.Flatten(), nn.Linear(144, 4)
            )

        def forward(self, x: Tensor) -> Tensor:
            if len(x) == 2:
                tally.passes += 1
            if tally.passes == 30:
                raise KeyboardInterrupt
            out: Tensor = self.inner(x)
            return out

    net = Net().train()
    return net, Classifier(net, size=8, batch_size=2), tally
