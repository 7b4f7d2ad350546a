"""One engine for every method that learns masks.

(image, label) pairs occupy slots and are learned side by side, one step at a time (of Adam, unless the method has its own rule). A pair
that has done its steps, or has settled earlier, leaves with its masks, and the next pair enters. What a method learns is a
:class:`MaskProblem`. The engine fills slots, chooses how many fit the device, and continues with fewer when its memory runs out. Random
numbers belong to the pair and its own step count, so the result of a pair does not depend on the other pairs.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from proofmap.core.batching import BatchSize, is_out_of_memory, shrink
from proofmap.core.errors import InputError
from proofmap.core.progress import ProgressTask

Slots = dict[str, Tensor]
"""Everything that belongs to the pairs being learned, by name; every tensor has one row per slot."""

_LOOK = 10
"""Steps between two checks whether a pair has settled: each check waits for the device."""
_OVERFLOWS = 0.1
"""The share of a pair's steps that may be lost to overflows."""
_BACK_OFF = 16.0
"""The factor by which a pair's scale falls when its gradient overflows."""
_SHAPES = 8
"""Different numbers of slots that a compiled net may get: each one compiles it again."""
HALF_SCALE = 256.0
"""Factor of losses in float16, so that small gradients do not become zero."""


@dataclass(frozen=True)
class Pairs:
    """The pairs to learn: the images ``(n, *shape)``, labels ``(n,)`` and stream keys ``(n,)`` of n pairs."""

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


@dataclass(frozen=True)
class Snapshot:
    """An intermediate mask of a pair, after ``step`` of its ``steps``."""

    pair: int
    step: int
    steps: int
    mask: Tensor


Watcher = Callable[[Snapshot], None]


class MaskProblem(ABC):
    """What a method learns.

    Slots hold ``images``, ``image_of`` (equal for pairs of one image), ``labels``, ``keys`` and ``step``, and what :meth:`enter` adds.
    """

    steps: int
    """Maximum number of steps of a pair."""
    cost: int
    """Passes of the net per pair and step."""
    memory: float = 0.999
    """Decay of Adam's second moment."""
    momentum: float = 0.9
    """Decay of Adam's first moment."""

    @abstractmethod
    def enter(self, slots: Slots) -> Slots:
        """The initial state of new pairs: ``weights`` ``(P, K, *grid)``, and other tensors that belong to a pair."""

    @abstractmethod
    def losses(self, weights: Tensor, slots: Slots) -> Tensor:
        """The loss of each pair ``(P,)``, differentiable in the weights. It may update other tensors of the pairs in place."""

    @abstractmethod
    def masks(self, weights: Tensor) -> Tensor:
        """Masks ``(P, K, *positions)`` from weights."""

    def rates(self, step: Tensor) -> Tensor:
        """Adam step sizes for the steps ``(P,)``; the first step is 0."""
        raise NotImplementedError(f"{type(self).__name__} must define rates() or move()")

    def move(self, slots: Slots, gradient: Tensor) -> None:
        """Update the weights of every slot in place, given the gradient of its loss; ``step`` already counts this step."""
        adam_step(slots, gradient, self.rates(slots["step"] - 1), self.memory, self.momentum)

    def finished(self, slots: Slots) -> Tensor:
        """Masks ``(P, K, *positions)`` of pairs in slots. Override it if masks depend on more than the weights."""
        return self.masks(slots["weights"])

    def settled(self, slots: Slots) -> Tensor | None:
        """Which pairs ``(P,)`` need no further step; None if every pair takes all its steps."""
        return None


@dataclass
class MaskEngine:
    """Learns all pairs of a problem: ``MaskEngine(problem, batch).run(pairs, task)``.

    Args:
        batch: passes of the net at once.
        fixed: keep all slots to the end, even idle ones, because a compiled net needs one shape.
        scale: for half precision, losses are multiplied by this number and gradients divided by it. It falls for a pair whose gradient
            overflows.
        watch: callback that receives every mask after each ``every`` steps; it does not change what is learned.
    """

    problem: MaskProblem
    batch: BatchSize
    fixed: bool = False
    scale: float = 1.0
    watch: Watcher | None = None
    every: int = 10
    taken: list[int] = field(default_factory=list, init=False)
    """Number of steps that each pair has taken."""

    def run(self, pairs: Pairs, task: ProgressTask) -> Tensor:
        """The masks ``(n, K, *positions)`` of all pairs after their last step."""
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
            shrink(self.batch, seats, cost=self.problem.cost, item="map")
        return torch.stack([results[pair] for pair in range(len(pairs))])

    def _seats(self, waiting: int) -> int:
        """Number of slots for ``waiting`` pairs, chosen so that all batches are equally full."""
        most = max(1, self.batch.size // self.problem.cost)
        rounds = -(-waiting // most)
        seats = -(-waiting // rounds)
        part = -(-most // _SHAPES)
        return min(most, -(-seats // part) * part) if self.fixed else seats

    def _learn(
        self, pairs: Pairs, waiting: deque[int], seats: int, results: dict[int, Tensor], task: ProgressTask
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
        """One step for every slot; returns the losses ``(P,)``."""
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
        """The gradient of the unscaled loss. If half precision overflowed, it is zero, the overflow is counted, and the pair's scale is
        reduced.

        All scales are powers of two, so that a pair's steps do not depend on its scale, except for overflow and underflow.
        """
        fine, shape = gradient.flatten(1).isfinite().all(dim=1), (-1, *[1] * (gradient.ndim - 1))
        slots["overflows"] += ~fine
        unscaled = (gradient / slots["scale"].view(shape)).where(fine.view(shape), 0.0)
        slots["scale"].div_(_BACK_OFF ** (~fine).float())
        return unscaled

    def _leaving(self, slots: Slots, seated: list[int]) -> list[int]:
        """The slots whose pair has done all its steps or has settled. When a pair is checked depends only on its own step count."""
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
        self, pairs: Pairs, slots: Slots, seated: list[int], waiting: deque[int]
    ) -> tuple[Slots, list[int]]:
        """Put the next pairs into free slots. Slots that stay free are removed unless their number is fixed."""
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

    def _entered(self, pairs: Pairs, which: list[int]) -> Slots:
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
    """Move ``weights`` in place by Adam's rule (Kingma and Ba 2015; epsilon 1e-8), each slot by its own rate and step count.

    Written out because every slot has its own step count, and because ``torch.optim`` loads the compiler machinery, which takes longer
    than many of our runs.
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
    """The rate at steps ``(P,)`` counted from zero. It is constant, or falls to zero over ``steps`` like half a cosine wave.

    >>> decayed(0.2, torch.tensor([0, 50, 100]), 100)
    tensor([0.2000, 0.1000, 0.0000])
    """
    if steps is None:
        return torch.full(step.shape, rate, device=step.device)
    return 0.5 * rate * (1 + torch.cos(step * (math.pi / steps)))
