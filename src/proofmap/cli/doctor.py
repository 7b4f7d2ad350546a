"""``doctor``: prints what is installed, missing or broken on this machine, and how fast a small net runs; or finds damage in a run."""

from __future__ import annotations

import importlib
import json
import re
import textwrap
import time
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

import torch
import typer

from proofmap.cli import options
from proofmap.cli.console import print_result
from proofmap.core.batching import device_memory
from proofmap.core.errors import import_advice
from proofmap.core.text import one_line
from proofmap.core.version import environment
from proofmap.models import load_classifier
from proofmap.results import tables
from proofmap.study.stored_run import verify_run

_REQUIRED = ("numpy", "pillow", "safetensors")
_FOR_CONTRIBUTORS = frozenset({"browser", "dev", "docs", "oracles"})
"""Extras that nobody needs for using Proofmap."""


def doctor(
    run: Annotated[
        Path | None,
        typer.Argument(help="A run directory, whose numbers and maps are checked.", show_default=False),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    if run is None:
        found = diagnosis()
        print_result(json.dumps(found, indent=2) if as_json else as_text(found))
        return
    problems = verify_run(run)
    print_result(json.dumps(problems, indent=2) if as_json else "\n".join(problems or [f"{run} is intact"]))
    if problems:
        raise typer.Exit(1)


def diagnosis() -> dict[str, Any]:
    """Everything that ``doctor`` reports, as plain data."""
    device = torch.device(options.check_device(None))
    optional = optional_packages()
    problems = [_torchvision_problem(one["version"]) for one in optional if one["package"] == "torchvision"]
    speed = _pass_time(device)
    if isinstance(speed, str):
        problems.append(
            f"A small net does not run on the device {device}: {speed}. Install a torch built for this device, or use --device cpu."
        )
    return {
        **environment(device),
        **{package: _version(package) for package in _REQUIRED},
        "cuda": torch.version.cuda,
        "gpus": [torch.cuda.get_device_name(k) for k in range(torch.cuda.device_count())],
        "threads": torch.get_num_threads(),
        "memory_gb": round(device_memory(device) / 1e9, 1),
        "pass_ms": None if isinstance(speed, str) else speed,
        "optional": optional,
        "problems": list(filter(None, problems)),
    }


def optional_packages() -> list[dict[str, str | None]]:
    """The packages of the extras, from Proofmap's own metadata: each with its version, which is None if it is missing, and its extra."""
    found = []
    for line in metadata.requires("proofmap") or ():
        named = re.match(r"([\w.-]+).*extra == ['\"](.+)['\"]", line)
        if named and named[2] not in _FOR_CONTRIBUTORS:
            found.append({"package": named[1], "version": _version(named[1]), "extra": named[2]})
    return found


def _torchvision_problem(version: str | None) -> str:
    """The reason why torchvision cannot be imported, such as another version of torch; empty if it can be, or is not installed."""
    try:
        if version is not None:
            importlib.import_module("torchvision")
        return ""
    except Exception as error:  # a broken binary wheel raises RuntimeError, not ImportError
        return (
            f"torchvision {version} cannot be imported with torch {torch.__version__}: {one_line(str(error)).rstrip('.')}. "
            f"{import_advice(error, 'torchvision')} Packages that import torchvision fail with it."
        )


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _pass_time(device: torch.device) -> float | str:
    """Milliseconds of one pass of a ResNet-20 on 16 images of 32 x 32 pixels, after a warm-up pass; or why the net does not run."""
    try:
        net = load_classifier("cifar10-resnet20", pretrained=False).net.to(device)
        images = torch.zeros(16, 3, 32, 32, device=device)
        with torch.inference_mode():
            net(images).sum().item()  # .item() waits for the device
            start = time.perf_counter()
            net(images).sum().item()
        return round(1000 * (time.perf_counter() - start), 1)
    except RuntimeError as error:
        return one_line(str(error)).rstrip(".")


def as_text(found: Mapping[str, Any]) -> str:
    """The report: facts, optional packages, and problems."""
    built = f"torch is built for CUDA {found['cuda']}" if found["cuda"] else "torch is built for the CPU only"
    time = "failed" if found["pass_ms"] is None else f"{found['pass_ms']:g} ms"
    facts = {
        **{name: found[name] or "unknown" for name in ("proofmap", "python", "torch", *_REQUIRED)},
        "system": found["system"],
        "device": f"{found['device']} ({found['device_name']}, {found['memory_gb']:g} GB)",
        "GPUs": f"{', '.join(found['gpus']) or 'none'} ({built})",
        "threads": f"{found['threads']} of torch, {found['cores']} cores",
        "one pass": f"{time} (ResNet-20, 16 images of 32 x 32)",
    }
    packages = [
        [one["package"], one["version"] or f"missing: pip install 'proofmap[{one['extra']}]'"]
        for one in found["optional"]
    ]
    lines = [f"{name:<13}{value}" for name, value in facts.items()]
    lines += ["", tables.aligned(["optional package", "version"], packages)]
    for problem in found["problems"]:
        lines += ["", *textwrap.wrap(problem, 80, break_on_hyphens=False)]
    return "\n".join(lines)
