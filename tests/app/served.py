"""A server with a tiny net, and what its tests share."""

from __future__ import annotations

import io
import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np
import torch
from PIL import Image
from starlette.testclient import TestClient
from torch import Tensor

from proofmap.app.application import create_app
from proofmap.app.choices import Choices
from proofmap.app.nets import Nets, Offer
from proofmap.app.server import Server
from proofmap.classifier import Classifier
from proofmap.methods import Method
from proofmap.session import Session
from tests.toys import linear_classifier

HOME = "http://127.0.0.1:8000"
SIZE = (6, 8)
_SEEDS = itertools.count(1000)
NAMES = ("tabby cat", "dog", "cattle", "mosque", "wildcat")


def net() -> Classifier:
    """A linear net, whose f is worked out in plain numpy."""
    return linear_classifier(SIZE, labels=5, names=NAMES, batch_size=16)


def picture(seed: int = 0, size: tuple[int, int] = SIZE) -> bytes:
    """A PNG of noise."""
    pixels = np.random.default_rng(seed).integers(0, 256, (*size, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def made(**options: Any) -> Server:
    return Server(Nets([Offer("toy", "a toy", net, ("--model", "toy.py:make"))]), Choices(), **options)


@contextmanager
def opened(server: Server, **options: Any) -> Iterator[TestClient]:
    with TestClient(create_app(server, **options), base_url=HOME) as client:
        yield client


def uploaded(client: TestClient, seed: int = 0, name: str = "noise.png") -> str:
    """The id of a photo of noise."""
    answer = client.post(
        f"/api/photos?name={name}", content=picture(seed), headers={"content-type": "image/png"}
    )
    assert answer.status_code == 200, answer.text
    return str(answer.json()["photo"])


def begun(client: TestClient, photo: str, methods: list[str], **more: Any) -> str:
    """The id of a job; each has its own seed, because equal requests get one job."""
    asked = {"photo": photo, "net": "toy", "labels": [1, 3], "methods": methods, "seed": next(_SEEDS), **more}
    answer = client.post("/api/jobs", json=asked)
    assert answer.status_code == 202, answer.text
    return str(answer.json()["job"])


def worked_off(server: Server) -> None:
    """Wait until all jobs of now are over."""
    over = threading.Event()
    server.worker.add(over.set)
    assert over.wait(600)


def done(client: TestClient, server: Server, methods: list[str], **more: Any) -> str:
    """The id of a job of a new photo that is over."""
    job = begun(client, uploaded(client), methods, **more)
    worked_off(server)
    return job


class Slow(Method):
    """Takes three steps, each when it is let."""

    name: ClassVar[str] = "slow"
    description: ClassVar[str] = "takes three steps, each when it is let"
    begun: ClassVar[threading.Event]
    steps: ClassVar[list[threading.Event]]

    @classmethod
    def let(cls, server: Server) -> None:
        """Let it take all steps, and wait until all jobs of now are over."""
        for step in cls.steps:
            step.set()
        worked_off(server)

    @classmethod
    def restarted(cls) -> Slow:
        cls.begun, cls.steps = threading.Event(), [threading.Event() for _ in range(3)]
        return cls()

    def maps(self, session: Session, images: Tensor, labels: Tensor) -> Tensor:
        with session.progress.task("slow", 3) as task:
            self.begun.set()
            for step in self.steps:
                assert step.wait(600)
                task.advance(1)
        return torch.rand(*labels.shape, *session.inputs.positions)


def with_slow(server: Server) -> Slow:
    """A method of the command line that waits to be let."""
    slow = Slow.restarted()
    server.choices.own = {"slow": slow}
    return slow
