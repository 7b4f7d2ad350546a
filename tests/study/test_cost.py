"""How long work will take: passes that are really made, times a rate that is really measured; and a demo that fits."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

import proofmap as pm
from proofmap import Classifier, cli
from proofmap.classifier.steadiness import FirstLook
from proofmap.cli import demo
from proofmap.cli.evaluate import preview_text
from proofmap.models import registry
from proofmap.session import Session
from proofmap.study import Run, Study, run_study
from proofmap.study import planning as cost
from proofmap.study.manifest import Manifest
from proofmap.study.planning import (
    ENOUGH,
    GRADIENT,
    LONGEST,
    PER_PASS,
    RATES,
    SECONDS,
    UNKNOWN,
    Cost,
    Expected,
    Plan,
    Speed,
    Unit,
    expected_cost,
    images_per_unit,
    measure_speed,
    multiply_adds,
    planned_images,
)
from proofmap.study.run import preview
from proofmap.study.unit import UnitResult, Worker
from tests.command import run
from tests.command import run as command
from tests.docs.pages import tiny_model, write_photos
from tests.study.studies import facts, toy_study
from tests.toys import conv_net, counted_classifier, pixels

METHODS = ("learned-mask:steps=3,fill=gray", "top-label:learned-mask:steps=3,fill=gray", "gradient", "random")


def test_the_expected_passes_are_those_that_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        FirstLook, "difference_between_batches", lambda *_: 0.0
    )  # a look at the net, beside the work
    f, tally = counted_classifier(size=8)
    metrics = pm.default_metrics()
    expected = expected_cost(Session(f), [pm.make_method(m) for m in METHODS], metrics, 5, 3)
    f.frozen()
    tally.reset()
    pm.evaluate(f, pixels(5, 8), methods=METHODS, labels="top3")
    assert not expected.unknown
    assert expected.known.passes == pytest.approx(tally.images, rel=0.02)
    assert expected.known.gradient == 5 * 3 * 3 + 5 * 3  # three steps for each label; a gradient for each


class Clock:
    """Takes the place of the module ``time``; it hardly moves unless a net moves it."""

    def __init__(self) -> None:
        self.now = 0.0

    def __deepcopy__(self, memo: object) -> Clock:
        return self  # a copy of the net moves the same clock

    def perf_counter(self) -> float:
        self.now += 1e-9
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(cost, "time", found)
    return found


class Slow(nn.Module):
    """A net that takes a hundredth of a second for every image, by a clock of its own."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.net, self.clock = conv_net(), clock

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.clock.now += 0.01 * len(x)
        out: torch.Tensor = self.net(x)
        return out


def test_the_rate_is_that_of_the_net_and_gradients_are_tried_only_where_they_are_needed(clock: Clock) -> None:
    f, tally = counted_classifier(Slow(clock))
    speed = measure_speed(f, Cost(forward=400, gradient=400))
    assert speed.gradient == pytest.approx(100) and speed.forward == pytest.approx(100)
    assert tally.images < 60  # some percent of 800
    with_none = measure_speed(f, Cost(forward=400))
    assert math.isinf(with_none.gradient) and "gradient" not in str(with_none)


def noted_batches(monkeypatch: pytest.MonkeyPatch, most: int = 1000) -> tuple[pm.Classifier, list[int]]:
    """A classifier with batches of 16, and the sizes of those that its speed is measured with; larger ones than ``most`` do not fit in memory."""
    monkeypatch.setattr(cost, "MEASURED", 0.0)
    f, sizes = pm.Classifier(conv_net(), size=8, batch_size=16), list[int]()
    fast = f.frozen()
    blank = fast.blank

    def noted(number: int) -> torch.Tensor:
        sizes.append(number)
        if number > most:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return blank(number)

    monkeypatch.setattr(type(fast), "blank", lambda _, number: noted(number))
    return f, sizes


@pytest.mark.parametrize("at_once, taken", [(3, 3), (None, 16), (1000, 16)])
def test_gradients_are_measured_in_batches_of_the_size_that_units_give(
    at_once: int | None, taken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    f, sizes = noted_batches(monkeypatch)
    measure_speed(f, Cost(forward=4000, gradient=4000), at_once)
    assert sizes[0] == 16 and sizes[-1] == taken


def test_a_batch_that_does_not_fit_in_memory_is_halved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measuring the speed ended runs on a GPU that others had filled."""
    f, sizes = noted_batches(monkeypatch, most=5)
    assert measure_speed(f, Cost(forward=4000)).forward > 0
    assert sizes[:3] == [16, 8, 4] and set(sizes[3:]) == {4}


def test_a_unit_gives_two_composites_of_each_pair_to_a_batch() -> None:
    def at_once(images: int, labels: float, blocks: int) -> int:
        return Plan(images, labels, blocks, (), 0).at_once

    assert at_once(12, 2, 4) == 12 and at_once(1, 5, 1) == 10 and at_once(10, 1.5, 4) == 8
    assert at_once(0, 0, 0) == 1


def test_short_work_is_not_worth_a_word_and_long_work_is(clock: Clock) -> None:
    f, tally = counted_classifier(Slow(clock))
    short, long = Expected(Cost(forward=100)), Expected(Cost(forward=10_000))
    assert not short.is_long(measure_speed(f, short.known)) and tally.images < 10
    speed = measure_speed(f, long.known)
    assert long.is_long(speed) and speed.seconds(long.known) == pytest.approx(100)


def test_the_known_part_of_the_time_is_told_with_what_is_not_known(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "def flat(f, images, labels):\n    return images[:, :1].expand(-1, labels.shape[1], -1, -1)\n"
    )
    study = toy_study(tmp_path, 4, methods=["gradient", f"{file}:flat"])
    found = preview(study, tmp_path / "run", threads=1)
    assert found.cost is None and found.expected.known.gradient == 4 * 3
    text = preview_text(found)
    assert "at least " in text and "flat, which does not report passes" in text


# ---- what the commands say -----------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_photos(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(registry._OWN, registry.DEFAULT_MODEL, tiny_model())
    return tmp_path


@pytest.mark.parametrize(
    "command",
    [
        ("explain", "photo.jpg", "--method", "gradient"),
        ("evaluate", "--data", "photos", "--methods", "gradient"),
    ],
)
def test_the_time_is_told_before_the_work_where_it_is_long(
    command: tuple[str, ...],
    folder: Path,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(monkeypatch, *command) == 0  # in no time at all
    assert "passes/s forward" not in capsys.readouterr().err
    monkeypatch.setattr(cost, "WORTH_REPORTING", 0.0)
    for place in ("cli.explain", "study.run"):
        monkeypatch.setattr(f"proofmap.{place}.measure_speed", lambda *_: Speed(1e6, 1e6))
    assert run(monkeypatch, *command, "--out", "again") == 0
    told = capsys.readouterr().err
    assert "about 0 s (" in told and "with gradient, measured now)" in told
    assert told.index("measured now") < told.index("open again" if command[0] == "explain" else "written")


def test_an_estimate_is_a_range() -> None:
    told = Expected(Cost(forward=600, gradient=300)).time_text(Speed(5.0, 5.0))
    assert told == "about 3 to 9 min (5 passes/s forward, 5 with gradient, measured now)"
    assert (
        Expected(Cost(forward=50), ("mine",))
        .time_text(Speed(5.0))
        .startswith("at least 10 to 30 s, and what")
    )


# ---- the demo ------------------------------------------------------------------------------------------------------


DEMO = ("demo", "--methods", "gradient,random", "-q")


def test_a_demo_on_a_usual_machine_is_complete(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo, "measure_speed", lambda *_: Speed(1e6, 1e6))
    assert run(monkeypatch, *DEMO) == 0
    found = json.loads((folder / "demo" / "evaluation.json").read_text())
    assert found["images"] == ["cat", "rocket", "coffee", "motorcycle", "astronaut"]
    net = pm.load_classifier(registry.DEFAULT_MODEL)
    photos = pm.load_images([f"sample:{name}" for name in found["images"]], net)
    again = pm.evaluate(
        net, photos, methods=["gradient", "random"], labels="top3+wrong", names=found["images"]
    )
    again.save(folder / "again")
    for file in ("scores.csv", "pairs.csv"):
        assert (folder / "demo" / file).read_text() == (folder / "again" / file).read_text()


def test_a_demo_on_a_slow_machine_says_what_it_cut(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "measure_speed", lambda *_: Speed(3.5, 1.0))
    assert run(monkeypatch, *DEMO) == 0
    told = capsys.readouterr()
    found = json.loads((folder / "demo" / "evaluation.json").read_text())
    assert "so this one has 2 of 5 photos" in told.err and "--minutes" in told.err
    assert len(found["images"]) == 2 and len(found["methods"][0]["pairs"]) == 2 * 5


# ---- Units are small enough that little is lost with one, their size is planned, and a run that is stopped says what it kept ---


def wide_net(channels: int = 8) -> nn.Sequential:
    torch.manual_seed(0)
    grouped = nn.Conv2d(channels, channels, 3, padding=1, groups=channels)
    return nn.Sequential(
        nn.Conv2d(3, channels, 3, padding=1), nn.ReLU(), grouped, nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(channels, 5),
    ).eval()  # fmt: skip


def test_multiply_adds_are_counted_layer_by_layer() -> None:
    f = Classifier(wide_net(), size=16, batch_size=64)
    assert multiply_adds(f) == 16 * 16 * 8 * (3 * 9) + 16 * 16 * 8 * 9 + 5 * 8
    assert not any(module._forward_hooks for module in f.net.modules())  # type: ignore[union-attr]
    function = Classifier(lambda x: x.flatten(1)[:, :4], size=16, batch_size=64)
    assert multiply_adds(function) == 2500 * 3 * 16 * 16


def test_a_unit_takes_no_longer_than_planned_and_at_least_one_image(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("proofmap.study.planning.ENOUGH", 0)
    f = Classifier(wide_net(), size=16, batch_size=10_000)
    pass_ = multiply_adds(f) + PER_PASS
    seconds = SECONDS["cpu"] * RATES["cpu"]

    def size(*costs: Cost | None, threads: int = 1, **changes: Any) -> int:
        monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
        monkeypatch.setattr("proofmap.study.planning.unit_cost", lambda method, *_: costs[method])
        methods = {k: k for k in range(len(costs))}
        study = Study(labels="top2", **changes)
        opened: Any = SimpleNamespace(
            study=study, classifier=f, session=None, methods=methods, metrics={}, data=range(10**6)
        )
        return images_per_unit(opened)

    ten = int(seconds / (10.2 * pass_))  # passes, so that ten images fit
    assert size(Cost(forward=ten)) == 10 and size(Cost(forward=ten), threads=2) == 20
    assert size(Cost(forward=1), Cost(gradient=ten // GRADIENT)) == 10  # the costliest method decides
    assert size(Cost(forward=10 * ten)) == size(Cost(gradient=10**12)) == 1
    assert size(Cost(forward=1)) == 64 and size(Cost(gradient=10**12), images_per_unit=7) == 7
    assert size(None) == size(Cost(gradient=2 * UNKNOWN))


def test_a_unit_on_a_cpu_takes_longer_where_the_net_would_have_too_little_at_once() -> None:
    planned = SECONDS["cpu"] * RATES["cpu"]

    def size(
        in_time: float, kind: str = "cpu", *, labels: int = 2, batch: int = 640, each: float = ENOUGH / 16
    ) -> int:
        return planned_images(
            kind,
            batch=batch,
            labels=labels,
            values=32**2,
            passes=planned / in_time / each,
            each=each,
            images=10**6,
        )

    assert [size(n) for n in (0.05, 0.35, 1, 3, 5, 30)] == [1, 3, 4, 4, 5, 30]  # 16 composites are enough
    assert size(1, labels=8) == 1 and size(1, labels=1) == 8
    assert size(1, each=2 * ENOUGH) == 1 and size(0.5, each=ENOUGH / 1000) == LONGEST // 2
    assert size(1, each=1, batch=4) == 4  # no more than two batches of pairs
    assert size(RATES["cpu"] / RATES["mps"], "mps", each=1) == 1  # measured on CPUs alone


def test_a_unit_fills_a_gpu_where_time_and_memory_allow() -> None:
    def size(
        kind: str = "cuda",
        *,
        work: float = 1e9,
        labels: int = 5,
        values: int = 224**2,
        images: int = 480 * 10**6,
    ) -> int:
        return planned_images(
            kind, batch=960, labels=labels, values=values, passes=work / 1e9, each=1e9, images=images
        )

    assert size() == 96 and size(labels=1) == 480  # two composites of each pair are a batch
    assert size(labels=10, values=100, images=640) == 64  # no fewer than where no GPU must be filled
    assert size(labels=1000) == 1
    assert size(values=10**6) == 6  # maps of one unit stay in memory
    longest = SECONDS["cuda"] * RATES["cuda"]
    assert size(work=longest / 9.5) == 9 and size(work=2 * longest) == 1
    assert [size(images=n) for n in (97, 200, 961)] == [49, 67, 88]  # no small unit at the end
    assert size(images=1) == size(images=96) == 96  # a run may grow
    assert size("cpu", work=1, images=65) == 64
    assert size("another kind") == size()
    assert size("cpu", work=1) == size("mps", work=1) == 64 and size("mps", work=longest) == 1


def test_the_size_comes_from_the_plan_and_a_run_keeps_the_one_it_began_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = toy_study(tmp_path, 6, methods=["gradient"], metrics=["insertion:points=4"], images_per_unit=None)
    run_study(study, tmp_path / "large")
    assert Manifest.read(tmp_path / "large").images_per_unit >= 6, (
        "a small net is fast, so all images are one unit"
    )
    monkeypatch.setitem(RATES, "cpu", 1e4)
    for name in ("small", "again"):
        run_study(study, tmp_path / name)
    assert Manifest.read(tmp_path / "small").images_per_unit == 1
    assert facts(tmp_path / "small") == facts(tmp_path / "again")
    before = Manifest.read(tmp_path / "large").images_per_unit
    run_study(replace(study, methods=("gradient", "random")), tmp_path / "large")
    assert Manifest.read(tmp_path / "large").images_per_unit == before


def stop_at(monkeypatch: pytest.MonkeyPatch, number: int, how: type[BaseException]) -> None:
    """Interrupt the work in the middle of this unit."""
    work, calls = Worker.__call__, 0

    def stopped(self: Worker, unit: Unit) -> UnitResult:
        nonlocal calls
        calls += 1
        if calls == number:
            raise how
        return work(self, unit)

    monkeypatch.setattr(Worker, "__call__", stopped)


def test_a_run_that_is_stopped_says_what_it_kept_and_goes_on_from_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = toy_study(tmp_path, 5, methods=["gradient", "random"])  # blocks of 2, 2 and 1
    with monkeypatch.context() as patch:
        stop_at(patch, 4, KeyboardInterrupt)
        with pytest.raises(KeyboardInterrupt) as stop:
            run_study(study, tmp_path / "run")
    assert stop.value.__notes__ == [
        "kept 6 of 10 results (5 images x 2 methods); run the same command to continue"
    ]
    with Run(tmp_path / "run") as run:
        assert run.unfinished() == {"gradient": 1, "random": 3}
    with monkeypatch.context() as patch:
        stop_at(patch, 2, KeyboardInterrupt)
        with pytest.raises(KeyboardInterrupt) as stop:
            run_study(study, tmp_path / "run")
    assert stop.value.__notes__[0].startswith("kept 8 of 10 results")
    assert run_study(study, tmp_path / "run").units == 2


def test_the_command_line_says_it_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    study = toy_study(tmp_path, 3)
    words = ["--model", study.model, "--data", str(study.data[0]), "--methods", "gradient", "-q"]
    stop_at(monkeypatch, 3, cli._Interrupted)
    asked = ("evaluate", *words, "--images-per-unit", "1", "--out", str(tmp_path / "run"))
    assert command(monkeypatch, *asked) == 130
    told = "stopped; kept 2 of 3 results (3 images x 1 method); run the same command to continue"
    assert told in capsys.readouterr().err
