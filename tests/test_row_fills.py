"""Fills for rows: near rows by a plain loop, medians of classes, which rows are drawn from, and scores with several fills."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

import proofmap as pm
from proofmap.core import streams
from proofmap.core.inputs import Rows
from proofmap.fills.rows import ClassMedian, NearRows, typical_row
from proofmap.results.score_tables import score_cells
from tests.lazily import Lazily
from tests.sessions import bound

pd = Lazily("pandas")


def people(n: int = 30) -> pd.DataFrame:
    random = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "age": random.integers(18, 80, n),
            "income": np.where(random.random(n) < 0.2, np.nan, random.normal(40, 9, n).round(3)),
            "city": random.choice(["Ulm", "Bonn", "Aachen"], n),
            "member": random.random(n) < 0.5,
        }
    )


def leaves(frame: pd.DataFrame) -> np.ndarray:
    """A model of a frame: the probability that a customer leaves."""
    score = 0.1 * (frame["age"] - 45) + 2 * (frame["city"] == "Ulm") - frame["member"].astype(float)
    return 1 / (1 + np.exp(-score.to_numpy()))


def classifier(inputs: Rows, model: Callable[[pd.DataFrame], np.ndarray] = leaves) -> pm.Classifier:
    def net(x: Tensor) -> Tensor:
        p = model(inputs.table.decode(x))
        return torch.tensor(np.stack([1 - p, p], axis=1))

    return pm.Classifier(
        net, inputs=inputs, outputs="probabilities", names=["stays", "leaves"], batch_size=64
    )


def gower(
    x: list[float], row: list[float], shown: list[bool], ranges: list[float], named: list[bool]
) -> float:
    total = 0.0
    for a, b, keep, width, is_named in zip(x, row, shown, ranges, named, strict=True):
        if not keep or (math.isnan(a) and math.isnan(b)):
            continue
        if math.isnan(a) or math.isnan(b):
            total += 1
        else:
            total += float(a != b) if is_named else abs(a - b) / width
    return total


def test_near_rows_are_those_of_a_plain_loop() -> None:
    frame = people()
    inputs = Rows.of(frame)
    x = inputs.encode(frame)
    near_rows = NearRows(neighbours=3)
    fill = bound(near_rows, classifier(inputs))
    keep = torch.rand(30, 4, generator=torch.Generator().manual_seed(1)) < 0.5
    keep[0] = False
    keys = streams.image_keys(x, 0, "fill")
    found = fill.behind(x, keys, keep)
    pool = near_rows.drawn_from(fill.session).values.tolist()
    ranges = [np.nanmax([r[j] for r in pool]) - np.nanmin([r[j] for r in pool]) for j in range(4)]
    words = streams.random_words(keys, 1)[:, 0].tolist()
    for i, row in enumerate(x.tolist()):
        own = [
            (math.isnan(v) and math.isnan(w)) or v == w for v, w in zip(row, found[i].tolist(), strict=True)
        ]
        assert not all(own), "a row is not its own background"
        distances = [
            gower(row, other, keep[i].tolist(), ranges, [False, False, True, True]) for other in pool
        ]
        itself = [str(other) == str(row) for other in pool]
        others = sorted(d for d, same in zip(distances, itself, strict=True) if not same)
        near = [
            r
            for r, d, same in zip(pool, distances, itself, strict=True)
            if not same and d <= others[2] + 1e-6
        ]
        assert str(near[(words[i] * len(near)) >> 32]) == str(found[i].tolist())
    assert torch.equal(
        fill.behind(x, keys, torch.zeros_like(keep)).nan_to_num(-1), fill(x, keys).nan_to_num(-1)
    ), "with nothing shown it is the draw from all rows"


def test_the_typical_row_has_medians_modes_and_whole_one_hot_groups() -> None:
    frame = pd.DataFrame(
        {
            "age": [1, 2, 9, 4],
            "income": [np.nan, 5.0, 7.0, 6.0],
            "city": ["Ulm", "Bonn", "Bonn", "Aachen"],
            "plan_a": [1, 0, 0, 0],
            "plan_b": [0, 1, 1, 0],
            "plan_c": [0, 0, 0, 1],
        }
    )
    inputs = Rows.of(frame, groups="one-hot")
    assert typical_row(inputs.encode(frame), inputs).tolist() == [2.0, 6.0, 1.0, 0.0, 1.0, 0.0]


def test_class_medians_are_those_of_the_nets_own_classes_and_each_is_drawn() -> None:
    frame = people()
    inputs = Rows.of(frame)
    f = classifier(inputs)
    x = inputs.encode(frame)
    ready = bound(ClassMedian(part="all"), f)
    found = {tuple(row) for row in ready(x, streams.image_keys(x, 0, "fill")).tolist()}
    is_leaving = leaves(frame) > 0.5
    expected = [
        frame[is_leaving == side]["age"].sort_values().iloc[(sum(is_leaving == side) - 1) // 2]
        for side in (0, 1)
    ]
    assert sorted(row[0] for row in found) == sorted(expected)
    assert "medians of 2 classes" in str(ready.record()["pool"])


def test_rows_are_drawn_from_the_data_that_described_the_columns() -> None:
    frame = people()
    f = classifier(Rows.of(frame))
    found = pm.evaluate(f, frame[:1], methods=["random"], metrics=["insertion:fill=images"], labels="top1")
    assert "rows that describe the columns" in found.table()
    few = classifier(Rows.of(Rows.of(frame).table))
    with pytest.raises(pm.InputError, match="distractors for rows need several rows"):
        pm.evaluate(few, frame[:1], methods=["random"], metrics=["insertion:fill=images"], labels="top1")


def test_fills_that_make_no_sense_are_refused() -> None:
    f = classifier(Rows.of(people()))
    with pytest.raises(
        pm.InputError, match=r"noise has no meaning for rows with categories.*gray, images, near-rows"
    ):
        pm.evaluate(f, people(), methods=["random"], metrics=["insertion:fill=noise"], labels="top1")


def test_scores_with_several_fills_have_a_column_each_and_a_note_on_how_far_they_move() -> None:
    frame = people()
    f = classifier(Rows.of(frame))
    fills = ["gray", "images", "near-rows", "class-median"]
    found = pm.evaluate(
        f,
        frame[:6],
        methods=["occlusion", "random"],
        metrics=["completeness", "soundness"],
        fills=fills,
        labels="all",
    )
    alone = [
        pm.evaluate(f, frame[:6], methods=["occlusion"], metrics=[f"completeness:fill={fill}"], labels="all")
        .results[0]
        .scores[0]
        .value
        for fill in fills
    ]
    assert [s.value for s in found.results[0].scores if s.kind == "completeness"] == pytest.approx(alone)
    text = found.table()
    assert next(cell for cell in score_cells(found)[0] if "†" in cell) == "completeness (gray) ↑†"
    assert "6 rows, labels all" in text
    assert "the mean or the most frequent value of each column" in text
    assert "6 images" not in text and "over images" not in text
