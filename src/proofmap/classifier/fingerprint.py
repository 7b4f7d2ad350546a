"""A digest of a net: it differs where the function differs."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from torch import Tensor, nn

from proofmap.plugins.code import Digest, code_digest, tensor_bytes


def fingerprint_of(net: nn.Module | Callable[[Tensor], Tensor], settings: Mapping[str, object]) -> str:
    """A digest of layers, weights, buffers, code and settings."""
    digest = Digest(16)
    digest.update(repr(sorted(settings.items())).encode())
    if not isinstance(net, nn.Module):
        digest.update(code_digest(net).encode())
        return digest.hexdigest()
    digest.update(repr(net).encode())
    for key, tensor in [*net.named_parameters(), *net.named_buffers()]:
        digest.update(key.encode() + str(tensor.dtype).encode() + str(tuple(tensor.shape)).encode())
        digest.update(tensor_bytes(tensor))
    kinds = {type(module) for module in net.modules() if not type(module).__module__.startswith("torch.")}
    for kind in sorted(kinds, key=lambda kind: kind.__qualname__):
        digest.add_class(kind)
    for name, module in net.named_modules():
        own = {k: v for k, v in vars(module).items() if not k.startswith("_") and k != "training"}
        if type(module) in kinds and own:
            digest.update(name.encode())
            digest.add_plain(own)
    return digest.hexdigest()
