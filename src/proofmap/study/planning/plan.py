"""The plan of a run: its units (one method on one block of images each), which of them remain to be done, and their cost."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from proofmap.core.files import digest_of
from proofmap.methods.controls import map_sources
from proofmap.methods.method import Cost
from proofmap.study.opened import OpenStudy
from proofmap.study.planning.blocks import AT_ONCE
from proofmap.study.planning.cost import Expected, Speed, unit_cost
from proofmap.study.store.database import Store
from proofmap.study.store.errors import StoreError
from proofmap.study.store.maps import EXACT
from proofmap.study.store.records import ImageRow, Registered, plain_truth
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


def new_blocks(images: Sequence[ImageRow], size: int) -> list[list[int]]:
    """New blocks, as lists of image ids, for the images that are in no block yet."""
    free = [image.id for image in images if image.block is None]
    return [free[start : start + size] for start in range(0, len(free), size)]


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
    methods: Mapping[str, Registered],
    metrics: Mapping[str, Registered],
    context: str,
    taken: Mapping[str, str],
) -> Work:
    """The remaining work for these images, methods and metrics.

    ``context`` is a digest of the net, seed and settings of the run. ``taken`` gives for each method that uses the maps of another one the
    name of that other method, which is then computed directly before it.
    """
    names = list(methods)

    def order(method: Registered) -> list[int]:
        """A key to sort methods in the study's order, except that a method follows the one that it takes its maps from."""
        return [names.index(name) for name in _chain_of_sources(method.name, taken)]

    ordered = sorted(methods.values(), key=order)
    blocks: dict[int, list[ImageRow]] = {}
    for image in images:
        if image.block is not None:
            blocks.setdefault(image.block, []).append(image)
    query = (
        "SELECT method, block, maps FROM units WHERE maps LIKE ? AND id NOT IN (SELECT unit FROM failures)"
    )
    exact = {(method, block): name for method, block, name in store.rows(query, f"%{EXACT}.safetensors")}
    made_by = {method.name: digest([context, dict(method.settings)]) for method in methods.values()}
    waiting: list[Unit] = []
    for block, members in sorted(blocks.items()):
        subjects = tuple(members)
        content = digest([[s.name, s.digest, list(s.labels), plain_truth(s.true_labels)] for s in subjects])
        for method in ordered:
            key = digest_of(made_by[method.name], content)
            done = store.done(method.id, block)
            if any(done.get(metric.id, key) != key for metric in metrics.values()):
                raise StoreError(
                    f"the results of {method.name} on {subjects[0].name} were made with other settings or data than this "
                    "study has; choose another --out"
                )
            missing = tuple(metric.name for metric in metrics.values() if metric.id not in done)
            if missing:
                maps = exact.get((method.id, block), "")
                curves = not done
                last = waiting[-1].method if waiting and waiting[-1].block == block else ""
                together = taken.get(method.name) in _chain_of_sources(last, taken)
                waiting.append(Unit(method.name, block, subjects, missing, key, maps, curves, together))
    return Work(len(blocks) * len(methods), tuple(waiting), {b: tuple(m) for b, m in blocks.items()})


def _chain_of_sources(name: str, sources: Mapping[str, str]) -> list[str]:
    """The names of the methods from the one that makes the maps to ``name``, each taking its maps from the one before it.

    >>> _chain_of_sources("inverse:top-label:a", {"inverse:top-label:a": "top-label:a", "top-label:a": "a"})
    ['a', 'top-label:a', 'inverse:top-label:a']
    """
    return [*(_chain_of_sources(sources[name], sources) if name in sources else []), name]


def digest(content: object) -> str:
    """A hash of plain data, computed from its JSON text."""
    return digest_of(json.dumps(content, sort_keys=True, default=str))


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
