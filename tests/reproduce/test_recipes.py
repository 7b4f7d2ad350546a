"""Recipes: every one can be read, says what it lacks, and describes what runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from proofmap.core.errors import InputError
from proofmap.fills import Images
from proofmap.methods.masks.learned import LearnedMask
from proofmap.metrics.games import CurveSettings
from proofmap.metrics.proof_scores import BestEffort
from proofmap.reproduce.findings import Job
from proofmap.reproduce.recipe import Need, Recipe
from proofmap.reproduce.rows import by_epsilons, study_of
from proofmap.reproduce.run import EXPERIMENTS


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
