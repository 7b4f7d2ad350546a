"""Private copies of the user's net, so that the net itself is never touched."""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Callable, Mapping

import torch
from torch import Tensor, nn

from proofmap.classifier.outputs import Outputs, as_logits
from proofmap.classifier.versions import tensors_of
from proofmap.core.errors import InputError, ModelError
from proofmap.plugins.failures import reason_of


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

    Activations that the net keeps from an earlier pass are detached, as torch cannot copy a graph.
    """
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
            return copy.deepcopy(net, {**empty, **kept, **(instead or {})})
    except Exception as error:
        raise ModelError(
            f"the net {type(net).__name__} cannot be copied ({type(error).__name__}: {error}), and Proofmap does not "
            "run your own instance because this would change the mode of the net. Put the net in evaluation mode and pass a "
            "function instead: net.eval(); Classifier(lambda x: net(x), ...)"
        ) from error


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


def check_weights(net: object) -> None:
    """Refuse a net with weights on torch's meta device: they have a shape, but no values."""
    if any(tensor.is_meta for tensor in tensors_of(net)):
        raise ModelError(
            f"weights of the net {type(net).__name__} are on torch's meta device, so they have no values. Load them first, such as by "
            "net.load_state_dict(state, assign=True), or build the net on the CPU"
        )


def device_of(net: object) -> torch.device:
    """The device of a net's weights; the CPU for a function or a net without weights."""
    for tensor in tensors_of(net):
        return tensor.device
    return torch.device("cpu")


def dtype_of(net: object) -> torch.dtype:
    """The floating type of the net's weights; float32 for a function or a net without weights."""
    if isinstance(net, nn.Module):
        for weight in net.parameters():
            if weight.is_floating_point():
                return weight.dtype
    return torch.float32


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
