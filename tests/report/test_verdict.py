"""The verdict, rule by rule: each case has made-up values that satisfy all rules but one."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import proofmap as pm
from proofmap.report.html import write_report
from proofmap.results.records import MethodResult
from proofmap.results.verdict import ENOUGH, Verdict, verdict
from tests.report.pages import PageParts, judged, listed

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
    assert (found.grade, found.headline) == ("none", "gradient is not both complete and sound (fill blur)")
    assert "The worst of 2 fills counts." in found.reasons
    assert found.reasons[-1] == "With the fill gray: gradient is both complete and sound."
    both = verdict(of_fills(base, 60, gray=good(60), blur=good(60)))
    assert both.grade == "is" and both.headline.endswith("both complete and sound (fill gray)")


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


def test_is_only_where_every_rule_holds(base: pm.Evaluation) -> None:
    found = verdict(made(base, ENOUGH, good(ENOUGH)))
    assert (found.grade, found.headline) == ("is", "gradient is both complete and sound")
    assert found.methods == ("gradient",)
    assert found.reasons[0].startswith("gradient: completeness .95 [.94, .96], soundness .93")


def test_too_few_images(base: pm.Evaluation) -> None:
    found = verdict(made(base, ENOUGH - 1, good(ENOUGH - 1)))
    assert (found.grade, found.headline) == (
        "best",
        "gradient reaches the bar on 19 images; too few to be sure",
    )
    assert any("19 images count; a plain verdict needs 20." in reason for reason in found.reasons)


def test_the_best_of_several_scores_best(base: pm.Evaluation) -> None:
    values = {**good(5), "gradient-x-input": (around(0.5, 5), around(0.9, 5), around(0.4, 5))}
    found = verdict(made(base, 5, values))
    assert found.headline == "gradient reaches the bar on 5 images; too few to be sure"
    both = {**values, "gradient-x-input": values["gradient"]}
    found = verdict(made(base, 5, both))
    assert found.headline == "gradient and gradient-x-input reach the bar on 5 images; too few to be sure"


def test_an_interval_that_reaches_below_the_bar(base: pm.Evaluation) -> None:
    n = ENOUGH
    values = {**good(n), "gradient": (around(0.95, n), around(0.82, n, spread=0.15), around(0.9, n))}
    found = verdict(made(base, n, values))
    assert found.grade == "best" and found.headline.endswith("on 20 images; not clearly above the bar")
    assert "The 95 % interval of gradient reaches below the bar of .80 in soundness." in found.reasons


def test_soundness_that_a_map_for_all_labels_has_too(base: pm.Evaluation) -> None:
    n = ENOUGH
    values = {**good(n), "random": (around(0.2, n), around(0.94, n), around(0.2, n))}
    found = verdict(made(base, n, values))
    assert found.grade == "best" and found.headline.endswith("no sounder than one map for all labels")
    said = "The soundness of gradient (.93) is not clearly above that of random (.94), which has one map for all labels."
    assert said in found.reasons


def test_without_a_control_nothing_shows_what_soundness_is_worth(base: pm.Evaluation) -> None:
    found = verdict(made(base, ENOUGH, {"gradient": good(ENOUGH)["gradient"]}))
    assert found.grade == "best" and found.headline.endswith("not compared with one map for all labels")


def test_soundness_that_the_fill_explains(base: pm.Evaluation) -> None:
    """With nothing shown the curve is at its area: the map adds nothing to what the fill gives."""
    evaluation = made(base, ENOUGH, good(ENOUGH))
    first = evaluation.results[0]
    curves = first.insertion
    flat = replace(curves, probabilities=curves.auc[..., None].expand_as(curves.probabilities))
    explained = replace(first, insertion=flat, pairs={"soundness": torch.full_like(curves.auc, 0.9)})
    found = verdict(replace(evaluation, results=(explained, *evaluation.results[1:])))
    assert found.grade == "best" and "explained by the fill alone" in " ".join(found.reasons)
    assert found.headline.endswith("on 20 images; soundness explained by the fill alone")  # random is at .2


def test_one_map_for_all_labels_never_is_both(base: pm.Evaluation) -> None:
    values = {"random": good(ENOUGH)["gradient"]}
    found = verdict(made(base, ENOUGH, values))
    assert found.grade == "best" and "sound without effort" in " ".join(found.reasons)


def test_no_method_is_both(base: pm.Evaluation) -> None:
    n = ENOUGH
    values = {
        "gradient": (around(0.9, n), around(0.3, n), around(0.9, n)),
        "gradient-x-input": (around(0.5, n), around(0.6, n), around(0.4, n)),
        "random": (around(0.1, n), around(0.95, n), around(0.1, n)),
    }
    found = verdict(made(base, n, values))
    assert (found.grade, found.headline) == ("none", "No method is both complete and sound")
    assert (
        "The most complete method is gradient (.90, with soundness .30); the soundest is gradient-x-input (.60, with completeness .50)."
        in found.reasons
    )
    few = verdict(made(base, 3, {name: tuple(v[:3] for v in own) for name, own in values.items()}))  # type: ignore[index, misc]
    assert few.headline == "No method is both complete and sound on these 3 images"
    alone = verdict(made(base, n, {"gradient": values["gradient"]}))
    assert alone.headline == "gradient is not both complete and sound"


def test_nothing_can_be_said_if_the_net_is_sure_of_everything(base: pm.Evaluation) -> None:
    found = verdict(made(base, ENOUGH, good(ENOUGH), f=0.85))
    assert found.grade == "nothing"
    assert found.headline == "Nothing can be said: the net is sure of every label that was judged"


def test_images_on_which_soundness_cannot_fail_do_not_make_up_the_number(base: pm.Evaluation) -> None:
    evaluation = made(base, 2 * ENOUGH, good(2 * ENOUGH))
    f = evaluation.f.clone()
    f[5:] = 0.9
    found = verdict(replace(evaluation, f=f))
    assert found.headline == "gradient reaches the bar on 5 images; too few to be sure"
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


def test_best_effort_counts_where_it_was_judged(base: pm.Evaluation) -> None:
    n = ENOUGH
    low = {**good(n), "gradient": (around(0.95, n), around(0.93, n), around(0.4, n))}
    assert verdict(made(base, n, low)).grade == "none"
    missing = {**good(n), "gradient": (around(0.95, n), around(0.93, n), math.nan)}
    found = verdict(made(base, n, missing))
    assert found.grade == "is"
    assert "No image counts for the best effort of gradient, so the verdict leaves it out." in found.reasons


@pytest.mark.parametrize("half", [0, 1], ids=["completeness", "soundness"])
def test_a_method_that_lacks_one_half_never_passes(base: pm.Evaluation, half: int) -> None:
    n = ENOUGH
    lacking = [around(0.95, n), around(0.93, n), around(0.9, n)]
    lacking[half] = [math.nan] * n
    values = {**good(n), "gradient-x-input": tuple(lacking)}
    found = verdict(made(base, n, values))
    assert found.headline == "gradient is both complete and sound"
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
