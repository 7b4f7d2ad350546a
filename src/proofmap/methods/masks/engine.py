"""The engine that learns masks for all mask methods.

A *pair* is one image and one label; every pair has masks of its own. A *slot* is one row of the batch, and holds the state of the pair that
is learned there. The pairs in all slots take their steps together, and then the next waiting pairs take the slots. A step is one step of
Adam, unless the method defines another rule. A :class:`MaskProblem` defines what a method learns. The engine chooses the number of slots
that fit into memory, and continues with fewer slots if memory runs out. The random numbers of a pair depend only on the pair and on its
step, so the result of a pair does not depend on the other pairs.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core.batching import BatchSize, is_out_of_memory
from proofmap.core.errors import InputError
from proofmap.core.progress import ProgressTask
from proofmap.session import Session, Snapshot

Slots = dict[str, Tensor]
"""The state of the pairs that are being learned: tensors by name, each with one row per slot."""

_OVERFLOWS = 0.1
"""Largest share of a pair's steps that may be lost to overflows in float16; a larger share is an error."""
_BACK_OFF = 16.0
"""The scale of a pair's loss is divided by this number when the pair's gradient overflows."""
_SHAPES = 8
"""Maximum number of different batch sizes that a compiled net may get, because each new size compiles the net again."""


Watcher = Callable[[Snapshot], None]


class MaskProblem(ABC):
    """Defines what a method learns: the initial state, the loss and the update rule of (image, label) pairs.

    The state is a :data:`Slots` dict with one row for each of P pairs. It holds ``images``, ``image_of`` (the index of the image),
    ``labels``, ``keys`` (for random numbers), ``step`` (the number of steps taken), and the tensors that :meth:`enter` returns. K is the
    number of masks per pair.
    """

    steps: int
    """Maximum number of steps of a pair."""
    cost: int
    """Passes of the net per pair and step."""
    memory: float = 0.999
    """Decay of Adam's second moment."""
    momentum: float = 0.9
    """Decay of Adam's first moment."""
    rate: float
    """First step size of Adam, unless :meth:`rates` is overridden."""
    falls: bool = True
    """Whether the step size falls to zero like half a cosine wave."""

    def __init__(self, settings: Any, session: Session, fast: Classifier) -> None:
        """``settings`` is the method, and ``fast`` the session's net in the precision in which masks are learned."""
        self.session, self.classifier, self.inputs = session, fast, fast.inputs

    @abstractmethod
    def enter(self, slots: Slots) -> Slots:
        """Return the initial state of P new pairs: the learned ``weights`` ``(P, K, *grid)``, and other tensors with one row per pair."""

    @abstractmethod
    def losses(self, weights: Tensor, slots: Slots) -> Tensor:
        """Return the loss ``(P,)`` of each pair, differentiable in the weights. The method may update other tensors in ``slots`` in place."""

    @abstractmethod
    def masks(self, weights: Tensor) -> Tensor:
        """Masks ``(P, K, *positions)`` from weights ``(P, K, *grid)``."""

    def rates(self, step: Tensor) -> Tensor:
        """Adam step sizes ``(P,)`` at the steps ``step`` ``(P,)``, counted from 0."""
        return decayed(self.rate, step, self.steps if self.falls else None)

    def move(self, slots: Slots, gradient: Tensor) -> None:
        """Update the weights of every slot in place, given the gradient of its loss. ``slots["step"]`` already includes this step."""
        self.adam(slots, gradient, self.rates(slots["step"] - 1))

    def adam(self, slots: Slots, gradient: Tensor, rates: Tensor) -> None:
        """Update the weights of every slot in place by one step of Adam with the step sizes ``rates`` ``(P,)``."""
        adam_step(slots, gradient, rates, self.memory, self.momentum)

    def finished(self, slots: Slots) -> Tensor:
        """The masks ``(P, K, *positions)`` of the pairs in ``slots``. Override this method if masks depend on more than the weights."""
        return self.masks(slots["weights"])

    @staticmethod
    def distinct_images(slots: Slots) -> tuple[Tensor, Tensor]:
        """The index of the first slot with each distinct image ``(D,)``, and for every slot the index of its image among these ``(P,)``."""
        distinct, place = torch.unique(slots["image_of"], return_inverse=True)
        rows = torch.arange(len(place), device=place.device)
        return torch.full_like(distinct, len(rows)).scatter_reduce(0, place, rows, "amin"), place

    @staticmethod
    def own_label(values: Tensor, slots: Slots) -> Tensor:
        """The values ``(P, D)`` of each pair's own label, selected from the values ``(P, D, A)`` of all labels."""
        return values.gather(2, slots["labels"].view(-1, 1, 1).expand(-1, values.shape[1], 1))[..., 0]


@dataclass
class MaskEngine:
    """Learns the masks of all pairs of a problem: ``MaskEngine(problem, batch).run(images, image_of, labels, keys, task)``.

    Args:
        problem: what is learned.
        batch: the number of passes that the net can run at once.
        fixed: keep idle slots, because a compiled net needs a constant batch size.
        scale: for half precision, losses are multiplied by this number and gradients divided by it. The scale of a pair is reduced if its
            gradient overflows.
        watch: callback that receives the mask of each pair after every ``every`` steps; it does not change what is learned.
    """

    problem: MaskProblem
    batch: BatchSize
    fixed: bool = False
    scale: float = 1.0
    watch: Watcher | None = None
    every: int = 10

    def run(
        self, images: Tensor, image_of: Tensor, labels: Tensor, keys: Tensor, task: ProgressTask
    ) -> Tensor:
        """Learn n pairs, and return their masks ``(n, K, *positions)`` after the last step.

        ``images`` is ``(N, *shape)``. For each pair, ``image_of`` ``(n,)`` is the index of its image, ``labels`` ``(n,)`` its label, and
        ``keys`` ``(n,)`` the key of its random numbers.
        """
        found: list[Tensor] = []
        while (first := sum(map(len, found))) < len(labels):
            seats = self._seats(len(labels))
            pairs = torch.arange(first, min(first + seats, len(labels)), device=labels.device)
            idle = pairs[:1].expand(seats - len(pairs) if self.fixed else 0)
            which = torch.cat([pairs, idle])
            rows = {"image_of": image_of[which], "labels": labels[which], "keys": keys[which]}
            try:
                found.append(self._learn({"images": images[rows["image_of"]], **rows}, pairs.tolist(), task))
                continue
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
            # outside the except block, so that the traceback no longer keeps the failed step's tensors alive
            self.batch.shrink(seats, cost=self.problem.cost, item="map")
        return torch.cat(found)

    def _seats(self, pairs: int) -> int:
        """Number of slots for this number of pairs, chosen so that all batches are equally full."""
        most = max(1, self.batch.size // self.problem.cost)
        rounds = -(-pairs // most)
        seats = -(-pairs // rounds)
        part = -(-most // _SHAPES)
        return min(most, -(-seats // part) * part) if self.fixed else seats

    def _learn(self, slots: Slots, pairs: list[int], task: ProgressTask) -> Tensor:
        """The masks of the ``pairs`` in the first slots, after all steps."""
        slots, last = self._entered(slots), self.problem.steps
        for step in range(1, last + 1):
            losses = self._step(slots)
            note = f"loss {losses.mean().item():.3f}" if step % 20 == 0 else ""
            task.advance(len(pairs) * self.problem.cost, note)
            if self.watch is not None and (step % self.every == 0 or step == last):
                for pair, mask in zip(pairs, self.problem.finished(slots), strict=False):
                    self.watch(Snapshot(pair, step, last, mask.amax(dim=0)))
        if bool((slots["overflows"] > _OVERFLOWS * last).any()):
            raise InputError(
                "the net's gradients overflow in float16, so masks cannot be learned in it; set precision=float32"
            )
        return self.problem.finished(slots)[: len(pairs)]

    def _step(self, slots: Slots) -> Tensor:
        """Take one step in every slot, and return the losses ``(P,)``."""
        with torch.enable_grad():
            weights = slots["weights"].detach().requires_grad_(True)
            losses = self.problem.losses(weights, slots)
            (gradient,) = torch.autograd.grad((slots["scale"] * losses).sum(), weights)
        if self.scale != 1.0:
            gradient = self._unscaled(gradient, slots)
        slots["step"] += 1
        with torch.no_grad():
            self.problem.move(slots, gradient)
        return losses.detach()

    def _unscaled(self, gradient: Tensor, slots: Slots) -> Tensor:
        """Return the gradient of the unscaled loss. A pair whose gradient overflowed in half precision gets the gradient zero; its overflow is
        counted and its scale reduced.

        All scales are powers of two, so the steps of a pair do not depend on its scale, except for overflow and underflow.
        """
        fine, shape = gradient.flatten(1).isfinite().all(dim=1), (-1, *[1] * (gradient.ndim - 1))
        slots["overflows"] += ~fine
        unscaled = (gradient / slots["scale"].view(shape)).where(fine.view(shape), 0.0)
        slots["scale"].div_(_BACK_OFF ** (~fine).float())
        return unscaled

    def _entered(self, slots: Slots) -> Slots:
        slots["step"] = torch.zeros_like(slots["labels"])
        brought = self.problem.enter(slots)
        # a copy of their own: steps write into them
        slots |= {name: rows.clone(memory_format=torch.contiguous_format) for name, rows in brought.items()}
        slots["overflows"] = torch.zeros_like(slots["step"])
        slots["scale"] = torch.full_like(slots["step"], self.scale, dtype=torch.float32)
        slots["first"] = torch.zeros_like(slots["weights"])
        slots["second"] = torch.zeros_like(slots["weights"])
        return slots


def adam_step(slots: Slots, gradient: Tensor, rates: Tensor, memory: float, momentum: float = 0.9) -> None:
    """Update ``slots["weights"]`` in place by Adam's rule (Kingma and Ba 2015; epsilon 1e-8). Each slot has its own rate ``(P,)`` and step
    count.

    ``memory`` and ``momentum`` are the decays of the second and the first moment. ``torch.optim`` is not used: its step count is the same
    for all slots, and it loads the compiler machinery, which takes longer than many of our runs.
    """
    first, second, shape = slots["first"], slots["second"], (-1, *[1] * (gradient.ndim - 1))
    first.lerp_(gradient, 1 - momentum)
    second.mul_(memory).addcmul_(gradient, gradient, value=1 - memory)
    t = slots["step"].to(gradient.dtype)
    # 1 - b^t as expm1: the plain form loses five digits where b is near 1
    size = (rates / -torch.expm1(t * math.log(momentum))).view(shape)
    scale = (-torch.expm1(t * math.log(memory))).sqrt().view(shape)
    slots["weights"].sub_(size * first / (second.sqrt() / scale + 1e-8))


def decayed(rate: float, step: Tensor, steps: int | None) -> Tensor:
    """The learning rate ``(P,)`` at steps ``(P,)`` counted from zero. It is ``rate`` if ``steps`` is None; otherwise it falls from ``rate`` to
    zero over ``steps`` like half a cosine wave.

    >>> decayed(0.2, torch.tensor([0, 50, 100]), 100)
    tensor([0.2000, 0.1000, 0.0000])
    """
    if steps is None:
        return torch.full(step.shape, rate, device=step.device)
    return 0.5 * rate * (1 + torch.cos(step * (math.pi / steps)))
