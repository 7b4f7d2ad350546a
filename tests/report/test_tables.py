"""Tables say the same numbers as the records."""

from __future__ import annotations

import base64
import csv
import io
import math
import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest
import torch
from PIL import Image
from torch import Tensor

import proofmap as pm
from proofmap.report import display
from proofmap.report.display import NUMBER_FILES
from proofmap.report.figures.scatter import scatter_figure
from proofmap.results import score_tables, tables
from proofmap.results.audit import audit
from proofmap.results.compare import compare
from proofmap.results.proof_shape import shape_of, short_percent
from proofmap.results.verdict import verdict
from tests.report.pages import judged as page_judged
from tests.report.test_compare import judged, with_values
from tests.toys import linear_classifier, pixels

NAN = math.nan
STRANGE = "a|b\nc\t*d*_e_<i>"


@pytest.fixture(scope="module")
def evaluation() -> pm.Evaluation:
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 36, 3))
    f = pm.Classifier(net, size=6, names=["a", "b", "c"])
    images = torch.rand(4, 3, 6, 6, generator=torch.Generator().manual_seed(1))
    return pm.evaluate(
        f, images, methods=["gradient-x-input", "random"], labels="all", names=["x", "y", "x", "z"]
    )


# ---- methods that count different images -------------------------------------------------------------------


def test_where_methods_count_different_images_every_cell_says_how_many_and_none_is_bold() -> None:
    found = with_values(
        {
            "a": {"completeness": [0.9, 1.0, NAN, NAN], "insertion": [0.5, 0.6, 0.7, 0.8]},
            "b": {"completeness": [0.9, 0.8, 0.7, 0.6], "insertion": [0.1, 0.2, 0.3, 0.4]},
            "c": {"completeness": [NAN] * 4, "insertion": [0.1, 0.2, 0.3, 0.4]},
        }
    )
    _, rows = score_tables.score_cells(found)
    assert rows[0][1] == ".95 [.31, 1.59] n=2" and rows[1][1].endswith("] n=4") and rows[2][1] == "-"
    assert not any("n=" in row[2] for row in rows)
    assert [row[1] for row in score_tables.best_two(found)] == [False] * 3
    assert [row[2] for row in score_tables.best_two(found)] == [True, True, True]
    (note,) = [note for note in score_tables._score_notes(found) if "different" in note]
    assert note.startswith("completeness: means over different images (0 to 4 of 4")
    assert note.endswith("compare with: proofmap compare")
    assert r".95 {\scriptsize [.31, 1.59] n=2}" in score_tables.score_table(found).to_latex()
    assert "| .95 [.31, 1.59] n=2 |" in score_tables.score_table(found).markdown()


def test_as_many_but_other_images_are_different_images_too() -> None:
    found = with_values({"a": {"m": [0.9, NAN]}, "b": {"m": [NAN, 0.8]}})
    assert [row[1] for row in score_tables.score_cells(found)[1]] == [".90 n=1", ".80 n=1"]
    assert "m: means over different images (1 of 2 images by method)" in found.table()
    assert score_tables.best_two(found) == [[False, False], [False, False]]


def test_images_that_no_method_counts_are_said_and_numbers_stay_as_they_are() -> None:
    found = with_values({"a": {"m": [0.9, 0.7, NAN]}, "b": {"m": [0.5, 0.6, NAN]}})
    assert "n=" not in found.table() and "different" not in found.table()
    assert "m counts 2 of 3 images" in found.table()
    assert score_tables.best_two(found)[0][1]


def with_best_effort(
    values: dict[str, dict[str, list[float]]], e1: float = 0.01, counted: str = "believed"
) -> pm.Evaluation:
    """An evaluation with these values, whose best effort says which e1 and which rule it used."""
    found = with_values(values)
    results = (
        replace(r, scores=tuple(replace(s, settings={"e1": e1, "counted": counted}) for s in r.scores))
        for r in found.results
    )
    return replace(found, results=tuple(results))


def test_the_rule_of_best_effort_is_named() -> None:
    rule = "those where a judged label other than the top one has f >= 0.01"
    best = [0.5, NAN, NAN]
    judged = {k: {"soundness": [0.9] * 3, "best-effort": best} for k in "ab"}
    assert f"best effort counts 1 of 3 images: {rule}" in with_best_effort(judged).table()
    told = with_values(judged).table()
    assert "best effort counts 1 of 3 images" in told and rule not in told, "a metric of another's: no e1"
    judged["a"]["best-effort"] = [0.5, 0.5, NAN]
    told = with_best_effort(judged).table()
    assert f"best effort: means over different images (1 to 2 of 3 images by method: {rule})" in told


@pytest.mark.parametrize(
    "e1, rule",
    [
        (0.1, "where a judged label other than the top one has f >= 0.1"),
        (0.001, "whose second label has f >= 0.01, and where a judged label other than the top one has f >= 0.001"),
    ],
)  # fmt: skip
def test_the_rule_of_best_effort_goes_by_its_e1(e1: float, rule: str) -> None:
    found = with_best_effort({"a": {"soundness": [0.9] * 3, "best-effort": [0.5, NAN, NAN]}}, e1)
    assert f"best effort counts 1 of 3 images: those {rule}" in found.table().splitlines()


def test_the_papers_rule_is_named_and_its_count() -> None:
    judged = {"a": {"soundness": [0.9] * 3, "best-effort": [1.0, 0.5, NAN]}}
    assert (
        "best effort counts 2 of 3 images: those whose second label has f >= 0.01 "
        "(the paper's rule; labels with f <= 0.1 count as proved)"
    ) in with_best_effort(judged, 0.1, "paper").table().splitlines()


# ---- any name ----------------------------------------------------------------------------------------------


def columns(text: str) -> set[int]:
    """How many cells the lines of a Markdown table have; a bar after a backslash is none."""
    return {len(re.findall(r"(?<!\\)\|", line)) - 1 for line in text.partition("\n\n")[0].splitlines()}


def test_no_name_breaks_a_markdown_table(evaluation: pm.Evaluation) -> None:
    results = (replace(evaluation.results[0], name=STRANGE), *evaluation.results[1:])
    found = replace(evaluation, results=results)
    escaped = r"a\|b c \*d\*\_e\_\<i\>"
    for text, wide in (
        (score_tables.score_table(found).markdown(), 6),
        (tables.markdown(*score_tables.score_cells(found)), 6),
        (compare(found).markdown(), 13),
        (audit(found, min_soundness=0.5).markdown(), 7),
    ):
        assert columns(text) == {wide} and escaped in text
    other = compare({"x|\ny": found, "z": evaluation}, baseline="random", allow_mismatch=True)
    assert columns(other.markdown()) == {13} and "x|" not in other.markdown()


def test_any_name_keeps_its_line_in_text_and_latex_and_comes_back_from_csv(evaluation: pm.Evaluation) -> None:
    for name in (STRANGE, "a\rb", 'quo"te,\r\n', "\n\n"):
        results = (replace(evaluation.results[0], name=name), *evaluation.results[1:])
        found = replace(evaluation, results=results)
        assert len(found.table().splitlines()) == len(evaluation.table().splitlines())
        assert len(score_tables.score_table(found).to_latex().splitlines()) == len(
            score_tables.score_table(evaluation).to_latex().splitlines()
        )
        rows = list(csv.DictReader(io.StringIO(NUMBER_FILES["scores.csv"](found), newline="")))
        assert [row["method"] for row in rows] == [name] * 5 + ["random"] * 5


@pytest.mark.parametrize(
    "options, words",
    [
        ({"labels": "all"}, "soundness over all 6 labels"),
        ({"labels": "top2"}, "soundness over 2 of 6 labels"),
        ({"labels": [0, 1, 5]}, "soundness over 3 of 6 labels"),
    ],
    ids=str,
)
def test_soundness_says_over_how_many_labels_it_is(options: dict[str, Any], words: str) -> None:
    found = page_judged(2, 8, methods=["gradient"], **options)
    for text in (
        found.table(),
        score_tables.score_table(found).to_latex().lower(),
        scatter_figure(found).caption(),
    ):
        assert words in text
    assert "optimistic" not in found.table()


def test_soundness_of_labels_that_the_net_selected_is_called_optimistic() -> None:
    found = page_judged(3, 8, methods=["gradient"], labels="p>=0.18")
    judged_labels = (found.labels >= 0).sum(dim=1)
    least, most = int(judged_labels.min()), int(judged_labels.max())
    many = f"{least}" if least == most else f"{least} to {most}"
    assert f"soundness over {many} of 6 labels" in found.table()
    assert "labels p>=0.18 are those that the net itself believes" in found.table()
    assert "soundness is optimistic" in found.table()


def test_a_table_that_is_too_wide_is_stacked_and_loses_nothing(evaluation: pm.Evaluation) -> None:
    header, rows = score_tables.score_cells(evaluation)
    wide, narrow = tables.aligned(header, rows), tables.aligned(header, rows, 60)
    assert max(map(len, wide.splitlines())) > 60 >= max(map(len, narrow.splitlines()))
    for row in rows:
        block = narrow.split(row[0] + "\n")[1]
        assert all(
            f"{name} " in block and cell in block for name, cell in zip(header[1:], row[1:], strict=True)
        )
    assert tables.aligned(header, rows, 500) == wide
    assert evaluation.table(60).startswith(narrow) and evaluation.table().startswith(wide)


def test_rows_of_pairs_have_the_bar_of_their_proof(evaluation: pm.Evaluation) -> None:
    head, header, line, *_ = score_tables.proof_table(evaluation).splitlines()
    first = shape_of(evaluation, evaluation.results[0], 0, 0)
    assert head == f"{evaluation.image_names[0]}, maps by {evaluation.methods[0]}"
    assert header.split() == ["label", "belief", "proof", "peak"]
    said = [short_percent(p) for p in (first.belief, first.proof, first.peak)]
    assert first.text(16) in line and line.endswith(first.verdict)
    assert " ".join(said) in " ".join(line.replace("†", "").split())


def test_the_most_telling_failure_is_the_proof_furthest_from_its_belief() -> None:
    f = linear_classifier(6, 4, strength=3.0)
    found = pm.evaluate(f, pixels(4, 6), methods=["gradient", "gradient-x-input", "random"], labels="all")
    excess = {}
    for result in found.results[:2]:  # random maps have one order for all labels
        auc, sound = result.insertion.auc, result.pairs["soundness"]
        for i, j in (sound < 0.8).nonzero().tolist():
            excess[float(auc[i, j] - found.f[i, j])] = (
                result.name,
                found.image_names[i],
                found.label_name(i, j),
            )
    method, image, label = excess[max(excess)]
    assert score_tables.failure(found).startswith(f"On {image}, {method}'s map of {label} proves ")
    other = next(name for name in found.methods[:2] if name != method)
    assert f"{other}'s map" in score_tables.failure(found, [method])
    lines = score_tables.summary(found, 80).splitlines()
    counts = {line.split()[0].strip("*"): line.split()[1] for line in lines[1:4]}
    for result in found.results:
        both = torch.minimum(result.pairs["completeness"], result.pairs["soundness"]).amin(dim=1)
        assert counts[result.name] == str(int((both >= 0.8).sum()))
    assert lines[-1] == verdict(found).headline and max(map(len, lines[:5])) <= 80


# ---- one map for all labels, found in the maps -------------------------------------------------------------------


def bright(classifier: pm.Classifier, images: Tensor, labels: Tensor) -> Tensor:
    return images.mean(dim=1, keepdim=True).expand(-1, labels.shape[1], -1, -1)


def nothing(classifier: pm.Classifier, images: Tensor, labels: Tensor) -> Tensor:
    return torch.zeros(*labels.shape, *images.shape[2:])


def own(classifier: pm.Classifier, images: Tensor, labels: Tensor) -> Tensor:
    return bright(classifier, images, labels) * (1 - 2 * (labels % 2)).view(*labels.shape, 1, 1)


def test_functions_that_give_one_map_for_all_labels_are_found_marked_and_said() -> None:
    f = linear_classifier((4, 5), 4)
    found = pm.evaluate(f, pixels(3, (4, 5)), methods=[bright, nothing, own, "random"], labels="top3")
    assert [r.one_map for r in found.results] == [True, True, False, True]
    assert [r.label_free for r in found.results] == [False, False, False, True]
    table = found.table()
    assert "bright*" in table and "nothing*" in table and "own*" not in table
    assert "bright, nothing: found to give one map for all labels" in " ".join(table.split())
    words = str(verdict(made_to_pass(found, "bright")))
    assert "bright has one map for all labels, so it is sound without effort" in words


def test_images_with_one_label_say_nothing_about_maps_of_other_labels() -> None:
    f = linear_classifier((4, 5), 4)
    found = pm.evaluate(f, pixels(3, (4, 5)), methods=[bright], labels="top1")
    assert not found.results[0].one_map
    blind = pm.Classifier(lambda x: x.new_zeros(len(x), 4), size=(4, 5))
    assert not pm.evaluate(blind, pixels(3, (4, 5)), methods=[own], labels="top3").results[0].one_map


def made_to_pass(evaluation: pm.Evaluation, name: str) -> pm.Evaluation:
    """The evaluation with the method's scores above the bar, and labels that are not sure."""
    results = []
    for r in evaluation.results:
        values = {key: torch.full_like(v, 0.95) if r.name == name else 0 * v for key, v in r.values.items()}
        results.append(replace(r, values=values, scores=tuple(s.over(values[s.name]) for s in r.scores)))
    return replace(evaluation, results=tuple(results), f=torch.full_like(evaluation.f, 0.3))


# ---- In a notebook results show themselves as plain, escaped HTML of bounded size -------------------------------------


NASTY = "<script>alert('&')</script>"
VOID = {"img", "br"}


class Page(HTMLParser):
    """Tags, text and pictures of a piece of HTML; complains about tags that do not nest."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.pictures: list[bytes] = []
        self.rows: list[list[str]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(text)
        assert not self._open, f"left open: {self._open}"

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        if tag == "img":
            source = dict(attributes)["src"] or ""
            self.pictures.append(base64.b64decode(source.removeprefix("data:image/png;base64,")))
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data
        if self.rows and {"td", "th"} & set(self._open):
            self.rows[-1][-1] += data


def nasty() -> pm.Evaluation:
    f = linear_classifier(4, 3, names=[NASTY, "b", "c"])
    names = [f"{NASTY}{i}" for i in range(5)]
    return pm.evaluate(f, pixels(5, 4), methods=["gradient-x-input", "random"], labels="all", names=names)


def test_an_evaluation_shows_its_scores_notes_and_first_pictures() -> None:
    found = nasty()
    page = Page(found._repr_html_())
    assert [row[0] for row in page.rows] == ["method", "gradient-x-input", "random*"]
    assert "5 images" in page.text and "3 of 5 images" in page.text
    assert len(page.pictures) == display.MOST_PICTURES
    assert all(Image.open(io.BytesIO(p)).width <= display.WIDEST for p in page.pictures)
    assert set(page.tags) <= {"table", "tr", "th", "td", "b", "div", "br", "img", "ul", "li"}


def test_a_proof_shows_its_sheets_and_rows_as_html_and_as_png() -> None:
    proof = pm.Proof(nasty())
    page = Page(proof._repr_html_())
    assert "script" not in page.tags and NASTY in page.text
    assert len(page.rows) == 1 + 2 * 5 * 3 and len(page.pictures) == 3, (
        "two methods, five images, three labels"
    )
    png = proof._repr_png_()
    assert png is not None and png == page.pictures[0]


def test_pictures_stop_where_they_grow_too_heavy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(display, "MOST_BYTES", 1)
    assert len(Page(nasty()._repr_html_()).pictures) == 1


def test_long_tables_end_with_how_many_rows_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(score_tables, "MOST_ROWS", 4)
    page = Page(pm.Proof(nasty())._repr_html_())
    assert len(page.rows) == 5 and "26 more rows" in page.text


def test_without_kept_maps_the_numbers_still_show() -> None:
    found = judged(keep_maps=0)
    assert not Page(found._repr_html_()).pictures
    assert pm.Proof(found)._repr_png_() is None and Page(pm.Proof(found)._repr_html_()).rows


@pytest.mark.parametrize(
    "make", [lambda e: compare(e), lambda e: audit(e, min_soundness=0.5)], ids=["compare", "audit"]
)
def test_comparisons_and_audits_show_their_tables(make: Any) -> None:
    result = make(judged())
    ((header, rows),) = result.tables()
    assert Page(result._repr_html_()).rows == [header, *rows]


def test_ipython_prefers_our_html() -> None:
    formatters = pytest.importorskip("IPython.core.formatters")
    data, _ = formatters.DisplayFormatter().format(pm.Proof(nasty()))
    assert {"text/html", "image/png", "text/plain"} <= set(data)


# ---- Tables for papers: the best two bold, in the right direction, and nothing that LaTeX or Markdown would eat -------


def scored(**columns: list[float]) -> pm.Evaluation:
    """Methods a, b, c, ... whose scores have these means; ``cost`` is better lower."""
    n = len(next(iter(columns.values())))
    values = {"abcdef"[i]: {name: [column[i]] for name, column in columns.items()} for i in range(n)}
    return with_values(values, lower=["cost"])


def bold(text: str) -> list[list[str]]:
    """The bold cells of each row of a LaTeX table."""
    rows = text.partition(r"\midrule")[2].partition(r"\bottomrule")[0].strip().splitlines()
    return [re.findall(r"\\textbf\{([^}]*)\}", row) for row in rows]


def test_the_papers_table_is_marked_as_the_paper_marks_it() -> None:
    """Deletion and soundness of its Table 1, first six rows."""
    deletion = [0.42, 0.37, 0.48, 0.58, 0.41, 0.50]
    soundness = [0.80, 0.71, 0.82, 0.60, 0.84, 0.84]
    found = score_tables.score_table(scored(cost=deletion, soundness=soundness)).to_latex()
    assert bold(found) == [[], [".37"], [], [], [".41", ".84"], [".84"]]


def test_values_count_as_they_are_printed() -> None:
    assert bold(score_tables.score_table(scored(m=[0.9, 0.8449, 0.8401, 0.82])).to_latex()) == [
        [".90"],
        [".84"],
        [".84"],
        [],
    ]
    assert bold(score_tables.score_table(scored(cost=[0.001, 0.002, 0.003])).to_latex()) == [
        [".001"],
        [".002"],
        [],
    ]


def test_a_score_without_images_is_a_dash_and_never_bold() -> None:
    found = score_tables.score_table(scored(m=[math.nan, 0.8, 0.7, 0.6])).to_latex()
    assert bold(found) == [[], [".80"], [".70"], []]
    assert "a & -- \\\\" in found


def test_one_map_for_all_labels_is_never_bold_however_sound() -> None:
    found = scored(soundness=[0.99, 0.8, 0.7, 0.6])
    first, *rest = found.results
    free = replace(found, results=(replace(first, label_free=True), *rest))
    assert bold(score_tables.score_table(free).to_latex()) == [[], [".80"], [".70"], []]
    alone = replace(free, results=(free.results[0],))
    assert bold(score_tables.score_table(alone).to_latex()) == [[]]


def test_markdown_and_latex_mark_the_same_cells() -> None:
    found = judged(8, methods=["gradient", "gradient-x-input", "random"])
    rows = score_tables.score_table(found).markdown().splitlines()[2 : 2 + len(found.results)]
    in_markdown = [re.findall(r"\*\*(\S+)[^|]*\*\*", row) for row in rows]
    assert in_markdown == bold(score_tables.score_table(found).to_latex())
    assert [any(row) for row in score_tables.best_two(found)] == [bool(row) for row in in_markdown]


def test_every_row_has_as_many_cells_as_the_head_and_the_braces_close() -> None:
    text = score_tables.score_table(judged(methods=["learned-mask:steps=2,fill=gray", "random"])).to_latex()
    body = text.partition(r"\toprule")[2].partition(r"\bottomrule")[0]
    rows = [line for line in body.splitlines() if line.strip().endswith(r"\\")]
    assert len({len(re.findall(r"(?<!\\)&", row)) for row in rows}) == 1 and len(rows) == 3
    assert len(re.findall(r"(?<!\\)\{", text)) == len(re.findall(r"(?<!\\)\}", text))
    for name in ("table", "tabular"):
        assert rf"\begin{{{name}}}" in text and rf"\end{{{name}}}" in text


@pytest.mark.parametrize("character", list("&%$#_{}~^\\<>"))
def test_no_character_of_a_name_is_left_to_latex(character: str) -> None:
    escaped = tables._latex_text(f"a{character}b")
    assert escaped.startswith(("a\\", "a$"))
    assert re.fullmatch(r"a(\\[&%$#_{}]|\\text\w+\{\}|\$[<>]\$)b", escaped)


def test_captions_can_be_given() -> None:
    text = score_tables.score_table(judged()).to_latex(caption="Ours.", label="tab:ours")
    assert r"\caption{Ours.}" in text and r"\label{tab:ours}" in text
    settings = score_tables.score_table(judged()).to_latex()
    assert "e1 = 0.01, e2 = 0.001" in settings and "seed 0" in settings and "6 images" in settings
