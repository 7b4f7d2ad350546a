"""The Ray cluster of an executor: connect to it or start one, find its capacity, and disconnect."""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from proofmap.core.errors import InputError, ProofmapError

OBJECT_STORE = 512 * 2**20  # bytes, on this machine; results only pass through


@contextmanager
def connected(ray: Any, address: str | None) -> Iterator[None]:
    """Connect to the Ray cluster at ``address``, or start one on this machine if ``address`` is None.

    An existing connection of this process is used and left open. A connection or cluster that this function opened is closed at the end.
    """
    if ray.is_initialized():
        yield
        return
    with _quiet_ray(ray):
        try:
            _check_reachable(address)
            own = {"include_dashboard": False, "object_store_memory": OBJECT_STORE} if address is None else {}
            ray.init(address or "local", log_to_driver=False, logging_level=logging.CRITICAL, **own)
        except Exception as error:
            ray.shutdown()
            where = f"connect to the Ray cluster at {address!r}" if address else "start Ray on this machine"
            raise ProofmapError(f"cannot {where}: {error}") from error
        try:
            yield
        finally:
            ray.shutdown()


def _check_reachable(address: str | None) -> None:
    """Raise at once if nothing listens at the address; Ray itself would try for many minutes."""
    host, _, port = (address or "").removeprefix("ray://").rpartition(":")
    if port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()


@contextmanager
def _quiet_ray(ray: Any) -> Iterator[None]:
    """Switch off Ray's usage statistics and its messages about workers on stdout. Ray's SIGTERM handler is removed at the end."""
    before = os.environ.get("RAY_USAGE_STATS_ENABLED")
    handler = signal.getsignal(signal.SIGTERM)
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    ray._private.worker._worker_logs_enabled = False  # there is no public switch
    try:
        yield
    finally:
        ray._private.worker._worker_logs_enabled = True
        os.environ.pop("RAY_USAGE_STATS_ENABLED")
        if before is not None:
            os.environ["RAY_USAGE_STATS_ENABLED"] = before
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)


def describe_resources(resources: dict[str, float]) -> str:
    return f"{resources.get('CPU', 0):g} CPU, {resources.get('GPU', 0):g} GPU"


def capacity(ray: Any, required: dict[str, float]) -> int:
    """The number of actors with the ``required`` resources that fit on the cluster if nothing else runs there."""
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    fitting = [
        min(int(node.get(kind, 0) / amount + 1e-9) for kind, amount in required.items() if amount)
        for node in nodes
    ]
    if not any(fitting):
        raise InputError(
            f"a Ray worker asks for {describe_resources(required)}, and no machine of the cluster has them: "
            f"{'; '.join(map(describe_resources, nodes))}. Lower cpus_per_worker or gpus_per_worker"
        )
    return sum(fitting)


def import_folders() -> list[str]:
    """Folders from which this process imports modules that are not installed. Ray itself passes only two of these folders to its workers."""
    return [
        os.path.abspath(folder)
        for folder in sys.path
        if os.path.isdir(folder or ".") and not folder.startswith((sys.prefix, sys.base_prefix))
    ]
