"""Any game and any target make a base metric, a completeness and a soundness: against loops that follow Definition 3.3; and the shape of curves that are known."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core.errors import InputError
from proofmap.metrics import Judged, Metric, make_game, make_metric
from proofmap.metrics.proof_scores import Peak, PeakSoundness, ProofReach, Steadiness
from proofmap.metrics.scores import peak_of
from proofmap.session import Session
from tests.sessions import bound
from tests.toys import conv_classifier, normal, pixels

SIZE, N = 4, 2
LABELS = torch.tensor([[0, 1, 2], [3, 1, 0]])


def judged(**options: object) -> Judged:
    f = conv_classifier(SIZE, 4, **options)  # type: ignore[arg-type]
    return Judged(Session(f), pixels(N, SIZE), LABELS, normal(N, 3, SIZE, SIZE, seed=5))


def softmax_of(z: Tensor) -> Tensor:
    return z.double().exp() / z.double().exp().sum()


def against_best_other(z: Tensor, a: int) -> float:
    p = softmax_of(z)
    return float(p[a].log() - max(p[b].log() for b in range(len(p)) if b != a))


TARGET_BY_HAND: dict[str, Callable[[Tensor, int], float]] = {
    "probability": lambda z, a: float(softmax_of(z)[a]),
    "decision": lambda z, a: float(int(z.argmax()) == a),
    "decision:k=2": lambda z, a: float(a in z.argsort(descending=True)[:2].tolist()),
    "rival": lambda z, a: 1 / (1 + math.exp(-against_best_other(z, a))),
    "margin": against_best_other,
    "logit": lambda z, a: float(z[a]),
    "log-probability": lambda z, a: float(softmax_of(z)[a].log()),
}
SIGMOID_BY_HAND: dict[str, Callable[[Tensor, int], float]] = {
    "probability": lambda z, a: 1 / (1 + math.exp(-float(z[a]))),
    "decision": lambda z, a: float(z[a] >= 0),
    "rival": lambda z, a: 1 / (1 + math.exp(-float(z[a]))),
    "margin": lambda z, a: float(z[a]),
}
SHOWN_BY_HAND: dict[str, Callable[[int, int, int], bool]] = {
    "insertion": lambda place, s, n: place < s,
    "deletion": lambda place, s, n: place >= s,
    "lerf": lambda place, s, n: place < n - s,
}


def base_metric(
    j: Judged, i: int, k: int, game: str, h: Callable[[Tensor, int], float], counts: range
) -> tuple[float, float]:
    """g(x, a, M), the mean of h over the modified inputs, and h(x, a): one forward pass for each."""
    x, n = j.images[i], SIZE * SIZE
    order = j.maps[i, k].flatten().argsort(descending=True).tolist()
    gray, total, label = j.classifier.gray, 0.0, int(j.labels[i, k])
    for s in counts:
        shown = x.flatten(1).clone()
        for place, position in enumerate(order):
            if not SHOWN_BY_HAND[game](place, s, n):
                shown[:, position] = gray
        total += h(j.classifier.logits(shown.view(1, 3, SIZE, SIZE))[0], label)
    return total / len(counts), h(j.classifier.logits(x[None])[0], label)


@pytest.mark.parametrize("game, target", [("insertion", t) for t in TARGET_BY_HAND] + [("lerf", "rival")])
def test_a_base_metric_is_the_mean_of_its_target_over_modified_inputs(game: str, target: str) -> None:
    j = judged()
    found = j.play(make_game(game, target=target, points="all"))
    for i in range(N):
        for k in range(3):
            g, h = base_metric(j, i, k, game, TARGET_BY_HAND[target], range(1, 17))
            assert found.auc[i, k].item() == pytest.approx(g, abs=1e-5)
            assert found.h[i, k].item() == pytest.approx(h, abs=1e-5)


@pytest.mark.parametrize(
    "outputs, game, target, within",
    [
        ("logits", "deletion", "rival", "0:1"),
        ("logits", "insertion", "probability", "0.25:0.75"),  # the paper's restricted range is one instance
        ("sigmoid", "insertion", "probability", "0:1"),
        ("sigmoid", "lerf", "decision", "0:1"),
    ],
)
def test_every_base_metric_makes_a_completeness_and_a_soundness(
    outputs: str, game: str, target: str, within: str
) -> None:
    j = judged(outputs=outputs)
    settings = f"base={game},target={target},within={within},points=all"
    alpha, beta = (
        make_metric(f"completeness:e1=0.05,{settings}"),
        make_metric(f"soundness:e2=0.02,{settings}"),
    )
    h_of = (SIGMOID_BY_HAND if outputs == "sigmoid" else TARGET_BY_HAND)[target]
    counts = range(5, 13) if within == "0.25:0.75" else range(1, 17)
    alphas, betas = torch.zeros(N, 3), torch.zeros(N, 3)
    for i in range(N):
        for k in range(3):
            g, h = base_metric(j, i, k, game, h_of, counts)
            alphas[i, k] = min(max(g, 0.05) / h, 1) if h else 1
            betas[i, k] = min(max(h, 0.02) / g, 1) if g else 1
    torch.testing.assert_close(alpha(j), alphas.amin(dim=1), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(beta(j), betas.amin(dim=1), rtol=1e-4, atol=1e-5)
    assert bound(alpha, j.classifier).record()["game"] == game


def test_margins_look_inside_the_label_set_and_one_label_has_no_rival() -> None:
    f = conv_classifier(SIZE, 4)
    z = f.logits(pixels(2, SIZE))
    some = f.restricted([0, 2, 3])
    found = make_game("insertion", target="margin").read(some, z)
    assert found[:, 0].tolist() == pytest.approx((z[:, 0] - z[:, 2:].amax(dim=1)).tolist(), abs=1e-5)
    unnormalised = f.restricted([0, 2], renormalise=False)
    found = make_game("insertion", target="margin").read(unnormalised, z)
    assert found[:, 0].tolist() == pytest.approx((z[:, 0] - z[:, 2]).tolist(), abs=1e-5)
    alone = f.restricted([1], renormalise=False)
    assert make_game("insertion", target="rival").read(alone, z)[:, 1].tolist() == [0.5, 0.5]


@pytest.mark.parametrize(
    "spec, told",
    [
        ("completeness:target=margin", "'margin' may be below zero"),
        ("soundness:base=deletion(fill=blur)", "drawn with the settings of soundness"),
        ("insertion:target=logits", r"no target is named 'logits'\. Did you mean 'logit'"),
    ],
)
def test_ratios_refuse_targets_below_zero_and_curves_drawn_twice(spec: str, told: str) -> None:
    with pytest.raises(InputError, match=told):
        make_metric(spec)


# ---- pixel flipping ------------------------------------------------------------------------------------------------


def test_srg_is_lerf_minus_morf_and_turns_with_the_map() -> None:
    j = judged()
    lerf, morf, srg = (make_metric(f"{name}:points=all")(j) for name in ("lerf", "morf", "srg"))
    probability = TARGET_BY_HAND["probability"]
    for i in range(N):
        least, _ = base_metric(j, i, 0, "lerf", probability, range(1, 17))
        most, _ = base_metric(j, i, 0, "deletion", probability, range(1, 17))
        assert (lerf[i].item(), morf[i].item()) == (pytest.approx(least), pytest.approx(most))
        assert srg[i].item() == pytest.approx(least - most, abs=1e-6)
    turned = Judged(Session(j.classifier), j.images, j.labels, -j.maps)
    torch.testing.assert_close(make_metric("srg:points=all")(turned), -srg)
    torch.testing.assert_close(morf, make_metric("deletion:points=all")(j))


# ---- the shape of a curve ------------------------------------------------------------------------------------


SIDE = 8
ALL = SIDE * SIDE


def net_of(curve: Callable[[Tensor], Tensor]) -> Classifier:
    """A net of two labels: the first has the probability ``curve(share)`` on a white image of which a share is shown on black."""

    def logits(x: Tensor) -> Tensor:
        p = curve(x.mean(dim=(1, 2, 3)).double())
        return torch.stack([p, 1 - p], dim=1).log().float()

    return Classifier(logits, size=SIDE, mean=(0.0,) * 3, std=(1.0,) * 3, names=["a", "b"])


def steps(*parts: tuple[float, float]) -> Callable[[Tensor], Tensor]:
    """A curve with the value ``p`` up to the share ``end``, for each of ``(end, p)``."""

    def curve(share: Tensor) -> Tensor:
        found = torch.full_like(share, parts[-1][1])
        for end, p in reversed(parts):
            found = torch.where(share <= end + 1e-6, p, found)
        return found

    return curve


def judged_on(f: Classifier, labels: tuple[int, ...] = (0,)) -> Judged:
    maps = normal(1, len(labels), SIDE, SIDE, seed=1)
    return Judged(Session(f), torch.ones(1, 3, SIDE, SIDE), torch.tensor([labels]), maps)


def value(metric: Metric, curve: Callable[[Tensor], Tensor], labels: tuple[int, ...] = (0,)) -> float:
    return float(metric(judged_on(net_of(curve), labels)))


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


def test_the_worst_label_decides_and_places_without_a_label_do_not_count() -> None:
    f = net_of(OVERSHOOT)  # the other label has 1 - F: .8, .2, .6
    both = judged_on(f, (0, 1))
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
    assert torch.isnan(ProofReach()(judged_on(net_of(hidden))))
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
