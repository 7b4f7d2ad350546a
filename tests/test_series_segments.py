"""Series with segments, times and channel names; fills in time; the proof marked on the line."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import proofmap as pm
from proofmap.core import streams
from proofmap.core.inputs import Series
from proofmap.fills import make_fill
from proofmap.metrics import Judged, make_metric
from proofmap.report.sheets import explained_sheet, marked_line
from proofmap.results.proof_shape import shape_of
from proofmap.session import Session
from tests.sessions import bound
from tests.toys import drawn, normal

BEATS = Series(length=12, mean=(0.0, 0.0), std=(1.0, 1.0), names=("left", "right"), rate=4.0, segments=3)


def net(inputs: Series = BEATS) -> pm.Classifier:
    layers = nn.Sequential(nn.Flatten(), nn.Linear(24, 2))
    return pm.Classifier(drawn(layers), inputs=inputs, names=["rest", "walk"], batch_size=16)


def test_the_insertion_game_shows_whole_segments() -> None:
    f, x = net(), normal(3, 2, 12, seed=1)
    maps = normal(3, 1, 3, seed=2)
    labels = f.top(x, 1)
    found = pm.insertion(f, x, maps, labels, points="all")
    for i in range(3):
        order = maps[i, 0].argsort(descending=True).tolist()
        values = []
        for count in (1, 2, 3):
            shown = torch.zeros(2, 12)
            for segment in order[:count]:
                shown[:, 4 * segment : 4 * segment + 4] = x[i][:, 4 * segment : 4 * segment + 4]
            values.append(float(f.probabilities(shown[None])[0, labels[i, 0]]))
        assert float(found.auc[i, 0]) == pytest.approx(sum(values) / 3, abs=1e-5)


def test_the_saliency_metric_crops_whole_segments() -> None:
    inputs = replace(BEATS, segments=5)  # they begin at the time steps 0, 3, 5, 8 and 10
    f, x, labels = net(inputs), normal(2, 2, 12, seed=3), torch.tensor([[0, 1], [1, -1]])
    maps = torch.zeros(2, 2, 5)
    maps[:, :, 1] = 1.0
    maps[1, 0, 3] = 1.0
    judged = Judged(Session(f), x, labels, maps)
    found = make_metric("saliency-confidence:delta=0.5,reading=value").measure(judged)[1]
    for i, place, start, stop in ((0, 0, 3, 5), (1, 0, 3, 10)):
        crop = nn.functional.interpolate(x[i : i + 1, :, start:stop], 12, mode="linear")
        assert float(found[i, place]) == pytest.approx(
            float(f.probabilities(crop)[0, labels[i, place]]), abs=1e-5
        )
    assert bool(found[1, 1].isnan())


def test_positions_have_times_and_values_have_channel_names() -> None:
    assert BEATS.position_names == ("0 to 1 s", "1 to 2 s", "2 to 3 s")
    assert Series(length=3, rate=2.0).position_names == ("0 s", "0.5 s", "1 s")
    x = torch.arange(24.0).view(2, 12)
    assert BEATS.value_text(x, 1) == "left 5.5, right 17.5"
    uneven = Series(length=10, segments=4)
    owned = uneven.over_channels(torch.arange(4))[0].tolist()
    assert owned == [0, 0, 0, 1, 1, 2, 2, 2, 3, 3]
    assert uneven.position_names == ("0 to 3", "3 to 5", "5 to 8", "8 to 10")


@pytest.mark.parametrize(
    "settings, told",
    [
        ({"names": ("a",)}, "2 channels need as many names, not 1"),
        ({"rate": 0.0}, "rate must be the number of time steps per second"),
        ({"segments": 13}, "segments must be between 1 and the length 12, not 13"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, object], told: str) -> None:
    with pytest.raises(pm.InputError, match=told):
        Series(length=12, mean=(0, 0), std=(1, 1), **settings)  # type: ignore[arg-type]


def test_fills_in_time_show_the_series_itself() -> None:
    f, x = net(), normal(4, 2, 12, seed=3)
    keys = streams.image_keys(x, 0, "fill")
    assert torch.equal(bound(make_fill("time-reversal"), f)(x, keys), x.flip(-1))
    moved = bound(make_fill("time-shift"), f)(x, keys)
    for one, other in zip(x, moved, strict=True):
        shifts = [k for k in range(12) if torch.equal(one.roll(k, dims=-1), other)]
        assert len(shifts) == 1 and 2 <= shifts[0] <= 10  # an eighth of the length at least


@pytest.mark.parametrize("fill", ["noise", "blur", "road", "time-shift"])
def test_series_with_segments_are_judged_with_every_fill(fill: str) -> None:
    f, x = net(), normal(2, 2, 12, seed=1)
    metrics = [f"completeness:fill={fill},draws=2"]
    found = pm.evaluate(f, x, methods=["occlusion", "kernel-shap:fill=none"], metrics=metrics, labels="all")
    assert found.results[0].maps is not None and found.results[0].maps.shape == (2, 2, 3)
    assert "2 series" in found.table()


def test_the_proof_is_marked_on_the_line() -> None:
    f, x = net(), normal(2, 2, 12, seed=1)
    proof = pm.explain(f, x, labels="top1", method="gradient-x-input")
    evaluation, result = proof.evaluation, proof.evaluation.results[0]
    shape = shape_of(evaluation, result, 0, 0)
    heat = evaluation.map_of(result, 0, 0)
    plain, marked = BEATS.picture(x[0]), np.asarray(marked_line(x[0], heat, BEATS, shape))
    changed = (plain != marked).any(axis=2)
    kept = heat.argsort(descending=True)[: round(3 * shape.reach)].tolist()
    expected = np.isin(BEATS.pixel_positions().numpy(), kept)
    assert changed[expected].all() and not changed[~expected].any()
    assert explained_sheet(evaluation, 0).height > 100
