"""Belief orders, and masks that they close, against all orders, dynamic programming over subsets, and the judge."""

from __future__ import annotations

import math
from itertools import permutations
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from proofmap.classifier import Classifier
from proofmap.core import streams
from proofmap.core.errors import InputError
from proofmap.core.inputs import Inputs, Rows, Series
from proofmap.fills import Noise
from proofmap.methods.controls import Random
from proofmap.methods.masks.belief import BeliefMask
from proofmap.methods.method import Cost
from proofmap.methods.perturbation.belief_order import (
    BeliefOrder,
    OrderSearch,
    _deviation,
    best_orders,
    interpolant,
    misfit,
    rounded,
    subsets,
)
from proofmap.metrics import insertion
from proofmap.metrics.games import Quadrature
from tests.sessions import bound
from tests.toy_tokens import toy_classifier
from tests.toys import Counted, conv_classifier, counted_classifier, drawn, normal, pixels

FLOOR = 5e-4


def table(
    columns: int, labels: int = 3, *, seed: int = 0, strength: float = 3.0
) -> tuple[Classifier, Tensor]:
    """A small net of rows whose columns interact, and four rows."""
    net = drawn(nn.Sequential(nn.Linear(columns, 16), nn.Tanh(), nn.Linear(16, labels)), seed=seed)
    with torch.no_grad():
        for weight in net.parameters():
            weight.mul_(strength)
    inputs = Rows(columns=columns, mean=(0.0,) * columns, std=(1.0,) * columns)
    return Classifier(net, inputs=inputs, batch_size=512), normal(4, columns, seed=seed + 7)


def fit(f: Classifier, x: Tensor, maps: Tensor, labels: Tensor, **options: Any) -> Tensor:
    """The misfit of maps ``(N, L, columns)`` by its formula, from the curves of the judge."""
    curves = insertion(f, x, maps, labels, points="all", **options)
    believed = curves.f.double()
    area = ((curves.auc.double() + FLOOR) / (believed + FLOOR)).log().abs()
    values = curves.probabilities.double()[..., 1:]  # after s = 1 .. n columns
    far = ((values - believed[..., None]).abs() / (believed[..., None] + FLOOR)).clamp_max(1.0)
    return area + 0.1 * far.mean(dim=-1)


@pytest.mark.parametrize("labels", [2, 3])
def test_of_few_columns_it_finds_the_best_of_all_orders(labels: int) -> None:
    f, x = table(5, labels)
    asked = torch.arange(labels).expand(len(x), -1)
    found = fit(f, x, BeliefOrder()(f, x, asked), asked)
    every = torch.tensor([[5.0 - order.index(r) for r in range(5)] for order in permutations(range(5))])
    for i in range(len(x)):
        rows, maps = x[i].expand(len(every), -1), every[:, None].expand(-1, labels, -1)
        best = fit(f, rows, maps, asked[:1].expand(len(every), -1)).amin(dim=0)
        if labels == 2:  # one order serves both, and it is the best for the less probable label
            less = int(f.probabilities(x[i : i + 1])[0].argmin())
            found, best = found[:, less, None], best[less, None]
            assert (found[i] <= best + 1e-3).all()
            found = fit(f, x, BeliefOrder()(f, x, asked), asked)
        else:
            assert (found[i] <= best + 1e-3).all(), "up to the rounding of log-odds"


def test_the_best_order_is_that_of_dynamic_programming_over_subsets() -> None:
    """With all the weight on steadiness the misfit is a sum over the sets that are shown, so that the least cost of a set is its own
    deviation plus the least cost of the set without one of its regions."""
    regions, steady = 6, 1e9
    values = torch.rand(2, 1 << regions, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    f, sizes = values[:, -1], torch.ones(2, regions, dtype=torch.long)
    orders = best_orders(values, sizes, f, steady)
    for p in range(2):
        cost = {0: 0.0}
        for mask in range(1, 1 << regions):
            own = float(_deviation(values[p, mask], f[p]))
            cost[mask] = own + min(cost[mask & ~(1 << r)] for r in range(regions) if mask >> r & 1)
        shown = torch.cat([torch.zeros(1, dtype=torch.long), (1 << orders[p]).cumsum(dim=0)])
        assert float(_deviation(values[p, shown[1:]], f[p]).sum()) == pytest.approx(cost[(1 << regions) - 1])


def test_the_search_comes_near_to_the_best_of_all_orders() -> None:
    """Seven columns have 5,040 orders; the search may show at most 90 of their 128 sets."""
    ratios = []
    for seed in range(2):
        f, x = table(7, seed=seed)
        labels = torch.arange(3).expand(len(x), -1)
        best, found, chance = (
            fit(f, x, method(f, x, labels), labels)
            for method in (BeliefOrder(), BeliefOrder(budget=90), Random(per_label=True))
        )
        assert (found >= best - 2e-3).all()
        ratios.append(((found - best).mean() / (chance - best).mean()).item())
    assert sum(ratios) / 2 < 0.1, ratios


def test_the_passes_stay_within_the_budget() -> None:
    budget = 120
    f, tally = counted_classifier(size=6)
    f.frozen()  # which looks at the net
    method = BeliefOrder(regions=9, superpixels="grid", budget=budget, tolerance=0.0, patience=1000)
    ready = bound(method, f)
    for labels in ([[0]], [[0, 1, 2]]):
        tally.reset()
        ready(pixels(1, 6), torch.tensor(labels))
        most = ready.cost(len(labels[0])).forward  # type: ignore[union-attr]
        assert 20 < tally.images <= most <= budget * len(labels[0])


def test_too_small_a_budget_is_refused_with_what_is_needed() -> None:
    f, x = table(9)
    labels = torch.zeros(len(x), 1, dtype=torch.long)
    with pytest.raises(InputError, match="at least 44 passes for 9 regions, budget is 30"):
        BeliefOrder(budget=30)(f, x, labels)
    with pytest.raises(
        InputError, match="at least 132 passes for 9 regions and 3 draws of the fill, budget is 90"
    ):
        BeliefOrder(budget=90, draws=3, fill=Noise())(f, x, labels)


def test_with_a_random_fill_it_plays_with_the_mean_over_the_draws() -> None:
    """The best of all 24 orders of four columns, each set measured in a plain loop on the same three backgrounds."""
    f, x = table(4)
    x, labels, draws = x[:2], torch.arange(3).expand(2, -1), 3
    maps = BeliefOrder(draws=draws, fill=Noise())(f, x, labels)
    keys, ready = streams.image_keys(x, 0, "belief-order", "fill"), bound(Noise(), f)
    for i in range(len(x)):
        drawn = [streams.step_keys(keys[i : i + 1], torch.tensor([d]), 1)[:, 0] for d in range(draws)]
        behind = [ready(x[i : i + 1], key)[0] for key in drawn]

        def mean(shown: tuple[int, ...], row: Tensor = x[i], behind: list[Tensor] = behind) -> Tensor:
            keep = torch.tensor([r in shown for r in range(4)])
            return (
                f.probabilities(torch.stack([torch.where(keep, row, b) for b in behind])).double().mean(dim=0)
            )

        for label in range(3):

            def cost(order: tuple[int, ...], label: int = label, mean: Any = mean) -> float:
                values = torch.stack([mean(order[:t])[label] for t in range(5)])
                return float(misfit(values, interpolant(torch.arange(5.0)), values[-1], 0.1))

            found = tuple(maps[i, label].argsort(descending=True).tolist())
            assert cost(found) <= min(map(cost, permutations(range(4)))) + 1e-3


def test_the_weights_are_those_of_the_paper_s_mean() -> None:
    nodes = Quadrature(points=7).nodes(50)
    assert torch.allclose(interpolant(nodes.counts), nodes.weights)
    empty_region = interpolant(torch.tensor([0, 2, 2, 4]))
    assert torch.allclose(empty_region[[0, 3]], interpolant(torch.tensor([0, 2, 4]))[[0, 2]])
    assert empty_region.sum() == pytest.approx(1)


def test_the_misfit_by_hand() -> None:
    """Nothing shown .1, then .2 and .4 = f, over two columns: the area is .3."""
    values, f = torch.tensor([0.1, 0.2, 0.4], dtype=torch.float64), torch.tensor(0.4, dtype=torch.float64)
    found = misfit(values, interpolant(torch.tensor([0, 1, 2])), f, 0.5).item()
    assert found == pytest.approx(abs(math.log(0.3005 / 0.4005)) + 0.5 * (0.2 / 0.4005) / 2)
    assert subsets(2).tolist() == [[False, False], [True, False], [False, True], [True, True]]


def test_a_search_that_persists_goes_on_from_where_predictions_end_and_never_ends_worse() -> None:
    """Regions help in pairs, which predictions for single regions do not know."""
    pairs = 3.0 * torch.rand(4, 12, 12, generator=torch.Generator().manual_seed(0), dtype=torch.float64) - 1.6

    def measure(pair: Tensor, shown: Tensor) -> Tensor:
        given = shown.double()
        return rounded((torch.einsum("jr,jrq,jq->j", given, pairs[pair], given) / 12 - 1).sigmoid())

    everyone = torch.arange(4)
    f = measure(everyone, torch.ones(4, 12, dtype=torch.bool))
    empty = measure(everyone, torch.zeros(4, 12, dtype=torch.bool))
    flat = torch.zeros(4, 12, dtype=torch.float64)

    def search(persist: bool) -> OrderSearch:
        found = OrderSearch(measure, f, empty, flat, flat, torch.ones(4, 12), points=12, steady=0.1, sets=300)
        found.run(0.0, 30, persist=persist)
        return found

    stopped, persisted = search(False), search(True)
    assert (persisted.misfit <= stopped.misfit + 1e-12).all() and (persisted.left <= stopped.left).all()
    assert (persisted.misfit < stopped.misfit - 1e-4).any() and (persisted.left < stopped.left).any()


# ---- masks of few positions, closed by an order --------------------------------------------------------------


WORDS = ["No", "stars are far away", "The committee voted to fund it"]


def test_of_few_words_the_closed_mask_is_nearly_the_best_of_all_orders() -> None:
    """Five words have 120 orders. Ten passes with gradients alone are far from the best."""
    f = toy_classifier(5)
    x = f.inputs.encode(["The committee voted for it", "Stars are not far away"])
    with torch.no_grad():  # words count
        f.net.head.weight.mul_(40)  # type: ignore[union-attr]
        f.net.head.bias.sub_(f.logits(x).mean(dim=0))  # type: ignore[union-attr]
    labels = torch.arange(3).expand(2, -1)
    every = torch.tensor([[5.0 - order.index(r) for r in range(5)] for order in permutations(range(5))])
    best = torch.stack(
        [
            fit(f, text.expand(120, *text.shape), every[:, None].expand(-1, 3, -1), labels[:1].expand(120, -1), fill="delete")
            .amin(dim=0)
            for text in x
        ]
    )  # fmt: skip
    learned = fit(
        f, x, BeliefMask(passes=10, fills=("delete",), closing="fit")(f, x, labels), labels, fill="delete"
    )
    closed = fit(f, x, BeliefMask(passes=50, fills=("delete",))(f, x, labels), labels, fill="delete")
    assert (closed >= best - 1e-3).all(), "up to the rounding of log-odds"
    assert (closed - best).mean() < 0.1 * (learned - best).mean(), (closed, best, learned)


def test_columns_with_one_fill_come_nearer_to_f_with_the_same_passes() -> None:
    f, x = table(12)
    labels = torch.arange(3).expand(len(x), -1)
    fitted, ordered = (
        fit(f, x, BeliefMask(passes=100, fills=("gray",), closing=closing)(f, x, labels), labels).mean()
        for closing in ("fit", "order")
    )
    assert ordered < 0.5 * fitted


def test_a_search_starts_from_the_order_that_is_given_and_never_ends_worse() -> None:
    """Regions add log-odds that predictions do not know: only the given order is good, and it is kept at no further cost."""
    adds = torch.linspace(3, -3, 10, dtype=torch.float64).expand(2, -1)

    def measure(pair: Tensor, shown: Tensor) -> Tensor:
        return rounded(((shown.double() * adds[pair]).sum(dim=1) - 1).sigmoid())

    everyone, flat = torch.arange(2), torch.zeros(2, 10, dtype=torch.float64)
    f = measure(everyone, torch.ones(2, 10, dtype=torch.bool))
    empty = measure(everyone, torch.zeros(2, 10, dtype=torch.bool))
    given = torch.tensor([[0, 9, 1, 8, 2, 7, 3, 6, 4, 5], [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]])
    search = OrderSearch(
        measure, f, empty, flat, flat, torch.ones(2, 10), points=10, steady=0.1, sets=60, given=given
    )
    assert (search.left == 60 - BeliefOrder().least_sets(10, given=True)).all()
    start = torch.stack([measure(everyone, given.argsort(dim=1) < t) for t in range(11)], dim=1)
    began = misfit(start, search.weights(given), f, 0.1)
    assert search.order[0].tolist() == given[0].tolist() and search.order[1].tolist() == list(range(10))
    assert search.misfit[0] == pytest.approx(began[0].item()) and search.misfit[1] < began[1]
    search.run(0.0, 20)
    assert (search.misfit <= began + 1e-12).all()


def test_closing_costs_passes_with_gradients_the_scan_and_the_search() -> None:
    module = Counted(torch.nn.Linear(6, 3))
    f = Classifier(module, inputs=Rows(columns=6, mean=(0.0,) * 6, std=(1.0,) * 6), batch_size=64)
    f.frozen()
    ready = bound(BeliefMask(passes=60, fills=("gray",)), f)
    assert ready.cost(3) == Cost(forward=2 * 3 + 14 + 3 * 54, gradient=3 * 6), (
        "14 sets for all labels together"
    )
    module.tally.reset()
    ready(normal(1, 6), torch.tensor([[0, 1, 2]]))
    least = 3 * (2 + 6 + 10) + 14
    assert least <= module.tally.images <= ready.cost(3).passes  # type: ignore[union-attr]
    assert BeliefMask(passes=60).cost(1) == Cost(forward=2, gradient=60), "of pictures, which are fitted"


def closer(f: Classifier, **settings: Any) -> BeliefOrder | None:
    return bound(BeliefMask(**settings), f).parts_in().closer


def linear(inputs: Inputs) -> Classifier:
    return Classifier(
        torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(inputs.probe()[0].numel(), 2)), inputs=inputs
    )


def test_masks_are_closed_by_an_order_if_positions_are_few_and_one_fixed_fill_hides_them() -> None:
    f = toy_classifier()
    assert isinstance(closer(f), BeliefOrder)
    assert closer(f, closing="fit") is None and closer(f, target="curve") is None
    assert closer(f, passes=20) is None, "too few passes to measure two curves"
    columns = Rows(columns=4, mean=(0.0,) * 4, std=(1.0,) * 4)
    assert closer(linear(columns), fills=("gray",)) is not None
    assert closer(linear(columns)) is None and closer(linear(columns), fills=("noise",)) is None
    long = Series(length=129, mean=(0.0,), std=(1.0,))
    assert closer(linear(long), fills=("gray",)) is None
    assert closer(linear(long), fills=("gray",), closing="order") is not None
    assert closer(conv_classifier(size=8), fills=("gray",)) is None


@pytest.mark.parametrize(
    "settings, why",
    [
        ({"target": "weakest"}, "target=f"),
        ({"fills": ("delete", "mask")}, "one fill, and not a random one"),
        ({"fills": ("delete",), "passes": 20}, "more passes for 12 words"),
    ],
)
def test_a_search_that_is_impossible_is_refused(settings: dict[str, Any], why: str) -> None:
    with pytest.raises(InputError, match=f"closing=order needs {why}"):
        bound(BeliefMask(closing="order", **settings), toy_classifier())


def test_a_record_says_that_an_order_closed_the_masks_so_no_run_mixes_both() -> None:
    closed = bound(BeliefMask(), toy_classifier()).record()["closing"]
    fitted = bound(BeliefMask(closing="fit"), toy_classifier()).record()["closing"]
    assert closed == {"by": "order", "most positions": 128} and fitted == "fit"
    assert bound(BeliefMask(), conv_classifier(size=8)).record()["closing"] is None, (
        "as before there was a choice"
    )


def test_texts_of_one_word_and_of_many_lengths_have_maps() -> None:
    f = toy_classifier()
    x = f.inputs.encode(WORDS)
    maps = BeliefMask(passes=60)(f, x, torch.tensor([[0, 1, 2], [1, -1, -1], [2, 0, -1]]))
    assert maps.shape == (3, 3, 12) and maps.isfinite().all()
    assert maps[0, 0, 0] > 0 and (maps[0, :, 1:] == 0).all() and (maps[1, 1:] == 0).all()
    assert sorted(maps[1, 0, :4].tolist()) == [0.25, 0.5, 0.75, 1.0]
