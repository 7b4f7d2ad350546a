"""The engine that learns masks for all mask methods.

A *pair* is one image and one label; every pair has masks of its own. A *slot* is one row of the batch, and holds the state of the pair that
is learned there. The pairs in all slots take their steps together. A step is one step of Adam, unless the method defines another rule. A
pair leaves its slot after its last step, or earlier if it has settled (needs no further step), and the next waiting pair takes the slot. A
:class:`MaskProblem` defines what a method learns. The engine chooses the number of slots that fit into memory, and continues with fewer
slots if memory runs out. The random numbers of a pair depend only on the pair and on its own step count, so the result of a pair does not
depend on the other pairs.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
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

_LOOK = 10
"""Number of steps between two checks whether a pair has settled. Checks are rare because each one waits for the device."""
_OVERFLOWS = 0.1
"""Largest share of a pair's steps that may be lost to overflows in float16; a larger share is an error."""
_BACK_OFF = 16.0
"""The scale of a pair's loss is divided by this number when the pair's gradient overflows."""
_SHAPES = 8
"""Maximum number of different batch sizes that a compiled net may get, because each new size compiles the net again."""


@dataclass(frozen=True)
class _Pairs:
    """The n (image, label) pairs to learn, as in :meth:`MaskEngine.run`."""

    images: Tensor
    image_of: Tensor
    labels: Tensor
    keys: Tensor

    def __len__(self) -> int:
        return len(self.labels)

    def rows(self, which: list[int]) -> Slots:
        chosen = torch.tensor(which, device=self.labels.device)
        image_of = self.image_of[chosen]
        images = self.images[image_of]
        return {
            "images": images,
            "image_of": image_of,
            "labels": self.labels[chosen],
            "keys": self.keys[chosen],
        }


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

    def settled(self, slots: Slots) -> Tensor | None:
        """Boolean mask ``(P,)`` of the pairs that need no further step; None if every pair takes all its steps."""
        return None

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
        fixed: keep all slots to the end, even idle ones, because a compiled net needs a constant batch size.
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
    taken: list[int] = field(default_factory=list, init=False)
    """Number of steps that each pair has taken."""

    def run(
        self, images: Tensor, image_of: Tensor, labels: Tensor, keys: Tensor, task: ProgressTask
    ) -> Tensor:
        """Learn n pairs, and return their masks ``(n, K, *positions)`` after the last step.

        ``images`` is ``(N, *shape)``. For each pair, ``image_of`` ``(n,)`` is the index of its image, ``labels`` ``(n,)`` its label, and
        ``keys`` ``(n,)`` the key of its random numbers.
        """
        pairs = _Pairs(images, image_of, labels, keys)
        results: dict[int, Tensor] = {}
        self.taken = [0] * len(pairs)
        while len(results) < len(pairs):
            waiting = deque(pair for pair in range(len(pairs)) if pair not in results)
            seats = self._seats(len(waiting))
            try:
                self._learn(pairs, waiting, seats, results, task)
                continue
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
            # outside the except block, so that the traceback no longer keeps the failed step's tensors alive
            self.batch.shrink(seats, cost=self.problem.cost, item="map")
        return torch.stack([results[pair] for pair in range(len(pairs))])

    def _seats(self, waiting: int) -> int:
        """Number of slots for ``waiting`` pairs, chosen so that all batches are equally full."""
        most = max(1, self.batch.size // self.problem.cost)
        rounds = -(-waiting // most)
        seats = -(-waiting // rounds)
        part = -(-most // _SHAPES)
        return min(most, -(-seats // part) * part) if self.fixed else seats

    def _learn(
        self, pairs: _Pairs, waiting: deque[int], seats: int, results: dict[int, Tensor], task: ProgressTask
    ) -> None:
        seated = [waiting.popleft() for _ in range(min(seats, len(waiting)))]
        idle = [-1] * (seats - len(seated))
        slots, turn = self._entered(pairs, seated + seated[:1] * len(idle)), 0
        seated += idle
        while any(pair >= 0 for pair in seated):
            losses, turn = self._step(slots), turn + 1
            active = [pair for pair in seated if pair >= 0]
            for pair in active:
                self.taken[pair] += 1
            note = f"loss {losses.mean().item():.3f}" if turn % 20 == 0 else ""
            task.advance(len(active) * self.problem.cost, note)
            self._show(slots, seated)
            leaving = self._leaving(slots, seated)
            if leaving:
                self._leave(slots, seated, leaving, results, task)
                slots, seated = self._refilled(pairs, slots, seated, waiting)

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

    def _leaving(self, slots: Slots, seated: list[int]) -> list[int]:
        """Indices of the slots whose pair has taken all its steps or has settled. When a pair is checked depends only on its own step count."""
        taken = [self.taken[pair] if pair >= 0 else -1 for pair in seated]
        leaving = {slot for slot, steps in enumerate(taken) if steps >= self.problem.steps}
        asked = [slot for slot, steps in enumerate(taken) if steps > 0 and steps % _LOOK == 0]
        settled = self.problem.settled(slots) if asked else None
        if settled is not None:
            yes = settled.tolist()
            leaving |= {slot for slot in asked if yes[slot]}
        return sorted(leaving)

    def _leave(
        self,
        slots: Slots,
        seated: list[int],
        leaving: list[int],
        results: dict[int, Tensor],
        task: ProgressTask,
    ) -> None:
        lost = slots["overflows"][leaving].float() > _OVERFLOWS * slots["step"][leaving]
        if bool(lost.any()):
            raise InputError(
                "the net's gradients overflow in float16, so masks cannot be learned in it; set precision=float32"
            )
        masks = self.problem.finished(_rows(slots, leaving))
        for slot, mask in zip(leaving, masks, strict=True):
            pair, seated[slot] = seated[slot], -1
            results[pair] = mask
            saved = self.problem.steps - self.taken[pair]
            if saved:
                task.advance(saved * self.problem.cost, "settled early")

    def _refilled(
        self, pairs: _Pairs, slots: Slots, seated: list[int], waiting: deque[int]
    ) -> tuple[Slots, list[int]]:
        """Put the next pairs into free slots. Return the slots, and the index of the pair in each slot (-1 if it is free). Slots that stay
        free are removed, unless the number of slots is fixed.
        """
        free = [slot for slot, pair in enumerate(seated) if pair < 0]
        entering = [waiting.popleft() for _ in range(min(len(free), len(waiting)))]
        if entering:
            taken = free[: len(entering)]
            for name, rows in self._entered(pairs, entering).items():
                slots[name][taken] = rows
            for slot, pair in zip(taken, entering, strict=True):
                seated[slot] = pair
        kept = [slot for slot, pair in enumerate(seated) if pair >= 0]
        if not kept or len(kept) == len(seated) or self.fixed:
            return slots, seated
        return _rows(slots, kept), [seated[slot] for slot in kept]

    def _entered(self, pairs: _Pairs, which: list[int]) -> Slots:
        slots = pairs.rows(which)
        for pair in which:
            self.taken[pair] = 0
        slots["step"] = torch.zeros(len(which), dtype=torch.long, device=slots["labels"].device)
        brought = self.problem.enter(slots)
        # a copy of their own: rows are overwritten when the next pairs enter
        slots |= {name: rows.clone(memory_format=torch.contiguous_format) for name, rows in brought.items()}
        slots["overflows"] = torch.zeros_like(slots["step"])
        slots["scale"] = torch.full_like(slots["step"], self.scale, dtype=torch.float32)
        slots["first"] = torch.zeros_like(slots["weights"])
        slots["second"] = torch.zeros_like(slots["weights"])
        return slots

    def _show(self, slots: Slots, seated: list[int]) -> None:
        if self.watch is None:
            return
        due = [
            slot
            for slot, pair in enumerate(seated)
            if pair >= 0 and (self.taken[pair] % self.every == 0 or self.taken[pair] == self.problem.steps)
        ]
        if not due:
            return
        for slot, mask in zip(due, self.problem.finished(_rows(slots, due)), strict=True):
            pair = seated[slot]
            self.watch(Snapshot(pair, self.taken[pair], self.problem.steps, mask.amax(dim=0)))


def _rows(slots: Slots, which: list[int]) -> Slots:
    return {name: rows[which] for name, rows in slots.items()}


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
