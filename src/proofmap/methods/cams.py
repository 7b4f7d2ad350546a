"""Class activation maps: made from the activations of one layer and enlarged to the input.

The layer is named by the user, or found automatically and confirmed by a gradient. The backbone runs once for all labels; only the head
is differentiated for each label.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core.batching import in_batches
from proofmap.core.errors import InputError
from proofmap.core.progress import ProgressTask
from proofmap.methods.gradients.plain import label_gradients
from proofmap.methods.grids import interpolated
from proofmap.methods.method import METHODS, Cost, Method
from proofmap.methods.probe import Places, module_of, probed
from proofmap.plugins.settings import Shortcuts, setting
from proofmap.session import Session

_WHAT = "a class activation map"


@dataclass(frozen=True)
class _Layer:
    """A layer: its name, how its output is arranged as a map, and its number of channels."""

    name: str
    places: Places
    channels: int


def find_layer(classifier: Classifier) -> _Layer:
    """The last module, in order of execution, whose output is a spatial map that the logits depend on.

    Spatial means ``(N, C, h, w)`` or ``(N, h, w, C)`` with more than one position and the image's proportions, or tokens ``(N, T, C)``
    whose positions gradients have confirmed (:mod:`proofmap.methods.probe`). The logits must depend on more than one token. After the last
    attention of a net with a class token, they depend on the class token alone. Modules inside an attention are skipped.
    """
    with probed(classifier, _WHAT) as probe:
        mixing = ""
        for name, output in reversed(probe.outputs.items()):
            if probe.inside_attention(name) or output.ndim not in (3, probe.images.ndim):
                continue
            gradient = probe.gradient(output)
            if gradient is None:
                continue
            places = probe.places(output)
            if places is None:
                mixing = mixing or (name if output.ndim == 3 and min(output.shape[1:]) > 1 else "")
            elif not mixing and (places.grid is None or _reaches_many(places.of(gradient))):
                return _Layer(name, places, output.shape[places.channels])
    why = f", and {mixing!r} mixes tokens after any that has" if mixing else ""
    raise InputError(
        f"no layer has a spatial map {probe.form} that the logits depend on{why}; name a layer with layer=, "
        "or use a method without layers"
    )


def _named_layer(classifier: Classifier, name: str, *, gradients: bool) -> _Layer:
    """The layer ``name``, which must be spatial. With ``gradients``, the logits must depend on it."""
    modules = dict(module_of(classifier, _WHAT).named_modules())
    if name not in modules:
        raise InputError(
            f"the net has no layer {name!r}; its last layers are {', '.join([*filter(None, modules)][-6:])}"
        )
    with probed(classifier, _WHAT) as probe:
        if name not in probe.outputs:
            found = probe.other.get(name)
            reason = "does not run when the net does; name another one"
            raise InputError(
                f"layer {name!r} {reason if found is None else f'gives {found}, not a spatial map {probe.form}'}"
            )
        output = probe.outputs[name]
        if gradients and probe.gradient(output) is None:
            raise InputError(f"the logits do not depend on layer {name!r}; name another one")
        places = probe.places(output)
        if places is None:
            raise InputError(
                f"layer {name!r} gives (N, {', '.join(map(str, output.shape[1:]))}), not a spatial map {probe.form} or tokens (N, T, C) that belong to parts of the {classifier.inputs.singular}; name another layer"
            )
        return _Layer(name, places, output.shape[places.channels])


def _reaches_many(gradient: Tensor) -> bool:
    """Whether a gradient ``(N, C, h, w)`` is nonzero at more than one position of an image."""
    return int((gradient.abs().sum(dim=1) > 0).flatten(1).sum(dim=1).max()) > 1


@contextmanager
def _captured(classifier: Classifier, layer: _Layer) -> Iterator[list[Tensor]]:
    """Context manager that collects the outputs of a layer while the net runs. The hook is removed at the end.

    If gradients are enabled, the layer's output is detached and requires a gradient. So the autograd graph starts at the layer, and the
    backbone before it keeps no graph. The backward hooks of the layer and of the modules around it are disabled while the net runs.
    """
    outputs: list[Tensor] = []
    net = module_of(classifier, _WHAT)
    parts = layer.name.split(".")
    around = [net.get_submodule(".".join(parts[:k])) for k in range(len(parts) + 1)]
    own = [module._backward_hooks for module in around]

    def hook(module: object, inputs: object, output: Tensor) -> Tensor | None:
        if not torch.is_grad_enabled():
            outputs.append(output.clone())  # what follows may work in place
            return None
        outputs.append(output.detach().requires_grad_(True))
        return outputs[-1].clone()

    handle = around[-1].register_forward_hook(hook)
    for module in around:
        module._backward_hooks = OrderedDict()
    fused = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)  # torch 2.4 uses it despite hooks
    try:
        yield outputs
    finally:
        torch.backends.mha.set_fastpath_enabled(fused)
        handle.remove()
        for module, hooks in zip(around, own, strict=True):
            module._backward_hooks = hooks


def _activations_of(classifier: Classifier, layer: _Layer, images: Tensor) -> Tensor:
    """The activations ``(N, C, h, w)`` of a layer for one batch of images, in float32, without gradients."""
    with torch.no_grad(), _captured(classifier, layer) as outputs:
        classifier(images)
        return layer.places.of(outputs[-1]).float()


class CAM(Method):
    """Base class of methods that make a map from the activations A ``(N, C, h, w)`` of one layer, enlarged linearly along each axis to the input.

    The layer is found if it is not named. For a transformer, gradients show which part of the image each token belongs to; class tokens and
    registers are left out.
    """

    family = "cam"
    needs = frozenset({"gradients", "layer"})
    layer: str = setting(
        "", "name of the layer whose activations are used; if left out, a suitable layer is found"
    )

    def prepare(self, session: Session) -> None:
        super().prepare(session)
        self.layer_in(session)

    def layer_in(self, session: Session) -> _Layer:
        """The layer whose activations are used: the named one, or the one that is found."""

        def find() -> _Layer:
            if not self.layer:
                return find_layer(session.net)
            return _named_layer(session.net, self.layer, gradients="gradients" in self.needs)

        return session.memo((self, "layer"), find)

    def record(self, session: Session) -> dict[str, object]:
        return {**self.settings(), "layer": self.layer_in(session).name}

    def maps(self, session: Session, images: Tensor, labels: Tensor) -> Tensor:
        def low_resolution(some: Tensor, own: Tensor) -> Tensor:
            return interpolated(self.low_resolution(session, some, own), some.shape[2:])

        return self.in_batches(session, low_resolution, images, labels, per_image=1)

    def low_resolution(self, session: Session, images: Tensor, labels: Tensor) -> Tensor:
        """The maps ``(N, L, h, w)`` of one batch, before they are enlarged."""
        raise NotImplementedError


def _places(values: Tensor) -> tuple[int, ...]:
    """The axes of the places of values ``(N, C, h, w)``, or ``(N, C, d, h, w)`` of volumes."""
    return tuple(range(2, values.ndim))


class GradientCAM(CAM):
    """Base class of maps made from the activations A and the gradient G = d logit_a / d A of each label, by :meth:`combine`."""

    def combine(self, activations: Tensor, gradient: Tensor) -> Tensor:
        """The map ``(N, h, w)`` of one label, from activations A and gradient G, both ``(N, C, h, w)``."""
        raise NotImplementedError

    def cost(self, labels: int, session: Session | None = None) -> Cost:
        return Cost(gradient=1)

    def low_resolution(self, session: Session, images: Tensor, labels: Tensor) -> Tensor:
        """The maps ``(N, L, h, w)`` of one batch, from one pass of the backbone and one gradient through the head for each label."""
        net, layer = session.net, self.layer_in(session)
        with torch.enable_grad(), _captured(net, layer) as outputs:
            chosen = net(images).gather(1, labels.clamp_min(0))
            activations = layer.places.of(outputs[-1].detach()).float()
            maps = [
                self.combine(activations, layer.places.of(gradient).float())
                for (gradient,) in label_gradients(chosen, outputs[-1:])
            ]
        return torch.stack(maps, dim=1)


@METHODS.register
class GradCAM(GradientCAM):
    """Grad-CAM (Selvaraju et al. 2017): relu(sum_k w_k A_k), w_k = mean over positions of d logit_a / d A_k.

    A_k are the channels of the activations of ``layer`` (found if not named), enlarged linearly to the input.
    """

    name = "grad-cam"
    reference = "Selvaraju et al. 2017"
    description = "last feature map, weighted by the logit's gradient"

    def combine(self, activations: Tensor, gradient: Tensor) -> Tensor:
        weights = gradient.mean(dim=_places(gradient), keepdim=True)
        return (weights * activations).sum(dim=1).relu()


@METHODS.register
class GradCAMPlusPlus(GradientCAM):
    """Grad-CAM++ (Chattopadhay et al. 2018): relu(sum_k w_k A_k), w_k = sum over positions of alpha_k relu(G_k).

    G_k = d logit_a / d A_k is the gradient at channel A_k of the activations. alpha_k = G_k^2 / (2 G_k^2 + S_k G_k^3) = 1 / (2 + S_k G_k),
    where S_k is the sum of A_k over positions. This is the paper's weight for the score exp(logit_a), up to a factor that is the same at
    all positions. alpha_k is set to zero where its denominator is not positive, which cannot occur with the paper's non-negative
    activations.
    """

    name = "grad-cam++"
    reference = "Chattopadhay et al. 2018"
    description = "Grad-CAM with weights that find several objects"

    def combine(self, activations: Tensor, gradient: Tensor) -> Tensor:
        below = 2 + activations.sum(dim=_places(gradient), keepdim=True) * gradient
        alpha = torch.where(below > 0, 1 / below, 0.0)
        weights = (alpha * gradient.relu()).sum(dim=_places(gradient), keepdim=True)
        return (weights * activations).sum(dim=1).relu()


@METHODS.register
class LayerCAM(GradientCAM):
    """Layer-CAM (Jiang et al. 2021): relu(sum_k relu(G_k) A_k), where G_k is the gradient at channel A_k; each position has its own weight.

    The method also suits earlier layers: name one with ``layer`` for a finer map.
    """

    name = "layer-cam"
    reference = "Jiang et al. 2021"
    description = "feature map, weighted place by place by the positive gradient"

    def combine(self, activations: Tensor, gradient: Tensor) -> Tensor:
        return (gradient.relu() * activations).sum(dim=1).relu()


_IMAGES = 64
"""Number of images whose activations are in memory at once."""


@METHODS.register
class ScoreCAM(CAM):
    """Score-CAM (Wang et al. 2020): relu(sum_k w_k A_k), w = softmax over k of the score of label a for the image x H_k.

    H_k is channel A_k of the activations, enlarged to the input and scaled to [0, 1]. The normalised image is multiplied by H_k, so hidden
    parts show gray. The score is the logit. It takes one pass per channel, and one more, for any number of labels.

    Presets: ``paper`` (the defaults), ``released`` (the authors' own code, where w_k is the probability itself), ``pytorch-grad-cam``
    (where channels are enlarged with aligned corners).
    """

    name = "score-cam"
    reference = "Wang et al. 2020"
    description = "feature maps, each weighted by the score of the image that it shows"
    needs = frozenset({"layer"})
    shortcuts: ClassVar[Shortcuts] = {
        "preset": {
            "paper": {},
            "released": {"score": "probability", "weights": "score"},
            "pytorch-grad-cam": {"align_corners": True},
        }
    }
    score: Literal["logit", "probability"] = setting(
        "logit", "what is read for each masked image: the label's logit or its probability"
    )
    weights: Literal["softmax", "score"] = setting(
        "softmax", "weights of the channels: a softmax of their scores, or the scores themselves"
    )
    align_corners: bool = setting(
        False, "enlarge channels with aligned corners, like align_corners=True in torch"
    )

    def cost(self, labels: int, session: Session | None = None) -> Cost | None:
        """Passes for one image: one for the activations, and one for each channel."""
        return None if session is None else Cost(forward=1 + self.layer_in(session).channels)

    def maps(self, session: Session, images: Tensor, labels: Tensor) -> Tensor:
        with session.progress.task(self.name, len(images) * (1 + self.layer_in(session).channels)) as task:
            blocks = zip(images.split(_IMAGES), labels.split(_IMAGES), strict=True)
            return torch.cat([self._block(session, x, a, task) for x, a in blocks])

    def _block(self, session: Session, images: Tensor, labels: Tensor, task: ProgressTask) -> Tensor:
        classifier, layer = session.net, self.layer_in(session)

        def run(start: int, stop: int) -> Tensor:
            channels = _activations_of(classifier, layer, images[start:stop])
            task.advance(stop - start)
            return channels

        activations = torch.cat(in_batches(run, len(images), classifier.batches[0]))
        scores = self.scores(classifier, images, activations, labels, task)
        weights = scores.softmax(dim=2) if self.weights == "softmax" else scores
        maps = torch.einsum("nlk,nk...->nl...", weights, activations).relu()
        return interpolated(maps, images.shape[2:])

    @torch.no_grad()
    def scores(
        self, classifier: Classifier, images: Tensor, activations: Tensor, labels: Tensor, task: ProgressTask
    ) -> Tensor:
        """The scores ``(N, L, K)`` of each label for the image masked by each of K channels."""
        fast, channels = classifier.frozen(), activations.shape[1]
        gray = classifier.inputs.per_channel(images.new_tensor(classifier.mean))

        def run(start: int, stop: int) -> Tensor:
            pair = torch.arange(start, stop, device=images.device)
            i, k = pair // channels, pair % channels
            channel = activations[i, k][:, None]
            masks = _scaled(interpolated(channel, images.shape[2:], corners=self.align_corners))
            logits = fast(gray + masks * (images[i] - gray))
            task.advance(stop - start)
            values = logits if self.score == "logit" else classifier.log_f(logits).exp()
            return values.gather(1, labels[i].clamp_min(0))

        rows = in_batches(run, len(images) * channels, fast.batches[0])
        return torch.cat(rows).view(len(images), channels, -1).transpose(1, 2)


def _scaled(masks: Tensor) -> Tensor:
    """Masks ``(B, 1, *positions)``, each scaled to [0, 1]; a constant mask becomes 0, so it hides everything."""
    low, high = (end(dim=_places(masks), keepdim=True) for end in (masks.amin, masks.amax))
    return torch.where(high > low, (masks - low) / (high - low).clamp_min(torch.finfo(masks.dtype).tiny), 0.0)
