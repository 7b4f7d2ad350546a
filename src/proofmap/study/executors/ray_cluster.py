"""The Ray cluster that an executor works on: found or started, measured, and left as it was."""

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
    """A connection to a cluster; what was not there before is gone afterwards."""
    if ray.is_initialized():
        yield
        return
    with _ray_keeping_quiet(ray):
        try:
            _knock(address)
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


def _knock(address: str | None) -> None:
    """Fail at once where nobody listens; Ray itself would try for many minutes."""
    host, _, port = (address or "").removeprefix("ray://").rpartition(":")
    if port.isdecimal():
        socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()


@contextmanager
def _ray_keeping_quiet(ray: Any) -> Iterator[None]:
    """No usage statistics, no worker deaths told on stdout; and Ray's handler of SIGTERM goes when Ray goes."""
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


def told(resources: dict[str, float]) -> str:
    return f"{resources.get('CPU', 0):g} CPU, {resources.get('GPU', 0):g} GPU"


def places(ray: Any, asked: dict[str, float]) -> int:
    """How many actors the cluster has room for when nobody else is there."""
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    room = [
        min(int(node.get(kind, 0) / amount + 1e-9) for kind, amount in asked.items() if amount)
        for node in nodes
    ]
    if not any(room):
        raise InputError(
            f"a Ray worker asks for {told(asked)}, and no machine of the cluster has them: "
            f"{'; '.join(map(told, nodes))}. Lower cpus_per_worker or gpus_per_worker"
        )
    return sum(room)


def own_folders() -> list[str]:
    """Where this process finds modules beyond those installed: Ray passes on only two of these folders."""
    return [
        os.path.abspath(folder)
        for folder in sys.path
        if os.path.isdir(folder or ".") and not folder.startswith((sys.prefix, sys.base_prefix))
    ]
