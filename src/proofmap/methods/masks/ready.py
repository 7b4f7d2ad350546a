"""What methods of learned masks have in common once they are ready for a net."""

from __future__ import annotations

import dataclasses
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.classifier.kernels import steady_kernels
from proofmap.core import streams
from proofmap.core.labels import NO_LABEL
from proofmap.core.progress import Progress
from proofmap.fills import ReadyFill
from proofmap.methods.masks.engine import HALF_SCALE, MaskEngine, Pairs, Problem, Slots, Snapshot
from proofmap.methods.masks.precision import chosen_compile, chosen_precision
from proofmap.methods.masks.terms import upsampling
from proofmap.methods.method import ReadyMethod

PRECISION_HELP = "how the net is run while learning; auto is float16 on a GPU where the net bears it"
COMPILE_HELP = "run the net through torch.compile; none means where it pays: long work on a GPU"

MapWatcher = Callable[[int, int, Snapshot], None]
"""Called with the index of the image, the label, and the mask as it is then."""


@dataclass(frozen=True, eq=False)
class ReadyMaskMethod(ReadyMethod):
    """A method that learns masks, with the precision that was chosen for its net.

    >>> import proofmap as pm
    >>> f = pm.Classifier(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(48, 2)), size=4)
    >>> ready, seen = pm.LearnedMask(steps=20, fill="gray").prepare(f), []
    >>> ready = ready.watched(lambda image, label, snapshot: seen.append((label, snapshot.step)))
    >>> _ = ready(torch.rand(1, 3, 4, 4), torch.tensor([[1]]))
    >>> seen
    [(1, 10), (1, 20)]
    """

    dtype: torch.dtype
    watching: tuple[MapWatcher, int] | None = dataclasses.field(default=None, kw_only=True)
    """Who is shown masks on their way, and every how many steps."""

    @abstractmethod
    def problem(self, fast: Classifier) -> Problem:
        """What is learned, on the fast view of the net."""

    def record(self) -> dict[str, object]:
        return {**super().record(), "precision": str(self.dtype).removeprefix("torch.")}

    def watched(self, watch: MapWatcher, every: int = 10) -> Self:
        """The same method, which shows each mask every so many steps while it is learned."""
        return dataclasses.replace(self, watching=(watch, every))

    def each_mask(self, images: Tensor, labels: Tensor, *, seed: int, progress: Progress) -> Tensor:
        """The K masks ``(N, L, K, *positions)`` before they are merged into one map."""
        method: Any = self.method
        places = (labels != NO_LABEL).nonzero()
        image_of, label_of = places[:, 0], labels[places[:, 0], places[:, 1]]
        listed = list(zip(image_of.tolist(), label_of.tolist(), strict=True))
        cost = self.cost(len(listed))
        passes = 0 if cost is None else cost.gradient
        compiled = chosen_compile(self.classifier, method.compile, passes)
        fast = self.classifier.frozen(dtype=self.dtype, compile=compiled)
        pairs = Pairs(images, image_of, label_of, streams.pair_keys(images, listed, seed, method.name))
        engine = MaskEngine(
            self.problem(fast),
            fast.batches[1],
            fixed=compiled,
            scale=HALF_SCALE if self.dtype == torch.float16 else 1.0,
        )
        if self.watching is not None:
            watch, engine.every = self.watching
            engine.watch = lambda snapshot: watch(*listed[snapshot.pair], snapshot)
        with progress.task(method.name, passes) as task, steady_kernels(tf32=True):
            learned = engine.run(pairs, task)
        masks = images.new_zeros(*labels.shape, learned.shape[1], *fast.inputs.positions)
        masks[places[:, 0], places[:, 1]] = learned
        return masks

    def compute(self, images: Tensor, labels: Tensor, *, seed: int, progress: Progress) -> Tensor:
        return self.merged(self.each_mask(images, labels, seed=seed, progress=progress))

    def merged(self, masks: Tensor) -> Tensor:
        """Maps ``(N, L, *positions)`` of the K masks ``(N, L, K, *positions)`` that were learned: the first, where K is 1."""
        return masks[:, :, 0]


@dataclass(frozen=True, eq=False)
class ReadyFilledMaskMethod(ReadyMaskMethod):
    """A method that learns masks with one fill, which is ready for its net."""

    fill: ReadyFill

    @classmethod
    def of(cls, method: Any, classifier: Classifier) -> Self:
        """Made from a method with the settings ``precision`` and ``fill``."""
        dtype = chosen_precision(classifier, method.precision)
        return cls(method, classifier, dtype, method.fill.prepare(classifier))

    def record(self) -> dict[str, object]:
        return {**super().record(), "fill": self.fill.record()}


def distinct_images(slots: Slots) -> tuple[Tensor, Tensor]:
    """One row of each image among the slots, and for every row the place of its image among those: what labels share."""
    distinct, place = torch.unique(slots["image_of"], return_inverse=True)
    rows = torch.arange(len(place), device=place.device)
    return torch.full_like(distinct, len(rows)).scatter_reduce(0, place, rows, "amin"), place


class Stage:
    """What composites are made of: inputs, and what hides them, both as the net takes them.

    Slots remember them normalised and in the net's precision: the inputs as ``seen``, what the k-th fill shows as ``hidden k``. Masks
    mix them there, and the composites go into the net as they are. Normalising is affine, so this is the normalised
    composite; in half precision inputs, masks and composites are each rounded once (see
    :meth:`~proofmap.core.inputs.Inputs.composite`), where the composite alone would be.
    """

    def __init__(self, classifier: Classifier, *fills: ReadyFill) -> None:
        self.classifier, self.fills = classifier, fills

    def enter(self, slots: Slots) -> Slots:
        """What pairs remember, made once per image; nothing for fills that are drawn anew each step."""
        first, place = distinct_images(slots)
        images, keys = slots["images"][first], slots["keys"][first]
        brought = {"seen": self.classifier.normalised(images)[place]}
        for k, fill in enumerate(self.fills):
            if not fill.random:
                brought[f"hidden {k}"] = self.classifier.normalised(fill(images, keys))[place]
        return brought

    def hidden(self, slots: Slots, keys: Tensor, k: int = 0) -> Tensor:
        """What the k-th fill shows: what is remembered ``(P, 1, *shape)``, or fresh draws for keys ``(P, D)``: ``(P, D, *shape)``."""
        if not self.fills[k].random:
            return slots[f"hidden {k}"][:, None]
        images = slots["images"][:, None].expand(-1, keys.shape[1], *slots["images"].shape[1:])
        drawn = self.fills[k](images.flatten(0, 1), keys.flatten())
        return self.classifier.normalised(drawn).view_as(images)


def grid_cells(classifier: Classifier, grid: int) -> list[int]:
    """Cells along each axis, where the longest one has ``grid``: at most one for each position."""
    positions = classifier.inputs.positions
    longest = max(positions)
    return [-(-side * min(grid, longest) // longest) for side in positions]


def grid_matrices(
    classifier: Classifier, cells: Sequence[int], *, corners: bool = False
) -> tuple[Tensor, ...]:
    """One matrix of :func:`upsampling` per axis, from a grid of so many cells along each.

    Positions without neighbours have no coarser grid.
    """
    inputs = classifier.inputs
    return tuple(
        upsampling(
            max(1, few) if inputs.has_neighbours else side,
            side,
            corners=corners and inputs.has_neighbours,
            device=classifier.device,
        )
        for few, side in zip(cells, inputs.positions, strict=True)
    )
