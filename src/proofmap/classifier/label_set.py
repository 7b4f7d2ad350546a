"""Label sets: the labels that count, and the log-probability log f(x, a) of label a for input x over them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from proofmap.classifier.outputs import Outputs
from proofmap.core.errors import InputError
from proofmap.core.labels import label_index
from proofmap.core.outputs import is_independent


@dataclass(frozen=True, eq=False)
class LabelSet:
    """The labels that count.

    Attributes:
        members: the output indices of these labels, in ascending order.
        renormalise: whether the softmax runs over the members alone.
        outputs: what the net returns.
        outside: numbers ``(A,)`` to add to logits ``(N, A)``, so that a softmax runs over the members alone: 0 for members, minus
            infinity for others. None if f is not renormalised, or if all labels are members.
    """

    members: tuple[int, ...]
    renormalise: bool
    outputs: Outputs
    outside: Tensor | None

    def log_f(self, logits: Tensor) -> Tensor:
        """log f(x, a) for every label a, ``(N, A)``, from logits ``(N, A)``; minus infinity outside a renormalised set."""
        if is_independent(self.outputs):
            return nn.functional.logsigmoid(logits)
        if self.outside is not None:
            logits = logits + self.outside
        elif self.outputs == "probabilities":
            return logits
        return logits.log_softmax(dim=-1)


def chosen_labels(
    label_set: Literal["all"] | Sequence[int | str],
    names: Sequence[str],
    outputs: Outputs,
    renormalise: bool | None = None,
    device: torch.device | None = None,
) -> LabelSet:
    """The label set with these members, by name or index. By default f is renormalised if some labels are left out.

    >>> chosen_labels(["cup", 0], ["cat", "dog", "cup"], "logits")
    LabelSet(members=(0, 2), renormalise=True, outputs='logits', outside=tensor([0., -inf, 0.]))
    """
    if isinstance(label_set, str) and label_set != "all":
        raise InputError(f"label_set must be 'all' or a list of names or indices, not {label_set!r}")
    chosen = range(len(names)) if label_set == "all" else label_set
    members = tuple(sorted({label_index(a, names) for a in chosen}))
    if not members:
        raise InputError("label_set is empty; name at least one label")
    if renormalise is None:
        renormalise = len(members) < len(names) and not is_independent(outputs)
    if renormalise and is_independent(outputs):
        raise InputError(
            f"renormalise is for a softmax: with outputs={outputs!r} the labels are independent, and f of one does not "
            "depend on which others count. Leave renormalise out."
        )
    if renormalise and len(members) == 1:
        raise InputError(
            f"the label set has one label, {names[members[0]]!r}: a softmax over it alone gives it the probability 1 for every input. Name two or "
            "more labels, or leave f as it is: renormalise=False, --no-renormalise"
        )
    outside = None
    if renormalise and len(members) < len(names):
        outside = torch.full((len(names),), -torch.inf, device=device, dtype=torch.float32)
        outside[list(members)] = 0.0
    return LabelSet(members, renormalise, outputs, outside)
