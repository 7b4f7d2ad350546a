"""Units are small enough that little is lost with one, their size is planned, and a run that is stopped says what it kept."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from proofmap import Classifier, cli
from proofmap.methods.method import Cost
from proofmap.study import Run, Study, run_study
from proofmap.study.manifest import Manifest
from proofmap.study.planning import (
    ENOUGH,
    GRADIENT,
    LONGEST,
    PER_PASS,
    RATES,
    SECONDS,
    UNKNOWN,
    Unit,
    images_per_unit,
    multiply_adds,
    planned_images,
)
from proofmap.study.unit import UnitResult, Worker
from tests.study.studies import facts, toy_study


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
    words = ["evaluate", "--model", study.model, "--data", str(study.data[0]), "--methods", "gradient", "-q"]
    monkeypatch.setattr(
        sys, "argv", ["proofmap", *words, "--images-per-unit", "1", "--out", str(tmp_path / "run")]
    )
    stop_at(monkeypatch, 3, cli._Interrupted)
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 130
    told = "stopped; kept 2 of 3 results (3 images x 1 method); run the same command to continue"
    assert told in capsys.readouterr().err
