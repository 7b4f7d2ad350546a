"""A server of a tiny net in a thread of the test, whose jobs can be held half-way."""

from __future__ import annotations

import io
import socket
import threading
from typing import Any

import numpy as np
import uvicorn
from PIL import Image
from torch import Tensor

from proofmap.app.application import create_app
from proofmap.app.choices import Choices
from proofmap.app.items import Items
from proofmap.app.jobs import MapJob
from proofmap.app.nets import Nets, Offer
from proofmap.app.protocol import TimedProtocol
from proofmap.app.security import Access
from proofmap.app.server import Server
from proofmap.classifier import Classifier


class Served:
    """``proofmap serve`` on a free port of this machine."""

    def __init__(
        self,
        classifier: Classifier,
        port: int = 0,
        http: type[TimedProtocol] = TimedProtocol,
        items: Items | None = None,
    ) -> None:
        """``items`` are the rows or texts of a server whose model takes no photos."""
        self.classifier = classifier
        self.socket = socket.create_server(("127.0.0.1", port))
        self.port: int = self.socket.getsockname()[1]
        nets = Nets([Offer("tiny", "a tiny net", lambda: classifier)])
        if items is not None:
            nets.settle()
        self.server = Server(
            nets,
            Choices(),
            access=Access("127.0.0.1", self.port),
            items=items or Items(),
        )
        self.held = threading.Event()
        self.server.worker.between = self._between(self.server.worker.between)  # type: ignore[method-assign]
        config = uvicorn.Config(
            create_app(self.server), log_level="error", timeout_graceful_shutdown=1, http=http
        )
        self._uvicorn = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._uvicorn.run, kwargs={"sockets": [self.socket]}, daemon=True
        )
        self._thread.start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    @property
    def jobs(self) -> list[MapJob]:
        """All jobs, in the order they came."""
        return [*self.server.jobs._all.values()]

    def hold(self) -> None:
        """Jobs wait when they have shown a map; what is asked meanwhile is answered, and whoever is cancelled stops."""
        self.held.set()

    def release(self) -> None:
        self.held.clear()

    def stop(self) -> None:
        self.release()
        self._uvicorn.should_exit = True
        self._thread.join(600)
        self.socket.close()

    def _between(self, answered: Any) -> Any:
        pause = threading.Event()

        def between() -> None:
            answered()
            while self.held.is_set() and any(map(_half_way, self.jobs)):
                answered()
                pause.wait(0.005)

        return between


def _half_way(job: MapJob) -> bool:
    """Whether a job runs, is wanted, and has shown a map."""
    events, _ = job.events(0)
    return job.state == "running" and not job.stop and any(event["kind"] == "map" for event in events)


def png(pixels: Tensor) -> bytes:
    """A picture ``(3, H, W)`` in [0, 1] as a file."""
    file = io.BytesIO()
    Image.fromarray((pixels.permute(1, 2, 0).numpy() * 255).round().astype(np.uint8)).save(file, "PNG")
    return file.getvalue()
