"""Distractors come from the study's own images, and never from the image that is explained."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import proofmap as pm
from proofmap.core import streams
from proofmap.core.errors import InputError
from proofmap.core.inputs import Pictures, Rows
from proofmap.data import distractors
from proofmap.data.distractors import from_images
from proofmap.fills.images import Images, pools_in
from proofmap.results import tables
from proofmap.study import Run, Study, run_study
from proofmap.study.manifest import Manifest
from proofmap.study.preview import preview
from proofmap.study.setup import Setup
from tests.study.studies import facts, photos, toy_study
from tests.toys import conv_classifier, pixels

SIZE = 8
MASK = "learned-mask:steps=2,scale=2"


def inputs(channels: int = 3) -> Pictures:
    return Pictures(size=(SIZE, SIZE), mean=(0.0,) * channels, std=(1.0,) * channels)


def in_bytes(images: Tensor) -> Tensor:
    return (images * 255).round().to(torch.uint8)


def drawn(fill: Images, images: Tensor, times: int = 400) -> list[set[bytes]]:
    """Every background that each image was ever given, as bytes."""
    ready = fill.prepare(conv_classifier(SIZE))
    seen: list[set[bytes]] = [set() for _ in images]
    for k in range(times):
        backgrounds = in_bytes(ready(images, streams.image_keys(images, k)))
        for own, background in zip(seen, backgrounds, strict=True):
            own.add(background.numpy().tobytes())
    return seen


def test_enough_own_images_are_the_whole_pool_and_each_meets_all_others_but_never_itself() -> None:
    images = pixels(9, SIZE)
    source = from_images(images, inputs())
    assert source is not None and not source.samples
    every = [image.numpy().tobytes() for image in in_bytes(images)]
    for own, seen in zip(every, drawn(Images(source=source), images), strict=True):
        assert seen == set(every) - {own}


def test_an_image_that_is_in_a_pool_of_any_kind_is_passed_over_with_all_its_crops(tmp_path: Path) -> None:
    folder = photos(tmp_path, 3)
    images = pm.load_images(folder, conv_classifier(SIZE))
    fill = Images(source=folder, size=10)
    ready = fill.prepare(conv_classifier(SIZE))
    ids = {picture.numpy().tobytes(): k % 3 for k, picture in enumerate(ready.pool)}
    place = {mark: k for k, mark in enumerate(ready.marks.tolist())}
    own = [place[mark] for mark in streams.content_marks(images, 255).tolist()]
    assert sorted(own) == [0, 1, 2]
    for k, seen in zip(own, drawn(fill, images), strict=True):
        assert {ids[one] for one in seen} == {0, 1, 2} - {k}
    (stranger,) = drawn(fill, pixels(1, SIZE))
    assert {ids[one] for one in stranger} == {0, 1, 2}


def test_few_images_in_colour_are_joined_by_sample_photographs_and_few_others_are_not() -> None:
    images = pixels(5, SIZE)
    source = from_images(images, inputs())
    assert source is not None and len(source.images) == 5 and len(source.samples) == 16
    ready = Images(source=source).prepare(conv_classifier(SIZE))
    assert ready.told == "5 of your own images and 16 sample photographs of the package"
    assert len(ready.pool) == 12 * 21 and len(ready.marks) == 21  # every source equally often
    small = Images(source=source, size=7).prepare(conv_classifier(SIZE))
    assert len(small.pool) == 7 and small.told.startswith("5 of your own images and 2 sample photographs")
    assert len(Images(source=source, size=3).prepare(conv_classifier(SIZE)).pool) == 3
    gray = from_images(images[:, :1], inputs(1))
    assert gray is not None and len(gray.images) == 5 and not gray.samples


def test_one_image_alone_has_sample_photographs_without_itself() -> None:
    f = conv_classifier(SIZE)
    source = from_images(pixels(1, SIZE).expand(3, -1, -1, -1), f.inputs)  # three times the same
    assert source is not None and len(source.images) == 0 and len(source.samples) == 16
    rocket = pm.load_images("sample:rocket", f)
    source = from_images(rocket, f.inputs)
    assert source is not None and len(source.samples) == 15 and "rocket" not in source.samples
    assert Images(source=source).prepare(f).told == "15 sample photographs of the package"


def test_the_pool_is_bounded_and_does_not_depend_on_the_order_of_few_images() -> None:
    many = pixels(300, 2)
    small = Pictures(size=(2, 2))
    source = from_images(many, small)
    assert source is not None and len(source.images) == 256
    again = from_images(pixels(20, SIZE).flip(0), inputs())
    first = from_images(pixels(20, SIZE), inputs())
    assert again is not None and first is not None and torch.equal(again.images, first.images)


def test_series_and_rows_have_own_distractors_too() -> None:
    rows = Rows(columns=4, mean=(0.0,) * 4, std=(1.0,) * 4)
    net = torch.nn.Linear(4, 3)
    f = pm.Classifier(net, inputs=rows)
    found = pm.evaluate(f, torch.randn(9, 4), methods=[MASK], labels="top2")
    assert pools_in(found.results[0].settings) == ["9 of your own rows"]
    with pytest.raises(InputError, match="need several rows, or source = an array"):
        pm.evaluate(f, torch.randn(1, 4), methods=[MASK], labels="top2")


def test_a_method_that_is_called_by_itself_follows_the_same_rule() -> None:
    f, images = conv_classifier(SIZE), pixels(9, SIZE)
    found = pm.evaluate(f, images, methods=[MASK], labels="top2", keep_maps=None)
    assert torch.equal(pm.make_method(MASK)(f, images, found.labels), found.results[0].maps)


def test_marks_tell_images_apart_by_any_value_of_a_small_one_and_not_by_rounding() -> None:
    image = pixels(1, SIZE)
    changed = image.clone()
    changed[0, 1, 3, 4] = (changed[0, 1, 3, 4] + 0.5) % 1
    noisy = (image + 1e-4).clamp(0, 1)
    marks = [int(streams.content_marks(one, 255)) for one in (image, changed, noisy)]
    assert marks[0] == marks[2] != marks[1]


def test_python_says_which_distractors_were_used_for_maps_and_for_the_game() -> None:
    f = conv_classifier(SIZE)
    game = pm.make_metric("soundness:fill=images,points=2,draws=2")
    found = pm.evaluate(f, pixels(9, SIZE), methods=["gradient"], labels="top2", metrics=[game])
    assert "distractors: 9 of your own images" in tables.score_notes(found)
    both = pm.evaluate(
        f, pixels(9, SIZE), methods=[MASK, f"{MASK},fill=images(source=samples)"], labels="top2"
    )
    (note,) = [note for note in tables.score_notes(both) if note.startswith("distractors")]
    assert "9 of your own images (learned-mask" in note and "16 sample photographs of the package (" in note


# ---- studies --------------------------------------------------------------------------------------------------


@pytest.fixture
def make_study(tmp_path: Path) -> Callable[..., Study]:
    return lambda **changes: toy_study(tmp_path, 12, **{"methods": [MASK, "gradient"], **changes})


def number(study: Study, n: int) -> Study:
    return replace(study, images=replace(study.images, number=n))


def test_a_study_keeps_its_pool_when_it_grows_and_when_files_are_added(
    make_study: Callable[..., Study], tmp_path: Path
) -> None:
    study = make_study()
    run_study(number(study, 4), tmp_path / "grown", threads=1)
    pinned = Manifest.read(tmp_path / "grown").distractors
    assert pinned is not None and len(pinned["own"]) == 12  # also those that are not explained
    run_study(number(study, 8), tmp_path / "grown", threads=1)
    run_study(number(study, 8), tmp_path / "whole", threads=1)
    grown, whole = facts(tmp_path / "grown"), facts(tmp_path / "whole")
    assert grown["per_label"] == whole["per_label"] and grown["maps"] == whole["maps"]
    photos(tmp_path / "photos", 3, first=12)
    run_study(number(study, 9), tmp_path / "grown", threads=1)
    assert Manifest.read(tmp_path / "grown").distractors == pinned
    with Run(tmp_path / "grown") as run:
        assert "distractors: 12 of your own images" in run.evaluation().table()


def test_a_distractor_that_changed_is_refused_by_name(
    make_study: Callable[..., Study], tmp_path: Path
) -> None:
    study = number(make_study(), 3)
    run_study(study, tmp_path / "run", threads=1)
    with Run(tmp_path / "run") as run:
        explained = set(run.evaluation().image_names)
    other = next(path for path in sorted((tmp_path / "photos").iterdir()) if path.name not in explained)
    other.unlink()
    with pytest.raises(InputError, match=f"{other.name} is a distractor of the run, but it is gone"):
        run_study(number(study, 4), tmp_path / "run", threads=1)


def test_the_dry_run_says_which_and_nothing_is_read_where_none_are_needed(
    make_study: Callable[..., Study], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = preview(Setup(study=make_study(), threads=1), tmp_path / "run")
    assert found.distractors == ("12 of your own images",)

    def refuse(*_: Any) -> None:
        raise AssertionError("no method needs distractors")

    monkeypatch.setattr("proofmap.study.setup.from_dataset", refuse)
    run_study(make_study(methods=["gradient"]), tmp_path / "none", threads=1)
    assert Manifest.read(tmp_path / "none").distractors is None


def test_a_study_and_python_give_the_same_maps(make_study: Callable[..., Study], tmp_path: Path) -> None:
    study = make_study(maps="float32", block=12)
    run_study(study, tmp_path / "run", threads=1, batch_size=64)
    with Run(tmp_path / "run") as run:
        stored = run.evaluation()
    f = pm.load_classifier(study.model)
    images = pm.load_images(tmp_path / "photos", f)
    found = pm.evaluate(f, images, methods=[MASK], labels="top3")
    mine, theirs = found.results[0].values["soundness"], stored.results[0].values["soundness"]
    np.testing.assert_array_equal(mine.numpy(), theirs.numpy())


def test_the_pool_of_sample_photographs_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    distractors._sample_pool.cache_clear()
    made, build = list[object](), distractors.build_pool
    monkeypatch.setattr(distractors, "build_pool", lambda *a, **k: made.append(a) or build(*a, **k))
    own = from_images(pixels(1, (SIZE, SIZE)), inputs())
    assert own is not None
    first, again = (own.pool(inputs(), size=4, crop="random", seed=0) for _ in range(2))
    other = own.pool(inputs(), size=4, crop="random", seed=1)
    assert len(made) == 2 and first is again and not torch.equal(first.pictures, other.pictures)
