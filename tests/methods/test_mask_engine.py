"""The engine that learns masks: slots, memory, watching. On a problem whose answer is known."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch import Tensor

import proofmap as pm
from proofmap.core import streams
from proofmap.core.batching import BatchSize, OutOfMemory
from proofmap.core.progress import ProgressTask
from proofmap.methods.masks.engine import MaskEngine, MaskProblem, Slots, decayed
from proofmap.methods.masks.method import _bears, chosen_precision
from proofmap.session import Snapshot
from tests.sessions import bound


class Parabola(MaskProblem):
    """Each pair goes to its own number (its label) ; images and keys are not looked at."""

    def __init__(self, steps: int = 40, cost: int = 2, room: int | None = None) -> None:
        self.steps, self.cost, self.room = steps, cost, room
        self.widths: list[int] = []

    def enter(self, slots: Slots) -> Slots:
        return {"weights": torch.zeros(len(slots["labels"]), 1, 2)}

    def losses(self, weights: Tensor, slots: Slots) -> Tensor:
        self.widths.append(len(weights))
        if self.room is not None and len(weights) > self.room:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return (weights - slots["labels"].view(-1, 1, 1)).square().sum(dim=(1, 2))

    def masks(self, weights: Tensor) -> Tensor:
        return weights

    def rates(self, step: Tensor) -> Tensor:
        return decayed(0.3, step, None)


def pairs_of(n: int) -> tuple[Tensor, ...]:
    keys = torch.tensor([streams.key_of(pair) for pair in range(n)])
    return torch.zeros(1, 1), torch.zeros(n, dtype=torch.long), torch.arange(n) - 2, keys


class Counted(ProgressTask):
    def __init__(self) -> None:
        self.done = 0

    def advance(self, passes: int, note: str = "") -> None:
        self.done += passes


def run(problem: Parabola, n: int = 7, batch: int = 100, **options: Any) -> tuple[Tensor, MaskEngine, int]:
    engine, task = MaskEngine(problem, BatchSize(batch), **options), Counted()
    return engine.run(*pairs_of(n), task), engine, task.done


@pytest.mark.parametrize("fixed", [False, True])
def test_a_pair_learns_the_same_whoever_sits_beside_it(fixed: bool) -> None:
    expected, _, done = run(Parabola(), batch=2)  # one slot: one pair after the other
    for batch in (4, 6, 14, 100):
        problem = Parabola()
        found, _, passes = run(problem, batch=batch, fixed=fixed)
        assert torch.equal(found, expected) and passes == done == 7 * 40 * 2
        assert not fixed or len(set(problem.widths)) == 1  # to the end


def test_equal_work_is_shared_out_evenly() -> None:
    problem = Parabola(steps=5)
    run(problem, n=7, batch=6)
    assert problem.widths == [3] * 5 + [3] * 5 + [1] * 5


def test_running_out_of_memory_halves_the_slots_and_loses_nothing() -> None:
    expected, _, _ = run(Parabola())
    with pytest.warns(UserWarning, match="out of memory"):
        found, engine, _ = run(Parabola(room=2))
    assert torch.equal(found, expected) and engine.batch.size <= 5
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(OutOfMemory, match="a single map"):
            run(Parabola(room=0))


def test_watching_shows_every_mask_on_its_way_and_changes_nothing() -> None:
    seen: list[Snapshot] = []
    expected, _, _ = run(Parabola(steps=25))
    found, _, _ = run(Parabola(steps=25), batch=4, watch=seen.append, every=10)
    assert torch.equal(found, expected)
    assert sorted((s.pair, s.step) for s in seen) == [(p, t) for p in range(7) for t in (10, 20, 25)]
    last = {s.pair: s.mask for s in seen if s.step == s.steps}
    assert all(torch.equal(last[p], found[p, 0]) for p in range(7))


def test_a_method_shows_its_maps_with_their_image_and_label() -> None:
    f = pm.Classifier(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(48, 3)), size=4)
    images, labels = torch.rand(2, 3, 4, 4), torch.tensor([[1, 2], [0, -1]])
    ready = bound(pm.LearnedMask(steps=10, fill="gray", scale=2), f)
    seen: dict[tuple[int, int], Tensor] = {}
    watched = ready.watched(lambda image, label, s: seen.__setitem__((image, label), s.mask), every=5)
    maps = watched(images, labels)
    assert set(seen) == {(0, 1), (0, 2), (1, 0)}
    assert torch.equal(seen[0, 2], maps[0, 1]) and torch.equal(maps, ready(images, labels))


def test_step_keys_are_the_words_of_the_stream_at_that_step() -> None:
    keys, n = torch.tensor([streams.key_of("a"), streams.key_of("b")]), 3
    found = streams.step_keys(keys, torch.tensor([0, 17]), n)
    for row, step in enumerate((0, 17)):
        words = streams.random_words(keys[row], 2 * n, start=2 * n * step + 4)
        assert torch.equal(found[row], (words[:n] << 32) | words[n:])


def test_a_compiled_net_meets_few_shapes() -> None:
    widths = set()
    for n in range(1, 60):
        problem = Parabola(steps=1, cost=1)
        run(problem, n=n, batch=40, fixed=True)
        widths |= set(problem.widths)
    assert widths == {5, 10, 15, 20, 25, 30, 35, 40}


def test_half_precision_that_overflows_now_and_then_loses_a_step_and_no_more() -> None:
    class Overflowing(Parabola):
        def __init__(self, often: int) -> None:
            super().__init__(steps=40)
            self.often = often

        def losses(self, weights: Tensor, slots: Slots) -> Tensor:
            losses = super().losses(weights, slots)
            bad = (slots["step"] % self.often == self.often - 1) & (slots["labels"] == 1)
            return losses * torch.where(bad, torch.inf, 1.0)

    expected, _, _ = run(Parabola())
    found, _, _ = run(Overflowing(20), scale=256.0)
    assert bool(found.isfinite().all()) and torch.allclose(found[3], expected[3], atol=0.3)
    others = [p for p in range(7) if p != 3]
    torch.testing.assert_close(found[others], expected[others], rtol=1e-6, atol=1e-6)
    with pytest.raises(pm.InputError, match="precision=float32"):
        run(Overflowing(2), scale=256.0)


def test_a_pair_whose_scaled_gradient_is_too_large_for_float16_is_learned_with_a_smaller_scale() -> None:
    class Steep(Parabola):
        def losses(self, weights: Tensor, slots: Slots) -> Tensor:
            steep = torch.where(slots["labels"] == 1, 1e4, 1.0)  # the gradient passes through float16
            return steep * super().losses(weights.half().float(), slots)

    expected, _, _ = run(Steep())
    found, _, _ = run(Steep(), scale=256.0)
    others = [p for p in range(7) if p != 3]
    torch.testing.assert_close(found[others], expected[others], rtol=1e-6, atol=1e-6)
    assert torch.allclose(found[3], expected[3], atol=0.3)


class Stubborn(torch.nn.Module):
    """Does something that float16 has no operation for, or is out of its range."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.layer, self.kind = torch.nn.Linear(48, 2), kind

    def forward(self, x: Tensor) -> Tensor:
        x = x.flatten(1)
        if self.kind == "fixed":
            x = x @ torch.linalg.inv(torch.eye(48).to(x))
        return self.layer(x * 1e5) * 1e-5 if self.kind == "loud" else self.layer(x)


@pytest.mark.parametrize("kind, bears", [("usual", True), ("fixed", False), ("loud", False)])
def test_half_precision_is_chosen_only_where_the_net_bears_it(kind: str, bears: bool) -> None:
    f = pm.Classifier(Stubborn(kind), size=4)
    assert _bears(f, torch.float16) is bears
    assert chosen_precision(f, "auto") == torch.float32  # on a CPU
    assert chosen_precision(f, "bfloat16") == torch.bfloat16
