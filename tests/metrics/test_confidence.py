"""Average drop and increase in confidence, against torch-cam, pytorch-grad-cam and a loop."""

from __future__ import annotations

from contextlib import nullcontext
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from proofmap.core.errors import InputError
from proofmap.metrics import Judged, make_game, make_metric
from proofmap.metrics.boxes import unit_scale
from proofmap.session import Session
from tests.toys import MEAN, STD, conv_classifier, conv_net, normal, pixels

SIZE, N = 6, 5
LABELS = torch.tensor([[0, 2], [1, 3], [2, 0], [3, 1], [1, 0]])


def judged(maps: Tensor | None = None) -> Judged:
    f = conv_classifier(SIZE, 4)
    return Judged(
        Session(f), pixels(N, SIZE), LABELS, normal(N, 2, SIZE, SIZE, seed=3) if maps is None else maps
    )


def normalised(images: Tensor) -> Tensor:
    mean, std = (torch.tensor(v).view(3, 1, 1) for v in (MEAN, STD))
    return (images - mean) / std


def values(spec: str, j: Judged) -> Tensor:
    return make_metric(spec)(j)


def test_it_is_the_definition_written_as_a_loop() -> None:
    j = judged()
    found = make_metric("average-drop").pairs(j)
    for i in range(N):
        for k in range(2):
            m, label = j.maps[i, k], int(LABELS[i, k])
            w = (m - m.min()) / (m.max() - m.min())
            gray = j.classifier.gray.view(3, 1, 1)
            f = float(j.classifier.probabilities(j.images[i : i + 1])[0, label])
            seen = w * j.images[i] + (1 - w) * gray
            o = float(j.classifier.probabilities(seen[None])[0, label])
            assert found is not None and found[i, k].item() == pytest.approx(max(0, f - o) / f, abs=1e-5)


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

    j = judged()
    maps = unit_scale(j.maps[:, 0])
    oracle = ClassificationMetric(Given(maps), lambda logits: logits.softmax(dim=-1))
    oracle.update(normalised(j.images), LABELS[:, 0].tolist())
    found = oracle.summary()
    assert values("average-drop", j).mean().item() == pytest.approx(found["avg_drop"], abs=1e-5)
    assert values("increase-in-confidence", j).mean().item() == pytest.approx(found["conf_increase"])


def test_pytorch_grad_cam_finds_the_same_difference(pytorch_grad_cam: ModuleType) -> None:
    from pytorch_grad_cam.metrics.cam_mult_image import DropInConfidence, IncreaseInConfidence
    from pytorch_grad_cam.utils.model_targets import ClassifierOutputSoftmaxTarget

    j = judged()
    net, x, maps = conv_net(4), normalised(j.images), unit_scale(j.maps[:, 0]).numpy()
    targets = [ClassifierOutputSoftmaxTarget(int(a)) for a in LABELS[:, 0]]
    fallen = np.asarray(DropInConfidence()(x, maps, targets, net))  # theirs is not divided by f
    np.testing.assert_allclose(values("average-drop", j) * j.f[:, 0], fallen, atol=1e-5)
    risen = np.asarray(IncreaseInConfidence()(x, maps, targets, net))
    assert values("increase-in-confidence", j).tolist() == risen.tolist()


def test_with_a_share_only_ranks_count() -> None:
    j = judged()
    bent = judged(j.maps.exp() * 7)
    torch.testing.assert_close(values("average-drop:share=0.4", j), values("average-drop:share=0.4", bent))
    top = j.play(make_game("insertion", points=SIZE * SIZE)).probabilities[..., round(0.4 * SIZE * SIZE)]
    drop = ((j.f - top).clamp_min(0) / j.f)[:, 0]
    torch.testing.assert_close(values("average-drop:share=0.4", j), drop)


def test_a_soft_game_has_one_step() -> None:
    with pytest.raises(InputError, match="soft-insertion has one step"):
        make_game("soft-insertion", points=8)
    soft = make_metric("completeness:base=soft-insertion,points=1,rule=right")
    j = judged()
    seen = j.play(make_game("soft-insertion"))
    expected = (seen.auc.clamp_min(0.01) / seen.f).clamp_max(1).amin(dim=1)
    torch.testing.assert_close(soft(j), expected)
