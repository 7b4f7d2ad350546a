"""The spread over seeds is that of a plain loop, zero for what draws nothing, and refuses runs that differ otherwise."""

from __future__ import annotations

import csv
import dataclasses
import functools
import json
from statistics import fmean, stdev
from typing import Any

import pytest
import torch

import proofmap as pm
from proofmap.core.errors import InputError
from proofmap.results.seeds import seed_spread
from tests.toys import linear_classifier, pixels

NET, PIXELS = linear_classifier(4, 3), pixels(5, 4)


def judged(seed: int, **options: Any) -> pm.Evaluation:
    options = {"methods": ["random", "gradient"], "metrics": ["insertion", "soundness"], **options}
    return pm.evaluate(NET, options.pop("images", PIXELS), labels="all", seed=seed, **options)


@functools.cache
def seeds() -> list[pm.Evaluation]:
    """The same study with three seeds."""
    return [judged(seed) for seed in range(3)]


def test_the_spread_is_that_of_a_plain_loop() -> None:
    line = seed_spread(seeds()).find("insertion", "random")
    values = [e["random"].values["insertion"].double() for e in seeds()]
    means = [float(v.mean()) for v in values]
    assert (line.value, line.spread) == pytest.approx((fmean(means), stdev(means)))
    assert (line.least, line.greatest, line.n, line.seeds) == (min(means), max(means), 5, 3)
    moved = [stdev([float(v[i]) for v in values]) ** 2 for i in range(5)]
    assert line.per_image == pytest.approx(fmean(moved) ** 0.5)
    halves = [(e["random"].score("insertion").high - e["random"].score("insertion").low) / 2 for e in seeds()]
    assert line.share == pytest.approx(line.spread / fmean(halves))


def test_what_draws_nothing_has_no_spread_and_what_draws_is_named() -> None:
    found = seed_spread(seeds())
    still = found.find("insertion", "gradient")
    assert still.spread == still.per_image == still.share == 0
    assert found.find("insertion", "random").spread > 0
    assert not any("one seed is not enough" in note for note in found.notes)
    result = seeds()[1]["random"]
    moved = dataclasses.replace(result, values={**result.values, "insertion": 2 * result.values["insertion"]})
    loud = seed_spread([seeds()[0], dataclasses.replace(seeds()[1], results=(moved, seeds()[1]["gradient"]))])
    (note,) = (note for note in loud.notes if "one seed is not enough" in note)
    assert "insertion of random" in note and "gradient" not in note


def test_images_are_matched_by_name() -> None:
    names = list("abcde")
    ours = judged(0, names=names)
    turned = judged(1, names=names[::-1], images=PIXELS.flip(0))
    straight = judged(1, names=names)
    a, b = seed_spread([ours, turned]), seed_spread([ours, straight])
    one, other = a.find("insertion", "random"), b.find("insertion", "random")
    assert dataclasses.replace(one, share=other.share) == other
    assert one.share == pytest.approx(other.share, rel=0.05)  # another order, other resamples


def test_images_that_a_seed_does_not_count_are_left_out() -> None:
    first = seeds()[0]["random"]
    values = dict(first.values)
    values["insertion"] = values["insertion"].clone()
    values["insertion"][1] = torch.nan
    holed = dataclasses.replace(seeds()[0], results=(dataclasses.replace(first, values=values),))
    assert seed_spread([holed, seeds()[1]]).find("insertion", "random").n == 4


def test_all_forms_say_the_same() -> None:
    found = seed_spread({"a": seeds()[0], "b": seeds()[1]})
    records = [dataclasses.asdict(line) for line in found.lines]
    assert json.loads(found.json())["lines"] == records
    assert [float(r["spread"]) for r in csv.DictReader(found.csv().splitlines())] == [
        r["spread"] for r in records
    ]
    assert len(str(found).splitlines()) == 1 + len(records) + len(found.notes)
    assert found.markdown().count("\n|") == 1 + len(records)


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: [seeds()[0]], "at least two evaluations"),
        (lambda: [seeds()[0], seeds()[0]], "the same seed; they have 0, 0"),
        (lambda: [seeds()[0], judged(1, images=PIXELS[:3])], "different images"),
        (lambda: [seeds()[0], judged(1, methods=["centered-gaussian"])], "no method is in all"),
        (
            lambda: [seeds()[0], judged(1, metrics=["insertion:points=8", "soundness"])],
            "differ in more than the seed: insertion has points = 32 and 8",
        ),
    ],
)
def test_what_is_no_spread_over_seeds_is_refused(make: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        seed_spread(make())
