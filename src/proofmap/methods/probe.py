"""Observes a net during a pass of noise: which modules run, in which order, and which places of the image their outputs belong to.

A layer's output can become a heat map if each of its positions corresponds to a place in the image. For convolutions the shape shows this:
``(N, C, h, w)``, or ``(N, h, w, C)`` in some nets. For tokens ``(N, T, C)`` the shape does not show it, because some tokens may have no
place (a class token, registers). Then gradients decide. They are taken where tokens first appear. There, the gradient of a patch's token
with respect to the image lies in the patch, and that of a class token is zero.

Fused kernels never compute the attention matrix softmax(q k^T / sqrt(d)). Inside :class:`AttentionMaps` every call of torch's fused
attention is replaced by the plain formula, and every softmax that returns square matrices is recorded. So nets from timm or Hugging Face,
nets with ``nn.MultiheadAttention``, and other code need no option, and the net is not changed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from proofmap.classifier import Classifier
from proofmap.classifier.kernels import outside_inference_mode
from proofmap.core.errors import InputError
from proofmap.core.streams import key_of, uniform

_SOFTMAX = (F.softmax, torch.softmax, Tensor.softmax)


def _is_square(attention: Tensor) -> bool:
    """Whether an attention matrix is square, which means that queries and keys are the same tokens."""
    return attention.shape[-1] == attention.shape[-2] > 1


class AttentionMaps(TorchFunctionMode):
    """A context manager that records all attention matrices ``(N, heads, T, T)`` computed inside it, in order. The rows of each matrix sum to
    one.

    With ``differentiable`` the autograd graph starts at the first matrix, unless it has started earlier. Then gradients with respect to
    every matrix exist, and the layers before the first matrix need no memory. The callback ``noted`` receives each attention matrix, even
    if queries and keys are different tokens.
    """

    def __init__(
        self, *, differentiable: bool = False, noted: Callable[[Tensor], None] | None = None
    ) -> None:
        super().__init__()
        self.maps: list[Tensor] = []
        self.differentiable = differentiable
        self._noted = noted

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is F.scaled_dot_product_attention:
            return self._attend(*args, **kwargs)
        if func is F.multi_head_attention_forward:
            return self._multi_head(func, *args, **kwargs)
        out = func(*args, **kwargs)
        return self._note(out) if func in _SOFTMAX else out

    def _note(self, attention: Tensor) -> Tensor:
        if attention.ndim not in (3, 4):  # the softmax of a head
            return attention
        if self._noted is not None:
            self._noted(attention)
        if _is_square(attention):
            if self.differentiable and torch.is_grad_enabled() and not attention.requires_grad:
                attention = attention.requires_grad_()
            self.maps.append(attention)
        return attention

    def _attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attn_mask: Tensor | None = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        scale: float | None = None,
        enable_gqa: bool = False,
    ) -> Tensor:
        """softmax(q k^T * scale + mask) v, as torch defines it, but without dropout, since nets are in evaluation mode."""
        if enable_gqa:
            times = query.shape[-3] // key.shape[-3]
            key, value = (t.repeat_interleave(times, dim=-3) for t in (key, value))
        scale = query.shape[-1] ** -0.5 if scale is None else scale
        scores = (query * scale) @ key.transpose(-2, -1)  # scaled first, which half precision needs
        if is_causal:
            attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
        if attn_mask is not None and attn_mask.dtype == torch.bool:
            scores = scores.masked_fill(~attn_mask, -torch.inf)
        elif attn_mask is not None:
            scores = scores + attn_mask
        attention = self._note(scores.softmax(dim=-1, dtype=torch.float32))
        return attention.to(value.dtype) @ value

    def _multi_head(
        self,
        func: Any,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        embed_dim: int,
        heads: int,
        in_weight: Tensor | None,
        in_bias: Tensor | None,
        bias_k: Tensor | None,
        bias_v: Tensor | None,
        add_zero_attn: bool,
        dropout_p: float,
        out_weight: Tensor,
        out_bias: Tensor | None,
        **options: Any,
    ) -> tuple[Tensor, Tensor | None]:
        """``nn.MultiheadAttention`` on tokens ``(T, N, C)``, some of which may be padding. A call with other masks, or with added keys, is
        passed to torch unchanged and is not recorded.
        """
        unusual = (bias_k, bias_v, *(options.get(name) for name in ("attn_mask", "static_k")))
        if query.ndim != 3 or add_zero_attn or any(part is not None for part in unusual):
            given = (embed_dim, heads, in_weight, in_bias, bias_k, bias_v, add_zero_attn, dropout_p)
            out: tuple[Tensor, Tensor | None] = func(
                query, key, value, *given, out_weight, out_bias, **options
            )
            return out
        if options.get("use_separate_proj_weight"):
            weights = [options[f"{name}_proj_weight"] for name in "qkv"]
        else:
            assert in_weight is not None
            weights = list(in_weight.chunk(3))
        biases = [None] * 3 if in_bias is None else list(in_bias.chunk(3))
        q, k, v = (
            F.linear(x, weight, bias).unflatten(2, (heads, -1)).permute(1, 2, 0, 3)  # (N, heads, T, d)
            for x, weight, bias in zip((query, key, value), weights, biases, strict=True)
        )
        padding = options.get("key_padding_mask")  # (N, T), True or -inf at padding
        mask = None
        if padding is not None:
            mask = (~padding if padding.dtype == torch.bool else padding)[:, None, None]
        result = self._attend(q, k, v, mask).permute(2, 0, 1, 3).flatten(2)
        attention = self.maps[-1].mean(dim=1) if options.get("need_weights", True) and self.maps else None
        return F.linear(result, out_weight, out_bias), attention


_IMAGES = 2
"""Number of noise images in the batch. There are two, because torch's batch-norm may have a wrong gradient for a single image."""
_EXTRA = 16
"""Maximum number of tokens without a place in the image."""
_ASKED = 12
"""Number of tokens whose places are estimated from gradients."""
_MISPLACED = 0.2
"""Largest mean distance of tokens from their places in a grid, as a share of the image's sides, at which the grid is accepted. For random
places the distance is two thirds.
"""


@dataclass(frozen=True)
class Grid:
    """A grid of tokens: the tokens from index ``first`` on are the places of the image, row by row, in volumes slice by slice."""

    sides: tuple[int, ...]
    first: int = 0

    def of(self, values: Tensor) -> Tensor:
        """Values of tokens ``(..., T)``, arranged on the grid ``(..., *sides)``.

        >>> Grid((2, 2), first=1).of(torch.arange(5))
        tensor([[1, 2],
                [3, 4]])
        """
        places = values[..., self.first : self.first + math.prod(self.sides)]
        return places.reshape(*values.shape[:-1], *self.sides)


@dataclass(frozen=True)
class Places:
    """Says how a layer's output becomes a map ``(N, C, h, w)``, or ``(N, C, d, h, w)`` of volumes.

    ``channels`` is the axis of the channels. ``tokens`` is the axis of the tokens, and ``grid`` their grid, if the output has tokens;
    otherwise both are None.
    """

    channels: int = 1
    tokens: int | None = None
    grid: Grid | None = None

    def of(self, output: Tensor) -> Tensor:
        """The map ``(N, C, h, w)`` from the layer's output."""
        if self.grid is None or self.tokens is None:
            return output.movedim(self.channels, 1)
        return self.grid.of(output.movedim((1 - self.tokens, self.channels, self.tokens), (0, 1, 2)))


@dataclass
class Probe:
    """Observations of a net during one pass of two noise images.

    Attributes:
        images: the noise images ``(2, *shape)``, with gradients.
        size: the sides of the images.
        score: a number that depends on all logits.
        outputs: the last output of each module that returns a tensor, in order of execution.
        other: the type of the last output of each module that does not return a tensor.
        given: every tensor that went into or came out of a module, in order.
        attention: the attention matrices, in order.
        attending: the names of the innermost modules that compute attention.
        reduced: whether an attention with several queries has other tokens as keys. (An attention with a single query is how the head reads the
            tokens.)
    """

    images: Tensor
    size: tuple[int, ...]
    score: Tensor = field(default_factory=lambda: torch.zeros(()))
    outputs: dict[str, Tensor] = field(default_factory=dict)
    other: dict[str, str] = field(default_factory=dict)
    given: list[Tensor] = field(default_factory=list)
    attention: list[Tensor] = field(default_factory=list)
    attending: set[str] = field(default_factory=set)
    reduced: bool = False
    _grids: dict[tuple[int, int], Grid | None] = field(default_factory=dict)

    @property
    def form(self) -> str:
        """The shape of a spatial map in words."""
        return f"(N, C, {'h, w' if len(self.size) == 2 else 'd, h, w'})"

    def gradient(self, of: Tensor) -> Tensor | None:
        """The gradient of the score with respect to the tensor ``of``; None if the logits do not depend on the tensor."""
        if not of.requires_grad or not self.score.requires_grad:
            return None
        (gradient,) = torch.autograd.grad(self.score, of, retain_graph=True, allow_unused=True)
        return gradient if gradient is not None and bool(gradient.abs().sum() > 0) else None

    def inside_attention(self, name: str) -> bool:
        """Whether the module ``name`` is inside an attention module, so that its output (such as keys) is not a feature map."""
        return any(name.startswith(outer + ".") for outer in self.attending)

    def places(self, output: Tensor) -> Places | None:
        """How a layer's output becomes a map; None if its positions do not belong to places in the image."""
        if output.ndim == self.images.ndim and output.shape[0] == _IMAGES:
            found = [
                Places(channels)
                for channels, sides in ((1, output.shape[2:]), (output.ndim - 1, output.shape[1:-1]))
                if is_spatial(sides, self.size)
            ]
            if len(found) == 2:  # the shape does not show which axis has the channels
                found.sort(key=lambda places: self._misplaced(places.of(output)[0]))
            return found[0] if found else None
        if output.ndim == 3 and _IMAGES in output.shape[:2]:
            tokens = 1 if output.shape[0] == _IMAGES else 0
            grid = self.grid(output.shape[tokens], tokens)
            return Places(2, tokens, grid) if grid is not None else None
        return None

    def grid(self, count: int, tokens: int = 1) -> Grid | None:
        """The grid of ``count`` tokens along the axis ``tokens``, confirmed by gradients where such tokens first appear; None if there is
        none.
        """
        if (count, tokens) not in self._grids:
            shape = (count, _IMAGES) if tokens == 0 else (_IMAGES, count)
            new = next(
                (t for t in self.given if t.ndim == 3 and t.shape[:2] == shape and t.requires_grad), None
            )
            self._grids[count, tokens] = None if new is None else self._proven(new.select(1 - tokens, 0))
        return self._grids[count, tokens]

    def _proven(self, tokens: Tensor) -> Grid | None:
        """The grid that agrees best with the gradients of tokens ``(T, C)``; None if no grid agrees well enough."""
        count, centres = len(tokens), self._centres(tokens)
        grids = [
            Grid(sides, first)
            for extra in range(min(_EXTRA, count - 2) + 1)
            for sides in _factors(count - extra, len(self.size))
            if is_spatial(sides, self.size)
            for first in range(extra, -1, -1)
        ]
        best = min(grids, key=lambda grid: _distance(centres, grid), default=None)
        return best if best is not None and _distance(centres, best) <= _MISPLACED else None

    def _misplaced(self, feature: Tensor) -> float:
        """Mean distance of the positions of a map ``(C, h, w)`` from their places in the image."""
        return _distance(self._centres(feature.flatten(1).T), Grid(tuple(feature.shape[1:])))

    def _centres(self, tokens: Tensor) -> dict[int, tuple[float, ...] | None]:
        asked = torch.linspace(0, len(tokens) - 1, min(len(tokens), _ASKED)).long().unique().tolist()
        return {t: self._centre(tokens[t]) for t in asked}

    def _centre(self, token: Tensor) -> tuple[float, ...] | None:
        """The place of a token in the image, along each axis, as shares of the sides: the centre of the token's gradient. None if the gradient is
        zero.
        """
        # a plain sum is constant after a layer norm
        weights = torch.arange(len(token), device=token.device).cos()
        (gradient,) = torch.autograd.grad(
            (token.float() * weights).sum(), self.images, retain_graph=True, allow_unused=True
        )
        size = None if gradient is None else gradient[0].abs().sum(dim=0)
        if size is None or not bool(size.sum() > 0):
            return None
        axes = range(size.ndim)
        lines = [size.sum(dim=[other for other in axes if other != axis]) / size.sum() for axis in axes]
        return tuple(float((s * (torch.arange(len(s), device=s.device) + 0.5)).sum()) / len(s) for s in lines)


def _distance(centres: dict[int, tuple[float, ...] | None], grid: Grid) -> float:
    """The mean distance of tokens from their places in a grid. A token that has a place and should have none counts as 1, and so does a token
    that should have a place and has none.
    """
    total = 0.0
    for token, centre in centres.items():
        inside = 0 <= token - grid.first < math.prod(grid.sides)
        if inside and centre is not None:
            cells = np.unravel_index(token - grid.first, grid.sides)
            places = zip(centre, cells, grid.sides, strict=True)
            total += sum(abs(place - (cell + 0.5) / side) for place, cell, side in places)
        elif inside or centre is not None:
            total += 1.0
    return total / len(centres)


def is_spatial(sides: Sequence[int], size: Sequence[int]) -> bool:
    """Whether a map ``(h, w)`` has more than one cell and the proportions of an image ``(H, W)``, within one cell. The depth of a volume may
    shrink more or less than its height and width."""
    (h, w), (height, width) = sides[-2:], size[-2:]
    fits = h * w > 1 and all(few <= many for few, many in zip(sides, size, strict=True))
    return fits and abs(h * width - w * height) <= max(height, width)


def _factors(count: int, axes: int) -> Iterator[tuple[int, ...]]:
    """All ways to write a number as a product of ``axes`` numbers."""
    if axes == 1:
        yield (count,)
        return
    for first in range(1, count + 1):
        if count % first == 0:
            yield from ((first, *rest) for rest in _factors(count // first, axes - 1))


def mixed_logits(logits: Tensor) -> Tensor:
    """A number that depends on all logits. Their plain sum would be constant for centred logits such as (z, -z)."""
    return (logits * torch.arange(1, 1 + logits.shape[1], device=logits.device)).sum()


@contextmanager
def watch_outputs(net: nn.Module, names: Iterable[str], see: Callable[[str, Any], object]) -> Iterator[None]:
    """Context manager that calls ``see(name, output)`` after each of the modules ``names`` has run. If ``see`` returns a tensor, this tensor
    replaces the output. The hooks are removed at the end.
    """

    def hook(name: str) -> Any:
        return lambda module, inputs, output: see(name, output)

    modules = dict(net.named_modules())
    handles = [modules[name].register_forward_hook(hook(name)) for name in names]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def module_of(classifier: Classifier, what: str) -> nn.Module:
    """The classifier's net. Raises if the layers of the net cannot be observed; ``what`` names, in the message, what needs the net."""
    if not isinstance(classifier.net, nn.Module):
        raise InputError(
            f"{what} needs a torch module whose layers can be seen; this classifier wraps a function"
        )
    if isinstance(classifier.net, torch.jit.ScriptModule):
        raise InputError(
            f"{what} needs a net whose layers can be watched, and TorchScript's cannot; pass the net it was made from, "
            "or use a method that needs no layer"
        )
    classifier.refresh()  # before hooks are put on its layers
    return classifier.net


@contextmanager
def probed(classifier: Classifier, what: str) -> Iterator[Probe]:
    """Context manager that sends noise through a classifier's net and returns the observations. No hook stays in the net. ``what`` is for
    error messages.
    """
    with outside_inference_mode(), _watched(classifier, what) as probe:
        yield probe


@contextmanager
def _watched(classifier: Classifier, what: str) -> Iterator[Probe]:
    net, inputs = module_of(classifier, what), classifier.inputs
    if len(inputs.positions) < 2:
        raise InputError(f"this needs a net of pictures; {classifier.name} takes {inputs.noun}")
    shape = (_IMAGES, *inputs.shape)
    noise = uniform(torch.tensor(key_of("probe")), math.prod(shape)).view(shape)
    probe = Probe(noise.to(classifier.device).requires_grad_(True), inputs.positions)
    running: list[str] = []

    def enter(name: str) -> Any:
        def hook(module: nn.Module, inputs: tuple[Any, ...]) -> None:
            running.append(name)
            probe.given += [value for value in inputs if isinstance(value, Tensor)]

        return hook

    def leave(name: str) -> Any:
        def hook(module: nn.Module, inputs: object, output: object) -> None:
            while running and running.pop() != name:  # a module that raised was never left
                pass
            probe.outputs.pop(name, None)
            if isinstance(output, Tensor):
                probe.outputs[name] = output
                probe.given.append(output)
            else:
                probe.other[name] = type(output).__name__

        return hook

    named = [
        (name, module)
        for name, module in net.named_modules()
        if name and not isinstance(module, torch.jit.ScriptModule)  # which takes no hooks
    ]
    handles = [module.register_forward_pre_hook(enter(name)) for name, module in named]
    handles += [module.register_forward_hook(leave(name)) for name, module in named]

    def noted(attention: Tensor) -> None:
        probe.attending.update(running[-1:])
        if not _is_square(attention) and attention.shape[-2] > 1:
            probe.reduced = True

    attention = AttentionMaps(noted=noted)
    try:
        with torch.enable_grad():
            with attention:
                logits = classifier(probe.images)
            probe.score = mixed_logits(logits)
            probe.attention = attention.maps
            for handle in handles:
                handle.remove()
            yield probe
    finally:
        for handle in handles:
            handle.remove()
