"""The objects that all routes share: nets, photos, rows and texts, jobs, the worker, and the decoders of pictures; and how the
worker runs a job: it computes the maps of each method, shows them while they are learned, and judges them."""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import numpy as np
import torch
from anyio import CapacityLimiter, to_thread
from torch import Tensor

from proofmap.app.choices import Choices
from proofmap.app.items import Item, Items
from proofmap.app.jobs import Busy, JobQueue, MapJob, NetWorker
from proofmap.app.nets import Facts, Nets
from proofmap.app.security import Access
from proofmap.core.files import distinct_names
from proofmap.core.progress import Progress, ProgressTask
from proofmap.core.ranking import rank
from proofmap.judging import evaluate, proof_metrics
from proofmap.metrics.curves import Curves
from proofmap.report.listed import ListedProof
from proofmap.report.pictures import displayed
from proofmap.results.evaluation import Evaluation
from proofmap.results.proof_shape import proof_values, shape_of
from proofmap.results.records import MethodResult
from proofmap.session import Snapshot

EVERY = 0.2
"""Least number of seconds between two events of the same kind and label."""


class _Watcher(Progress):
    """Adds events about the progress and the masks of one method to a job. Between steps it lets the worker answer questions, and stops the
    job if it was cancelled."""

    def __init__(self, job: MapJob, number: int, worker: NetWorker) -> None:
        self.job, self.number, self.worker = job, number, worker
        self._last: dict[object, float] = {}

    def _is_due(self, thing: object) -> bool:
        """Whether enough time has passed since the last event about this thing; if so, this time counts as the last."""
        now = time.monotonic()
        due = now - self._last.get(thing, -math.inf) >= EVERY
        if due:
            self._last[thing] = now
        return due

    def step(self) -> None:
        self.worker.between()
        self.job.check()

    def task(self, what: str, passes: int) -> ProgressTask:
        began, done = time.monotonic(), 0

        def advanced(more: int) -> None:
            nonlocal done
            done += more
            if self._is_due("progress") or done >= passes:
                rate = done / max(time.monotonic() - began, 1e-6)
                self.job.add(
                    "progress",
                    self.number,
                    method=self.number,
                    label=None,
                    what=what,
                    step=done,
                    steps=passes,
                    rate=rate,
                    seconds_left=max(0.0, passes - done) / rate if rate > 0 else None,
                )
            self.step()

        return ProgressTask(advanced)

    def show(self, image: int, label: int, snapshot: Snapshot) -> None:
        """Add an event with a mask that is being learned."""
        if not (self._is_due(label) or snapshot.step == snapshot.steps):
            return
        height, width = snapshot.mask.shape if snapshot.mask.ndim > 1 else (1, len(snapshot.mask))
        self.job.add(
            "map",
            self.number,
            label,
            method=self.number,
            label=label,
            step=snapshot.step,
            steps=snapshot.steps,
            width=width,
            height=height,
            data=_picture_bytes(snapshot.mask),
        )


T = TypeVar("T")
DECODERS, MOST_UNDECODED = 2, 16
"""Largest number of pictures that are decoded at the same time, and of pictures that are decoded or wait to be."""


@dataclass(eq=False)
class Server:
    """The objects that all routes share."""

    nets: Nets
    choices: Choices
    access: Access = field(default_factory=Access)
    device: str = "cpu"
    worker: NetWorker = field(default_factory=NetWorker)
    items: Items = field(default_factory=Items)
    """The photos, rows, series and texts that visitors ask about."""

    def __post_init__(self) -> None:
        if not self.nets.of_photos:
            self.choices.suit(self.nets.classifier(self.nets.first))
        self.jobs = JobQueue(self.worker, partial(_run_job, self.nets, self.worker))
        self._decoders, self._undecoded = CapacityLimiter(DECODERS), 0

    async def ask(self, question: Callable[[], T]) -> T:
        """Run a short function in the worker's thread and return its result."""
        return await asyncio.wrap_future(self.worker.ask(question))

    async def decode(self, work: Callable[[], T]) -> T:
        """Run a function that decodes a picture in one of a few threads. Raises if too many pictures are waiting."""
        self.check_decoders()
        self._undecoded += 1
        try:
            return await to_thread.run_sync(work, limiter=self._decoders)
        finally:
            self._undecoded -= 1

    def check_decoders(self) -> None:
        """Raise if too many pictures wait to be decoded. Called before a picture is read from a request."""
        if self._undecoded >= MOST_UNDECODED:
            raise Busy("too many photos are being sent; send it again in a moment")

    async def seen(self, photo: Item, net: str) -> Tensor:
        """The photo as a net sees it. A cached photo is not decoded again."""
        known = self.nets.seen_before(photo, net)
        return await self.decode(partial(self.nets.seen, photo, net)) if known is None else known

    async def beliefs(self, photo: Item, net: str) -> Tensor:
        """The net's probabilities ``(A,)`` of all labels for a photo."""
        image = await self.seen(photo, net)
        return await self.ask(lambda: self.nets.beliefs(photo, net, image))

    async def facts(self, net: str) -> Facts:
        """The facts about a net, which is loaded first if necessary."""
        found = self.nets.known(net)
        return await self.ask(lambda: self.nets.facts(net)) if found is None else found


def _run_job(nets: Nets, worker: NetWorker, job: MapJob) -> None:
    """Run the methods of a job in turn, in the worker's thread. Each map is reported as soon as it is judged."""
    asked = job.asked
    names = nets.facts(asked.net).names
    classifier, image = nets.at_own_length(asked.net, nets.seen(job.photo, asked.net))
    image = image.to(classifier.device)
    fill = nets.judging_fill(job.fill, job.photo, asked.net)
    found: list[Evaluation] = []
    for number, method in enumerate(job.methods):
        watcher = _Watcher(job, number, worker)
        watcher.step()
        evaluation = evaluate(
            classifier,
            image,
            methods=[method],
            labels=asked.labels,
            metrics=proof_metrics("paper", {"fill": fill}),
            names=[job.photo.stem],
            keep_maps=None,
            seed=asked.seed,
            progress=watcher,
            watch=watcher.show,
        )
        result = evaluation.results[0]
        found.append(evaluation)
        for place, label in enumerate(asked.labels):
            job.maps[number, label] = _map_answer(evaluation, result, place, names)
            job.forget("map", number, label)
            job.add("scored", number, label, method=number, label=label)
    job.evaluation = _joined(found)


def _joined(found: list[Evaluation]) -> Evaluation:
    """Join evaluations of one method each, on the same image and labels, into one evaluation of all methods."""
    results = [evaluation.results[0] for evaluation in found]
    names = distinct_names([result.name for result in results])
    renamed = tuple(dataclasses.replace(r, name=name) for r, name in zip(results, names, strict=True))
    return dataclasses.replace(found[0], results=renamed)


def _picture_bytes(heat: Tensor, *, signed: bool = False) -> str:
    """The values of a map, scaled for display to one byte per pixel, in base64."""
    bright = np.rint(255 * displayed(heat, signed=signed)).astype(np.uint8)
    return base64.b64encode(bright.tobytes()).decode("ascii")


def _map_answer(
    evaluation: Evaluation, result: MethodResult, place: int, names: Sequence[str]
) -> dict[str, Any]:
    """A finished map for the page: its ranking of pixels, its curve, and what it proves. For rows and texts, a pixel is a column or a word.

    ``place`` is the index of its label in the evaluation.
    """
    heat = evaluation.map_of(result, 0, place)
    listed = heat.ndim == 1
    height, width = (1, len(heat)) if listed else heat.shape
    label = int(evaluation.labels[0, place])
    alpha, beta = proof_values(evaluation, result, 0, place)
    found = shape_of(evaluation, result, 0, place)
    ranks = rank(heat[None])[0].cpu().numpy()
    words = ListedProof.of(evaluation, result, 0, place) if listed else None
    order_type = "uint16" if ranks.size <= 1 << 16 else "uint32"
    order = ranks.astype(np.dtype(order_type).newbyteorder("<")).tobytes()
    return {
        "method": result.name,
        "label": label,
        "name": names[label],
        "width": width,
        "height": height,
        "order": base64.b64encode(order).decode("ascii"),
        "order_type": order_type,
        "map": _picture_bytes(heat, signed=result.signed)
        if words is None
        else base64.b64encode(bytes(words.painted)).decode("ascii"),
        "signed": result.signed,
        "insertion": _curve_answer(result.insertion, place, each=listed),
        "completeness": None if math.isnan(alpha) else alpha,
        "soundness": None if math.isnan(beta) else beta,
        **(words or found).record(evaluation.inputs.position_noun),
        "seconds": result.seconds,
        "enough": None if words is None else len(words.proving),
    }


def _curve_answer(curves: Curves, place: int, *, each: bool = False) -> dict[str, list[float]]:
    """The curve of the label with index ``place``: shares of the positions, and the probability f at each share.

    With ``each``, f is interpolated at every number of positions.
    """
    counts, f = curves.counts.to(torch.float64), curves.probabilities[0, place].cpu().double()
    if each:
        whole = np.arange(curves.positions + 1)
        counts, f = torch.tensor(whole), torch.from_numpy(np.interp(whole, counts.numpy(), f.numpy()))
    return {"shares": (counts / curves.positions).tolist(), "f": f.tolist()}
