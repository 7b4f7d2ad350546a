"""Base classes of methods that learn masks: how the net is run, how composites are made, the grid of a mask, and
fast noise.

A composite shows the input where a mask is 1, and a background where it is 0. A fill (:mod:`proofmap.fills`) makes the backgrounds.

New noise for every picture would cost as much as a pass of a small net. So one long sequence of normal numbers is drawn once. Each draw of
noise is a piece of this sequence, with a random start and a random sign. Such noise smooths a gradient as well as independent noise does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from proofmap.classifier import Classifier
from proofmap.classifier.kernels import steady_kernels
from proofmap.core import streams
from proofmap.core.inputs import TextInputs
from proofmap.core.labels import NO_LABEL
from proofmap.fills import Fill
from proofmap.methods.gradients.plain import check_differentiable
from proofmap.methods.grids import enlarged, upsamplings
from proofmap.methods.masks.engine import MaskEngine, MaskProblem, Slots
from proofmap.methods.method import Method
from proofmap.plugins.settings import setting
from proofmap.session import Session

Precision = Literal["auto", "float32", "float16", "bfloat16"]

_AGREE = 0.05
"""Largest difference between logits in half and in full precision at which ``precision="auto"`` chooses half precision."""
HALF_SCALE = 256.0
"""Factor of the losses in float16, so that small gradients do not become zero."""
_WORTH_COMPILING = 100_000
"""Number of passes in one call from which compiling the net (half a minute or more) saves time on a GPU."""


class MaskMethod(Method):
    """Base class of methods that learn masks."""

    family = "mask"
    learns: ClassVar[type[MaskProblem]]
    """What is learned."""
    stochastic = True
    precision: Precision = setting(
        "auto",
        "precision of the net while masks are learned; auto is float16 on a GPU if the net allows it",
        last=True,
    )

    def prepare(self, session: Session) -> None:
        super().prepare(session)
        self.dtype_in(session)

    def dtype_in(self, session: Session) -> torch.dtype:
        """The dtype in which the net runs while masks are learned."""
        return session.memo(
            ("precision", self.precision), lambda: chosen_precision(session.net, self.precision)
        )

    def record(self, session: Session) -> dict[str, object]:
        return {**super().record(session), "precision": str(self.dtype_in(session)).removeprefix("torch.")}

    def maps(self, session: Session, images: Tensor, labels: Tensor) -> Tensor:
        maps = self.merged(self.each_mask(session, images, labels))
        return self.closed(session, images, labels, maps)

    def each_mask(self, session: Session, images: Tensor, labels: Tensor) -> Tensor:
        """The K masks ``(N, L, K, *positions)`` of each image and label, before they are merged into one map."""
        net, dtype = session.net, self.dtype_in(session)
        places = (labels != NO_LABEL).nonzero()
        image_of, label_of = places[:, 0], labels[places[:, 0], places[:, 1]]
        listed = list(zip(image_of.tolist(), label_of.tolist(), strict=True))
        cost = self.cost(len(listed), session)
        passes = 0 if cost is None else cost.gradient
        wanted = self.compile if isinstance(self, WholeNet) else False
        compiled = chosen_compile(net, wanted, passes)
        fast = net.frozen(dtype=dtype, compile=compiled)
        keys = streams.pair_keys(images, listed, session.seed, self.name)
        scale = HALF_SCALE if dtype == torch.float16 else 1.0
        engine = MaskEngine(self.problem(session, fast), fast.batches[1], fixed=compiled, scale=scale)
        if session.watch is not None:
            watch, engine.every = session.watch, session.watch_every
            engine.watch = lambda snapshot: watch(*listed[snapshot.pair], snapshot)
        with session.progress.task(self.name, passes) as task, steady_kernels(tf32=True):
            learned = engine.run(images, image_of, label_of, keys, task)
        masks = images.new_zeros(*labels.shape, learned.shape[1], *fast.inputs.positions)
        masks[places[:, 0], places[:, 1]] = learned
        return masks

    def problem(self, session: Session, fast: Classifier) -> MaskProblem:
        """Return what is learned. ``fast`` is the classifier in the chosen precision, compiled if this was chosen."""
        return self.learns(self, session, fast)

    def merged(self, masks: Tensor) -> Tensor:
        """Maps ``(N, L, *positions)`` from the K learned masks ``(N, L, K, *positions)``. By default, the first mask."""
        return masks[:, :, 0]

    def closed(self, session: Session, images: Tensor, labels: Tensor, maps: Tensor) -> Tensor:
        """Correct the merged maps ``(N, L, *positions)`` after learning. By default, they are returned unchanged."""
        return maps


@dataclass(frozen=True, kw_only=True)
class WholeNet:
    """Adds the setting ``compile`` to methods that run the whole net while masks are learned, and not only a part of it."""

    compile: bool | None = setting(
        None,
        "run the net through torch.compile; none: only for long work on a GPU, where it saves time",
        last=True,
    )


# ---- how the net is run -----------------------------------------------------------------------------------------


def chosen_precision(classifier: Classifier, precision: Precision) -> torch.dtype:
    """The dtype in which the net runs while masks are learned.

    ``auto`` is the net's own dtype, except on a GPU. There it is float16, which is as fast as bfloat16 and eight times finer. On
    EfficientNet-Lite0 the probabilities in bfloat16 were 3.6 % off in the median, and those in float16 0.4 %. A mask cannot match the net's
    probability f better than that. A net whose logits change or overflow in float16 keeps its own dtype.
    """
    if precision != "auto":
        return getattr(torch, precision)  # type: ignore[no-any-return]
    own = classifier.dtype
    if classifier.device.type != "cuda" or not isinstance(classifier.net, nn.Module) or own != torch.float32:
        return own
    return torch.float16 if _bears(classifier, torch.float16) else own


def _bears(classifier: Classifier, dtype: torch.dtype) -> bool:
    """Whether the net works in the precision ``dtype``: for two probe inputs, logits and input gradients are finite, and the logits are nearly
    those in full precision.
    """
    probes = torch.cat([classifier.inputs.probe().to(classifier.device), classifier.blank(1)])
    with steady_kernels(tf32=False), torch.enable_grad():
        exact = classifier.frozen()(probes).detach()
        x = probes.clone().requires_grad_(True)
        try:
            logits = classifier.frozen(dtype=dtype)(x)
            (gradient,) = torch.autograd.grad(HALF_SCALE * logits.sum(), x)
        except RuntimeError:  # an operation that has no such precision, or fixed its own
            return False
    finite = bool(logits.isfinite().all()) and bool(gradient.isfinite().all())
    return finite and float((logits.detach() - exact).abs().amax()) <= _AGREE


def chosen_compile(classifier: Classifier, compile: bool | None, passes: int) -> bool:
    """Whether to compile the net: ``compile`` if it is not None, otherwise True if compiling saves time for this number of passes."""
    if compile is not None:
        return compile
    fixed = not isinstance(classifier.inputs, TextInputs)  # texts have many shapes
    able = classifier.device.type == "cuda" and isinstance(classifier.net, nn.Module) and fixed
    return able and passes >= _WORTH_COMPILING


# ---- what composites are made of --------------------------------------------------------------------------------


class CompositeProblem(MaskProblem):
    """Base class of problems that learn a mask on a coarse grid. The enlarged mask mixes the input and a background into a composite.

    The slots hold inputs as ``seen``, and the backgrounds of the k-th fill as ``hidden k``. Both are normalised and in the net's precision,
    so composites go into the net unchanged. Normalising is affine, so a mix of normalised tensors is the normalised composite. In half
    precision inputs, masks and composites are each rounded once (see :meth:`~proofmap.core.inputs.Inputs.composite`).
    """

    def __init__(
        self,
        settings: MaskMethod,
        session: Session,
        fast: Classifier,
        *fills: Fill,
        grid: int | Sequence[int],
        corners: bool = False,
    ) -> None:
        """``grid`` is the number of cells along each side, or along the longest side, with proportionally fewer along the others.

        If positions have no neighbours, the grid has one cell for each position.
        """
        super().__init__(settings, session, fast)
        self.fills = fills
        sides, near = self.inputs.positions, self.inputs.has_neighbours
        if isinstance(grid, int):
            grid = [-(-side * min(grid, max(sides)) // max(sides)) for side in sides]
        self.up = upsamplings(grid if near else sides, sides, corners=corners and near, device=fast.device)

    def enter(self, slots: Slots) -> Slots:
        """Return the normalised images, and the normalised backgrounds of fills that are not random. Both are computed once per image, not
        once per pair.
        """
        first, place = self.distinct_images(slots)
        images, keys = slots["images"][first], slots["keys"][first]
        brought = {"seen": self.classifier.normalised(images)[place]}
        for k, fill in enumerate(self.fills):
            if not fill.random and not fill.reads_mask:
                brought[f"hidden {k}"] = self.classifier.normalised(fill(self.session, images, keys))[place]
        return brought

    def even_weights(self, slots: Slots, value: float, masks: int = 1) -> Tensor:
        """Initial weights ``(P, masks, *grid)``, all equal to ``value``."""
        cells = (matrix.shape[1] for matrix in self.up)
        return slots["images"].new_full((len(slots["images"]), masks, *cells), value)

    def masks(self, weights: Tensor) -> Tensor:
        return enlarged(weights, self.up)

    def hidden(self, slots: Slots, keys: Tensor, k: int = 0, keep: Tensor | None = None) -> Tensor:
        """Normalised backgrounds of the k-th fill: the stored ones ``(P, 1, *shape)`` if the fill is not random, else a new draw ``(P, D,
        *shape)`` for each of the keys ``(P, D)``. A fill that reads the mask is told what is shown: ``keep`` ``(P, D, *positions)``.
        """
        if f"hidden {k}" in slots:
            return slots[f"hidden {k}"][:, None]
        images = slots["images"][:, None].expand(-1, keys.shape[1], *slots["images"].shape[1:])
        given = images.flatten(0, 1), keys.flatten()
        if keep is None:
            drawn = self.fills[k](self.session, *given)
        else:
            drawn = self.fills[k].behind(self.session, *given, keep.flatten(0, 1))
        return self.classifier.normalised(drawn).view_as(images)

    def logits(self, composites: Tensor) -> Tensor:
        """The logits ``(P, D, A)`` of all A labels for normalised composites ``(P, D, *shape)``."""
        logits = self.classifier.from_normalised(composites.flatten(0, 1))
        if torch.is_grad_enabled():
            check_differentiable(logits)  # the penalties alone would give a map, too
        return logits.view(*composites.shape[:2], -1)

    def log_f(self, composites: Tensor, slots: Slots) -> Tensor:
        """log f ``(P, D)``: the log-probability of each pair's label for its normalised composites ``(P, D, *shape)``."""
        return self.own_label(self.classifier.log_f(self.logits(composites)), slots)


def total_variation(
    masks: Tensor, *, power: Literal["squared", "absolute"] = "squared", border: bool = True, axes: int = 2
) -> Tensor:
    """Sum of squared (or absolute) differences of neighbours along the last ``axes`` of masks ``(..., *positions)``.

    ``border=False`` uses only differences that start in the first (H-1) x (W-1) positions. It leaves out those along the last row and
    column, as the released code of the paper does.

    >>> total_variation(torch.tensor([[0.0, 1.0], [0.0, 3.0]]))
    tensor(14.)
    >>> total_variation(torch.tensor([[0.0, 1.0], [0.0, 3.0]]), border=False)
    tensor(1.)
    """
    total: Tensor | None = None
    for axis in range(-axes, 0):
        difference = masks.diff(dim=axis)
        if not border:
            for other in range(-axes, 0):
                if other != axis:
                    difference = difference.narrow(other, 0, difference.shape[other] - 1)
        size = difference.square() if power == "squared" else difference.abs()
        summed = size.sum(dim=tuple(range(-axes, 0)))
        total = summed if total is None else total + summed
    assert total is not None, "masks have at least one axis"
    return total


_PLACES = 1 << 18
"""Number of indices of the noise sequence at which a piece may start."""


def add_noise_(values: Tensor, keys: Tensor, sigma: float) -> Tensor:
    """Add standard normal noise, times ``sigma``, to ``values`` in place. Each key, of the first axes of ``values``, has its own draw; equal
    keys have equal draws. In half precision, the noise is rounded too.

    >>> noise = add_noise_(torch.zeros(3, 5, 7), torch.tensor([3, 4, 3]), 1.0)
    >>> torch.equal(noise[0], noise[2]), torch.equal(noise[0], noise[1])
    (True, False)
    """
    return values.addcmul_(*_drawn(values, keys), value=sigma)


def _drawn(values: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
    """For each key, a piece of the noise sequence in the shape of the key's values, and the sign of the piece."""
    shape = values.shape[keys.ndim :]
    pieces = _line(shape.numel(), values.device, values.dtype).unfold(0, shape.numel(), 1)
    drawn = streams.random_words(keys, 2)
    signs = (1 - 2 * (drawn[..., 1] & 1)).to(values.dtype)
    places = (drawn[..., 0] * _PLACES) >> 32
    return pieces[places].view(values.shape), signs.view(*keys.shape, *[1] * len(shape))


@cache
def _line(length: int, device: torch.device, dtype: torch.dtype) -> Tensor:
    key = torch.tensor(streams.key_of("line of noise"), device=device)
    return streams.normal(key, _PLACES + length).to(dtype)
