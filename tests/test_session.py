"""A session keeps what was found for its net, and nothing of one call reaches another."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

import proofmap as pm
from proofmap.fills import Images
from proofmap.methods import make_method
from proofmap.methods.controls import Inverse, TopLabel
from proofmap.metrics import Judged
from proofmap.session import Session
from tests.toys import TEXT, classifier_of, conv_classifier, conv_net, normal, pixels, values

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
