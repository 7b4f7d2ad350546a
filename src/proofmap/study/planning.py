"""Plans a run before it begins: its units, their number of images, what remains to be done, its cost in passes, and the time on this machine.

A unit is one method on one block of images.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

from proofmap.classifier import Classifier
from proofmap.core.batching import is_out_of_memory
from proofmap.core.labels import WRONG, LabelRule
from proofmap.loop import shown_game
from proofmap.methods.controls import map_sources
from proofmap.methods.method import Cost, Method
from proofmap.metrics.metric import Metric
from proofmap.session import Session
from proofmap.study.opened import OpenStudy
from proofmap.study.store import ImageRow, Store

# ---- cost -----------------------------------------------------------------------------------------------------

MEASURED = 1.0
"""Seconds for which passes are repeated to measure their rate."""
WORTH_REPORTING = 10.0
"""The time estimate is printed before the work begins if it is at least this number of seconds."""
SLOWER = 3.0
"""An estimate is a range. Its upper end is this many times the time at the measured rates. The rates are measured briefly and without the
work between passes, and other work may begin on the machine later."""
_SHARE = 0.03  # of the work's time, for the measurement


@dataclass(frozen=True)
class Expected:
    """The expected cost of some work: the passes that are known, and the names of the methods that do not report theirs."""

    known: Cost
    unknown: tuple[str, ...] = ()

    def is_long(self, speed: Speed) -> bool:
        """Whether the known passes take so long at this speed that it is worth saying."""
        return speed.seconds(self.known) >= WORTH_REPORTING

    def time_text(self, speed: Speed) -> str:
        """A text with the time at this speed, and the time if the machine is slower (:data:`SLOWER`).

        >>> Expected(Cost(forward=1000)).time_text(Speed(5.0))
        'about 3 to 10 min (5 passes/s forward, measured now)'
        """
        seconds = duration_range(speed.seconds(self.known))
        if not self.unknown:
            return f"about {seconds} ({speed})"
        silent = (
            f"{', '.join(self.unknown)}, which {'does' if len(self.unknown) == 1 else 'do'} not report passes"
        )
        return f"at least {seconds}, and what it takes for {silent} ({speed})"


def unit_cost(
    method: Method,
    metrics: Sequence[Metric],
    labels: int,
    session: Session,
    *,
    taken: bool = False,
    planned: bool = False,
) -> Cost | None:
    """The passes that one method and its metrics need for one image with this number of labels; None if a cost is unknown.

    The sum covers the maps, every distinct game of the metrics and the insertion game whose curves are kept, the first and last steps that
    games share, and the passes that metrics make themselves. A game reveals or hides the positions of an image step by step, for the map of
    each label, or of the first label if no metric reads the others (``Metric.reads``). ``taken`` says that the maps come from another method,
    ``planned`` that the method is not prepared: its cost is then the one that its settings give without a net.
    """
    own = method.own_cost if taken else None
    made = own or method.cost(labels, None if planned else session)
    beyond = [metric.cost(labels if metric.reads == "all" else 1, made) for metric in metrics]
    if made is None or any(cost is None for cost in beyond):
        return None
    of_all = {shown_game(metrics), *(game for m in metrics if m.reads == "all" for game in m.games())}
    games = of_all.union(*(metric.games() for metric in metrics))
    maps = 1 if method.label_free else labels
    steps = sum(game.passes(session.inputs.count) * (maps if game in of_all else 1) for game in games)
    ends = 1 + sum({game.bare: game.backgrounds for game in games}.values())
    return sum((cost for cost in beyond if cost is not None), made + Cost(forward=steps + ends + 1))


def expected_cost(
    session: Session, methods: Sequence[Method], metrics: Sequence[Metric], images: int, labels: int
) -> Expected:
    """Estimate the cost of judging methods on ``images`` images with ``labels`` labels each. The methods are not prepared."""
    known, unknown = Cost(), []
    for method in methods:
        taken = method.source in methods
        each = unit_cost(method, metrics, labels, session, taken=taken, planned=True)
        if each is None:
            unknown.append(method.title())
        else:
            known += each * images
    return Expected(known, tuple(unknown))


def expected_labels(rule: LabelRule, classifier: Classifier) -> int:
    """The expected number of labels per image under a rule, before any image is read."""
    most = len(classifier.label_set)
    if rule.kind == "top":
        return min(int(rule.number) + WRONG * rule.wrong, most)
    given = max(map(len, rule.rows), default=0)
    return {"all": most, "list": len(rule.indices), "given": given, "true": 1}.get(rule.kind, min(5, most))


# ---- time -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Speed:
    """Passes per second, measured now on this machine. Passes with gradient are measured only if they are needed."""

    forward: float
    gradient: float = math.inf

    def seconds(self, cost: Cost) -> float:
        return cost.forward / self.forward + cost.gradient / self.gradient

    def __str__(self) -> str:
        """The rates in words.

        >>> print(Speed(1250.0, 41.2))
        1,250 passes/s forward, 41 with gradient, measured now
        """
        gradient = "" if math.isinf(self.gradient) else f", {_rate(self.gradient)} with gradient"
        return f"{_rate(self.forward)} passes/s forward{gradient}, measured now"


def _rate(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 10 else f"{rate:.2g}"


def measure_speed(classifier: Classifier, cost: Cost, at_once: int | None = None) -> Speed:
    """Run batches for a few percent of the time that the passes in ``cost`` would take, at most for about a second, and return the rate of
    the batch with the median time.

    Batches are full where there are passes enough. Those with gradient have at most ``at_once`` images. A batch that does not fit in memory
    is halved.
    """
    fast = classifier.frozen()

    def run(size: int, gradient: bool) -> None:
        x = fast.blank(size).requires_grad_(gradient)
        with torch.set_grad_enabled(gradient):
            f = fast(x)
            found = torch.autograd.grad(f.sum(), x)[0] if gradient else f
        float(found.sum())  # waits for the device

    def rate(size: int, passes: int, gradient: bool) -> float:
        size = max(1, min(size, passes // 100))
        seconds: list[float] = []
        while len(seconds) < 4 or sum(seconds[1:]) < min(MEASURED, _SHARE * seconds[-1] * passes / size):
            began = time.perf_counter()
            try:
                run(size, gradient)
                seconds.append(time.perf_counter() - began)
            except Exception as error:
                if size == 1 or not is_out_of_memory(error):
                    raise
                size, seconds = size // 2, []
        # the first batch of a size is slow (kernels are chosen), and others where something else ran beside it
        return size / statistics.median(seconds[1:])

    sizes = [batch.size for batch in fast.batches]
    forward = rate(sizes[0], cost.forward, False)
    if not cost.gradient:
        return Speed(forward)
    return Speed(forward, rate(min(sizes[1], at_once or sizes[1]), cost.gradient, True))


# ---- time in words ------------------------------------------------------------------------------------------


def duration(seconds: float) -> str:
    """A duration as text, in at most two units.

    >>> duration(44.1), duration(185), duration(7800), duration(100_000)
    ('44 s', '3 min', '2 h 10 min', '1 d 3 h')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 24 else f"{hours // 24} d {hours % 24} h"


def duration_range(seconds: float) -> str:
    """An estimate as text: a range from these seconds to :data:`SLOWER` times as many. If both have the same text, it is given once.

    >>> duration_range(125), duration_range(50), duration_range(0.1)
    ('2 to 6 min', '50 s to 2 min', '0 s')
    """
    first, second = duration(seconds), duration(SLOWER * seconds)
    if first == second:
        return second
    number, _, unit = first.partition(" ")
    return f"{number} to {second}" if second.split(" ")[1:] == [unit] else f"{first} to {second}"


# ---- the plan -------------------------------------------------------------------------------------------------


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
    sure: bool = True
    """Whether there are as many images as planned; False before a selection that may choose fewer."""
    device: str = ""
    distractors: str = ""
    """The source of the random images (distractors) that fills and methods draw from, in words; of a dry run alone."""
    sanity: Mapping[str, Any] = field(default_factory=dict)
    """The numbers of :meth:`~proofmap.study.survey.Survey.sanity`; not of a dry run."""

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

    @classmethod
    def of(
        cls,
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
            each = unit_cost(
                method, list(opened.metrics.values()), labels, opened.session, taken=name in taken
            )
            cost = None if each is None else each * round(images * share)
            plans.append(MethodPlan(name, blocks, blocks - left, cost))
            maps = 1 if method.label_free else labels_per_image
            map_bytes += round(images * share * maps * opened.classifier.inputs.count * per_value)
        return cls(
            images, labels_per_image, blocks, tuple(plans), map_bytes, item=opened.classifier.inputs.singular
        )


@dataclass(frozen=True)
class Unit:
    """One method, one block of images, and the metrics that are still to be computed.

    ``subjects`` are the images.
    ``curves`` says whether to keep the insertion curves. They are not kept again if only a metric is added.
    ``maps`` names a stored file with this unit's exact maps, which are then not made again; it is empty if there is no such file.
    ``together`` says that this unit uses the same maps as the previous unit, so that the same worker should compute both.
    """

    method: str
    block: int
    subjects: tuple[ImageRow, ...]
    metrics: tuple[str, ...]
    maps: str = ""
    curves: bool = True
    together: bool = False

    def __str__(self) -> str:
        first, last = self.subjects[0].name, self.subjects[-1].name
        return f"{self.method} on {first}" + (f" to {last}" if len(self.subjects) > 1 else "")


def units_left(
    store: Store,
    images: Sequence[ImageRow],
    blocks: Sequence[range],
    methods: Sequence[str],
    metrics: Sequence[str],
    taken: Mapping[str, str],
) -> list[Unit]:
    """The remaining units, in the order in which they are computed. ``blocks`` has the indices of the images of each block.

    ``taken`` gives for each method that uses the maps of another one the name of that other method. Methods that use the same maps are
    computed one after another.
    """

    def maker(method: str) -> str:
        return maker(taken[method]) if method in taken else method

    makers = {method: maker(method) for method in methods}
    ordered = sorted(methods, key=lambda method: (methods.index(makers[method]), method in taken))
    waiting: list[Unit] = []
    for block, units in store.unfinished(methods, metrics, len(blocks)).items():
        members, last = tuple(images[blocks[block].start : blocks[block].stop]), ""
        for method in ordered:
            done, maps = units.get(method, (frozenset(), ""))
            missing = tuple(metric for metric in metrics if metric not in done)
            if missing:
                together = makers[method] == last
                waiting.append(Unit(method, block, members, missing, maps, not done, together))
                last = makers[method]
    return waiting


# ---- the number of images in a unit ---------------------------------------------------------------------------
# Enough to fill the device's batches, few enough that a lost unit costs little. This number affects the last bits of a result. So it is
# computed from the multiply-adds of the net, the passes that each image needs, and the kind of device, and never from measured time. A
# run keeps the number that it began with.

SECONDS = {"cpu": 20, "cuda": 90, "mps": 20}
"""Longest time of a unit, in seconds: a lost unit should not cost more. It is longer on a GPU, because small units would leave a GPU
half empty, which costs more than a lost unit."""
RATES = {"cpu": 5e9, "cuda": 2e13, "mps": 2e11}
"""Assumed multiply-adds per second: one thread of a small cloud machine, a large GPU with full batches, a laptop's GPU."""
GRADIENT = 2
"""A pass with an input gradient costs about this many passes without gradient."""
LONGEST = 10
"""Units on a CPU may take this many times longer if small units would give the net very small batches."""
ENOUGH = 2e9
"""Multiply-adds of one batch on a CPU above which larger batches are hardly faster: 16 images for ResNet-56, 5 for EfficientNet-Lite0."""
AT_ONCE = 2
"""Smallest number of composites that a method puts into a batch for each image and label. A composite is an image with some
positions hidden."""
PER_PASS = 5e5
"""Overhead of one pass, in multiply-adds."""
UNKNOWN = 100
"""Assumed passes with gradient for each label, if a method does not report its cost."""
_PER_NUMBER = 2_500  # multiply-adds for each number of the input, as in EfficientNet-Lite0
_MAPS_AT_ONCE = 32_000_000  # map values of one unit
_USUAL_BLOCK = 64  # images; on a GPU more where these do not fill it


def images_per_unit(opened: OpenStudy) -> int:
    """The number of images per unit of a new run."""
    study, classifier, session = opened.study, opened.classifier, opened.session
    if study.images_per_unit is not None:
        return study.images_per_unit
    labels = max(1, expected_labels(LabelRule.parse(study.labels, classifier.names), classifier))
    metrics = list(opened.metrics.values())
    costs = [unit_cost(method, metrics, labels, session) for method in opened.methods.values()]
    return planned_images(
        classifier.device.type,
        batch=classifier.frozen().batches[1].size,
        labels=labels,
        values=classifier.inputs.count,
        passes=max([1, *(_forward_passes(cost, labels) for cost in costs)]),
        each=multiply_adds(classifier) + PER_PASS,
        threads=torch.get_num_threads(),
        images=min(study.images.number or len(opened.data), len(opened.data)),
    )


def planned_images(
    kind: str,
    *,
    batch: int,
    labels: int,
    values: int,
    passes: float,
    each: float,
    threads: int = 1,
    images: int,
) -> int:
    """The number of images in a unit on this kind of device.

    Args:
        kind: the type of a torch device, such as ``cuda``.
        batch: the number of images that the net takes at once.
        labels: the number of labels per image.
        values: the number of values of one map.
        passes: the number of passes without gradient that the costliest method needs for an image.
        each: the number of multiply-adds of one pass.
        threads: the number of CPU threads.
        images: the number of all images.

    On a GPU a unit fills a batch, unless that would take too long, and all units have about the same size: 96 images with
    EfficientNet-Lite0, five labels and 200 passes for each map; 178 with a ResNet-56, two labels and 20,000 passes, so 500 images become
    three units of 167. On a CPU a unit takes some seconds, or longer if its batches would be too small: with a ResNet-20, two labels and
    2,000 passes, units of one image would be slow.

    >>> lite, resnet56, resnet20 = 391e6, 126e6, 41e6
    >>> cifar = {"labels": 2, "values": 32**2}
    >>> planned_images("cuda", batch=960, labels=5, values=224**2, passes=2_000, each=lite, images=10**6)
    96
    >>> planned_images("cuda", batch=3840, passes=80_000, each=resnet56, images=500, **cifar)
    167
    >>> planned_images("cpu", batch=640, passes=8_000, each=resnet20, threads=2, images=60, **cifar)
    6
    """
    kind = kind if kind in RATES else "cuda"
    if kind == "cuda":
        filled = max(_USUAL_BLOCK, batch // (AT_ONCE * labels))
    else:
        filled = min(_USUAL_BLOCK, -(-2 * batch // labels))
    in_memory = _MAPS_AT_ONCE // (values * labels)
    in_time = SECONDS[kind] * RATES[kind] / (passes * each)
    if kind == "cpu":
        in_time *= threads
        enough = math.ceil(ENOUGH / (each * AT_ONCE * labels))
        in_time = max(in_time, min(enough, LONGEST * in_time))
    most = max(1, min(filled, in_memory, int(in_time)))
    if kind != "cuda" or images <= most:
        return most  # few may become more
    return -(-images // -(-images // most))


def _forward_passes(cost: Cost | None, labels: int) -> int:
    """A cost as a number of passes without gradient: each pass with gradient counts as :data:`GRADIENT` passes."""
    cost = Cost(gradient=UNKNOWN * labels) if cost is None else cost
    return cost.forward + GRADIENT * cost.gradient


def multiply_adds(classifier: Classifier) -> int:
    """The number of multiply-adds of one pass, counted in products of matrices and convolutions.

    If the net is a plain function or has no such layers, a typical value for this input size is returned.
    """
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        classifier(classifier.blank(1))
    typical = _PER_NUMBER * classifier.inputs.count * classifier.inputs.channels
    return counter.get_total_flops() // 2 or typical
