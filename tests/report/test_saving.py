"""What ``save`` writes is whole, readable and of a size that one can look through."""

from __future__ import annotations

import csv
import json
import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

import proofmap as pm
from proofmap.metrics import Judged, Metric
from proofmap.metrics.proof_scores import BestEffort, Completeness, Soundness
from proofmap.report import display, sheets
from proofmap.report.display import NUMBER_FILES
from proofmap.report.figures.curves import curves_figure
from proofmap.report.figures.scatter import scatter_panels
from proofmap.session import Session
from tests.toys import linear_classifier, pixels

SIZE = 4


@pytest.fixture(autouse=True)
def small_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proofmap.report.figures.drawing.DPI", 60)  # quicker to fill


def judged(
    *,
    n: int = 3,
    labels: Any = "all",
    outputs: int = 3,
    metrics: Sequence[Metric] | None = None,
    names: Sequence[str] | None = None,
    methods: Sequence[Any] = ("gradient-x-input", "random"),
    channels: int = 3,
    keep_maps: int | None = 50,
) -> pm.Evaluation:
    f = linear_classifier(SIZE, outputs, mean=(0.5,) * channels, std=(0.3,) * channels)
    images = pixels(n, SIZE, channels=channels)
    return pm.evaluate(
        f, images, methods=methods, labels=labels, metrics=metrics, names=names, keep_maps=keep_maps
    )


def saved(evaluation: pm.Evaluation, folder: Path) -> list[str]:
    written = evaluation.save(folder)
    assert sorted(p.name for p in written) == sorted(os.listdir(folder))  # each file is there, once
    return sorted(p.stem for p in written if p.suffix == ".png")


def proof_of(n: int = 2, **options: Any) -> pm.Proof:
    return pm.explain(linear_classifier(SIZE, 3), pixels(n, SIZE), labels="all", **options)


# ---- how much is drawn -------------------------------------------------------------------------------------


def test_the_first_images_get_sheets_and_the_sheets_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (sheets, display):
        monkeypatch.setattr(module, "MOST_IMAGES", 4)
    evaluation = judged(n=7, methods=["random"])
    drawn = [name for name in saved(evaluation, tmp_path) if name.startswith("image-")]
    assert sorted(drawn) == sorted(f"image-{i}.random" for i in range(4))
    assert "Shown: sheets of 4 of 7 images." in sheets.sheet_notes(evaluation, 0)
    with open(tmp_path / "pairs.csv") as file:
        assert len(list(csv.DictReader(file))) == 7 * 3  # the numbers are of all images


def test_a_proof_of_many_images_keeps_all_maps_and_draws_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (sheets, display):
        monkeypatch.setattr(module, "MOST_IMAGES", 4)
    proof = proof_of(7, method="random")
    written = proof.save(tmp_path)
    assert len([p for p in written if p.suffix == ".png"]) == 4
    assert load_file(tmp_path / "maps.safetensors")["maps"].shape == (7, 3, SIZE, SIZE)


def test_only_images_whose_maps_were_kept_get_sheets(tmp_path: Path) -> None:
    evaluation = judged(n=3, keep_maps=2)
    assert evaluation.pictured == (0, 1) and len(evaluation) == 3
    assert {"image-0.compared", "image-1.compared"} == {
        s for s in saved(evaluation, tmp_path / "a") if "image" in s
    }
    with pytest.raises(pm.InputError, match="image 2 were not kept"):
        evaluation.image_of(2)


# ---- charts of the scores there are ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "metrics, panels",
    [
        ([Soundness()], []),
        ([BestEffort(), Completeness()], []),
        ([Completeness(), Soundness()], ["completeness"]),
        ([Soundness(), BestEffort(), Completeness()], ["completeness", "best-effort"]),
    ],
)
def test_only_charts_whose_scores_exist_are_drawn(
    metrics: list[Metric], panels: list[str], tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib")
    evaluation = judged(metrics=metrics)
    assert [panel.kind for panel in scatter_panels(evaluation)] == panels
    written = saved(evaluation, tmp_path)
    assert "curves" in written
    assert ("completeness-soundness" in written) == bool(panels)


@pytest.mark.parametrize(
    "labels, title",
    [
        ("all", "the top label"),
        ("top2", "the top label"),
        ("p>=0", "the top label"),
        ([2, 0], "the first label"),
        (torch.tensor([[2, 0]] * 3), "the first label"),
    ],
)
def test_a_chart_calls_a_label_the_top_one_only_if_it_is(labels: Any, title: str) -> None:
    assert [panel.title for panel in curves_figure(judged(labels=labels)).panels] == [
        title,
        "the second label",
    ]


# ---- names -------------------------------------------------------------------------------------------------


def test_no_sheet_overwrites_another_or_a_chart(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    names = ["a b.png", "a_b", "curves", "a_b-2", "a b.jpg", "v1.2"]
    sheets = saved(judged(n=6, names=names), tmp_path)
    images = ["a_b", "a_b-3", "curves", "a_b-2", "a_b-4", "v1.2"]
    assert sheets == sorted([*(f"{image}.compared" for image in images), "curves", "completeness-soundness"])


@pytest.mark.usefixtures("drawn_figures")
def test_photos_with_long_names_in_any_script_can_be_saved(tmp_path: Path) -> None:
    names = ["x" * 240 + "1", "x" * 240 + "2", "猫" * 240]
    assert len(saved(judged(names=names, methods=["random"]), tmp_path)) >= 3
    written = proof_of(3, names=names, method="random").save(tmp_path / "proof")
    assert len({p.name for p in written if p.suffix == ".png"}) == 3


# ---- what a plug-in may bring ------------------------------------------------------------------------------


class Precise(pm.Method):
    """A plug-in with settings that JSON does not know."""

    name: ClassVar[str] = "precise"
    dtype: torch.dtype = torch.float16
    where: Path = Path("a")

    def maps(self, session: Session, images: Tensor, labels: Tensor) -> Tensor:
        return images.mean(dim=1, keepdim=True).expand(-1, labels.shape[1], -1, -1)


def test_a_setting_that_json_does_not_know_is_written_as_text() -> None:
    record = json.loads(NUMBER_FILES["evaluation.json"](judged(methods=[Precise()])))
    settings = record["methods"][0]["settings"]
    assert settings.pop("code")  # of a method that is not ours
    assert settings == {"method": "precise", "dtype": "torch.float16", "where": "a"}


class EveryOther(Metric):
    """Counts the first image of every two."""

    name: ClassVar[str] = "every-other"
    higher_is_better: ClassVar[bool] = True
    description: ClassVar[str] = "1 for images that count"

    def values(self, judged: Judged) -> Tensor:
        return torch.tensor([1.0, torch.nan]).repeat(len(judged.images))[: len(judged.images)]


def test_the_notes_explain_each_score_by_itself() -> None:
    table = judged(metrics=[EveryOther(), Soundness(e2=0.003)]).table()
    assert "every other counts 2 of 3 images" in table
    assert "second label" not in table
    assert "thresholds e2 = 0.003; insertion curve: fill gray" in table  # not the first score's: it has none


def test_several_thresholds_are_listed_with_their_scores() -> None:
    metrics = [Completeness(), Soundness(), Soundness(e2=0.1)]
    table = judged(metrics=metrics).table()
    assert "thresholds e1 = 0.01 (completeness), e2 = 0.001 (soundness), e2 = 0.1 (soundness-2); " in table


def test_scores_of_one_metric_say_in_which_settings_they_differ() -> None:
    """The curve that is shown is that of the metric ``insertion``, whatever other metrics play."""
    table = judged(
        metrics=["sufficient-region:points=4", "insertion:fill=blur", "insertion:fill=blur(sigma=3)"]
    ).table()
    assert "insertion curve: fill blur (sigma 5, kernel 11), 32 points" in table
    assert "insertion: sigma 5.0\n" in table and "insertion-2: sigma 3.0\n" in table
    assert "insertion curve" not in judged(metrics=[EveryOther()]).table()


# ---- permissions -------------------------------------------------------------------------------------------


def test_every_file_has_the_permissions_of_a_new_file(tmp_path: Path) -> None:
    (tmp_path / "usual").touch()
    usual = stat.S_IMODE((tmp_path / "usual").stat().st_mode)
    written = proof_of(method="random").save(tmp_path / "proof")
    assert {p.name: oct(stat.S_IMODE(p.stat().st_mode)) for p in written} == {
        p.name: oct(usual) for p in written
    }
