"""Versions of the user's net: whether it has changed, such as by training, since a view of it was made."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

from torch import Tensor, nn


class NetVersion:
    """The weights and buffers of a net at one moment. Changes that torch does not track (``.data``, NumPy) are not noticed."""

    def __init__(self, net: object) -> None:
        self.net = net if isinstance(net, nn.Module) else None
        self.state: Hashable = _state_of(net)
        self._counted: Sequence[tuple[Tensor, int]] = [
            (tensor, tensor._version) for tensor in tensors_of(net) if not tensor.is_inference()
        ]

    def is_old(self) -> bool:
        """Whether the net has changed since. Training changes batch-norm statistics without a new version, but also counts the
        batches in a buffer.
        """
        return self.net is not None and self.state != _state_of(self.net)

    def is_changed_in_place(self) -> bool:
        """Whether one of the tensors was changed in place. This takes microseconds; :meth:`is_old` also notices replaced tensors."""
        return any(tensor._version != version for tensor, version in self._counted)

    def __getstate__(self) -> dict[str, object]:
        """A copy is of another net, which does not change when this one is trained."""
        return {"net": None, "state": self.state, "_counted": ()}


def tensors_of(net: object) -> list[Tensor]:
    """The weights and buffers of a net; empty for a function."""
    return [*net.parameters(), *net.buffers()] if isinstance(net, nn.Module) else []


def _state_of(net: object) -> Hashable:
    """The states of all tensors of a net. Every call of a classifier asks for it: ``parameters()`` takes five times as long."""
    return tuple(map(_tensor_state, _each_tensor(net))) if isinstance(net, nn.Module) else ()


def _each_tensor(net: nn.Module) -> Iterator[Tensor]:
    """The weights and buffers of a net, part by part; one that several parts share comes several times."""
    parts, seen = [net], {net}
    while parts:
        part = parts.pop()
        for tensors in (part._parameters, part._buffers):
            for tensor in tensors.values():
                if tensor is not None:
                    yield tensor
        for inner in part._modules.values():
            if inner is not None and inner not in seen:
                seen.add(inner)
                parts.append(inner)


def _tensor_state(tensor: Tensor) -> tuple[int, int]:
    """The address and the version of a tensor."""
    try:
        place = tensor.data_ptr()
    except RuntimeError:  # some kinds of tensor, such as sparse ones, have no single place
        place = id(tensor)
    return place, 0 if tensor.is_inference() else tensor._version
