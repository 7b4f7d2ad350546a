"""For each promise of metrics, one that breaks it and what the message says."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from proofmap.metrics import Insertion, Judged, Metric, RankingAgreement, RunValue, RunValues


@dataclass(frozen=True, kw_only=True)
class Mean(Metric):
    """The mean of the first label's map."""

    name: ClassVar[str] = "mean"
    description: ClassVar[str] = "mean of the first label's map"
    higher_is_better: ClassVar[bool] = True

    def values(self, judged: Judged) -> Tensor:
        return judged.maps[:, 0].flatten(1).mean(dim=1)


def metric(kind: type[Metric] = Mean, /, **changes: Any) -> Metric:
    """A metric with other attributes."""
    return type("Changed", (kind,), changes)()


def giving(values: Callable[[Judged], Tensor], **changes: Any) -> Metric:
    """A metric with other values."""
    return metric(values=lambda self, judged: values(judged), **changes)


def careless(what: Callable[[Judged], object]) -> Metric:
    """A metric that does something it must not do, beside its work."""

    def values(judged: Judged) -> Tensor:
        found = Mean()(judged)
        what(judged)
        return found

    return giving(values)


def over_run(numbers: Callable[[RunValues], Sequence[RunValue]]) -> Metric:
    """A metric of whole runs with other numbers."""
    return metric(RankingAgreement, over_run=lambda self, run: numbers(run))


def with_own_settings() -> Metric:
    class Positional(Mean):
        power: float = 2.0

    return dataclasses.dataclass(frozen=True)(Positional)()


def restless() -> Metric:
    times = itertools.count()
    return giving(lambda judged: Mean()(judged) + next(times))


def restless_run() -> Metric:
    times = itertools.count()
    return over_run(lambda run: [RunValue("all", next(times) / 100, 1)])


def of_the_first(run: RunValues) -> Sequence[RunValue]:
    first = next(iter(run.values.values()))["insertion"]
    return [RunValue("insertion", float(first.mean()), len(first))]


def of_two(run: RunValues) -> Sequence[RunValue]:
    _, second, *_ = run.values.values()
    return [RunValue("insertion", float(second["insertion"].mean()), 1)]


def eaten(self: Metric, judged: Judged) -> Tensor:
    """Pairs, of which values take no copy."""
    found = judged.maps.flatten(2).mean(dim=2)
    judged.maps.zero_()
    return found


def add_one(judged: Judged) -> None:
    net: Any = judged.session.net.net
    next(net.parameters()).data.add_(1)


METRICS: dict[str, tuple[Metric, str]] = {
    "its_settings_are_frozen_keyword_only_and_recorded": (with_own_settings(), "not keyword-only: power"),
    "it_compares_by_its_settings_and_can_be_a_key": (
        metric(__eq__=lambda a, b: a is b, __hash__=lambda a: 0),
        "with the same settings is not equal",
    ),
    "it_has_a_name_and_a_description": (metric(name="mean:map"), "'mean:map' must be lower case"),
    "it_says_its_kind_direction_and_limits": (
        metric(higher_is_better="yes"),
        "higher_is_better is 'yes', expected True or False",
    ),
    "its_record_is_plain_data_and_the_same_each_time": (
        metric(record=lambda self, session: {"limits": (0, 1)}),
        "the record changes when JSON carries it",
    ),
    "values_are_one_float_per_image_inside_the_limits_or_nan": (
        giving(lambda judged: Mean()(judged).abs() + 2, limits=(0.0, 1.0)),
        "returned 2.*, but its values must lie between its limits 0 and 1",
    ),
    "pairs_are_one_value_per_label_or_none": (
        metric(pairs=lambda self, judged: judged.maps),
        r"of shape \(4, 3\), one value per label, not of shape \(4, 3, 8, 10\)",
    ),
    "pairs_are_computed_once": (
        metric(Insertion, values=lambda self, judged: self.pairs(judged).nanmean(dim=1)),
        r"pairs\(\) ran 2 times for one block; define from_pairs",
    ),
    "the_same_maps_get_the_same_values": (restless(), "the same maps get two different values"),
    "the_batch_size_changes_nothing": (
        giving(lambda judged: Mean()(judged) * judged.classifier.batches[0].size),
        "values change with batches of 5",
    ),
    "the_order_of_images_changes_nothing": (
        giving(lambda judged: Mean()(judged) + torch.arange(len(judged.maps))),
        "values change with the order",
    ),
    "an_image_alone_gets_the_value_it_gets_among_others": (
        giving(lambda judged: Mean()(judged) - Mean()(judged).mean()),
        "values change when an image is alone",
    ),
    "places_without_a_label_do_not_count": (
        giving(lambda judged: judged.maps.flatten(1).mean(dim=1)),
        "values change where the label -1 is added",
    ),
    "series_and_rows_are_judged_or_refused": (
        giving(lambda judged: judged.maps.mean(dim=(1, 2, 3))),
        "series end in IndexError: .*; raise an InputError instead",
    ),
    "its_games_are_those_it_plays": (
        metric(Insertion, games=lambda self: ()),
        r"plays a game that games\(\) does not name: insertion$",
    ),
    "its_games_and_cost_cover_the_passes_that_the_net_sees": (
        giving(lambda judged: judged.maps_again(labels=judged.labels[:, :1])[:, 0].flatten(1).mean(dim=1)),
        r"the net saw 8 inputs per image, but games\(\) and cost\(\) give 3",
    ),
    "what_is_judged_stays_as_it_is": (
        metric(pairs=eaten),
        r"judged\.maps was changed",
    ),
    "the_net_is_afterwards_what_it_was": (careless(add_one), "these weights changed: "),
    "the_global_random_state_is_not_touched": (
        careless(lambda judged: torch.manual_seed(0)),
        "torch's global generator was used or seeded",
    ),
    "a_run_gets_numbers_inside_the_limits_or_nan": (
        over_run(lambda run: [RunValue("soundness", 1.5, 3)]),
        r"the number of soundness is 1\.5, expected 0 to 1 or NaN",
    ),
    "a_run_of_one_method_or_one_image_gets_numbers_or_nan": (
        over_run(of_two),
        "ValueError: not enough values",
    ),
    "the_order_of_methods_changes_no_number": (
        over_run(of_the_first),
        "the number of insertion changes with the order of methods",
    ),
    "a_run_gets_the_same_numbers_and_stays_as_it_is": (
        restless_run(),
        "the same run gets two different numbers",
    ),
}
