"""Private copies of the user's net, so that the net itself is never touched, and whether the net has changed since, such as by training."""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence

import torch
from torch import Tensor, nn

from proofmap.classifier.outputs import Outputs, as_logits
from proofmap.core.errors import InputError, ModelError
from proofmap.plugins.failures import reason_of

_TORCHS_OWN = frozenset(vars(nn.Module()))  # the mode, weights, buffers, hooks
_PLAIN = frozenset([bool, int, float, complex, str, bytes, type(None)])
_WATCHERS = frozenset(["captum", "pytorch_grad_cam", "torchcam"])
_LARGE = 100  # entries of a list or dictionary that are looked at


def view_of(net: nn.Module, device: torch.device) -> nn.Module:
    """A copy of the module tree in evaluation mode whose weights share the net's memory and need no gradient.

    Mode, ``requires_grad``, buffers and hooks of the copy are its own, so changes to the copy do not affect the net. Weights are copied
    only for another device, or if they were made in inference mode, because gradients cannot be computed with such weights.
    """
    # TorchScript copies what it is given instead, so it must be given the weights themselves
    sharing = () if isinstance(net, torch.jit.ScriptModule) else net.parameters()
    shared = {
        id(weight): nn.Parameter(
            weight.clone() if weight.is_inference() else weight.detach(), requires_grad=False
        )
        for weight in sharing
    }
    view = copy_net(net, shared).eval()
    for weight in view.parameters():  # a TorchScript module has no requires_grad_ of its own
        weight.requires_grad_(False)
    return view.to(device)


def copy_net(net: nn.Module, instead: Mapping[int, Tensor] | None = None) -> nn.Module:
    """A deep copy of a net. ``instead`` maps the ids of tensors to their replacements.

    Activations that the net keeps from an earlier pass are detached, as torch cannot copy a graph. Hooks by which objects of other libraries
    watch the user's net are left out: they would keep the activations of every pass of the copy.
    """
    unwatched = {
        id(hooks): type(hooks)((key, hook) for key, hook in hooks.items() if not _watches(hook))
        for module in net.modules()
        for name, hooks in vars(module).items()
        if name.endswith("_hooks") and isinstance(hooks, dict) and any(map(_watches, hooks.values()))
    }
    kept = {
        id(value): value.detach()
        for module in net.modules()
        for value in vars(module).values()
        if isinstance(value, Tensor) and not value.is_leaf
    }
    empty = {  # the many dictionaries of hooks: copied here, as deepcopy takes long for them
        id(value): type(value)()
        for module in net.modules()
        for value in vars(module).values()
        if type(value) in (dict, OrderedDict) and not value
    }
    try:
        with torch.no_grad():  # otherwise TorchScript's copies of weights have a graph
            return copy.deepcopy(net, {**empty, **unwatched, **kept, **(instead or {})})
    except Exception as error:
        raise ModelError(
            f"the net {type(net).__name__} cannot be copied ({type(error).__name__}: {error}), and Proofmap does not "
            "run your own instance because this would change the mode of the net. Put the net in evaluation mode and pass a "
            "function instead: net.eval(); Classifier(lambda x: net(x), ...)"
        ) from error


def _watches(hook: object) -> bool:
    """Whether a hook is a method of an object of an attribution library."""
    owner = getattr(getattr(hook, "func", hook), "__self__", None)
    return type(owner).__module__.partition(".")[0] in _WATCHERS


def has_hooks(net: nn.Module) -> bool:
    """Whether a module of the net has a hook, which may change outputs or gradients, or watch them."""
    kinds = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    return any(getattr(module, kind) for module in net.modules() for kind in kinds)


def usable_device(name: str | torch.device) -> torch.device:
    """The device with this name. Raises an InputError if torch cannot use it on this machine."""
    try:
        torch.empty(1, device=name).tolist()  # fails on the meta device too, which has no values
    except Exception as error:
        raise InputError(
            f"the device {str(name)!r} cannot be used here: {reason_of(error)}; choose another, such as cpu"
        ) from None
    return torch.device(name)


def place_of(net: object) -> tuple[torch.device, torch.dtype]:
    """The device and the floating type of a net's weights; the CPU and float32 for a function or a net without weights. Raises a ModelError for
    weights on torch's meta device, which have a shape, but no values.
    """
    tensors = tensors_of(net)
    if any(tensor.is_meta for tensor in tensors):
        raise ModelError(
            f"weights of the net {type(net).__name__} are on torch's meta device, so they have no values. Load them first, such as by "
            "net.load_state_dict(state, assign=True), or build the net on the CPU"
        )
    weights = net.parameters() if isinstance(net, nn.Module) else ()
    dtypes = (weight.dtype for weight in weights if weight.is_floating_point())
    return tensors[0].device if tensors else torch.device("cpu"), next(dtypes, torch.float32)


class LogitsModule(nn.Module):
    """A module that takes the classifier's images and returns logits ``(N, A)`` in float32. Their softmax is f(x, a), the probabilities of
    all labels a.

    Logits are minus infinity outside a renormalised label set. The net's layers are found below ``net``: ``module.net.features[3]``, or by
    name ``"net.features.3"``. Weights require no gradient. The images require one if gradients are enabled, so that a library finds the
    gradient of every layer.
    """

    mean: Tensor
    std: Tensor
    outside: Tensor | None

    def __init__(
        self,
        net: nn.Module | Callable[[Tensor], Tensor],
        mean: Tensor,
        std: Tensor,
        dtype: torch.dtype,
        outputs: Outputs,
        outside: Tensor | None,
    ) -> None:
        super().__init__()
        self.net = net
        self.dtype, self.outputs = dtype, outputs
        self.register_buffer("mean", mean.clone(), persistent=False)
        self.register_buffer("std", std.clone(), persistent=False)
        self.register_buffer("outside", None if outside is None else outside.clone(), persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        if torch.is_grad_enabled() and not images.requires_grad:
            images = images.detach().requires_grad_(True)
        out: Tensor = self.net(((images - self.mean) / self.std).to(self.dtype))
        logits = as_logits(out.to(torch.float32, copy=True), self.outputs)
        return logits if self.outside is None else logits + self.outside


# ---- changes of the net ----------------------------------------------------------------------------------------------


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
