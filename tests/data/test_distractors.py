"""Distractors come from the study's own images, and never from the image that is explained."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

import proofmap as pm
from proofmap.core import streams
from proofmap.core.errors import InputError
from proofmap.core.inputs import Pictures, Rows
from proofmap.data import TensorData, distractors
from proofmap.data.distractors import Distractors, Pool, in_part, mark
from proofmap.fills.images import Images
from proofmap.results import score_tables
from proofmap.session import Session
from proofmap.study import Run, Study, run_study
from proofmap.study.manifest import Manifest
from proofmap.study.opened import open_study
from proofmap.study.run import preview
from tests.data.made_up import cifar_batch
from tests.sessions import bound
from tests.study.studies import facts, photos, toy_study
from tests.toys import conv_classifier, pixels

SIZE = 8
MASK = "learned-mask:steps=2,scale=2"


def inputs(channels: int = 3) -> Pictures:
    return Pictures(size=(SIZE, SIZE), mean=(0.0,) * channels, std=(1.0,) * channels)


def in_bytes(images: Tensor) -> Tensor:
    return (images * 255).round().to(torch.uint8)


def pool_of(fill: Images, f: pm.Classifier | None = None) -> Pool:
    """The pool that a fill draws from in a session of its own."""
    return fill.drawn_from(Session(f or conv_classifier(SIZE)))


def drawn(fill: Images, images: Tensor, times: int = 400) -> list[set[bytes]]:
    """Every background that each image was ever given, as bytes."""
    ready = bound(fill, conv_classifier(SIZE))
    seen: list[set[bytes]] = [set() for _ in images]
    for k in range(times):
        backgrounds = in_bytes(ready(images, streams.image_keys(images, k)))
        for own, background in zip(seen, backgrounds, strict=True):
            own.add(background.numpy().tobytes())
    return seen


def test_enough_own_images_are_the_whole_pool_and_each_meets_all_others_but_never_itself() -> None:
    images = pixels(18, SIZE)
    source = Distractors.from_images(images, inputs())
    assert source is not None and not source.samples
    every = [image.numpy().tobytes() for image in in_bytes(images)]
    for own, seen in zip(every, drawn(Images(source=source), images), strict=True):
        assert seen == set(every) - {own}


def test_an_image_that_is_in_a_pool_of_any_kind_is_passed_over_with_all_its_crops(tmp_path: Path) -> None:
    folder = photos(tmp_path, 3)
    images = pm.load_images(folder, conv_classifier(SIZE))
    fill = Images(source=folder, size=10)
    pool = pool_of(fill)
    ids = {picture.numpy().tobytes(): k % 3 for k, picture in enumerate(pool.values)}
    place = {mark: k for k, mark in enumerate(pool.marks.tolist())}
    own = [place[seen] for seen in mark(images, inputs()).tolist()]
    assert sorted(own) == [0, 1, 2]
    for k, seen in zip(own, drawn(fill, images), strict=True):
        assert {ids[one] for one in seen} == {0, 1, 2} - {k}
    (stranger,) = drawn(fill, pixels(1, SIZE))
    assert {ids[one] for one in stranger} == {0, 1, 2}


def test_few_images_in_colour_are_joined_by_sample_photographs_and_few_others_are_not() -> None:
    images = pixels(5, SIZE)
    source = Distractors.from_images(images, inputs())
    assert source is not None and len(source.images) == 5 and len(source.samples) == 16
    pool = pool_of(Images(source=source))
    assert pool.text == "5 of your own images and 16 sample photographs of the package"
    assert len(pool.values) == 12 * 21 and len(pool.marks) == 21  # every source equally often
    small = pool_of(Images(source=source, size=7))
    assert len(small.values) == 7
    assert small.text.startswith("5 of your own images and 2 sample photographs")
    assert len(pool_of(Images(source=source, size=3)).values) == 3
    gray = Distractors.from_images(images[:, :1], inputs(1))
    assert gray is not None and len(gray.images) == 5 and not gray.samples


def test_one_image_alone_has_sample_photographs_without_itself() -> None:
    f = conv_classifier(SIZE)
    source = Distractors.from_images(pixels(1, SIZE).expand(3, -1, -1, -1), f.inputs)  # three times the same
    assert source is not None and len(source.images) == 0 and len(source.samples) == 16
    rocket = pm.load_images("sample:rocket", f)
    source = Distractors.from_images(rocket, f.inputs)
    assert source is not None and len(source.samples) == 15 and "rocket" not in source.samples
    assert pool_of(Images(source=source), f).text == "15 sample photographs of the package"


def told(images: Tensor, net_inputs: Pictures) -> list[str]:
    """Which images masks were learned on and judged on."""
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(net_inputs.channels * SIZE * SIZE, 3))
    f = pm.Classifier(net, inputs=net_inputs)
    game = "soundness:fill=images(size=20),points=2,draws=2"
    found = pm.evaluate(f, images, methods=[f"{MASK},fill=images(size=20)"], labels="top2", metrics=[game])
    return [note for note in score_tables._score_notes(found) if note.startswith("distractors")]


@pytest.mark.parametrize("channels", [1, 3, 5])
def test_no_sample_photograph_is_put_behind_pictures_without_colour(channels: int) -> None:
    gray = pixels(6, SIZE)[:, :1].expand(-1, channels, -1, -1)
    alone = "20 pictures of noise, as there are no other images"
    assert told(gray[:1], inputs(channels)) == [
        f"distractors: learned on {alone}; judged on {alone}; no image is in both"
    ]
    (note,) = told(gray, inputs(channels))
    assert "of your own images" in note and "sample" not in note and "noise" not in note


def test_noise_is_the_same_for_a_seed_and_another_for_each_part() -> None:
    source = Distractors.from_images(pixels(1, SIZE)[:, :1], inputs(1))
    gray = pm.Classifier(torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 2)), inputs=inputs(1))

    def noise(**options: Any) -> Pool:
        return pool_of(Images(source=source, size=9, **options), gray)

    assert torch.equal(noise().values, noise().values)
    assert not torch.equal(noise().values, noise(seed=1).values)
    assert not common(noise(part="learn"), noise(part="judge"))
    assert pool_of(Images(size=3), gray).text.startswith("3 pictures of noise")
    named = pool_of(Images(source="samples", size=3), gray)
    assert named.text == "3 sample photographs of the package"  # as was asked for


def test_each_half_is_bounded_and_does_not_depend_on_the_order_of_few_images(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(distractors, "MOST", 64)
    many = pixels(300, 2)
    small = Pictures(size=(2, 2))
    source = Distractors.from_images(many, small)
    assert source is not None and len(source.images) < 300
    halves = [int(in_part(source.marks, part).sum()) for part in ("learn", "judge")]
    assert halves == [min(64, int(in_part(mark(many, small), part).sum())) for part in ("learn", "judge")]
    again = Distractors.from_images(pixels(20, SIZE).flip(0), inputs())
    first = Distractors.from_images(pixels(20, SIZE), inputs())
    assert again is not None and first is not None and torch.equal(again.images, first.images)


def test_series_and_rows_have_own_distractors_too() -> None:
    rows = Rows(columns=4, mean=(0.0,) * 4, std=(1.0,) * 4)
    net = torch.nn.Linear(4, 3)
    f = pm.Classifier(net, inputs=rows)
    values = torch.randn(9, 4, generator=torch.Generator().manual_seed(0))
    found = pm.evaluate(f, values, methods=[MASK], labels="top2")
    learned = int(in_part(mark(values, rows), "learn").sum())
    record = found.results[0].settings["fill"]
    assert (record["pool"], record["part"]) == (f"{learned} of your own rows", "learn")
    with pytest.raises(InputError, match="need several rows, or source = an array"):
        pm.evaluate(f, torch.randn(1, 4), methods=[MASK], labels="top2")


def test_marks_tell_images_apart_by_any_value_of_a_small_one_and_not_by_rounding() -> None:
    image = pixels(1, SIZE)
    changed = image.clone()
    changed[0, 1, 3, 4] = (changed[0, 1, 3, 4] + 0.5) % 1
    noisy = (image + 1e-4).clamp(0, 1)
    marks = [int(mark(one, inputs())) for one in (image, changed, noisy)]
    assert marks[0] == marks[2] != marks[1]


# ---- what is learned on, and what is judged on -----------------------------------------------------------------


def pools(study: Study) -> tuple[Pool, Pool]:
    """What the first method of a study draws from, and what its first metric draws from."""
    opened = open_study(study, threads=1)
    method, metric = next(iter(opened.methods.values())), next(iter(opened.metrics.values()))
    (game,) = metric.games()
    learned, judged = method.fill, game.fill  # type: ignore[attr-defined]
    return learned.drawn_from(opened.session), judged.drawn_from(opened.session.judging())


def common(one: Pool, other: Pool) -> set[int]:
    return set(one.marks.tolist()) & set(other.marks.tolist())


def over(fill: str) -> list[dict[str, object]]:
    return [{"metric": "completeness", "fill": fill, "points": 2, "draws": 2}]


@pytest.mark.parametrize(
    "learned, judged",
    [
        ("images", "images"),
        ("images", "images(seed=1)"),
        ("images(source={photos},size=9)", "images(source={photos},size=5,crop=none,seed=2)"),
        ("images(source={photos})", "images"),
        ("images(source=samples,size=20)", "images(source=samples,size=20)"),
    ],
)
def test_no_image_is_both_learned_on_and_judged_on(learned: str, judged: str, tmp_path: Path) -> None:
    learned, judged = (text.format(photos=tmp_path / "photos") for text in (learned, judged))
    study = toy_study(
        tmp_path, 24, methods=[f"learned-mask:steps=2,scale=2,fill={learned}"], metrics=over(judged)
    )
    first, second = pools(study)
    assert min(len(first.marks), len(second.marks)) >= 2 and not common(first, second)
    assert (first.part, second.part) == ("learn", "judge")
    chosen = pools(replace(study, metrics=over("images(part=learn)")))[1]
    assert common(first, chosen) or "samples" in learned  # else the test could not fail


def test_the_two_halves_of_own_images_are_all_of_them_and_each_is_about_half() -> None:
    images = pixels(400, SIZE)
    source = Distractors.from_images(images, inputs())
    first, second = (
        set(pool_of(Images(source=source, part=part, size=400)).marks.tolist()) for part in ("learn", "judge")
    )
    assert first | second == set(mark(images, inputs()).tolist()) and not first & second
    assert 160 < len(first) < 240


def test_the_maps_of_a_method_do_not_depend_on_the_metrics_beside_it() -> None:
    f, images = conv_classifier(SIZE), pixels(12, SIZE)
    alone, beside = (
        pm.evaluate(f, images, methods=[MASK], labels="top2", metrics=metrics, keep_maps=None)
        for metrics in (["roughness"], ["completeness:fill=images,points=2,draws=2"])
    )
    assert torch.equal(alone.results[0].maps, beside.results[0].maps)


def test_too_few_images_for_halves_are_all_drawn_from_and_the_result_is_marked() -> None:
    rows = Rows(columns=4, mean=(0.0,) * 4, std=(1.0,) * 4)
    f, images = pm.Classifier(torch.nn.Linear(4, 3), inputs=rows), torch.eye(4)[:3]
    game = "soundness:fill=images,points=2,draws=2"
    found = pm.evaluate(f, images, methods=[MASK], labels="top2", metrics=[game])
    (note,) = [note for note in score_tables._score_notes(found) if note.startswith("distractors")]
    all_of_them = "3 of your own rows, too few to learn on one half and judge on the other"
    assert note == (
        f"distractors: learned on {all_of_them}; judged on {all_of_them}; the same images can be in both"
    )


def test_a_curve_by_itself_is_judged_on_the_half_for_judging() -> None:
    f, images, pool = conv_classifier(SIZE), pixels(2, SIZE), pixels(24, SIZE, seed=5)
    maps, labels = torch.rand(2, 1, SIZE, SIZE), torch.tensor([[0], [1]])
    judged, learned = (Images(source=pool, crop="none", part=part) for part in ("judge", "learn"))
    areas = [
        pm.insertion(f, images, maps, labels, fill=fill, points=4, draws=2).auc
        for fill in (Images(source=pool, crop="none"), judged, learned)
    ]
    assert torch.equal(areas[0], areas[1]) and not torch.equal(areas[0], areas[2])


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
        assert "distractors: learned on 8 of your own images" in run.evaluation().table()


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
    found = preview(make_study(), tmp_path / "run", threads=1)
    assert found.distractors == "learned on 8 of your own images"
    both = preview(make_study(metrics=over("images")), tmp_path / "both", threads=1)
    assert both.distractors == (
        "learned on 8 of your own images; judged on 4 of your own images; no image is in both"
    )

    def refuse(*_: Any) -> None:
        raise AssertionError("no method needs distractors")

    monkeypatch.setattr("proofmap.study.opened.Distractors.from_dataset", refuse)
    run_study(make_study(methods=["gradient"]), tmp_path / "none", threads=1)
    assert Manifest.read(tmp_path / "none").distractors is None


# ---- pools of distractors ----


def pool(source: Any, shape: tuple[int, int, int] = (3, 8, 8), **options: Any) -> np.ndarray:
    inputs = Pictures(size=shape[1:], mean=(0.0,) * shape[0], std=(1.0,) * shape[0])
    if isinstance(source, list):
        source = np.stack([np.asarray(picture) for picture in source])
    made = Pool.build(source, inputs, **{"size": 4, "crop": "none", "seed": 0, **options}).values
    assert made.dtype == torch.uint8
    assert made.is_contiguous()
    assert tuple(made.shape[1:]) == shape
    return made.numpy()


def flat(*levels: int, size: tuple[int, int] = (8, 8)) -> list[Image.Image]:
    return [Image.new("RGB", (size[1], size[0]), (level,) * 3) for level in levels]


def place_coded(height: int = 200, width: int = 200) -> Image.Image:
    """Red tells how far right a pixel is, green how far down."""
    y, x = np.mgrid[0.5:height, 0.5:width]
    pixels = np.stack([x / width, y / height, 0 * x], axis=2) * 255
    return Image.fromarray(pixels.round().astype(np.uint8))


def test_without_cropping_each_picture_is_used_once_in_an_order_of_the_seed() -> None:
    levels = list(range(0, 200, 10))
    orders = [pool(flat(*levels), size=99, seed=seed)[:, 0, 0, 0].tolist() for seed in (0, 0, 1)]
    assert sorted(orders[0]) == levels
    assert orders[0] == orders[1] != orders[2]


def test_with_cropping_pictures_are_used_again_and_all_equally_often() -> None:
    made = pool(flat(10, 20, 30), size=12, crop="random")
    levels, counts = np.unique(made[:, 0, 0, 0], return_counts=True)
    assert (levels.tolist(), counts.tolist()) == ([10, 20, 30], [4, 4, 4])
    assert (made == made[:, :1, :1, :1]).all()  # a crop of one colour is that colour


def test_without_cropping_pictures_are_fitted_by_their_middle() -> None:
    (made,) = pool([place_coded(100, 300)], (3, 10, 10))
    assert made[0].mean() / 255 == pytest.approx(0.5, abs=0.02)
    assert made[0, 0, -1] / 255 - made[0, 0, 0] / 255 == pytest.approx(0.9 / 3, abs=0.03)  # the middle third
    assert made[1, -1, 0] / 255 - made[1, 0, 0] / 255 == pytest.approx(0.9, abs=0.03)  # the whole height


def test_crops_have_the_areas_shapes_places_and_flips_of_random_resized_crops() -> None:
    n, side = 400, 20
    made = pool([place_coded()], (3, side, side), size=n, crop="random").astype(float) / 255
    right, down = made[:, 0, side // 2], made[:, 1, :, side // 2]
    spread = side / (side - 1)  # from centres of the outermost pixels to the crop's edges
    width = np.abs(right[:, -1] - right[:, 0]) * spread
    height = (down[:, -1] - down[:, 0]) * spread
    area, aspect = width * height, width / height
    assert height.min() > 0
    assert 0.08 - 0.02 < area.min() < 0.08 + 0.04
    assert area.max() < 1 + 0.02
    assert np.quantile(area, [0.25, 0.5, 0.75]) == pytest.approx([0.31, 0.54, 0.77], abs=0.08)
    assert aspect.min() > 3 / 4 * 0.93
    assert aspect.max() < 4 / 3 * 1.07
    flipped = right[:, -1] < right[:, 0]
    assert flipped.mean() == pytest.approx(0.5, abs=0.1)
    left = np.minimum(right[:, 0], right[:, -1]) - width / side / 2
    free = (1 - width) > 0.2
    assert (left[free] / (1 - width[free])).mean() == pytest.approx(0.5, abs=0.06)
    assert left.min() > -0.02
    assert (left + width).max() < 1.02


@pytest.mark.parametrize(
    "pictures, pixel",
    [
        (np.full((2, 8, 8), 100, dtype=np.uint8), [100, 100, 100]),
        (np.full((2, 8, 8, 1), 100, dtype=np.uint8), [100, 100, 100]),
        (np.full((2, 1, 8, 8), 100, dtype=np.uint8), [100, 100, 100]),
        (np.full((2, 8, 8), 100 / 255), [100, 100, 100]),
        (np.full((1, 8, 8, 4), (10, 20, 30, 0), dtype=np.uint8), [10, 20, 30]),  # without its transparency
        ([Image.new("RGB", (8, 8), (255, 0, 0))], [round(0.299 * 255)]),  # one channel is the brightness
    ],
)
def test_pictures_get_the_channels_of_the_net(pictures: Any, pixel: list[int]) -> None:
    made = pool(pictures, (len(pixel), 8, 8))
    assert (made == np.array(pixel).reshape(-1, 1, 1)).all()


@pytest.mark.parametrize(
    "source, message",
    [
        (np.zeros((1, 8, 8, 3)) - 1, r"expected floats in \[0, 1\] or bytes"),
        (np.zeros((1, 8, 8, 7), dtype=np.uint8), r"got \(1, 8, 8, 7\)"),
        ((picture for picture in flat(1)), "images must be bytes"),
        (3, "images must be bytes"),
        ([], "no image was given"),
        (TensorData([[0.5]], kind="rows"), "distractors are pictures; tensors has 1 rows"),
    ],
)
def test_what_are_no_pictures_is_refused(source: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Pool.build(source, Pictures(size=(8, 8)), size=4, crop="none", seed=0)


def test_an_unreadable_distractor_is_named(tmp_path: Path) -> None:
    (tmp_path / "bad.png").write_bytes(b"no picture")
    with pytest.raises(InputError, match=r"bad\.png cannot be read"):
        pool(tmp_path)


def test_classifiers_of_other_channels_have_no_pictures() -> None:
    with pytest.raises(InputError, match="1 or 3 channels, the classifier takes 4; use fill='gray'"):
        pool(flat(1), (4, 8, 8))


def test_a_dataset_that_is_written_is_a_source(tmp_path: Path) -> None:
    pixels = cifar_batch(tmp_path / "data_batch_1", 5)
    made = pool(f"cifar10:{tmp_path}[train]", (3, 32, 32), size=9)
    found = {picture.transpose(1, 2, 0).tobytes() for picture in made}
    assert found == {picture.tobytes() for picture in pixels}
