"""The machine and the versions that numbers come from."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence

import torch

from proofmap.core.version import __version__


def environment(device: torch.device) -> dict[str, object]:
    """What of this machine may affect the last bits of a number."""
    return {
        "proofmap": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "device": device.type,
        "device_name": _device_name(device),
        "cores": os.cpu_count(),
    }


def _device_name(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return platform.processor() or platform.machine()


def environment_notes(environments: Sequence[Mapping[str, object]]) -> list[str]:
    """What a reader should know where a run was made on more than one machine or version.

    >>> environment_notes([{"torch": "2.4", "device": "cpu"}, {"torch": "2.5", "device": "cpu"}])
    ['made on more than one machine or version (torch 2.4 and 2.5): numbers may differ in rounding']
    """
    keys = ("device", "device_name", "torch", "proofmap", "system")
    varied = [key for key in keys if len({str(e.get(key)) for e in environments}) > 1]
    changes = [
        f"{key} {' and '.join(dict.fromkeys(str(e.get(key)) for e in environments))}" for key in varied
    ]
    if not changes:
        return []
    return [
        f"made on more than one machine or version ({', '.join(changes)}): numbers may differ in rounding"
    ]
