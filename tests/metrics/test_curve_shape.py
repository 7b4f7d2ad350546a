"""Peak, peak-soundness, reach and steadiness on nets whose curves are known, and what noise does to a peak."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.metrics import Judged, Metric
from proofmap.metrics.proof_scores import Completeness, Peak, PeakSoundness, ProofReach, Soundness, Steadiness
from proofmap.metrics.scores import peak_of
from proofmap.session import Session
from tests.toys import normal

SIZE = 8
ALL = SIZE * SIZE


def net_of(curve: Callable[[Tensor], Tensor]) -> Classifier:
    """A net of two labels: the first has the probability ``curve(share)`` on a white image of which a share is shown on black."""

    def logits(x: Tensor) -> Tensor:
        p = curve(x.mean(dim=(1, 2, 3)).double())
        return torch.stack([p, 1 - p], dim=1).log().float()

    return Classifier(logits, size=SIZE, mean=(0.0,) * 3, std=(1.0,) * 3, names=["a", "b"])


def steps(*parts: tuple[float, float]) -> Callable[[Tensor], Tensor]:
    """A curve with the value ``p`` up to the share ``end``, for each of ``(end, p)``."""

    def curve(share: Tensor) -> Tensor:
        found = torch.full_like(share, parts[-1][1])
        for end, p in reversed(parts):
            found = torch.where(share <= end + 1e-6, p, found)
        return found

    return curve


def judged(f: Classifier, labels: tuple[int, ...] = (0,)) -> Judged:
    maps = normal(1, len(labels), SIZE, SIZE, seed=1)
    return Judged(Session(f), torch.ones(1, 3, SIZE, SIZE), torch.tensor([labels]), maps)


def value(metric: Metric, curve: Callable[[Tensor], Tensor], labels: tuple[int, ...] = (0,)) -> float:
    return float(metric(judged(net_of(curve), labels)))


OVERSHOOT = steps((0.25, 0.2), (0.75, 0.8), (1.0, 0.4))
"""f = .4; a quarter shows .2, up to three quarters .8."""


def test_on_a_curve_of_steps_each_is_what_can_be_counted_by_hand() -> None:
    assert value(Peak(points="all"), OVERSHOOT) == pytest.approx(0.8 / 0.4, abs=1e-5)
    assert value(PeakSoundness(points="all"), OVERSHOOT) == pytest.approx(0.4 / 0.8, abs=1e-5)
    assert value(ProofReach(points="all"), OVERSHOOT) == pytest.approx(
        17 / ALL
    )  # the first count above a quarter
    late = [k for k in range(1, ALL + 1) if k / ALL >= 0.1]
    within = [k for k in late if k > 48]  # .2 and .8 are a factor of 2 away from .4
    assert value(Steadiness(points="all"), OVERSHOOT) == pytest.approx(len(within) / len(late), abs=1e-6)
    assert value(Steadiness(points="all", factor=2.01), OVERSHOOT) == pytest.approx(1.0)
    assert value(ProofReach(points="all", part=2.1), OVERSHOOT) == 1.0, "never"
    assert value(ProofReach(points="all", part=1.9), OVERSHOOT) == pytest.approx(17 / ALL)


def test_three_curves_of_one_area_are_told_apart() -> None:
    """Each has the mean .4 = f, so completeness and soundness of the area are 1."""
    flat, late, spike = (
        steps((1.0, 0.4)),
        steps((0.25, 0.1), (0.75, 0.55), (1.0, 0.4)),
        steps((0.5, 0.0001), (0.9375, 0.857), (1.0, 0.4)),
    )
    for curve in (flat, late, spike):
        assert value(Completeness(points="all"), curve) == pytest.approx(1, abs=0.01)
        assert value(Soundness(points="all"), curve) == pytest.approx(1, abs=0.01)
    steady = [value(Steadiness(points="all"), curve) for curve in (flat, late, spike)]
    peaks = [value(Peak(points="all"), curve) for curve in (flat, late, spike)]
    assert steady[0] == pytest.approx(1) and steady[0] > steady[1] > steady[2]
    assert peaks == pytest.approx([1, 0.55 / 0.4, 0.857 / 0.4], abs=1e-4)


def test_the_worst_label_decides_and_places_without_a_label_do_not_count() -> None:
    f = net_of(OVERSHOOT)  # the other label has 1 - F: .8, .2, .6
    both = judged(f, (0, 1))
    pairs = Peak(points="all").pairs(both)
    assert pairs[0].tolist() == pytest.approx([2.0, 0.8 / 0.6], abs=1e-5)
    assert float(Peak(points="all")(both)) == pytest.approx(2.0, abs=1e-5)
    reach = ProofReach(points="all").pairs(both)
    assert reach[0].tolist() == pytest.approx([17 / ALL, 1 / ALL])
    assert float(ProofReach(points="all")(both)) == pytest.approx(17 / ALL)
    padded = Judged(Session(f), both.images, torch.tensor([[0, -1]]), both.maps)
    for metric in (Peak(), PeakSoundness(), ProofReach(), Steadiness()):
        assert bool(metric.pairs(padded)[0, 1].isnan()) and not bool(metric(padded).isnan())


def test_a_label_that_the_net_does_not_believe_needs_no_proof_but_must_not_be_proved() -> None:
    hidden = steps((0.5, 0.3), (1.0, 0.002))
    assert torch.isnan(ProofReach()(judged(net_of(hidden))))
    assert value(PeakSoundness(points="all"), hidden) == pytest.approx(0.002 / 0.3, rel=1e-3)
    assert value(Peak(points="all", e2=0.1), hidden) == pytest.approx(3.0, rel=1e-3)
    quiet = steps((0.5, 0.0002), (1.0, 0.002))
    assert value(Steadiness(points="all"), quiet) == pytest.approx(1.0), (
        "below both floors all of it is steady"
    )


def test_what_is_shown_of_nothing_is_no_part_of_the_curve() -> None:
    bright = steps((0.0, 0.9), (1.0, 0.4))
    assert value(Peak(points="all"), bright) == pytest.approx(1.0, abs=1e-5)


def test_the_quantile_leaves_out_a_spike_that_is_narrower() -> None:
    spike = steps((0.5, 0.4), (0.53125, 0.9), (1.0, 0.4))  # two of 64 counts
    assert value(Peak(points="all"), spike) == pytest.approx(0.9 / 0.4, abs=1e-4)
    assert value(Peak(points="all", q=0.98), spike) == pytest.approx(0.9 / 0.4, abs=1e-4)
    assert value(Peak(points="all", q=0.95), spike) == pytest.approx(1.0, abs=1e-4)
    assert value(PeakSoundness(points="all", q=0.95), spike) == pytest.approx(1.0, abs=1e-4)


def test_a_quantile_is_the_least_point_with_no_more_above_it_than_it_leaves() -> None:
    values = torch.rand(3, 2, 9, generator=torch.Generator().manual_seed(0)).double()
    weights = torch.rand(9, generator=torch.Generator().manual_seed(1)).double()
    weights /= weights.sum()
    for q in (1.0, 0.9, 0.5, 0.1):
        found = peak_of(values, weights, q)
        for i in range(3):
            for j in range(2):
                curve = values[i, j]
                fitting = [v for v in curve.tolist() if float(weights[curve > v].sum()) <= 1 - q + 1e-9]
                assert float(found[i, j]) == min(fitting)
