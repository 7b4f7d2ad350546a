"""A researcher with Captum's methods as functions and a metric of their own: evaluate, edit, run again, export, figures."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from torch import Tensor

import proofmap as pm
from tests.walks.conftest import Proofmap
from tests.walks.shapes import save_pictures, save_weights, write_net

MINE = """
from typing import ClassVar

import torch
from captum.attr import IntegratedGradients, Occlusion
from proofmap.metrics import METRICS, Metric
from proofmap.plugins.settings import setting

STEPS = 4


def integrated_gradients(classifier, images, labels):
    ig = IntegratedGradients(classifier)
    maps = [ig.attribute(images, target=label, n_steps=STEPS).sum(dim=1) for label in labels.T]
    return torch.stack(maps, dim=1)


def occlusion(classifier, images, labels):
    find = Occlusion(classifier)
    maps = [find.attribute(images, (1, 8, 8), (1, 8, 8), target=label).sum(dim=1) for label in labels.T]
    return torch.stack(maps, dim=1)


@METRICS.register
class Area(Metric):
    name: ClassVar[str] = "captum-walk-area"
    description: ClassVar[str] = "share of pixels above a share of the map's range"
    higher_is_better: ClassVar[bool] = False
    limits: ClassVar[tuple[float, float]] = (0.0, 1.0)
    share: float = setting(0.5, "of the range between the lowest and the highest value", least=0, most=1)

    def values(self, judged):
        maps = judged.maps[:, 0].flatten(1)
        low, high = maps.amin(dim=1, keepdim=True), maps.amax(dim=1, keepdim=True)
        return (maps > low + self.share * (high - low)).float().mean(dim=1)
"""
METHODS = ("integrated_gradients", "occlusion", "random")
EVALUATE = (
    *("evaluate", "--data", "xrays", "--model", "net.py:shapes", "--device", "cpu", "--labels", "all"),
    *("--methods", "mine.py:integrated_gradients,mine.py:occlusion,random", "--no-pictures", "--quiet"),
    *("--metrics", "completeness,soundness,mine.py:Area,mine.py:Area:share=0.9", "--out", "run"),
)


@pytest.fixture
def mine(here: Path) -> Path:
    """The researcher's folder: the net, pictures, and the file of methods and a metric."""
    pytest.importorskip("captum")
    save_weights(here / "weights.pt")
    write_net(here / "net.py")
    save_pictures(here / "xrays", each=2)
    (here / "mine.py").write_text(MINE)
    return here / "mine.py"


@pytest.mark.slow
def test_a_researcher_with_captum(mine: Path, here: Path, proofmap: Proofmap) -> None:
    # a name that is not there
    proofmap(*EVALUATE, "--methods", "mine.py:integrated_gradient").refuses("integrated_gradient")
    assert not (here / "run").exists()

    answer = proofmap(*EVALUATE)
    answer.works()
    assert all(method in answer.out for method in METHODS)
    assert answer.out.replace("-", " ").count("captum walk area") >= 2, "one metric with two settings"
    before = (here / "run" / "scores.csv").read_text()

    # run again: nothing to do; a comment is no edit
    mine.write_text(MINE.replace("STEPS = 4", "STEPS = 4  # for now"))
    proofmap(*EVALUATE).works()
    assert (here / "run" / "scores.csv").read_text() == before

    # a constant is edited: refused, with the command that helps; the numbers stay
    mine.write_text(MINE.replace("STEPS = 4", "STEPS = 2"))
    proofmap(*EVALUATE).refuses(
        "integrated_gradients", "code:", "proofmap evaluate ... --forget integrated_gradients"
    )
    assert (here / "run" / "scores.csv").read_text() == before
    proofmap(*EVALUATE, "--out", "again", "--metrics", "completeness").works()

    # a method that fails names itself, and the others are there
    broken = MINE.replace("return torch.stack(maps, dim=1)", "raise RuntimeError('no map today')", 1)
    mine.write_text(broken)
    answer = proofmap(*EVALUATE, "--out", "broken", "--metrics", "completeness")
    assert answer.code == 3 and "integrated_gradients" in answer.err and "no map today" in answer.err
    assert "occlusion" in answer.out
    mine.write_text(MINE)

    # a map of the wrong shape
    mine.write_text(MINE.replace(".sum(dim=1) for", " for"))
    answer = proofmap(*EVALUATE, "--out", "shape", "--metrics", "completeness")
    assert answer.code == 3 and "expected (1, 3, 24, 24)" in answer.err
    mine.write_text(MINE)

    # the numbers elsewhere
    proofmap("export", "run").works()
    assert {path.name for path in (here / "run" / "export").iterdir()} == {
        "scores.csv",
        "per_image.csv",
        "per_label.csv",
    }
    proofmap("export", "run", "--format", "latex", "--out", "paper").works()
    assert r"\toprule" in (here / "paper" / "scores.tex").read_text()
    with pm.Run(here / "run") as run:
        assert run.methods.keys() == set(METHODS)
        pytest.importorskip("pandas")
        frame = run.to_dataframe("per_label")
        assert set(frame["method"]) == set(METHODS) and len(frame["label"].unique()) == 3
        scores = run.to_dataframe()
    assert all(0 <= value <= 1 or math.isnan(value) for value in scores["value"])


@pytest.mark.slow
def test_a_researchers_figures_and_the_same_in_python(mine: Path, here: Path, proofmap: Proofmap) -> None:
    pytest.importorskip("matplotlib")
    proofmap(
        *EVALUATE, "--methods", "mine.py:occlusion,random", "--metrics", "completeness,soundness"
    ).works()
    proofmap("figures", "run", "--names", "curve").refuses("Known are: artifact, curves")
    proofmap("figures", "run", "--names", "curves,scatter", "--formats", "png", "--out", "figures").works()
    assert {path.name for path in (here / "figures").iterdir()} == {
        "curves.png", "curves.txt", "scatter.png", "scatter.txt",
    }  # fmt: skip
    assert "6 images" in (here / "figures" / "curves.txt").read_text()

    # in Python the photos keep their names, and the numbers are those of the command line
    from captum.attr import Occlusion

    def occlusion(classifier: pm.Classifier, images: Tensor, labels: Tensor) -> Tensor:
        find = Occlusion(classifier)
        maps = [find.attribute(images, (1, 8, 8), (1, 8, 8), target=a).sum(dim=1) for a in labels.T]
        return torch.stack(maps, dim=1)

    net = pm.load_classifier("net.py:shapes", device="cpu")
    photos = pm.load_images("xrays", net)
    metrics = ["completeness", "soundness"]
    found = pm.evaluate(net, photos, methods=[occlusion, "random"], labels="all", metrics=metrics)
    assert found.image_names == ("bar0", "bar1", "disc0", "disc1", "ring0", "ring1")
    with pm.Run(here / "run") as run:
        for name in ("completeness", "soundness"):
            theirs = run.evaluation()["occlusion"].score(name).value
            assert found.results[0].score(name).value == pytest.approx(theirs, abs=1e-5)
