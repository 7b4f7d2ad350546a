"""A small study that other processes can open too, and all that a run directory says, for comparing two of them."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

from proofmap.classifier import Classifier
from proofmap.models import load_classifier
from proofmap.results.evaluation import Evaluation
from proofmap.study import Run, Status, Study
from tests.data.made_up import save

NAMES = ("cat", "dog", "cup", "rocket", "car")
METHODS = ("gradient", "random", "learned-mask:steps=3,fill=gray")
METRICS = tuple(
    f"{name}:points=4" for name in ("completeness", "soundness", "best-effort", "insertion", "deletion")
)
"""Those of a study that names none, on curves of few points."""

_NET = """\
import torch
from tests.toys import MEAN, STD, conv_net


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = conv_net({labels}, seed={seed})

    def forward(self, x):
        return {forward}


def make():
    return Net().eval(), dict(size=8, mean=MEAN, std=STD, batch_size=64, names={names!r})
"""


def net_file(folder: Path, *, seed: int = 0, forward: str = "self.layers(x)") -> str:
    """A model string: a convolution net of 8 x 8 pixels and five labels, in a file that any process can load."""
    path = folder / "net.py"
    path.write_text(_NET.format(labels=len(NAMES), seed=seed, forward=forward, names=NAMES))
    return f"{path}:make"


def photos(folder: Path, n: int, *, first: int = 0) -> Path:
    """A folder of ``n`` different pictures: ``00.png`` and so on."""
    for k in range(first, first + n):
        save(folder, f"{k:02d}.png", k)
    return folder


def toy_study(folder: Path, n: int = 6, **changes: Any) -> Study:
    """Three methods on ``n`` pictures in ``folder/photos``, two to a block, three labels each."""
    settings: dict[str, Any] = {
        "model": net_file(folder),
        "data": str(photos(folder / "photos", n)),
        "labels": "top3",
        "methods": METHODS,
        "images_per_unit": 2,
        "metrics": METRICS,
    }
    return Study(**{**settings, **changes})


class Stop:
    """Stops a study, as Ctrl-C does, when so many units are done."""

    def __init__(self, units: int) -> None:
        self.units = units

    def __call__(self, status: Status) -> None:
        if status.units_done >= self.units and not status.is_over:
            raise KeyboardInterrupt


def plain(study: Study) -> dict[str, Any]:
    """A study as JSON can carry it; :func:`from_plain` is the way back."""
    return {
        **{name: value for name, value in vars(study).items() if name != "images"},
        "images": vars(study.images),
    }


def classifier_of(study: Study) -> Classifier:
    return load_classifier(study.model)


def facts(folder: Path) -> dict[str, Any]:
    """Everything in a run directory that must not depend on how often it was stopped."""
    with Run(folder) as run:
        manifest, images, failures = run.manifest, run.images, run.failures()
        failed = {(failure.method, failure.image) for failure in failures}
        found: dict[str, Any] = {"per_image": [], "per_label": [], "curves": []}
        for method, block, _, arrays in run.store.results(run.methods):
            for k, image in enumerate(images[place] for place in manifest.blocks[block]):
                if (method, image.name) in failed:
                    continue
                for key, array in arrays.items():
                    kind, _, metric = key.partition(" ")
                    if kind == "value":
                        row = (method, metric, image.name, image.truth, _known(array[k]))
                        found["per_image"].append(row)
                    elif kind == "pair":
                        for at, (label, f) in enumerate(zip(image.labels, image.f, strict=True)):
                            about = (image.name, label, run.label_names[label], f, image.truth)
                            found["per_label"].append((method, metric, *about, _known(array[k, at])))
                    else:
                        found["curves"].append((method, image.name, key, array[k].tobytes()))
        return {
            **{name: sorted(rows, key=str) for name, rows in found.items()},
            "images": [replace(row, stamp="") for row in run.store.images()],
            "units": sorted(run.store.rows("SELECT method, block, metrics, maps FROM units")),
            "failures": sorted((f.method, f.image, f.reason) for f in failures),
            "about": (manifest.chosen, manifest.game, manifest.sanity, manifest.run_scores),
            "maps": {
                path.name: hashlib.sha256(path.read_bytes()).hexdigest()
                for (name,) in run.store.rows("SELECT DISTINCT maps FROM units WHERE maps IS NOT NULL")
                if (path := folder / name).is_file()
            },
        }


def evaluation_of(folder: Path, pictured: int = 0) -> Evaluation:
    """The results of a run."""
    with Run(folder) as run:
        return run.evaluation(pictured)


def _known(value: float) -> float | None:
    return None if value != value else float(value)


def methods_of(folder: Path) -> list[str]:
    """The methods of a run, by name."""
    with Run(folder) as opened:
        return list(opened.methods)


def values(folder: Path) -> dict[tuple[str, str, str], float]:
    """(method, metric, image) -> value."""
    return {(method, metric, image): value for method, metric, image, _, value in facts(folder)["per_image"]}
