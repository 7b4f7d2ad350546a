"""Running a study: the same numbers as judging by hand, only what is new, and failures that stay where they are."""

from __future__ import annotations

import functools
import gc
import math
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor, nn

from proofmap.classifier import Classifier
from proofmap.classifier.steadiness import FirstLook
from proofmap.core.errors import InputError
from proofmap.data import load_dataset
from proofmap.data.folders import image_folder
from proofmap.data.given import Subjects
from proofmap.data.photos import load_images
from proofmap.judging import evaluate
from proofmap.loop import Row
from proofmap.methods import METHODS as REGISTERED_METHODS
from proofmap.methods import Method, make_method
from proofmap.metrics import METRICS as REGISTERED_METRICS
from proofmap.metrics import Judged, Metric
from proofmap.session import Session
from proofmap.study import Run, Selection, Study, run_study, verify_run
from proofmap.study.manifest import Manifest
from proofmap.study.planning import Plan
from proofmap.study.store import Store, read_maps
from tests.data.made_up import save
from tests.sessions import judged_block
from tests.study.studies import METHODS, classifier_of, evaluation_of, facts, photos, toy_study, values
from tests.toys import MEAN, STD, Counted, PassCounter, conv_classifier, conv_net, counted_classifier, pixels


@pytest.fixture(autouse=True)
def threads_are_left_as_they_were() -> Iterator[None]:
    before, others = torch.get_num_threads(), {*threading.enumerate()}
    yield
    assert torch.get_num_threads() == before

    def left() -> list[str]:
        return [t.name for t in {*threading.enumerate()} - others if t.name.startswith("proofmap")]

    if left():
        gc.collect()
    assert left() == []


def pictures_of(study: Study, classifier: Classifier) -> Tensor:
    return load_images(str(study.data[0]), classifier)


# ---- the numbers ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("maps", ["none", "float16", "float32"])
def test_a_study_gives_what_judging_its_blocks_gives_bit_for_bit(maps: str, tmp_path: Path) -> None:
    study = toy_study(tmp_path, 5, maps=maps)
    run_study(study, tmp_path / "run")
    f = classifier_of(study)
    images = pictures_of(study, f)
    session, metrics = Session(f, seed=study.seed), study.named_metrics()
    with Run(tmp_path / "run") as run:
        found = run.evaluation()
        labels = found.labels
        assert torch.equal(labels, f.top(images, 3))
        for spec in METHODS:
            blocks = [
                judged_block(
                    session, make_method(spec), Subjects(images, labels)[k : k + 2], metrics, keep_maps=2
                )
                for k in (0, 2, 4)
            ]
            compare(found[spec], blocks)
            for k, block in enumerate(blocks):
                for j, expected in enumerate(block.maps):
                    check_maps(run, spec, f"{2 * k + j:02d}.png", expected, maps)


def compare(result: Any, blocks: list[Row]) -> None:
    for name, found in result.values.items():
        expected = torch.cat([block.values[name] for block in blocks])
        assert torch.equal(found.nan_to_num(9), expected.nan_to_num(9)), name
    for name, found in result.pairs.items():
        expected = torch.cat([block.pairs[name] for block in blocks])
        assert torch.equal(found.nan_to_num(9), expected.nan_to_num(9)), name
    for part in ("probabilities", "f", "auc", "error", "matrix"):
        expected = torch.cat([getattr(block.insertion, part) for block in blocks])
        assert torch.equal(getattr(result.insertion, part), expected), part
    assert torch.equal(result.insertion.counts, blocks[0].insertion.counts)


def check_maps(run: Run, method: str, image: str, expected: Tensor, kept: str) -> None:
    if kept == "none":
        with pytest.raises(InputError, match="were not kept"):
            run.maps_of(method, image)
        return
    stored = run.maps_of(method, image)
    assert stored.shape == expected.shape and stored.dtype == torch.float32
    if kept == "float32":
        assert torch.equal(stored, expected)
    else:
        largest = expected.abs().amax(dim=(1, 2), keepdim=True)
        assert bool(((stored - expected).abs() <= largest / 2048).all())


def test_a_study_agrees_with_evaluate(tmp_path: Path) -> None:
    """Labels differ in number from image to image, and all images are one block."""
    study = toy_study(tmp_path, 6, labels="p>=0.19", images_per_unit=6, metrics=())
    run_study(study, tmp_path / "run")
    f = classifier_of(study)
    names = [f"{k:02d}.png" for k in range(6)]
    expected = evaluate(f, pictures_of(study, f), methods=METHODS, labels="p>=0.19", names=names)
    counts = (expected.labels >= 0).sum(dim=1)
    assert counts.unique().numel() > 1, "all have the same number of labels; choose another bound"
    found = evaluation_of(tmp_path / "run", 6)
    assert found.image_names == expected.image_names and found.pictured == expected.pictured
    assert torch.equal(found.images, expected.images) and torch.equal(found.labels, expected.labels)
    torch.testing.assert_close(found.f, expected.f, equal_nan=True)
    for ours, theirs in zip(found.results, expected.results, strict=True):
        for part in ("name", "label_free", "settings"):
            assert getattr(ours, part) == getattr(theirs, part), part
        for score, other in zip(ours.scores, theirs.scores, strict=True):
            assert (score.name, score.n) == (other.name, other.n)
            assert (score.value, score.low, score.high) == pytest.approx(
                (other.value, other.low, other.high), nan_ok=True
            )
        torch.testing.assert_close([*ours.pairs.values()], [*theirs.pairs.values()], equal_nan=True)
        torch.testing.assert_close([*ours.values.values()], [*theirs.values.values()], equal_nan=True)
        torch.testing.assert_close(ours.maps, theirs.maps, rtol=1e-3, atol=1e-3 * theirs.maps.max())
        assert len(ours.rows) == int(counts.sum())
    assert found.table().splitlines()[:5] == expected.table().splitlines()[:5]


# ---- which pictures -------------------------------------------------------------------------------------------


def images_of(folder: Path) -> list[str]:
    with Run(folder) as run:
        return [image.name for image in run.images]


def test_a_random_choice_grows_without_changing(tmp_path: Path) -> None:
    study = toy_study(tmp_path, 12, methods=["random"], images=Selection(number=3, seed=5))
    assert run_study(study, tmp_path / "run").units == 2
    first, scores = images_of(tmp_path / "run"), values(tmp_path / "run")
    assert len(first) == 3 and first != sorted(first)
    more = replace(study, images=Selection(number=7, seed=5))
    outcome = run_study(more, tmp_path / "run")
    assert outcome.units == 2 and outcome.plan.images == 7
    assert (outcome.plan.blocks, outcome.plan.units, outcome.plan.done) == (4, 4, 2)
    assert images_of(tmp_path / "run")[:3] == first and len(images_of(tmp_path / "run")) == 7
    assert scores.items() <= values(tmp_path / "run").items()
    run_study(more, tmp_path / "fresh")
    assert images_of(tmp_path / "fresh") == images_of(tmp_path / "run")
    assert run_study(replace(study, images=Selection(seed=5)), tmp_path / "run").plan.images == 12
    assert run_study(study, tmp_path / "run").units == 0, "a smaller number takes nothing away"


def test_only_pictures_that_the_net_gets_right(tmp_path: Path) -> None:
    study = toy_study(tmp_path, 0, methods=["random"], images=Selection(correct=True))
    f = classifier_of(study)
    images = pixels(30, 8)
    top = f.top(images, 1).flatten().tolist()
    for k, image in enumerate(images):
        said = top[k] if k % 3 else (top[k] + 1) % 5
        save(
            tmp_path / "photos",
            f"{f.names[said]}/{k:02d}.png",
            (image.permute(1, 2, 0) * 255).round().byte().numpy(),
        )
    run_study(study, tmp_path / "run")
    assert sorted(name[-6:-4] for name in images_of(tmp_path / "run")) == [
        f"{k:02d}" for k in range(30) if k % 3
    ]
    with Run(tmp_path / "run") as run:
        assert {row.truth for row in run.images} == {top[k] for k in range(30) if k % 3}


def test_only_pictures_with_a_second_label(tmp_path: Path) -> None:
    study = toy_study(tmp_path, 12, methods=["random"])
    f = classifier_of(study)
    second = f.probabilities(pictures_of(study, f)).topk(2).values[:, 1]
    floor = float(second.sort().values[5:7].mean())  # between two values: rounding decides nothing
    run_study(replace(study, images=Selection(min_second_probability=floor)), tmp_path / "run")
    expected = [f"{k:02d}.png" for k, value in enumerate(second.tolist()) if value >= floor]
    assert images_of(tmp_path / "run") == expected and 0 < len(expected) < 12


# ---- only what is new -----------------------------------------------------------------------------------------


@pytest.fixture
def counted(tmp_path: Path) -> tuple[Study, Classifier, PassCounter]:
    """A study of four pictures and a live net that counts its passes."""
    classifier, tally = counted_classifier(conv_net(5))
    return toy_study(tmp_path, 4, model="toy"), classifier, tally


def test_only_what_is_new_is_computed(counted: tuple[Study, Classifier, PassCounter], tmp_path: Path) -> None:
    """A finished study makes no pass, and a new method the passes that it would make alone."""
    study, f, tally = counted
    first, both = replace(study, methods=("gradient",)), replace(study, methods=("gradient", "random"))
    run_study(first, tmp_path / "run", classifier=f)
    before = facts(tmp_path / "run")["per_image"]
    tally.reset()
    outcome = run_study(first, tmp_path / "run", classifier=f)
    assert (outcome.units, outcome.plan.done, outcome.plan.units, tally.images) == (0, 2, 2, 0)
    assert outcome.plan.cost is not None and outcome.plan.cost.passes == 0
    assert run_study(both, tmp_path / "run", classifier=f).units == 2
    assert set(before) < set(facts(tmp_path / "run")["per_image"])
    added = tally.images
    run_study(replace(study, methods=("random",)), tmp_path / "alone", classifier=f)
    alone = tally.images - added - 9  # the survey of four pictures, and the sanity of these and gray
    assert 0 < added == alone


@functools.cache  # what a cache holds is no part of the code that reads it
def notes() -> SimpleNamespace:
    return SimpleNamespace(made=[], troubles=[], seen=[])


class Telltale(Method):
    """The gradient, with a note of every block it was made for, and trouble where a test wants it."""

    name: ClassVar[str] = "telltale"

    def maps(self, session: Session, images: Tensor, labels: Tensor) -> Tensor:
        notes().made.append(len(images))
        for trouble in notes().troubles:
            trouble(images)
        return make_method("gradient").maps(session, images, labels.clamp_min(0))


@pytest.fixture
def telltale(monkeypatch: pytest.MonkeyPatch) -> type[Telltale]:
    monkeypatch.setattr(notes(), "made", [])
    monkeypatch.setattr(notes(), "troubles", [])
    return Telltale


def test_exact_maps_serve_a_new_metric_without_being_made_again(
    telltale: type[Telltale], tmp_path: Path
) -> None:
    study = toy_study(tmp_path, 5, methods=[telltale()], maps="float32", metrics=["insertion"])
    run_study(study, tmp_path / "run")
    assert notes().made == [2, 2, 1]
    run_study(replace(study, metrics=("deletion",)), tmp_path / "run")
    assert notes().made == [2, 2, 1]
    run_study(replace(study, metrics=("insertion", "deletion")), tmp_path / "both")
    assert values(tmp_path / "run") == values(tmp_path / "both")
    halves = replace(study, maps="float16")
    run_study(halves, tmp_path / "halves")
    notes().made.clear()
    run_study(replace(halves, metrics=("deletion",)), tmp_path / "halves")
    assert notes().made == [2, 2, 1], "rounded maps are made again, for the same numbers"
    assert values(tmp_path / "halves") == values(tmp_path / "both")


def test_stored_maps_are_given_to_the_images_they_were_made_for(
    telltale: type[Telltale], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first picture of a block vanishes from the dataset before a new metric is computed from stored maps."""
    study = toy_study(
        tmp_path, 4, images_per_unit=4, methods=[telltale()], maps="float32", metrics=["insertion"]
    )
    run_study(study, tmp_path / "run")
    dataset = image_folder(tmp_path / "photos")
    monkeypatch.setattr(dataset, "read", _failing(dataset.read, {0}))
    outcome = run_study(replace(study, metrics=("deletion",)), tmp_path / "run", dataset=dataset)
    assert outcome.failed == 1 and notes().made == [4]
    run_study(replace(study, metrics=("deletion",)), tmp_path / "fresh")
    fresh, found = values(tmp_path / "fresh"), values(tmp_path / "run")
    for image in ("01.png", "02.png", "03.png"):
        assert found["telltale", "deletion", image] == pytest.approx(fresh["telltale", "deletion", image])
    assert ("telltale", "deletion", "00.png") not in found


def _failing(read: Callable[[int], Any], where: set[int]) -> Callable[[int], Any]:
    def reading(i: int) -> Any:
        if i in where:
            raise InputError("the disk has lost this picture")
        return read(i)

    return reading


def test_a_run_has_curves_of_one_kind_the_first(tmp_path: Path) -> None:
    coarse = {"metric": "insertion", "points": 8, "name": "coarse"}
    study = toy_study(tmp_path, 4, methods=["gradient"], metrics=["insertion"])
    run_study(study, tmp_path / "run")
    run_study(replace(study, methods=("random",), metrics=(coarse,)), tmp_path / "run")
    photos(tmp_path / "photos", 2, first=4)
    run_study(replace(study, methods=("gradient",), metrics=(coarse,)), tmp_path / "run")
    found = evaluation_of(tmp_path / "run")
    gradient, random = found["gradient"], found["random"]
    assert gradient.insertion.counts.numel() == random.insertion.counts.numel() > 9, "those of the first unit"
    assert int(gradient.insertion.auc[:, 0].isfinite().sum()) == 4
    assert int(random.insertion.auc[:, 0].isfinite().sum()) == 0
    assert bool(gradient.insertion.f.isfinite().all()), "f is known for every image"
    assert {s.name: s.n for s in gradient.scores} == {"insertion": 4, "coarse": 6}
    assert {s.name: s.n for s in random.scores} == {"insertion": 0, "coarse": 4}
    assert verify_run(tmp_path / "run") == []


# ---- maps on disk ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("positions", [(7,), (4, 5), (2, 3, 4)])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_maps_of_any_size_and_number_of_position_axes_are_read_as_they_were_written(
    dtype: torch.dtype, positions: tuple[int, ...], tmp_path: Path
) -> None:
    """Each map has a scale of its own: small values are kept beside a map of large ones, of the same image."""
    whole = torch.arange(math.prod(positions)).view(positions) - 3.0
    scales = torch.tensor([1.0, 0.0, 1e-9, 1e9, 1e-30, 1e37]).view(3, 2, *[1] * len(positions))
    maps = whole * scales  # three inputs, two labels
    with Store(tmp_path, write=True) as store:
        file = store.write_maps(maps, ["a", "b", "c"], dtype)
    found = read_maps(tmp_path, file, ["c", "b", "a", "d"])
    assert sorted(found) == ["a", "b", "c"]
    assert torch.equal(found["a"], maps[0]), "zeros and small whole numbers are exact in half precision"
    for name, expected in zip("bc", maps[1:], strict=True):
        torch.testing.assert_close(found[name], expected, rtol=2**-10, atol=0)


# ---- failures -------------------------------------------------------------------------------------------------


def hard(images: Tensor, telltale_pixel: float) -> Tensor:
    return (images[:, 0, 0, 0] - telltale_pixel).abs() < 1e-6


def test_a_failure_belongs_to_the_image_that_causes_it(
    telltale: type[Telltale], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = toy_study(tmp_path, 10, images_per_unit=5, methods=[telltale(), "random"])
    f = classifier_of(study)
    mark = float(pictures_of(study, f)[2, 0, 0, 0])

    def refuse(images: Tensor) -> None:
        if bool(hard(images, mark).any()):
            raise RuntimeError("no map\nfor this one")

    with monkeypatch.context() as patch:
        patch.setattr(notes(), "troubles", [refuse])
        outcome = run_study(study, tmp_path / "run")
    assert (outcome.failed, outcome.unreadable, outcome.units, outcome.complete) == (1, 0, 4, False)
    with Run(tmp_path / "run") as run:
        (failure,) = run.failures()
        assert (failure.image, failure.method) == ("02.png", "telltale")
        assert failure.reason == "RuntimeError: no map for this one"
        result = run.evaluation(10)
        assert {s.name: s.n for s in result["telltale"].scores}["insertion"] == 9
        assert {s.name: s.n for s in result["random"].scores}["insertion"] == 10
        assert 2 not in result.pictured and len(result.pictured) == 9
        assert "telltale failed on 1 of 10 images, first with: RuntimeError" in run.table()
    assert verify_run(tmp_path / "run") == []
    run_study(study, tmp_path / "well")
    well, found = values(tmp_path / "well"), values(tmp_path / "run")
    assert set(well) - set(found) == {key for key in well if key[0] == "telltale" and key[2] == "02.png"}
    for key, value in found.items():
        assert value == pytest.approx(well[key], rel=1e-5, nan_ok=True)
    with Run(tmp_path / "run") as run, Run(tmp_path / "well") as other:
        for name in ("00.png", "01.png", "03.png", "04.png"):
            torch.testing.assert_close(run.maps_of("telltale", name), other.maps_of("telltale", name))

    assert run_study(study, tmp_path / "run").units == 0, "what failed is not tried again by itself"
    again = run_study(study, tmp_path / "run", retry=True)
    assert (again.units, again.failed, again.complete) == (1, 0, True)
    assert values(tmp_path / "run") == well and verify_run(tmp_path / "run") == []


def test_a_failing_metric_does_not_spoil_the_maps_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files of one unit with fewer images and of a later one with all are two files."""
    study = toy_study(tmp_path, 3, images_per_unit=3, methods=["gradient"])
    mark = float(pictures_of(study, classifier_of(study))[0, 0, 0, 0])
    run_study(replace(study, metrics=(Picky(mark=mark),)), tmp_path / "run")
    run_study(replace(study, metrics=("insertion",)), tmp_path / "run")
    assert run_study(replace(study, metrics=("insertion",)), tmp_path / "run").units == 0
    assert verify_run(tmp_path / "run") == []
    run_study(replace(study, metrics=("insertion",)), tmp_path / "well")
    with Run(tmp_path / "run") as run, Run(tmp_path / "well") as well:
        assert [(f.method, f.image) for f in run.failures()] == [("gradient", "00.png")]
        for name in ("00.png", "01.png", "02.png"):
            assert torch.equal(run.maps_of("gradient", name), well.maps_of("gradient", name))


class MovedBy(Metric):
    """How much the first map changes when the image is darker: it runs the method again."""

    name: ClassVar[str] = "moved-by"
    higher_is_better: ClassVar[bool] = False

    def values(self, judged: Judged) -> Tensor:
        again = judged.maps_again(judged.images / 2)
        return (again - judged.maps)[:, 0].flatten(1).abs().sum(dim=1)


@pytest.mark.parametrize("method", ["gradient-x-input", "random"])
def test_a_metric_that_runs_the_method_again_does_so_over_stored_maps_too(
    method: str, tmp_path: Path
) -> None:
    study = toy_study(tmp_path, 3, methods=[method], metrics=["insertion"], maps="float32")
    run_study(study, tmp_path / "run")
    both = replace(study, metrics=("insertion", MovedBy()))
    run_study(both, tmp_path / "run")  # the maps are there
    run_study(both, tmp_path / "fresh")  # and here they are made
    found, expected = (evaluation_of(tmp_path / r).results[0].values["moved-by"] for r in ("run", "fresh"))
    assert torch.equal(found, expected) and bool((found > 0).all())


class Picky(Metric):
    """The mean of the first map; raises where the first pixel of an image is the mark."""

    name: ClassVar[str] = "picky"
    higher_is_better: ClassVar[bool] = False
    mark: float = -1.0

    def values(self, judged: Judged) -> Tensor:
        if bool(hard(judged.images, self.mark).any()):
            raise ValueError("not this one")
        return judged.maps[:, 0].mean(dim=(1, 2))


def test_a_method_that_always_fails_is_given_up_and_the_others_finish(tmp_path: Path) -> None:
    calls = []

    def broken(classifier: Classifier, images: Tensor, labels: Tensor) -> Tensor:
        calls.append(len(images))
        raise RuntimeError("never")

    study = toy_study(tmp_path, 12, images_per_unit=1, methods=[broken, "random"])
    outcome = run_study(study, tmp_path / "run")
    assert outcome.failed == 12 and outcome.units == 12
    assert 8 <= len(calls) <= 10, "eight units in a row, and those already under way"
    with Run(tmp_path / "run") as run:
        assert [r.name for r in run.evaluation().results] == ["random"]
        assert {f.reason for f in run.failures()} == {"RuntimeError: never"}


@pytest.mark.parametrize(
    "fails, failed",
    [(lambda calls: calls <= 7, 7), (lambda calls: calls % 2, 6)],
    ids=["a few in a row", "now and then"],
)
def test_a_few_failures_are_no_reason_to_give_up_where_each_image_is_a_unit(
    fails: Callable[[int], bool],
    failed: int,
    telltale: type[Telltale],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def trouble(images: Tensor) -> None:
        if fails(len(notes().made)):
            raise RuntimeError("bad luck")

    monkeypatch.setattr(notes(), "troubles", [trouble])
    outcome = run_study(toy_study(tmp_path, 12, images_per_unit=1, methods=[telltale()]), tmp_path / "run")
    assert (outcome.failed, outcome.units, outcome.given_up) == (failed, 12 - failed, {})
    assert notes().made == [1] * 12


def test_maps_with_nan_are_failures_that_name_the_method(tmp_path: Path) -> None:
    def hollow(classifier: Classifier, images: Tensor, labels: Tensor) -> Tensor:
        maps = images.mean(dim=1, keepdim=True).expand(-1, labels.shape[1], -1, -1).clone()
        maps[images[:, 0, 0, 0] > 0.5] = math.nan
        return maps

    study = toy_study(tmp_path, 6, images_per_unit=6, methods=[{"method": hollow, "name": "hollow"}])
    expected = (pictures_of(study, classifier_of(study))[:, 0, 0, 0] > 0.5).tolist()
    assert 0 < sum(expected) < 6
    outcome = run_study(study, tmp_path / "run")
    assert outcome.failed == sum(expected)
    with Run(tmp_path / "run") as run:
        assert [f.image for f in run.failures()] == [f"{k:02d}.png" for k in range(6) if expected[k]]
        assert all("NaN or infinity" in f.reason for f in run.failures())


def test_pictures_that_vanish_after_the_survey_are_failures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = toy_study(tmp_path, 6, images_per_unit=2, methods=["gradient"])
    dataset = load_dataset(str(tmp_path / "photos"))
    read, digest = dataset.read, dataset.digest

    def lose(plan: Plan) -> None:  # called between survey and work
        monkeypatch.setattr(dataset, "read", _failing(read, {1}))
        monkeypatch.setattr(dataset, "digest", lambda i: "other" if i in (2, 3) else digest(i))

    outcome = run_study(study, tmp_path / "run", dataset=dataset, on_plan=lose)
    assert (outcome.failed, outcome.unreadable, outcome.units) == (3, 0, 2)
    with Run(tmp_path / "run") as run:
        assert {f.image: f.reason for f in run.failures()} == {
            "01.png": "the disk has lost this picture",
            "02.png": "it is not the one that was surveyed",
            "03.png": "it is not the one that was surveyed",
        }
    monkeypatch.undo()
    assert run_study(study, tmp_path / "run", retry=True).complete


# ---- what decides the last bits -------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:the run keeps the")
def test_a_run_keeps_the_threads_and_batches_it_began_with(tmp_path: Path) -> None:
    before = torch.get_num_threads()
    seen = notes().seen
    seen.clear()

    def looking(classifier: Classifier, images: Tensor, labels: Tensor) -> Tensor:
        notes().seen.append((torch.get_num_threads(), [batch.size for batch in classifier.frozen().batches]))
        return images[:, :1].expand(-1, labels.shape[1], -1, -1)

    study = toy_study(tmp_path, 2, methods=[looking])
    run_study(study, tmp_path / "run", threads=2, batch_size=7)
    assert torch.get_num_threads() == before
    run_study(replace(study, methods=(looking, {"method": looking, "name": "again"})), tmp_path / "run")
    run_study(
        replace(study, methods=({"method": looking, "name": "third"},)),
        tmp_path / "run",
        threads=1,
        batch_size=3,
    )
    assert len(seen) >= 3 and all(each == (2, [7, 7]) for each in seen), "at least one call for each method"
    manifest = Manifest.read(tmp_path / "run")
    assert (manifest.threads, manifest.batches) == (2, (7, 7))


class Small(nn.Module):
    """A net on a device with room for so many images at once."""

    def __init__(self, room: int) -> None:
        super().__init__()
        self.net, self.room = conv_net(5), room

    def forward(self, x: Tensor) -> Tensor:
        if len(x) > self.room:
            raise torch.OutOfMemoryError("no room")
        out: Tensor = self.net(x)
        return out


def test_a_unit_goes_on_in_smaller_batches_when_memory_runs_out(tmp_path: Path) -> None:
    study = toy_study(tmp_path, 4, methods=["gradient"])
    roomy, small = (Classifier(Small(n), size=8, mean=MEAN, std=STD, batch_size=64) for n in (64, 6))
    run_study(study, tmp_path / "roomy", classifier=roomy)
    with pytest.warns(UserWarning, match="continuing with batches of"):
        outcome = run_study(study, tmp_path / "run", classifier=small)
    assert (outcome.failed, outcome.units) == (0, 2)
    expected = values(tmp_path / "roomy")
    assert values(tmp_path / "run") == pytest.approx(expected, rel=1e-4)
    manifest = Manifest.read(tmp_path / "run")
    assert 1 <= manifest.batches[0] <= 6, "a resumed run starts from what fitted"
    small.fix_batches(64, 64)
    photos(tmp_path / "photos", 1, first=4)
    assert run_study(study, tmp_path / "run", classifier=small).units == 1, "and without a warning"


def test_an_image_that_fits_in_no_batch_fails_alone(tmp_path: Path) -> None:
    study = toy_study(tmp_path, 4, images_per_unit=4, methods=["gradient"])
    mark = float(pictures_of(study, classifier_of(study))[1, 0, 0, 0])

    def glutton(classifier: Classifier, images: Tensor, labels: Tensor) -> Tensor:
        if bool(hard(images, mark).any()):
            raise torch.OutOfMemoryError("no room for this one")
        return images[:, :1].expand(-1, labels.shape[1], -1, -1)

    outcome = run_study(replace(study, methods=(glutton,)), tmp_path / "run")
    assert (outcome.failed, outcome.units) == (1, 1)
    assert facts(tmp_path / "run")["failures"][0][1:] == (
        "01.png",
        "OutOfMemoryError: no room for this one",
    )


def test_the_manifest_says_what_the_numbers_come_from(tmp_path: Path) -> None:
    study = toy_study(tmp_path, 2)
    run_study(study, tmp_path / "run", command="proofmap evaluate study.toml")
    run_study(study, tmp_path / "run", command="proofmap evaluate --again")
    manifest = Manifest.read(tmp_path / "run")
    (here,) = manifest.environments
    assert here["torch"] == torch.__version__ and here["device"] == "cpu"
    assert manifest.commands == ("proofmap evaluate study.toml", "proofmap evaluate --again")
    assert manifest.study["model"] == study.model and manifest.identity["seed"] == 0
    run_study(study, tmp_path / "live", classifier=conv_classifier(8, 5))
    assert Manifest.read(tmp_path / "live").study["model"] is None, "a net of this process has no address"


# ---- plug-ins -------------------------------------------------------------------------------------------------


def test_methods_and_metrics_of_other_packages_need_no_place_in_the_store(
    tmp_path: Path, telltale: type[Telltale]
) -> None:
    REGISTERED_METHODS.register(telltale)
    REGISTERED_METRICS.register(Picky)
    try:
        study = toy_study(
            tmp_path, 3, methods=["telltale"], metrics=["picky:mark=-2", "insertion"], maps="float32"
        )
        assert run_study(study, tmp_path / "run").complete
        with Run(tmp_path / "run") as run:
            result = run.evaluation(3)["telltale"]
            score = result.score("picky")
            assert not score.higher_is_better and score.settings["mark"] == -2
            torch.testing.assert_close(result.values["picky"], result.maps[:, 0].mean(dim=(1, 2)))
    finally:
        _forget(REGISTERED_METHODS, "telltale")
        _forget(REGISTERED_METRICS, "picky")
    with Run(tmp_path / "run") as run:
        assert "picky ↓" in run.table(), "a run is read without the packages that made it"


def _forget(registry: Any, name: str) -> None:
    for holder in vars(registry).values():
        if isinstance(holder, dict):
            holder.pop(name, None)


def test_a_net_that_counts_is_counted_right(
    counted: tuple[Study, Classifier, PassCounter], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The passes of a unit are told by the net's own count."""
    monkeypatch.setattr(
        FirstLook, "difference_between_batches", lambda *_: 0.0
    )  # a look at the net, beside the work
    study, f, tally = counted
    assert isinstance(f.net, nn.Module) and any(isinstance(m, Counted) for m in f.net.modules())
    f.frozen()
    tally.reset()
    outcome = run_study(replace(study, methods=("gradient",), metrics=()), tmp_path / "run", classifier=f)
    with Store(tmp_path / "run") as store:
        ((passes,),) = store.rows("SELECT sum(passes) FROM units")
    assert outcome.plan.cost is not None
    assert abs(outcome.plan.cost.passes - passes) <= 0.05 * passes
    beside = 4 + 4 + 1  # the survey, and the sanity of four pictures and gray
    assert 0 <= tally.images - beside - passes <= 4 * 4, "beside f(x) of each image, all passes are told"
