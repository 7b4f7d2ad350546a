"""Mistakes that people make, and what Proofmap answers: the text, and for commands the exit code."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from PIL import Image
from torch import nn

import proofmap as pm
from tests.golden import nets
from tests.golden.runs import printed, without_lists

Mistakes = dict[str, Callable[[], object]]


def command(*arguments: str) -> list[Any]:
    """The exit code of a command, and what it writes to stderr."""
    code, _, err = printed(*arguments)
    text = re.sub(r"^Usage: .*? Error ─+╮|[│╰─╯]", "", " ".join(err.split()))
    return [code, without_lists(" ".join(text.split()))]


def judged(
    method: Any = "random", f: pm.Classifier | None = None, x: Any = None, **options: Any
) -> pm.Evaluation:
    options = {"labels": [[0, 1]] * 3, "metrics": ["insertion:points=2"], **options}
    x = nets.photos(3) if x is None else x
    return pm.evaluate(f or nets.conv(), x, methods=[method], **options)


def dense(*layers: nn.Module, **options: Any) -> pm.Classifier:
    return pm.Classifier(
        nets.drawn(nn.Sequential(nn.Flatten(), *layers)), size=(8, 10), batch_size=8, **options
    )


def mistakes() -> Mistakes:
    """Those in Python."""
    x, found = nets.photos(3), judged()
    nan, wide = x.clone(), 3 * x
    nan[1, 0, 0, 0] = torch.nan
    rows, people, table = nets.rows(), nets.people(3), nets.table_model()

    class NaN(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.flatten(1)[:, :3] * torch.nan

    class OneRow(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.flatten(1)[:1, :3]

    def not_finite(f: pm.Classifier, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return torch.full((len(x), labels.shape[1], 8, 10), torch.nan)

    return {
        # what is asked for
        "no method": lambda: pm.evaluate(nets.conv(), x, methods=[]),
        "no metric": lambda: judged(metrics=[]),
        "a method that is misspelt": lambda: judged("gradiennt"),
        "a metric that is misspelt": lambda: judged(metrics=["soundnes"]),
        "a fill that is misspelt": lambda: judged(fills=["grey"]),
        "a game that is misspelt": lambda: pm.make_game("insertoin"),
        "a target that is misspelt": lambda: judged(metrics=["insertion:target=logits"]),
        "a setting that is misspelt": lambda: judged("occlusion:windw=3"),
        "a preset that is not there": lambda: judged("learned-mask:preset=quick"),
        "a setting that is too small": lambda: judged("learned-mask:steps=0"),
        "a setting that is too large": lambda: judged("rect-grad:quantile=1.5"),
        "a setting of the wrong type": lambda: judged("learned-mask:steps=few"),
        "a choice that is not there": lambda: judged("integrated-gradients:rule=left"),
        "a setting without a value": lambda: judged("occlusion:window"),
        "a wrapper of nothing": lambda: judged("top-label"),
        "a layer that is not there": lambda: judged("grad-cam:layer=stem"),
        "a range the wrong way round": lambda: judged(metrics=["insertion:within=0.6:0.2"]),
        "no points": lambda: judged(metrics=["insertion:points=0"]),
        "no draws": lambda: judged(metrics=["insertion:fill=noise,draws=0"]),
        "two thresholds above one": lambda: judged(metrics=["soundness:e2=2"]),
        "a negative number of maps": lambda: judged(keep_maps=-1),
        "too few passes": lambda: judged("belief-order:budget=3"),
        # labels and truth
        "a rule that is not there": lambda: judged(labels="topp5"),
        "a label that is not there": lambda: judged(labels=["9"]),
        "an index beyond the labels": lambda: judged(labels=[[0], [1], [7]]),
        "labels for other images": lambda: judged(labels=[[0], [1]]),
        "an image without a label": lambda: judged(labels=[[0], [], [1]]),
        "true labels that are not known": lambda: judged(labels="true"),
        "a true label that is not there": lambda: judged(labels="true", truth=[0, 1, "zebra"]),
        "names for other images": lambda: judged(names=["a", "b"]),
        "boxes for other images": lambda: judged(
            metrics=["pointing-game"], truth=[0, 1, 2], boxes=[[(0, 0, 1, 1)]]
        ),
        "objects of no label": lambda: judged(objects=[{"zebra": [(0, 0, 1, 1)]}, {}, {}]),
        # images
        "no images": lambda: judged(x=x[:0]),
        "images with NaN": lambda: judged(x=nan),
        "images beyond 0 to 1": lambda: judged(x=wide),
        "a series that is too short": lambda: judged(f=nets.series(), x=nets.beats(3)[..., :20]),
        "a row with too few columns": lambda: judged(f=rows, x=people[:, :4]),
        "a text that is too long": lambda: judged(f=nets.texts(), x=["word " * 30] * 3),
        "a text without words": lambda: judged(f=nets.texts(), x=["good film", " ", "bad"]),
        # nets
        "a net of NaN": lambda: dense(NaN()),
        "a net that answers for one image": lambda: judged(f=dense(OneRow())),
        "outputs that are not there": lambda: dense(nn.Linear(240, 3), outputs="softmax"),  # type: ignore[arg-type]
        "names of other labels": lambda: dense(nn.Linear(240, 3), names=["a", "b"]),
        "a label set of nobody": lambda: dense(nn.Linear(240, 3), label_set=["zebra"]),
        "an empty label set": lambda: dense(nn.Linear(240, 3), label_set=[]),
        "batches of nothing": lambda: nets.conv(batch_size=0),
        "probabilities that are none": lambda: dense(nn.Linear(240, 3), outputs="probabilities"),
        "a net that is not there": lambda: pm.load_classifier("resnet-of-nobody"),
        "a photo that is not there": lambda: pm.load_images(["nowhere.png"], nets.conv()),
        # methods and fills that do not fit
        "a picture method for rows": lambda: judged("grad-cam", rows, people),
        "attention of a conv net": lambda: judged("chefer"),
        "gradients of a black box": lambda: judged("gradient", table, nets.TABLE[:3]),
        "a blur of rows": lambda: judged(f=rows, x=people, fills=["blur"]),
        "words of photos": lambda: judged(fills=["mask"]),
        "maps of NaN": lambda: judged(not_finite),
        # results
        "an image that was not judged": lambda: found.select_images([7]),
        "a method that was not judged": lambda: found["grad-cam"],
        "a score that was not computed": lambda: found.results[0].score("soundness"),
        "nothing to compute from": lambda: pm.Judge(nets.conv(), methods=["random"]).compute(),
        "an analysis of nothing": lambda: pm.audit(found, min_soundness=2),
        "a run that is not there": lambda: pm.Run("nowhere"),
    }


def commands(folder: Path) -> dict[str, tuple[str, ...]]:
    """Those on the command line."""
    (folder / "nets.py").write_text("from tests.golden.nets import conv\n", encoding="utf-8")
    (folder / "empty").mkdir()
    Image.new("RGB", (10, 8)).save(folder / "black.png")
    (folder / "study.toml").write_text('methods = ["random"]\nlabls = "top2"\n', encoding="utf-8")
    (folder / "broken.toml").write_text("methods = [\n", encoding="utf-8")
    model = ("--model", f"{folder}/nets.py:conv")
    return {
        "an option that is not there": ("evaluate", "--mthods", "random"),
        "a command that is not there": ("evaluat",),
        "a number that is none": ("evaluate", "--number", "many"),
        "attention of a conv net": ("explain", f"{folder}/black.png", *model, "--method", "chefer"),
        "a label that is not there": ("explain", f"{folder}/black.png", *model, "--labels", "zebra"),
        "no data": ("evaluate", *model, "--methods", "random"),
        "data that is not there": ("evaluate", "--data", f"{folder}/nowhere", *model, "--methods", "random"),
        "an empty folder": ("evaluate", "--data", f"{folder}/empty", *model, "--methods", "random"),
        "a model file that is not there": (
            "explain",
            f"{folder}/black.png",
            "--model",
            f"{folder}/no.py:net",
        ),
        "a function that is not there": (
            "explain",
            f"{folder}/black.png",
            "--model",
            f"{folder}/nets.py:nobody",
        ),
        "a photo that is not there": ("explain", f"{folder}/x.png", *model),
        "a study with a key that is not there": ("evaluate", f"{folder}/study.toml"),
        "a study that is no TOML": ("evaluate", f"{folder}/broken.toml"),
        "a run that is not there": ("report", f"{folder}/nowhere"),
        "an audit of an empty folder": ("audit", f"{folder}/empty", "--min-soundness", "0.5"),
        "a comparison with nothing": ("compare", f"{folder}/empty", f"{folder}/nowhere"),
        "a method that is not there": ("list", "methods", "gradiennt"),
        "a recipe that is not there": ("reproduce", "tabel1"),
    }
