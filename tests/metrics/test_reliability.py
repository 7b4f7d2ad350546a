"""Reliability against scipy, a published example of alpha, and plain loops."""

from __future__ import annotations

import csv
import dataclasses
import json
import math
from itertools import product

import numpy as np
import pytest
import scipy
import torch
from torch import Tensor

import proofmap as pm
from proofmap.core.errors import InputError
from proofmap.metrics.reliability import concordance, inter_rater, krippendorff_alpha, mean_correlation
from proofmap.metrics.similarity import mean_ranks, pearson, spearman
from proofmap.results.reliability import Reliability, jackknife, reliability
from proofmap.results.statistics import mean_score
from tests.toys import linear_classifier, normal, pixels

NAN = math.nan

# ---- correlations -------------------------------------------------------------------------------------------------


def test_ranks_and_correlations_are_scipys_with_ties_and_infinities() -> None:
    a, b = normal(6, 50).mul(3).round(), normal(6, 50, seed=1).round()  # many ties
    a[0, 3], a[1, :4] = torch.inf, -torch.inf
    torch.testing.assert_close(
        mean_ranks(a), torch.from_numpy(scipy.stats.rankdata(a.double().numpy(), axis=1))
    )
    for row, found in enumerate(spearman(a, b).tolist()):
        assert found == pytest.approx(scipy.stats.spearmanr(a[row].numpy(), b[row].numpy()).statistic)
    assert pearson(normal(1, 9), normal(1, 9, seed=2)).item() == pytest.approx(
        scipy.stats.pearsonr(normal(9).numpy(), normal(9, seed=2).numpy()).statistic, rel=1e-5
    )


def test_a_constant_row_has_no_correlation() -> None:
    assert spearman(torch.ones(1, 5), normal(1, 5)).isnan().all()
    assert math.isnan(mean_correlation(torch.ones(4, 1))) and math.isnan(mean_correlation(normal(1, 3)))


# ---- alpha --------------------------------------------------------------------------------------------------------


def test_alpha_is_that_of_krippendorffs_own_example() -> None:
    """Four observers, twelve units, some missing: ordinal alpha .815 (Krippendorff 2011, Computing alpha-reliability)."""
    ratings = [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, NAN, NAN, NAN],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, NAN, 3],
        [NAN, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, NAN],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, NAN],
    ]
    assert krippendorff_alpha(torch.tensor(ratings)) == pytest.approx(0.815, abs=5e-4)


def plain_alpha(ratings: list[list[float]]) -> float:
    """Mean distances over all pairs of ratings, of one thing and of any two."""
    flat = [v for row in ratings for v in row]
    often = {v: flat.count(v) for v in flat}

    def distance(a: float, b: float) -> float:
        a, b = min(a, b), max(a, b)
        return (sum(n for v, n in often.items() if a <= v <= b) - (often[a] + often[b]) / 2) ** 2

    things = list(zip(*ratings, strict=True))
    one = [distance(t[i], t[j]) for t in things for i, j in product(range(len(t)), repeat=2) if i != j]
    every = [distance(flat[i], flat[j]) for i, j in product(range(len(flat)), repeat=2) if i != j]
    return 1 - (sum(one) / len(one)) / (sum(every) / len(every))


def test_alpha_is_that_of_all_pairs() -> None:
    values = np.random.default_rng(0).integers(0, 4, (5, 6)).astype(float)
    assert krippendorff_alpha(torch.from_numpy(values)) == pytest.approx(plain_alpha(values.tolist()))


def test_alpha_is_one_where_images_agree_and_near_zero_where_they_are_noise() -> None:
    order = torch.arange(5.0).expand(30, 5)
    assert inter_rater(order + 10 * normal(30, 1)) == pytest.approx(1.0)  # images differ, orders do not
    assert abs(inter_rater(normal(400, 5))) < 0.03
    assert inter_rater(torch.stack([order[0], -order[0]])) < -0.5
    for nothing in (torch.ones(4, 3), torch.zeros(1, 3), torch.zeros(3, 1)):
        assert math.isnan(krippendorff_alpha(nothing)) and math.isnan(inter_rater(nothing))
    assert math.isnan(krippendorff_alpha(torch.tensor([[1.0, NAN], [NAN, 2.0]])))  # no thing has two ratings


# ---- of an evaluation ---------------------------------------------------------------------------------------------

VALUES = {
    "a": {"up": normal(9) + 1, "down": -normal(9) - 1},
    "b": {"up": normal(9, seed=1), "down": normal(9, seed=2)},
    "c": {"up": normal(9, seed=3), "down": normal(9, seed=4)},
}


def evaluation(values: dict[str, dict[str, Tensor]] = VALUES) -> pm.Evaluation:
    found = pm.evaluate(
        linear_classifier(4, 3),
        pixels(9, 4),
        methods=["gradient"],
        labels="all",
        metrics=["insertion:points=2"],
    )
    results = []
    for name, scores in values.items():
        made = tuple(mean_score(k, v, higher_is_better=k != "down") for k, v in scores.items())
        results.append(dataclasses.replace(found.results[0], name=name, values=scores, scores=made))
    return dataclasses.replace(found, results=tuple(results))


FOUND = reliability(evaluation())


def test_every_number_is_that_of_its_definition() -> None:
    up = torch.stack([VALUES[m]["up"] for m in "abc"], dim=1)
    assert FOUND.find("inter-rater", "up").value == inter_rater(up)
    assert FOUND.find("kendall-w", "up").value == concordance(up)
    pairs = [(0, 1), (0, 2), (1, 2)]
    between = [scipy.stats.spearmanr(up[:, i].numpy(), up[:, j].numpy()).statistic for i, j in pairs]
    assert FOUND.find("inter-method", "up").value == pytest.approx(np.mean(between))
    within = [scipy.stats.spearmanr(v["up"].numpy(), -v["down"].numpy()).statistic for v in VALUES.values()]
    assert FOUND.find("internal-consistency", "up and down").value == pytest.approx(np.mean(within))


def test_ranks_and_wins_are_counted_with_better_first() -> None:
    ranks = {m: [] for m in "abc"}  # type: ignore[var-annotated]
    for score, sign in (("up", -1), ("down", 1)):
        table = sign * np.stack([VALUES[m][score].numpy() for m in "abc"], axis=1)
        for k, m in enumerate("abc"):
            ranks[m].append(scipy.stats.rankdata(table, axis=1)[:, k].mean())
    for m in "abc":
        assert FOUND.find("rank", m).value == pytest.approx(np.mean(ranks[m]))
        assert FOUND.find("rank by down", m).value == pytest.approx(ranks[m][1])
    assert FOUND.order[0] == "a"
    up = float((VALUES["a"]["up"] > VALUES["b"]["up"]).double().mean())
    down = float((VALUES["a"]["down"] < VALUES["b"]["down"]).double().mean())
    assert FOUND.find("wins by down", "a over b").value == pytest.approx(down)
    assert FOUND.find("wins", "a over b").value == pytest.approx((up + down) / 2)
    assert FOUND.find("wins", "b over a").value == pytest.approx(1 - (up + down) / 2)


def test_the_jackknife_of_a_mean_is_its_standard_error() -> None:
    x = normal(30).double()
    value, low, high = jackknife(lambda t: float(t.mean()), x)
    assert high - value == pytest.approx(
        1.96 * float(x.std()) / math.sqrt(30)
    ) and value - low == pytest.approx(high - value)
    assert all(map(math.isnan, jackknife(lambda t: float(t.mean()), x[:2])[1:]))


def test_intervals_stay_inside_what_a_number_can_be() -> None:
    for number in (*FOUND.metrics, *FOUND.wins):
        least = -1 if number.what in ("inter-rater", "inter-method") else 0
        assert math.isnan(number.low) or least <= number.low <= number.value <= number.high <= 1
    sure = reliability(evaluation({"a": {"up": normal(9)}, "b": {"up": normal(9) - 1}}))
    assert (sure.find("wins", "a over b").value, sure.find("wins", "b over a").low) == (1.0, 0.0)


def test_many_images_are_left_out_in_a_hundred_groups() -> None:
    calls: list[int] = []

    def mean(t: Tensor) -> float:
        calls.append(len(t))
        return float(t.mean())

    x = normal(1000).double()
    value, _, high = jackknife(mean, x)
    assert len(calls) == 101 and set(calls) == {1000, 990}
    assert high - value == pytest.approx(1.96 * float(x.std()) / math.sqrt(1000), rel=0.2)


def test_alphas_interval_holds_what_many_images_say() -> None:
    """Of twenty studies of 25 images each, about 95 % of the intervals hold the alpha of 2,000 images."""

    def images(n: int, seed: int) -> Tensor:
        return normal(n, 4, seed=seed) + torch.tensor([0.0, 0.4, 0.8, 1.2])

    truth = inter_rater(images(2000, 99))
    inside = [
        low <= truth <= high for _, low, high in (jackknife(inter_rater, images(25, s)) for s in range(20))
    ]
    assert sum(inside) >= 17


def test_some_methods_and_metrics_alone() -> None:
    some = reliability(evaluation(), methods=["c", "a"], metrics=["up"])
    assert some.methods == ("c", "a") and some.scores == ("up",) and some.consistency == ()
    assert some.find("rank", "a").value + some.find("rank", "c").value == pytest.approx(3)


def test_images_that_a_method_does_not_count_are_left_out_and_nothing_is_made_up() -> None:
    holed = {m: dict(v) for m, v in VALUES.items()}
    holed["b"]["up"] = VALUES["b"]["up"].clone()
    holed["b"]["up"][2] = NAN
    found = reliability(evaluation(holed))
    assert found.find("inter-rater", "up").n == 8 and found.find("inter-rater", "down").n == 9
    assert math.isnan(found.find("rank", "a").low) and found.find("rank", "a").value >= 1
    none = {m: {"up": v["up"], "down": torch.full((9,), NAN)} for m, v in VALUES.items()}
    empty = reliability(evaluation(none))
    assert math.isnan(empty.find("inter-rater", "down").value) and empty.order[0] == "a"
    assert json.loads(empty.json())["numbers"] and empty.table()


def test_the_notes_say_what_single_images_are_worth() -> None:
    assert any("do not rank the methods alike by" in note for note in FOUND.notes)
    agreed = {m: {"up": normal(9) + k} for k, m in enumerate("abc")}
    assert not any("do not rank" in note for note in reliability(evaluation(agreed)).notes)


def test_all_forms_say_the_same() -> None:
    record = json.loads(FOUND.json())
    rows = list(csv.DictReader(FOUND.csv().splitlines()))
    assert record["order"] == list(FOUND.order) and len(record["numbers"]) == len(rows)
    assert [float(r["value"]) for r in rows] == [n["value"] for n in record["numbers"]]
    for text in (str(FOUND), FOUND.markdown(), FOUND._repr_html_()):
        assert "inter-rater alpha" in text and "internal consistency" in text and "wins over" in text


@pytest.mark.parametrize(
    "options, message",
    [
        ({"methods": ["a"]}, "two methods or more"),
        ({"metrics": ["speed"]}, "not judged by 'speed'; there are up, down"),
        ({"methods": ["a", "z"]}, "z"),
    ],
)
def test_what_cannot_be_asked_is_refused(options: dict[str, list[str]], message: str) -> None:
    with pytest.raises(InputError, match=message):
        reliability(evaluation(), **options)


def test_a_result_prints_without_metrics_to_pair() -> None:
    assert isinstance(FOUND, Reliability) and "two metrics" not in str(
        reliability(evaluation(), metrics=["up"])
    )
