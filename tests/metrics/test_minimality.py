"""The smallest regions that suffice, average drop, and the saliency metric: against loops, torch-cam and pytorch-grad-cam."""

from __future__ import annotations

import math
from contextlib import nullcontext
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import proofmap as pm
from proofmap.core.errors import InputError
from proofmap.methods import make_method
from proofmap.metrics import Judged, make_game, make_metric
from proofmap.metrics.boxes import (
    DELTAS,
    SaliencyMetric,
    largest_piece,
    saliency_sweep,
    unit_scale,
)
from proofmap.metrics.minimality import SufficientRegion, sufficient_subsets
from proofmap.results.statistics import mean_interval
from proofmap.session import Session
from tests.toys import MEAN, STD, Linear, conv_classifier, conv_net, normal, pixels

SIZE, N = 4, 3
LABELS = torch.tensor([[0, 2], [1, 3], [2, -1]])


def judged(f: pm.Classifier | None = None) -> Judged:
    return Judged(
        Session(f or conv_classifier(SIZE, 4)), pixels(N, SIZE), LABELS, normal(N, 2, SIZE, SIZE, seed=6)
    )


def by_hand(j: Judged, i: int, k: int, keeps: str, level: float) -> float:
    """Try every size."""
    order = j.maps[i, k].flatten().argsort(descending=True)
    x, gray, a = j.images[i].flatten(1), j.classifier.gray[:, None], int(LABELS[i, k])

    def kept(shown: Tensor) -> bool:
        p = j.classifier.probabilities(torch.where(shown, x, gray).view(1, 3, SIZE, SIZE))[0]
        if keeps == "label":
            return int(p.argmax()) == a
        return float(p[a]) >= (level * f if keeps == "share" else level)

    f = float(j.classifier.probabilities(j.images[i : i + 1])[0, a])
    whole = kept(torch.ones(SIZE * SIZE, dtype=torch.bool))
    for s in range(SIZE * SIZE + 1):
        top = torch.zeros(SIZE * SIZE, dtype=torch.bool)
        top[order[:s]] = True
        if whole and kept(top):
            return s / (SIZE * SIZE)
    return math.nan


@pytest.mark.parametrize("keeps, level", [("share", 0.9), ("value", 0.2), ("label", 0.9)])
def test_sizes_are_those_found_by_trying_every_one(keeps: str, level: float) -> None:
    j = judged()
    found = make_metric(f"sufficient-region:points=all,keeps={keeps},level={level}").pairs(j)
    assert found is not None and math.isnan(found[2, 1].item())
    for i, k in (LABELS >= 0).nonzero().tolist():
        expected = by_hand(j, i, k, keeps, level)
        assert found[i, k].item() == pytest.approx(expected, abs=1e-6, nan_ok=True)


def either(*groups: tuple[int, ...]) -> tuple[pm.Classifier, Tensor]:
    """A net that says yes where the pixels of one of these groups are all there: each group is a reason of its own."""

    class Either(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = torch.nn.Parameter(torch.tensor(40.0))

        def forward(self, x: Tensor) -> Tensor:
            flat = x.flatten(1)
            whole = torch.stack([flat[:, list(group)].amin(dim=1) for group in groups], dim=1)
            yes = self.scale * (whole.amax(dim=1) - 0.5)
            return torch.stack([yes, -yes], dim=1)

    return pm.Classifier(Either(), size=3, mean=[0.0], std=[1.0]), torch.ones(1, 1, 3, 3)


def test_a_net_with_two_reasons_has_two_subsets() -> None:
    f, x = either((0, 1), (4, 5, 8))
    order = torch.tensor([4, 5, 2, 8, 0, 1, 3, 6, 7])  # the second reason first, with one position too many
    map_ = torch.zeros(9)
    map_[order] = torch.arange(9, 0, -1).float()
    j = Judged(Session(f), x, torch.tensor([[0]]), map_.view(1, 1, 3, 3))
    every = SufficientRegion(points="all")
    assert (every(j) * 9).round().item() == 4
    subsets = sufficient_subsets(j, every)
    shown = [set(mask.flatten().nonzero()[:, 0].tolist()) for mask in subsets]
    assert shown == [{4, 5, 2, 8}, {0, 1}]


def test_one_reason_gives_one_subset_and_most_is_a_limit() -> None:
    f, x = either((0, 1))
    map_ = torch.arange(9, 0, -1).float().view(1, 1, 3, 3)
    j = Judged(Session(f), x, torch.tensor([[0]]), map_)
    every = SufficientRegion(points="all")
    assert len(sufficient_subsets(j, every)) == 1
    both, _ = either((0, 1), (2, 3), (4, 5))
    j = Judged(Session(both), x, torch.tensor([[0]]), map_)
    assert len(sufficient_subsets(j, every)) == 3 and len(sufficient_subsets(j, every, most=2)) == 2


def test_a_label_that_the_fill_alone_keeps_needs_no_position() -> None:
    f = pm.Classifier(Linear(torch.zeros(2, 9), torch.tensor([1.0, -1.0])), size=3, mean=[0.0], std=[1.0])
    j = Judged(Session(f), torch.ones(1, 1, 3, 3), torch.tensor([[0]]), normal(1, 1, 3, 3))
    assert make_metric("sufficient-region")(j).item() == 0.0
    assert make_metric("sufficient-region:keeps=value,level=0.99")(j).isnan().all()


# ---- average drop and increase in confidence -----------------------------------------------------------------


SIDE, PHOTOS = 6, 5
PHOTO_LABELS = torch.tensor([[0, 2], [1, 3], [2, 0], [3, 1], [1, 0]])


def judged_photos(maps: Tensor | None = None) -> Judged:
    f = conv_classifier(SIDE, 4)
    return Judged(
        Session(f),
        pixels(PHOTOS, SIDE),
        PHOTO_LABELS,
        normal(PHOTOS, 2, SIDE, SIDE, seed=3) if maps is None else maps,
    )


def normalised(images: Tensor) -> Tensor:
    mean, std = (torch.tensor(v).view(3, 1, 1) for v in (MEAN, STD))
    return (images - mean) / std


def values(spec: str, j: Judged) -> Tensor:
    return make_metric(spec)(j)


class Given:
    """What torch-cam takes for an extractor of maps: it gives those it was given."""

    def __init__(self, maps: Tensor) -> None:
        self.model, self.maps = nn.Sequential(conv_net(4)).eval(), maps

    def __call__(self, class_idx: Any, scores: Any = None, **rest: Any) -> list[Tensor]:
        return [self.maps]

    def fuse_cams(self, cams: list[Tensor]) -> Tensor:
        return cams[0]

    def _hooks_off(self) -> Any:
        return nullcontext()


def test_torch_cam_finds_the_same_drop_and_increase(torchcam: ModuleType) -> None:
    from torchcam.metrics import ClassificationMetric

    j = judged_photos()
    maps = unit_scale(j.maps[:, 0])
    oracle = ClassificationMetric(Given(maps), lambda logits: logits.softmax(dim=-1))
    oracle.update(normalised(j.images), PHOTO_LABELS[:, 0].tolist())
    found = oracle.summary()
    assert values("average-drop", j).mean().item() == pytest.approx(found["avg_drop"], abs=1e-5)
    assert values("increase-in-confidence", j).mean().item() == pytest.approx(found["conf_increase"])


def test_pytorch_grad_cam_finds_the_same_difference(pytorch_grad_cam: ModuleType) -> None:
    from pytorch_grad_cam.metrics.cam_mult_image import DropInConfidence, IncreaseInConfidence
    from pytorch_grad_cam.utils.model_targets import ClassifierOutputSoftmaxTarget

    j = judged_photos()
    net, x, maps = conv_net(4), normalised(j.images), unit_scale(j.maps[:, 0]).numpy()
    targets = [ClassifierOutputSoftmaxTarget(int(a)) for a in PHOTO_LABELS[:, 0]]
    fallen = np.asarray(DropInConfidence()(x, maps, targets, net))  # theirs is not divided by f
    np.testing.assert_allclose(values("average-drop", j) * j.f[:, 0], fallen, atol=1e-5)
    risen = np.asarray(IncreaseInConfidence()(x, maps, targets, net))
    assert values("increase-in-confidence", j).tolist() == risen.tolist()


def test_with_a_share_only_ranks_count() -> None:
    j = judged_photos()
    bent = judged_photos(j.maps.exp() * 7)
    torch.testing.assert_close(values("average-drop:share=0.4", j), values("average-drop:share=0.4", bent))
    top = j.play(make_game("insertion", points=SIDE * SIDE)).probabilities[..., round(0.4 * SIDE * SIDE)]
    drop = ((j.f - top).clamp_min(0) / j.f)[:, 0]
    torch.testing.assert_close(values("average-drop:share=0.4", j), drop)


def test_a_soft_game_has_one_step() -> None:
    with pytest.raises(InputError, match="soft-insertion has one step"):
        make_game("soft-insertion", points=8)
    soft = make_metric("completeness:base=soft-insertion,points=1,rule=right")
    j = judged_photos()
    seen = j.play(make_game("soft-insertion"))
    expected = (seen.auc.clamp_min(0.01) / seen.f).clamp_max(1).amin(dim=1)
    torch.testing.assert_close(soft(j), expected)


# ---- the saliency metric -------------------------------------------------------------------------------------


HEIGHT, WIDTH, CROPPED = 9, 12, 4
CROPPED_LABELS = torch.tensor([[0, 2], [1, 3], [2, 0], [3, 1]])


def judged_crops() -> Judged:
    f = conv_classifier((HEIGHT, WIDTH), 4)
    maps = F.interpolate(normal(CROPPED, 2, 3, 4, seed=3), (HEIGHT, WIDTH), mode="bilinear")
    return Judged(Session(f), pixels(CROPPED, (HEIGHT, WIDTH)), CROPPED_LABELS, maps)


def cropped_by_hand(j: Judged, i: int, k: int, delta: float, reading: str) -> tuple[float, float, float]:
    """s, a and p of one map: threshold, box, crop, enlarge, ask."""
    m = j.maps[i, k].numpy()
    m = (m - m.min()) / (m.max() - m.min())
    rows, columns = np.nonzero(m >= (delta * m.mean() if reading == "mean" else delta))
    if len(rows) == 0:
        rows, columns = np.array([0, HEIGHT - 1]), np.array([0, WIDTH - 1])
    top, bottom, left, right = rows.min(), rows.max() + 1, columns.min(), columns.max() + 1
    crop = j.images[i : i + 1, :, top:bottom, left:right]
    seen = F.interpolate(crop, (HEIGHT, WIDTH), mode="bilinear", align_corners=False)
    p = float(j.classifier.probabilities(seen)[0, CROPPED_LABELS[i, k]])
    a = (bottom - top) * (right - left) / (HEIGHT * WIDTH)
    return math.log(max(a, 0.05)) - math.log(p), a, p


@pytest.mark.parametrize("reading", ["mean", "value"])
@pytest.mark.parametrize("delta", [0.0, 0.6, 1.6, 5.0])
def test_it_is_the_formula(delta: float, reading: str) -> None:
    j, settings = judged_crops(), f"delta={delta},reading={reading}"
    names = ("saliency-metric", "saliency-area", "saliency-confidence")
    s, a, p = (make_metric(f"{name}:{settings}").pairs(j) for name in names)
    for i in range(CROPPED):
        for k in range(2):
            expected = cropped_by_hand(j, i, k, delta, reading)
            assert (s[i, k].item(), a[i, k].item(), p[i, k].item()) == pytest.approx(expected, abs=1e-4)


def test_the_whole_picture_known_for_sure_has_zero_and_above_one_no_value_is_kept() -> None:
    j = judged_crops()
    whole = make_metric("saliency-metric:delta=0")
    torch.testing.assert_close(whole(j), -j.f[:, 0].log())
    torch.testing.assert_close(make_metric("saliency-metric:delta=1.2,reading=value")(j), whole(j))
    gray = make_metric("saliency-metric:delta=1.2,reading=value,empty=gray")(j)
    p = j.classifier.probabilities(j.classifier.blank(1))[0, CROPPED_LABELS[:, 0]]
    torch.testing.assert_close(gray, math.log(0.05) - p.log())


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
    j = judged_crops()
    maps = make_method("gradient")(j.classifier, j.images, CROPPED_LABELS)
    sweep = saliency_sweep(Judged(Session(j.classifier), j.images, CROPPED_LABELS, maps))
    alone = Judged(Session(j.classifier), j.images, CROPPED_LABELS[:, :1], maps[:, :1])
    values = [SaliencyMetric(delta=delta)(alone).mean().item() for delta in DELTAS]
    by_delta = sorted(sweep, key=lambda row: row.delta)
    assert [row.value for row in by_delta] == pytest.approx(values, abs=1e-5)
    assert sweep[0].delta == DELTAS[int(np.argmin(values))] and sweep[0].n == CROPPED


def test_a_best_threshold_with_tiny_boxes_is_flagged() -> None:
    j = judged_crops()
    j.maps = planted(j.images, j.labels)
    (best,) = saliency_sweep(j, deltas=[5.0])
    assert best.tiny == 1.0 and best.area == pytest.approx(1 / 108)
    assert best.degenerate and not saliency_sweep(j, deltas=[0.0])[0].degenerate


def test_the_interval_does_not_count_with_values_that_only_the_floor_of_f_allows() -> None:
    values = torch.linspace(-0.5, 1.1, 80)
    low, high = mean_interval(values, limits=SaliencyMetric.limits)
    assert 0.1 < low < 0.3 < high < 0.5  # with -log(1e-30) for a limit, the end would be above 2
