"""Phases: the input gradient of a strided convolution is autograd's own, and is used only where it pays."""

from __future__ import annotations

import copy
import pickle
from itertools import product

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from proofmap.classifier.frozen import freeze
from proofmap.classifier.frozen_conv import FrozenConv2d, Phases
from proofmap.models import load_classifier


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


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


@pytest.mark.parametrize("size", [8, 9])
@pytest.mark.parametrize("layout", [torch.channels_last, torch.contiguous_format], ids=str)
def test_the_gradient_keeps_the_layout(layout: torch.memory_format, size: int) -> None:
    weight = torch.randn(6, 3, 3, 3)
    towards = torch.randn(2, 6, (size + 1) // 2, (size + 1) // 2).contiguous(memory_format=layout)
    found = Phases(weight, stride=(2, 2), before=(1, 1), groups=1)(towards, (size, size))
    assert found.is_contiguous(memory_format=layout)


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


class Counted(Phases):
    """Phases that count how often they are used."""

    uses = 0

    def forward(self, grad: Tensor, size: tuple[int, int]) -> Tensor:
        type(self).uses += 1
        return super().forward(grad, size)


def test_the_stem_of_a_net_we_ship_goes_by_phases() -> None:
    net = load_classifier("efficientnet-lite0", pretrained=False).frozen().net
    stem = next(module for module in net.modules() if isinstance(module, FrozenConv2d))
    kernel = stem.phases.get_buffer("kernel")
    assert kernel.shape == (12, 32, 2, 2)  # of the true 3 x 3, not of the one that zeros make even
    assert kernel.is_contiguous(memory_format=torch.channels_last)


@pytest.mark.filterwarnings(
    "ignore:.*should not be instantiated:DeprecationWarning"
)  # torch's own, compiling
def frozen_phases() -> tuple[nn.Module, Tensor, Tensor]:
    """A frozen net with phases, images, and the gradient of an output."""
    net = nn.Sequential(copy.deepcopy(STEM), nn.ReLU(), nn.Flatten(), nn.Linear(32 * 16, 3)).eval()
    fast = freeze(net, torch.zeros(1, 3, 9, 9), dtype=torch.float32)
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
