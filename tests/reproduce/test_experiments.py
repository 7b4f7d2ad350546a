"""Experiments of their own: sanity, ensembling, corners, and the tuned threshold of the saliency metric."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from proofmap.core.ranking import keep_top
from proofmap.metrics.boxes import SaliencyMetric, SaliencySweep, SweepRow
from proofmap.reproduce import ensembling, sanity, study_recipe
from proofmap.reproduce.findings import Job, WorkDone
from proofmap.reproduce.recipe import Recipe
from proofmap.reproduce.rows import draw_sample
from proofmap.reproduce.study_recipe import JudgedRows, Tuning
from tests.reproduce.small_world import small_data, small_nets
from tests.reproduce.test_frame import made_up_evaluation


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    small_nets(monkeypatch)
    return small_data(tmp_path / "mine")


def _job(name: str, data: Path, **changes: object) -> Job:
    recipe = Recipe.named(name).with_variant(data)
    settings = {**recipe.chosen(data=data, quick=True), **changes}
    return Job(recipe, settings, data / "out", data=data)


def test_maps_that_do_not_look_at_the_net_contradict_the_sanity_check(world: Path) -> None:
    row = "Edges (control)"
    job = _job("sanity", world, rows=[row])
    job.settings["study"]["methods"] = [{"name": row, "method": "edges"}]
    found = sanity.run(job)
    assert [claim.verdict for claim in found.claims] == ["undecided", "contradicted"]
    assert "rank correlation 1.00" in found.claims[1].found
    before, after = found.tables[0].records
    assert before["value"] == after["value"] and before["n"] == 2
    ranks = {
        record["layers"]: record["value"] for record in found.tables[1].records if record["score"] == "rank"
    }
    assert ranks["the last layer"] == pytest.approx(1.0) and ranks["other image"] < 0.9


def test_each_of_k_masks_is_shown_alone_on_gray_and_overlaps_as_sets_do(world: Path) -> None:
    job = _job("ensembling", world)
    here, share = draw_sample(job), 0.25
    masks = torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    alone = ensembling._probability_alone(here, masks, share)
    for i in range(2):
        top = [set(masks[i, k].flatten().argsort(descending=True)[:256].tolist()) for k in range(3)]
        shared = [len(top[a] & top[b]) / 256 for a in range(3) for b in range(3) if a != b]
        assert float(ensembling.overlap(masks, share)[i]) == pytest.approx(sum(shared) / 6)
        for k in range(3):
            seen = torch.where(
                keep_top(masks[i, k][None], share)[0], here.images[i], here.classifier.blank(1)[0]
            )
            f = here.classifier.probabilities(seen[None])[0, here.labels[i, 0]]
            assert float(alone[i, k]) == pytest.approx(float(f), abs=1e-6)


def test_equal_masks_are_not_called_disjoint() -> None:
    """As those of the released code are."""
    same = torch.rand(6, 1, 8, 8).expand(6, 2, 8, 8)
    some = {"weakest mask": torch.ones(6), "overlap": ensembling.overlap(same, 0.3)}
    claims = list(ensembling._claims({2: some}, torch.zeros(6).double(), 0.3))
    assert [claim.verdict for claim in claims] == ["reproduced", "contradicted"]


def test_whole_photos_stand_beside_their_corners_by_name() -> None:
    seen = made_up_evaluation({"Random": {"insertion": [0.1, 0.2, 0.3]}})
    cut = JudgedRows(
        replace(seen, image_names=("c", "x", "a")), {}, ("a note",), (), WorkDone(3, 2, 3), failed=1
    )
    whole = replace(seen, image_names=("a", "b", "c"))
    both = study_recipe._together(cut, replace(cut, evaluation=whole, notes=("another",), failed=4))
    beside = both.evaluation["Random, whole photos"].values["insertion"]
    assert beside.tolist() == pytest.approx([0.3, math.nan, 0.1], nan_ok=True)
    assert both.notes == ("a note", "whole photos: another") and both.failed == 5 and both.work.passes == 6


def test_each_row_keeps_the_saliency_metric_at_its_own_threshold() -> None:
    metric = SaliencyMetric()
    rows = (SweepRow(0.4, -0.1, 0.5, 0.9, 0.0), SweepRow(1.0, -0.3, 0.3, 0.8, 0.0))
    other = (rows[0], replace(rows[1], value=0.5))
    found = Tuning({"a": SaliencySweep(rows, metric, 9), "b": SaliencySweep(other, metric, 9)}, 0)
    settings = {"study": {"metrics": [{"metric": "insertion"}, {"metric": "saliency-metric"}]}}
    changed = found.settings(settings)["study"]["metrics"]
    assert [m.get("delta") for m in changed] == [None, 0.4, 1.0] and len(settings["study"]["metrics"]) == 2
    names = [str(m.get("name", m["metric"])) for m in changed]
    judged = {name: [float(k), float(k)] for k, name in enumerate(names)}
    applied = found.applied(made_up_evaluation({"a": judged, "b": judged}))
    assert [score.name for score in applied.results[0].scores] == ["insertion", "saliency-metric"]
    assert [r.score("saliency-metric").value for r in applied.results] == [2.0, 1.0]
    assert [r.values["saliency-metric"][0].item() for r in applied.results] == [2.0, 1.0]
    assert [row[:2] for row in found.table().rows] == [("a", "1"), ("b", "0.4")]
