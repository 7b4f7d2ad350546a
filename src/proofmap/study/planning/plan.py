"""The plan of a run: its units (one method on one block of images each), which of them remain to be done, and their cost."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from proofmap.methods.controls import map_sources
from proofmap.methods.method import Cost
from proofmap.study.opened import OpenStudy
from proofmap.study.planning.blocks import AT_ONCE
from proofmap.study.planning.cost import Expected, Speed, unit_cost
from proofmap.study.store import EXACT, ImageRow, Store
from proofmap.study.unit import Unit


@dataclass(frozen=True)
class MethodPlan:
    """One method's part of a plan: all its units, the finished ones, and the cost of the remaining ones. ``cost`` is None if unknown."""

    name: str
    units: int
    done: int
    cost: Cost | None


@dataclass(frozen=True)
class Plan:
    """The finished and the remaining work of a run."""

    images: int
    labels_per_image: float
    blocks: int
    methods: tuple[MethodPlan, ...]
    map_bytes: int
    item: str = "image"
    """The word for one input: image, series, row."""
    speed: Speed | None = None
    """Speed of this machine; None if it was not measured because the work is short."""

    @property
    def units(self) -> int:
        return sum(m.units for m in self.methods)

    @property
    def done(self) -> int:
        return sum(m.done for m in self.methods)

    @property
    def cost(self) -> Cost | None:
        """Cost of the remaining units; None if a method does not report its cost."""
        return None if self.expected.unknown else self.expected.known

    @property
    def at_once(self) -> int:
        """The number of composites (images with some positions hidden) that the images of one unit put into a batch."""
        return max(1, round(AT_ONCE * self.labels_per_image * self.images / max(1, self.blocks)))

    @property
    def expected(self) -> Expected:
        """Expected cost of the remaining units, as far as it is known."""
        left = [m for m in self.methods if m.done < m.units]
        known = sum((m.cost for m in left if m.cost is not None), Cost())
        return Expected(known, tuple(m.name for m in left if m.cost is None))


@dataclass(frozen=True)
class Work:
    """The units of a run. ``units`` is the number of all; ``waiting`` has the remaining ones in the order in which they are computed."""

    units: int
    waiting: tuple[Unit, ...]
    images: Mapping[int, tuple[ImageRow, ...]]
    """Block -> its images, in order."""


def work_of(
    store: Store,
    images: Sequence[ImageRow],
    blocks: Sequence[range],
    methods: Sequence[str],
    metrics: Sequence[str],
    taken: Mapping[str, str],
) -> Work:
    """The remaining work for these images, methods and metrics. ``blocks`` has the indices of the images of each block.

    ``taken`` gives for each method that uses the maps of another one the name of that other method, which is then computed directly before
    it.
    """

    def order(method: str) -> list[int]:
        """A key to sort methods in the study's order, except that a method follows the one that it takes its maps from."""
        return [methods.index(name) for name in _chain_of_sources(method, taken)]

    ordered, parsed = sorted(methods, key=order), cache(json.loads)
    waiting: list[Unit] = []
    rows = store.work_done()
    row = next(rows, None)
    members: dict[int, tuple[ImageRow, ...]] = {}
    for block, places in enumerate(blocks):
        members[block] = tuple(images[places.start : places.stop])
        done: dict[str, set[str]] = {method: set() for method in ordered}
        exact: dict[str, str] = {}
        while row is not None and row[0] <= block:
            _, method, names, maps = row
            if method in done:
                done[method].update(parsed(names))
            if maps and EXACT in maps:
                exact[method] = maps
            row = next(rows, None)
        for method in ordered:
            missing = tuple(metric for metric in metrics if metric not in done[method])
            if missing:
                last = waiting[-1].method if waiting and waiting[-1].block == block else ""
                together = taken.get(method) in _chain_of_sources(last, taken)
                maps, curves = exact.get(method, ""), not done[method]
                waiting.append(Unit(method, block, members[block], missing, maps, curves, together))
    return Work(len(blocks) * len(methods), tuple(waiting), members)


def _chain_of_sources(name: str, sources: Mapping[str, str]) -> list[str]:
    """The names of the methods from the one that makes the maps to ``name``, each taking its maps from the one before it.

    >>> _chain_of_sources("inverse:top-label:a", {"inverse:top-label:a": "top-label:a", "top-label:a": "a"})
    ['a', 'top-label:a', 'inverse:top-label:a']
    """
    return [*(_chain_of_sources(sources[name], sources) if name in sources else []), name]


# ---- cost -----------------------------------------------------------------------------------------------------


def make_plan(
    opened: OpenStudy,
    images: int,
    labels_per_image: float,
    blocks: int,
    waiting: Mapping[str, int],
) -> Plan:
    """The plan for this number of images and blocks. ``waiting`` has the number of remaining units of each method."""
    labels = max(1, round(labels_per_image))
    plans = []
    per_value = {"none": 0, "float16": 2, "float32": 4}[opened.study.maps]
    map_bytes, taken = 0, map_sources(opened.methods)
    for name, method in opened.methods.items():
        left = waiting.get(name, 0)
        share = left / blocks if blocks else 0
        each = unit_cost(method, list(opened.metrics.values()), labels, opened.session, taken=name in taken)
        cost = None if each is None else each * round(images * share)
        plans.append(MethodPlan(name, blocks, blocks - left, cost))
        maps = 1 if method.label_free else labels_per_image
        map_bytes += round(images * share * maps * opened.classifier.inputs.count * per_value)
    return Plan(
        images, labels_per_image, blocks, tuple(plans), map_bytes, item=opened.classifier.inputs.singular
    )
