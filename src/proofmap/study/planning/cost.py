"""The cost of work in passes of the net, and how long the passes take on this machine."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from proofmap.classifier import Classifier
from proofmap.core.batching import is_out_of_memory
from proofmap.core.labels import WRONG, LabelRule
from proofmap.loop import shown_game
from proofmap.methods.method import Cost, Method
from proofmap.metrics.metric import Metric
from proofmap.session import Session
from proofmap.study.watchers.status import duration_range

MEASURED = 1.0
"""Seconds for which passes are repeated to measure their rate."""
WORTH_REPORTING = 10.0
"""The time estimate is printed before the work begins if it is at least this number of seconds."""
SLOWER = 3.0
"""An estimate is a range. Its upper end is this many times the time at the measured rates. The rates are measured briefly and without the
work between passes, and other work may begin on the machine later."""
_SHARE = 0.03  # of the work's time, for a quick measurement


@dataclass(frozen=True)
class Expected:
    """The expected cost of some work: the passes that are known, and the names of the methods that do not report theirs."""

    known: Cost
    unknown: tuple[str, ...] = ()

    def time_text(self, speed: Speed) -> str:
        """A text with the time at this speed, and the time if the machine is slower (:data:`SLOWER`).

        >>> Expected(Cost(forward=1000)).time_text(Speed(5.0))
        'about 3 to 10 min (5 passes/s forward, measured now)'
        """
        seconds = speed.duration(self.known)
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

    def duration(self, cost: Cost) -> str:
        """The time for this cost as text: a range from the time at these rates to :data:`SLOWER` times that time."""
        seconds = self.seconds(cost)
        return duration_range(seconds, SLOWER * seconds)

    def __str__(self) -> str:
        """The rates in words.

        >>> print(Speed(1250.0, 41.2))
        1,250 passes/s forward, 41 with gradient, measured now
        """
        gradient = "" if math.isinf(self.gradient) else f", {_rate(self.gradient)} with gradient"
        return f"{_rate(self.forward)} passes/s forward{gradient}, measured now"


def _rate(rate: float) -> str:
    return f"{rate:,.0f}" if rate >= 10 else f"{rate:.2g}"


def measure_speed(
    classifier: Classifier, cost: Cost, at_once: int | None = None, *, quick: bool = False
) -> Speed:
    """Run full batches for about a second, after one to warm up, and return the rate of the batch with the median time.

    Batches with gradient have at most ``at_once`` images. A batch that does not fit in memory is halved. With ``quick``, batches are smaller,
    and the measurement stops after a few percent of the time that the passes in ``cost`` would take.
    """
    fast = classifier.frozen()

    def forward(size: int) -> None:
        with torch.no_grad():
            fast(fast.blank(size))

    def gradient(size: int) -> None:
        with torch.enable_grad():
            x = fast.blank(size).requires_grad_(True)
            torch.autograd.grad(fast(x).sum(), x)

    def wait() -> None:
        if classifier.device.type == "cuda":
            torch.cuda.synchronize(classifier.device)
        elif classifier.device.type == "mps":
            torch.mps.synchronize()

    def rate(run: Callable[[int], None], size: int, passes: int) -> float:
        size = max(1, min(size, passes // 100)) if quick else size
        seconds: list[float] = []
        enough = MEASURED
        while len(seconds) < 4 or sum(seconds[1:]) < enough:
            began = time.perf_counter()
            try:
                run(size)
            except Exception as error:
                if size == 1 or not is_out_of_memory(error):
                    raise
                size, seconds = size // 2, []
                continue
            wait()
            seconds.append(time.perf_counter() - began)
            if quick:
                enough = min(MEASURED, _SHARE * seconds[-1] * passes / size)
        # the first batch of a size is slow (kernels are chosen), and others where something else ran beside it
        return size / statistics.median(seconds[1:])

    sizes = [batch.size for batch in fast.batches]
    sizes[1] = min(sizes[1], at_once or sizes[1])
    found = Speed(rate(forward, sizes[0], cost.forward))
    return Speed(found.forward, rate(gradient, sizes[1], cost.gradient)) if cost.gradient else found


def speed_if_slow(classifier: Classifier, expected: Expected, at_once: int | None = None) -> Speed | None:
    """The measured speed if the work takes at least :data:`WORTH_REPORTING` seconds, otherwise None.

    For short work, two passes usually suffice to see that it is short, and the speed is not measured.
    """
    fast, cost = classifier.frozen(), expected.known
    times = []
    for _ in range(2):  # the first one is slow
        began = time.perf_counter()
        fast.probabilities(fast.blank(1))
        times.append(time.perf_counter() - began)
    if times[1] * (cost.forward + 4 * cost.gradient) < WORTH_REPORTING:  # batches are faster still
        return None
    speed = measure_speed(classifier, cost, at_once, quick=True)
    return speed if speed.seconds(cost) >= WORTH_REPORTING else None
