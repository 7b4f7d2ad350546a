"""What belief masks learn: maps whose proofs are exactly as strong as the net's belief f(x, a) in label a for the whole input x.

The insertion game shows the top share u of the positions of a map M. The other positions show fill k (a background). The area of the game
is the mean of the net's probabilities of the label:

    A_k(M) = mean over u of f(x~_u, a),      x~_u = x on the top u positions of M, fill k elsewhere.

The proof is complete if A_k >= f(x, a) and sound if A_k <= f(x, a). So the map is changed until A_k = f(x, a), for several fills at once.
Every step plays one move of the game with each fill: it chooses a share u, makes the hard mask of the top u positions, and runs the net on
one composite. The shares follow the golden ratio, so that a few consecutive steps cover the whole curve (but see s below). A_k is estimated
as the mean of the latest values F_k = f(x~_u, a) in each fifth of the curve. Each (image, label) pair has its own loss:

    loss = mean over k of  c_k L_k   +   smoothness * y * TV(sigmoid(W)),
    c_k  = 2 (log A_k - log f), between -.5 and ``pull`` (.5; also .5 where f > ``pull_below``), a constant of the step,
    L_k  = (F_k / A_k)^(1 - s) log F_k  where c_k < 0,   (F_k / A_k) (1 - F_k)^-s log F_k  elsewhere (all but log F_k constants).

- **c_k is the control.** A proof that is too weak (c_k < 0) grows, one that is too strong shrinks, and one that fits does not change. A_k
  is known from five values. If most of them are near 0 and few are large, log A_k is too small on average, and the proof becomes too
  strong. A larger ``pull`` compensates for that.
- **s is the sureness**: how sure the net is that the label is right, or that it is wrong. It is 0 for f from .001 to .9, and 1 for f >= .99
  or f <= .0001. With s = 0 both forms of L_k have the gradient of F_k / A_k. That gradient vanishes where the net's probability is 0 or 1,
  as it is along most of the curve if the net is sure. With s = 1 the gradients are those of log F_k and of -log(1 - F_k) / A_k, which do
  not vanish (down to 1 - F_k = 1e-5).
- **Unlikely labels.** A label with f < .01 is not moved while its area lies between .78 f and max(f, .0005). Areas count as at least 1e-6.
- **y is the factor of the smoothing**: y = 1 / (1 + (e / .1)^2), where e is the mean over fills of |log A_k - log f|. So smoothing has
  little weight as long as f is not matched.
- **Shares.** As long as A_k does not match f, and if s > 0, the moves with fill k cover the curve less evenly. Up to the share .8 s of them
  goes to the fifths of the curve in proportion to |F_k - f| there.
- **W are the weights of the mask**, on a coarse grid, and are enlarged linearly. The hard mask has no gradient. The gradient of
  sigmoid((W - t_u) / temperature) replaces it (straight-through), where t_u is the threshold above which the share u of W lies.

**The closing fit.** While a mask is learned, areas are known only from the latest value in each fifth of the curve. At the end, W is kept
constant for a round of shares that covers the whole curve. The round measures A_k and its slope S_k, the gradient of log A_k with respect
to W, for every fill k. Then W is changed once, by the shortest D with

    <S_k, D> = log f - log A_k   for all k, to first order and damped:   D = S^T (S S^T + r 1)^-1 (log f - log A),

and the next round begins, at other shares. The straight-through gradient is too large, so the first change is multiplied by 1.5. Later
changes are shorter, because each round is a noisy measurement; the last ones average over everything measured.

**Copies.** With ``copies``, a share of the composites shows copies of the mask that are blurred and moved at random, so that the proof does
not rest on details that a blur removes. Each fill then has two games, that of the mask and that of its copies, with an area, a control and
a slope each. In the closing fit the two take turns.

A fit corrects small errors. A label is not fitted if its areas are still far from f, or if the net is sure of it (then the gradient of F
vanishes). For such a label the passes are better used for learning. With few
positions and one fill, a search over orders does this instead (:class:`~proofmap.methods.masks.belief.BeliefMask`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.classifier.kernels import steady_kernels
from proofmap.core import streams
from proofmap.core.inputs import Inputs
from proofmap.core.progress import Progress
from proofmap.methods.grids import enlarged, smoothing
from proofmap.methods.masks.engine import Slots
from proofmap.methods.masks.method import CompositeProblem, total_variation
from proofmap.session import Session

if TYPE_CHECKING:
    from proofmap.methods.masks.belief import BeliefMask

_BELIEVED, _FLOOR, _SPARED = 0.01, 0.0005, 0.25
"""A label with f below BELIEVED is strengthened only if log A is below log f by more than _SPARED. No proof is weakened below the area
_FLOOR.
"""
_FORCE, _LARGEST = 0.5, 20.0
"""The largest size of c_k (for positive c_k, ``pull`` can replace it), and the largest F_k / A_k."""
_NOT_SURE = 1e-5
"""The smallest 1 - F in a denominator."""
_DENIED, _OPEN = 0.001, 0.1
"""The net is not sure of a label if f is at least _DENIED and 1 - f is at least _OPEN."""
_GOLDEN = (math.sqrt(5) - 1) / 2
"""The golden ratio. Its multiples modulo 1 are spread evenly for any number of them."""
_MANY = 20_000
"""Number of positions above which quantiles use every second position along each axis."""


def shrunk(maps: Tensor, up: Sequence[Tensor]) -> Tensor:
    """Maps ``(..., *grid)``: averages of maps ``(..., *positions)`` over the cells of a grid, with the weights of :func:`enlarged`.

    >>> from proofmap.methods.grids import upsampling
    >>> shrunk(torch.tensor([[0.0, 0.0, 1.0, 1.0]]), [upsampling(2, 4)])
    tensor([[0.1250, 0.8750]])
    """
    return enlarged(maps, [(matrix / matrix.sum(dim=0)).T for matrix in up])


_BLURS = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Standard deviations of the blurs of copies, in cells. The first is that of the mask itself."""
_MOVED = 0.5
"""Largest distance by which copies are moved along each axis, in cells."""


def copying(up: Tensor) -> Tensor:
    """The matrices ``(blurs, moves, side, cells)`` that enlarge, blur and move a mask along one axis, from the matrix ``(side, cells)`` of
    :func:`~proofmap.methods.grids.upsampling`. Places beyond the border repeat the outermost ones.

    >>> from proofmap.methods.grids import upsampling
    >>> copying(upsampling(2, 4))[0] @ torch.tensor([0.0, 1.0])
    tensor([[0.2500, 0.7500, 1.0000, 1.0000],
            [0.0000, 0.2500, 0.7500, 1.0000],
            [0.0000, 0.0000, 0.2500, 0.7500]])
    """
    side, cells = up.shape
    farthest, places = round(_MOVED * side / cells), torch.arange(side, device=up.device)
    moved = [(places - by).clamp(0, side - 1) for by in range(-farthest, farthest + 1)]
    blurred = [smoothing(side, blur * side / cells, device=up.device) @ up for blur in _BLURS]
    return torch.stack([torch.stack([matrix[of] for of in moved]) for matrix in blurred])


def belief_errors(areas: Tensor, f: Tensor) -> Tensor:
    """The errors log A - log f ``(P, K)`` of areas ``(P, K)``, given f ``(P,)``. For a label that the net hardly believes, the error is 0 in
    an interval.

    For f < .01 this interval is from f / e^.25 (.78 f) to max(f, .0005), and the error of an area outside is its distance from the
    interval. Areas are at least 1e-6, so labels with a smaller f are not strengthened.

    >>> belief_errors(torch.tensor([[0.5], [0.004], [0.0001]]), torch.tensor([0.5, 0.005, 1e-9]))
    tensor([[0.],
            [0.],
            [0.]])
    """
    f, log_a = f[:, None], areas.log()
    errors = log_a - f.clamp_min(_FLOOR).log()
    missed = (log_a - f.log() + _SPARED).clamp_max(0.0)
    return torch.where(f < _BELIEVED, errors.clamp_min(0.0) + missed, errors)


def yielding(far: Tensor, slack: float = 0.1) -> Tensor:
    """The factor y of the smoothing weight for errors of mean size ``far``: 1 / (1 + (far / slack)^2).

    >>> yielding(torch.tensor([0.0, 0.1]))
    tensor([1.0000, 0.5000])
    """
    return 1 / (1 + (far / slack) ** 2)


def sureness(f: Tensor) -> Tensor:
    """The sureness s: how sure the net is that a label is right, or that it is wrong. It is 0 for f between .001 and .9, and 1 for f >= .99 or
    f <= .0001.

    Between these, s rises with the logarithm of 1 - f, or of f: s = -log10 min(f / .001, (1 - f) / .1), within [0, 1].

    >>> sureness(torch.tensor([0.5, 0.05, 0.97, 0.999, 1e-6]))
    tensor([0.0000, 0.0000, 0.5229, 1.0000, 1.0000])
    """
    return (-torch.minimum(f / _DENIED, (1 - f) / _OPEN).log10()).clamp(0, 1)


def pushes(log_f: Tensor, areas: Tensor, control: Tensor, sure: Tensor) -> Tensor:
    """The terms L ``(P, K)`` of the loss, given log F ``(P, K)``, areas A ``(P, K)``, controls ``(P, K)`` and the sureness s ``(P,)``.

    Where the control is negative, L = (F / A)^(1 - s) log F, and elsewhere L = (F / A) (1 - F)^-s log F. All factors of log F are
    constants, and L rises with F. For s = 0 the gradient of L is that of F / A. For s = 1 it is that of log F where the control is
    negative, and that of -log(1 - F) / A elsewhere. The gradient of F is F (1 - F) times that of the logit, so it is nearly zero if the net
    is sure. The gradients for s = 1 vanish only if 1 - F is below 1e-5, the smallest denominator. F / A is at most 20.

    >>> logit = torch.tensor([[-9.0], [9.0]], requires_grad=True)
    >>> log_f = torch.nn.functional.logsigmoid(logit)
    >>> pushes(
    ...     log_f, torch.tensor([[0.5], [0.5]]), torch.tensor([[-0.5], [0.5]]), torch.ones(2)
    ... ).sum().backward()
    >>> logit.grad  # F (1 - F) is .0001
    tensor([[0.9999],
            [1.9998]])
    """
    sure, f = sure[:, None], log_f.detach().exp()
    share = (f / areas).clamp_max(_LARGEST)
    weak, strong = share ** (1 - sure), share * (-log_f.detach().expm1()).clamp_min(_NOT_SURE) ** -sure
    return torch.where(control < 0, weak, strong) * log_f


def warped(places: Tensor, density: Tensor) -> Tensor:
    """Shares ``(P, K)`` in [0, 1) that are distributed with ``density`` ``(P, K, parts)`` if ``places`` ``(P, K)`` in [0, 1) are spread
    evenly.

    This is the inverse of the piecewise linear distribution function. The density is given on equal parts of [0, 1) and need not sum to
    one.

    >>> warped(torch.tensor([[0.2, 0.8]]), torch.tensor([[[1.0, 3.0], [1.0, 1.0]]]))
    tensor([[0.4000, 0.8000]])
    """
    parts, density = density.shape[2], density / density.sum(dim=2, keepdim=True)
    above = density.cumsum(dim=2)
    part = (places[..., None] >= above).sum(dim=2, keepdim=True).clamp_max(parts - 1)
    own = density.gather(2, part)
    inside = (places[..., None] - above.gather(2, part) + own) / own.clamp_min(1e-12)
    return ((part + inside.clamp(0, 1)) / parts)[..., 0].clamp_max(1 - 1e-6)


def share_thresholds(maps: Tensor, shares: Tensor) -> Tensor:
    """Thresholds ``(P, K)`` above which about the share ``(P, K)`` of the positions of each map ``(P, *positions)`` lies.

    For large maps only every second position along each axis is used, which changes shares by less than a percent.

    >>> share_thresholds(torch.tensor([[4.0, 1.0, 3.0, 2.0]]), torch.tensor([[0.5, 0.0]]))
    tensor([[2., 4.]])
    """
    if maps[0].numel() > _MANY:
        maps = maps[(slice(None), *[slice(None, None, 2)] * (maps.ndim - 1))]
    values = maps.flatten(1).sort(dim=1, descending=True).values
    place = (shares * values.shape[1]).long().clamp_max(values.shape[1] - 1)
    return values.gather(1, place)


def revealed(
    maps: Tensor, threshold: Tensor, temperature: float, inputs: Inputs, shown: Tensor, hidden: Tensor
) -> Tensor:
    """Composites ``(P, K, *shape)``: ``shown`` ``(P, *shape)`` where a map is above its threshold, ``hidden`` ``(P, K, *shape)`` elsewhere.

    Maps are ``(P, 1, *positions)``, or ``(P, K, *positions)`` with one map for each threshold ``(P, K)``. The
    gradient is that of masks sigmoid((map - threshold) / temperature). The result is computed in one pass over memory, without copies of
    inputs that are already normalised and in half precision.

    >>> from proofmap.core.inputs import Rows
    >>> rows = Rows(columns=2, mean=(0, 0), std=(1, 1))
    >>> maps = torch.tensor([[[0.0, 1.0]]], requires_grad=True)
    >>> seen = revealed(
    ...     maps, torch.tensor([[0.5]]), 1.0, rows, torch.tensor([[5.0, 6.0]]), torch.zeros(1, 1, 2)
    ... )
    >>> seen
    tensor([[[0., 6.]]], grad_fn=<_RevealedBackward>)
    >>> seen.sum().backward()
    >>> maps.grad  # .235 times what showing the position changes
    tensor([[[1.1750, 1.4100]]])
    """
    return cast(Tensor, _Revealed.apply(maps, threshold, temperature, inputs, shown[:, None], hidden))  # type: ignore[no-untyped-call]


class _Revealed(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        maps: Tensor,
        threshold: Tensor,
        temperature: float,
        inputs: Inputs,
        shown: Tensor,
        hidden: Tensor,
    ) -> Tensor:
        ctx.save_for_backward(maps, threshold, shown, hidden)
        ctx.temperature, ctx.inputs = temperature, inputs
        return inputs.composite(_above(maps, threshold) > 0, shown, hidden)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        maps, threshold, shown, hidden = ctx.saved_tensors
        gained = ctx.inputs.merged_channels(gradients[0] * (shown - hidden))
        return _softly(gained, maps, threshold, ctx.temperature), None, None, None, None, None


def _softly(gradient: Tensor, maps: Tensor, threshold: Tensor, temperature: float) -> Tensor:
    """The gradient with respect to the maps ``(P, 1 or K, *positions)``, given the gradient with respect to the masks ``(P, K, *positions)``.
    It is computed as if the masks were logistic functions of the maps.
    """
    soft = (_above(maps, threshold) / temperature).sigmoid()
    return (gradient * soft * (1 - soft)).sum_to_size(maps.shape) / temperature


def _above(maps: Tensor, threshold: Tensor) -> Tensor:
    return maps - threshold.view(*threshold.shape, *[1] * (maps.ndim - 2))


_ROUNDS = 3
_MOST, _LEAST = 16, 4
"""Maximum number of shares in a round, and the smallest number that is worth a round."""
_DAMPING = 0.05
"""The damping r of the closing fit, relative to the mean squared length of the slopes."""
_FARTHEST = 0.5
"""Largest error |log A - log f| that one round corrects. Also the largest change of W in one round, as a root mean square."""
SURE = 0.5
"""The sureness s from which a label is not fitted."""
FAR = 0.7
"""A label is not fitted either if the mean of |log A_k - log f| over fills is above this value."""


@dataclass(frozen=True)
class ClosingFit:
    """The schedule of the closing fit: three rounds at the end of ``steps`` steps, which together take at most half of the steps.

    The ``games`` of a fill (one, or two with copies) take turns.

    >>> fit = ClosingFit(200)
    >>> fit.shares, fit.first
    (16, 152)
    >>> ClosingFit(66).shares, ClosingFit(20).shares, ClosingFit(66, games=2).shares
    (11, 0, 5)
    """

    steps: int
    games: int = 1

    @property
    def shares(self) -> int:
        """Number of shares in each round of a game. 0 means no fit, because a round would have too few."""
        few = min(_MOST, self.steps // (2 * _ROUNDS))
        return few // self.games if few >= _LEAST else 0

    @property
    def round(self) -> int:
        """Number of steps in each round."""
        return self.shares * self.games

    @property
    def first(self) -> int:
        """The step at which the fit begins, counted from zero, unless the areas of a pair are near enough to f earlier."""
        return self.steps - self.length

    @property
    def length(self) -> int:
        """Total number of steps in all rounds."""
        return _ROUNDS * self.round

    def ends(self, since: Tensor) -> Tensor:
        """Whether a round ends with the step ``since``, counted from the first step of the fit; steps before the fit are negative."""
        return (since >= 0) & (since % self.round == self.round - 1)

    def gains(self, since: Tensor) -> Tensor:
        """Factors of the changes of W at the end of the rounds: 1.5, 1 and .5, then 0. ``since`` counts steps from the first step of the fit.

        >>> ClosingFit(24).gains(torch.tensor([3, 7, 11, 15]))
        tensor([1.5000, 1.0000, 0.5000, 0.0000])
        """
        return ((_ROUNDS - since // self.round) / 2).clamp_min(0.0)

    def places(self, since: Tensor, phase: Tensor) -> Tensor:
        """Shares ``(P, K)`` to show at the steps ``since`` ``(P,)`` of the fit, given ``phase`` ``(P, K)``.

        A round has one share in each of its equal parts of the curve. The place of the share within its part differs between fills and
        between rounds.

        >>> ClosingFit(24).places(torch.arange(4), torch.tensor([[0.5]]))
        tensor([[0.1250],
                [0.3750],
                [0.6250],
                [0.8750]])
        """
        since = since[:, None]
        within = (phase + _GOLDEN * (since // self.round)) % 1.0
        return ((since % self.round // self.games + within) / self.shares).clamp(0, 1 - 1e-6)


def least_change(slopes: Tensor, errors: Tensor) -> Tensor:
    """The shortest change D ``(P, *grid)`` of the weights whose inner products with the slopes ``(P, K, *grid)`` are the negative errors ``(P,
    K)``, damped.

    Errors are clipped to [-.5, .5], and the root mean square of D is at most .5.

    >>> slopes = torch.tensor([[[1.0, 0.0, 0.0], [0.0, 0.0, 2.0]]])
    >>> least_change(slopes, torch.tensor([[-0.21, 0.0]]))
    tensor([[0.1867, 0.0000, 0.0000]])
    """
    flat = slopes.flatten(2)
    gram = flat @ flat.mT
    damping = _DAMPING * gram.diagonal(dim1=1, dim2=2).mean(dim=1).clamp_min(1e-20)
    gram = gram + damping[:, None, None] * torch.eye(gram.shape[1], device=gram.device)
    undone = -errors.clamp(-_FARTHEST, _FARTHEST)
    weights, _ = torch.linalg.solve_ex(gram, undone[..., None])
    change: Tensor = (weights * flat).sum(dim=1).nan_to_num(0.0, 0.0, 0.0)
    length = change.square().mean(dim=1, keepdim=True).sqrt()
    return (change * (_FARTHEST / length.clamp_min(_FARTHEST))).view_as(slopes[:, 0])


_GAIN = 2.0
"""Factor of the error log A_k - log f in c_k."""
_DRAWN = 0.8
"""Largest share of the moves that go to the parts of the curve that are far from f."""
_SPREAD = 2.0
"""Standard deviation of the first weights."""
_UNMOVED = 1e-6
"""Relative change of f that is due to rounding. If f changes no more than this, the net ignores its input."""
_POINT_GAIN, _POINT_FORCE = 8.0, 2.0
"""With ``target=curve``: the factor of the error in c_k, and the largest size of c_k."""
_OVERSHOOT = 1.5
"""With ``target=curve``: the factor of c_k at a point of the curve above f."""
_SMALLEST = 0.02
"""With ``target=curve``: a proof is not strengthened while a smaller share of the positions is shown."""
_SLACK_OF_POINTS = 0.3
"""With ``target=curve``: the mean error of a curve's points at which smoothing has half its weight."""


class BeliefProblem(CompositeProblem):
    """Plays the insertion games of P (image, label) pairs with K fills, and changes the masks of the pairs until the areas of the games equal
    f.
    """

    memory, momentum = 0.99, 0.6
    parts = 5
    """Number of equal parts of the curve. The latest value in each part is stored."""

    def __init__(self, settings: BeliefMask, session: Session, fast: Classifier) -> None:
        parts = settings.parts_in(session)
        super().__init__(settings, session, fast, *parts.fills, grid=settings.grid)
        self.settings, self.exact, self.start = settings, session.net.frozen(), parts.start
        self.quiet = session.like(progress=Progress())
        self.cost = len(parts.fills)
        by_order = parts.closer is not None
        self.steps = settings.steps_with(self.cost, by_order=by_order)
        self.axes = tuple(range(1, 1 + len(self.inputs.positions)))
        copies = settings.copies > 0 and self.inputs.has_neighbours
        self.copying = [copying(matrix) for matrix in self.up] if copies else []
        self.games = 2 if copies else 1
        """Number of games of each fill: the mask's own, and that of its copies."""
        self.fit = ClosingFit(self.steps if settings.target == "f" and not by_order else 0, self.games)

    def enter(self, slots: Slots) -> Slots:
        images, labels, keys = slots["images"], slots["labels"], slots["keys"]
        with steady_kernels(tf32=False):  # f as it is judged
            with torch.no_grad():
                believed = self.exact.log_f(self.exact(images)).exp().gather(1, labels[:, None])[:, 0]
            maps = self.start.maps(self.quiet, images, labels[:, None])[:, 0]
        low = shrunk(maps.float(), self.up)
        low = low - low.mean(self.axes, keepdim=True)
        spread = low.std(self.axes, keepdim=True, correction=min(1, low[0].numel() - 1))  # of one cell: 0
        low = low / spread.nan_to_num().clamp_min(1e-12)
        noise = streams.normal(~streams.random_words(keys, 1)[:, 0], low[0].numel()).view_as(low)
        first = (_SPREAD * low + 1e-3 * noise)[:, None]  # noise, for maps with equal places
        brought = {
            **super().enter(slots),
            "weights": first,
            "f": believed,
            "sure": sureness(believed),
            "phase": streams.uniform(keys, self.cost),
            "curve": images.new_full((len(images), self.games * self.cost, self.parts), torch.nan),
        }
        brought["opens"] = torch.full_like(
            slots["step"], self.steps
        )  # the step at which the closing fit begins
        if self.fit.shares:
            brought["opens"].masked_fill_(brought["sure"] < SURE, self.fit.first)
            # a copy of the weights for every fill, so that each fill's slope is known
            every = first.expand(-1, self.cost, *first.shape[2:])
            said = torch.zeros_like(brought["curve"][..., 0])
            slopes = torch.zeros_like(every).repeat(1, self.games, *[1] * len(self.axes))
            brought |= {"weights": every, "slopes": slopes, "said": said}
        return brought

    def move(self, slots: Slots, gradient: Tensor) -> None:
        step, opens = slots["step"] - 1, slots["opens"]
        rates = self.settings.learning_rate * (1 - step / opens).clamp_min(0.0) ** 2
        whole = gradient.sum(dim=1, keepdim=True).expand_as(gradient)
        self.adam(slots, whole, rates)
        if self.fit.shares:
            self.close(slots, gradient)
            self.open(slots)

    def open(self, slots: Slots) -> None:
        """Decide which pairs start the closing fit. Pairs whose areas are far from f keep learning."""
        now, opens, errors = slots["step"], slots["opens"], self.errors(slots).abs()
        too_far = (now == opens) & (
            errors.mean(dim=1) > FAR
        )  # keeps learning, at the rate of a pair without a fit
        opens.masked_fill_(too_far, self.steps)

    def finished(self, slots: Slots) -> Tensor:
        """The masks ``(P, 1, *positions)``. A mask is 0 everywhere if f does not depend on what is shown, because there is nothing to
        explain.
        """
        seen = slots["curve"].flatten(1)
        low, high = seen.nan_to_num(torch.inf).amin(dim=1), seen.nan_to_num(-torch.inf).amax(dim=1)
        flat = (high - low <= _UNMOVED * high).view(-1, *[1] * (1 + len(self.axes)))
        return self.masks(slots["weights"][:, :1]).masked_fill(flat, 0.0)

    def losses(self, weights: Tensor, slots: Slots) -> Tensor:
        maps, shares = enlarged(weights, self.up), self.shares(slots)
        shown = self.copied(weights, slots) if self.copying else maps
        width, several = self.settings.temperature, shown.detach() if self.copying else maps[:, :1].detach()
        at = share_thresholds(several.flatten(0, 1), shares.view(several.shape[:2].numel(), -1)).view_as(
            shares
        )
        composites = revealed(shown, at, width, self.inputs, slots["seen"], self.backgrounds(slots))
        log_f = self.log_f(composites, slots)
        loss = self.push(log_f, shares, slots).mean(dim=1)
        if self.settings.smoothness > 0 and self.matches_f and self.inputs.has_neighbours:
            rough = total_variation(maps[:, 0].sigmoid(), axes=len(self.axes))
            loss = loss + self.settings.smoothness * self.yielding(slots) * rough
        return self.closing(log_f.exp(), loss, slots) if self.fit.shares else loss

    def copied(self, weights: Tensor, slots: Slots) -> Tensor:
        """The maps ``(P, K, *positions)`` that are shown at this step: the masks, or copies of them."""
        keys = streams.step_keys(slots["keys"] + 1, slots["step"], self.cost)
        drawn = streams.uniform(keys, 1 + len(self.copying))
        copied, low = self.played(slots, slots["step"]) >= self.cost, weights
        blur = torch.where(copied, 1 + (drawn[..., 0] * (len(_BLURS) - 1)).long(), 0)
        for axis, matrices in enumerate(self.copying, start=1):
            moves = matrices.shape[1]
            matrix = matrices[blur, torch.where(copied, (drawn[..., axis] * moves).long(), moves // 2)]
            line = low.movedim(1 + axis, 2)
            longer = matrix @ line.reshape(*line.shape[:3], -1)
            low = longer.view(*longer.shape[:3], *line.shape[3:]).movedim(2, 1 + axis)
        return low

    def played(self, slots: Slots, step: Tensor) -> Tensor:
        """The games ``(P, K)`` that are played at a step ``(P,)``: k is the game of the mask itself with fill k, and K + k that of its copies.

        Every second game is one of copies in the closing fit, and the share ``copies`` of them before.
        """
        k = torch.arange(self.cost, device=step.device)
        if not self.copying:
            return k.expand(len(step), -1)
        number, share = (
            step[:, None] + k,
            torch.where(step < slots["opens"], self.settings.copies, 0.5)[:, None],
        )
        return k + self.cost * (((number + 1) * share).long() - (number * share).long())

    def now(self, values: Tensor, slots: Slots) -> Tensor:
        """Those of the values ``(P, games, ...)`` that belong to the games ``(P, K, ...)`` played at this step."""
        played = self.played(slots, slots["step"])
        return values.take_along_dim(played.view(*played.shape, *[1] * (values.ndim - 2)), dim=1)

    @property
    def matches_f(self) -> bool:
        """Whether the target is f, and not the largest or smallest possible area."""
        return self.settings.target in ("f", "curve")

    def push(self, log_f: Tensor, shares: Tensor, slots: Slots) -> Tensor:
        """The loss c L ``(P, K)`` of each pair and fill, given log F ``(P, K)`` at shares ``(P, K)``."""
        areas = self.now(self.remember(log_f.detach().exp(), shares, slots), slots)
        control = self.now(self.control(slots), slots)
        return control * pushes(log_f, areas, control, slots["sure"])

    def shares(self, slots: Slots) -> Tensor:
        """The shares u ``(P, K)`` of the positions to show at this step. They follow the golden ratio, and are more frequent where the curve
        is far from its target.
        """
        even = (slots["phase"] + _GOLDEN * slots["step"][:, None]) % 1.0
        curve, aim = (
            self.now(slots["curve"], slots),
            {"strongest": 1.0, "weakest": 0.0}.get(self.settings.target),
        )
        far = (curve - (slots["f"].view(-1, 1, 1) if aim is None else aim)).abs()
        drawn = (
            1 - yielding(self.now(self.errors(slots), slots).abs()) if aim is None else torch.ones_like(even)
        )
        drawn = drawn.masked_fill(far.isnan().any(dim=2), 0.0)  # first, the whole curve is covered
        drawn, far = _DRAWN * (slots["sure"][:, None] * drawn)[..., None], far.nan_to_num()
        there = far / far.sum(dim=2, keepdim=True).clamp_min(1e-12)
        chosen = warped(even, (1 - drawn) / self.parts + drawn * there)
        if not self.fit.shares:
            return chosen
        since = slots["step"] - slots["opens"]
        return torch.where(since[:, None] >= 0, self.fit.places(since, slots["phase"]), chosen)

    def backgrounds(self, slots: Slots) -> Tensor:
        """Normalised backgrounds ``(P, K, *shape)`` of all fills at this step."""
        keys = streams.step_keys(slots["keys"], slots["step"], self.cost)
        return torch.cat([self.hidden(slots, keys[:, k, None], k) for k in range(self.cost)], dim=1)

    # ---- the closing fit ----------------------------------------------------------------------------------------

    def closing(self, now: Tensor, loss: Tensor, slots: Slots) -> Tensor:
        """The loss ``(P,)`` that is differentiated. For pairs in the closing fit it is the sum over fills of F / f, otherwise ``loss``. Every
        fill has its own copy of the weights, so the gradient with respect to a copy is the slope of its fill.
        """
        begun = slots["step"] >= slots["opens"]
        seen = now.detach().where(
            now.isfinite(), self.now(self.areas(slots), slots)
        )  # half precision overflows
        slots["said"].scatter_add_(1, self.played(slots, slots["step"]), seen.where(begun[:, None], 0.0))
        return torch.where(begun, (now / self.unit(slots)).sum(dim=1), loss)

    def unit(self, slots: Slots) -> Tensor:
        """The divisor of F ``(P, 1)`` in the closing fit: f, bounded below so that F / f is not larger than F_k / A_k may be before the fit."""
        return slots["f"][:, None].clamp_min(1 / _LARGEST)

    def close(self, slots: Slots, gradient: Tensor) -> None:
        """Add the gradients of pairs in the closing fit to their slopes, and change the weights of these pairs when a round ends."""
        since, shape = slots["step"] - 1 - slots["opens"], (-1, *[1] * (gradient.ndim - 1))
        played = (
            self.played(slots, slots["step"] - 1).view(*gradient.shape[:2], *shape[2:]).expand_as(gradient)
        )
        slots["slopes"].scatter_add_(1, played, gradient.where((since >= 0).view(shape), 0.0))
        ends, areas = self.fit.ends(since), (slots["said"] / self.fit.shares).clamp_min(1e-6)
        slopes = slots["slopes"] * (self.unit(slots) / areas / self.fit.shares).view(*areas.shape, *shape[2:])
        change = least_change(slopes, belief_errors(areas, slots["f"]))[:, None]
        slots["weights"] += self.fit.gains(since).where(ends, 0.0).view(shape) * change
        slots["slopes"].masked_fill_(ends.view(shape), 0.0)
        slots["said"].masked_fill_(ends[:, None], 0.0)

    # ---- the control --------------------------------------------------------------------------------------------

    def remember(self, now: Tensor, shares: Tensor, slots: Slots) -> Tensor:
        """Store F ``(P, K)``, the probabilities at the shares ``(P, K)`` of this step, in the curves. Return the areas A of all games."""
        place = self.played(slots, slots["step"]) * self.parts + (shares * self.parts).long()
        curve = slots["curve"].flatten(1)
        stored = curve.scatter(
            1, place, now.where(now.isfinite(), curve.gather(1, place))
        )  # half precision overflows
        slots["curve"].copy_(stored.view_as(slots["curve"]))
        return self.areas(slots)

    def areas(self, slots: Slots) -> Tensor:
        """The areas A ``(P, games)``: the mean of each curve over the parts that have a value."""
        return slots["curve"].nanmean(dim=2).nan_to_num().clamp_min(1e-6)

    def errors(self, slots: Slots) -> Tensor:
        return belief_errors(self.areas(slots), slots["f"])

    def control(self, slots: Slots) -> Tensor:
        """The control c ``(P, games)``, which is positive if the proof is too strong."""
        if self.settings.target != "f":
            return torch.full_like(
                slots["curve"][..., 0], _FORCE if self.settings.target == "weakest" else -_FORCE
            )
        limits = torch.where(slots["f"] <= self.settings.pull_below, self.settings.pull, _FORCE)
        return torch.minimum((_GAIN * self.errors(slots)).clamp_min(-_FORCE), limits[:, None])

    def yielding(self, slots: Slots) -> Tensor:
        """y ``(P,)``: the factor of the smoothing weight."""
        return yielding(self.errors(slots).abs().mean(dim=1))


class CurveProblem(BeliefProblem):
    """Like :class:`BeliefProblem`, for ``target=curve``: every point of every curve is moved towards f, instead of the area.

        e_k = log F_k - log f          where at least the share .02 is shown; below it only F_k > f counts,
        c_k = 8 e_k, within +-2, and 1.5 times that where F_k > f,
        L_k = log F_k                  where F_k < f,      (F_k / f) (1 - F_k)^-s log F_k   elsewhere.

    A curve that starts at 0 and has the area f must overshoot f. With this target, the curve reaches f at a small share and stays there. So
    its area is a little smaller than f, because of the part before that share. Smoothing has less than half its weight as long as the mean
    |e_k| over the tenths of the curve is above .3. There is no closing fit.
    """

    parts = 10

    def push(self, log_f: Tensor, shares: Tensor, slots: Slots) -> Tensor:
        now, f = log_f.detach().exp(), slots["f"]
        self.remember(now, shares, slots)
        now = now.where(now.isfinite(), f[:, None]).clamp_min(1e-6)  # half precision overflows
        control = self.pulls(now, shares, f)
        unit = now.where(control < 0, f[:, None].clamp_min(1e-6))
        return control * pushes(log_f, unit, control, slots["sure"])

    @staticmethod
    def pulls(now: Tensor, shares: Tensor, f: Tensor) -> Tensor:
        """The control c ``(P, K)``, given F ``(P, K)`` at shares ``(P, K)``, and f ``(P,)``.

        >>> now, shares = torch.tensor([[0.45, 0.55, 0.1, 0.1]]), torch.tensor([[0.5, 0.5, 0.5, 0.01]])
        >>> CurveProblem.pulls(now, shares, torch.tensor([0.5]))
        tensor([[-0.8429,  1.1437, -2.0000,  0.0000]])
        """
        errors = belief_errors(now, f)
        errors = errors.where(shares >= _SMALLEST, errors.clamp_min(0.0))
        control = (_POINT_GAIN * errors).clamp(-_POINT_FORCE, _POINT_FORCE)
        return control.where(control < 0, _OVERSHOOT * control)

    def point_errors(self, slots: Slots) -> Tensor:
        """|log F - log f| ``(P, K * parts)``, with F the latest value stored for each part of each curve; NaN where none is stored yet."""
        curve = slots["curve"].flatten(1)
        return belief_errors(curve.clamp_min(1e-6), slots["f"]).abs()

    def yielding(self, slots: Slots) -> Tensor:
        far = self.point_errors(slots).clamp_max(2.0).nanmean(dim=1).nan_to_num(2.0)
        return yielding(far, slack=_SLACK_OF_POINTS)
