"""The layer whose activations become a class activation map: it is named by the user, or found automatically and confirmed by a gradient."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core.errors import InputError
from proofmap.methods.probe import Places, Probe, module_of, probed

_WHAT = "a class activation map"


@dataclass(frozen=True)
class Layer:
    """A layer: its name, how its output is arranged as a map, and its number of channels."""

    name: str
    places: Places
    channels: int


def find_layer(classifier: Classifier) -> Layer:
    """The last module, in order of execution, whose output is a spatial map that the logits depend on.

    Spatial means ``(N, C, h, w)`` or ``(N, h, w, C)`` with more than one position and the image's proportions, or tokens ``(N, T, C)``
    whose positions gradients have confirmed (:mod:`proofmap.methods.probe`). The logits must depend on more than one token. After the last
    attention of a net with a class token, they depend on the class token alone. Modules inside an attention are skipped.
    """
    with probed(classifier, _WHAT) as probe:
        mixing = ""
        for name, output in reversed(probe.outputs.items()):
            if probe.inside_attention(name) or output.ndim not in (3, 4):
                continue
            gradient = probe.gradient(output)
            if gradient is None:
                continue
            places = probe.places(output)
            if places is None:
                mixing = mixing or (name if output.ndim == 3 and min(output.shape[1:]) > 1 else "")
            elif not mixing and (places.grid is None or _reaches_many(places.of(gradient))):
                return Layer(name, places, output.shape[places.channels])
    why = f", and {mixing!r} mixes tokens after any that has" if mixing else ""
    raise InputError(
        f"no layer has a spatial map (N, C, h, w) that the logits depend on{why}; name a layer with layer=, "
        "or use a method without layers"
    )


def named_layer(classifier: Classifier, name: str, *, gradients: bool) -> Layer:
    """The layer ``name``, which must be spatial. With ``gradients``, the logits must depend on it."""
    modules = dict(module_of(classifier, _WHAT).named_modules())
    if name not in modules:
        raise InputError(
            f"the net has no layer {name!r}; its last layers are {', '.join([*filter(None, modules)][-6:])}"
        )
    with probed(classifier, _WHAT) as probe:
        output = _output_of(probe, name)
        if gradients and probe.gradient(output) is None:
            raise InputError(f"the logits do not depend on layer {name!r}; name another one")
        places = probe.places(output)
        if places is None:
            raise InputError(
                f"layer {name!r} gives (N, {', '.join(map(str, output.shape[1:]))}), not a spatial map (N, C, h, w) or tokens (N, T, C) that belong to parts of the picture; name another layer"
            )
        return Layer(name, places, output.shape[places.channels])


def _output_of(probe: Probe, name: str) -> Tensor:
    if name in probe.outputs:
        return probe.outputs[name]
    if name in probe.other:
        raise InputError(f"layer {name!r} gives {probe.other[name]}, not a spatial map (N, C, h, w)")
    raise InputError(f"layer {name!r} does not run when the net does; name another one")


def _reaches_many(gradient: Tensor) -> bool:
    """Whether a gradient ``(N, C, h, w)`` is nonzero at more than one position of an image."""
    return int((gradient.abs().sum(dim=1) > 0).flatten(1).sum(dim=1).max()) > 1


@contextmanager
def captured(classifier: Classifier, layer: Layer) -> Iterator[list[Tensor]]:
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


def activations_of(classifier: Classifier, layer: Layer, images: Tensor) -> Tensor:
    """The activations ``(N, C, h, w)`` of a layer for one batch of images, in float32, without gradients."""
    with torch.no_grad(), captured(classifier, layer) as outputs:
        classifier(images)
        return layer.places.of(outputs[-1]).float()
