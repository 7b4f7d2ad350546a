"""DeepLIFT: the change of the logit from a baseline to the input, distributed over the input by the rescale rule.

Let z be the input of an activation a in the pass of the input, and z' in the pass of the baseline. The multiplier of the activation
is its slope between z' and z, m = (a(z) - a(z')) / (z - z'), or its derivative if z = z'. Linear layers keep their gradients, so
the multipliers of a net are gradients with other slopes at the activations. Max-pooling shares its change y - y' between the winner
i of the input and the winner i' of the baseline:

    at i: max(y, y') - y'        at i': y - max(y, y')

The pass of the baseline is recorded, call by call, and the pass of the input uses the record.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core.batching import in_batches
from proofmap.core.errors import InputError
from proofmap.fills import Fill, Gray
from proofmap.methods.gradients.paths import BaselineMethod, check_sums
from proofmap.methods.gradients.plain import (
    CHANNELS_HELP,
    Channels,
    check_differentiable,
    label_gradients,
)
from proofmap.methods.graph import Rewriting
from proofmap.methods.method import METHODS, Cost
from proofmap.plugins.settings import setting
from proofmap.session import Session

KNOWN = frozenset({"Convolution", "Addmm", "Baddbmm", "Addbmm", "Addmv"})
"""Operations that keep their gradient, in addition to linear ones: linear operations with a shift."""
_POOLS = ("max_pool1d", "max_pool2d", "max_pool3d")
_ADAPTIVE_POOLS = ("adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d")
_SAME = 1e-6
"""If the input of an activation changes by less than this share of its size, the derivative is used as its slope."""

Call = tuple[Tensor, ...]


class Recorded(Rewriting):
    """A pass of the baseline that records the inputs and outputs of its activations."""

    rewrites: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(Rewriting.ACTIVATIONS, "_activation"),
        **dict.fromkeys((*_POOLS, *_ADAPTIVE_POOLS), "_pool"),
        "batch_norm": "_batch_norm",
    }

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Call] = []

    def _activation(self, func: Any, x: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        value, in_place = self.elementwise(func, x, args, kwargs)
        new = self.activated(func, x, value, args, kwargs)
        return self.in_place(x, new) if in_place else new

    def _pool(self, func: Any, x: Tensor, *args: Any, **kwargs: Any) -> Any:
        # return_indices comes after (size,), or after (kernel, stride, padding, dilation, ceil)
        last = 1 if func.__name__ in _ADAPTIVE_POOLS else 5
        with torch.no_grad():
            given = {**kwargs, "return_indices": True}
            value, places = getattr(F, func.__name__)(x, *args[:last], **given)
        new = self.pooled(x, value, places)
        asked = kwargs.get("return_indices", len(args) > last and args[last])
        return (new, places) if asked else new

    def _batch_norm(self, func: Any, x: Tensor, *args: Any, **kwargs: Any) -> Tensor | None:
        affine = self.fixed_batch_norm(func, x, *args, **kwargs)
        if affine is None:
            return None
        scale, shift = affine
        return x * self.per_feature(scale, x) + self.per_feature(shift, x)

    def activated(
        self, func: Any, x: Tensor, value: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Tensor:
        self.calls.append((x.detach().clone(), value.clone()))
        return value

    def pooled(self, x: Tensor, value: Tensor, places: Tensor) -> Tensor:
        self.calls.append((x.detach().clone(), value.clone(), places))
        return value


class Rescaled(Recorded):
    """A pass of the input. Its gradients are multipliers relative to the recorded pass of the baseline."""

    def __init__(self, record: list[Call]) -> None:
        super().__init__()
        self.record = iter(record)

    def activated(
        self, func: Any, x: Tensor, value: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Tensor:
        start, begun = self._next(x)
        if not x.requires_grad:  # does not depend on the input: weights, or integers
            return value
        here = x.detach().float()
        change = here - start.float()
        same = change.abs() <= _SAME * (here.abs() + start.float().abs())
        slope = (value.float() - begun.float()) / torch.where(same, 1.0, change)
        with torch.enable_grad():
            leaf = x.detach().clone().requires_grad_(True)
            derivative = torch.autograd.grad(func(leaf * 1, *args, **kwargs).sum(), leaf)[0].float()
        return self.with_slopes(value, (x, torch.where(same, derivative, slope).to(value.dtype)))

    def pooled(self, x: Tensor, value: Tensor, places: Tensor) -> Tensor:
        start, begun, before = self._next(x)
        larger = torch.maximum(value, begun)
        parts = []
        for winner, share in ((places, larger - begun), (before, value - larger)):
            at = _taken(x, winner)
            change = at.detach() - _taken(start, winner)
            slope = share / torch.where(change == 0, 1.0, change)
            parts.append((at, torch.where(change == 0, 0.0, slope)))
        return self.with_slopes(value, *parts)

    def _next(self, x: Tensor) -> Call:
        call = next(self.record, None)
        if call is None or call[0].shape != x.shape:
            raise InputError(
                "deep-lift needs a net that calls the same layers for every input; this net calls others for the "
                "baseline. Use integrated-gradients"
            )
        return call


def _taken(x: Tensor, places: Tensor) -> Tensor:
    return x.flatten(2).gather(2, places.flatten(2)).view_as(places)


@METHODS.register
class DeepLIFT(BaselineMethod):
    """(x - x') * m, where m is the multiplier of the logit between the baseline x' and the input x (Shrikumar et al. 2017, rescale rule).

    The rules are in :mod:`proofmap.methods.propagation.deep_lift`. x' is any fill, as for integrated gradients; a random fill is
    drawn ``draws`` times, and the maps are averaged (with random images: DeepSHAP, Lundberg and Lee 2017). Values are signed and
    add up to logit_a(x) - logit_a(x'); if not, a warning reports the difference.
    A net with attention, gates or layer-norm is refused.
    """

    name = "deep-lift"
    family = "propagation"
    reference = "Shrikumar et al. 2017"
    description = "change of the logit from a baseline, shared out layer by layer, signed"
    needs = frozenset({"gradients"})
    signed = True

    baseline: Fill = setting(Gray(), "what the input is compared with")
    draws: int = setting(1, "number of baselines to average over, if the baseline is a random fill", least=1)
    channels: Channels = setting("sum", CHANNELS_HELP)

    def prepare(self, session: Session) -> None:
        super().prepare(session)
        Rewriting.check_logits(self.name, session.net)

    def cost(self, labels: int, session: Session | None = None) -> Cost:
        return Cost(gradient=labels * self.ways, forward=self.ways)

    def maps(self, session: Session, images: Tensor, labels: Tensor) -> Tensor:
        inputs, keys = session.inputs, self.keys_of_ways(images, session.seed)
        with session.progress.task(self.name, labels.numel() * self.ways) as task:

            def run(start: int, stop: int) -> tuple[Tensor, Tensor, Tensor]:
                x, a = images[start:stop], labels[start:stop]
                parts = [
                    self._values(session.net, x, self.baselines(session, x, key[start:stop]), a)
                    for key in keys
                ]
                values, change = (torch.stack(each).mean(dim=0) for each in zip(*parts, strict=True))
                maps = inputs.merged_channels(values, self.channels)
                task.advance((stop - start) * labels.shape[1] * self.ways)
                return maps, values.flatten(2).sum(dim=2), change

            parts = in_batches(run, len(images), session.net.batches[1], cost=2)
        maps, sums, changes = (torch.cat(each) for each in zip(*parts, strict=True))
        advice = (
            "an activation is handled wrongly, or precision is lost: try full precision or another baseline"
        )
        check_sums(self.name, sums, changes, labels, advice)
        return maps

    def _values(
        self, classifier: Classifier, images: Tensor, baselines: Tensor, labels: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The contributions ``(N, L, *shape)`` relative to one baseline for each image, and the change of the logit ``(N, L)``."""
        places = labels.clamp_min(0)
        mean, std = classifier.inputs.scale(classifier.device)
        x, start = (images - mean) / std, (baselines - mean) / std
        recorded = Recorded()
        with torch.no_grad(), recorded:
            begun = classifier.from_normalised(start.clone()).gather(1, places)
        with torch.enable_grad():
            leaf = x.detach().requires_grad_(True)
            with Rescaled(recorded.calls):
                logits = classifier.from_normalised(leaf.clone())
            check_differentiable(logits)
            Rewriting.check_operations(self.name, logits, (leaf,), KNOWN, ())
            chosen = logits.gather(1, places)
            rows = [(x - start) * gradient for (gradient,) in label_gradients(chosen, [leaf])]
        return torch.stack(rows, dim=1), chosen.detach() - begun
