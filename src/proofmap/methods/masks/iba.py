"""Information bottleneck attribution (Schulz, Sixt, Tombari and Landgraf 2020): how many bits of each position the label needs.

The method adds as much noise as possible to a layer without losing the label. R are the layer's features (its output), mu and sigma their
mean and standard deviation at each position and channel over many images:

    Z = lambda R + (1 - lambda) e,     e ~ N(mu, sigma^2),     lambda = G sigmoid(A)
    min over A of   E[ -log f(Z, a) ]  +  beta * mean over positions and channels of I
    I = KL( N(lambda R + (1 - lambda) mu, (1 - lambda)^2 sigma^2)  ||  N(mu, sigma^2) )
      = 1/2 ( (lambda (R - mu) / sigma)^2 + (1 - lambda)^2 - 1 - log (1 - lambda)^2 )

f(Z, a) is the net's probability of label a if the layer returns Z. G blurs by a Gaussian of ``smooth`` cells, edges repeated. The map is I,
summed over channels, in bits per position of the input, enlarged linearly. mu and sigma are computed from ``pool`` draws of the fill, which
are random images by default. They never depend on the images that are explained, so a map does not depend on the other images.

The layer is named by the user or found by :func:`find_bottleneck`. Each step runs only the part of the net behind the
layer (:class:`Tail`). All information about the input must pass through the layer. This is checked: the part behind the layer gets the
features of one input, and the layers before it another input. The logits must be those of the first input.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from proofmap.classifier import Classifier
from proofmap.classifier.kernels import steady_kernels
from proofmap.classifier.outputs import as_logits
from proofmap.classifier.view import view_of
from proofmap.core import streams
from proofmap.core.batching import in_batches
from proofmap.core.errors import InputError
from proofmap.core.tensors import exact
from proofmap.fills import Fill, Images
from proofmap.methods.gradients.plain import check_differentiable
from proofmap.methods.grids import enlarged, smoothing, upsamplings
from proofmap.methods.masks.engine import MaskProblem, Slots
from proofmap.methods.masks.method import MaskMethod, add_noise_
from proofmap.methods.method import METHODS, Cost
from proofmap.methods.probe import is_spatial, module_of, watch_outputs
from proofmap.plugins.settings import setting
from proofmap.session import Session

_AGREE = 0.01
"""Largest difference between the logits of the part behind the layer and those of the whole net, relative to the largest logit."""


class Tail:
    """The part of the net behind ``layer``: ``features(images)`` returns the output of the layer, and ``tail(features)`` returns the logits.

    :meth:`measure` sets ``mean`` and ``std`` ``(C, h, w)`` of the features. Earlier layers are not run again. They are replaced in a private
    view of the net, which shares the net's weights, and return their output for a blank input.
    """

    def __init__(self, classifier: Classifier, layer: str, dtype: torch.dtype | None = None) -> None:
        self.classifier, self.layer = classifier, layer
        self.dtype = dtype or classifier.dtype
        self.whole = _private(classifier, self.dtype)
        self.rest = _private(classifier, self.dtype)
        self._given: Tensor | None = None
        self._blank = classifier.normalised(classifier.blank(1), self.dtype)
        finished = _outputs_in_order(self.whole, self._blank)
        if layer not in finished:
            known = [name for name, outputs in finished.items() if outputs is not None]
            raise InputError(
                f"the net has no layer {layer!r} that runs; its last ones are {', '.join(known[-6:])}"
            )
        self._cut(list(finished), finished)
        probe = classifier.inputs.probe().to(classifier.device)
        with torch.no_grad(), steady_kernels(tf32=False):
            expected, features = (
                self._logits(self.whole(classifier.normalised(probe, self.dtype))),
                self.features(probe),
            )
            try:
                found = self(features)
            except InputError:
                raise
            except Exception as error:  # such as a net that reads a layer's attributes instead of running it
                raise InputError(
                    f"the part of the net after layer {layer!r} cannot be run by itself ({error}); name another layer"
                ) from error
        if bool((found - expected).abs().max() > _AGREE * (1 + expected.abs().max())):
            raise InputError(f"the net's output does not depend on layer {layer!r} alone; name another one")

    def features(self, images: Tensor) -> Tensor:
        """The output of the layer ``(N, C, h, w)``, in float32, for images ``(N, *shape)``."""
        outputs: dict[str, Any] = {}
        with watch_outputs(self.whole, [self.layer], outputs.__setitem__), torch.no_grad():
            self.whole(self.classifier.normalised(images, self.dtype))
        output = outputs[self.layer]
        if not isinstance(output, Tensor) or output.ndim != images.ndim:
            raise InputError(
                f"layer {self.layer!r} does not give a spatial map with as many axes as the input; name another one"
            )
        return output.float()

    def measure(self, session: Session, fill: Fill, draws: int) -> None:
        """Compute the mean and the standard deviation ``(C, h, w)`` of the layer's features over ``draws`` draws of a fill."""
        classifier = self.classifier
        keys = [streams.key_of("iba", k) for k in range(draws)]
        keyed = torch.tensor(keys, dtype=torch.int64, device=classifier.device)

        def sums(start: int, stop: int) -> Tensor:
            features = exact(self.features(fill(session, classifier.blank(stop - start), keyed[start:stop])))
            return torch.stack([features.sum(dim=0), features.square().sum(dim=0)])

        with steady_kernels(tf32=False):
            total = torch.stack(in_batches(sums, draws, classifier.batches[0])).sum(dim=0) / draws
        mean, square = total
        std = (square - mean.square()).clamp_min(0).sqrt() * math.sqrt(draws / (draws - 1))
        self.mean: Tensor = mean.float()
        self.std: Tensor = std.float().clamp_min(_LEAST_SPREAD)

    def __call__(self, features: Tensor) -> Tensor:
        """Logits ``(N, A)`` for features ``(N, C, h, w)``, differentiable in the features."""
        self._given = features.to(self.dtype)
        try:
            return self._logits(self.rest(self._blank.expand(len(features), *self._blank.shape[1:])))
        finally:
            self._given = None

    def _logits(self, out: Tensor) -> Tensor:
        return as_logits(out.float(), self.classifier.outputs)

    def _cut(self, order: list[str], outputs: dict[str, Any]) -> None:
        """Make every module that ends before the layer return its recorded output, and make the layer return the given features."""
        modules = dict(self.rest.named_modules())
        for name in order[: order.index(self.layer)]:
            if isinstance(outputs[name], Tensor):
                modules[name].forward = self._answer(outputs[name])
        modules[self.layer].forward = lambda *inputs, **options: self._given

    def _answer(self, output: Tensor) -> Callable[..., Tensor]:
        """A forward function that returns a module's recorded output for one blank input, repeated to the batch size of the given features."""

        def forward(*inputs: Any, **options: Any) -> Tensor:
            assert self._given is not None, "the rest of the net is run on features"
            return output.expand(len(self._given), *output.shape[1:])

        return forward


def find_bottleneck(classifier: Classifier) -> str:
    """The name of the last layer that all information passes through and whose map ``(h, w)`` is at least twice as fine, in height and width, as
    that of the last spatial layer. If there is no such layer, the last spatial layer that all information passes through.
    """
    positions = classifier.inputs.positions
    if len(positions) < 2 or not isinstance(classifier.net, nn.Module):
        raise InputError(
            "a bottleneck needs a spatial layer of a torch module that takes pictures or volumes; use a method without layers"
        )
    view = _private(classifier, classifier.dtype)
    blank = torch.zeros_like(classifier.blank(1), dtype=classifier.dtype)
    spatial = {
        name: output.shape[2:]
        for name, output in _outputs_in_order(view, blank).items()
        if isinstance(output, Tensor)
        and output.ndim == blank.ndim
        and is_spatial(output.shape[2:], positions)
    }
    if spatial:
        height, width = list(spatial.values())[-1][-2:]
        fine = [n for n, sides in spatial.items() if sides[-2] >= 2 * height and sides[-1] >= 2 * width]
        rest = [n for n in spatial if n not in fine]
        for name in [*reversed(fine), *reversed(rest)]:
            try:
                Tail(classifier, name)
            except InputError:
                continue
            return name
    raise InputError("no layer has a spatial map that all information passes; name one with layer=")


def _private(classifier: Classifier, dtype: torch.dtype) -> nn.Module:
    return view_of(module_of(classifier, "a bottleneck"), classifier.device).to(dtype)


def _outputs_in_order(net: nn.Module, x: Tensor) -> dict[str, Any]:
    """The output of each module, in the order in which the modules ended; None for a module that ran more than once."""
    outputs: dict[str, Any] = {}

    def note(name: str, output: Any) -> None:
        again = name in outputs
        outputs.pop(name, None)
        outputs[name] = None if again else output

    with watch_outputs(net, [name for name, _ in net.named_modules() if name], note), torch.no_grad():
        net(x)
    return outputs


_LEAST_SPREAD = 0.01
_NEVER_ONE = 1e-6
"""The smallest sigma (_LEAST_SPREAD), and the smallest 1 - lambda (_NEVER_ONE)."""
_UNMOVED = 1e-6
"""Change of log f that is due to rounding. If log f changes no more than this, the label does not depend on the layer."""


class IBAProblem(MaskProblem):
    """Learns the noise for the (image, label) pairs in the slots. The weights are A ``(P, C, h, w)``, and the resulting masks are the
    information I.
    """

    falls = False

    def __init__(self, settings: IBA, session: Session, fast: Classifier) -> None:
        tail = settings.bottleneck(session)
        self.settings, self.classifier, self.tail = settings, tail.classifier, tail
        self.mean, self.std = tail.mean, tail.std
        self.steps, self.cost, self.rate = settings.steps, settings.samples, settings.learning_rate
        cells, positions = self.mean.shape[1:], self.classifier.inputs.positions
        self.blur = [smoothing(side, settings.smooth, device=self.mean.device) for side in cells]
        self.up = upsamplings(cells, positions, device=self.mean.device)
        self.share = math.prod(cells) / math.prod(positions)

    def enter(self, slots: Slots) -> Slots:
        first, place = self.distinct_images(slots)
        images = slots["images"][first]
        features = in_batches(
            lambda a, b: self.tail.features(images[a:b]), len(images), self.classifier.batches[0]
        )
        deviation = ((torch.cat(features) - self.mean) / self.std)[place]
        unseen = deviation.new_full((len(deviation),), torch.inf)
        weights = torch.full_like(deviation, self.settings.start)
        return {"deviation": deviation, "weights": weights, "least": unseen, "most": -unseen}

    def masks(self, weights: Tensor) -> Tensor:
        raise NotImplementedError("information also depends on the features: see finished()")

    def finished(self, slots: Slots) -> Tensor:
        bits = self.information(self.passed(slots["weights"]), slots["deviation"]).sum(dim=1, keepdim=True)
        moved = slots["most"] - slots["least"]
        flat = (moved >= 0) & (moved <= _UNMOVED)  # noise does not change the label: it needs no bit
        bits = bits.masked_fill(flat.view(-1, *[1] * (bits.ndim - 1)), 0.0)
        return enlarged(bits, self.up) * (self.share / math.log(2))

    def losses(self, weights: Tensor, slots: Slots) -> Tensor:
        s, deviation = self.settings, slots["deviation"]
        passed = self.passed(weights)
        keys = streams.step_keys(slots["keys"], slots["step"], s.samples)
        shape = (len(weights) * s.samples, *weights.shape[1:])
        noise = add_noise_(weights.new_zeros(shape), keys.flatten(), 1.0)
        noise = noise.view(len(weights), s.samples, *weights.shape[1:])
        # in units of the standard deviation
        mixed = (passed * deviation)[:, None] + (1 - passed)[:, None] * noise
        logits = self.tail((self.mean + self.std * mixed).flatten(0, 1))
        check_differentiable(logits)
        log_f = self.own_label(self.classifier.log_f(logits).unflatten(0, (-1, s.samples)), slots)
        slots["least"].copy_(torch.minimum(slots["least"], log_f.detach().amin(dim=1)))
        slots["most"].copy_(torch.maximum(slots["most"], log_f.detach().amax(dim=1)))
        return s.beta * self.information(passed, deviation).flatten(1).mean(dim=1) - log_f.mean(dim=1)

    def passed(self, weights: Tensor) -> Tensor:
        """lambda: the share of the features that passes, from weights A ``(P, C, h, w)``."""
        return enlarged(weights.sigmoid(), self.blur).clamp_max(1 - _NEVER_ONE)

    def information(self, passed: Tensor, deviation: Tensor) -> Tensor:
        """The information I in nats, at each position and channel. ``passed`` is lambda, and ``deviation`` is (R - mu) / sigma."""
        noise = (1 - passed).square()
        return 0.5 * ((passed * deviation).square() + noise - 1 - noise.log())


@METHODS.register
class IBA(MaskMethod):
    """The per-sample information bottleneck. The defaults are the paper's settings."""

    name = "iba"
    learns = IBAProblem
    description = "the bits of each place that must pass a noisy layer for the label to be seen"
    reference = "Schulz et al. 2020"
    needs = frozenset({"gradients", "layer", "distractors"})

    layer: str = setting("", "name of the layer that gets the noise; if left out, a suitable layer is found")
    beta: float = setting(
        10.0, "weight of the information that passes the layer; larger lets fewer bits pass", least=0
    )
    steps: int = setting(10, "Adam steps", least=1)
    samples: int = setting(10, "draws of the noise per step", least=1)
    learning_rate: float = setting(1.0, "step size of Adam", above=0)
    start: float = setting(5.0, "at first, the share sigmoid(start) of the features passes: .99 for 5")
    smooth: float = setting(
        1.0, "standard deviation of the blur of the shares that pass, in cells of the layer", least=0
    )
    fill: Fill = setting(Images(), "inputs from which the features' mean and spread are computed")
    pool: int = setting(256, "number of inputs drawn for the features' mean and spread", least=2)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.fill.random:
            raise InputError(
                f"iba estimates features on many images, and the fill {self.fill.title()} shows only one; use a random fill"
            )

    def prepare(self, session: Session) -> None:
        super().prepare(session)
        self.bottleneck(session)

    def bottleneck(self, session: Session) -> Tail:
        """The layer that gets the noise, and what is known of its features."""

        def build() -> Tail:
            layer = self.layer or find_bottleneck(session.net)
            tail = Tail(session.net, layer, self.dtype_in(session))
            tail.measure(session, self.fill, self.pool)
            return tail

        return session.memo((self, "bottleneck"), build)

    def record(self, session: Session) -> dict[str, object]:
        return {**super().record(session), "layer": self.bottleneck(session).layer}

    def cost(self, labels: int, session: Session | None = None) -> Cost:
        """Passes for one image: one pass of the whole net for the features, and one pass of the part behind the layer for each label, step and
        sample.
        """
        return Cost(forward=1, gradient=labels * self.steps * self.samples)
