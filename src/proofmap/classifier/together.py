"""Give inputs of different lengths to the net in one batch.

A text is explained and measured at its own number of words, so methods and metrics work on texts of one length at a time. A net can
read texts of different lengths in one batch, because attention to padding is masked. :func:`each_length` therefore works on several
lengths side by side. The work on each length runs in a thread of its own, one thread at a time. A thread pauses when it needs the
net. When all threads are paused, the net computes all their requests in one batch, and the threads continue in the same order.
Nothing depends on timing, so results are reproducible.

Only the net's outputs, and their gradients with respect to the input, are computed together. A method that reads inner layers runs the net
by itself, in the context ``lane().apart()``.

In the code, a *lane* is the thread for one length, and an *answer* is the result of a thread's request to the net.

A thread that pauses while it holds a lock would make another thread that needs the lock wait forever. Until Python 3.12 every
``functools.cached_property`` holds a lock while it is computed. A request from inside a cached property is therefore computed at
once, before another thread runs.
"""

from __future__ import annotations

import contextvars
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from proofmap.classifier.kernels import note_kernels, outside_inference_mode, steady_kernels
from proofmap.classifier.outputs import check_rows
from proofmap.classifier.view import has_hooks
from proofmap.core.batching import BatchSize, is_out_of_memory
from proofmap.core.inputs import Inputs
from proofmap.core.progress import Progress

if TYPE_CHECKING:
    from proofmap.classifier import Classifier

T = TypeVar("T")
Net = Callable[[Tensor], Tensor]
Group = tuple[int, Tensor]
"""A number of positions, and the indices of the inputs with this number of positions."""


_FULL = {"cpu": 8}
_FULL_ON_OTHERS = 512
"""Number of rows that keep a device busy. More rows are divided into batches of rows of similar size, which need less padding."""
_HERE = threading.local()
_LOCKED = cached_property.__get__.__code__ if hasattr(cached_property(len), "lock") else None
"""The code that holds a lock while it computes a property; None from Python 3.12 on."""


def each_length(
    classifier: Classifier,
    groups: Sequence[Group],
    work: Callable[[int, Tensor, Progress], T],
    *,
    labels: int = 1,
    progress: Progress | None = None,
) -> list[T]:
    """Call ``work(n, places, progress)`` for each group, in order. Groups of adjacent lengths run side by side until they fill a batch.

    A group is a number of positions n and the indices ``places`` of the inputs with this length. ``labels`` is the number of labels of each
    input. Returns the results in the order of ``groups``. Work at length n must use ``classifier.at_length(n)``. Of the groups that run side
    by side, the one with the most inputs reports its ``progress``.
    """
    if isinstance(lane(), _Lane):  # the lanes of a lane would not be answered
        return [work(n, places, progress or Progress()) for n, places in groups]
    found: list[T] = []
    most, progress = classifier.batches[1].size, progress or Progress()
    for some in _bunches(groups, labels, most):
        counts = [len(places) for _, places in some]
        shown = counts.index(max(counts))
        lanes = [
            _Lane(partial(work, *group, progress if k == shown else Progress()), count / sum(counts))
            for k, (group, count) in enumerate(zip(some, counts, strict=True))
        ]
        found += _conduct(lanes, most)
    return found


def _bunches(groups: Sequence[Group], labels: int, most: int) -> Iterator[list[Group]]:
    """Lists of groups of adjacent lengths. A list of several groups has at most ``most`` rows; an input has one row for each label."""
    some: list[Group] = []
    for group in groups:
        if some and labels * sum(len(places) for _, places in [*some, group]) > most:
            yield some
            some = []
        some.append(group)
    if some:
        yield some


class Lane:
    """How the code of this thread uses the net. Outside of lanes: as if there were no other thread."""

    def apart(self, yes: bool = True) -> AbstractContextManager[None]:
        """A context in which this thread's inputs go through the net alone, for code that reads inner layers. With ``yes=False``, they share
        batches with other threads, as usual.
        """
        return nullcontext()

    def share_of(self, batch: BatchSize) -> BatchSize:
        """The batch size for this thread's inputs: its share of ``batch``."""
        return batch

    def outputs(self, net: Net, x: Tensor, inputs: Inputs) -> Tensor:
        """``net(x)``, differentiable in x. The inputs of the threads of several lengths are computed in one batch."""
        return net(x)


def lane() -> Lane:
    """The lane of this thread."""
    return getattr(_HERE, "lane", None) or Lane()


# ---- what threads ask for -------------------------------------------------------------------------------------------


@dataclass(eq=False)
class _Forward:
    """A request for the net's outputs for inputs ``x`` of one length."""

    net: Net
    x: Tensor
    inputs: Inputs
    gradient: bool
    kernels: bool | None

    def kind(self) -> tuple[object, ...]:
        """A key that is equal for requests that can be computed in one batch."""
        return id(self.net), self.x.dtype, self.gradient, self.kernels


@dataclass(eq=False)
class _Backward:
    """A request for the gradient with respect to the inputs of part ``number`` of a batch, given the gradient of their outputs."""

    batch: _Batch
    number: int
    gradient: Tensor

    def kind(self) -> tuple[object, ...]:
        return (id(self.batch),)


class _Asked(torch.autograd.Function):
    """The net as an autograd function. Forward and backward passes are computed together with those of other threads."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, lane: _Lane, net: Net, inputs: Inputs) -> Tensor:
        ctx.lane, (ctx.batch, ctx.number, found) = (
            lane,
            lane.answer_to(lane.forward(net, x, inputs, gradient=True)),
        )
        out: Tensor = found.cpu()
        if not ctx.batch.differentiable:
            ctx.mark_non_differentiable(out)
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        return ctx.lane.answer_to(_Backward(ctx.batch, ctx.number, gradient)), None, None, None


class _Batch:
    """One run of the net over the inputs of several requests, divided into parts with rows of similar size."""

    def __init__(self, requests: Sequence[_Forward], most: int) -> None:
        first = requests[0]
        self.net, self.rows = first.net, [len(each.x) for each in requests]
        self.widths = [each.x.shape[-1] for each in requests]
        self.gradient, self.kernels = first.gradient, first.kernels
        longest = max(self.widths)
        x = torch.cat([F.pad(each.x, (0, longest - each.x.shape[-1])) for each in requests])
        sizes = torch.cat([each.inputs.sizes(each.x, gradient=each.gradient) for each in requests])
        self.order = sizes.argsort(stable=True)
        self.parts: list[tuple[Tensor, Tensor]] = []
        full = min(most, _FULL.get(x.device.type, _FULL_ON_OTHERS))
        differ = len(sizes) > 0 and bool(sizes.amax() > sizes.amin())
        pieces = max(-(-len(x) // most), len(x) // full if differ else 0, 1)
        with steady_kernels(tf32=bool(self.kernels)), torch.set_grad_enabled(self.gradient):
            for which in self.order.tensor_split(pieces):
                part = x[which].requires_grad_(self.gradient)
                out = check_rows(self.net(part), len(part), first.inputs.singular)
                self.parts.append((part if self.gradient else part[:0], out))
        back = self.order.argsort()
        self.outputs = torch.cat([out.detach() for _, out in self.parts])[back].split(self.rows)
        self.differentiable = all(out.requires_grad for _, out in self.parts)

    def gradients(self, given: dict[int, Tensor]) -> dict[int, Tensor]:
        """The gradients with respect to the inputs of some requests, given the gradients of their outputs."""
        asked = [
            given[k].to(out) if k in given else torch.zeros_like(out) for k, out in enumerate(self.outputs)
        ]
        wanted = torch.cat(asked)[self.order].split([len(out) for _, out in self.parts])
        found: list[Tensor] = []
        with steady_kernels(tf32=bool(self.kernels)):
            for (part, out), own in zip(self.parts, wanted, strict=True):
                # the graph goes when the threads no longer hold it: a thread may ask again, for another label
                found += torch.autograd.grad(out, part, own, retain_graph=True)
        each = torch.cat(found)[self.order.argsort()].split(self.rows)
        return {k: each[k][..., : self.widths[k]] for k in given}


def _answers(requests: Sequence[_Forward | _Backward], most: int) -> list[Any]:
    """The result of each request, or the error that it failed with. Requests of the same kind are computed in one batch."""
    kinds: dict[object, list[int]] = {}
    for k, request in enumerate(requests):
        kinds.setdefault(request.kind(), []).append(k)
    answers: dict[int, Any] = {}
    for places in kinds.values():
        some: list[Any] = [requests[k] for k in places]
        try:
            if isinstance(some[0], _Backward):
                found = some[0].batch.gradients({each.number: each.gradient for each in some})
                answers |= {k: found[each.number] for k, each in zip(places, some, strict=True)}
            else:
                batch = _Batch(some, most)
                answers |= {
                    k: (batch, i, out) for i, (k, out) in enumerate(zip(places, batch.outputs, strict=True))
                }
        except Exception as error:  # theirs: they may know what to do, such as to take smaller batches
            answers |= dict.fromkeys(places, MemoryError(str(error)) if is_out_of_memory(error) else error)
    return [answers[k] for k in range(len(requests))]


# ---- threads that take turns ----------------------------------------------------------------------------------------


class _Stopped(BaseException):
    """Ends a thread because another one failed."""


class _Lane(Lane):
    """The work on the inputs of one length, in a thread of its own that pauses at each request."""

    def __init__(self, work: Callable[[], Any], share: float) -> None:
        self.share, self._is_apart = share, False
        self.batches: dict[int, tuple[BatchSize, BatchSize]] = {}
        self.request: _Forward | _Backward | None = None
        self.result: Any = None
        self.error: BaseException | None = None
        self.ended, self.holds_lock, self._stopping, self._answer = False, False, False, None
        self._kernels: Sequence[bool] = ()
        self._go, self._stands = threading.Semaphore(0), threading.Semaphore(0)
        self._work, self._graph = work, torch.is_grad_enabled()
        self._thread = threading.Thread(target=contextvars.copy_context().run, args=(self._run,), daemon=True)
        self._thread.start()

    @contextmanager
    def apart(self, yes: bool = True) -> Iterator[None]:
        before, self._is_apart = self._is_apart, yes
        try:
            yield
        finally:
            self._is_apart = before

    def share_of(self, batch: BatchSize) -> BatchSize:
        if id(batch) not in self.batches:
            self.batches[id(batch)] = batch, BatchSize(max(1, round(batch.size * self.share)))
        return self.batches[id(batch)][1]

    def outputs(self, net: Net, x: Tensor, inputs: Inputs) -> Tensor:
        # a net with hooks must not see the inputs of other threads
        if self._is_apart or (isinstance(net, nn.Module) and has_hooks(net)):
            return net(x)
        if not (torch.is_grad_enabled() and x.requires_grad):
            _, _, found = self.answer_to(self.forward(net, x, inputs, gradient=False))
            return found  # type: ignore[no-any-return]
        # on the CPU, where autograd runs the backward pass in the thread that asked for it and not in the thread of the device, which all share
        answered: Tensor = _Asked.apply(x, self, net, inputs)  # type: ignore[no-untyped-call]
        return answered.to(x.device)

    def forward(self, net: Net, x: Tensor, inputs: Inputs, *, gradient: bool) -> _Forward:
        return _Forward(net, x.detach(), inputs, gradient, self._kernels[-1] if self._kernels else None)

    def step(self, answer: Any = None) -> None:
        """Let the thread run until its next request or its end."""
        self._answer, self.request, self.holds_lock = answer, None, False
        self._go.release()
        self._stands.acquire()

    def stop(self) -> None:
        if not self.ended:
            self._stopping = True
            self.step()
        self._thread.join()

    def answer_to(self, request: _Forward | _Backward) -> Any:
        """The result of a request. This method is called in the lane's thread, which waits for the result."""
        self.request, self.holds_lock = request, _is_in_cached_property()
        self._stands.release()
        self._go.acquire()
        if self._stopping:
            raise _Stopped
        answer, self._answer = self._answer, None
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _run(self) -> None:
        self._go.acquire()
        _HERE.lane = self
        try:
            if not self._stopping:
                with torch.set_grad_enabled(self._graph), note_kernels() as self._kernels:
                    self.result = self._work()
        except BaseException as error:
            self.error = error
        finally:
            self.ended = True
            _HERE.lane = Lane()
            self._stands.release()


def _conduct(lanes: Sequence[_Lane], most: int) -> list[Any]:
    """Run all lanes to their end, and return their results."""
    try:
        with outside_inference_mode(), steady_kernels(tf32=False):
            for lane in lanes:
                _let_run(lane, None, most)
            while waiting := [lane for lane in lanes if not lane.ended]:
                requests = [lane.request for lane in waiting]
                answers = _answers([each for each in requests if each is not None], most)
                del requests
                for lane in waiting:
                    _let_run(lane, answers.pop(0), most)
    finally:
        for lane in lanes:
            lane.stop()
    return [lane.result for lane in lanes]


def _let_run(lane: _Lane, answer: Any, most: int) -> None:
    """Let a lane run until it makes a request without holding a lock, or ends. Its error is raised."""
    lane.step(answer)
    while lane.holds_lock and lane.request is not None:
        lane.step(*_answers([lane.request], most))
    if lane.error is not None:
        raise lane.error


def _is_in_cached_property() -> bool:
    """Whether this thread is computing a ``cached_property`` and holds its lock."""
    frame = sys._getframe() if _LOCKED is not None else None
    while frame is not None and frame.f_code is not _LOCKED:
        frame = frame.f_back
    return frame is not None
