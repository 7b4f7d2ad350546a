"""Batch sizes measured on one image: what autograd keeps, and a share of what the device has."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn

from proofmap.core import batching
from proofmap.core.batching import BatchSize, device_memory, round_to_full
from proofmap.methods.masks.engine import MaskEngine

CPU = torch.device("cpu")


class Powers(nn.Module):
    """Keeps exactly ``n`` tensors as large as its input for the gradient."""

    def __init__(self, n: int) -> None:
        super().__init__()
        self.n = n

    def forward(self, x: Tensor) -> Tensor:
        for _ in range(self.n):
            x = x.exp()  # the gradient needs the result
        return x.flatten(1)


def give(monkeypatch: pytest.MonkeyPatch, amount: int) -> None:
    monkeypatch.setattr(batching, "device_memory", lambda device: amount)


@pytest.mark.parametrize("n", [1, 5, 20])
def test_what_autograd_keeps_is_counted(n: int) -> None:
    image = torch.zeros(1, 3, 8, 8)
    assert batching._saved_bytes(Powers(n), image, ()) == [(3 * 8 * 8 * 4, 3 * 8 * 8)] * n


def test_weights_are_not_counted_since_they_do_not_grow_with_the_batch() -> None:
    net = nn.Linear(10, 7, bias=False).requires_grad_(False)
    image = torch.zeros(1, 10)
    assert batching._saved_bytes(net, image, net.parameters()) == []
    assert batching._saved_bytes(net, image, ()) == [(7 * 10 * 4, 7 * 10)]


def test_a_gradient_pass_fits_a_third_of_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    image = torch.zeros(1, 3, 8, 8)
    kept = 20 * 3 * 8 * 8 * 4  # bytes per image
    give(monkeypatch, 60 * kept)
    forward, gradient = BatchSize.probed(Powers(20), image, ())
    assert gradient.size * kept <= 20 * kept
    assert 1 <= gradient.size <= forward.size


def test_more_memory_and_smaller_nets_allow_larger_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    image = torch.zeros(1, 3, 8, 8)
    sizes = []
    for amount, n in [(10**6, 40), (10**6, 20), (10**7, 20)]:
        give(monkeypatch, amount)
        sizes.append(BatchSize.probed(Powers(n), image, ())[1].size)
    assert sizes[0] < sizes[1] < sizes[2]


def test_where_the_system_does_not_tell_a_modest_amount_is_assumed(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(name: str) -> int:
        raise ValueError("unrecognized configuration name")

    monkeypatch.setattr(batching.os, "sysconf", unknown)
    assert device_memory(CPU) == 4 * 2**30


@pytest.mark.parametrize("found", [400, 950, 2000, 4096])
def test_all_mask_methods_meet_the_same_eight_shapes_on_a_gpu(found: int) -> None:
    batch = round_to_full(found)
    assert abs(batch - found) <= 240 + 16 and batch <= 4096

    def shape(pairs: int, cost: int) -> int:
        problem = cast(Any, SimpleNamespace(cost=cost))
        return MaskEngine(problem, BatchSize(batch), fixed=True)._seats(pairs) * cost

    shapes = {shape(pairs, cost) for pairs in range(1, 1500, 7) for cost in (1, 2, 3, 4, 5, 6, 10, 12)}
    assert shapes <= {batch * eighths // 8 for eighths in range(1, 9)}


@pytest.mark.parametrize("amount, side, expected", [(0, 8, 1), (2**50, 1, 4096), (2**50, 256, 53)])
def test_a_batch_has_an_image_and_no_tensor_that_the_allocator_gives_back(
    amount: int, side: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """40 MiB are 53 images of 3 x 256 x 256 numbers."""
    give(monkeypatch, amount)
    image = torch.zeros(1, 3, side, side)
    assert [b.size for b in BatchSize.probed(Powers(2), image, ())] == [expected, expected]
