"""The page says what the evaluation says, holds everything it needs, and stays small."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import proofmap as pm
from proofmap.core import streams
from proofmap.core.errors import InputError
from proofmap.core.inputs import Pictures
from proofmap.core.ranking import keep_top, rank
from proofmap.metrics.areas import Deletion
from proofmap.metrics.proof_scores import BestEffort, Completeness, Soundness
from proofmap.report import opening, page_pictures, pictures, sheets
from proofmap.report.choice import Choice
from proofmap.report.figures import scatter
from proofmap.report.html import write_report
from proofmap.report.pictures import displayed
from proofmap.results import score_tables
from proofmap.results.statistics import Score
from proofmap.results.tables import number
from proofmap.results.verdict import ENOUGH, fully_proved, verdict
from tests.report.pages import STRANGE, PageParts, judged, listed
from tests.toys import normal


@pytest.fixture(scope="module")
def evaluation() -> pm.Evaluation:
    return judged(labels="top4")


@pytest.fixture(scope="module")
def page(evaluation: pm.Evaluation, tmp_path_factory: pytest.TempPathFactory) -> PageParts:
    return PageParts(
        write_report(evaluation, tmp_path_factory.mktemp("page") / "report.html", command="do <it>")
    )


@pytest.mark.parametrize("n", [1, 7, 100, 101, 1024])
def test_levels_say_exactly_what_the_ranking_keeps_at_every_step(n: int) -> None:
    maps = torch.stack([normal(n), normal(n).round(), torch.zeros(n)])  # distinct values, ties, all equal
    counts = page_pictures.slider_counts(n)
    levels = page_pictures.levels_of(rank(maps), counts)
    assert counts[0] == 0 and counts[-1] == n and len(counts) <= 101
    for k, count in enumerate(counts):
        assert ((levels <= k) == keep_top(maps, count / n).numpy()).all()


@pytest.mark.parametrize("ties", ["index", "center", "random"])
def test_the_page_carries_the_ranking_of_the_curves(tmp_path: Path, ties: str) -> None:
    curve = {"ties": ties}

    def coarse(classifier: object, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return images.mean(dim=1, keepdim=True).round().expand(-1, labels.shape[1], -1, -1)  # full of ties

    evaluation = judged(
        2, labels="top2", methods=[coarse], metrics=[pm.default_metrics(curve=curve)[0]], seed=3
    )
    page = PageParts(write_report(evaluation, tmp_path / "r.html"))
    keys = streams.image_keys(evaluation.images, 3, "ties")
    for image in range(2):
        assert page.record["pictured"][image]["index"] == image
        maps = evaluation.results[0].maps[image]
        for k, count in enumerate(page.record["counts"]):
            kept = keep_top(maps, count / maps[0].numel(), ties=ties, keys=keys[image].expand(len(maps)))  # type: ignore[arg-type]
            assert ((page.levels(image) <= k) == kept.numpy()).all()


def test_a_label_free_map_is_stored_once(evaluation: pm.Evaluation, page: PageParts) -> None:
    by_method = [m["maps"] for m in page.record["pictured"][0]["methods"]]
    assert by_method == [[0, 1, 2, 3], [0, 1, 2, 3], [0, 0, 0, 0]]
    assert len(page.levels(0)) == 9


def test_values_by_level_are_the_values_of_a_signed_map() -> None:
    heat = normal(64, 64)
    counts = page_pictures.slider_counts(heat.numel())
    levels = page_pictures.levels_of(rank(heat[None]), counts)[0]
    table = np.array(page_pictures.heat_table(heat, levels, len(counts) - 1))
    difference = np.abs(table[levels].reshape(64, 64) - 255 * displayed(heat, signed=True))
    assert difference.mean() < 8


def test_curves_f_and_areas_are_the_evaluations(evaluation: pm.Evaluation, page: PageParts) -> None:
    for i, shown in enumerate(page.record["pictured"]):
        assert [a["f"] for a in shown["labels"]] == pytest.approx(evaluation.f[i].tolist(), rel=1e-8)
        for result, method in zip(evaluation.results, shown["methods"], strict=True):
            assert [a["proof"] for a in method["labels"]] == pytest.approx(
                result.insertion.auc[i].tolist(), rel=1e-8
            )
            at, own = page.record["curve_counts"][0], result.insertion.counts.tolist()
            for place, curve in enumerate(method["curve"]):
                assert np.allclose(
                    curve, np.interp(at, own, result.insertion.probabilities[i, place]), rtol=1e-6
                )


def test_a_curve_of_every_count_is_thinned_to_the_sliders_counts_and_stays_exact(tmp_path: Path) -> None:
    metrics = ["completeness:points=all,fill=gray"]
    evaluation = judged(1, labels="top1", methods=["random"], metrics=metrics)
    record = PageParts(write_report(evaluation, tmp_path / "r.html")).record
    assert record["curve_counts"][0] == record["counts"]
    exact = evaluation.results[0].insertion.probabilities[0, 0][record["counts"]]
    assert record["pictured"][0]["methods"][0]["curve"][0] == pytest.approx(exact.tolist(), rel=1e-8)


def _proving(evaluation: pm.Evaluation, f: float, auc: float) -> pm.Evaluation:
    """The evaluation with its first method alone, with this f and this area for all labels."""
    result = evaluation.results[0]
    curves = torch.full_like(result.insertion.probabilities, f)  # steady
    insertion = replace(
        result.insertion, auc=torch.full_like(result.insertion.auc, auc), probabilities=curves
    )
    return replace(
        evaluation,
        f=torch.full_like(evaluation.f, f),
        results=(replace(result, insertion=insertion, pairs={}),),
    )


def test_verdicts_never_round_up_to_the_bar(evaluation: pm.Evaluation) -> None:
    for f, auc, kind, words in [
        (0.5, 0.3999, "weak", "too weak: 79 % of the belief"),
        (0.4, 0.5001, "strong", "too strong: 1.3 times the belief"),
        (0.5, 0.5, "match", "proof"),
        (0.5, 0.1, "weak", "too weak: 20 % of the belief"),
        (0.5, 0.2535, "weak", "too weak: 51 % of the belief"),  # as tables print it
    ]:
        changed = _proving(evaluation, f, auc)
        picture = page_pictures.picture_of(changed, 0, [0], page_pictures.slider_counts(20 * 28))
        label = picture.record["methods"][0]["labels"][0]
        assert label["strength"] == kind and label["words"].startswith(words)


def table_of(page: PageParts) -> str:
    return " ".join(page.text.split("How to read this")[0].rpartition(" Methods ")[2].split())


def test_the_table_prints_what_the_terminal_prints(
    evaluation: pm.Evaluation, page: PageParts, tmp_path: Path
) -> None:
    """Below twenty images a dot for each, which has the words of its value; from twenty on intervals, and one plot."""
    few, many = table_of(page), listed(evaluation, ENOUGH)
    long = PageParts(write_report(many, tmp_path / "many.html"))
    for result, row in zip(many.results, score_tables.score_cells(many)[1], strict=True):
        cells = re.sub(r"[\[\]()]", "", " ".join(row[1:])).replace(",", " –")
        proved = "{} of {}".format(*fully_proved(result))
        assert f"{proved} {cells}" in table_of(long)  # all of a method's values and intervals, in their order
    for result in evaluation.results:
        assert " ".join(number(s.value) for s in result.scores) in few and "–" not in few
    dots = [a["data-words"] for t, a in page.elements if t == "circle" and "dot-mark" in str(a.get("class"))]
    values = [
        f"{n}: soundness {number(v)}"
        for r in evaluation.results
        for n, v in zip(evaluation.image_names, r.values["soundness"].tolist(), strict=True)
    ]
    assert [words for words in dots if ": soundness " in str(words)] == values
    trusted = replace(evaluation, trust={"soundness": "94 % [91, 96]"})
    text = PageParts(write_report(trusted, tmp_path / "trusted.html")).text
    assert text.count("right on 94 % [91, 96] of known answers") == 1, (
        "what a validation found, beside the score"
    )
    assert [sum(a.get("class") == "plot" for _, a in each.elements) for each in (page, long)] == [0, 1]


def test_any_name_is_text(page: PageParts) -> None:
    assert [a.get("type") for a, _ in page.scripts].count("module") == 1
    assert {a.get("type") for a, _ in page.scripts} == {"module", "application/json"}
    assert not any(tag == "b" and "alert" in str(attrs) for tag, attrs in page.elements)
    shown = {a["name"] for picture in page.record["pictured"] for a in picture["labels"]}
    assert shown <= set(STRANGE) and len(shown) >= 4
    for name in shown:
        assert name in page.text
    assert "do <it>" in page.text


def test_nothing_is_fetched(page: PageParts) -> None:
    for tag, attributes in page.elements:
        assert tag not in ("link", "iframe", "object")
        for name in ("src", "href", "srcset", "poster"):
            assert (attributes.get(name) or "#").startswith(("#", "data:image/")), (tag, attributes)
    policy = next(a for t, a in page.elements if a.get("http-equiv") == "Content-Security-Policy")
    assert "default-src 'none'" in str(policy["content"])


def test_every_picture_has_words(page: PageParts) -> None:
    assert all(a.get("alt") for t, a in page.elements if t == "img" and "hidden" not in a)
    assert all(
        a.get("role") in ("img", "group") or a.get("aria-hidden") for t, a in page.elements if t == "svg"
    )


def test_the_same_evaluation_gives_the_same_bytes(evaluation: pm.Evaluation, tmp_path: Path) -> None:
    first, second = (write_report(evaluation, tmp_path / name) for name in ("a.html", "b.html"))
    assert first.read_bytes() == second.read_bytes()


def test_what_is_not_a_number_is_a_dash(evaluation: pm.Evaluation, tmp_path: Path) -> None:
    result = evaluation.results[0]
    nan = replace(result.scores[2], value=math.nan, low=math.nan, high=math.nan, n=0)
    values = {**result.values, nan.name: torch.full((3,), math.nan)}
    changed = replace(result, scores=(*result.scores[:2], nan, *result.scores[3:]), values=values)
    page = PageParts(write_report(replace(evaluation, results=(changed,)), tmp_path / "r.html"))
    assert page.record["methods"][0]["values"][2] == [None] * 3
    assert ("td", {"class": "number", "data-value": ""}) in page.elements
    assert "NaN" not in page.text and "nan" not in page.text.split()


@pytest.mark.parametrize(
    "options",
    [
        {"n": 1, "methods": ["random"], "labels": "top1"},
        {"n": 1, "methods": ["gradient"], "labels": [3]},
        {"labels": "p>=0.2"},
        {"size": (1, 5), "methods": ["gradient"]},
        {"size": 3, "methods": ["random"], "labels": "all"},
        {"channels": 1, "methods": ["gradient"]},
        {"channels": 5, "size": (9, 4), "methods": ["gradient"]},
        {"keep_maps": 0},
        {"keep_maps": 2},
        {"metrics": [Deletion()]},
        {"metrics": [Soundness(), BestEffort()]},
        {"metrics": [*pm.default_metrics(), *pm.default_metrics("released")]},
    ],
    ids=str,
)
def test_every_evaluation_has_a_page(tmp_path: Path, options: dict[str, object]) -> None:
    evaluation = judged(**{"labels": "top3", **options})  # type: ignore[arg-type]
    page = PageParts(write_report(evaluation, tmp_path / "r.html"))
    assert len(page.record["pictured"]) == len(evaluation.pictured)
    assert len(page.record["images"]["names"]) == len(evaluation)


def test_of_many_labels_the_probable_and_the_least_sound_are_drawn(tmp_path: Path) -> None:
    evaluation = judged(1, label_names=[f"label {k}" for k in range(70)], labels="all", methods=["gradient"])
    page = PageParts(write_report(evaluation, tmp_path / "r.html", most_labels=4))
    shown = page.record["pictured"][0]
    result = evaluation.results[0]
    sound = result.pairs["soundness"][0]
    assert len(shown["labels"]) == 4 and shown["left_out"] == 66
    assert [a["label"] for a in shown["labels"][:3]] == evaluation.labels[0, :3].tolist()
    assert shown["labels"][3]["label"] == int(evaluation.labels[0, 3 + int(sound[3:].argmin())])
    assert page.record["matrix"] is None and "66 more labels were judged" in page.text


def test_the_page_calls_a_map_what_its_scores_call_it(evaluation: pm.Evaluation) -> None:
    """A run may score proofs on another curve than the one that is drawn."""
    first = evaluation.results[0]
    shape = first.pairs["completeness"].shape
    pairs = {
        "insertion": torch.zeros(shape),
        "completeness": torch.ones(shape),
        "soundness": torch.tensor([[0.31, 0.9, math.nan, 0.9]]).expand(shape),
        "soundness-2": torch.ones(shape),
    }
    auc = evaluation.f.clone()  # the drawn curve matches f everywhere
    curves = auc[..., None].expand_as(first.insertion.probabilities)
    changed = replace(first, pairs=pairs, insertion=replace(first.insertion, auc=auc, probabilities=curves))
    counts = page_pictures.slider_counts(20 * 28)
    picture = page_pictures.picture_of(replace(evaluation, results=(changed,)), 0, [0, 1, 2], counts)
    labels = picture.record["methods"][0]["labels"]
    assert [a["strength"] for a in labels] == ["strong", "match", "match"]
    assert [a["proof"] for a in labels] == pytest.approx(auc[0, :3].tolist(), rel=1e-6)


def test_the_page_says_when_proofs_were_scored_on_another_curve(tmp_path: Path) -> None:
    metrics = [Completeness(), Soundness(fill="noise")]
    options: dict[str, Any] = {"n": 1, "methods": ["gradient"], "labels": "top2"}
    said = "scored on another insertion curve"
    assert said in PageParts(write_report(judged(**options, metrics=metrics), tmp_path / "a.html")).text
    assert said not in PageParts(write_report(judged(**options), tmp_path / "b.html")).text


def test_the_table_says_how_many_images_count_where_that_differs(
    evaluation: pm.Evaluation, tmp_path: Path
) -> None:
    results = list(evaluation.results)
    values = {**results[0].values, "soundness": torch.tensor([0.9, 0.8, math.nan])}
    scores = tuple(replace(s, n=2) if s.name == "soundness" else s for s in results[0].scores)
    results[0] = replace(results[0], values=values, scores=scores)
    uneven = replace(evaluation, results=tuple(results))
    shown = PageParts(write_report(uneven, tmp_path / "r.html"))
    table, text = table_of(shown), shown.text
    assert table.count(" n=2 ") == 1 and table.count(" n=3 ") == 2
    assert "over different images" in text
    assert "n=" not in PageParts(write_report(evaluation, tmp_path / "s.html")).text


def test_pages_and_sheets_say_what_hidden_pixels_showed(tmp_path: Path) -> None:
    options: dict[str, Any] = {"n": 1, "methods": ["gradient"], "labels": "top2"}
    red = judged(**options, metrics=[Completeness(fill=pm.Gray(color=(1.0, 0.0, 0.2)))])
    page = PageParts(write_report(red, tmp_path / "a.html"))
    assert page.record["hidden"]["colour"] == [255, 0, 51]
    assert "Hidden pixels have the colour that the net saw" in page.text
    assert any("fill gray" in note for note in sheets.sheet_notes(red, 0))
    blurred = judged(**options, metrics=["completeness:fill=blur"])
    page = PageParts(write_report(blurred, tmp_path / "b.html"))
    assert "the net saw the fill blur there (the input itself, blurred" in page.text


def test_the_page_of_explain_begins_with_what_the_net_says(tmp_path: Path) -> None:
    found = judged(1, labels="top2", methods=["gradient"], label_names=["cat", "dog", "fox"])
    page = PageParts(write_report(found, tmp_path / "r.html", explained=True))
    top = found.label_names[int(found.labels[0, 0])]
    says = f"The net says {top}, {100 * float(found.f[0, 0]):.0f} %"
    words = [text.strip() for text in page.text.splitlines()]
    parts = ("What each map proves", "Every image in numbers", "The scores of the method")
    places = [words.index(part) for part in (says, *parts)]
    assert places == sorted(places)
    assert not any(attributes.get("class") == "plot" for _, attributes in page.elements)


def test_the_page_of_explain_sets_methods_side_by_side(tmp_path: Path) -> None:
    methods = ["gradient", "gradient-x-input"]
    found = judged(1, labels="top2", methods=methods, label_names=["cat", "dog", "fox"])
    page = PageParts(write_report(found, tmp_path / "r.html", explained=True))
    detail = page.record["explained"]["detail"]
    assert detail.startswith("Proved on average by each method, of 2 labels: gradient ")
    matches = [
        [a["strength"] in ("match", "over") for a in m["labels"]]
        for m in page.record["pictured"][0]["methods"]
    ]
    for name, label_matches in zip(methods, matches, strict=True):
        assert f"{name} {sum(label_matches) or 'none'}" in detail


def test_a_page_tells_which_maps_are_signed_and_what_their_colours_mean(tmp_path: Path) -> None:
    both = judged(1, labels="top2", methods=["gradient", "gradient-x-input"])
    page = PageParts(write_report(both, tmp_path / "a.html"))
    assert [method["signed"] for method in page.record["methods"]] == [False, True]
    assert "(gradient-x-input) against the label" in " ".join(page.text.split())
    assert sum(a.get("class") == "colour-bar diverging" for _, a in page.elements) == 1
    gradient = ", ".join("rgb({:.0f} {:.0f} {:.0f})".format(*stop) for stop in pictures.DIVERGING)
    assert f".diverging {{ background: linear-gradient(to right, {gradient})" in (
        tmp_path / "a.html"
    ).read_text("utf-8")
    heat = both.map_of(both.results[1], 0, 0)
    levels = np.asarray(page_pictures.levels_of(rank(heat[None]), page.record["counts"]))[0]
    table = page_pictures.heat_table(heat, levels, len(page.record["counts"]) - 1)
    zero = int(levels[int(heat.flatten().abs().argmin())])
    assert abs(table[zero] - 127.5) < 4 and table[1] > 250 and table[-1] < 45
    plain = PageParts(write_report(judged(1, methods=["gradient"], labels="top2"), tmp_path / "b.html"))
    assert not any(a.get("class") == "colour-bar diverging" for _, a in plain.elements)


def test_the_page_says_over_how_many_labels_soundness_is_and_how_maps_were_stored(
    evaluation: pm.Evaluation, tmp_path: Path
) -> None:
    page = PageParts(write_report(evaluation, tmp_path / "a.html", stored="float16"))
    assert any("worst of 4 of 6 labels" in reason for reason in verdict(evaluation).reasons)
    assert "Soundness over 4 of 6 labels" in page.text.split("How this was made")[-1]
    assert (
        "Maps are stored as float16: pixels of nearly equal value may be in another order here" in page.text
    )
    for stored in ("", "float32"):
        assert "float16" not in PageParts(write_report(evaluation, tmp_path / "b.html", stored=stored)).text


def test_the_net_says_its_first_choice_only_where_that_is_known() -> None:
    """Where someone listed labels, the net may believe another one more."""
    names = ["cat", "dog", "fox"]
    listed_two = judged(1, labels=["fox", "cat"], methods=["gradient"], label_names=names)
    assert opening.belief_sentence(listed_two, 0).startswith("Of the 2 labels asked for, the net believes ")
    one = judged(1, labels=["fox"], methods=["gradient"], label_names=names)
    assert opening.belief_sentence(one, 0).startswith("The net believes fox with ")
    several = judged(2, labels="top2", methods=["gradient"], label_names=names)
    within = replace(several, settings={**several.settings, "label_set": [0, 2]})
    assert opening.belief_sentence(within, 0).endswith(" % among the labels of its label set")
    assert opening.headline(several, ())["headline"] == "What the net says of 2 images, and why"


def test_every_mark_of_the_scatter_has_its_number_in_one_text() -> None:
    rng = np.random.default_rng(0)
    places = [*rng.uniform(0, 1, (12, 2)).tolist(), [0.5, 0.5], [0.501, 0.5]]
    points = [
        scatter.ScatterPoint(f"m{m}", False, (x, math.nan, math.nan), (y, 0.1, 0.9))
        for m, (x, y) in enumerate(places)
    ]
    points.append(scatter.ScatterPoint("none", False, (math.nan,) * 3, (0.5, 0.4, 0.6)))
    found = scatter.marks(points)
    assert [m.method for m in found] == list(range(14))  # a method without a value has no mark
    assert sorted(int(n) for m in found if m.text for n in m.text.split(", ")) == [*range(1, 15)]
    assert found[12].text.endswith("13, 14") and found[13].text == ""
    assert found[0].y_ends == (scatter.down(0.1), scatter.down(0.9)) and found[0].x_ends is None
    few = scatter.marks(points, first=3)
    assert [(m.x, m.y) for m in few] == [(m.x, m.y) for m in found]
    assert sorted(int(n) for m in few if m.text for n in m.text.split(", ")) == [1, 2, 3]
    assert all((m.y_ends is None) == (m.method >= 3) for m in few)


def test_texts_of_marks_stay_inside_the_drawing_and_off_each_other() -> None:
    """Marks at the right edge have their text to the left; marks under each other do not write over each other."""
    places = [(0.99, 0.5), (0.95, 0.51), (0.9, 0.5), (0.91, 0.45), (0.02, 0.98), (1.0, 0.1), (0.97, 0.1)]
    points = [scatter.ScatterPoint(str(k), False, (x,) * 3, (y,) * 3) for k, (x, y) in enumerate(places)]
    boxes = [scatter._box((m.x, m.y), m.text_at, m.text) for m in scatter.marks(points) if m.text]
    assert all(left >= scatter.LEFT and right <= scatter.WIDTH and top >= 0 for left, top, right, _ in boxes)
    assert not any(scatter._overlap(a, b) for k, a in enumerate(boxes) for b in boxes[:k])


def with_values(values: dict[str, dict[str, Tensor]]) -> pm.Evaluation:
    """An evaluation of many images whose methods have these values, by kind of score."""
    n = len(next(iter(next(iter(values.values())).values())))
    base = judged(1, methods=["random"], metrics=["insertion"])
    results = [
        replace(
            base.results[0],
            name=name,
            values=own,
            scores=tuple(Score(kind).over(v) for kind, v in own.items()),
        )
        for name, own in values.items()
    ]
    return replace(base, results=tuple(results), image_names=tuple(f"image-{i}" for i in range(n)))


def test_the_worst_of_each_method_and_some_at_random_are_shown() -> None:
    sound = torch.linspace(0, 1, 100)
    complete = torch.full((100,), 0.5)
    complete[50:54], complete[60] = torch.tensor([0.1, 0.2, 0.25, 0.3]), math.nan
    found = with_values(
        {"a": {"soundness": sound, "completeness": complete}, "b": {"soundness": sound.flip(0)}}
    )
    choice = Choice.of(found, worst=4, random=5, seed=1)
    assert {0, 1, 99, 98} <= set(choice.indices)
    assert {50, 51, 52, 53} <= set(choice.indices) and 60 not in list(choice.reasons)[:8]
    assert len(choice.indices) == 13
    assert choice.reasons[99] == ("among the worst in soundness for b",)
    assert "the 4 worst in soundness" in choice.rule and "5 at random (seed 1)" in choice.rule
    assert choice == Choice.of(found, worst=4, random=5, seed=1)
    assert choice != Choice.of(found, worst=4, random=5, seed=2)
    assert set(Choice.of(found, among=range(40, 70)).indices) <= set(range(40, 70))


def test_the_page_states_the_choice(evaluation: pm.Evaluation, tmp_path: Path) -> None:
    choice = Choice({2: ("drawn at random",), 0: ("because",)}, "Two, for a reason.")
    page = PageParts(write_report(evaluation, tmp_path / "r.html", choice=choice))
    assert [p["index"] for p in page.record["pictured"]] == [2, 0]
    assert "Two, for a reason." in page.text and "because" in page.text
    with pytest.raises(InputError, match="not kept"):
        write_report(judged(keep_maps=1), tmp_path / "s.html", choice=choice)
    assert not (tmp_path / "s.html").exists()


def test_failures_provenance_and_command_are_on_the_page(evaluation: pm.Evaluation, tmp_path: Path) -> None:
    page = PageParts(
        write_report(
            evaluation,
            tmp_path / "r.html",
            title="A <title>",
            provenance={"hardware": {"cores": 2}},
            failures=[("broken.jpg", "it is not an image")],
        )
    )
    for words in (
        "A <title>",
        "hardware.cores",
        "broken.jpg",
        "it is not an image",
        "1 thing could not be done",
    ):
        assert words in page.text


def test_a_study_of_two_thousand_images_is_a_small_page(evaluation: pm.Evaluation, tmp_path: Path) -> None:
    path = write_report(listed(evaluation, 2000), tmp_path / "r.html")
    assert len(PageParts(path).record["images"]["names"]) == 2000
    assert path.stat().st_size < 1_000_000


@pytest.mark.parametrize("side, kind", [(32, "png"), (300, "jpeg")])
def test_small_photos_are_kept_exactly_and_large_ones_are_jpegs(side: int, kind: str) -> None:
    found = page_pictures.photo_uri(torch.rand(3, side, side), Pictures(size=(side, side)))
    assert found.startswith(f"data:image/{kind};base64,")
