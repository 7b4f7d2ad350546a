"""What a session keeps and shares; nets that move; memory."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import proofmap as pm
from proofmap.classifier.steadiness import FirstLook
from proofmap.core import allocator, batching
from proofmap.core.batching import BatchSize, device_memory, round_to_full
from proofmap.core.errors import ModelError
from proofmap.data.folders import image_folder
from proofmap.data.given import Subjects
from proofmap.fills import Images
from proofmap.loop import judge_blocks
from proofmap.methods import make_method
from proofmap.methods.controls import Inverse, Random, TopLabel
from proofmap.methods.masks.engine import MaskEngine
from proofmap.metrics import Insertion, Judged
from proofmap.session import Session
from proofmap.study.opened import open_study, prepare_study
from proofmap.study.planning import Unit
from proofmap.study.store import ImageRow
from proofmap.study.unit import Worker
from tests.study.studies import photos
from tests.toys import (
    TEXT,
    classifier_of,
    conv_classifier,
    conv_net,
    counted_classifier,
    normal,
    pixels,
    values,
)

SIZE, N = 8, 4
LABELS = torch.tensor([[0, 1]] * N)


def f() -> pm.Classifier:
    return conv_classifier(SIZE)


# ---- the memo -------------------------------------------------------------------------------------------------------


def test_what_was_found_is_found_once_and_again_when_the_net_changes() -> None:
    net, found = conv_net(), list[int]()
    session = Session(pm.Classifier(net, size=SIZE))
    for _ in range(2):
        session.memo("what", lambda: found.append(1))
        session.refresh()
    assert len(found) == 1
    with torch.no_grad():
        next(net.parameters()).neg_()
    session.refresh()
    session.memo("what", lambda: found.append(1))
    assert len(found) == 2


@dataclass
class Unhashable:
    """A dataclass that may change cannot be a key."""

    scale: float = 1.0

    def __call__(self, classifier: pm.Classifier, images: Tensor, labels: Tensor) -> Tensor:
        return self.scale * images.mean(dim=1)[:, None].expand(-1, labels.shape[1], -1, -1)


def test_a_callable_that_cannot_be_a_key_is_a_method() -> None:
    maps = make_method(Unhashable())(f(), pixels(N, SIZE), LABELS)
    assert maps.shape == (N, 2, SIZE, SIZE)


def test_random_images_are_asked_for_once_also_where_there_are_none() -> None:
    asked: list[int] = []
    session = Session(f(), distractors=lambda: asked.append(1))
    assert session.source() is None and session.judging().source() is None
    assert len(asked) == 1


def test_a_pool_of_one_part_is_built_once_for_methods_and_metrics() -> None:
    session, fill = Session(f(), role="learn"), Images(source=pixels(9, SIZE), part="all")
    assert fill.drawn_from(session) is fill.drawn_from(session.judging())
    halves = Images(source=pixels(9, SIZE))
    one, other = (set(halves.drawn_from(each).marks.tolist()) for each in (session, session.judging()))
    assert one and other and not one & other


# ---- other sessions of the same net -----------------------------------------------------------------------------------


def texts() -> Tensor:
    x = values(TEXT, 6)
    x[:3, :, 3:] = 0
    return x


def test_another_seed_is_another_seed_at_every_length() -> None:
    net, labels = classifier_of(TEXT), torch.zeros(6, 1, dtype=torch.long)
    session, method = Session(net, role="learn"), make_method("random")
    before, _ = session.maps(method, texts(), labels), session.judging()
    other = session.like(seed=1)
    assert other.judging().seed == 1 and session.judging().seed == 0
    assert not torch.equal(other.maps(method, texts(), labels), before)
    fresh = Session(net, seed=1).maps(method, texts(), labels)
    assert torch.equal(other.maps(method, texts(), labels), fresh)


def test_a_pool_of_texts_of_all_lengths_serves_a_net_of_one_length() -> None:
    net, pool = classifier_of(TEXT), values(TEXT, 30, seed=3)
    short = values(TEXT, 4)[:, :, :3].contiguous()
    method = make_method("occlusion").changed(fill=Images(source=pool))
    assert method(net.at_length(3), short, torch.zeros(4, 1, dtype=torch.long)).shape == (4, 1, 3)


# ---- maps that methods share -------------------------------------------------------------------------------------------


def test_shared_maps_are_those_of_the_net_as_it_is_now() -> None:
    net, method = conv_net(), make_method("gradient-x-input")
    session = Session(pm.Classifier(net, size=SIZE), shared=frozenset([method]))
    x = pixels(N, SIZE)
    before = session.shared_maps(method, x, LABELS)
    assert session.shared_maps(method, x, LABELS) is before
    with torch.no_grad():
        next(net.parameters()).neg_()
    assert not torch.equal(session.shared_maps(method, x, LABELS), before)


def test_a_metric_that_runs_methods_again_does_not_make_shared_maps_anew() -> None:
    calls: list[int] = []

    def bright(classifier: pm.Classifier, images: Tensor, labels: Tensor) -> Tensor:
        calls.append(len(images))
        return images.mean(dim=1)[:, None] * (1 + labels)[..., None, None]

    own = make_method(bright)
    methods = [own, TopLabel(of=own), Inverse(of=own)]
    smooth = "randomisation:preset=smooth,samples=2"
    pm.evaluate(f(), pixels(N, SIZE), methods=methods, labels="all", metrics=["soundness", smooth])
    again = 2 * 2 * len(methods)  # two noisy copies on two nets
    assert len(calls) <= 1 + again


def test_masks_that_are_watched_have_the_index_of_their_image_among_all() -> None:
    net, x = f(), pixels(N, SIZE)
    top = net.top(x, 1)[:, 0].tolist()
    labels = [[top[0]], [top[1]], [(top[2] + 1) % 4], [(top[3] + 1) % 4]]
    seen: set[tuple[int, int]] = set()
    mask = "learned-mask:steps=2,fill=gray"
    pm.evaluate(
        net, x, methods=[mask, f"top-label:{mask}"], labels=labels, metrics=["soundness"],
        watch=lambda image, label, _: seen.add((image, label)),
    )  # fmt: skip
    assert seen == {(i, row[0]) for i, row in enumerate(labels)} | {(2, top[2]), (3, top[3])}


def test_a_watcher_is_called_by_its_own_call_alone() -> None:
    seen: list[int] = []
    mask = "learned-mask:steps=2,fill=gray"
    judge = pm.Judge(
        f(), methods=[mask], labels="top1", metrics=["soundness"], watch=lambda *_: seen.append(1)
    )
    judge.update(pixels(N, SIZE))
    before, session = len(seen), judge.opened.session
    session.maps(make_method(mask), pixels(N, SIZE), LABELS)
    assert before == len(seen) > 0


# ---- what a metric is given ---------------------------------------------------------------------------------------------


def test_a_copy_reads_its_own_images_whatever_was_read_before() -> None:
    judged = Judged(Session(f()), pixels(2, SIZE), LABELS[:2], normal(2, 2, SIZE, SIZE))
    first = judged.copy()
    first.images.zero_()
    expected = first.keys(("purpose",))
    judged.keys(("purpose",))
    later = judged.copy()
    later.images.zero_()
    assert torch.equal(later.keys(("purpose",)), expected)


# ---- nets that move, and memory ------------------------------------------------------------------------------


class Moving:
    """A net whose logits move by ``step`` with each call."""

    def __init__(self, step: float) -> None:
        self.net, self.step, self.calls = conv_net(), step, 0
        self.push = torch.tensor([1.0, -1.0, 0.0, 0.0])

    def __call__(self, x: Tensor) -> Tensor:
        self.calls += 1
        return self.net(x) + self.calls * self.step * self.push


def test_forced_dropout_is_named_as_randomness() -> None:
    net = conv_net()
    with pytest.raises(ModelError, match=r"differ by .*look for a dropout that stays on") as refused:
        pm.Classifier(lambda x: net(F.dropout(x, 0.5)), size=SIZE)
    assert "batch" not in str(refused.value)


def test_a_batch_norm_in_training_mode_is_named_as_dependence_on_the_other_images() -> None:
    net = nn.Sequential(nn.BatchNorm2d(3), conv_net()).train()
    with pytest.raises(
        ModelError, match=r"depends on the other images of its batch: it moves by .*batch-norm"
    ):
        pm.Classifier(lambda x: net(x), size=SIZE)


def test_a_state_too_slow_for_the_first_look_is_found_at_the_end_with_its_size() -> None:
    net = Moving(2e-5)
    f = pm.Classifier(net, size=SIZE, batch_size=4)
    with pytest.raises(ModelError, match=r"moved by \S+ .*while .*random.* was judged") as refused:
        pm.evaluate(f, pixels(3, SIZE), methods=["random"], labels="top2", metrics=["insertion"])
    found = re.search(r"moved by (\S+) ", str(refused.value))
    assert found and 1e-4 < float(found[1]) < net.calls * net.step + 1e-4


def test_a_net_that_looks_at_other_images_later_is_found_at_the_end() -> None:
    net, later = conv_net(), [False]

    def centred(x: Tensor) -> Tensor:
        return net(x - x.mean(dim=0)) if later[0] and len(x) > 2 else net(x)

    f, x = pm.Classifier(centred, size=SIZE, batch_size=8), pixels(3, SIZE)
    look = FirstLook(f, x)
    look.check("before")
    later[0] = True
    with pytest.raises(ModelError, match="depends on the other images of its batch: it moves by"):
        look.check("after")


def test_a_look_costs_two_passes_at_first_and_five_more_each_time() -> None:
    f, tally = counted_classifier(size=SIZE)
    tally.reset()
    look = FirstLook(f, pixels(5, SIZE))
    assert tally.images == 2
    look.check("now")
    look.check("now")
    assert tally.images == 2 + 2 * 5


def test_a_worker_marks_the_images_of_a_unit_in_which_the_net_moved(tmp_path: Path) -> None:
    data = image_folder(photos(tmp_path / "photos", 2))
    f = pm.Classifier(Moving(5e-5), size=SIZE, batch_size=4)
    study = pm.Study(methods=[Random()], metrics=[Insertion(points=32)])
    worker = Worker(open_study(study, classifier=f, dataset=data), (4, 4), tmp_path)
    subjects = tuple(ImageRow(name, data.digest(k), "", labels=(0, 1)) for k, name in enumerate(data.names))
    result = worker(Unit("random", 0, subjects, ("insertion",)))
    assert result.parts == () and sorted(result.failures) == [0, 1]
    assert "outputs for the same images moved by" in result.failures[0]


# ---- one batch of masked images, once per evaluation --------------------------------------------------------------------


def by_batch(x: Tensor) -> Tensor:
    out: Tensor = conv_net()(x)
    return out * (1 if len(x) < 64 else 2)


def wrong_at_seven(x: Tensor) -> Tensor:
    out: Tensor = conv_net()(x)
    return torch.cat([out[:7], out[7:8].flip(1) + 5, out[8:]])


def random_if_masked(x: Tensor) -> Tensor:
    masked = (x == 0).all(dim=1).float().mean(dim=(1, 2)) > 0.02
    out: Tensor = conv_net()(x)
    return out + masked[:, None] * torch.randn(out.shape)


def judged(net: object, images: int = 5, **options: object) -> pm.Evaluation:
    f = pm.Classifier(net, size=SIZE, mean=(0.5,) * 3, std=(0.25,) * 3, batch_size=100)
    asked = {"methods": ["random"], "labels": "top2", "metrics": ["insertion"], **options}
    return pm.evaluate(f, pixels(images, SIZE), **asked)  # type: ignore[arg-type]


@pytest.mark.parametrize("net", [by_batch, wrong_at_seven, random_if_masked])
def test_a_net_that_depends_on_large_batches_of_masked_images_is_refused(net: object) -> None:
    with pytest.raises(
        ModelError, match=r"output for a masked image depends on its batch.*an output moves by .* and f by"
    ):
        judged(net)


@pytest.mark.parametrize("size", [8, 9, 15, 16, 22, 23, 38, 64, 99])
def test_an_error_at_one_index_is_found_in_batches_of_any_size(size: int) -> None:
    f = pm.Classifier(wrong_at_seven, size=SIZE)
    with pytest.raises(ModelError, match="depends on its batch"):
        FirstLook.difference_between_batches(f.frozen(), pixels(size, SIZE))


def slightly_by_batch(x: Tensor) -> Tensor:
    out: Tensor = conv_net()(x)
    return out + (0.02 if len(x) > 50 else 0) * torch.tensor([1.0, -1, 0, 0])


def test_the_size_of_a_small_difference_is_in_the_record_and_under_the_table(tmp_path: Path) -> None:
    data = image_folder(photos(tmp_path / "photos", 5))
    found = judged(slightly_by_batch)
    f = pm.Classifier(slightly_by_batch, size=SIZE, batch_size=100)
    study = pm.Study(methods=[Random()], metrics=[Insertion()], labels="top2")
    pm.run_study(study, tmp_path / "run", classifier=f, dataset=data)
    with pm.Run(tmp_path / "run") as run:
        for evaluation in (found, run.evaluation()):
            size = evaluation.settings["batch_difference"]
            assert isinstance(size, float) and 1e-3 < size < 0.02
            assert f"f of a masked image differs by up to {size:g} between batches" in str(evaluation)
    steady = judged(conv_net())
    assert "batch_difference" not in steady.settings and "between batches" not in str(steady)


def test_one_comparison_of_one_batch_is_made_for_all_methods_and_is_not_counted_as_their_passes() -> None:
    f, tally = counted_classifier(size=SIZE, batch_size=16)
    study = pm.Study(methods=[Random()], metrics=[Insertion()])
    opened = prepare_study(study, f, lambda: None)
    x = pixels(3, SIZE)
    subjects = Subjects(x, torch.tensor([[0, 1]] * 3))
    f.frozen()
    tally.reset()
    looked = []
    for blocks in ([subjects], [subjects], [subjects, subjects]):
        list(judge_blocks(opened.session, opened.methods, opened.metrics, blocks))
        looked.append(tally.images)
        tally.reset()
    assert looked[0] == looked[1] + 2 + 2 * 16, (
        "the look at two images and the comparison are of the first block alone"
    )
    assert looked[2] == 2 * looked[1]
    assert opened.session.batch_difference is not None and opened.session.batch_difference < 1e-5


def test_a_run_with_such_a_net_keeps_no_scores_and_says_why(tmp_path: Path) -> None:
    data = image_folder(photos(tmp_path / "photos", 5))
    f = pm.Classifier(by_batch, size=SIZE, batch_size=100)
    study = pm.Study(methods=[Random()], metrics=[Insertion()], labels="top2")
    outcome = pm.run_study(study, tmp_path / "run", classifier=f, dataset=data)
    assert outcome.failed == 5
    with pm.Run(tmp_path / "run") as run:
        assert not run.has_results and "depends on its batch" in run.failures()[0].reason


# ---- memory --------------------------------------------------------------------------------------------------


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


# ---- the allocator -------------------------------------------------------------------------------------------


ALLOCATION = ("MALLOC_", "GLIBC_TUNABLES", "LD_PRELOAD")
TAKING = """
import ctypes, resource, runpy, sys, threading
if len(sys.argv) > 1:  # the file alone, without torch
    print(runpy.run_path(sys.argv[1])["keep_memory"]())
libc, size = ctypes.CDLL(None), 24 * 2**20
libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]
def step():
    blocks = [libc.malloc(size) for _ in range(3)]
    for block in blocks:
        ctypes.memset(block, 1, size)
    for block in blocks:
        libc.free(block)
def pages():
    step()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(3):
        step()
    print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
pages()
thread = threading.Thread(target=pages)
thread.start()
thread.join()
"""


def said(*arguments: str) -> list[str]:
    free = {name: value for name, value in os.environ.items() if not name.startswith(ALLOCATION)}
    ran = subprocess.run(
        [sys.executable, "-c", TAKING, *arguments], env=free, capture_output=True, text=True, check=True
    )
    return ran.stdout.split()


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="a setting of Linux's usual C library")
def test_blocks_that_are_freed_and_taken_again_are_not_taken_from_the_system_anew() -> None:
    plain = [int(pages) for pages in said()]
    done, *kept = said(allocator.__file__)
    assert done == "True" and all(10 * int(few) < many for few, many in zip(kept, plain, strict=True))


@pytest.mark.parametrize("name", ["MALLOC_ARENA_MAX", "GLIBC_TUNABLES", "LD_PRELOAD"])
def test_what_the_environment_says_is_left_alone(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise AssertionError("the C library was asked")

    monkeypatch.setenv(name, "")
    monkeypatch.setattr(allocator.ctypes, "CDLL", refused)
    assert not allocator.keep_memory()
