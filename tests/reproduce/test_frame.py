"""What recipes are made of: variants, rows with what they share, thresholds side by side, and orderings with intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from proofmap.core.errors import InputError
from proofmap.core.ranking import keep_top
from proofmap.fills import Images
from proofmap.methods.masks.learned import LearnedMask
from proofmap.metrics.boxes import SweepRow
from proofmap.metrics.games import CurveSettings
from proofmap.metrics.proof_scores import BestEffort
from proofmap.reproduce import ensembling, sanity, study_recipe
from proofmap.reproduce.claims import claims_of, orderings_of, orderings_table
from proofmap.reproduce.findings import Job, WorkDone
from proofmap.reproduce.recipe import Need, Recipe
from proofmap.reproduce.rows import by_epsilons, draw_sample, study_of
from proofmap.reproduce.run import EXPERIMENTS, passes_notes
from proofmap.reproduce.study_recipe import JudgedRows, Tuning, score_tables
from proofmap.results.compare import signed
from proofmap.results.evaluation import Evaluation
from proofmap.results.records import MethodResult
from proofmap.results.statistics import Score
from tests.reproduce.small_world import small_data, small_nets

RECIPE = """
title = "t"
paper = "p"
experiment = "study"

[[needs]]
path = "photos"
what = "some photos"

[[variants]]
name = "own"
what = "the paper's net"
needs = [{ path = "weights/big.pth", what = "weights of the paper's net" }]
settings = { study = { model = "big" } }

[[variants]]
name = "small"
what = "a small net in place of the paper's"
needs = [{ path = "weights/small.pth", module = "no_such_package_here", what = "small weights" }]
settings = { study = { model = "small" } }

[[variants]]
name = "long"
what = "as long as in the paper"
by_name = true

[settings.study]
model = "none"
methods = []
"""


def test_the_first_variant_whose_needs_are_met_is_taken_and_says_so(tmp_path: Path) -> None:
    recipe = Recipe.from_text("made-up", RECIPE)
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "small.pth").touch()
    small = recipe.with_variant(tmp_path)
    assert small.settings["study"]["model"] == "small" and small.chosen_variant == "small"
    note = small.variant_note(tmp_path)
    assert note.startswith("variant small: a small net in place of the paper's. For the paper's net: supply")
    assert f"{tmp_path}/weights/big.pth: weights of the paper's net" in note and "--variant own" in note
    with pytest.raises(InputError, match="some photos"):
        small.check_needs(tmp_path)
    (tmp_path / "weights" / "big.pth").touch()
    own = recipe.with_variant(tmp_path)
    assert (
        own.settings["study"]["model"] == "big"
        and own.variant_note(tmp_path) == "variant own: the paper's net"
    )
    assert recipe.with_variant(tmp_path, "small").variant_note(tmp_path).endswith("there; --variant own")
    assert recipe.with_variant(tmp_path, "long").settings["study"]["model"] == "none"
    assert recipe.settings["study"]["model"] == "none"  # as it was


def test_every_output_states_the_passes_of_its_masks_beside_the_papers() -> None:
    recipe = Recipe.from_text("made-up", RECIPE)
    methods = [
        {"name": "few", "method": "learned-mask", "steps": 5, "distractors": 3},
        {"name": "cheating", "method": "top-label", "of": "learned-mask:steps=5,distractors=3"},
        {"name": "gray", "method": "learned-mask", "preset": "released", "fill": "gray"},
        {"name": "Fong", "method": "fong-vedaldi", "preset": "pytorch", "steps": 250},
        {"name": "iGOS++", "method": "igos++", "preset": "fast"},
        {"name": "other", "method": "gradient"},
    ]
    job = Job(recipe, {"study": {"data": "photos", "methods": methods}}, Path("out"))
    assert passes_notes(job) == [
        "each mask of few, cheating: 15 passes (5 steps x 3, rate 0.2); the paper: 20,000 passes (2,000 steps x 10, rate 0.05)",
        "each mask of gray: 2,000 passes (2,000 steps x 1, rate 0.05); the paper: 2,000 passes (2,000 steps x 1, rate 0.05)",
        "each mask of Fong: 250 steps; the code that the paper used: 500",
        "each mask of iGOS++: 5 iterations of 8 integration steps; the paper does not say how many, iGOS++'s authors have 20 iterations of 20 integration steps",
    ]
    assert passes_notes(Job(Recipe.named("desk"), {}, Path("out"))) == []


def test_where_nothing_is_at_hand_everything_to_supply_is_named(tmp_path: Path) -> None:
    recipe = Recipe.from_text("made-up", RECIPE)
    with pytest.raises(InputError) as told:
        recipe.with_variant(tmp_path)
    text = str(told.value)
    assert f"  {tmp_path}/photos: some photos\none of these:\n  for own (the paper's net):" in text
    assert f"    {tmp_path}/weights/small.pth or the package no_such_package_here: small weights" in text
    assert "long" not in text and "--data" in text
    with pytest.raises(InputError, match=r"weights/big\.pth"):
        recipe.with_variant(tmp_path, "own").check_needs(tmp_path)
    with pytest.raises(InputError, match="has no variant 'huge'; it has own, small, long"):
        recipe.with_variant(tmp_path, "huge")
    with pytest.raises(InputError, match="the recipe desk has no variant 'own'; it has none"):
        Recipe.named("desk").with_variant(tmp_path, "own")


def test_rows_take_what_their_method_shares_also_inside_a_wrapper(tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "study": {
            "data": "photos",
            "weights": str(tmp_path / "not-there.pth"),
            "methods": [
                {"name": "ours", "method": "learned-mask"},
                {"name": "ours, s 1", "method": "learned-mask", "scale": 1.0},
                {"name": "cheating", "method": "top-label", "of": {"method": "learned-mask"}},
                {"name": "left out", "method": "random"},
            ],
            "metrics": [
                {"metric": "insertion"},
                {"metric": "soundness"},
                {"metric": "completeness", "e1": 0.3},
            ],
        },
        "of_method": {"learned-mask": {"scale": 4.0, "steps": 3}},
        "of_metric": {"insertion": {"points": 7}},
        "epsilons": {"a": {"e1": 0.01, "e2": 0.001}, "b": {"e1": 0.1, "e2": 0.1}},
    }
    recipe = Recipe.from_text("made-up", RECIPE)
    study = study_of(Job(recipe, settings, tmp_path, missing=["left out"]))
    methods, metrics = study.named_methods(), study.named_metrics()
    assert list(methods) == ["ours", "ours, s 1", "cheating"] and study.weights is None
    assert methods["ours"].scale == 4.0 and methods["ours, s 1"].scale == 1.0  # type: ignore[attr-defined]
    assert methods["cheating"].of == methods["ours"]  # type: ignore[attr-defined]
    assert list(metrics) == ["insertion", "soundness, a", "soundness, b", "completeness"]
    assert metrics["insertion"].points == 7  # type: ignore[attr-defined]
    assert [metrics[f"soundness, {p}"].e2 for p in "ab"] == [0.001, 0.1]  # type: ignore[attr-defined]
    assert metrics["completeness"].e1 == 0.3  # type: ignore[attr-defined]


def made_up_evaluation(values: Mapping[str, Mapping[str, list[float]]]) -> Evaluation:
    """An evaluation that has these values of each image, by method and metric."""
    results = []
    for name, scores in values.items():
        tensors = {metric: torch.tensor(some) for metric, some in scores.items()}
        means = tuple(
            Score(metric, higher_is_better=metric != "deletion", kind=metric.partition(",")[0]).over(some)
            for metric, some in tensors.items()
        )
        results.append(
            MethodResult(
                name,
                {},
                False,
                means,
                tensors,
                {},
                torch.empty(0),
                None,
                0.0,
                image_names=(),
                label_names=(),  # type: ignore[arg-type]
            )
        )
    n = len(next(iter(next(iter(values.values())).values())))
    names = tuple(map(str, range(n)))
    about = {"model": "net", "labels": "all"}
    return Evaluation(
        tuple(results), torch.empty(0), names, torch.zeros(n, 1), ("x",), torch.zeros(n, 1), about
    )


NOISE = torch.randn(40, generator=torch.Generator().manual_seed(0)) / 10


def _settings(**more: Any) -> dict[str, Any]:
    return {"study": {"metrics": [{"metric": "deletion"}, {"metric": "soundness"}]}, **more}


@pytest.mark.parametrize(
    "gap, margin, verdict",
    [
        (0.2, 0.0, "reproduced"),
        (-0.2, 0.0, "contradicted"),
        (0.0, 0.0, "undecided"),
        (-0.05, 0.2, "reproduced"),
    ],
)
@pytest.mark.parametrize("metric", ["soundness", "deletion"])
def test_orderings_go_by_the_interval_of_the_paired_difference(
    gap: float, margin: float, verdict: str, metric: str
) -> None:
    base = torch.linspace(0, 1, 40)
    centred = NOISE - NOISE.mean()
    sign = -1 if metric == "deletion" else 1
    found = made_up_evaluation(
        {"a": {metric: (base + sign * gap + centred).tolist()}, "b": {metric: base.tolist()}}
    )
    entry = {
        "says": "a beats b",
        "metric": metric,
        "better": ["a"],
        "than": ["b"],
        "margin": margin,
    }
    ordering, of_more = orderings_of(
        found, _settings(orderings=[entry, {**entry, "than": ["b", "not there"]}])
    )
    (pair,) = ordering.pairs
    assert pair.verdict == verdict == ordering.claim().verdict and pair.n == 40
    assert of_more.pairs == ordering.pairs and of_more.claim().found.endswith("; 1 comparison is not here")
    assert of_more.claim().verdict == ("contradicted" if verdict == "contradicted" else "undecided")
    assert pair.difference == pytest.approx(gap, abs=1e-6)
    half = (
        1.96 * float(centred.std()) / math.sqrt(40)
    )  # the normal interval, which the bootstrap's is near to
    assert pair.low == pytest.approx(gap - half, abs=0.01) and pair.high == pytest.approx(
        gap + half, abs=0.01
    )
    assert orderings_table([ordering]).records[0]["verdict"] == verdict


@pytest.mark.parametrize("metric", ["insertion", "deletion"])
@pytest.mark.parametrize("paper", [0.0, 0.2, -0.2, None])
def test_a_difference_stands_beside_that_of_the_papers_cells(paper: float | None, metric: str) -> None:
    base, centred = torch.linspace(0, 1, 40), NOISE - NOISE.mean()
    found = made_up_evaluation({"a": {metric: (base + centred).tolist()}, "b": {metric: base.tolist()}})
    sign = -1 if metric == "deletion" else 1
    cells = {"b": {metric: 0.5}, "a": {} if paper is None else {metric: 0.5 + sign * paper}}
    entry = {"says": "a beats b", "metric": metric, "better": ["a"], "than": ["b"]}
    (ordering,) = orderings_of(found, _settings(orderings=[entry], paper=cells))
    (pair,) = ordering.pairs
    assert pair.verdict == "undecided"
    assert pair.paper == (None if paper is None else pytest.approx(paper))
    table = orderings_table([ordering])
    assert table.records[0]["paper"] == ("" if paper is None else pytest.approx(paper))
    assert table.rows[0][table.header.index("the paper's")] == ("-" if paper is None else signed(paper))


def test_one_contradicted_pair_contradicts_the_statement_and_is_named() -> None:
    base = torch.linspace(0, 1, 40)
    found = made_up_evaluation(
        {
            "ours": {"soundness": (base + NOISE).tolist()},
            "worse": {"soundness": (base - 1).tolist()},
            "better": {"soundness": (base + 1).tolist()},
        }
    )
    entry = {"says": "ours is best", "metric": "soundness", "better": ["ours"], "than": ["worse", "better"]}
    (ordering,) = orderings_of(found, _settings(orderings=[{**entry, "check": False}]))
    claim = ordering.claim()
    assert claim.holds is False and not claim.checked
    assert claim.found.startswith("1 of 2 comparisons; ours against better -")
    about = ordering.claim()
    assert about == claim


@pytest.mark.parametrize("direction", ["rises", "falls"])
@pytest.mark.parametrize(
    "steps, verdict, told",
    [
        ([0.0, 0.1, 0.3], "reproduced", "row 2 against row 0 +.300"),
        ([0.0, -0.002, 0.3], "undecided", "row 1 against row 0 -.002"),  # back, but chance may have it
        ([0.0, -0.1, 0.3], "contradicted", "row 1 against row 0 -.100"),
        ([0.0, -0.002, -0.1], "contradicted", "row 2 against row 1 -.098"),
        ([0.0, 0.001, 0.002], "undecided", "row 2 against row 0 +.002"),  # on, but chance may have it
    ],
)
def test_a_trend_goes_by_paired_intervals_of_its_steps_and_of_the_whole_way(
    steps: list[float], verdict: str, told: str, direction: str
) -> None:
    base, centred = torch.linspace(0, 1, 40), NOISE - NOISE.mean()
    sign = 1 if direction == "rises" else -1
    rows = {
        f"row {i}": {"soundness": (base + sign * step + 0.3 * centred.roll(7 * i)).tolist()}
        for i, step in enumerate(steps)
    }
    trend = {"metric": "soundness", "direction": direction, "methods": list(rows)}
    ((claim,), _) = claims_of(made_up_evaluation(rows), _settings(trends=[trend]))
    assert claim.verdict == verdict and told in claim.found and claim.found.endswith("n = 40")
    assert ("above 0 where it falls" in claim.found) == (direction == "falls")


@pytest.mark.parametrize("counted", [0, 4])
@pytest.mark.parametrize("step", [-0.3, 0.1])
def test_a_trend_over_a_row_that_counts_few_images_is_undecided_and_says_so(
    step: float, counted: int
) -> None:
    base = torch.linspace(0, 1, 40)
    middle = (base + step + NOISE).tolist()[:counted] + [math.nan] * (40 - counted)
    rows = {
        "a": {"soundness": base.tolist()},
        "b": {"soundness": middle},
        "c": {"soundness": (base + 0.3 + NOISE).tolist()},
    }
    trend = {"metric": "soundness", "direction": "rises", "methods": list(rows)}
    ((claim,), _) = claims_of(made_up_evaluation(rows), _settings(trends=[trend]))
    assert claim.holds is None and f"n = {counted}, where fewer than 6 images decide nothing" in claim.found


def test_a_trend_of_two_rows_is_told_once_and_of_rows_that_are_not_there_not_at_all() -> None:
    base = torch.linspace(0, 1, 40)
    rows = {"a": {"soundness": base.tolist()}, "b": {"soundness": (base - 0.3 + NOISE).tolist()}}
    trend = {"metric": "soundness", "direction": "rises", "methods": ["a", "missing", "b"]}
    ((claim,), _) = claims_of(made_up_evaluation(rows), _settings(trends=[trend]))
    assert claim.holds is False and claim.found.count("b against a") == 1
    assert claim.statement == "soundness rises from a to b"
    alone = {"metric": "soundness", "direction": "rises", "methods": ["a", "missing"]}
    assert claims_of(made_up_evaluation(rows), _settings(trends=[alone])) == ([], [])


@pytest.mark.parametrize(
    "n, printed, verdict, ends",
    [
        (6, {"a": 0.55}, "reproduced", "a, n = 6"),
        (6, {"a": 0.7}, "contradicted", "a, n = 6"),
        (5, {"a": 0.7}, "undecided", "fewer than 6 images decide nothing"),
        (6, {"a": 0.55, "b": 0.5}, "undecided", "; 1 row is not here"),
        (6, {"a": 0.7, "b": 0.5}, "contradicted", "; 1 row is not here"),
    ],
)
def test_cells_near_the_papers_need_images_and_all_rows(
    n: int, printed: dict[str, float], verdict: str, ends: str
) -> None:
    found = made_up_evaluation({"a": {"soundness": [0.5] * n}})
    paper = {row: {"soundness": value} for row, value in printed.items()}
    ((claim,), _) = claims_of(found, _settings(paper=paper, tolerance=0.1))
    assert claim.verdict == verdict and claim.found.endswith(ends)


def test_thresholds_stand_side_by_side_with_the_printed_number() -> None:
    values = {"deletion": [0.1, 0.3] * 3, "soundness, a": [0.3] * 6, "soundness, b": [0.85] * 6}
    found = made_up_evaluation({"ours": values})
    pairs = {"a": {"e1": 0.01, "e2": 0.001}, "b": {"e1": 0.1, "e2": 0.1}}
    entry = {"says": "ours is as good as itself", "metric": "soundness", "better": ["ours"], "than": ["ours"]}
    settings = _settings(
        epsilons=pairs, paper={"ours": {"soundness": 0.84, "deletion": 0.5}}, orderings=[entry], tolerance=0.1
    )
    other, soundness = score_tables(found, settings)
    assert other.header == ("method", "deletion") and other.rows[0][1].endswith("(paper .50)")
    assert soundness.header == ("method", "a, e2 = 0.001", "b, e2 = 0.1")
    assert soundness.rows[0][1:] == [".30 (6 equal values) (paper .84)", ".85 (6 equal values) (paper .84)"]
    claims, _ = claims_of(found, settings)
    assert [c.holds for c in claims] == [
        False,
        None,
        None,
    ]  # deletion is .3 away; twice the same is undecided
    assert claims[2].statement == "ours is as good as itself, e2 = 0.1 (b)"


# ---- Experiments of their own: sanity, ensembling, corners, and the tuned threshold of the saliency metric ------------


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
    low, high = SweepRow(0.4, 9, -0.1, 0.5, 0.9, 0.0), SweepRow(1.0, 9, -0.3, 0.3, 0.8, 0.0)
    found = Tuning({"a": [high, low], "b": [low, replace(high, value=0.5)]}, 0)
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


# ---- Recipes: every one can be read, says what it lacks, and describes what runs --------------------------------------


@pytest.mark.parametrize("name", Recipe.names())
def test_every_recipe_is_whole(name: str) -> None:
    recipe = Recipe.named(name)
    assert recipe.title and recipe.paper and recipe.experiment in EXPERIMENTS
    shared = {"each_method", "each_metric", "of_method", "of_metric", "figures"}
    assert set(recipe.quick) <= set(recipe.settings) | shared
    for need in (*recipe.needs, *(need for variant in recipe.variants for need in variant.needs)):
        assert (need.path or need.module) and need.what
    assert not recipe.variants or not recipe.variants[0].by_name


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize(
    "name, variant",
    [
        (name, variant)
        for name in Recipe.names()
        if "study" in Recipe.named(name).settings
        for variant in [v.name for v in Recipe.named(name).variants] or [None]
    ],
)
def test_the_study_of_a_recipe_has_what_the_paper_and_its_claims_speak_of(
    name: str, variant: str | None, quick: bool
) -> None:
    recipe = Recipe.named(name).with_variant(Path("here"), variant)
    settings = recipe.chosen(data=Path("here"), quick=quick)
    study = study_of(Job(recipe, settings, Path("out"), images=7, seed=3))
    assert study.images.number == 7 and study.seed == 3 and "{data}" not in str(study)
    assert study.images.seed == 0 == study_of(Job(recipe, settings, Path("out"))).images.seed
    assert study_of(Job(recipe, settings, Path("out"), images_seed=3)).images.seed == 3
    methods = set(study.named_methods())
    all_rows = "alone" not in str(variant) and not (quick and "methods" in recipe.quick.get("study", {}))
    own_rows = name == "imagenette-gaussian"  # in place of those of the recipe that it extends
    assert {need.gives for need in recipe.needs if need.gives} <= methods or own_rows or not all_rows
    several = by_epsilons(settings) if "metrics" in settings["study"] else {}
    metrics = set(study.named_metrics()) | set(several)
    if all_rows:
        assert set(settings.get("paper", {})) <= methods and set(settings.get("rows", ())) <= methods
    assert {metric for cells in settings.get("paper", {}).values() for metric in cells} <= metrics
    for trend in settings.get("trends", ()):
        assert set(trend["methods"]) <= methods and trend["metric"] in metrics
        assert trend["direction"] in ("rises", "falls")
    also = {f"{row}, whole photos" for row in settings.get("whole", {}).get("methods", ())}
    for ordering in settings.get("orderings", ()):
        assert ordering["metric"] in metrics and ordering["says"]
        assert {*ordering["better"], *ordering["than"]} <= methods | also or not all_rows
        assert set(ordering) <= {"says", "metric", "better", "than", "margin", "check"}
    for entry in settings.get("no_gains", ()):
        assert {entry["metric"], entry["than"]} <= metrics and entry["says"]
        assert set(entry["methods"]) <= methods or not all_rows


@pytest.mark.parametrize(
    "name",
    [name for name in Recipe.names() if name not in ("desk", "imagenette-gaussian", "theory", "two-labels")],
)
def test_with_the_papers_net_masks_take_the_papers_passes(name: str) -> None:
    recipe = Recipe.named(name).with_variant(Path("here"), Recipe.named(name).variants[0].name)
    methods = study_of(Job(recipe, recipe.chosen(data=Path("here")), Path("out"))).named_methods()
    learned = [m for row, m in methods.items() if isinstance(m, LearnedMask) and not row.startswith("fast")]
    assert learned
    for mask in learned:
        assert (mask.steps, mask.learning_rate, mask.decay) == (2000, 0.05, "constant")
        assert mask.draws == (10 if mask.fill.random else 1)


@pytest.mark.parametrize(
    "name",
    [
        name
        for name in Recipe.names()
        if {"resnet18", "resnet50"} & {v.name for v in Recipe.named(name).variants}
    ],
)
def test_every_recipe_of_torchvisions_resnets_can_use_that_of_keras_with_the_same_rows(name: str) -> None:
    studies = {}
    for variant in (Recipe.named(name).variants[0].name, "keras-resnet50"):
        recipe = Recipe.named(name).with_variant(Path("here"), variant)
        studies[variant] = study_of(Job(recipe, recipe.chosen(data=Path("here")), Path("out")))
    own, keras = studies.values()
    assert keras.model == "keras-resnet50" and own.model != keras.model
    assert [need.path for need in recipe.needs if "Keras" in need.what] == ["weights/keras-resnet50"]
    assert not any(need.module == "torchvision" for need in recipe.needs)
    assert (keras.methods, keras.metrics, keras.labels) == (own.methods, own.metrics, own.labels)


@pytest.mark.parametrize("name", ["cifar10-tv", "cifar100-tv", "cifar10-curves"])
def test_the_papers_cifar_net_is_judged_with_its_40_random_images(name: str) -> None:
    for variant, draws in (("resnet164", 40), ("resnet56", 10)):
        recipe = Recipe.named(name).with_variant(Path("here"), variant)
        metrics = study_of(Job(recipe, recipe.chosen(data=Path("here")), Path("out"))).named_metrics()
        assert {
            m.draws for m in metrics.values() if isinstance(m, CurveSettings) and isinstance(m.fill, Images)
        } == {draws}


def test_best_effort_of_the_papers_tables_counts_by_the_papers_rule() -> None:
    found = {}
    for name in Recipe.names():
        if "metrics" in (recipe := Recipe.named(name)).settings.get("study", {}):
            metrics = study_of(Job(recipe, recipe.chosen(data=Path("here")), Path("out"))).named_metrics()
            rules = {m.counted for m in metrics.values() if isinstance(m, BestEffort)}
            found |= {name: rules} if rules else {}
    assert found == {f"imagenette{part}": {"paper"} for part in ("", "-best-effort", "-corner", "-scatter")}


def test_what_is_optional_is_left_out_only() -> None:
    text = """
        title = "t"
        paper = "p"
        experiment = "desk"
        [[needs]]
        module = "no_such_package_here"
        what = "pip install something"
    """
    with pytest.raises(InputError, match="the package no_such_package_here: pip install something"):
        Recipe.from_text("made-up", text).check_needs(Path())
    optional = Recipe.from_text("made-up", text + 'gives = "a part"')
    assert optional.check_needs(Path()) == [
        Need(module="no_such_package_here", what="pip install something", gives="a part")
    ]


@pytest.mark.parametrize(
    "text, message",
    [
        ('title = "t"\npaper = "p"', "entries: experiment"),
        ('title = "t"\npaper = "p"\nexperiment = "desk"\nneed = 1', "entries: need"),
        ('title = "t"\npaper = "p"\nexperiment = "desk"\nlike = "desk"', "entries: like"),
    ],
)
def test_a_recipe_that_is_not_one_is_refused(text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Recipe.from_text("made-up", text)


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(InputError, match=r"no recipe is named 'table-9'\. Known are: .*desk, .*theory"):
        Recipe.named("table-9")
