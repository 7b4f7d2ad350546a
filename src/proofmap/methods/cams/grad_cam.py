"""Class activation maps: the backbone runs once, and only the head is differentiated for each label."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from proofmap.classifier import Classifier
from proofmap.core.batching import in_batches
from proofmap.core.errors import InputError
from proofmap.core.progress import Progress
from proofmap.methods.method import METHODS, Cost, Family, Method, Need, ReadyMethod
from proofmap.plugins.settings import setting


def find_layer(classifier: Classifier) -> str:
    """The name of the last module, in order of execution, whose output is a spatial map that the logits depend on.

    Spatial means ``(N, C, h, w)`` with more than one place and the image's proportions. A gradient probe on a
    patterned image confirms it. Where tokens are mixed after that layer, as in a transformer, places no longer
    belong to pixels, and the layer must be named.
    """
    net = _module_of(classifier)
    height, width = classifier.size
    ran: dict[str, Tensor] = {}

    def watch(name: str) -> nn.modules.module._forward_hook_type:  # type: ignore[name-defined]
        def hook(module: nn.Module, inputs: object, output: object) -> None:
            if isinstance(output, Tensor) and output.ndim in (3, 4) and output.shape[0] == 1:
                ran.pop(name, None)
                ran[name] = output

        return hook

    def pictured(h: int, w: int) -> bool:
        fits = h * w > 1 and h <= height and w <= width
        return fits and abs(h * width - w * height) <= max(height, width)  # up to one place

    handles = [module.register_forward_hook(watch(name)) for name, module in net.named_modules() if name]
    ramp = torch.linspace(0, 1, height * width, device=classifier.device, dtype=torch.float32).view(
        1, 1, height, width
    )
    mixing = ""
    try:
        with torch.enable_grad():
            image = ramp.expand(1, classifier.channels, height, width).clone().requires_grad_(True)
            logits = classifier(image)
            # not their plain sum, which is constant where logits are centred, such as (z, -z)
            probe = (logits * torch.arange(1, 1 + logits.shape[1], device=logits.device)).sum()
            for name, output in reversed(ran.items()):
                if not output.requires_grad:
                    continue
                (gradient,) = torch.autograd.grad(probe, output, retain_graph=True, allow_unused=True)
                if gradient is None or not bool(gradient.abs().sum() > 0):
                    continue
                if output.ndim == 4 and pictured(*output.shape[2:]) and not mixing:
                    return name
                if (output.ndim == 3 and output.shape[1] > 1) or (
                    output.ndim == 4 and pictured(*output.shape[1:3])
                ):
                    mixing = mixing or name
    finally:
        for handle in handles:
            handle.remove()
    why = f", and {mixing!r} mixes tokens behind any that has" if mixing else ""
    raise InputError(
        f"no layer gives the logits a spatial map (N, C, h, w){why}; name a layer with layer=, "
        "or use a method that needs none"
    )


def _module_of(classifier: Classifier) -> nn.Module:
    if not isinstance(classifier.net, nn.Module):
        raise InputError(
            "a class activation map needs a torch module whose layers can be seen; this classifier wraps a function"
        )
    classifier.refresh()  # before hooks are put on its layers
    return classifier.net


@contextmanager
def captured(net: nn.Module, layer: str) -> Iterator[list[Tensor]]:
    """Collect the outputs of one layer while the net runs; leaves no hook behind."""
    modules = dict(net.named_modules())
    if layer not in modules:
        raise InputError(
            f"the net has no layer {layer!r}; its last layers are {', '.join(list(modules)[-6:])}"
        )
    outputs: list[Tensor] = []
    handle = modules[layer].register_forward_hook(lambda module, inputs, output: outputs.append(output))
    try:
        yield outputs
    finally:
        handle.remove()


def _spatial(outputs: list[Tensor], layer: str) -> Tensor:
    """The layer's last output, if it is a spatial map that gradients can be taken for."""
    if not outputs:
        raise InputError(f"layer {layer!r} does not run when the net does; name another one")
    if not isinstance(outputs[-1], Tensor) or outputs[-1].ndim != 4:
        given = tuple(outputs[-1].shape) if isinstance(outputs[-1], Tensor) else type(outputs[-1]).__name__
        raise InputError(f"layer {layer!r} gives {given}, not a spatial map (N, C, h, w)")
    if not outputs[-1].requires_grad:
        raise InputError(f"no gradient reaches layer {layer!r}; name another one")
    return outputs[-1]


@METHODS.register
@dataclass(frozen=True, kw_only=True)
class GradCAM(Method):
    """Grad-CAM (Selvaraju et al. 2017): relu(sum_k w_k A_k), w_k = mean over places of d logit_a / d A_k.

    A are the activations of ``layer`` (found by itself when not named), enlarged bilinearly to the input.
    """

    name: ClassVar[str] = "grad-cam"
    family: ClassVar[Family] = "cam"
    reference: ClassVar[str] = "Selvaraju et al. 2017"
    description: ClassVar[str] = "last feature map, weighted by the logit's gradient"
    needs: ClassVar[frozenset[Need]] = frozenset({"gradients", "layer"})
    layer: str = setting("", "the layer's name; found by itself when left out")

    def prepare(self, classifier: Classifier) -> ReadyGradCAM:
        return ReadyGradCAM(self, classifier, self.layer or find_layer(classifier))

    def cost(self, labels: int) -> Cost:
        return Cost(gradient=1)


@dataclass(frozen=True, eq=False)
class ReadyGradCAM(ReadyMethod):
    """Grad-CAM of one net, at the layer that was named or found."""

    layer: str

    def record(self) -> dict[str, object]:
        return {**super().record(), "layer": self.layer}

    def compute(self, images: Tensor, labels: Tensor, *, seed: int, progress: Progress) -> Tensor:
        with progress.task(self.method.name, len(images)) as task:

            def run(start: int, stop: int) -> Tensor:
                low = self.low_resolution(images[start:stop], labels[start:stop])
                task.advance(stop - start)
                return F.interpolate(low, size=images.shape[2:], mode="bilinear", align_corners=False)

            return torch.cat(in_batches(run, len(images), self.classifier.batches[1]))

    def low_resolution(self, images: Tensor, labels: Tensor) -> Tensor:
        """The maps ``(N, L, h, w)`` before enlarging."""
        classifier, layer, net = self.classifier, self.layer, _module_of(self.classifier)
        with torch.enable_grad(), captured(net, layer) as outputs:
            # the image asks for gradients, so that the activations do, though the weights do not
            chosen = classifier(images.detach().clone().requires_grad_(True)).gather(1, labels.clamp_min(0))
            activations = _spatial(outputs, layer)
            maps = []
            for j in range(labels.shape[1]):
                (gradient,) = torch.autograd.grad(
                    chosen[:, j].sum(), activations, retain_graph=True, allow_unused=True
                )
                if gradient is None:
                    raise InputError(f"the logits do not depend on layer {layer!r}; name another one")
                weights = gradient.mean(dim=(2, 3), keepdim=True)
                maps.append((weights * activations).sum(dim=1).relu())
        return torch.stack(maps, dim=1).detach().float()
