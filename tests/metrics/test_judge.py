"""Metrics of a method's maps: worst case, best effort, the games; each game played once."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from proofmap.classifier import Classifier
from proofmap.metrics import Insertion, Judged, Metric, completeness, deletion, insertion, soundness
from proofmap.metrics.areas import Deletion
from proofmap.metrics.proof_scores import BestEffort, Completeness, Soundness
from proofmap.session import Session
from tests.toys import Linear, counted_classifier, linear_classifier, normal, pixels

N, LABELS, SIZE = 4, 3, 4


def judged(f: Classifier | None = None, *, labels: Tensor | None = None, seed: int = 0) -> Judged:
    f = f or linear_classifier(SIZE, LABELS, strength=0.4)
    labels = torch.arange(LABELS).expand(N, -1) if labels is None else labels
    return Judged(Session(f, seed=seed), pixels(N, SIZE), labels, normal(*labels.shape, SIZE, SIZE, seed=3))


# ---- what each metric says ---------------------------------------------------------------------------------


def test_completeness_and_soundness_are_the_lowest_over_labels() -> None:
    j = judged()
    areas = insertion(j.classifier, j.images, j.maps, j.labels)
    alpha, beta = completeness(areas.auc, areas.f, 0.05), soundness(areas.auc, areas.f, 0.02)
    assert torch.equal(Completeness(e1=0.05)(j), alpha.min(dim=1).values)
    assert torch.equal(Soundness(e2=0.02)(j), beta.min(dim=1).values)
    assert torch.equal(Completeness(e1=0.05).pairs(j), alpha)
    assert torch.equal(Soundness(e2=0.02).pairs(j), beta)


def test_insertion_and_deletion_are_those_of_the_first_label() -> None:
    j = judged(labels=torch.tensor([[2, 0], [1, 2], [0, 1], [2, 1]]))
    shown = insertion(j.classifier, j.images, j.maps, j.labels).auc
    hidden = deletion(j.classifier, j.images, j.maps, j.labels).auc
    assert torch.equal(Insertion()(j), shown[:, 0]) and torch.equal(Insertion().pairs(j), shown)
    assert torch.equal(Deletion()(j), hidden[:, 0]) and torch.equal(Deletion().pairs(j), hidden)


# ---- best effort and cheating ------------------------------------------------------------------------------


def two_objects() -> tuple[Classifier, Tensor]:
    """Two labels, each shown by its own half of the picture, the first more strongly; a third shown by neither."""
    weight = torch.zeros(3, 4, 4)
    weight[0, :, :2], weight[1, :, 2:], weight[2] = 0.55, 0.5, -0.3
    f = Classifier(Linear(weight.flatten(1)), size=4, mean=[0.0], std=[1.0])
    return f, torch.ones(1, 1, 4, 4)


def test_the_top_labels_map_for_every_label_lacks_effort() -> None:
    f, x = two_objects()
    labels = torch.tensor([[0, 1]])
    left, right = torch.zeros(2, 4, 4)
    left[:, :2], right[:, 2:] = 1, 1
    honest = Judged(Session(f), x, labels, torch.stack([left, right])[None])
    cheating = Judged(Session(f), x, labels, torch.stack([left, left])[None])
    assert honest.top2[0].tolist() == [[0, 1]] and honest.top2[1][0, 1] > 0.3
    effort = BestEffort()
    assert effort(honest).item() == 1
    assert effort(cheating).item() < 0.5
    assert Soundness()(cheating).item() > Soundness()(honest).item()  # what cheating buys


def test_best_effort_reads_the_top_label_from_the_net_not_from_the_list() -> None:
    f, x = two_objects()
    left, right = torch.zeros(2, 4, 4)
    left[:, :2], right[:, 2:] = 1, 1
    turned = Judged(Session(f), x, torch.tensor([[1, 0]]), torch.stack([right, left])[None])
    only_second = Judged(Session(f), x, torch.tensor([[1]]), right[None, None])
    assert BestEffort()(turned).item() == BestEffort()(only_second).item() == 1
    assert BestEffort()(Judged(Session(f), x, torch.tensor([[0]]), left[None, None])).isnan().all()


def test_a_confident_image_is_not_asked_for_effort() -> None:
    f = Classifier(Linear(torch.tensor([[6.0] * 4, [0.0] * 4])), size=2, mean=[0.0], std=[1.0])
    j = Judged(Session(f), torch.ones(1, 1, 2, 2), torch.tensor([[0, 1]]), torch.rand(1, 2, 2, 2))
    assert j.top2[1][0, 1] < 0.01
    assert BestEffort()(j).isnan().all()


def test_the_second_label_is_sought_inside_the_label_set() -> None:
    f = linear_classifier(SIZE, 5, label_set=[1, 3, 4])
    labels, p = judged(f, labels=torch.tensor([[1, 3, 4]] * N)).top2
    inside = f.probabilities(pixels(N, SIZE))[:, [1, 3, 4]].sort(dim=1, descending=True)
    assert torch.equal(p, inside.values[:, :2])
    assert torch.equal(labels, torch.tensor([1, 3, 4])[inside.indices[:, :2]])


def test_a_label_set_of_one_has_no_second_label() -> None:
    j = judged(linear_classifier(SIZE, 3, label_set=[2], renormalise=False), labels=torch.tensor([[2]] * N))
    assert j.top2[0].tolist() == [[2, 2]] * N and j.top2[1][:, 1].tolist() == [0.0] * N
    assert BestEffort()(j).isnan().all()
    assert Completeness()(j).isfinite().all()


# ---- each game is played once ------------------------------------------------------------------------------


def test_metrics_with_equal_settings_share_one_game() -> None:
    f, tally = counted_classifier(nn.Sequential(nn.Flatten(), nn.Linear(48, LABELS)), size=SIZE)
    j = judged(f)
    f.frozen()
    tally.reset()
    shown: list[Metric] = [Completeness(), Soundness(), Insertion(), Completeness(e1=0.1)]
    for metric in shown:
        metric(j)
        metric.pairs(j)
    one_game = tally.images
    assert one_game == N * LABELS * 15 + 2 * N
    BestEffort()(j)
    assert tally.images == one_game + N  # f for all outputs, to find the top two
    Deletion()(j)
    assert tally.images == one_game + N + N * 15  # of the first label alone; its ends are known


# ---- what scores carry -------------------------------------------------------------------------------------
