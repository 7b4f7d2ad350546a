"""A server around a small net, for tests: two nets of 8 x 8 pixels and five labels, one of them slow."""

from __future__ import annotations

import time
from functools import partial
from typing import Any

from fastapi import FastAPI
from torch import Tensor, nn

from proofmap.app.choices import Choices
from proofmap.app.nets import Nets, Offer
from proofmap.app.server import Server, create_app
from proofmap.classifier import Classifier
from tests.toys import MEAN, STD, conv_net

ADDRESS = "http://127.0.0.1:8000"
NAMES = ("cat", "dog", "cup", "rocket", "car")
SLOW = 0.02
"""Seconds that the slow net takes for a pass."""


class Slow(nn.Module):
    """A net that takes its time."""

    def __init__(self, net: nn.Module, seconds: float) -> None:
        super().__init__()
        self.net, self.seconds = net, seconds

    def forward(self, x: Tensor) -> Tensor:
        if x.isfinite().all():  # which cannot be traced, so that the fast copy of the net is slow, too
            time.sleep(self.seconds)
        found: Tensor = self.net(x)
        return found


def toy_classifier(seconds: float = 0.0) -> Classifier:
    net = conv_net(len(NAMES), seed=0)
    return Classifier(
        Slow(net, seconds) if seconds else net, size=8, mean=MEAN, std=STD, batch_size=64, names=NAMES
    )


def toy_server(**options: Any) -> Server:
    """A server that offers a fast net and a slow one."""
    offered = [Offer(name, "", partial(toy_classifier, s)) for name, s in {"toy": 0.0, "slow": SLOW}.items()]
    return Server(Nets(offered), Choices(), **options)


def toy_app(*, api_only: bool = False, **options: Any) -> FastAPI:
    """The application of such a server; ``options`` as for the server."""
    return create_app(toy_server(**options), api_only=api_only)
