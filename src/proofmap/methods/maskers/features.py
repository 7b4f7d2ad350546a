"""The encoder of every masker: feature maps of the frozen net at several scales, read through hooks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core.errors import InputError
from proofmap.methods.probe import is_spatial, mixed_logits, module_of, watch_outputs

_WHAT = "a masker"
_FINER = 1.5
"""The next scale is at least this much finer: padding of a map does not make another scale."""


@dataclass(frozen=True)
class Scale:
    """A layer whose output is a spatial map ``(N, channels, *size)``."""

    layer: str
    channels: int
    size: tuple[int, int]


def find_scales(classifier: Classifier, layers: Sequence[str] = (), *, most: int) -> tuple[Scale, ...]:
    """The scales at which a masker reads the net, the coarsest first: at most ``most``, or those of the named layers.

    A scale is a size of feature maps, with the image's proportions and more than one place. Its layer is the last one in
    order of execution among the least nested ones, so a stage and not a convolution inside the next stage. A gradient must show that
    the logits depend on it.
    """
    found = _spatial_layers(classifier)
    if layers:
        unknown = [name for name in layers if name not in found]
        if unknown:
            raise InputError(
                f"layer {unknown[0]!r} has no spatial map (N, C, h, w) that the logits depend on; the last layers with one are "
                f"{', '.join(list(found)[-6:]) or 'none'}"
            )
        scales = [_scale(name, found[name]) for name in layers]
        if len({scale.size for scale in scales}) < len(scales):
            raise InputError("the layers of a masker must have different sizes; name one of each size")
        return tuple(sorted(scales, key=lambda scale: scale.size))
    best: dict[tuple[int, int], Scale] = {}
    for name, output in found.items():
        scale = _scale(name, output)
        other = best.get(scale.size)
        if other is None or name.count(".") <= other.layer.count("."):
            best[scale.size] = scale
    chosen: list[Scale] = []
    for size in sorted(best):
        if not chosen or max(size) >= _FINER * max(chosen[-1].size):
            chosen.append(best[size])
    if not chosen:
        raise InputError(
            "a masker reads spatial feature maps (N, C, h, w), and no layer of this net has one that its logits depend on"
        )
    return tuple(chosen[:most])


def _scale(name: str, output: Tensor) -> Scale:
    return Scale(name, output.shape[1], (output.shape[2], output.shape[3]))


def _spatial_layers(classifier: Classifier) -> dict[str, Tensor]:
    """The outputs for one image of all layers with a spatial map that the logits depend on, in order of execution."""
    net, ran = module_of(classifier, _WHAT), dict[str, Tensor]()

    def note(name: str, output: object) -> None:
        if isinstance(output, Tensor) and output.ndim == 4 and output.requires_grad:
            ran.pop(name, None)
            ran[name] = output

    with watch_outputs(net, [name for name, _ in net.named_modules() if name], note), torch.enable_grad():
        image = classifier.inputs.probe().to(classifier.device).requires_grad_(True)
        score = mixed_logits(classifier(image))
    ran = {
        name: output
        for name, output in ran.items()
        if len(output) == 1 and is_spatial(output.shape[2:], classifier.size)
    }
    if not ran or not score.requires_grad:
        return {}
    gradients = torch.autograd.grad(score, list(ran.values()), allow_unused=True)
    return {
        name: output.detach()
        for (name, output), gradient in zip(ran.items(), gradients, strict=True)
        if gradient is not None and bool(gradient.abs().sum() > 0)
    }


@torch.no_grad()
def read_features(
    classifier: Classifier, images: Tensor, scales: Sequence[Scale]
) -> tuple[list[Tensor], Tensor]:
    """Feature maps ``(N, C, h, w)`` in float32, the coarsest first, and logits ``(N, A)``, from one pass of the net."""
    outputs: dict[str, Tensor] = {}
    layers = [scale.layer for scale in scales]
    with watch_outputs(module_of(classifier, _WHAT), layers, outputs.__setitem__):
        logits = classifier(images)
    return [outputs[layer].float() for layer in layers], logits
