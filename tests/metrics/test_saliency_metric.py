"""The saliency metric against a loop over maps, its readings of the threshold, pieces and crops, and the sweep."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from proofmap.methods import make_method
from proofmap.metrics import Judged, make_metric
from proofmap.metrics.boxes import (
    DELTAS,
    Boxes,
    SaliencyMetric,
    crops,
    largest_piece,
    saliency_sweep,
)
from proofmap.results.statistics import mean_interval
from proofmap.session import Session
from tests.toys import conv_classifier, normal, pixels

HEIGHT, WIDTH, N = 9, 12, 4
LABELS = torch.tensor([[0, 2], [1, 3], [2, 0], [3, 1]])


def judged() -> Judged:
    f = conv_classifier((HEIGHT, WIDTH), 4)
    maps = F.interpolate(normal(N, 2, 3, 4, seed=3), (HEIGHT, WIDTH), mode="bilinear")
    return Judged(Session(f), pixels(N, (HEIGHT, WIDTH)), LABELS, maps)


def by_hand(j: Judged, i: int, k: int, delta: float, reading: str) -> tuple[float, float, float]:
    """s, a and p of one map: threshold, box, crop, enlarge, ask."""
    m = j.maps[i, k].numpy()
    m = (m - m.min()) / (m.max() - m.min())
    rows, columns = np.nonzero(m >= (delta * m.mean() if reading == "mean" else delta))
    if len(rows) == 0:
        rows, columns = np.array([0, HEIGHT - 1]), np.array([0, WIDTH - 1])
    top, bottom, left, right = rows.min(), rows.max() + 1, columns.min(), columns.max() + 1
    crop = j.images[i : i + 1, :, top:bottom, left:right]
    seen = F.interpolate(crop, (HEIGHT, WIDTH), mode="bilinear", align_corners=False)
    p = float(j.classifier.probabilities(seen)[0, LABELS[i, k]])
    a = (bottom - top) * (right - left) / (HEIGHT * WIDTH)
    return math.log(max(a, 0.05)) - math.log(p), a, p


@pytest.mark.parametrize("reading", ["mean", "value"])
@pytest.mark.parametrize("delta", [0.0, 0.6, 1.6, 5.0])
def test_it_is_the_formula(delta: float, reading: str) -> None:
    j, settings = judged(), f"delta={delta},reading={reading}"
    names = ("saliency-metric", "saliency-area", "saliency-confidence")
    s, a, p = (make_metric(f"{name}:{settings}").pairs(j) for name in names)
    assert s is not None and a is not None and p is not None
    for i in range(N):
        for k in range(2):
            expected = by_hand(j, i, k, delta, reading)
            assert (s[i, k].item(), a[i, k].item(), p[i, k].item()) == pytest.approx(expected, abs=1e-4)


def test_the_whole_picture_known_for_sure_has_zero_and_above_one_no_value_is_kept() -> None:
    j = judged()
    whole = make_metric("saliency-metric:delta=0")
    torch.testing.assert_close(whole(j), -j.f[:, 0].log())
    torch.testing.assert_close(make_metric("saliency-metric:delta=1.2,reading=value")(j), whole(j))
    gray = make_metric("saliency-metric:delta=1.2,reading=value,empty=gray")(j)
    p = j.classifier.probabilities(j.classifier.blank(1))[0, LABELS[:, 0]]
    torch.testing.assert_close(gray, math.log(0.05) - p.log())


def test_crops_are_those_of_interpolate_also_of_single_pixels() -> None:
    j = judged()
    boxes = Boxes(
        torch.tensor([[2, 3], [0, 0], [8, 11], [4, 1]]), torch.tensor([[7, 9], [9, 12], [9, 12], [5, 12]])
    )
    found = crops(j.images, boxes, j.inputs)
    for i in range(N):
        (top, left), (bottom, right) = boxes.start[i].tolist(), boxes.stop[i].tolist()
        crop = j.images[i : i + 1, :, top:bottom, left:right]
        expected = F.interpolate(crop, (HEIGHT, WIDTH), mode="bilinear", align_corners=False)[0]
        torch.testing.assert_close(found[i], expected, atol=1e-5, rtol=1e-5)


def test_largest_pieces_are_those_of_scipy() -> None:
    ndimage = pytest.importorskip("scipy.ndimage")
    keep = normal(8, 20, 23, seed=9) > 0.6
    found = largest_piece(keep)
    for mask, piece in zip(keep.numpy(), found.numpy(), strict=True):
        marks, _ = ndimage.label(mask, structure=np.ones((3, 3)))
        sizes = np.bincount(marks.ravel())[1:]
        assert piece.sum() == sizes.max()
        assert (marks[piece] == marks[piece][0]).all()
    assert not largest_piece(torch.zeros(1, 5, 5, dtype=torch.bool)).any()
    line = torch.tensor([[1, 0, 1, 1, 0, 1]], dtype=torch.bool)
    assert largest_piece(line).tolist() == [[False, False, True, True, False, False]]


# ---- the sweep -----------------------------------------------------------------------------------------------------


def planted(images: Tensor, labels: Tensor) -> Tensor:
    """One bright position on a faint ramp."""
    ramp = (
        torch.linspace(0, 0.2, HEIGHT * WIDTH).view(HEIGHT, WIDTH).repeat(len(images), labels.shape[1], 1, 1)
    )
    ramp[:, :, 4, 5] = 1
    return ramp


def test_the_sweep_has_the_papers_thresholds_and_finds_the_best() -> None:
    assert len(DELTAS) == 26 and DELTAS[0] == 0 and DELTAS[-1] == 5 and DELTAS[3] == 0.6
    j = judged()
    maps = make_method("gradient")(j.classifier, j.images, LABELS)
    sweep = saliency_sweep(Judged(Session(j.classifier), j.images, LABELS, maps))
    alone = Judged(Session(j.classifier), j.images, LABELS[:, :1], maps[:, :1])
    values = [SaliencyMetric(delta=delta)(alone).mean().item() for delta in DELTAS]
    assert [row.value for row in sweep.rows] == pytest.approx(values, abs=1e-5)
    assert sweep.metric.delta == DELTAS[int(np.argmin(values))] and sweep.n == N


def test_a_best_threshold_with_tiny_boxes_is_flagged() -> None:
    j = judged()
    j.maps = planted(j.images, j.labels)
    sweep = saliency_sweep(j, deltas=[5.0])
    assert sweep.best.tiny == 1.0 and sweep.best.area == pytest.approx(1 / 108)
    assert sweep.degenerate and not saliency_sweep(j, deltas=[0.0]).degenerate


def test_the_interval_does_not_count_with_values_that_only_the_floor_of_f_allows() -> None:
    values = torch.linspace(-0.5, 1.1, 80)
    low, high = mean_interval(values, limits=SaliencyMetric.limits)
    assert 0.1 < low < 0.3 < high < 0.5  # with -log(1e-30) for a limit, the end would be above 2
