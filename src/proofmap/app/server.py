"""The objects that all routes share: nets, photos, rows and texts, jobs, the worker, and the decoders of pictures."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from anyio import CapacityLimiter, to_thread
from torch import Tensor

from proofmap.app.choices import Choices
from proofmap.app.items import Item, Items
from proofmap.app.jobs import Busy, JobQueue, NetWorker
from proofmap.app.nets import Facts, Nets
from proofmap.app.running import run_job
from proofmap.app.security import Access

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
        self.jobs = JobQueue(self.worker, partial(run_job, self.nets, self.worker))
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
