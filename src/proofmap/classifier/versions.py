"""Find out whether the user's net has changed, such as by training, since a view (private copy) of it was made."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

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
        """Whether the net has changed since this object was made. Training changes batch-norm statistics without a new version of their
        tensors, but it also increases a counter of batches, which is noticed.
        """
        return self.net is not None and self.state != _state_of(self.net)

    def is_changed_in_place(self) -> bool:
        """Whether one of the tensors was changed in place. This takes microseconds; :meth:`is_old` also notices replaced tensors."""
        return any(tensor._version != version for tensor, version in self._counted)

    def __getstate__(self) -> dict[str, object]:
        """The state for a copy. A copy belongs to another net, which does not change when this one is trained."""
        return {"net": None, "state": self.state, "_counted": ()}


def tensors_of(net: object) -> list[Tensor]:
    """The weights and then the buffers of a net, each once, in the order of its modules; empty for a function.

    Every call of a classifier uses this function. Torch's ``parameters()`` and ``buffers()`` together take three times as long.
    """
    parts: list[nn.Module | None] = [net] if isinstance(net, nn.Module) else []
    seen, weights, buffers = set[nn.Module](), dict[int, Tensor | None](), dict[int, Tensor | None]()
    while parts:
        part = parts.pop()
        if part is None or part in seen:
            continue
        seen.add(part)
        for weight in part._parameters.values():
            weights[id(weight)] = weight
        for buffer in part._buffers.values():
            buffers[id(buffer)] = buffer
        parts += [*part._modules.values()][::-1]
    return [tensor for tensor in (*weights.values(), *buffers.values()) if tensor is not None]


def _state_of(net: object) -> Hashable:
    return tuple(map(_tensor_state, tensors_of(net)))


def _tensor_state(tensor: Tensor) -> tuple[int, int]:
    """The address and the version of a tensor."""
    try:
        place = tensor.data_ptr()
    except RuntimeError:  # some kinds of tensor, such as sparse ones, have no single place
        place = id(tensor)
    return place, 0 if tensor.is_inference() else tensor._version
