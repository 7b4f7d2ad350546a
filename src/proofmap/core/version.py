"""The version, a digest of the source code that computes results, and the machine on which it runs."""

from __future__ import annotations

import hashlib
import os
import platform
from functools import cache
from pathlib import Path

from proofmap.core.deferred import torch

__version__ = "0.2.0"
"""The version of this package, as text. ``pyproject.toml`` reads it here."""

_PACKAGE = Path(__file__).parents[1]
_NO_NUMBERS = ("app", "bench", "cli", "report", "reproduce", "results", "testing", "theory")
"""The folders whose code does not decide what a run stores. Weights and images have their own digests."""


@cache
def source_version() -> str:
    """The version with a digest of the source, as in a run's manifest: ``0.2.0+src.1f2e3d4c``. Computed once per process."""
    return f"{__version__}+src.{package_digest(_PACKAGE)}"


def package_digest(package: Path) -> str:
    """A digest of the files of a package whose code decides what a run stores."""
    digest = hashlib.blake2b(digest_size=4)
    for file in sorted(package.rglob("*.py")):
        name = file.relative_to(package)
        if name.parts[0] not in _NO_NUMBERS:
            digest.update(name.as_posix().encode() + b"\0" + file.read_bytes() + b"\0")
    return digest.hexdigest()


def environment(device: torch.device) -> dict[str, object]:
    """The properties of this machine and ``device`` that may affect the last bits of a number, by name."""
    return {
        "proofmap": source_version(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "device": device.type,
        "device_name": _device_name(device),
        "cores": os.cpu_count(),
    }


def _device_name(device: torch.device) -> str:
    if device.type in ("cuda", "xpu"):
        return str(getattr(torch, device.type).get_device_name(device))
    return platform.processor() or platform.machine()
