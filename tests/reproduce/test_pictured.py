"""Recipes of pictures, and of what the paper says in passing: each on tiny data, and what its figure shows."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from proofmap.core.errors import InputError
from proofmap.core.ranking import keep_top
from proofmap.report.figures.grid import short_probability
from proofmap.reproduce.claims import orderings_of
from proofmap.reproduce.examples import choose_examples
from proofmap.reproduce.findings import Job
from proofmap.reproduce.recipe import Recipe
from proofmap.reproduce.rows import study_of
from proofmap.reproduce.run import reproduce
from proofmap.reproduce.stored_maps import StoredMaps
from proofmap.study import Run
from tests.data.made_up import cifar_batch, imagenette_at, noise, save
from tests.reproduce.small_world import PICTURED, SIDE, small_data, small_maskers, small_nets

FIGURES = {
    "desk-photo": ["desk-photo"],
    "figure1": ["artifact"],
    "imagenette-best-effort": [f"scatter-{at}" for at in ("printed", "between", "released")],
    "imagenette-examples": ["mask-grid", "mask-grid-wrong"],
    "imagenette-gaussian": [],
    "imagenette-ties": [],
    "two-true-labels": ["two-objects"],
}


@pytest.fixture(autouse=True)
def small_world(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    small_nets(monkeypatch)
    monkeypatch.setattr("proofmap.report.runs.write_report", lambda _, path, **__: path)  # a second each
    monkeypatch.setattr("proofmap.reproduce.run.draw", lambda _, path: path)  # test_figures draws grids


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With ships and birds, a desk, and photos with two true labels."""
    folder = small_data(tmp_path_factory.mktemp("data"))
    imagenette_at(folder / "imagenette", each=2, size=(SIDE, SIDE))
    cifar_batch(folder / "cifar-10-batches-py" / "test_batch", 10)
    save(folder, "imagenet_val/0526.png", noise(5, SIDE, SIDE))
    with (folder / "imagenet_val" / "labels.csv").open("a") as table:
        table.write("0526.png,526\n")
    relabelled = folder / "relabelled"
    for k in range(4):
        save(relabelled, f"imagenet_val/ILSVRC2012_val_{k + 1:08d}.png", noise(20 + k, SIDE, SIDE))
    (relabelled / "real.json").write_text(json.dumps([[3, 5], [], [7, 9], [1]]))
    shutil.copytree(folder / "weights", relabelled / "weights")
    shutil.copytree(folder / "two_objects", relabelled / "two_objects")
    return folder


def job_of(name: str, data: Path, out: Path) -> Job:
    recipe = Recipe.named(name).with_variant(data)
    return Job(recipe, recipe.chosen(data=data, quick=True), out)


@pytest.mark.parametrize("name", PICTURED)
def test_every_recipe_of_pictures_runs_quickly(name: str, tmp_path: Path, data: Path) -> None:
    own = data / "relabelled" if name == "two-true-labels" else data
    if not (own / "maskers").exists() and "cifar" not in name and name != "figure1":
        small_maskers(own)
    found = reproduce(name, tmp_path / "out", data=own, quick=True).outcome
    expected = FIGURES.get(name, ["mask-pairs", "mask-pairs-second"])
    assert list(found.named_figures) == expected and found.tables[0].records
    assert all((tmp_path / "out" / f"{figure}.txt").exists() for figure in expected)
    if name == "imagenette-examples":
        assert len(found.named_figures["mask-grid"].rows) == 6  # type: ignore[attr-defined]
    if name == "figure1":
        areas = [float(record["value"]) for record in found.tables[0].records]  # type: ignore[arg-type]
        cells = [cell for row in found.named_figures["artifact"].rows for cell in row[1:]]  # type: ignore[attr-defined]
        assert [cell.below.split()[0] for cell in cells] == [short_probability(area) for area in areas]
    if name == "two-true-labels":
        above = [cell.above for cell in found.named_figures["two-objects"].rows[0][1:3]]  # type: ignore[attr-defined]
        assert len(set(above)) == 2 and all(above)  # the two labels of this photo


def test_the_number_below_a_masked_image_is_f_of_what_it_shows(tmp_path: Path, data: Path) -> None:
    """A plain loop: the top 30 % of the second label's mask on gray, through the net as it is."""
    found = reproduce("cifar10-masks", tmp_path, data=data, quick=True).outcome
    figure = found.named_figures["mask-pairs-second"]
    stored = StoredMaps.open(tmp_path, study_of(job_of("cifar10-masks", data, tmp_path)), None)
    f, masks = stored.classifier, stored.maps("TV .01")
    for i, row in enumerate(figure.rows):  # type: ignore[attr-defined]
        kept = keep_top(masks[i, 1][None], 0.3)[0].float()
        gray = f.blank(1)[0]
        seen = kept * stored.images[i] + (1 - kept) * gray
        p = float(f.probabilities(seen[None])[0, stored.labels[i, 1]])
        assert float(row[4].below) == pytest.approx(
            p, abs=0.006
        )  # columns 4 and 5 are the third row of the study
        assert row[5].pixels.shape == (32, 32, 3)
        raw = (255 * masks[i, 1]).round().numpy()
        assert abs(row[5].pixels[..., 0] - raw).max() <= 1


def test_examples_are_the_first_images_that_fit(data: Path, tmp_path: Path) -> None:
    job = job_of("figure1", data, tmp_path)
    chosen = choose_examples(job)
    assert [(own, other) for _, own, other in chosen] == [(8, 3), (2, 6)]
    unsure = replace(job, settings={**job.settings, "least_own": 1.0, "most_other": 0.0})
    with pytest.raises(
        InputError, match="no image of 'ship' has f >= 1 for it and f <= 0 for 'cat': 1 were tried"
    ):
        choose_examples(unsure)


def test_a_metric_in_another_form_is_compared_row_by_row(tmp_path: Path, data: Path) -> None:
    """The claim is about paired differences: usual form less the other, with the metric's direction."""
    job = job_of("imagenette-ties", data, tmp_path)
    settings = {**job.settings, "no_gains": [dict(job.settings["no_gains"][0], methods=["Ours"], margin=0.0)]}
    reproduce("imagenette-ties", tmp_path, data=data, quick=True, rows=["Ours"])
    with Run(tmp_path) as run:
        evaluation = run.evaluation()
    (result,) = evaluation.results
    values = {**result.values}
    values["insertion"] = torch.full_like(values["insertion"], 0.75)
    values["insertion, centered ties"] = torch.full_like(values["insertion"], 0.5)
    changed = replace(evaluation, results=(replace(result, values=values),))
    (found,) = orderings_of(changed, settings)
    assert found.pairs[0].difference == 0.25 and found.pairs[0].than == "Ours, insertion, centered ties"
