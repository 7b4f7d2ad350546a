"""sys.exit() in code of a user's does not end the program: it is an error that names the place, and a study goes on."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

import proofmap as pm
from proofmap.core.errors import ModelError
from proofmap.data.folders import image_folder
from proofmap.data.loader import load_blocks
from proofmap.fills import Fill
from proofmap.methods import Method
from proofmap.metrics import Metric
from proofmap.metrics.games import InsertionGame
from proofmap.metrics.metric import RunMetric
from proofmap.plugins.failures import exit_as_error
from proofmap.study import Run, run_study
from proofmap.study.ray_executor import _work
from tests.study.studies import photos, toy_study
from tests.toys import conv_classifier, conv_net, pixels

HERE = "test_exits.py, line "


def leaves(*_: object, **__: object) -> Any:
    sys.exit(3)


class LeavingMethod(Method):
    name: ClassVar[str] = "leaving-method"
    maps = leaves


class Unready(LeavingMethod):
    prepare = leaves


class LeavingFill(Fill):
    name: ClassVar[str] = "leaving-fill"
    backgrounds = leaves


class LeavingGame(InsertionGame):
    name: ClassVar[str] = "leaving-game"
    shown = leaves


class LeavingMetric(Metric):
    name: ClassVar[str] = "leaving-metric"
    higher_is_better: ClassVar[bool] = True
    values = leaves


class Plays(Metric):
    name: ClassVar[str] = "plays"
    higher_is_better: ClassVar[bool] = True

    def games(self) -> tuple[LeavingGame]:
        return (LeavingGame(points=4),)

    def values(self, judged: Any) -> Tensor:
        return torch.as_tensor(judged.play(*self.games()).auc[:, 0])


class LeavingRunMetric(RunMetric):
    name: ClassVar[str] = "leaving-run-metric"
    higher_is_better: ClassVar[bool] = True
    over_run = leaves


class LeavingNet:
    """A net that calls sys.exit() once ``on`` is set."""

    def __init__(self) -> None:
        self.net, self.on = conv_net(), False

    def __call__(self, x: Tensor) -> Tensor:
        return leaves() if self.on else self.net(x)


INSERTION = "insertion:points=4"


@pytest.mark.parametrize(
    "asked",
    [
        {"methods": [leaves]},
        {"methods": [LeavingMethod()]},
        {"methods": [Unready()]},
        {"methods": ["random"], "metrics": [LeavingMetric()]},
        {"methods": ["random"], "metrics": [Plays()]},
        {"methods": ["random"], "metrics": [pm.make_metric(INSERTION, {"fill": LeavingFill()})]},
        {"methods": ["random"], "metrics": [INSERTION, LeavingRunMetric()]},
    ],
    ids=["function", "method", "preparation", "metric", "game", "fill", "run metric"],
)
def test_an_evaluation_ends_with_an_error_that_names_the_place(asked: dict[str, Any]) -> None:
    with pytest.raises(
        pm.InputError, match=rf"sys\.exit\(3\) was called in {HERE}\d+, in leaves.*raise an exception"
    ):
        pm.evaluate(conv_classifier(), pixels(2, 8), labels="top1", **asked)


def test_so_does_an_explanation_and_it_names_the_method() -> None:
    with pytest.raises(pm.InputError, match=r"in leaves, while the method leaves made maps\. Code"):
        pm.explain(conv_classifier(), pixels(1, 8), labels="top1", method=leaves)


def test_so_does_a_sanity_check() -> None:
    with pytest.raises(pm.InputError, match=r"sys\.exit\(3\) was called"):
        pm.sanity_checks(conv_classifier(), pixels(2, 8), methods=[Unready()])


def test_a_net_that_exits_is_named_when_it_is_first_tried_and_later() -> None:
    net = LeavingNet()
    classifier = pm.Classifier(net, size=8)
    net.on = True
    with pytest.raises(pm.InputError, match=r"sys\.exit\(3\) was called"):
        pm.evaluate(classifier, pixels(1, 8), methods=["random"])
    with pytest.raises(ModelError, match=r"the net fails on two .*sys\.exit\(3\) was called"):
        pm.Classifier(net, size=8)


def test_the_place_is_that_of_the_users_code_that_called_the_standard_library() -> None:
    def parses(*_: object) -> None:
        argparse.ArgumentParser().parse_args(["--unknown"])

    def ends(*_: object) -> None:
        sys.exit()

    def says(*_: object) -> None:
        sys.exit("no layer")

    for function, told in (
        (parses, r"sys\.exit\(2\) .*, in .*parses"),
        (ends, r"sys\.exit\(\) was"),
        (says, r"sys\.exit\('no layer'\) was"),
    ):
        with pytest.raises(pm.InputError, match=told), exit_as_error():
            function()


def test_what_stops_a_program_on_purpose_passes_through() -> None:
    """Ctrl-C, exceptions of its kind, and a handler of a signal that exits, as Ray's workers have one for SIGTERM."""

    class Stop(BaseException):
        pass

    for stop in (KeyboardInterrupt, GeneratorExit, Stop):
        with pytest.raises(stop), exit_as_error():
            raise stop

    class Service:
        def ended(self, number: int, frame: object) -> None:
            sys.exit(0)

    before = signal.getsignal(signal.SIGTERM)
    for handler in (lambda *_: sys.exit(0), Service().ended):
        signal.signal(signal.SIGTERM, handler)
        try:
            with pytest.raises(SystemExit), exit_as_error():
                signal.raise_signal(signal.SIGTERM)
        finally:
            signal.signal(signal.SIGTERM, before)


# ---- studies ----------------------------------------------------------------------------------------------------


def one_image_leaves(classifier: Any, images: Tensor, labels: Tensor) -> Tensor:
    """Exits for the brightest of the pictures alone."""
    if bool((images.mean(dim=(1, 2, 3)) > BRIGHT[0]).any()):
        sys.exit(3)
    return images.mean(dim=1, keepdim=True).expand(-1, labels.shape[1], -1, -1)


BRIGHT = [0.0]


def test_an_image_whose_map_exits_fails_with_that_reason_and_the_others_are_judged(tmp_path: Path) -> None:
    study = toy_study(tmp_path, 3, methods=[one_image_leaves, "random"], metrics=[INSERTION], labels="top1")
    means = sorted(pm.load_images([tmp_path / "photos"], conv_classifier()).mean(dim=(1, 2, 3)).tolist())
    BRIGHT[0] = (means[-1] + means[-2]) / 2
    assert run_study(study, tmp_path / "run").failed == 1
    with Run(tmp_path / "run") as run:
        (failure,) = run.failures()
    assert "sys.exit(3) was called in test_exits.py" in str(failure)
    assert "while the method one_image_leaves made maps" in str(failure)


def test_a_metric_that_exits_fails_its_images_and_not_the_study(tmp_path: Path) -> None:
    study = toy_study(tmp_path, 2, methods=["random"], metrics=[LeavingMetric()], labels="top1")
    assert run_study(study, tmp_path / "run").failed == 2


def test_a_study_that_cannot_be_made_ready_says_so(tmp_path: Path) -> None:
    study = toy_study(tmp_path, 2, methods=[Unready()], labels="top1")
    with pytest.raises(pm.InputError, match=r"sys\.exit\(3\) was called"):
        run_study(study, tmp_path / "run")


def test_a_picture_whose_reading_exits_is_unreadable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = image_folder(photos(tmp_path, 2))
    read = type(data).read
    monkeypatch.setattr(type(data), "read", lambda self, i: leaves() if i else read(self, i))
    (block,) = load_blocks(data, conv_classifier(), [0, 1], block_size=2)
    assert block.indices == (0,)
    assert [failure.reason.split(" was")[0] for failure in block.failures] == ["sys.exit(3)"]


def test_a_watcher_that_exits_is_removed_as_one_that_raises(tmp_path: Path) -> None:
    class Leaving:
        name = "leaving"
        begin = end = lambda *_: None
        update = leaves

    with pytest.warns(RuntimeWarning, match=r"leaving no longer follows the study: .*sys\.exit\(3\)"):
        outcome = run_study(
            toy_study(tmp_path, 1, methods=["random"], metrics=[INSERTION], labels="top1"),
            tmp_path / "run",
            watchers=[Leaving()],
        )
    assert outcome.failed == 0


@pytest.mark.parametrize("make", [leaves, lambda: leaves], ids=["when it is made", "at a unit"])
def test_a_ray_worker_answers_with_the_error(
    make: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    ray = pytest.importorskip("ray")
    monkeypatch.setattr(ray, "get", lambda given: given)
    source = [ray.cloudpickle.dumps((make, 1))]
    _, error = ray.cloudpickle.loads(_work("run", source, ray.cloudpickle.dumps([1])))
    assert "sys.exit(3) was called" in str(error)
