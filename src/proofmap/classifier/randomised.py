"""Copies of a net with randomised layers, for sanity checks of methods.

A layer is a module with its own weights. Layers are in the order of a forward pass, and a normalisation belongs to the layer before it.
A randomised layer is as before training: weights are drawn from N(0, 2 / fan in), biases are 0, normalisations have scale 1, shift 0,
mean 0 and variance 1, and other vectors are shuffled. The random numbers for a weight depend only on the seed and the weight's name, so if
layers are randomised step by step, all steps use the same numbers. The net itself is not changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from proofmap.classifier.classifier import Classifier
from proofmap.classifier.view import copy_net
from proofmap.core import streams
from proofmap.core.errors import InputError

_CHUNK = 1_000_000


def layers_of(classifier: Classifier) -> list[tuple[str, ...]]:
    """The layers of the net from its input to its output: for each, the names of its modules, one with weights and then its normalisations."""
    source = _source(classifier)
    net = _module_of(source)
    started: dict[str, int] = {}

    def watch(name: str) -> Callable[[nn.Module, object], None]:
        def hook(module: nn.Module, inputs: object) -> None:
            started.setdefault(name, len(started))

        return hook

    handles = [module.register_forward_pre_hook(watch(name)) for name, module in net.named_modules()]
    try:
        with torch.no_grad():
            source(source.blank(1))
    finally:
        for handle in handles:
            handle.remove()
    when: dict[str, int] = {}
    latest = 0
    for name, _ in net.named_modules():
        # a module that is not called comes after those named before it
        when[name] = started.get(name, latest)
        latest = max(latest, when[name])
    owners = [name for name, module in net.named_modules() if module._parameters]
    owners.sort(key=when.__getitem__)
    layers: list[tuple[str, ...]] = []
    for name in owners:
        begins = any(w is not None and w.ndim > 1 for w in net.get_submodule(name)._parameters.values())
        if begins or not layers:
            layers.append((name,))
        else:
            layers[-1] = (*layers[-1], name)
    if not layers:
        raise InputError(f"{classifier.name} has no weights to randomise")
    return layers


def randomised(classifier: Classifier, modules: Sequence[str], *, seed: int = 0) -> Classifier:
    """A classifier with a copy of the net, in which the weights of the modules named in ``modules`` are randomised."""
    source = _source(classifier)
    net = copy_net(_module_of(source))
    with torch.no_grad():
        for name in modules:
            _draw(net.get_submodule(name), name, seed)
    other = source.with_net(net)
    other.fix_batches(*(batch.size for batch in source.batches))
    return other


def _source(classifier: Classifier) -> Classifier:
    """The classifier that a frozen view was made from, whose layers are not fused."""
    classifier.refresh()
    return classifier._source or classifier


def _module_of(classifier: Classifier) -> nn.Module:
    if not isinstance(classifier.net, nn.Module):
        raise InputError(
            f"{classifier.name} is a function, whose weights cannot be randomised; give the Classifier the torch module"
        )
    return classifier.net


def _draw(module: nn.Module, name: str, seed: int) -> None:
    normalises = "norm" in type(module).__name__.lower()
    for key, weight in module._parameters.items():
        if weight is None or not weight.is_floating_point():
            continue
        if weight.ndim > 1:
            fan_in = weight.numel() / weight.shape[0]
            drawn = _normal(weight, name, key, seed) * (2 / fan_in) ** 0.5
        elif normalises:
            drawn = torch.full_like(weight, 0.0 if "bias" in key else 1.0)
        elif "bias" in key:
            drawn = torch.zeros_like(weight)
        else:
            stream = torch.tensor(streams.key_of(seed, "shuffled", name, key), device=weight.device)
            drawn = weight.flatten()[streams.permutations(stream, weight.numel())].view_as(weight)
        weight.copy_(drawn)
    for key, value in (("running_mean", 0.0), ("running_var", 1.0)):
        if isinstance(buffer := module._buffers.get(key), Tensor):
            buffer.fill_(value)


def _normal(like: Tensor, name: str, key: str, seed: int) -> Tensor:
    """Standard normal numbers in the shape of ``like``, generated in chunks of a million."""
    counts = [min(_CHUNK, like.numel() - start) for start in range(0, like.numel(), _CHUNK)]
    keys = [streams.key_of(seed, "drawn anew", name, key, k) for k in range(len(counts))]
    parts = [
        streams.normal(torch.tensor(stream, device=like.device), n)
        for stream, n in zip(keys, counts, strict=True)
    ]
    return torch.cat(parts).view(like.shape).to(like.dtype)
