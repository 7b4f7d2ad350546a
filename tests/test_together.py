"""Texts of different lengths go through the net in one batch, and nothing else changes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cached_property

import pytest
import torch
from torch import Tensor

import proofmap as pm
from proofmap.classifier import together
from proofmap.classifier.steadiness import FirstLook
from proofmap.core.batching import BatchSize
from proofmap.core.errors import InputError
from proofmap.core.inputs import Text
from proofmap.core.progress import Progress
from tests.sessions import bound
from tests.toy_tokens import toy_classifier

TEXTS = [
    "Stars are far away",
    "No",
    "The committee voted to fund the telescope",
    "Two words",
    "Not so",
    "A, b and c",
]
METHODS = [
    "gradient",
    "integrated-gradients:steps=4",
    "smooth-grad:samples=3",
    "occlusion",
    "belief-order",
    "kernel-shap:samples=20",
    "belief-mask:passes=12,fills=delete",
    "learned-mask:steps=2",
    "attention-rollout",
    "top-label:chefer",
    "random",
]
METRICS = ["completeness", "soundness", "deletion"]


def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts of each length by themselves."""
    monkeypatch.setattr(together._Lane, "outputs", together.Lane.outputs)


@pytest.mark.filterwarnings("ignore:the maps of")  # few steps
@pytest.mark.parametrize("method", METHODS)
def test_maps_and_scores_are_those_of_each_length_alone(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def judged() -> pm.Evaluation:
        return pm.evaluate(toy_classifier(), TEXTS, methods=[method], metrics=METRICS, labels="all")

    (found,) = judged().results
    alone(monkeypatch)
    (expected,) = judged().results
    assert torch.allclose(found.maps, expected.maps, atol=1e-5)
    for name, values in expected.values.items():
        assert torch.allclose(found.values[name], values, atol=1e-5), name


class Strings:
    """A model of strings that notes the size of each call, and gives the same bits in any batch."""

    def __init__(self) -> None:
        self.calls: list[int] = []

    def __call__(self, texts: list[str]) -> list[list[float]]:
        self.calls.append(len(texts))
        yes = [(text.count("o") + 1) / (len(text) + 2) for text in texts]
        return [[share, 1 - share] for share in yes]


def test_a_function_of_strings_is_called_with_all_lengths_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FirstLook, "difference_between_batches", lambda *_: 0.0)  # at one length only

    def judged() -> tuple[pm.Evaluation, list[int]]:
        model = Strings()
        net = pm.Classifier(model, inputs=Text(length=12), batch_size=64)
        model.calls.clear()
        return pm.evaluate(net, TEXTS, methods=["occlusion"], metrics=METRICS, labels="all"), model.calls

    found, calls = judged()
    alone(monkeypatch)
    expected, more = judged()
    assert sum(calls) == sum(more)  # the same strings
    assert len(calls) <= len(more) / 2 and max(calls) > max(more)
    for name, values in expected.results[0].values.items():
        assert torch.equal(found.results[0].values[name], values), name


def test_gradients_of_several_lengths_take_one_pass() -> None:
    f, shapes = toy_classifier(), list[tuple[int, ...]]()
    x, labels = f.inputs.encode(TEXTS), torch.zeros(len(TEXTS), 1, dtype=torch.long)
    ready, kind = bound(pm.make_method("gradient"), f), type(f.net)
    forward = kind.forward

    def noted(self: torch.nn.Module, given: Tensor) -> Tensor:
        shapes.append(tuple(given.shape))
        return forward(self, given)

    ready(x, labels)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(kind, "forward", noted)
        ready(x, labels)
    assert shapes == [(len(TEXTS), x.shape[1], 7 * x.shape[2] // 12)]  # as wide as the longest text


# ---- the threads ----------------------------------------------------------------------------------------------------


def groups(*lengths: int) -> list[together.Group]:
    return [(n, torch.tensor([k])) for k, n in enumerate(lengths)]


def asking(f: pm.Classifier) -> Callable[[int, Tensor, Progress], Tensor]:
    x = f.inputs.encode(TEXTS)

    def work(n: int, places: Tensor, progress: Progress) -> Tensor:
        near = f.at_length(n)
        return near(near.inputs.cut(x[places], n))

    return work


def test_an_error_in_one_length_is_raised_and_ends_the_others() -> None:
    f, ended = toy_classifier(), []
    ask = asking(f)

    def work(n: int, places: Tensor, progress: Progress) -> Tensor:
        try:
            ask(n, places, progress)
            if n == 1:
                raise InputError("not this one")
            return ask(n, places, progress)
        finally:
            ended.append(n)

    with pytest.raises(InputError, match="not this one"):
        together.each_length(f, groups(4, 1, 7), work)
    assert sorted(ended) == [1, 4, 7]


def test_each_length_takes_smaller_batches_if_memory_runs_out(monkeypatch: pytest.MonkeyPatch) -> None:
    f = toy_classifier()
    kind = type(f.net)
    forward = kind.forward
    ready = bound(pm.make_method("gradient"), f)
    labels = torch.arange(3).expand(len(TEXTS), -1)
    expected = ready(f.inputs.encode(TEXTS), labels)

    def small(self: torch.nn.Module, x: Tensor) -> Tensor:
        if len(x) > 8:
            raise RuntimeError("CUDA out of memory")
        return forward(self, x)

    f.fix_batches(64, 64)
    monkeypatch.setattr(kind, "forward", small)
    with pytest.warns(UserWarning, match="out of memory"):
        many = ready(f.inputs.encode(TEXTS * 4), labels.repeat(4, 1))
    assert torch.allclose(many, expected.repeat(4, 1, 1), atol=1e-6)


def test_each_length_has_its_share_of_the_batch() -> None:
    f, batch, seen = toy_classifier(), BatchSize(100), []

    def work(n: int, places: Tensor, progress: Progress) -> None:
        seen.append(together.lane().share_of(batch).size)

    together.each_length(f, [(4, torch.tensor([0, 3, 4])), (7, torch.tensor([2]))], work)
    assert seen == [75, 25] and together.lane().share_of(batch) is batch


def test_lengths_run_side_by_side_until_they_fill_a_batch() -> None:
    some = [(n, torch.arange(n)) for n in (1, 2, 3, 4)]
    assert [[n for n, _ in each] for each in together._bunches(some, 2, 12)] == [[1, 2, 3], [4]]
    assert [[n for n, _ in each] for each in together._bunches(some, 2, 1)] == [[1], [2], [3], [4]]


def test_a_net_with_hooks_is_run_for_each_length_alone() -> None:
    f, sizes = toy_classifier(), []
    x, ask = f.inputs.encode(TEXTS), asking(f)
    net = f.net

    def work(n: int, places: Tensor, progress: Progress) -> None:
        hook = net.register_forward_hook(lambda module, given, out: sizes.append(len(out)))
        try:
            ask(n, places, progress)
        finally:
            hook.remove()

    together.each_length(f, f.inputs.by_length(x), work)
    assert sizes == [len(places) for _, places in f.inputs.by_length(x)]


def test_lengths_inside_of_lengths_run_one_after_the_other() -> None:
    f = toy_classifier()
    ask = asking(f)

    def outer(n: int, places: Tensor, progress: Progress) -> list[Tensor]:
        return together.each_length(f, [(n, places)], ask)

    found = together.each_length(f, groups(4, 1, 7), outer, progress=Progress())
    expected = f.logits(f.inputs.encode(TEXTS[:3]))
    assert torch.allclose(torch.cat([one for (one,) in found]), expected, atol=1e-5)


@pytest.mark.parametrize("gradient", [False, True])
def test_a_cached_property_may_ask_the_net(gradient: bool) -> None:
    """Until Python 3.12 it holds a lock that the other lengths wait for."""
    f, found = toy_classifier(), list[Tensor]()
    x = f.inputs.encode(TEXTS)

    class Lazy:
        def __init__(self, n: int, places: Tensor) -> None:
            self.n, self.places = n, places

        @cached_property
        def answer(self) -> Tensor:
            near = f.at_length(self.n)
            given = near.inputs.cut(x[self.places], self.n).requires_grad_(gradient)
            out = near(given)
            return torch.autograd.grad(out[:, 0].sum(), given)[0].flatten()[:1] if gradient else out[0, :1]

    def work(n: int, places: Tensor, progress: Progress) -> Tensor:
        return Lazy(n, places).answer

    def run() -> None:
        found.append(torch.cat(together.each_length(f, groups(4, 1, 7), work)))

    expected = torch.cat([Lazy(n, places).answer for n, places in groups(4, 1, 7)])
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(timeout=180)  # only ends a test that hangs
    assert found and torch.allclose(found[0], expected, atol=1e-6)
