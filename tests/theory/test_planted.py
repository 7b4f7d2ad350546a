"""Planted evidence: the net is what it is said to be, and metrics see who points at the evidence."""

from __future__ import annotations

import torch

import proofmap as pm
from benchmarks.studies.planted import NAMES, planted_classifier, planted_images


def test_what_is_outside_the_evidence_does_not_count_and_what_is_inside_does() -> None:
    f, (x, evidence) = planted_classifier(), planted_images(20)
    assert evidence.flatten(2).sum(dim=2).tolist() == [[64, 16]] * 20
    assert not bool((evidence[:, 0] & evidence[:, 1]).any())
    only = torch.where(evidence.any(dim=1, keepdim=True), x, 0.5)
    torch.testing.assert_close(f.logits(only), f.logits(x), atol=0.3, rtol=0)
    for label in (0, 1):
        without = f.logits(torch.where(evidence[:, label : label + 1], torch.tensor(0.5), x))
        assert float(without[:, label].abs().max()) < 0.3 and float(without[:, 1 - label].min()) > 2.7


def test_insertion_and_class_sensitivity_notice_the_wrong_labels_evidence() -> None:
    """The truth, the evidence mixed up between labels, and one map of both: only the first points at each label's own."""
    f, (x, evidence) = planted_classifier(), planted_images(6)

    def true_map(_: pm.Classifier, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return torch.stack([evidence[:, int(a)] for a in labels[0]], dim=1).float()

    def mixed(_: pm.Classifier, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return torch.stack([evidence[:, 1 - int(a)] for a in labels[0]], dim=1).float()

    def both(_: pm.Classifier, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return evidence.any(dim=1, keepdim=True).float().expand(-1, labels.shape[1], -1, -1)

    found = pm.evaluate(
        f,
        x,
        methods=[true_map, mixed, both],
        labels=[NAMES[1], NAMES[0]],
        metrics=["insertion", "deletion", "class-sensitivity", "completeness"],
    )
    value = {(r.name.split(".")[-1], s.name): s.value for r in found.results for s in r.scores}
    assert value["true_map", "insertion"] > value["both", "insertion"] > value["mixed", "insertion"] + 0.05
    assert value["true_map", "deletion"] < value["mixed", "deletion"] - 0.05
    sensitive = [value[name, "class-sensitivity"] for name in ("true_map", "both", "mixed")]
    assert sensitive[0] > 0.05 and abs(sensitive[1]) < 1e-6 and sensitive[2] < -0.05
