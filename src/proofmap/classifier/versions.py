"""Find out whether the user's net has changed, such as by training, since a view (private copy) of it was made."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

from torch import Tensor, nn

_TORCHS_OWN = frozenset(vars(nn.Module()))  # the mode, weights, buffers, hooks
_PLAIN = frozenset([bool, int, float, complex, str, bytes, type(None)])
_LARGE = 100  # entries of a list or dictionary that are looked at


class NetVersion:
    """The weights, buffers, layers and plain attributes of a net at one moment.

    Not noticed are changes of weights that torch does not track (``.data``, NumPy), and changes inside an attribute that is an object of
    another kind, an array, or a list or dictionary of more than 100 entries. Another object in its place is noticed.
    """

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
    weights, buffers = dict[int, Tensor | None](), dict[int, Tensor | None]()
    for module in _modules_of(net):
        for weight in module._parameters.values():
            weights[id(weight)] = weight
        for buffer in module._buffers.values():
            buffers[id(buffer)] = buffer
    return [tensor for tensor in (*weights.values(), *buffers.values()) if tensor is not None]


def _modules_of(net: object) -> Iterator[nn.Module]:
    """The modules of a net, each once; none for a function."""
    parts: list[nn.Module | None] = [net] if isinstance(net, nn.Module) else []
    seen = set[nn.Module]()
    while parts:
        part = parts.pop()
        if part is None or part in seen:
            continue
        seen.add(part)
        yield part
        parts += [*part._modules.values()][::-1]


def _state_of(net: object) -> Hashable:
    return tuple(map(_tensor_state, tensors_of(net))), tuple(map(_module_state, _modules_of(net)))


def _module_state(module: nn.Module) -> Hashable:
    """The class of a module, the names of its parts, and its attributes. Attributes are many, so plain ones cost no call."""
    attributes = tuple(
        [
            value if type(value) in _PLAIN else _value_state(value)
            for name, value in vars(module).items()
            if name not in _TORCHS_OWN
        ]
    )
    return type(module), tuple(module._modules.keys()), attributes


def _value_state(value: object) -> Hashable:
    """A plain value itself, or a value that stays equal as long as the object is the same."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, Tensor):
        return _tensor_state(value)
    if isinstance(value, (list, tuple)) and len(value) <= _LARGE:
        return tuple([_value_state(one) for one in value])
    if isinstance(value, dict) and len(value) <= _LARGE:
        return tuple([(_value_state(key), _value_state(one)) for key, one in value.items()])
    return id(value)


def _tensor_state(tensor: Tensor) -> tuple[int, int]:
    """The address and the version of a tensor."""
    try:
        place = tensor.data_ptr()
    except RuntimeError:  # some kinds of tensor, such as sparse ones, have no single place
        place = id(tensor)
    return place, 0 if tensor.is_inference() else tensor._version
