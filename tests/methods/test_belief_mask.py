"""Belief masks: the loss against a plain loop in float64, and areas that become f."""

from __future__ import annotations

import copy
import itertools
import math
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import proofmap as pm
from proofmap.classifier import Classifier
from proofmap.core.batching import BatchSize
from proofmap.core.inputs import Rows, Series
from proofmap.core.progress import Progress
from proofmap.fills import Blur, Gray, Images
from proofmap.methods import LearnedMask
from proofmap.methods.cams import GradCAM
from proofmap.methods.grids import enlarged, smoothing, upsampling
from proofmap.methods.masks.belief import BeliefMask
from proofmap.methods.masks.belief_problem import (
    pushes,
    share_thresholds,
)
from proofmap.methods.masks.engine import MaskEngine
from proofmap.session import Session
from tests.mask_toys import logits_of, seated, unnormalised
from tests.sessions import bound
from tests.toys import MEAN, STD, drawn, normal, pixels

SIZE = (12, 16)


def net(labels: int = 4, **options: Any) -> Classifier:
    layers = nn.Sequential(
        nn.Conv2d(3, 6, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(6, 6, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d((3, 4)),
        nn.Flatten(),
        nn.Linear(72, labels),
    )
    given = {"size": SIZE, "mean": MEAN, "std": STD, "batch_size": 64, **options}
    return Classifier(drawn(layers), **given)


def ratios(f: Classifier, images: Tensor, maps: Tensor, labels: Tensor, **options: Any) -> Tensor:
    """AUC / f of every pair."""
    played = pm.insertion(f, images, maps, labels, **options)
    return played.auc / played.f


# ---- the hard mask ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape, most", [((40,), 0.0), ((12, 16), 0.0), ((224, 224), 0.01)])
def test_a_threshold_leaves_the_share_above_it(shape: tuple[int, ...], most: float) -> None:
    grid = normal(3, *(max(2, side // 8) for side in shape), seed=5)
    up = [upsampling(low, high) for low, high in zip(grid.shape[1:], shape, strict=True)]
    maps = enlarged(grid, up) + 1e-4 * normal(3, *shape, seed=6)
    shares = torch.tensor([[0.0, 0.25, 0.5, 0.9]]).expand(3, 4)
    at = share_thresholds(maps, shares)
    shown = (maps.flatten(1)[:, None] > at[..., None]).float().mean(dim=2)
    assert (shown - shares).abs().max() <= most + 1e-6 + 1 / math.prod(shape)


# ---- the loss --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("copies", [0.0, 0.5])
@pytest.mark.parametrize("target", ["f", "curve", "strongest", "weakest"])
def test_the_first_steps_of_the_loss_are_those_of_a_plain_loop(target: str, copies: float) -> None:
    """With copies, every second composite shows one, and what was seen of the mask and of its copies is kept apart."""
    f, images, labels = net(), pixels(3, SIZE), torch.tensor([2, 0, 1])
    s = BeliefMask(
        fills=("gray", "noise"), grid=8, smoothness=0.02, target=target, temperature=0.5, copies=copies
    )
    problem, slots = seated(bound(s, f), images, labels)
    slots["sure"] = torch.tensor([0.0, 0.4, 1.0])
    games = list(itertools.product(range(2), (False, True) if copies else (False,)))
    seen: dict[tuple[int, int, bool], dict[int, float]] = {(p, *g): {} for p in range(3) for g in games}
    tenths: list[dict[tuple[int, bool, int], float]] = [{}, {}, {}]
    for step in range(4):
        slots["step"].fill_(step)
        weights = normal(3, 1, 6, 8, seed=10 + step).requires_grad_(True)
        hidden = unnormalised(f, problem.backgrounds(slots))
        loss = problem.losses(weights, slots)
        (gradient,) = torch.autograd.grad(loss.sum(), weights)
        for p in range(3):
            own = weights[p : p + 1].detach().double().requires_grad_(True)
            up = nn.functional.interpolate(own, size=SIZE, mode="bilinear", align_corners=False)[0, 0]
            believed = float(f.probabilities(images[p : p + 1])[0, labels[p]])
            total = torch.zeros((), dtype=torch.float64)
            for k in range(2):
                copied, shown = copies > 0 and (step + k) % 2 == 1, up
                if copied:
                    alone = {name: value[p : p + 1] for name, value in slots.items()}
                    shown = problem.copied(own.float(), alone)[0, k].double()
                u = (float(slots["phase"][p, k]) + (math.sqrt(5) - 1) / 2 * step) % 1.0
                t = shown.detach().flatten().sort(descending=True).values[int(u * 192)]
                soft = ((shown - t) / 0.5).sigmoid()
                mask = (shown > t).double() + soft - soft.detach()
                x = mask * images[p] + (1 - mask) * hidden[p, k]
                value = probability(f, x, int(labels[p]))
                tenths[p][k, copied, int(10 * u)] = min(2.0, abs(math.log(value.item() / believed)))
                own_curve = seen[p, k, copied]
                own_curve[int(5 * u)] = value.item()  # the latest of each fifth of the curve
                area = sum(own_curve.values()) / len(own_curve)
                if target == "curve":  # the point alone; too weak a point is measured in units of itself
                    area = min(value.item(), believed)
                    error = (
                        math.log(value.item() / believed)
                        if u >= 0.02
                        else max(0.0, math.log(value / believed))
                    )
                else:
                    error = math.log(area / believed)
                c = {
                    "f": max(-0.5, min(0.5, 2 * error)),
                    "curve": max(-2.0, min(2.0, 8 * error)) * (1.5 if error > 0 else 1),
                    "strongest": -0.5,
                    "weakest": 0.5,
                }[target]
                share, sure = value.item() / area, float(slots["sure"][p])
                factor = share ** (1 - sure) if c < 0 else share / (1 - value.item()) ** sure
                push = factor * value.log()
                total = total + c * push / 2
            areas = [sum(values) / max(1, len(values)) for g in games for values in [seen[p, *g].values()]]
            errors = [abs(math.log(max(area, 1e-6) / believed)) for area in areas]
            if target == "curve":
                errors = [e / 3 for e in tenths[p].values()]  # a slack of .3 in place of .1
            if target in ("f", "curve"):
                sg = up.sigmoid()
                rough = sg.diff(dim=0).square().sum() + sg.diff(dim=1).square().sum()
                total = total + 0.02 / (1 + (sum(errors) / len(errors) / 0.1) ** 2) * rough
            (expected,) = torch.autograd.grad(total, own)
            torch.testing.assert_close(gradient[p : p + 1].double(), expected, rtol=1e-3, atol=1e-6)


def probability(f: Classifier, x: Tensor, label: int) -> Tensor:
    """f(x, a) in float64, differentiable."""
    return logits_of(f, x).softmax(dim=0)[label]


def test_a_label_hardly_believed_may_be_proved_a_little_less() -> None:
    f, images = net(), pixels(1, SIZE)
    problem, slots = seated(bound(BeliefMask(fills=("gray",)), f), images, torch.tensor([0]))
    slots["f"] = torch.tensor([0.004])
    for area, expected in (
        (0.001, -0.5),
        (0.003, 2 * (math.log(0.75) + 0.25)),
        (0.0032, 0.0),
        (0.0039, 0.0),
        (0.0048, 2 * math.log(1.2)),
        (0.9, 0.5),
    ):
        slots["curve"] = torch.tensor([[[area, torch.nan]]])
        assert problem.control(slots).item() == pytest.approx(expected, abs=1e-5)
    slots["f"] = torch.tensor([0.4])
    for area, expected in ((0.2, -0.5), (0.36, 2 * math.log(0.9)), (0.4, 0.0), (0.8, 0.5)):
        slots["curve"] = torch.tensor([[[area, torch.nan]]])
        assert problem.control(slots).item() == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("logit", [-12.0, -1.0, 2.0, 9.0, 11.0])
def test_a_push_does_not_vanish_where_the_net_is_sure(logit: float) -> None:
    """Against the derivatives by hand, for F a logistic function, whose own derivative is F (1 - F)."""
    f, area = 1 / (1 + math.exp(-logit)), 0.4
    slope = f * (1 - f) / area
    for control, sure, expected in (
        (-0.5, 0.0, slope),
        (0.5, 0.0, slope),
        (-0.5, 1.0, 1 - f),
        (0.0, 1.0, f / area),
        (0.5, 1.0, f / area),
        (-0.5, 0.5, math.sqrt(f / area) * (1 - f)),
    ):
        x = torch.tensor([[logit]], dtype=torch.float64, requires_grad=True)
        given = torch.tensor([[area]]), torch.tensor([[control]]), torch.tensor([sure])
        pushes(nn.functional.logsigmoid(x), *given).sum().backward()
        assert x.grad is not None and x.grad.item() == pytest.approx(expected, rel=1e-4)


def test_moves_go_where_the_curve_is_far_from_f() -> None:
    problem, slots = seated(
        bound(BeliefMask(fills=("gray",), passes=2000), net()), pixels(3, SIZE), torch.tensor([0, 0, 0])
    )
    slots["f"], slots["sure"] = torch.tensor([0.9, 0.9, 0.9]), torch.ones(3)
    slots["curve"] = torch.tensor(
        [[[0.1, 0.9, 0.9, 0.9, 0.9]], [[0.8, 1.0, 0.9, 0.9, 0.9]], [[0.1, torch.nan, 0.9, 0.9, 0.9]]]
    )
    visits = torch.zeros(3, 5)
    for step in range(500):
        slots["step"].fill_(step)
        visits.scatter_add_(1, (problem.shares(slots) * 5).long(), torch.ones(3, 1))
    y = 1 / (1 + (math.log(0.9 / 0.74) / 0.1) ** 2)
    first = 0.2 * (1 - 0.8 * (1 - y)) + 0.8 * (1 - y)
    assert visits[0].tolist() == pytest.approx([500 * first, *[125 * (1 - first)] * 4], abs=4)
    for matched_or_not_yet_seen in visits[1:]:
        assert matched_or_not_yet_seen.tolist() == pytest.approx([100] * 5, abs=4)
    slots["sure"].zero_()
    slots["step"].fill_(7)
    even = (slots["phase"] + 7 * (math.sqrt(5) - 1) / 2) % 1.0
    torch.testing.assert_close(problem.shares(slots), even, atol=1e-5, rtol=0)


@pytest.mark.parametrize("cells", [(12, 16), (3, 4)])
def test_copies_are_the_mask_blurred_and_moved(cells: tuple[int, int]) -> None:
    s = BeliefMask(fills=("gray", "blur"), grid=cells[1], copies=0.7, passes=80)
    problem, slots = seated(bound(s, net()), pixels(4, SIZE), torch.arange(4))
    size = SIZE[0] // cells[0]
    most = round(size / 2)
    weights, copies = slots["weights"], 0
    masks = problem.masks(weights)[:, 0]
    for slots["step"] in torch.arange(6)[:, None].expand(-1, 4):
        for mask, shown in zip(masks, problem.copied(weights, slots), strict=True):
            possible = [
                torch.roll(padded, (down, right), (0, 1))[9:-9, 9:-9]
                for blur in (0.25, 0.5, 0.75, 1.0)
                for padded in [around(enlarged(mask, [smoothing(side, blur * size) for side in SIZE]))]
                for down, right in itertools.product(range(-most, most + 1), repeat=2)
            ]
            for each in shown:
                itself = torch.allclose(each, mask, atol=1e-4)
                assert itself or any(torch.allclose(each, copy, atol=1e-4) for copy in possible)
                copies += not itself
    assert 26 < copies <= 33  # of 48, the share .7


def around(map_: Tensor) -> Tensor:
    """The map with its outermost values repeated nine positions further."""
    return nn.functional.pad(map_[None, None], [9] * 4, mode="replicate")[0, 0]


class FineGrained(nn.Module):
    """Weighs every pixel for itself, after a high-pass filter."""

    def __init__(self) -> None:
        super().__init__()
        self.front = nn.Conv2d(3, 1, 3, padding=1, bias=False)
        cross = torch.tensor([[0.0, -0.25, 0.0], [-0.25, 1.0, -0.25], [0.0, -0.25, 0.0]])
        self.front.weight.data.copy_(cross.expand(1, 3, 3, 3) / 3)
        self.places = nn.Parameter(normal(3, 32, 32, seed=4) / 8)

    def forward(self, x: Tensor) -> Tensor:
        return (self.front(x) * self.places).sum(dim=(2, 3))


def test_a_robust_proof_survives_a_blur_where_a_thorough_one_does_not() -> None:
    f = Classifier(FineGrained(), size=(32, 32), mean=(0.5,) * 3, std=(0.25,) * 3, batch_size=64)
    images = pixels(4, (32, 32))
    left = {}
    for preset in ("thorough", "robust"):
        found = pm.evaluate(
            f,
            images,
            methods=[f"belief-mask:preset={preset},grid=16,fills=gray+blur"],
            labels=f.top(images, 2),
            metrics=["blur-survival:fill=gray,blur=2", "completeness", "soundness"],
        )
        left[preset], *as_it_is = [score.value for score in found.results[0].scores]
        assert min(as_it_is) > 0.8
    assert left["robust"] > left["thorough"] + 0.05


# ---- what is learned -------------------------------------------------------------------------------------------


@cache
def matched(target: str) -> tuple[Classifier, Tensor, Tensor, Tensor]:
    """A net, images, labels, and maps that were learned long enough to match f."""
    f, images = net(), pixels(3, SIZE)
    labels = f.top(images, 3)
    s = BeliefMask(passes=240, fills=("gray", "blur"), grid=16, smoothness=0.0, target=target)
    return f, images, labels, s(f, images, labels)


def test_areas_become_f_where_other_methods_miss_it() -> None:
    f, images, labels, ours = matched("f")
    others = [GradCAM()(f, images, labels), LearnedMask(fill="gray", scale=1, steps=60)(f, images, labels)]
    for fill in ("gray", "blur"):
        error = ratios(f, images, ours, labels, fill=fill).log().abs()
        assert error.mean() < 0.03 and error.max() < 0.12
        for maps in others:
            assert error.mean() < 0.5 * ratios(f, images, maps, labels, fill=fill).log().abs().mean()


def test_curves_reach_f_and_stay_where_areas_match_by_cancellation() -> None:
    shape = {}
    for target in ("f", "curve"):
        f, images, labels, maps = matched(target)
        played = pm.insertion(f, images, maps, labels, fill="blur", points=24)
        late = (played.probabilities / played.f[..., None])[..., played.counts >= 0.1 * played.positions]
        shape[target] = late.log().abs()
    assert shape["curve"].mean() < 0.5 * shape["f"].mean() and shape["curve"].amax() < 0.5 * shape["f"].amax()


def test_the_bounds_enclose_f_and_every_other_map() -> None:
    f, images = net(), pixels(2, SIZE)
    labels = f.top(images, 2)
    strong, weak = (
        ratios(
            f,
            images,
            BeliefMask(passes=60, fills=("gray",), grid=16, target=target)(f, images, labels),
            labels,
        )
        for target in ("strongest", "weakest")
    )
    assert bool((weak < 1).all()) and bool((strong > 1).all())
    for maps in (GradCAM()(f, images, labels), normal(2, 2, *SIZE, seed=3)):
        found = ratios(f, images, maps, labels)
        assert bool((weak < found).all()) and bool((found < strong).all())


# ---- the closing fit --------------------------------------------------------------------------------------------


def test_two_rounds_of_the_closing_fit_are_those_of_a_plain_loop() -> None:
    f, images, labels = net(), pixels(2, SIZE), torch.tensor([2, 0])
    s = BeliefMask(
        passes=48, fills=("gray", "blur"), grid=8, temperature=0.5
    )  # 24 steps, the last 12 are 3 rounds of 4
    problem, slots = seated(bound(s, f), images, labels)
    slots["scale"] = torch.ones(2)
    slots["step"].fill_(12)
    engine, hidden = MaskEngine(problem, BatchSize(16)), unnormalised(f, problem.backgrounds(slots))
    for turn, gain in enumerate((1.5, 1.0)):
        before = slots["weights"].clone()
        for _ in range(3):
            engine._step(slots)
        assert torch.equal(slots["weights"], before)  # held still until the round ends
        engine._step(slots)
        for p in range(2):
            change = plain_change(f, before[p], images[p], hidden[p], int(labels[p]), slots["phase"][p], turn)
            for k in range(2):
                found = slots["weights"][p, k].double()
                torch.testing.assert_close(found, before[p, 0] + gain * change, rtol=1e-4, atol=1e-4)


def plain_change(
    f: Classifier, weights: Tensor, image: Tensor, hidden: Tensor, label: int, phase: Tensor, turn: int
) -> Tensor:
    """What one round of the fit changes, by a loop over fills and shares in float64."""
    believed, slopes, errors = float(f.probabilities(image[None])[0, label]), [], []
    for k in range(2):
        own = weights[None, :1].double().requires_grad_(True)
        up = nn.functional.interpolate(own, size=SIZE, mode="bilinear", align_corners=False)[0, 0]
        said = []
        for place in range(4):
            u = (place + (float(phase[k]) + turn * (math.sqrt(5) - 1) / 2) % 1.0) / 4
            t = up.detach().flatten().sort(descending=True).values[int(u * 192)]
            soft = ((up - t) / 0.5).sigmoid()
            mask = (up > t).double() + soft - soft.detach()
            said.append(probability(f, mask * image + (1 - mask) * hidden[k], label))
        log_area = torch.stack(said).mean().log()
        slopes.append(torch.autograd.grad(log_area, own)[0].flatten())
        errors.append(log_area.detach() - math.log(believed))
    flat, error = torch.stack(slopes), torch.stack(errors).clamp(-0.5, 0.5)
    gram = flat @ flat.T
    damped = gram + 0.05 * gram.diagonal().mean() * torch.eye(2)
    change = -torch.linalg.solve(damped, error) @ flat
    change = change * min(1.0, 0.5 / float(change.square().mean().sqrt()))
    return change.view_as(weights[0])


def test_labels_that_are_far_from_f_or_sure_learn_to_the_end() -> None:
    f, images, labels = net(), pixels(3, SIZE), torch.tensor([0, 0, 0])
    ready = bound(BeliefMask(passes=48, fills=("gray", "blur"), grid=8), f)
    problem, slots = seated(ready, images, labels)
    assert slots["opens"].tolist() == [12, 12, 12]
    believed = slots["f"]
    slots["curve"] = (believed[:, None, None] * torch.tensor([1.0, 1.9, 2.1])[:, None, None]).repeat(1, 2, 5)
    slots["step"].fill_(12)
    problem.move(slots, torch.zeros_like(slots["weights"]))
    assert slots["opens"].tolist() == [12, 12, 24]  # log 1.9 is .64, log 2.1 is .74
    before = slots["weights"].clone()
    slots["step"].fill_(13)
    problem.move(slots, torch.ones_like(before))
    moved = (slots["weights"] - before).flatten(1).abs().amax(dim=1)
    assert moved[:2].max() == 0 and moved[2] > 0.1
    sharp = copy.deepcopy(f.net)
    sharp[-1].weight.data *= 1e4  # type: ignore[index, union-attr]
    certain = Classifier(sharp, size=SIZE, mean=MEAN, std=STD, batch_size=64)
    _, slots = seated(bound(BeliefMask(passes=48, fills=("gray", "blur"), grid=8), certain), images, labels)
    assert slots["sure"].min() == 1 and slots["opens"].tolist() == [24, 24, 24]


# ---- settings and nets -----------------------------------------------------------------------------------------


def test_a_session_has_the_random_images_of_fills_that_name_none() -> None:
    pictures, others = pixels(4, SIZE, seed=8), pixels(3, SIZE, seed=9)
    own = Images(source=pictures, crop="none")
    session = Session(net(), distractors=lambda: others)
    s = BeliefMask()
    session.prepare(s)
    *fixed, usual = s.parts_in(session).fills
    assert fixed == [Gray(), Blur()] and isinstance(usual, Images)
    assert len(usual.drawn_from(session).marks) == 3
    unasked = Session(net(), distractors=lambda: others)
    named = BeliefMask(fills=("gray", own))
    unasked.prepare(named)
    assert unasked.used_source is None and len(own.drawn_from(unasked).marks) == 4


@pytest.mark.parametrize("kind", ["series", "rows", "function"])
def test_inputs_and_nets_without_pictures_or_layers(kind: str) -> None:
    if kind == "series":
        layers = nn.Sequential(nn.Conv1d(2, 4, 5, padding=2), nn.ReLU(), nn.Flatten(), nn.Linear(80, 3))
        f = Classifier(drawn(layers), inputs=Series(length=20, mean=(0.0, 0.0), std=(1.0, 1.0)))
    elif kind == "rows":
        layers = nn.Sequential(nn.Linear(7, 9), nn.Tanh(), nn.Linear(9, 3))
        f = Classifier(drawn(layers), inputs=Rows(columns=7, mean=(0.0,) * 7, std=(1.0,) * 7))
    else:
        inner = net().net
        f = Classifier(lambda x: inner(x), size=SIZE, mean=MEAN, std=STD)  # type: ignore[operator]
    images = f.inputs.blank(2) + 0.1 * normal(2, *f.inputs.shape, seed=2).clamp(-1, 1)
    labels = f.top(images, 2)
    s = BeliefMask(passes=100, smoothness=0.0, copies=0.5 if kind == "series" else 0.0)
    ready = bound(s, f)
    assert ready.record()["start"]["method"] == "gradient-x-input"  # type: ignore[index]
    expected = {
        "series": ["gray", "blur", "noise"],
        "rows": ["gray", "noise"],
        "function": ["gray", "blur", "images"],
    }
    assert [fill.name for fill in ready.parts_in().fills] == expected[kind]
    maps = ready(images, labels, progress=Progress())
    assert ratios(f, images, maps, labels).log().abs().mean() < 0.05
