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
from proofmap.fills import Images
from proofmap.methods.masks.learned import LearnedMask
from proofmap.metrics.games import CurveSettings
from proofmap.metrics.proof_scores import BestEffort
from proofmap.report.figures.grid import short_probability
from proofmap.reproduce.claims import orderings_of
from proofmap.reproduce.examples import choose_examples
from proofmap.reproduce.findings import Job
from proofmap.reproduce.recipe import Need, Recipe
from proofmap.reproduce.rows import by_epsilons, study_of
from proofmap.reproduce.run import EXPERIMENTS, reproduce
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
    assert [(e.own, e.other) for e in chosen] == [(8, 3), (2, 6)]
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
