"""Tables for papers: the best two bold, in the right direction, and nothing that LaTeX or Markdown would eat."""

from __future__ import annotations

import math
import re
from dataclasses import replace

import pytest

import proofmap as pm
from proofmap.results import score_tables, tables
from tests.report.test_compare import judged, with_values


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
