"""What runs recorded (docs/results/recorded) is what the tables in the pages of results say, cell by cell."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.studies.label_readings import differences as differences_of
from benchmarks.studies.label_readings import row_of
from benchmarks.studies.leaderboard_differences import differences
from docs import found_pictures, recorded_numbers
from docs.recorded_numbers import pages, unrecorded
from proofmap.bench.leaderboard import Leaderboard
from proofmap.bench.record import Record
from proofmap.core.errors import InputError
from proofmap.reproduce.recipe import Recipe
from proofmap.results.statistics import Score
from proofmap.results.tables import number
from tests.docs.pages import DOCS
from tests.docs.recorded import RESULTS, cell_of, read, table_of, text_of

RECORDED = sorted((RESULTS / "recorded").glob("*.json"))
FILLS = ("gray", "random image")
BOTH = [f"{score}, {fill}" for fill in FILLS for score in ("completeness", "soundness")]
EARLIER = ["deletion", "insertion, blur", "insertion, gray", "saliency-metric", *BOTH[:2]]


@dataclass(frozen=True)
class Shown:
    """A table of a page: of which record, the start of its head, and the scores in its columns."""

    record: str
    page: str
    head: str
    scores: Sequence[str]
    names: int = 1
    """Columns that say what a row is."""
    part: str = ""
    """Of the record's tables, the one whose title begins so."""
    beside: int = 0
    """Columns at the end that are no scores."""
    more: Sequence[str] = ()
    """Records of further runs with rows of the same table; then rows are found by name, in the order of the page."""


ALL_PASSES = ("imagenette-full-others", "imagenette-full-s1")
SHOWN = [
    Shown(
        "imagenette",
        "imagenette-table.md",
        "| method | completeness | soundness, e2 = .001 |",
        [
            "completeness, printed",
            "soundness, printed",
            "soundness, between",
            "soundness, released",
            "best-effort, printed",
        ],
    ),
    Shown(
        "imagenette-best-effort",
        "imagenette-table.md",
        "| method, 80 photos |",
        [
            *("best-effort, printed", "best-effort, released", "soundness, released"),
        ],
        more=("imagenette-best-effort-igos",),
    ),
    Shown(
        "imagenette-full",
        "imagenette-table.md",
        "| method, all passes | completeness |",
        ["completeness, printed", "soundness, between", "soundness, released"],
        more=ALL_PASSES,
    ),
    Shown("imagenet-full", "imagenet-tables.md", "| masks, all passes | completeness, gray |", BOTH),
    Shown(
        "imagenet-metrics-full",
        "imagenet-tables.md",
        "| method, all passes | deletion ↓ | insertion, blur ↑ |",
        EARLIER,
        part="efficientnet-lite0",
    ),
    Shown("cifar10-tv-resnet164", "own-nets.md", "| masks, ResNet-164 |", BOTH),
    Shown("imagenet-resnet50", "own-nets.md", "| masks, ResNet-50 |", BOTH),
    Shown(
        "imagenette-resnet50",
        "own-nets.md",
        "| method, ResNet-50 |",
        [
            *("deletion", "insertion", "saliency-metric", "completeness, printed"),
            *(f"soundness, {at}" for at in ("printed", "between", "released")),
        ],
        names=2,
        more=("imagenette-resnet50-search", "imagenette-resnet50-others"),
    ),
    Shown("cifar10-tv", "cifar10-table.md", "| masks | TV |", BOTH, names=2),
    Shown(
        "cifar10-curves",
        "cifar10-table.md",
        "| TV | top label, gray |",
        [f"{label} label, {fill}" for label in ("top", "second") for fill in FILLS],
    ),
    Shown(
        "cifar10-metrics",
        "cifar10-table.md",
        "| method | deletion ↓ | insertion, blur ↑ |",
        EARLIER,
        part="cifar10-resnet56",
    ),
    Shown(
        "cifar10-range",
        "cifar10-table.md",
        "| TV, all passes | completeness | soundness |",
        ["completeness", "soundness", "completeness, top two", "soundness, top two"],
    ),
]


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.stem)
def test_every_score_of_a_page_has_a_record_or_says_that_it_has_none(page: Path) -> None:
    assert unrecorded(page) == []


def test_scores_without_a_record_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    known = "[record](recorded/imagenette-corner.json): .24 [.21, .27], less by .30 [.26, .34].\n"
    for wrong in ("Now .25 [.21, .27].", "- Now .24\n  [.21, .28].", "| .24 [.22, .27] |", "Now 0.2468."):
        page.write_text(f"# Page\n\n{known}\n## Section\n\n{wrong}\n")
        (found,) = unrecorded(page)
        assert found.split("   in: ")[0] in " ".join(wrong.split())
        page.write_text(f"# Page\n\n{known}\n{wrong.rstrip('.')} (no record).\n")
        assert unrecorded(page) == []
        page.write_text(
            f"# Page\n\n{known}\n## Section\n\n**No record.** Printed.\n\n{wrong}\n\n## Next\n\n.77 [.70, .71]\n"
        )
        assert len(unrecorded(page)) == 1  # the mark ends with its section
        page.write_text(f"# Page\n\n**No record.** Printed.\n\n## Section\n\n{wrong}\n")
        assert unrecorded(page) == []


def scored(record: str, part: str = "") -> dict[str, dict[str, dict[str, Any]]]:
    """The scores of a record by row and score; not the differences between rows."""
    rows: dict[str, dict[str, dict[str, Any]]] = {}
    for n in read(record)["numbers"]:
        if {"score", "low", "n"} <= {*n} and "than" not in n and n["table"].startswith(part):
            rows.setdefault(n["method"], {})[n["score"]] = n
    return rows


def shown_rows(shown: Shown) -> tuple[list[list[str]], dict[str, dict[str, dict[str, Any]]]]:
    """The rows of a table, and what is recorded of them, in the same order."""
    rows, recorded = table_of(shown.page, shown.head), scored(shown.record, shown.part)
    for record in shown.more:
        for method, scores in scored(record, shown.part).items():
            have = recorded.setdefault(method, scores)
            for score in shown.scores:  # a row that two runs have is the same
                assert have[score]["value"] == pytest.approx(scores[score]["value"], abs=1e-6), (
                    method,
                    score,
                )
    names = [re.sub(r"[\\*†]", "", cells[0]) for cells in rows]
    return rows, {name: recorded.pop(name) for name in names} | recorded if shown.more else recorded


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_a_record_is_of_no_quick_run_and_some_page_links_to_it(path: Path) -> None:
    told = read(path.stem)
    if "recipe" in told:
        assert told["recipe"] in Recipe.names()
        for run in told.get("runs", [told]):
            assert run["command"].startswith(f"proofmap reproduce {told['recipe']} ")
        assert not told["quick"] and told["numbers"]
    else:  # of a study of this project
        assert told["asked"] and told["rows"]
    assert any(f"recorded/{path.name})" in page.read_text(encoding="utf-8") for page in pages())
    assert not re.search(r'[":= ]/', path.read_text(encoding="utf-8"))  # folders of the machine it ran on


@pytest.mark.parametrize("shown", SHOWN, ids=lambda shown: f"{shown.record}: {shown.head[2:24].strip()}")
def test_every_cell_of_a_table_is_that_of_its_record(shown: Shown) -> None:
    rows, recorded = shown_rows(shown)
    assert len(rows) == len(recorded) >= 3
    for cells, (method, scores) in zip(rows, recorded.items(), strict=True):
        assert len(cells) == shown.names + len(shown.scores) + shown.beside
        for cell, score in zip(cells[shown.names :], shown.scores, strict=not shown.beside):
            own, _, beside = cell.partition(" (")
            assert own == cell_of(scores[score]), (method, score, cell)
            if beside:
                assert beside.rstrip(")") == number(float(scores[score]["paper"])), (method, score, cell)


@pytest.mark.parametrize("shown", SHOWN, ids=lambda shown: f"{shown.record}: {shown.head[2:24].strip()}")
def test_the_names_of_a_table_are_those_of_its_record(shown: Shown) -> None:
    """A page may call its rows otherwise, but the weight of TV, or what a name begins with, is in both."""
    for cells, method in zip(*shown_rows(shown), strict=True):
        named = re.sub(r"[`*\\↑↓]", "", " ".join(cells[: shown.names]))
        value = re.findall(r"(?:^|\s)(0|\.\d+)$", method)
        assert not value or value[0] in named.split(), (named, method)
        if not value:
            assert method.split(",")[0].lower() in named.lower(), (named, method)


def test_the_table_of_several_masks_is_that_of_its_record() -> None:
    recorded, rows = scored("ensembling"), table_of("imagenet-tables.md", "| masks | the weakest mask |")
    columns = ("weakest mask", "mean mask", "overlap")
    assert len(rows) == len(recorded) == 5
    for (name, *cells), (masks, scores) in zip(rows, recorded.items(), strict=True):
        assert name == masks.replace("image", "photo")
        for cell, score in zip(cells, columns, strict=True):
            if score in scores and scores[score]["n"]:
                assert cell == cell_of(scores[score]), (name, score)


def test_the_table_of_another_last_layer_is_that_of_its_record() -> None:
    record, head = "sanity-full", "| masks, all passes | trained |"
    recorded: dict[str, list[dict[str, Any]]] = {}
    for n in read(record)["numbers"]:
        if n["score"] == "roughness":
            recorded.setdefault(n["method"], []).append(n)
    rows = table_of("imagenet-tables.md", head)
    assert [name for name, *_ in rows] == [name for name in recorded if name != "Edges (control)"]
    for name, *cells in rows:
        before, after = recorded[name]
        assert cells[:2] == [f"{n['value']:.1f} [{n['low']:.1f}, {n['high']:.1f}]" for n in (before, after)]
        change = after["value"] - before["value"]
        assert float(cells[2].split()[0]) == pytest.approx(change, abs=0.05 + 1e-9), name


def test_the_means_over_shares_follow_from_the_scores_of_every_image() -> None:
    record = read("cifar10-range")
    assert len({*record["images"]}) == len(record["images"]) == 200
    for name, scores in scored("cifar10-range").items():
        judged = 104 if name == "TV .001" else 200
        for score, found in scores.items():
            values = record["values"][name][score]
            assert found["n"] == judged and values[judged:] == [None] * (200 - judged)
            assert found["value"] == pytest.approx(sum(values[:judged]) / judged, abs=1e-5)


def test_the_curves_that_are_drawn_have_the_areas_of_their_record() -> None:
    drawn = json.loads((RESULTS / "cifar10-tv-curves.json").read_text(encoding="utf-8"))
    recorded = scored("cifar10-curves")
    for fill, (label, name) in product(FILLS, product(("top label", "second label"), recorded)):
        p, shares = torch.tensor(drawn[fill][label][name]), torch.tensor(drawn[fill]["shares"])
        area = torch.trapezoid(p, shares) + (p[-1] - p[0]) / (2 * 1024)  # the mean over 1 to 1024 pixels
        assert float(area) == pytest.approx(recorded[name][f"{label}, {fill}"]["value"], abs=1e-4)


# ---- Tables of belief masks and steady proofs in the pages of results are those of their records, cell by cell --------


def test_the_rows_of_steady_proofs_are_those_of_their_file() -> None:
    recorded = {
        row["method"].replace(",compile=false", ""): row
        for row in json.loads((RESULTS / "steady-proofs.json").read_text(encoding="utf-8"))["rows"]
    }
    rows = table_of("steady-proofs.md", "| method | passes | n | completeness/soundness | peak |")
    measured = [recorded[name.strip("`")]["means"]["learned on"] for name, *_ in rows]
    assert len(rows) + 15 == len(recorded)  # settings that the page leaves to the record, as it says
    least = [min(m["completeness"], m["soundness"]) for m in measured]
    assert least == sorted(least, reverse=True)
    for (name, _, n, both, *cells, unseen), m in zip(rows, measured, strict=True):
        row, other = recorded[name.strip("`")], recorded[name.strip("`")]["means"]["never learned on"]
        assert int(n) == row["n"] and both == "/".join(number(m[k]) for k in ("completeness", "soundness"))
        own = [f"{m['peak']:.2f}", *(number(m[k]) for k in ("steadiness", "reach", "peak-soundness"))]
        assert cells == own, name
        scores = "/".join(number(other[k]) for k in ("completeness", "soundness"))
        assert unseen == f"{scores}, {other['peak']:.2f}, {number(other['steadiness'])}", name


def test_the_rows_of_other_nets_are_those_of_their_record() -> None:
    recorded = {(row["net"], row["method"]): row for row in read("other-nets-held")["rows"]}
    rows = table_of("steady-proofs.md", "| net, held out | method | n | gray |")
    assert len(rows) >= 12
    for net, method, n, *cells in rows:
        row = recorded[net, method.strip("`")]
        assert int(n) == row["n"]
        for cell, found in zip(cells, row["fills"].values(), strict=True):
            scores = [found["completeness"]["value"], found["soundness"]["value"], found["best effort"]]
            shape = f"{found['peak']:.2f}, {number(found['steadiness'])}"
            assert cell == f"{'/'.join(map(number, scores))}, {shape}", (net, method)


def test_belief_masks_on_photos_are_those_of_their_records() -> None:
    recorded = [row for name in ("held", "unseen-fills") for row in read(f"belief-masks-{name}")["rows"]]
    rows = [
        row
        for row in table_of("belief-masks.md", "| method | passes | n | gray |")
        if "no record" not in row[0]
    ]
    pushed = table_of("belief-mask-bounds.md", "| pushed up for | gray |")
    assert (len(rows), len(pushed)) == (len(recorded), 1) == (7, 1)
    # the row of Grad-CAM stands last
    order = [*recorded[:3], *recorded[4:], recorded[3]]
    shown = [(int(n), cells[:7], cells[7:]) for _, _, n, *cells in rows]
    for (n, cells, (rough, hits, rho)), row in zip(shown, order, strict=True):
        assert (n, rough) == (row["n"], f"{row['scores']['roughness']['value']:.1f}")
        assert [hits, rho] == [number(row["pointing"]), number(row["rho"])]
        assert [cell.rstrip("\\*") for cell in cells] == means_of(row)
    _, *cells, rough = pushed[0]
    (row,) = read("belief-masks-pushed")["rows"]
    assert cells == means_of(row) and rough == f"{row['scores']['roughness']['value']:.1f}"


def means_of(row: dict[str, Any]) -> list[str]:
    """Completeness / soundness / best effort over each fill."""
    means = {name: number(score["value"]) for name, score in row["scores"].items() if name != "roughness"}
    fills = [name.partition(", ")[2] for name in means if name.startswith("completeness")]
    return [
        "/".join(means[f"{kind}, {fill}"] for kind in ("completeness", "soundness", "best-effort"))
        for fill in fills
    ]


def test_blurred_maps_are_those_of_their_record() -> None:
    record = read("soundness-and-blur")
    scores = {row["method"]: row["scores"] for row in record["rows"]}
    rows = table_of("what-we-found.md", "| method | completeness | blurred | soundness |")
    assert len(rows) == 8
    for name, *cells in rows:
        method = name.removesuffix(" (`fast`)")
        own, blurred = scores[method], scores.get(f"blurred:{method}")
        beside = [cell_of(blurred[kind]) if blurred else "" for kind in ("completeness", "soundness")]
        assert cells[:4] == [
            cell_of(own["completeness"]),
            beside[0],
            cell_of(own["soundness"]),
            beside[1],
        ], name


@pytest.mark.parametrize("name", ["imagenette-pool", "imagenette-readings", "imagenette-second-label"])
def test_scores_of_some_labels_follow_from_the_areas_of_their_record(name: str) -> None:
    record = read(name)
    for row in record["rows"]:
        again = row_of("", *(millionths(row[k]) for k in ("auc", "f")))["scores"]
        assert row["scores"].keys() == again.keys()
        for key, score in again.items():
            was = row["scores"][key]
            assert was["value"] == pytest.approx(score["value"], abs=2e-4), (row["method"], key)
            # records of an earlier rule are wider for nearly equal values
            assert was["low"] <= score["low"] + 2e-4 and was["high"] >= score["high"] - 2e-4
    found = differences_of(record["differences"][0]["of"], record["rows"])
    for was, now in zip(record["differences"], found, strict=True):
        assert was == pytest.approx(now, abs=2e-4)


def test_differences_are_of_the_same_images_alone() -> None:
    f, auc = [[900_000, 90_000], [600_000, 300_000], [700_000, 200_000]], [[700_000, 600_000]] * 3
    ours = {"method": "Ours", "f": f, "auc": auc}
    better = {"method": "better", "f": f, "auc": f}
    shuffled = {"method": "shuffled", "f": f[::-1], "auc": auc}
    fewer = {"method": "fewer", "f": f[:2], "auc": auc[:2]}
    found = differences_of("Ours", [ours, better, shuffled, fewer])
    assert {d["than"] for d in found} == {"better"} and {d["n"] for d in found} == {3}
    (sound,) = (d for d in found if d["score"] == "soundness, e2 = .1, worst of the top two")
    exact = sum(f / 0.6 for f in (0.1, 0.3, 0.2)) / 3  # the second label's, with f = .09 counted as e2
    own = row_of("", millionths(auc), millionths(f))["scores"][sound["score"]]["value"]
    assert own == pytest.approx(exact) and sound["value"] == pytest.approx(exact - 1)
    with pytest.raises(InputError, match="no name may come twice: Ours, Ours"):
        differences_of("Ours", [ours, ours])


def test_paired_differences_of_photos_are_those_of_the_leaderboard() -> None:
    rows = read("photos-differences")["rows"]
    assert rows == differences(DOCS.parent / "leaderboard")
    deletion = [row for row in rows if row["score"] == "deletion (gray)"]
    better, worse = (
        sum(side) for side in zip(*((r["high"] < 0, r["low"] > 0) for r in deletion), strict=True)
    )
    said = f"of {len(deletion)} rows, {better} are better than noise, {worse} are worse, and {len(deletion) - better - worse} are undecided"
    assert said in text_of("what-we-found.md")


def fully_proved(record: Record, fill: str = "gray") -> int:
    """Inputs with completeness and soundness of at least .8 for each of their labels."""
    complete, sound = (record.array(f"{score} ({fill})") for score in ("completeness", "soundness"))
    return int(((complete >= 0.8) & (sound >= 0.8)).sum())


def test_the_readme_says_what_the_leaderboard_records() -> None:
    text = (DOCS.parent / "README.md").read_text(encoding="utf-8").replace("**", "")
    board = {
        kind: {r.name: r for r in Leaderboard(DOCS.parent / "leaderboard").board(task).records}
        for kind, task in (("photos", "photos"), ("texts", "text"), ("tables", "table"), ("series", "series"))
    }
    rows = re.findall(
        r"^\| \[?([\w-]+).*? \| (\.\d\d \[.*?\]) \| (\.\d\d \[.*?\]) \| (\d+) \|$", text, re.MULTILINE
    )
    assert [name for name, *_ in rows] == ["belief-mask", "kernel-shap", "grad-cam", "random"]
    for name, complete, sound, full in rows:
        record = board["photos"][name]
        for cell, score in ((complete, "completeness"), (sound, "soundness")):
            assert cell == cell_of(Score(score).over(record.array(f"{score} (gray)")).numbers()), (
                name,
                score,
            )
        assert fully_proved(record) == int(full), name
    harder = [fully_proved(board["photos"]["belief-mask"], fill) for fill in ("noise", "images")]
    assert f"belief masks fully prove {harder[0]} and {harder[1]} of the 40" in text
    for kind, fill in (("texts", "delete"), ("tables", "gray"), ("series", "gray")):
        ours, shap = (fully_proved(board[kind][name], fill) for name in ("belief-order", "kernel-shap"))
        n = len(board[kind]["belief-order"].images)
        assert re.search(
            rf"\[{kind}\]\([^)]*\) \((`belief-order` )?{ours} of {n}, KernelSHAP {shap}\)", text
        ), kind


def test_the_charts_of_what_we_found_are_drawn_from_the_records() -> None:
    for name, drawn in found_pictures.charts().items():
        assert (DOCS / "pictures" / name).read_text(encoding="utf-8") == drawn, (
            "python -m docs.found_pictures"
        )
    said = re.findall(
        r"!\[Own maps: soundness (\S+), best effort (\S+?)\. .*soundness (\S+), best effort (\S+)\]",
        text_of("what-we-found.md"),
    )
    shown = re.findall(r">(\.\d\d)<", found_pictures.charts()["found-cheating.svg"])
    assert [*said[0]] == shown


def test_the_first_picture_of_the_readme_is_in_words_what_its_record_says() -> None:
    record = json.loads((DOCS / "results" / "hero.json").read_text(encoding="utf-8"))
    cam, mask = (record["methods"][name] for name in ("grad-cam", "belief-mask"))
    readme = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    (words,) = re.findall(r'hero-light.png" alt="(.*?)"', readme)
    shown = [record["belief"], record["share"], cam["at the share"]]
    assert [f"{100 * p:.0f}" for p in shown] + [str(math.ceil(100 * mask["peak"]))] == re.findall(
        r"(\d+) %", words
    )


def millionths(values: list[list[int]]) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64) / 1e6


def worst(
    areas: torch.Tensor, f: torch.Tensor, peaks: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """Completeness, and soundness of the areas or of the peaks, of each label (e = .01/.001)."""
    return (areas.clamp_min(0.01) / f).clamp_max(1), (
        f.clamp_min(0.001) / (areas if peaks is None else peaks)
    ).clamp_max(1)


def test_maps_that_the_judge_chooses_have_the_scores_that_the_page_shows() -> None:
    record = read("steady-trials")
    kept = record["30 tuning photos, millionths"]
    f, told = millionths(kept["f"]), record["30 tuning photos: chosen by the judge"]["chosen"]
    rows = table_of("belief-mask-bounds.md", "| fill, 30 tuning photos | completeness/soundness: aim |")
    for (fill, _, own, both, _, own_peak, peaked, _, own_steady, steady), (name, said) in zip(
        rows, told.items(), strict=True
    ):
        assert fill.replace("\\", "").replace("random images", "images") == name
        areas, peaks, shares = (
            torch.stack([millionths(one["fills"][name][key]) for one in kept["maps"]])
            for key in ("area", "peak", "steadiness")
        )
        complete, sound = worst(areas, f)
        peak_sound = worst(areas, f, peaks)[1]
        reached = (complete / (0.87 if name in ("gray", "blur") else 0.65)).clamp_max(1) + 1e-6 * complete
        choices = {
            "steady": torch.zeros_like(f, dtype=torch.long),
            "for soundness": (reached + sound).argmax(0),
            "for peak-soundness": (reached + peak_sound).argmax(0),
            "for steadiness": shares.argmax(0),
        }
        for key, chosen in choices.items():
            for score, values in (
                ("completeness", complete),
                ("soundness", sound),
                ("peak-soundness", peak_sound),
            ):
                mean = values.gather(0, chosen[None])[0].amin(dim=1).mean()
                assert said[key][score] == pytest.approx(float(mean), abs=1e-4), (name, key, score)
            mean = shares.gather(0, chosen[None])[0][f >= 0.01].mean()
            assert said[key]["steadiness"] == pytest.approx(float(mean), abs=1e-4), (name, key)
        for cell, key in ((own, "steady"), (both, "for soundness")):
            assert cell == "/".join(number(said[key][k]) for k in ("completeness", "soundness")), name
        best = said["for peak-soundness"]
        assert own_peak == number(said["steady"]["peak-soundness"])
        assert peaked == f"{number(best['peak-soundness'])} at {number(best['completeness'])}"
        assert [own_steady, steady] == [
            number(said[k]["steadiness"]) for k in ("steady", "for steadiness")
        ], name


def test_the_intervals_on_the_page_about_metrics_are_recorded() -> None:
    text = (
        (DOCS / "metrics" / "validation.md").read_text(encoding="utf-8").replace("\n", " ").replace("−", "-")
    )
    known = recorded_numbers.recorded(frozenset({"validation.json"}))
    shown = recorded_numbers.INTERVAL.findall(text)
    assert len(shown) > 12 and [each for each in shown if not known.has(each)] == []
