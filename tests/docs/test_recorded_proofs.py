"""Tables of belief masks and steady proofs in the pages of results are those of their records, cell by cell."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch

from benchmarks.studies.label_readings import differences as differences_of
from benchmarks.studies.label_readings import row_of
from benchmarks.studies.leaderboard_differences import differences
from proofmap.core.errors import InputError
from proofmap.results.tables import number
from tests.docs.pages import DOCS
from tests.docs.recorded import RESULTS, cell_of, read, table_of, text_of


def test_the_rows_of_steady_proofs_are_those_of_their_file() -> None:
    recorded = {
        row["method"].replace(",compile=false", ""): row
        for row in json.loads((RESULTS / "steady-proofs.json").read_text(encoding="utf-8"))["rows"]
    }
    rows = table_of("steady-proofs.md", "| method | passes | n | completeness/soundness | peak |")
    measured = [recorded[name.strip("`")]["means"]["learned on"] for name, *_ in rows]
    assert len(rows) == len(recorded)
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
