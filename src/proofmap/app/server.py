"""What all routes share: nets, photos, jobs, the worker, and what is decoded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

from anyio import CapacityLimiter, to_thread
from torch import Tensor

from proofmap.app.choices import Choices
from proofmap.app.jobs import Jobs
from proofmap.app.nets import Facts, Nets
from proofmap.app.photos import Photo, Photos
from proofmap.app.running import Runner
from proofmap.app.security import Access
from proofmap.app.worker import Busy, Worker

T = TypeVar("T")
DECODERS, MOST_UNDECODED = 2, 16
"""Pictures that are decoded at once; and those with the ones that wait for it."""


@dataclass(eq=False)
class Server:
    """What all routes share."""

    nets: Nets
    choices: Choices
    access: Access = field(default_factory=Access)
    device: str = "cpu"
    runs: Path | None = None
    """The folder whose runs can be looked at."""
    worker: Worker = field(default_factory=Worker)

    def __post_init__(self) -> None:
        self.photos = Photos(self.nets.look)
        self.jobs = Jobs(self.worker, Runner(self.nets, self.worker))
        self._decoders, self._undecoded = CapacityLimiter(DECODERS), 0

    def begin(self) -> None:
        """What is done before anyone asks, so that the first photo is answered fast; in the worker's thread."""
        self.nets.classifier(self.nets.first)
        self.nets.warm_soon(None, self.nets.first)

    async def ask(self, question: Callable[[], T]) -> T:
        """What the worker's thread answers."""
        return await asyncio.wrap_future(self.worker.ask(question))

    async def decode(self, work: Callable[[], T]) -> T:
        """What needs a picture decoded: a few at a time, in threads that nobody else needs, and few wait."""
        self.check_decoders()
        self._undecoded += 1
        try:
            return await to_thread.run_sync(work, limiter=self._decoders)
        finally:
            self._undecoded -= 1

    def check_decoders(self) -> None:
        """Refuse a picture where too many wait to be decoded, before it is sent."""
        if self._undecoded >= MOST_UNDECODED:
            raise Busy("too many photos come at once; send it again in a moment")

    async def seen(self, photo: Photo, net: str) -> Tensor:
        """The photo as a net sees it; at once where that is known."""
        known = self.nets.seen_before(photo, net)
        return await self.decode(partial(self.nets.seen, photo, net)) if known is None else known

    async def facts(self, net: str) -> Facts:
        """What is known of a net; it is loaded for that where it must be."""
        found = self.nets.known(net)
        return await self.ask(lambda: self.nets.facts(net)) if found is None else found
