"""The machine and the software versions on which results were computed."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence

from proofmap.core.deferred import torch
from proofmap.core.version import source_version


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


def other_versions(environments: Sequence[Mapping[str, object]]) -> list[str]:
    """Texts that name the versions of Python and torch if they differ between the last of ``environments`` and this process.

    >>> other_versions([{"python": "3.9.1", "torch": torch.__version__}])[0].startswith(
    ...     "Python 3.9.1 there, "
    ... )
    True
    """
    here = {"Python": platform.python_version(), "torch": str(torch.__version__)}
    there = environments[-1] if environments else {}
    then = {name: str(there.get(name.lower(), now)) for name, now in here.items()}
    return [f"{name} {then[name]} there, {now} now" for name, now in here.items() if then[name] != now]


def _device_name(device: torch.device) -> str:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return platform.processor() or platform.machine()


def environment_notes(environments: Sequence[Mapping[str, object]]) -> list[str]:
    """A list with one note for readers if ``environments`` differ in machine or version; otherwise an empty list.

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
