"""The verdict, rule by rule: each case has made-up values that satisfy all rules but one."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import ClassVar

import pytest
import torch

import proofmap as pm
from proofmap.core.errors import InputError
from proofmap.core.labels import UNBELIEVED
from proofmap.metrics.proof_scores import BestEffort, Completeness, Soundness
from proofmap.report.choice import Choice
from proofmap.report.figures.scatter import scatter_figure, scatter_panels
from proofmap.report.html import write_report
from proofmap.report.label_matrix import mean_matrix
from proofmap.results import score_tables
from proofmap.results.audit import audit
from proofmap.results.proof_shape import proof_values
from proofmap.results.records import MethodResult
from proofmap.results.statistics import Score
from proofmap.results.verdict import ENOUGH, Verdict, fully_proved, verdict, weakest
from proofmap.study import run_study
from tests.report.pages import PageParts, judged, listed
from tests.study.studies import net_file, toy_study
from tests.toys import conv_classifier, linear_classifier, pixels

KINDS = ("completeness", "soundness", "best-effort")
Values = Sequence[float] | float


@pytest.fixture(scope="module")
def base() -> pm.Evaluation:
    return judged(2, 8, labels="top2", metrics=list(KINDS))


def made(
    base: pm.Evaluation, n: int, values: Mapping[str, Sequence[Values]], f: float = 0.3, **changes: object
) -> pm.Evaluation:
    """``n`` images with these values of completeness, soundness and best effort for each method, and two labels with this f."""
    found = listed(base, n)
    results = []
    for result in found.results:
        if result.name in values:
            own = {
                kind: torch.tensor(v if isinstance(v, Sequence) else [v] * n)
                for kind, v in zip(KINDS, values[result.name], strict=True)
            }
            scores = tuple(s.over(own[s.name]) for s in result.scores)
            results.append(replace(result, values=own, scores=scores, pairs={}))
    return replace(found, results=tuple(results), f=torch.full_like(found.f, f), **changes)  # type: ignore[arg-type]


def around(mean: float, n: int, spread: float = 0.02) -> list[float]:
    return [mean + spread * (1 if k % 2 else -1) for k in range(n)]


def good(n: int) -> dict[str, Sequence[Values]]:
    """gradient passes every rule, random is a control that it beats."""
    return {
        "gradient": (around(0.95, n), around(0.93, n), around(0.9, n)),
        "random": (around(0.2, n), around(0.7, n), around(0.2, n)),
    }


def of_fills(base: pm.Evaluation, n: int, **values: Mapping[str, Sequence[Values]]) -> pm.Evaluation:
    """The made-up evaluations of several fills in one, as ``evaluate --fills`` names their scores."""
    found = {fill: made(base, n, each) for fill, each in values.items()}
    first = next(iter(found.values()))

    def named(result: MethodResult, fill: str) -> MethodResult:
        scores = tuple(
            replace(s, name=f"{s.name} ({fill})", settings={**s.settings, "fill": fill})
            for s in result.scores
        )
        return replace(result, scores=scores, values={f"{k} ({fill})": v for k, v in result.values.items()})

    results = []
    for k, result in enumerate(first.results):
        parts = [named(each.results[k], fill) for fill, each in found.items()]
        values_of = {name: v for part in parts for name, v in part.values.items()}
        results.append(replace(result, scores=sum((p.scores for p in parts), ()), values=values_of))
    return replace(first, results=tuple(results))


BAD = {"gradient": (around(0.89, 60), around(0.6, 60), around(0.9, 60)), "random": good(60)["random"]}


@pytest.mark.parametrize("order", [("gray", "blur"), ("blur", "gray")])
def test_the_worst_fill_counts(base: pm.Evaluation, order: Sequence[str]) -> None:
    of = {"gray": good(60), "blur": BAD}
    found = verdict(of_fills(base, 60, **{fill: of[fill] for fill in order}))
    assert (found.grade, found.headline) == ("none", "gradient fully proves none of 60 images (fill blur)")
    assert "The worst of 2 fills counts." in found.reasons
    proves = "gradient fully proves 60 of 60 images; random none. It is both complete and sound"
    assert found.reasons[-1] == f"With the fill gray: {proves}."
    both = verdict(of_fills(base, 60, gray=good(60), blur=good(60)))
    assert both.grade == "is" and both.headline.endswith("both complete and sound (fill gray)")


def test_the_headline_begins_with_the_method_that_fully_proves_most(base: pm.Evaluation) -> None:
    """Both pass the bar on average; the second row of the table fails on fewer images."""
    n = 5
    values = {**good(n), "gradient-x-input": good(n)["gradient"]}
    values["gradient"] = ([0.7, *[0.95] * 4], around(0.99, n, 0.01), around(0.99, n, 0.01))
    found = verdict(made(base, n, values))
    assert found.headline.startswith("gradient-x-input fully proves 5 of 5 images, gradient 4; random none. ")
    assert found.methods == ("gradient-x-input", "gradient")


@pytest.mark.parametrize("order", [("gray", "blur"), ("blur", "gray")])
def test_every_fill_must_pass_an_audit_and_one_may_be_chosen(
    base: pm.Evaluation, order: Sequence[str]
) -> None:
    of = {"gray": good(60), "blur": BAD}
    found = of_fills(base, 60, **{fill: of[fill] for fill in order})
    both = pm.audit(found, min_completeness=0.8, min_soundness=0.8)
    assert not both.passes
    assert [line.metric for line in both.lines if not line.passes] == ["soundness (blur)"]
    assert len(both.lines) == 4
    gray = pm.audit(found, bars={"soundness (gray)": 0.8})
    assert gray.passes and [line.metric for line in gray.lines] == ["soundness (gray)"]
    with pytest.raises(pm.InputError, match=r"no score is named 'soundness .noise.'"):
        pm.audit(found, bars={"soundness (noise)": 0.8})


N = ENOUGH
CONTROL = good(N)["random"]


@pytest.mark.parametrize(
    "n, values, grade, headline, reason",
    [
        (N, good(N), "is", "gradient fully proves 20 of 20 images; random none. It is both complete and sound", "gradient: completeness .95 [.94, .96], soundness .93"),
        (N - 1, good(N - 1), "best", "gradient fully proves 19 of 19 images; random none. Too few to be sure", "19 images count; a plain verdict needs 20."),
        (
            N,
            {"gradient": (around(0.95, N), around(0.82, N, spread=0.15), around(0.9, N)), "random": CONTROL},
            "best",
            "gradient fully proves 10 of 20 images; random none. Not clearly above the bar",
            "The 95 % interval of gradient reaches below the bar of .80 in soundness.",
        ),
        (
            N,
            {**good(N), "random": (around(0.2, N), around(0.94, N), around(0.2, N))},
            "best",
            "No sounder than one map for all labels",
            "The soundness of gradient (.93) is not clearly above that of random (.94), which has one map for all labels.",
        ),
        (N, {"gradient": good(N)["gradient"]}, "best", "20 of 20 images. Not compared with one map for all labels", ""),
        (N, {"random": good(N)["gradient"]}, "best", "", "sound without effort"),
        (N, {"gradient": (around(0.95, N), around(0.93, N), around(0.4, N)), "random": CONTROL}, "none", "", ""),
        (
            N,
            {"gradient": (around(0.95, N), around(0.93, N), math.nan), "random": CONTROL},
            "is",
            "",
            "No image counts for the best effort of gradient, so the verdict leaves it out.",
        ),
    ],
    ids=["all rules hold", "few images", "wide interval", "a control as sound", "no control", "one map", "no best effort", "best effort not judged"],
)  # fmt: skip
def test_each_rule_decides_where_all_others_hold(
    base: pm.Evaluation,
    n: int,
    values: Mapping[str, Sequence[Values]],
    grade: str,
    headline: str,
    reason: str,
) -> None:
    found = verdict(made(base, n, values))
    assert found.grade == grade and found.headline.endswith(headline)
    assert any(reason in said for said in found.reasons)
    sure = verdict(made(base, n, values, f=0.85))
    assert sure.headline == "Nothing can be said: the net is sure of every label that was judged"


def test_the_best_of_several_scores_best(base: pm.Evaluation) -> None:
    values = {**good(5), "gradient-x-input": (around(0.5, 5), around(0.9, 5), around(0.4, 5))}
    found = verdict(made(base, 5, values))
    assert found.headline == "gradient fully proves 5 of 5 images; the others none. Too few to be sure"
    assert (
        found.sure == "5 images count; a plain verdict needs 20." and "Judge 15 more images" in found.action
    )
    both = {**values, "gradient-x-input": values["gradient"]}
    found = verdict(made(base, 5, both))
    assert found.headline.startswith("gradient fully proves 5 of 5 images, gradient-x-input 5; random none. ")


def test_soundness_that_the_fill_explains(base: pm.Evaluation) -> None:
    """With nothing shown the curve is at its area: the map adds nothing to what the fill gives."""
    evaluation = made(base, ENOUGH, good(ENOUGH))
    first = evaluation.results[0]
    curves = first.insertion
    flat = replace(curves, probabilities=curves.auc[..., None].expand_as(curves.probabilities))
    explained = replace(first, insertion=flat, pairs={"soundness": torch.full_like(curves.auc, 0.9)})
    found = verdict(replace(evaluation, results=(explained, *evaluation.results[1:])))
    assert found.grade == "best" and "explained by the fill alone" in " ".join(found.reasons)
    assert found.headline.endswith(
        " of 20 images; random none. Soundness explained by the fill alone"
    )  # random is at .2


def test_no_method_is_both(base: pm.Evaluation) -> None:
    n = ENOUGH
    values = {
        "gradient": (around(0.9, n), around(0.3, n), around(0.9, n)),
        "gradient-x-input": (around(0.5, n), around(0.6, n), around(0.4, n)),
        "random": (around(0.1, n), around(0.95, n), around(0.1, n)),
    }
    found = verdict(made(base, n, values))
    assert (found.grade, found.headline) == ("none", "No method fully proves any of 20 images")
    assert (
        "The most complete method is gradient (.90, with soundness .30); the soundest is gradient-x-input (.60, with completeness .50)."
        in found.reasons
    )
    few = verdict(made(base, 3, {name: tuple(v[:3] for v in own) for name, own in values.items()}))  # type: ignore[index, misc]
    assert few.headline == "No method fully proves any of 3 images. Too few to be sure"
    alone = verdict(made(base, n, {"gradient": values["gradient"]}))
    assert alone.headline == "gradient fully proves none of 20 images"


def test_an_image_is_fully_proved_if_its_weakest_label_is(base: pm.Evaluation) -> None:
    """Against a plain loop over images, halves and labels; with two fills, the weaker of them counts."""
    first, n = base.results[0], len(base)
    pairs = [first.pairs[half][i] for i in range(n) for half in KINDS[:2]]
    for half in KINDS[:2]:
        assert torch.equal(first.values[half], first.pairs[half].amin(dim=1))
    least = [min(float(v) for half in pairs[2 * i : 2 * i + 2] for v in half) for i in range(n)]
    assert weakest(first).tolist() == least
    some = {
        "gradient": ([0.9, 0.8, 0.79, math.nan, 1.0], [0.8, 0.9, 1.0, 1.0, 0.2], 0.9),
        "random": ([0.1] * 5, 0.9, 0.1),
    }
    some = {name: tuple(v if isinstance(v, list) else [v] * 5 for v in own) for name, own in some.items()}  # type: ignore[attr-defined]
    found = made(base, 5, some)  # type: ignore[arg-type]
    assert [fully_proved(r) for r in found.results if r.name in some] == [(2, 4), (0, 5)]
    assert verdict(found).headline.startswith("gradient fully proves 2 of 4 images; ")
    both = of_fills(base, 60, gray=good(60), blur=BAD)
    assert fully_proved(both["gradient"]) == (0, 60)


def test_images_on_which_soundness_cannot_fail_do_not_make_up_the_number(base: pm.Evaluation) -> None:
    evaluation = made(base, 2 * ENOUGH, good(2 * ENOUGH))
    f = evaluation.f.clone()
    f[5:] = 0.9
    found = verdict(replace(evaluation, f=f))
    assert found.headline == "gradient fully proves 40 of 40 images; random none. Too few to be sure"
    assert any("5 images count, on which a judged label has f < .80" in reason for reason in found.reasons)


def test_the_labels_that_soundness_tried_are_named(base: pm.Evaluation) -> None:
    believed = verdict(made(base, ENOUGH, good(ENOUGH)))
    said = "Soundness is the worst of 2 of 6 labels of each image; "
    assert any(r.startswith(said) and r.endswith("so soundness was hardly tested.") for r in believed.reasons)
    evaluation = made(base, ENOUGH, good(ENOUGH))
    f = evaluation.f.clone()
    f[:, 1] = 0.001
    tried = verdict(replace(evaluation, f=f))
    assert f"{said}50 % of them are labels that the net does not believe (f < 0.01)." in tried.reasons


@pytest.mark.parametrize("half", [0, 1], ids=["completeness", "soundness"])
def test_a_method_that_lacks_one_half_never_passes(base: pm.Evaluation, half: int) -> None:
    n = ENOUGH
    lacking = [around(0.95, n), around(0.93, n), around(0.9, n)]
    lacking[half] = [math.nan] * n
    values = {**good(n), "gradient-x-input": tuple(lacking)}
    found = verdict(made(base, n, values))
    assert found.headline.startswith("gradient fully proves ") and found.headline.endswith(
        "It is both complete and sound"
    )
    said = f"No image counts for the {KINDS[half]} of gradient-x-input, which therefore cannot pass."
    assert said in found.reasons
    alone = verdict(made(base, n, {"gradient-x-input": tuple(lacking)}))
    assert (alone.grade, alone.headline) == ("unjudged", "What the methods scored")


def test_without_values_there_is_no_verdict(base: pm.Evaluation) -> None:
    nothing = (math.nan, math.nan, math.nan)
    assert verdict(made(base, 3, {"gradient": nothing})).headline == "No image counted"
    evaluation = made(base, 3, good(3))
    half = tuple(replace(r, scores=r.scores[:1]) for r in evaluation.results)
    assert verdict(replace(evaluation, results=half)) == Verdict(
        "unjudged", "What the methods scored", ("Completeness and soundness were not both judged.",)
    )


def test_page_file_and_notebook_have_the_same_verdict(base: pm.Evaluation, tmp_path: Path) -> None:
    found = verdict(base)
    page = PageParts(write_report(base, tmp_path / "r.html"))
    assert page.record["verdict"]["headline"] == found.headline
    text = " ".join(page.text.split())
    assert all(reason in text for reason in (found.headline, *found.reasons))
    base.save(tmp_path, pictures=False)
    record = json.loads((tmp_path / "evaluation.json").read_text(encoding="utf-8"))
    assert record["verdict"]["headline"] == found.headline
    assert found.headline in base._repr_html_()


# ---- Labels that the net does not believe: judged by Python and by a run alike, and marked wherever labels are shown ---


@pytest.fixture(scope="module")
def evaluation() -> pm.Evaluation:
    """A net that is sure of one of twelve labels."""
    net = linear_classifier(8, 12, strength=0.5, names=[f"name {k}" for k in range(12)])
    return pm.evaluate(net, pixels(3, 8), methods=["gradient", "random"], labels="top1+wrong", seed=3)


def test_two_labels_are_judged_that_the_net_does_not_believe(evaluation: pm.Evaluation) -> None:
    assert evaluation.labels.shape == (3, 3) and evaluation.settings["labels"] == "top1+wrong"
    assert bool((evaluation.f[:, 1:] < UNBELIEVED).all())
    assert [evaluation.wrong_kind(0, j) for j in range(3)] == ["", "near", "far"]
    matrix = mean_matrix(evaluation)
    assert matrix is not None and matrix["names"] == ["label 1", "near wrong", "far wrong"]


def test_they_change_soundness_and_not_completeness(evaluation: pm.Evaluation) -> None:
    """Completeness of a label with f < e1 is 1; soundness is the worst over labels, so more labels cannot raise it."""
    net = linear_classifier(8, 12, strength=0.5, names=[f"name {k}" for k in range(12)])
    top = pm.evaluate(net, pixels(3, 8), methods=["gradient", "random"], labels="top1", seed=3)
    for ours, theirs in zip(evaluation.results, top.results, strict=True):
        assert torch.equal(ours.values["completeness"], theirs.values["completeness"])
        assert bool((ours.values["soundness"] <= theirs.values["soundness"]).all())
    least = min(
        float((t.values["soundness"] - o.values["soundness"]).max())
        for o, t in zip(evaluation.results, top.results, strict=True)
    )
    assert least > 0, "a wrong label decides the soundness of an image"


def test_tables_and_pages_mark_them(evaluation: pm.Evaluation, tmp_path: Path) -> None:
    _, rows = score_tables.pair_cells(evaluation)
    assert [", a wrong one, to test" in row[2] for row in rows[:3]] == [False, True, True]
    assert "labels top1 and two wrong ones (near, far)" in evaluation.table()
    page = PageParts(write_report(evaluation, tmp_path / "r.html"))
    assert [a["wrong"] for a in page.record["pictured"][0]["labels"]] == ["", "near", "far"]
    assert page.text.count("a wrong one, to test") == 6


@pytest.mark.parametrize(
    "labels, strength, told",
    [
        (3, 0.0, "labels top2 and 0 of two wrong ones (too few labels have f < 0.01)"),
        (2, 0.0, "labels top2 and 0 of two wrong ones (too few labels have f < 0.01)"),
        (3, 20.0, "labels top2 and 1 of two wrong ones (too few labels have f < 0.01)"),
    ],
)
def test_what_was_judged_is_said_where_no_wrong_label_was_left(
    labels: int, strength: float, told: str, tmp_path: Path
) -> None:
    net = linear_classifier(8, labels, strength=strength)
    found = pm.evaluate(
        net, pixels(2, 8), methods=["random"], labels="top2+wrong", metrics=["insertion:points=4"]
    )
    assert told in found.table()
    assert told in PageParts(write_report(found, tmp_path / "r.html")).text


def test_a_run_judges_the_same_wrong_labels_as_python(tmp_path: Path) -> None:
    """Whatever the blocks of the run; the net is so sure that it does not believe four of its five labels."""
    (tmp_path / "sure").mkdir()
    model = net_file(tmp_path / "sure", forward="200 * self.layers(x)")
    study = toy_study(tmp_path, 4, model=model, labels="top1+wrong", methods=("gradient",), seed=5)
    run_study(study, tmp_path / "run")
    with pm.Run(tmp_path / "run") as run:
        stored = run.evaluation()
    net = pm.load_classifier(model)
    photos = pm.load_images([str(tmp_path / "photos")], net)
    again = pm.evaluate(
        net, photos, methods=["gradient"], labels="top1+wrong", metrics=["soundness:points=4"], seed=5
    )
    assert torch.equal(stored.labels, again.labels) and stored.labels.shape[1] == 3
    assert stored.wrong_kind(0, 1) == "near" and bool((stored.f[:, 1] < UNBELIEVED).any())
    other = pm.evaluate(
        net, photos, methods=["gradient"], labels="top1+wrong", metrics=["soundness:points=4"], seed=6
    )
    assert not torch.equal(other.labels, again.labels), "the seed draws them"


# ---- The label x label matrix, against a plain loop over images and labels --------------------------------------------


METRICS = ["soundness:points=2", "insertion:points=2"]


@pytest.fixture(scope="module")
def found() -> pm.Evaluation:
    net = conv_classifier(8, 4)
    return pm.evaluate(net, pixels(3, 8), methods=["gradient", "random"], labels="all", metrics=METRICS)


def test_cells_are_the_means_of_a_loop(found: pm.Evaluation) -> None:
    result, labels = mean_matrix(found), found.labels.tolist()
    assert result is not None and result["names"] == list(found.label_names)
    for k, a, b in product(range(2), range(4), range(4)):
        matrix = found.results[k].insertion.matrix
        assert matrix is not None
        own = [float(matrix[i, row.index(a), row.index(b)]) for i, row in enumerate(labels)]
        assert result["methods"][k][a][b] == pytest.approx(sum(own) / 3, abs=1e-6)
        f = sum(float(found.f[i, row.index(b)]) for i, row in enumerate(labels)) / 3
        assert result["f"][b] == pytest.approx(f, abs=1e-6)


def test_the_question_is_answered_by_the_worst_cell(found: pm.Evaluation) -> None:
    def answers(*matrices: list[list[float]], f: tuple[float, float] = (0.5, 0.5)) -> dict[str, object]:
        first, count = found.results[0], [0] * len(matrices)
        labels = torch.tensor([[0, 1]]).expand(len(matrices), -1)
        curves = replace(first.insertion.select_images(count), matrix=torch.tensor(matrices), labels=labels)
        results = (replace(first, insertion=curves),)
        believed = torch.tensor([f]).expand(len(matrices), -1)
        result = mean_matrix(replace(found.select_images(count), results=results, labels=labels, f=believed))
        assert result is not None
        return dict(result["answers"][0])

    a, b = found.label_names[:2]
    sound, mixed = [[0.5, 0.1], [0.4, 0.48]], [[0.5, 0.1], [0.9, 0.4]]
    yes = answers(sound)
    assert (
        yes["yes"]
        and yes["words"] == f"Yes: at most, {a} gets 40 % from the map of {b}; the whole image gives it 50 %."
    )
    assert (yes["own"], yes["other"]) == pytest.approx((0.98, 0.8))
    no = answers(sound, mixed, mixed)
    assert no["words"] == f"No: {a} gets 73 % from the map of {b}; the whole image gives it 50 %."
    assert answers(sound, mixed, mixed, f=(0.6, 0.5))["yes"], ".73 is too much of .5, but not of .6"
    assert answers([[0.1, 0.0], [0.0, 0.1]])["words"] == "No: not even its own label is proved."
    small = answers([[0.5, 0.04], [0.9, 0.001]], f=(0.5, 0.001))  # the map of the other should prove nothing
    assert small["words"] == "Yes: no other label reaches 5 %." and small["other"] is None
    assert answers(sound, f=(0.001, 0.001))["yes"] is None


def test_labels_of_each_image_go_by_place_and_a_matrix_may_be_missing() -> None:
    labels = [[0, 1], [2, 3], [1, 2]]
    found = pm.evaluate(
        conv_classifier(8, 4), pixels(3, 8), methods=["gradient"], labels=labels, metrics=METRICS
    )
    result, matrix = mean_matrix(found), found.results[0].insertion.matrix
    assert result is not None and result["names"] == ["label 1", "label 2"] and not result["shared"]
    assert matrix is not None and torch.allclose(torch.tensor(result["methods"][0]), matrix.mean(dim=0))
    bare = replace(found.results[0], insertion=replace(found.results[0].insertion, matrix=None))
    assert mean_matrix(replace(found, results=(bare,))) is None


# ---- Tables, pages, pictures and audits go by what a score measures, never by what it is called -----------------------


class Reaches(Completeness):
    name: ClassVar[str] = "reaches"
    kind: ClassVar[str] = "completeness"


class StaysBelow(Soundness):
    name: ClassVar[str] = "stays-below"
    kind: ClassVar[str] = "soundness"


class Tries(BestEffort):
    name: ClassVar[str] = "tries"
    kind: ClassVar[str] = "best-effort"


class Impostor(Soundness):
    """Bears a famous name, and says that it measures something else."""

    name: ClassVar[str] = "soundness"
    kind: ClassVar[str] = "something-else"


METHODS = ("gradient", "random")


@pytest.fixture(scope="module")
def usual() -> pm.Evaluation:
    metrics = [Completeness(), Soundness(), BestEffort()]
    return judged(4, labels="top3", methods=METHODS, metrics=metrics)


@pytest.fixture(scope="module")
def renamed() -> pm.Evaluation:
    return judged(4, labels="top3", methods=METHODS, metrics=[Reaches(), StaysBelow(), Tries()])


def test_a_score_without_a_kind_is_its_own() -> None:
    assert Score("area", 0.5, 0.4, 0.6, 3, True).kind == "area"


def test_scores_under_other_names_give_the_same_verdict_panels_and_pictures(
    usual: pm.Evaluation, renamed: pm.Evaluation
) -> None:
    assert verdict(renamed) == verdict(usual)
    ours, theirs = scatter_panels(renamed), scatter_panels(usual)
    assert [(p.x, p.y) for p in ours] == [("reaches", "stays-below"), ("tries", "stays-below")]
    assert [p.points for p in ours] == [p.points for p in theirs]
    assert scatter_figure(renamed) == scatter_figure(usual)
    assert [p.kind for p in ours] == ["completeness", "best-effort"]
    for a, b in zip(renamed.results, usual.results, strict=True):
        for i in range(4):
            assert proof_values(renamed, a, i, 1) == proof_values(usual, b, i, 1)


def test_the_worst_images_are_chosen_by_kind(usual: pm.Evaluation, renamed: pm.Evaluation) -> None:
    assert Choice.of(renamed, worst=1, random=1) == Choice.of(usual, worst=1, random=1)
    assert "worst in soundness" in Choice.of(renamed, worst=1, random=1).rule


def test_bars_are_for_kinds(renamed: pm.Evaluation) -> None:
    bars = {"stays-below": 0.0}
    both = [result.name for result in renamed.results]
    result = audit(renamed, min_completeness=0.0, min_soundness=1.1, bars=bars, methods=both)
    assert [line.metric for line in result.lines] == ["reaches", "stays-below"] * 2
    assert result.passes  # the bar by name goes before the one by kind
    with pytest.raises(InputError, match="gradient was not judged by soundness; there are completeness"):
        audit(judged(1, methods=["gradient"], metrics=[Completeness()]), min_soundness=0.5)


def test_a_famous_name_alone_is_no_kind() -> None:
    found = judged(2, labels="top2", methods=METHODS, metrics=[Completeness(), Impostor()])
    assert scatter_panels(found) == []
    assert "not both judged" in verdict(found).reasons[0]
    result = found.results[0]
    assert result.first_score("soundness") is None and result.pairs_of_kind("soundness") is None


def test_of_two_scores_of_a_kind_the_first_is_read() -> None:
    found = judged(2, labels="top2", methods=["gradient"], metrics=[StaysBelow(), Soundness(), Reaches()])
    result = found.results[0]
    first = result.first_score("soundness")
    assert first is not None and first.name == "stays-below"
    assert (result.pairs_of_kind("soundness") == result.pairs["stays-below"].numpy()).all()
    panels = [(p.x, p.y) for p in scatter_panels(found)]
    assert panels == [("reaches", "stays-below"), ("reaches", "soundness")]
