"""Kinds of outputs z of a net, how the paper's f(x, a), the probability of label a for input x, is computed from them, and the labels that count:

    logits                   f = softmax(z)                    exactly one label is right
    probabilities            f = z                             the same, after the net's own softmax
    sigmoid                  f = 1 / (1 + exp(-z))             labels are independent: several, or none, may be right
    sigmoid-probabilities    f = z                             the same, after the net's own sigmoid
    probability              f = (1 - z, z)                    a function of tables or texts returns the probability of the second label

A net of independent labels with one output z has two labels, no and yes: its logits are (-z, z), so f = (1 - sigmoid(z), sigmoid(z)).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from proofmap.core.errors import InputError, ModelError
from proofmap.core.labels import label_index
from proofmap.core.outputs import is_independent
from proofmap.core.text import counted

Outputs = Literal["logits", "probabilities", "probability", "sigmoid", "sigmoid-probabilities"]

_SEE_THROUGH = frozenset(
    ["View", "Reshape", "Squeeze", "Unsqueeze", "ToCopy", "Clone", "Alias", "Clamp", "Cat", "Stack"]
)
"""Operations in autograd's graph whose output is a probability if their input is one."""
_MOVES = 0.05
"""If the outputs for different images of noise differ by less than this, they do not show the range of the net's outputs."""


def as_logits(out: Tensor, outputs: Outputs) -> Tensor:
    """Logits ``(N, A)`` from the outputs of a net; log-probabilities if ``outputs`` is ``"probabilities"``.

    >>> as_logits(torch.tensor([[0.25, 0.5]]), "sigmoid-probabilities")
    tensor([[-1.0986,  0.0000]])
    >>> as_logits(torch.tensor([[3.0]]), "sigmoid")
    tensor([[-3.,  3.]])
    """
    smallest, step = torch.finfo(torch.float32).tiny, torch.finfo(torch.float32).eps
    if outputs == "probabilities":
        return out.clamp_min(smallest).log()
    if outputs == "sigmoid-probabilities":
        out = out.clamp_min(smallest).log() - (-out.clamp_max(1 - step)).log1p()
    return torch.cat([-out, out], dim=1) if is_independent(outputs) and out.shape[1] == 1 else out


def chosen_labels(
    label_set: Literal["all"] | Sequence[int | str],
    names: Sequence[str],
    outputs: Outputs,
    renormalise: bool | None = None,
    device: torch.device | None = None,
) -> tuple[tuple[int, ...], bool, Tensor | None]:
    """The output indices of the labels that count, by name or index, in ascending order; whether the softmax runs over them alone, by default if some
    are left out; and the numbers ``(A,)`` to add to logits for such a softmax: 0 for these labels, minus infinity for others. None if f is not
    renormalised, or if all labels count.

    >>> chosen_labels(["cup", 0], ["cat", "dog", "cup"], "logits")
    ((0, 2), True, tensor([0., -inf, 0.]))
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
    return members, renormalise, outside


# ---- checks -------------------------------------------------------------------------------------------------------


def checked_outputs(out: Tensor, declared: Outputs | None, on_noise: Callable[[], Tensor]) -> Outputs:
    """The kind of the outputs ``(N, A)``: the declared one, unless they contradict it; the first that they do not contradict if none is declared.

    ``on_noise`` is a function that computes the net's outputs for noise, with autograd's graph. It is called if ``out`` does not
    distinguish probabilities from small logits.
    """
    if declared is not None:
        _check_declaration(out, declared, on_noise)
        return declared
    kinds: tuple[Outputs, ...] = ("logits", "probabilities", "sigmoid")
    for outputs in kinds:
        with suppress(ModelError):
            _check_declaration(out, outputs, on_noise)
            return outputs
    return "sigmoid-probabilities"


def _check_declaration(out: Tensor, outputs: Outputs, on_noise: Callable[[], Tensor]) -> None:
    """Refuse outputs ``(N, A)`` that contradict the declaration and would give wrong results."""
    one = out.shape[1] == 1
    if one and not is_independent(outputs):
        raise ModelError(
            f"the net returns one output, and with outputs={outputs!r} its probability would be 1 for every input. If it is "
            "the logit of a label that is there or not, pass outputs='sigmoid' and names=[negative, positive]; "
            "outputs='sigmoid-probabilities' if the net ends in a sigmoid."
        )
    low, high, total = out.min().item(), out.max().item(), out.sum(dim=1)
    within = low >= 0 and high <= 1
    sums_to_one = bool(low >= 0 and (total - 1).abs().max() < 1e-3) and not one
    if outputs != "probabilities" and sums_to_one:
        raise ModelError(
            f"the net's outputs are non-negative and sum to one: they are probabilities, but outputs={outputs!r} was "
            "declared. Pass outputs='probabilities', or remove the net's softmax."
        )
    if outputs in ("logits", "sigmoid") and within and _are_probabilities(on_noise):
        raise ModelError(
            "the net's outputs lie between 0 and 1 for every image and do not sum to one: they are probabilities of "
            f"independent labels, but outputs={outputs!r} was declared. Pass outputs='sigmoid-probabilities', or remove the "
            "net's sigmoid and pass outputs='sigmoid'."
        )
    if outputs == "probabilities" and not sums_to_one:
        advice = (
            "Pass outputs='sigmoid-probabilities' if every label has a sigmoid of its own, outputs='logits' if the net has neither."
            if within
            else "Pass outputs='logits' if the net has no softmax."
        )
        raise ModelError(
            f"outputs='probabilities' was declared, but rows sum to {total[0].item():.4g} with minimum {low:.4g}. {advice}"
        )
    if outputs == "sigmoid-probabilities" and not within:
        raise ModelError(
            f"outputs='sigmoid-probabilities' was declared, but the outputs range from {low:.4g} to {high:.4g}. "
            "Pass outputs='sigmoid' if the net has no sigmoid."
        )


def _are_probabilities(on_noise: Callable[[], Tensor]) -> bool:
    """Whether the outputs are probabilities: the net ends in a sigmoid or, if its graph is unknown, the outputs vary between 0 and 1."""
    try:
        out = on_noise()
    except Exception:  # a net may refuse noise
        return False
    if out.grad_fn is None:
        moves = bool((out.amax(dim=0) - out.amin(dim=0)).max() > _MOVES)
        return moves and bool((out >= 0).all() and (out <= 1).all())
    step: torch.autograd.graph.Node | None = out.grad_fn
    while step is not None and step.name().removesuffix("Backward0") in _SEE_THROUGH:
        step = step.next_functions[0][0]
    return step is not None and "igmoid" in step.name()


def check_rows(out: object, images: int, item: str = "image", *, finite: bool = False) -> Tensor:
    """The outputs as a tensor. Raises an error unless they have one row for each of the ``images`` inputs and, with ``finite``, neither NaN nor
    infinity. Messages call an input ``item``."""
    if isinstance(out, np.ndarray) and out.dtype.kind == "f":
        out = torch.from_numpy(np.ascontiguousarray(out))
    if not isinstance(out, Tensor) or out.ndim != 2 or len(out) != images:
        shape = tuple(out.shape) if isinstance(out, Tensor) else type(out).__name__
        raise ModelError(
            f"the net returned {shape} for {counted(images, item)}; expected one row of outputs per {item}, "
            "(N, A). Wrap it in a function that picks the logits."
        )
    if finite and bool((bad := (~out.isfinite()).any(dim=1)).any()):
        raise ModelError(
            f"the net returned NaN or infinity for {int(bad.sum())} of {counted(len(out), item)} "
            f"(first: {item} {int(bad.nonzero()[0])}). Check its weights and its preprocessing (mean, std)."
        )
    return out
