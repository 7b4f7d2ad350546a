"""A digest of a net: it differs where the function differs."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from torch import Tensor, nn

from proofmap.plugins.code import Digest


def fingerprint_of(net: nn.Module | Callable[[Tensor], Tensor], settings: Mapping[str, object]) -> str:
    """A digest of layers, weights, buffers, code and settings."""
    digest = Digest(16)
    digest.update(repr(sorted(settings.items())).encode())
    digest.add_function(net)
    return digest.hexdigest()
