"""The tables of an evaluation: scores, values per image and per label; as text, Markdown, LaTeX, CSV and pandas DataFrames."""

from __future__ import annotations

import json
import math
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from proofmap.core.errors import InputError
from proofmap.core.labels import NO_LABEL, LabelRule
from proofmap.core.outputs import in_words, is_independent
from proofmap.core.text import counted, one_line
from proofmap.results.evaluation import Evaluation
from proofmap.results.notes import (
    MARK,
    WRONG_WORDS,
    coverage_words,
    different_images,
    distractor_words,
    fill_notes,
    given_by_fill,
    is_marked,
    rule_words,
    thresholds_words,
)
from proofmap.results.proof_shape import TRIFLE, positions_in_order, shape_of, short_percent
from proofmap.results.records import BEST_EFFORT, COMPLETENESS, SOUNDNESS, MethodResult
from proofmap.results.sharing import shared
from proofmap.results.statistics import Score
from proofmap.results.tables import (
    Cells,
    Tables,
    aligned,
    metric_with_arrow,
    metric_words,
    number,
    table_html,
    with_interval,
)
from proofmap.results.verdict import fully_proved, role_of, soundness_notes, verdict

_HARDLY = 0.01
_SHOWN = 3
"""Number of names in a cell of a table."""
TABLES = ("scores", "per_image", "per_label")
"""The names of the tables for ``to_dataframe()``."""
_LABEL_FREE = "*"
_BAR, _LABEL = 16, 24
"""Width in characters of the bar of a proof, and the largest width of a label: a line of :func:`proof_table` then fits in 80 columns."""
MOST_ROWS = 50
"""The largest number of rows that :func:`pairs_html` shows in a notebook."""


def score_cells(evaluation: Evaluation) -> Cells:
    """Header and one row per method; a cell is a mean with its 95 % interval, such as ``.84 [.80, .88]``.

    ``*`` marks label-free methods, which have one map for all labels. ``†`` marks scores that depend on labels which the net believes even
    if nothing of the image is shown (:mod:`proofmap.results.notes`). If the methods count different images, a cell also says how
    many: ``.84 [.80, .88] n=20``.
    """
    uneven, header = different_images(evaluation), ["method"]
    for score in evaluation.results[0].scores:
        mark = MARK if is_marked(evaluation, score) else ""
        header.append(metric_with_arrow(score.name, score.higher_is_better) + mark)
    rows = [
        [
            r.name + (_LABEL_FREE if r.one_map else ""),
            *(_score_cell(s, u) for s, u in zip(r.scores, uneven, strict=True)),
        ]
        for r in evaluation.results
    ]
    return header, rows


def _score_notes(evaluation: Evaluation) -> list[str]:
    """The notes below a score table, one string per line: the settings behind the scores, and warnings about how to read them."""
    quoted = _setting_notes(evaluation)
    if any(r.one_map for r in evaluation.results):
        effort = (
            ""
            if is_independent(evaluation.settings.get("outputs"))
            else "such maps are sound without effort, so "
        )
        quoted.append(f"{_LABEL_FREE} one map for all labels: {effort}also read best effort")
    if found := [r.name for r in evaluation.results if r.one_map and not r.label_free]:
        quoted.append(
            f"{', '.join(found)}: found to give one map for all labels; a map with one value everywhere counts too, and is read in the order "
            f"of the {evaluation.inputs.position_noun}"
        )
    if evaluation.trust:
        shares = ", ".join(f"{name} {share}" for name, share in evaluation.trust.items())
        quoted.append(f"pairs of maps with a known answer that metrics order rightly on this net: {shares}")
    return [*quoted, *fill_notes(evaluation), *soundness_notes(evaluation), *_counting_notes(evaluation)]


@dataclass(frozen=True, eq=False)
class ScoreTable(Tables):
    """The scores of an evaluation as a table with a row per method, in all forms. The best two of each column are bold."""

    evaluation: Evaluation
    notes: tuple[str, ...]

    def tables(self) -> list[Cells]:
        return [score_cells(self.evaluation)]

    def bold(self) -> list[list[bool]]:
        return best_two(self.evaluation)

    def records(self) -> list[dict[str, object]]:
        return list(table_records(self.evaluation, "scores"))

    def record(self) -> dict[str, object]:
        return {"scores": self.records(), "notes": self.notes}


def score_table(evaluation: Evaluation) -> ScoreTable:
    return ScoreTable(evaluation, tuple(_score_notes(evaluation)))


def shared_table(evaluation: Evaluation) -> ScoreTable:
    """The table of scores without the folders of this machine, for papers and other people."""
    return score_table(shared(evaluation))


def pair_cells(evaluation: Evaluation) -> Cells:
    """Header and one row of values per (method, image, label). The name of an only method is left out.

    ``†`` marks completeness and soundness of a label that the fill alone gives: the net believes the label if nothing is shown.
    """
    results = evaluation.results
    marked = {score.name for score in results[0].scores if is_marked(evaluation, score)}
    values = [k for k in results[0].rows[0] if k not in ("method", "image", "label", "name")]
    first = ["method"] * (len(results) > 1)
    header = [*first, evaluation.inputs.singular, "label", *values]
    pairs, rows = (evaluation.labels != NO_LABEL).nonzero().tolist(), []
    for result in results:
        given = given_by_fill(result)
        for row, (i, j) in zip(result.rows, pairs, strict=True):
            name, label = str(row["name"]), str(row["label"])
            words = name if name == label else f"{name} ({label})"
            cells = [result.name] if first else []
            cells += [str(row["image"]), words + (f", {WRONG_WORDS}" if evaluation.wrong_kind(i, j) else "")]
            rows.append(
                [*cells, *(number(row[k]) + (MARK if given[i, j] and k in marked else "") for k in values)]
            )
    return header, rows


def proof_table(evaluation: Evaluation, *, scores: bool = False) -> str:
    """What each map proves, as a terminal and ``print`` show it: a line for each label with a bar, the three numbers and the word of
    :class:`~proofmap.results.proof_shape.ProofShape`, and the most telling failure in one sentence. Inputs whose positions have names have a
    column of the first ones. With ``scores``, all scores and settings follow."""
    names, blocks = evaluation.inputs.has_names, []
    header = ["label", "", "belief", "proof", "peak", "", *[evaluation.inputs.position_noun] * names]
    for result in evaluation.results:
        given = given_by_fill(result)
        for i, image in enumerate(evaluation.image_names):
            rows = []
            for j in evaluation.places_of(i):
                shape, label = shape_of(evaluation, result, i, j), one_line(evaluation.label_name(i, j))
                label = label if len(label) <= _LABEL else f"{label[: _LABEL - 1]}…"
                said = [short_percent(p) for p in (shape.belief, shape.proof, shape.peak)]
                said[1] += MARK * bool(given[i, j])
                kept = [
                    _proof_names(evaluation, result, i, j) if i in evaluation.pictured else "map not kept"
                ]
                rows.append([label, shape.text(_BAR), *said, shape.verdict, *kept * names])
            blocks.append(f"{one_line(image)}, maps by {one_line(result.name)}\n{aligned(header, rows)}")
    notes = [textwrap.fill(note, 80) for note in (failure(evaluation), *fill_notes(evaluation))]
    told = ["\n\n".join(blocks), *notes]
    return "\n".join(
        [*told, "", aligned(*pair_cells(evaluation)), "", evaluation.table()] if scores else told
    )


def failure(evaluation: Evaluation, best: Sequence[str] = ()) -> str:
    """The most telling failure in one sentence: of the maps that are too strong, the one whose proof exceeds the belief by the most; if none
    is, the one that falls short by the most. Methods named ``best`` and rows with one map for all labels do not count, if there are others."""
    results = evaluation.results
    own = [r for r in results if not r.one_map and role_of(r, results) == "method"] or results
    found = []
    for result in [r for r in own if r.name not in best] or own:
        for i, image in enumerate(evaluation.image_names):
            for j in evaluation.places_of(i):
                shape = shape_of(evaluation, result, i, j)
                if shape.word in ("strong", "weak"):
                    excess = shape.proof - shape.belief
                    words = f"{result.name}'s map of {evaluation.label_name(i, j)} proves {short_percent(shape.proof)}"
                    words = f"On {image}, {words}; the net believes {short_percent(shape.belief)}."
                    found.append((shape.word == "strong" and excess >= TRIFLE, abs(excess), words))
    return one_line(max(found)[2]) if found else "No map is too weak or too strong."


def summary(evaluation: Evaluation, width: int | None = None) -> str:
    """The methods in four columns, those that fully prove most first, with each fill; the most telling failure; and the verdict."""
    said, views, tables = verdict(evaluation), evaluation.by_fill(), []
    for fill, view in views.items() if len(views) > 1 else [("", evaluation)]:
        header, rows = ["method", f"{view.inputs.noun} fully proved", "complete", "sound", "other labels"], []
        for result in sorted(view.results, key=lambda r: -fully_proved(r)[0]):
            scores = [result.first_score(kind) for kind in (COMPLETENESS, SOUNDNESS, BEST_EFFORT)]
            means = ["-" if score is None else number(score.value) for score in scores]
            name = result.name + _LABEL_FREE * result.one_map
            rows.append([name, "{} of {}".format(*fully_proved(result)), *means])
        tables.append(
            f"{f'with the fill {fill}:' * bool(fill)}\n{aligned(header, rows, width)}\n".lstrip("\n")
        )
    note = f"{_LABEL_FREE} one map for all labels\n" * any(r.one_map for r in evaluation.results)
    return "\n".join([*tables, f"{note}{failure(evaluation, said.methods)}", said.headline])


def best_two(evaluation: Evaluation) -> list[list[bool]]:
    """A mask of the cells of :func:`score_cells`: True for the best two values of a column, which the paper's tables print in bold.

    Values are compared as they are printed, so a value that prints like the second best is marked too. If there are two methods, only
    the better one is marked; a single method is not marked. Methods with one map for all labels are never marked, because they are sound
    without effort. A column whose means are over different images has no marks.
    """
    compared = [not result.one_map for result in evaluation.results]
    columns = [[False] * len(compared)]
    for scores, uneven in zip(
        zip(*(r.scores for r in evaluation.results), strict=True), different_images(evaluation), strict=True
    ):
        sign = 1 if scores[0].higher_is_better else -1
        printed = [
            sign * _as_printed(s.value) if own else math.nan for s, own in zip(scores, compared, strict=True)
        ]
        ranked = sorted((value for value in printed if not math.isnan(value)), reverse=True)
        best = ranked[: max(0, min(2, sum(compared) - 1))]
        columns.append([bool(best) and not uneven and value >= best[-1] for value in printed])
    return [list(row) for row in zip(*columns, strict=True)]


def _as_printed(value: float) -> float:
    """The value rounded as in tables, so that values that look equal compare as equal."""
    text = number(value)
    return value if math.isnan(value) or text[0] in "<>" else float(text)


def _score_cell(score: Score, with_n: bool) -> str:
    size = f" n={score.n}" if with_n and not math.isnan(score.value) and score.low != score.high else ""
    return with_interval(score.value, score.low, score.high, score.n) + size


def pairs_html(evaluation: Evaluation) -> str:
    """An HTML table for notebooks with one row per method, image and label, cut after ``MOST_ROWS`` rows."""
    header, rows = pair_cells(evaluation)
    left_out = len(rows) - MOST_ROWS
    notes = [f"{counted(left_out, 'more row')}; print the result to see all"] if left_out > 0 else []
    return table_html(header, rows[:MOST_ROWS], [*notes, *fill_notes(evaluation)])


def _score_records(evaluation: Evaluation) -> Iterator[dict[str, object]]:
    """One record per method and score: the mean with its interval, direction and settings (as JSON)."""
    for result in evaluation.results:
        for score in result.scores:
            record = score.record()
            yield {"method": result.name, **record, "settings": json.dumps(record["settings"], default=str)}


def _image_records(evaluation: Evaluation) -> Iterator[dict[str, object]]:
    """One record per method, metric and image; the value is NaN where the image does not count."""
    for result in evaluation.results:
        for metric, values in result.values.items():
            for image, value in zip(evaluation.image_names, values.tolist(), strict=True):
                yield {"method": result.name, "metric": metric, "image": image, "value": value}


def _label_records(evaluation: Evaluation) -> Iterator[dict[str, object]]:
    """One record per method, metric, image and label, with f, the net's probability of the label."""
    believed = evaluation.f[evaluation.labels != NO_LABEL].tolist()
    for result in evaluation.results:
        for metric in result.pairs:
            for row, f in zip(result.rows, believed, strict=True):
                of = {"image": row["image"], "label": row["label"], "label_name": row["name"], "f": f}
                yield {"method": result.name, "metric": metric, **of, "value": row[metric]}


def table_records(evaluation: Evaluation, table: str) -> Iterator[dict[str, object]]:
    """The records of the table named ``table``, one of ``TABLES``."""
    makers = dict(zip(TABLES, (_score_records, _image_records, _label_records), strict=True))
    if table not in makers:
        raise InputError(f"there is no table {table!r}; there are {', '.join(TABLES)}")
    return makers[table](evaluation)


def _proof_names(evaluation: Evaluation, result: MethodResult, index: int, place: int) -> str:
    """The names of the top positions that together reach the belief, as text: ``worst area, mean texture and 2 more``. ``-`` if the
    net does not believe the label."""
    count = shape_of(evaluation, result, index, place).enough
    if not count:
        return "-"
    names = evaluation.inputs.names_of(evaluation.image_of(index))
    first = [names[p] for p in positions_in_order(evaluation, result, index, place)[:count]]
    more = f" and {count - _SHOWN} more" if count > _SHOWN else ""
    return ", ".join(first[:_SHOWN]) + more


def _setting_notes(evaluation: Evaluation) -> list[str]:
    """Notes on the settings behind the scores: what was judged, the thresholds, the insertion curve, the labels that soundness covers, how much
    was searched, and random images."""
    settings, scores = evaluation.settings, evaluation.results[0].scores
    thresholds, curve = thresholds_words(evaluation), evaluation.results[0].curve_settings
    error = max(float(np.nan_to_num(r.numpy("insertion").error).max()) for r in evaluation.results)
    distractors = distractor_words((r.settings for r in evaluation.results), (s.settings for s in scores))
    return [
        f"{counted(len(evaluation), evaluation.inputs.singular)}, labels {rule_words(evaluation)}, {in_words(settings)}, "
        f"model {settings['model']}, seed {settings['seed']}; 95 % intervals over {evaluation.inputs.noun}",
        *(
            [
                f"{f'thresholds {thresholds}; ' if thresholds else ''}insertion curve: fill {_fill_words(evaluation)}, "
                f"{curve['points']} points, rule {curve['rule']}, ties {curve['ties']}; "
                f"numerical error of an AUC: about {max(error, 0.001):.3f} or less (estimated by leaving out every second point)"
            ]
            if any("game" in score.settings for score in scores)
            else []
        ),
        *_differences(scores),
        *([str(settings["assumed"])] if "assumed" in settings else []),
        *_coverage_notes(evaluation),
        *(f"{r.name}: maps {r.settings['read']}" for r in evaluation.results if "read" in r.settings),
        *(f"{s.name}: {s.settings['searched']}" for s in scores if "searched" in s.settings),
        *([f"distractors: {distractors}"] if distractors else []),
    ]


def _fill_words(evaluation: Evaluation) -> str:
    """The fill of the insertion curve with its numbers, which stand before those of the game: ``blur (sigma 5, kernel 11)``."""
    settings = evaluation.results[0].curve_settings
    keys = list(settings)[: [*settings, "points"].index("points")]
    numbers = [
        f"{key} {settings[key]:g}"
        for key in keys
        if isinstance(settings[key], (int, float)) and key != "draws"
    ]
    fill, gray = str(settings.get("fill", "-")), evaluation.inputs.neutral_words
    words = [gray] if fill == "gray" and gray else numbers
    return f"{fill} ({', '.join(words)})" if words else fill


def _differences(scores: Sequence[Score]) -> list[str]:
    """For scores of one metric with several settings, whose names end in numbers: the settings in which they differ."""
    groups: dict[str, list[Score]] = {}
    for score in scores:
        groups.setdefault(re.sub(r"-\d+$", "", score.name), []).append(score)
    notes = []
    for group in groups.values():
        keys = dict.fromkeys(key for score in group for key in score.settings)
        differing = [
            key for key in keys if any(s.settings.get(key) != group[0].settings.get(key) for s in group)
        ]
        for score in group:
            words = [f"{key} {score.settings[key]}" for key in differing if key in score.settings]
            notes += [f"{metric_words(score.name)}: {', '.join(words)}"] if words else []
    return notes


def _counting_notes(evaluation: Evaluation) -> list[str]:
    """The scores of the run as a whole, notes on the images that scores count, and warnings about inputs on which every map is sound."""
    lines: dict[str, list[str]] = {}
    for score in evaluation.run_scores:
        lines.setdefault(score.name, []).append(f"{score.subject} {number(score.value)} (n = {score.n})")
    notes = [f"{name}: {', '.join(found)}" for name, found in lines.items()]
    notes += [*_score_counts(evaluation), *_flat_notes(evaluation)]
    if (difference := evaluation.settings.get("batch_difference")) is not None:
        notes.append(
            f"f of a masked {evaluation.inputs.singular} differs by up to {difference:g} between batches of the net: smaller differences between "
            "scores mean nothing"
        )
    return notes


def _coverage_notes(evaluation: Evaluation) -> list[str]:
    """Notes on the labels over which soundness takes the worst case: their number, and a warning if only labels that the net believes were
    judged."""
    sound = [score for score in evaluation.results[0].scores if score.kind == SOUNDNESS]
    names = [score.name for score in sound]
    if not names:
        return []
    notes = [
        f"{score.name} over {coverage_words(evaluation)}: the worst case "
        + (
            f"of the {score.settings['top']} most probable of them"
            if score.settings.get("top")
            else "of the labels judged"
        )
        for score in sound
    ]
    if len(evaluation.label_names) > 1 and (evaluation.numpy("labels") != NO_LABEL).sum(axis=1).max() == 1:
        notes.append(
            f"{' and '.join(names)} was tested on one label of each {evaluation.inputs.singular} alone; for others judge more labels, such as labels "
            "top5+wrong, or give a map for each label"
        )
    rule = str(evaluation.settings.get("labels", ""))
    if LabelRule.is_by_probability(rule) and rule.strip().startswith("p"):
        notes.append(
            f"labels {rule} are those that the net itself believes: a label with a small probability, which soundness "
            f"is about, is never tried, so {' and '.join(names)} is optimistic; compare with labels all or top5+wrong"
        )
    return notes


def _score_counts(evaluation: Evaluation) -> list[str]:
    """Notes on the images that scores count: how many best effort counts and by which rule, which other scores leave images out, and for
    which scores the methods count different images."""
    of, notes = counted(len(evaluation), evaluation.inputs.singular), []
    columns = zip(*(r.scores for r in evaluation.results), strict=True)
    for scores, uneven in zip(columns, different_images(evaluation), strict=True):
        name, rule = metric_words(scores[0].name), _best_effort_rule(scores[0])
        least, most = min(s.n for s in scores), max(s.n for s in scores)
        many = f"{least}" if least == most else f"{least} to {most}"
        those = f": those {rule}" if rule else ""
        if uneven:
            notes.append(
                f"{name}: means over different {evaluation.inputs.noun} ({many} of {of} by method{those}); compare with: proofmap compare"
            )
        elif rule or least < len(evaluation):
            notes.append(f"{name} counts {many} of {of}{those}")
    return notes


def _flat_notes(evaluation: Evaluation) -> list[str]:
    """A list with one note if f hardly changes whatever part of the image is shown. If a net ignores its input, every map is complete and
    sound."""
    moved = 0.0
    for curves in (result.numpy("insertion") for result in evaluation.results):
        own = curves.probabilities[curves.labels != NO_LABEL]
        moved = max(moved, float(np.nan_to_num(np.ptp(own, axis=-1), nan=1).max()) if len(own) else 1)
    if moved >= _HARDLY:
        return []
    return [
        f"whatever is shown, f changes by less than {_HARDLY:g}: every map, noise too, is complete and sound"
    ]


def _best_effort_rule(score: Score) -> str:
    """The rule that decides which images a best-effort score counts, in words. Empty for other scores and for scores of other packages."""
    if score.kind != BEST_EFFORT or "e1" not in score.settings:
        return ""
    from proofmap.metrics.scores import SECOND_LABEL_FLOOR

    e1 = float(str(score.settings["e1"]))
    second = f"whose second label has f >= {SECOND_LABEL_FLOOR:g}"
    if score.settings.get("counted") == "paper":
        return f"{second} (the paper's rule; labels with f <= {e1:g} count as proved)"
    believed = f"where a judged label other than the top one has f >= {e1:g}"
    return believed if e1 >= SECOND_LABEL_FLOOR else f"{second}, and {believed}"
