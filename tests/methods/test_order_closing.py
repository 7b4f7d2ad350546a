"""Belief masks of few positions are closed by a search over orders: against all orders, the passes that it takes, and where it is used."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest
import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core.errors import InputError
from proofmap.core.inputs import Inputs, Rows, Series
from proofmap.methods.masks.belief import BeliefMask
from proofmap.methods.method import Cost
from proofmap.methods.perturbation.belief_order import BeliefOrder, OrderSearch, misfit, rounded
from proofmap.metrics import insertion
from tests.methods.test_belief_order import FLOOR, fit, table
from tests.sessions import bound
from tests.toy_tokens import toy_classifier
from tests.toys import Counted, conv_classifier, normal

WORDS = ["No", "stars are far away", "The committee voted to fund it"]


def misfits(f: Classifier, x: Tensor, maps: Tensor, labels: Tensor) -> Tensor:
    """The misfit of the maps of one text by its formula, from the curves of the judge."""
    curves = insertion(f, x, maps, labels, points="all", fill="delete")
    believed, values = curves.f.double()[..., None], curves.probabilities.double()[..., 1:]
    area = ((curves.auc.double() + FLOOR) / (believed[..., 0] + FLOOR)).log().abs()
    return area + 0.1 * ((values - believed).abs() / (believed + FLOOR)).clamp_max(1.0).mean(dim=-1)


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
            misfits(f, text.expand(120, *text.shape), every[:, None].expand(-1, 3, -1), labels[:1].expand(120, -1))
            .amin(dim=0)
            for text in x
        ]
    )  # fmt: skip
    learned = misfits(f, x, BeliefMask(passes=10, fills=("delete",), closing="fit")(f, x, labels), labels)
    closed = misfits(f, x, BeliefMask(passes=50, fills=("delete",))(f, x, labels), labels)
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


def test_the_cost_counts_passes_with_gradients_the_scan_and_the_search() -> None:
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
    found: BeliefOrder | None = bound(BeliefMask(**settings), f).parts_in().closer
    return found


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
