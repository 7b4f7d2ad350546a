"""Records the attention matrices of any transformer while the net runs.

Fused kernels never compute the matrix softmax(q k^T / sqrt(d)). Inside :class:`AttentionMaps` every call of torch's fused attention is
replaced by the plain formula, and every softmax that returns square matrices is recorded. So nets from timm or Hugging Face, nets with
``nn.MultiheadAttention``, and other code need no option, and the net is not changed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

_SOFTMAX = (F.softmax, torch.softmax, Tensor.softmax)


def is_square(attention: Tensor) -> bool:
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
        if is_square(attention):
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
