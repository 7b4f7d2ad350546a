"""Frozen nets: the same outputs, the same input gradients, also in phases, whatever the net does."""

from __future__ import annotations

import contextlib
import copy
import math
import pickle
from collections.abc import Callable
from itertools import product

import pytest
import torch
import torch.backends.cudnn as cudnn
import torch.nn.functional as F
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Tensor, fx, nn

from proofmap.classifier import Classifier, frozen
from proofmap.classifier.frozen import Affine, Frozen, FrozenConv2d, Phases, PointwiseConv2d, _optimised
from proofmap.classifier.kernels import steady_kernels
from proofmap.classifier.view import copy_net
from proofmap.models import load_classifier
from tests.forked import Child


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def lively(net: nn.Module, *, like: Tensor) -> nn.Module:
    """The net in evaluation mode, with batch-norms whose every number matters.

    Statistics are those of noise, so that signals neither die nor explode on their way through a deep net.
    """
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = 1.0
            if module.affine:
                nn.init.uniform_(module.weight, 0.5, 1.5)
                nn.init.uniform_(module.bias, -0.5, 0.5)
    with torch.no_grad():
        net.train()(torch.randn_like(like))
    return net.eval()


def calm(net: nn.Module) -> nn.Module:
    """The net in evaluation mode, with random batch-norms but, like a trained net, not chaotic."""
    for module in net.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.running_mean, -0.3, 0.3)
            nn.init.uniform_(module.running_var, 0.5, 1.5)
            nn.init.uniform_(module.weight, 0.6, 1.2)
            nn.init.uniform_(module.bias, -0.2, 0.2)
    return net.eval()


def outputs_and_gradient(net: Callable[[Tensor], Tensor], x: Tensor) -> tuple[Tensor, Tensor]:
    """Outputs, and the input gradient of a weighted sum of them."""
    x = x.clone().requires_grad_()
    out = net(x)
    weights = torch.linspace(-1, 2, out.numel()).view_as(out)
    (gradient,) = torch.autograd.grad((weights * out).sum(), x)
    return out.detach(), gradient


def assert_same_function(
    fast: Callable[[Tensor], Tensor], net: Callable[[Tensor], Tensor], x: Tensor
) -> None:
    """Outputs to 1e-4 of their scale, gradients to 1 % of their length."""
    (out, gradient), (expected, exact) = outputs_and_gradient(fast, x), outputs_and_gradient(net, x)
    assert (out - expected).abs().max() <= 1e-4 * expected.abs().max()
    assert exact.norm() > 0
    assert (gradient - exact).norm() <= 0.01 * exact.norm()


def kinds(net: nn.Module) -> list[type[nn.Module]]:
    return [type(module) for module in net.modules()]


def pads(net: nn.Module) -> int:
    """How many paddings are left in a net that could be traced."""
    (traced,) = (module for module in net.modules() if isinstance(module, fx.GraphModule))
    return sum(node.target is F.pad for node in traced.graph.nodes)


# ---- every net we ship ----------------------------------------------------------------------------------------


# the others have more of the same blocks; EfficientNet pads even and odd sizes differently
@pytest.mark.parametrize(
    "name, size",
    [
        ("efficientnet-lite0", 48),
        ("efficientnet-lite0", 49),
        ("cifar10-resnet20", 32),
        ("cifar100-resnet164", 16),
    ],
)
def test_freezing_a_net_we_ship_is_exact_but_for_rounding(name: str, size: int) -> None:
    # in float32 a rounding may switch a rectifier, and the gradient jumps; in float64 that does not happen
    f = load_classifier(f"{name}?pretrained=false", batch_size=1)
    x = torch.randn(1, 3, size, size, dtype=torch.float64)
    net = lively(f.net.double(), like=x)
    fast = _optimised(copy_net(net), x, torch.float32, torch.channels_last)
    found = kinds(fast)
    assert not {nn.BatchNorm2d, Affine, nn.Conv2d, nn.ReLU6} & set(found)  # all of them folded or taken in
    assert found.count(FrozenConv2d) == kinds(net).count(nn.Conv2d)
    (out, gradient), (expected, exact) = outputs_and_gradient(fast, x), outputs_and_gradient(net, x)
    assert (out - expected).abs().max() <= 1e-10 * expected.abs().max()
    assert (gradient - exact).norm() <= 1e-10 * exact.norm()


@pytest.fixture(scope="module")
def frozen_efficientnet() -> nn.Module:
    return load_classifier("efficientnet-lite0?pretrained=false", batch_size=1).frozen().net


def test_the_uneven_padding_of_efficientnet_is_taken_in(frozen_efficientnet: nn.Module) -> None:
    assert pads(frozen_efficientnet) == 0


def test_bfloat16_is_roughly_the_same_function() -> None:
    f = load_classifier("cifar10-resnet20?pretrained=false", batch_size=2)
    f = Classifier(calm(f.net), size=f.size, mean=f.mean, std=f.std, batch_size=2)
    fast = f.frozen(dtype=torch.bfloat16)
    assert {weight.dtype for weight in fast.net.parameters()} == {torch.bfloat16}
    x = torch.rand(1, 3, 32, 32)
    (out, gradient), (expected, exact) = outputs_and_gradient(fast, x), outputs_and_gradient(f, x)
    assert out.dtype == gradient.dtype == torch.float32
    assert (out - expected).abs().max() <= 0.05 * expected.abs().max()
    assert F.cosine_similarity(gradient.flatten(), exact.flatten(), dim=0) > 0.95


# ---- nets of all sorts ----------------------------------------------------------------------------------------


class Made(nn.Module):
    """Any features ``(N, 4, h, w)`` of some modules, and a head that reads every place of them."""

    def __init__(self, features: Callable[[Made, Tensor], Tensor], **modules: nn.Module) -> None:
        super().__init__()
        for name, module in modules.items():
            self.add_module(name, module)
        self.features = features
        self.head = nn.Conv2d(4, 5, 2, stride=2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.features(self, x)).square().mean(dim=(2, 3))


class Untraceable(Made):
    """The same behind a decision that depends on the data."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x * 2 if x.mean() > 100 else x)


def conv(inputs: int = 3, outputs: int = 4, kernel: int = 3, **options: object) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, kernel, **options)


def norm() -> nn.BatchNorm2d:
    return nn.BatchNorm2d(4)


def added_in_place(net: Made, x: Tensor) -> Tensor:
    y = net.relu(net.norm(net.conv(x)))
    y += net.other(x)
    return y.relu_()


def rectified_for_its_effect(net: Made, x: Tensor) -> Tensor:
    y = net.conv(x)
    net.relu(y)  # in place: the result is not used
    return y


def doubled_for_its_effect(net: Made, x: Tensor) -> Tensor:
    y = net.conv(x)
    y.mul_(2)
    return y


def written_into(net: Made, x: Tensor) -> Tensor:
    y = net.conv(x)
    y[:, 0] = 1
    return y


def padded_before_it_changes(net: Made, x: Tensor) -> Tensor:
    y = net.conv(x)
    padded = F.pad(y, (1, 1, 1, 1))
    y = y.relu_()
    return net.other(padded) + y[:, :, :1, :1]


NETS: dict[str, Callable[[], Made]] = {
    "convolution, batch-norm, relu": lambda: Made(
        lambda s, x: s.relu(s.norm(s.conv(x))), conv=conv(padding=1), norm=norm(), relu=nn.ReLU()
    ),
    "batch-norm after an addition": lambda: Made(
        lambda s, x: s.other(s.norm(s.conv(x) + s.skip(x)).relu()),
        conv=conv(padding=1),
        skip=conv(kernel=1),
        norm=norm(),
        other=conv(4, padding=1),
    ),
    "batch-norm before the first convolution": lambda: Made(
        lambda s, x: s.conv(s.norm(x)), norm=nn.BatchNorm2d(3), conv=conv()
    ),
    "batch-norm of a convolution that another reads": lambda: Made(
        lambda s, x: (lambda y: s.norm(y) + y)(s.conv(x)), conv=conv(), norm=norm()
    ),
    "batch-norm without weights": lambda: Made(
        lambda s, x: s.norm(s.conv(x)), conv=conv(), norm=nn.BatchNorm2d(4, affine=False)
    ),
    "batch-norm without statistics": lambda: Made(
        lambda s, x: s.norm(s.conv(x)), conv=conv(), norm=nn.BatchNorm2d(4, track_running_stats=False)
    ),
    "a convolution used twice": lambda: Made(
        lambda s, x: s.norm(s.conv(s.conv(s.first(x)))), first=conv(), conv=conv(4, padding=1), norm=norm()
    ),
    "a batch-norm used twice": lambda: Made(
        lambda s, x: s.norm(s.conv(s.norm(s.first(x)))), first=conv(), conv=conv(4, padding=1), norm=norm()
    ),
    "a relu used twice": lambda: Made(
        lambda s, x: s.relu(s.other(s.relu(s.conv(x)))), conv=conv(), other=conv(4), relu=nn.ReLU()
    ),
    "relu as a function": lambda: Made(lambda s, x: F.relu(s.conv(x)), conv=conv()),
    "relu of torch": lambda: Made(lambda s, x: torch.relu(s.conv(x)), conv=conv()),
    "relu6 as a function": lambda: Made(
        lambda s, x: F.relu6(20 * s.conv(x) + s.other(x)), conv=conv(), other=conv()
    ),
    "relu6 of large values": lambda: Made(
        lambda s, x: s.relu(s.conv(30 * x)), conv=conv(), relu=nn.ReLU6(inplace=True)
    ),
    "relu and the convolution itself": lambda: Made(
        lambda s, x: (lambda y: F.relu(y) + y)(s.conv(x)), conv=conv()
    ),
    "another activation": lambda: Made(lambda s, x: F.silu(s.conv(x)), conv=conv()),
    "padding as a function": lambda: Made(lambda s, x: s.conv(F.pad(x, (1, 1, 1, 1))), conv=conv()),
    "padding by keywords": lambda: Made(lambda s, x: s.conv(F.pad(input=x, pad=(1, 2, 0, 1))), conv=conv()),
    "padding as a module": lambda: Made(
        lambda s, x: s.conv(s.pad(x)), pad=nn.ZeroPad2d((0, 2, 1, 0)), conv=conv(padding=1)
    ),
    "padding as a module called by keyword": lambda: Made(
        lambda s, x: s.conv(s.pad(input=x)), pad=nn.ZeroPad2d((0, 2, 1, 0)), conv=conv(padding=1)
    ),
    "functions called by keyword": lambda: Made(
        lambda s, x: F.relu(
            input=s.other(F.pad(input=F.conv2d(input=x, weight=s.conv.weight), pad=(0, 1, 1, 0)))
        ),
        conv=conv(),
        other=conv(4),
    ),
    "padding that two convolutions read": lambda: Made(
        lambda s, x: (lambda y: s.conv(y) + s.other(y))(F.pad(x, (0, 1, 0, 1))), conv=conv(), other=conv()
    ),
    "padding that is also used itself": lambda: Made(
        lambda s, x: (lambda y: s.conv(y) + y.mean())(F.pad(x, (0, 1, 0, 1))), conv=conv()
    ),
    "padding larger than the kernel": lambda: Made(
        lambda s, x: s.conv(F.pad(x, (3, 3, 3, 3))), conv=conv(kernel=1)
    ),
    "padding twice, more than the kernel": lambda: Made(
        lambda s, x: s.conv(s.pad(x)), pad=nn.ZeroPad2d(2), conv=conv(padding=1)
    ),
    "padding of the convolution larger than its kernel": lambda: Made(
        lambda s, x: s.conv(x), conv=conv(kernel=2, padding=3)
    ),
    "padding that cuts off": lambda: Made(lambda s, x: s.conv(s.pad(x)), pad=nn.ZeroPad2d(-1), conv=conv()),
    "padding that cuts off one side": lambda: Made(
        lambda s, x: s.conv(F.pad(x, (-1, 2, 0, 1))), conv=conv(padding=1)
    ),
    "padding with ones": lambda: Made(lambda s, x: s.conv(F.pad(x, (1, 1, 1, 1), value=1.0)), conv=conv()),
    "padding by reflection": lambda: Made(
        lambda s, x: s.conv(F.pad(x, (1, 1, 1, 1), mode="reflect")), conv=conv()
    ),
    "padding of channels": lambda: Made(lambda s, x: s.conv(F.pad(x, (0, 0, 0, 0, 1, 1))), conv=conv(5)),
    "padding before a relu of the convolution": lambda: Made(
        lambda s, x: F.relu(s.conv(F.pad(x, (0, 1, 2, 0)))), conv=conv()
    ),
    "padding='same'": lambda: Made(lambda s, x: s.conv(x), conv=conv(padding="same")),
    "padding_mode='reflect'": lambda: Made(
        lambda s, x: s.conv(x), conv=conv(padding=1, padding_mode="reflect")
    ),
    "padding_mode='circular' and batch-norm": lambda: Made(
        lambda s, x: s.norm(s.conv(x)), conv=conv(padding=1, padding_mode="circular"), norm=norm()
    ),
    "dilation": lambda: Made(lambda s, x: s.conv(x), conv=conv(padding=2, dilation=2)),
    "groups": lambda: Made(
        lambda s, x: s.conv(s.first(x)).relu(), first=conv(outputs=6), conv=conv(6, groups=2, padding=1)
    ),
    "one group for each channel": lambda: Made(
        lambda s, x: s.norm(s.conv(s.first(x))), first=conv(), conv=conv(4, groups=4, padding=1), norm=norm()
    ),
    "no bias": lambda: Made(
        lambda s, x: s.norm(s.conv(x)).relu(), conv=conv(bias=False, padding=1), norm=norm()
    ),
    "stride by one axis": lambda: Made(lambda s, x: s.conv(x), conv=conv(stride=(1, 2), padding=(1, 0))),
    "stride larger than the kernel": lambda: Made(lambda s, x: s.conv(x), conv=conv(kernel=1, stride=2)),
    "a transposed convolution": lambda: Made(
        lambda s, x: s.up(s.conv(x)), conv=conv(), up=nn.ConvTranspose2d(4, 4, 2)
    ),
    "an activation that two convolutions read": lambda: Made(
        lambda s, x: (lambda y: s.left(y) + s.right(y))(F.relu(s.conv(x))),
        conv=conv(),
        left=conv(4),
        right=conv(4),
    ),
    "an activation that a convolution and an addition read": lambda: Made(
        lambda s, x: (lambda y: F.relu(s.other(y)) + y)(F.relu(s.conv(x))),
        conv=conv(),
        other=conv(4, padding=1),
    ),
    "a row of convolutions": lambda: Made(
        lambda s, x: s.row(x),
        row=nn.Sequential(
            conv(), nn.ReLU(), conv(4), nn.ReLU6(), conv(4, kernel=1), conv(4, padding=1), nn.ReLU()
        ),
    ),
    "one convolution under two names": lambda: (
        lambda shared: Made(lambda s, x: s.a(s.first(x)) + s.b(s.first(x)), first=conv(), a=shared, b=shared)
    )(conv(4)),
    "one weight in two convolutions": lambda: _tied(
        Made(
            lambda s, x: s.norm(s.a(s.first(x))) + s.b(s.first(x)),
            first=conv(),
            a=conv(4),
            b=conv(4),
            norm=norm(),
        )
    ),
    "a weight that is also read": lambda: Made(
        lambda s, x: s.norm(s.conv(x)) + F.conv2d(x, s.conv.weight), conv=conv(), norm=norm()
    ),
    "modules called by keyword": lambda: Made(
        lambda s, x: s.norm(input=s.conv(input=x)), conv=conv(), norm=norm()
    ),
    "an addition in place": lambda: Made(
        added_in_place, conv=conv(), norm=norm(), relu=nn.ReLU6(), other=conv()
    ),
    "a rectifier in place for its effect": lambda: Made(
        rectified_for_its_effect, conv=conv(), relu=nn.ReLU(inplace=True)
    ),
    "a product in place for its effect": lambda: Made(doubled_for_its_effect, conv=conv()),
    "a channel overwritten": lambda: Made(written_into, conv=conv()),
    "padding of what changes afterwards": lambda: Made(padded_before_it_changes, conv=conv(), other=conv(4)),
    "decisions that depend on the data": lambda: Untraceable(
        lambda s, x: s.norm(s.conv(x)).relu(), conv=conv(padding=1), norm=norm()
    ),
    "decisions, and layers asked for their shape": lambda: Untraceable(
        lambda s, x: F.pad(s.conv(x), (s.conv.kernel_size[0] // 2,) * 4), conv=conv()
    ),
    "a weight under spectral norm": lambda: Made(
        lambda s, x: s.conv(x), conv=nn.utils.parametrizations.spectral_norm(conv()).eval()
    ),
}


def _tied(net: Made) -> Made:
    net.b.weight = net.a.weight
    return net


@pytest.mark.parametrize("kind", NETS)
def test_frozen_is_the_same_function_for_a_net_with(kind: str) -> None:
    x = torch.randn(3, 3, 9, 8)
    net = lively(NETS[kind](), like=x)
    fast = Frozen.of(net, torch.zeros(1, 3, 9, 8), dtype=torch.float32)
    assert_same_function(lambda x: fast(x.contiguous(memory_format=torch.channels_last)), net, x)
    assert_same_function(fast, net, x)


HOOKS: dict[str, Callable[[Made], object]] = {
    "a convolution": lambda net: net.conv.register_forward_hook(lambda m, i, o: 2 * o),
    "a batch-norm": lambda net: net.norm.register_forward_hook(lambda m, i, o: 2 * o),
    "a rectifier": lambda net: net.relu.register_forward_hook(lambda m, i, o: o - 1),
    "the net itself": lambda net: net.register_forward_hook(lambda m, i, o: 2 * o),
    "an input": lambda net: net.conv.register_forward_pre_hook(lambda m, i: (i[0] + 1,)),
    "a gradient": lambda net: net.relu.register_full_backward_hook(lambda m, i, o: (3 * i[0],)),
}


@pytest.mark.parametrize("place", HOOKS)
@pytest.mark.parametrize("kind", [Made, Untraceable])
def test_hooks_that_change_the_function_still_do_at(place: str, kind: type[Made]) -> None:
    net = kind(lambda s, x: s.relu(s.norm(s.conv(x))), conv=conv(padding=1), norm=norm(), relu=nn.ReLU())
    x = torch.randn(2, 3, 8, 8)
    lively(net, like=x)
    HOOKS[place](net)
    fast = Frozen.of(net, torch.zeros(1, 3, 8, 8), dtype=torch.float32)
    assert_same_function(fast, net, x)


def frozen_kinds(kind: str) -> list[type[nn.Module]]:
    net = lively(NETS[kind](), like=torch.zeros(2, 3, 9, 8))
    return kinds(Frozen.of(net, torch.zeros(1, 3, 9, 8), dtype=torch.float32))


@pytest.mark.parametrize(
    "kind, gone, there",
    [
        ("convolution, batch-norm, relu", {nn.BatchNorm2d, nn.ReLU, nn.Conv2d}, {FrozenConv2d}),
        ("batch-norm after an addition", {nn.BatchNorm2d, nn.Conv2d}, {Affine, FrozenConv2d}),
        ("a convolution used twice", {nn.BatchNorm2d, nn.Conv2d}, {Affine, FrozenConv2d}),
        ("a batch-norm used twice", {nn.BatchNorm2d, nn.Conv2d}, {Affine, FrozenConv2d}),
        ("functions called by keyword", {nn.Conv2d}, {FrozenConv2d}),
        ("dilation", set(), {nn.Conv2d, FrozenConv2d}),
        (
            "batch-norm of a convolution that another reads",
            {nn.BatchNorm2d, nn.Conv2d},
            {Affine, FrozenConv2d},
        ),
        ("a weight that is also read", {nn.BatchNorm2d, nn.Conv2d}, {Affine, FrozenConv2d}),
        ("a rectifier in place for its effect", {nn.Conv2d}, {nn.ReLU, FrozenConv2d}),
        ("modules called by keyword", {nn.BatchNorm2d, nn.Conv2d}, {Affine, FrozenConv2d}),
        ("padding='same'", set(), {nn.Conv2d, FrozenConv2d}),
        ("decisions that depend on the data", {nn.BatchNorm2d, nn.Conv2d}, {Affine, FrozenConv2d}),
    ],
)
def test_what_can_be_folded_is_folded_with(
    kind: str, gone: set[type[nn.Module]], there: set[type[nn.Module]]
) -> None:
    found = set(frozen_kinds(kind))
    assert not gone & found
    assert there <= found


@pytest.mark.parametrize("pad", [(0, 1, 0, 1), (1, 0, 1, 0), (2, 0, 0, 1), (0, 0, 0, 2), (1, 1, 2, 1)])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_uneven_padding_before_strides_of_every_remainder(pad: tuple[int, ...], stride: int) -> None:
    for size in range(7, 7 + stride):
        net = Made(lambda s, x: F.relu(s.conv(F.pad(x, pad))), conv=conv(stride=stride)).eval()
        net.head = nn.Conv2d(4, 5, 1)
        fast = Frozen.of(net, torch.zeros(1, 3, size, 12), dtype=torch.float32)
        assert pads(fast) == 0
        assert_same_function(fast, net, torch.randn(2, 3, size, 12))


def test_freezing_leaves_the_net_as_it_was() -> None:
    net = lively(NETS["convolution, batch-norm, relu"](), like=torch.zeros(2, 3, 9, 8))
    before = {key: value.clone() for key, value in net.state_dict().items()}
    code = str(net)
    fast = Frozen.of(net, torch.zeros(1, 3, 9, 8), dtype=torch.float32)
    assert str(net) == code
    assert all(torch.equal(net.state_dict()[key], value) for key, value in before.items())
    ours = {p.data_ptr() for p in [*fast.parameters(), *fast.buffers()]}
    assert not ours & {p.data_ptr() for p in [*net.parameters(), *net.buffers()]}


@pytest.mark.parametrize("kind", ["a row of convolutions", "an activation that two convolutions read"])
def test_a_gradient_taken_twice_from_one_graph_is_the_same(kind: str) -> None:
    net = NETS[kind]().eval()
    fast = Frozen.of(net, torch.zeros(1, 3, 9, 8), dtype=torch.float32)
    x = torch.randn(2, 3, 9, 8).requires_grad_()
    out = fast(x)
    rows = [torch.autograd.grad(out[:, j].sum(), x, retain_graph=True)[0] for j in (0, 1, 0, 1)]
    assert torch.equal(rows[0], rows[2])
    assert torch.equal(rows[1], rows[3])
    expected = torch.autograd.grad(net(x)[:, 0].sum(), x)[0]
    torch.testing.assert_close(rows[0], expected, rtol=1e-4, atol=1e-6)


def test_only_a_gradient_nobody_else_sees_is_overwritten() -> None:
    net = Frozen.of(NETS["a row of convolutions"]().eval(), torch.zeros(1, 3, 9, 8), dtype=torch.float32)
    owners = [module for module in net.modules() if isinstance(module, FrozenConv2d) and module.owns_gradient]
    assert len(owners) == 4  # all but the last, whose reader is the square
    shared = Frozen.of(
        NETS["an activation that two convolutions read"]().eval(),
        torch.zeros(1, 3, 9, 8),
        dtype=torch.float32,
    )
    (conv,) = (module for name, module in shared.named_modules() if name.split(".")[-1] == "conv")
    assert not conv.owns_gradient


def test_a_second_derivative_can_be_taken() -> None:
    net = NETS["a row of convolutions"]().eval()
    fast = Frozen.of(net, torch.zeros(1, 3, 9, 8), dtype=torch.float32)
    x = torch.randn(1, 3, 9, 8).requires_grad_()

    def second(f: nn.Module) -> Tensor:
        (first,) = torch.autograd.grad(f(x).sum(), x, create_graph=True)
        return torch.autograd.grad(first.square().sum(), x)[0]

    torch.testing.assert_close(second(fast), second(net), rtol=1e-3, atol=1e-6)


# ---- one convolution ------------------------------------------------------------------------------------------

small = st.integers(0, 2)


@given(
    groups=st.integers(1, 3),
    per_group=st.tuples(st.integers(1, 2), st.integers(1, 2)),
    kernel=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    stride=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    padding=st.tuples(small, small),
    pad=st.tuples(small, small, small, small),
    size=st.tuples(st.integers(1, 8), st.integers(1, 8)),
    bounds=st.sampled_from([None, (0.0, math.inf), (0.0, 0.5)]),
    bias=st.booleans(),
    channels_last=st.booleans(),
)
def test_a_frozen_convolution_and_its_gradient_are_torchs_own(
    groups: int,
    per_group: tuple[int, int],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    padding: tuple[int, int],
    pad: tuple[int, int, int, int],
    size: tuple[int, int],
    bounds: tuple[float, float] | None,
    bias: bool,
    channels_last: bool,
) -> None:
    left, right, top, bottom = pad
    inside = (size[0] + top + bottom + 2 * padding[0], size[1] + left + right + 2 * padding[1])
    assume(inside[0] >= kernel[0] and inside[1] >= kernel[1])
    inputs, outputs = groups * per_group[0], groups * per_group[1]
    conv = nn.Conv2d(inputs, outputs, kernel, stride, padding, groups=groups, bias=bias).double()
    assume(FrozenConv2d.fits(conv, pad))
    frozen = FrozenConv2d(conv, pad=pad, bounds=bounds)
    form = torch.channels_last if channels_last else torch.contiguous_format
    x = torch.randn(2, inputs, *size, dtype=torch.float64).contiguous(memory_format=form).requires_grad_()

    expected = conv(F.pad(x, pad))
    expected = expected if bounds is None else expected.clamp(*bounds)
    out = frozen(x)
    torch.testing.assert_close(out, expected)
    towards = torch.randn_like(expected)
    (gradient,) = torch.autograd.grad(out, x, towards, retain_graph=True)
    (exact,) = torch.autograd.grad(expected, x, towards)
    torch.testing.assert_close(gradient, exact)
    assert torch.equal(torch.autograd.grad(out, x, towards)[0], gradient)


@pytest.mark.parametrize(
    "conv",
    [
        nn.Conv2d(3, 4, 3, dilation=2),
        nn.Conv2d(3, 4, 3, padding="same"),
        nn.Conv2d(3, 4, 3, padding=1, padding_mode="reflect"),
        nn.Conv2d(3, 4, 3, padding=3),
        nn.ConvTranspose2d(3, 4, 3),
        nn.Linear(3, 4),
        type("Mine", (nn.Conv2d,), {})(3, 4, 3),
        None,
    ],
)
def test_what_does_not_fit_is_left_alone(conv: object) -> None:
    assert not FrozenConv2d.fits(conv)


def test_a_net_that_answers_at_random_is_left_as_it_is() -> None:
    class Noisy(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = nn.Conv2d(3, 4, 3)

        def forward(self, x: Tensor) -> Tensor:
            return self.conv(x).mean(dim=(2, 3)) + torch.randn(4)  # a trace would fix the noise for ever

    fast = Frozen.of(Noisy(), torch.zeros(1, 3, 8, 8), dtype=torch.float32)
    assert fx.GraphModule not in kinds(fast)
    x = torch.rand(1, 3, 8, 8)
    assert not torch.equal(fast(x), fast(x))


@pytest.mark.parametrize("step", ["_fold_batch_norm", "_absorb_padding_and_rectifiers", "_replace"])
def test_a_step_that_fails_leaves_the_net_as_it_is_and_says_so_once(
    step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise IndexError("tuple index out of range")

    monkeypatch.setattr(frozen, step, fails)
    x = torch.randn(2, 3, 9, 8)
    net = lively(NETS["convolution, batch-norm, relu"](), like=x)
    with pytest.warns(UserWarning, match="IndexError: tuple index out of range") as told:
        fast = Frozen.of(net, torch.zeros(1, 3, 9, 8), dtype=torch.float32)
    assert len(told) == 1
    assert nn.BatchNorm2d in kinds(fast)
    assert_same_function(fast, net, x)


class Tutorial(nn.Module):
    """The net of many tutorials: it reads its features with ``view``, which channels-last tensors refuse."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.fc = nn.Conv2d(3, 4, 3), nn.Linear(4 * 36, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(torch.relu(self.conv(x)).view(-1, 4 * 36))


def test_a_net_that_refuses_channels_last_is_frozen_in_its_own_layout() -> None:
    f = Classifier(Tutorial(), size=8)
    x = torch.rand(3, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(f.frozen().logits(x), f.logits(x), atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("layout", [torch.channels_last, torch.contiguous_format])
def test_a_convolution_over_single_positions_is_one_matrix(bias: bool, layout: torch.memory_format) -> None:
    conv = nn.Conv2d(5, 7, 1, bias=bias)
    x = torch.randn(3, 5, 4, 6).to(memory_format=layout)
    assert PointwiseConv2d.fits(conv)
    expected, found = outputs_and_gradient(conv, x), outputs_and_gradient(PointwiseConv2d(conv), x)
    for one, other in zip(expected, found, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)
    if layout == torch.channels_last:
        assert PointwiseConv2d(conv)(x).is_contiguous(memory_format=torch.channels_last)


@pytest.mark.parametrize("options", [{"stride": 2}, {"padding": 1}, {"groups": 2}, {"kernel_size": 3}])
def test_other_convolutions_are_no_matrix(options: dict[str, int]) -> None:
    assert not PointwiseConv2d.fits(nn.Conv2d(4, 4, **{"kernel_size": 1, **options}))  # type: ignore[arg-type]


NEWER = hasattr(cudnn, "conv")


def precisions() -> list[object]:
    said: list[object] = [cudnn.benchmark, cudnn.deterministic]
    for read in (lambda: cudnn.allow_tf32, torch.get_float32_matmul_precision):
        try:
            said.append(read())
        except RuntimeError:
            said.append("mixed")
    if NEWER:
        said += [
            cudnn.conv.fp32_precision,
            cudnn.rnn.fp32_precision,
            torch.backends.cuda.matmul.fp32_precision,
        ]
    return said


def check_precisions() -> None:
    before = precisions()
    with contextlib.suppress(KeyError), steady_kernels(tf32=True), steady_kernels(tf32=False):
        full = ["ieee"] * 3 if NEWER else []
        assert precisions() == [False, True, False, "highest", *full], precisions()
        with cudnn.flags(enabled=True):  # what a method may do
            pass
        raise KeyError
    assert precisions() == before, (before, precisions())
    with steady_kernels(tf32=True):
        assert precisions()[:3] == [False, True, True], precisions()
    assert precisions() == before, (before, precisions())


ASKED = (
    "",
    "cudnn.benchmark = True",
    "torch.set_float32_matmul_precision('high')",
    "cudnn.allow_tf32 = False; torch.backends.cuda.matmul.allow_tf32 = True",
    "if NEWER: torch.backends.cuda.matmul.fp32_precision = 'tf32'",
    "if NEWER: cudnn.conv.fp32_precision = 'ieee'",
    "if NEWER: torch.backends.fp32_precision = 'tf32'",
)


@pytest.mark.parametrize("asked", ASKED)
def test_scores_are_made_in_full_float32_however_speed_was_asked_for(asked: str) -> None:
    """In a process of its own: these settings are everybody's."""

    def run() -> int:
        torch.cuda.is_available = lambda: True
        exec(asked)
        check_precisions()
        return 0

    child = Child(run)
    told = child.stderr.read()
    assert child.code() == 0, told


# ---- gradients in phases -------------------------------------------------------------------------------------


def capability(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: name)


def autograds(conv: nn.Conv2d, x: Tensor, towards: Tensor, pad: tuple[int, int, int, int]) -> Tensor:
    x = x.detach().requires_grad_()
    return torch.autograd.grad(conv(F.pad(x, pad)), x, towards)[0]


# ---- the same gradient ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("groups", [1, 2, 4], ids=lambda g: f"groups={g}")
@pytest.mark.parametrize("stride", [(2, 2), (3, 3), (4, 2), (1, 2)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_phases_are_the_gradient_for_every_kernel_padding_and_size(
    dtype: torch.dtype, stride: tuple[int, int], groups: int
) -> None:
    bound = 1e-5 if dtype == torch.float32 else 1e-13
    kernels, sizes = (1, 2, 3, 4, 7), (1, 7, 8)
    paddings = [(0, 0), (0, 1), (1, 1), (1, 2), (3, 0)]  # before and after x
    if dtype == torch.float32:  # where only the rounding is new
        kernels, paddings, sizes = (3, 4), [(0, 1), (3, 0)], (7, 8)
    for kernel, (before, after), size in product(kernels, paddings, sizes):
        if size + before + after < kernel:
            continue
        conv = nn.Conv2d(4, 8, (kernel, 3), stride, groups=groups).to(dtype)
        x = torch.randn(2, 4, size, 7, dtype=dtype)
        pad = (1, 0, before, after)
        towards = torch.randn_like(conv(F.pad(x, pad)))
        expected = autograds(conv, x, towards, pad)
        phases = Phases(conv.weight.detach(), stride=stride, before=(before, 1), groups=groups)
        found = phases(towards, (size, 7))
        assert found.shape == x.shape
        assert (found - expected).abs().max() <= bound * expected.abs().max(), (kernel, before, after, size)


# ---- where it is used -----------------------------------------------------------------------------------------

STEM = nn.Conv2d(3, 32, 3, 2)
DEPTHWISE = nn.Conv2d(32, 32, 3, 2, groups=32)


@pytest.mark.parametrize(
    "conv, with_avx, without",
    [
        (STEM, True, True),
        (DEPTHWISE, False, True),
        (nn.Conv2d(64, 64, 3, 2), False, False),
        (nn.Conv2d(3, 32, 3), False, False),
        (nn.Conv2d(3, 32, 1, 2), False, False),
    ],
    ids=["stem", "depthwise", "many channels", "stride 1", "kernel smaller than the stride"],
)
def test_phases_are_used_where_they_pay(
    monkeypatch: pytest.MonkeyPatch, conv: nn.Conv2d, with_avx: bool, without: bool
) -> None:
    capability(monkeypatch, "AVX2")
    assert Phases.is_faster(conv) == (FrozenConv2d(conv).phases is not None) == with_avx
    capability(monkeypatch, "DEFAULT")
    assert Phases.is_faster(conv) == (FrozenConv2d(conv).phases is not None) == without


def test_the_stem_of_a_net_we_ship_goes_by_phases(frozen_efficientnet: nn.Module) -> None:
    modules = frozen_efficientnet.modules()
    stem = next(module for module in modules if isinstance(module, FrozenConv2d))
    kernel = stem.phases.get_buffer("kernel")
    assert kernel.shape == (12, 32, 2, 2)  # of the true 3 x 3, not of the one that zeros make even
    assert kernel.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.filterwarnings(
    "ignore:.*should not be instantiated:DeprecationWarning"
)  # torch's own, compiling
def frozen_phases() -> tuple[nn.Module, Tensor, Tensor]:
    """A frozen net with phases, images, and the gradient of an output."""
    net = nn.Sequential(copy.deepcopy(STEM), nn.ReLU(), nn.Flatten(), nn.Linear(32 * 16, 3)).eval()
    fast = Frozen.of(net, torch.zeros(1, 3, 9, 9), dtype=torch.float32)
    assert any(isinstance(module, Phases) for module in fast.modules())
    x = torch.randn(2, 3, 9, 9).requires_grad_()
    (expected,) = torch.autograd.grad(fast(x)[:, 0].sum(), x)
    return fast, x, expected


def test_a_frozen_net_with_phases_can_be_copied_and_pickled() -> None:
    fast, x, expected = frozen_phases()
    for other in (copy.deepcopy(fast), pickle.loads(pickle.dumps(fast))):
        assert torch.equal(torch.autograd.grad(other(x)[:, 0].sum(), x)[0], expected)


@pytest.mark.slow
@pytest.mark.filterwarnings(
    "ignore:.*should not be instantiated:DeprecationWarning"
)  # torch.compile does it itself
def test_a_frozen_net_with_phases_can_be_compiled() -> None:
    fast, x, expected = frozen_phases()
    compiled = torch.compile(fast, backend="aot_eager")
    (found,) = torch.autograd.grad(compiled(x)[:, 0].sum(), x)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)
