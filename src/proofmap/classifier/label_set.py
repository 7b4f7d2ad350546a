"""The labels that count, and whether the softmax runs over them alone."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from proofmap.classifier.outputs import Outputs, is_independent
from proofmap.core.errors import InputError
from proofmap.core.labels import label_index


def chosen_labels(
    label_set: Sequence[int | str], names: Sequence[str], outputs: Outputs, renormalise: bool | None
) -> tuple[tuple[int, ...], bool]:
    """The members of a label set as indices, and whether f is renormalised over them; where nothing is said, it is for a part
    of the labels.

    >>> chosen_labels(["cup", 0], ["cat", "dog", "cup"], "logits", None)
    ((0, 2), True)
    """
    members = tuple(sorted({label_index(a, names) for a in label_set}))
    if not members:
        raise InputError("label_set is empty; name at least one label")
    if renormalise is None:
        renormalise = len(members) < len(names) and not is_independent(outputs)
    if renormalise and is_independent(outputs):
        raise InputError(
            f"renormalise is for a softmax: with outputs={outputs!r} the labels are independent, and f of one does not "
            "depend on which others count. Leave renormalise out."
        )
    return members, renormalise


def outside_of(members: Sequence[int], labels: int, device: torch.device) -> Tensor | None:
    """What is added to logits ``(N, labels)`` for a softmax over the members alone: 0 for them, minus infinity outside; None
    where nothing is outside.

    >>> outside_of([0, 2], 3, torch.device("cpu"))
    tensor([0., -inf, 0.])
    """
    if len(members) == labels:
        return None
    outside = torch.full((labels,), -torch.inf, device=device, dtype=torch.float32)
    outside[list(members)] = 0.0
    return outside
