"""Code of a user may write into what it is given, and what it raises is one message with its place."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

import proofmap as pm
from proofmap.fills import Fill, Gray
from proofmap.methods.controls import Wrapper
from proofmap.methods.perturbation.rise import Occlusion
from proofmap.metrics import Game, Insertion, Judged, Metric, RunMetric, RunValues
from proofmap.metrics.games import InsertionGame
from proofmap.metrics.targets import Logit, Target
from proofmap.plugins.settings import required
from proofmap.session import Session
from tests.command import run
from tests.test_cli import MODEL, NET
from tests.toys import conv_classifier, normal, pixels

N, SIZE, LABELS = 3, 8, 2
MAPS = normal(N, LABELS, SIZE, SIZE, seed=5)
OWN_LABELS = [[2, 1], [0, 3], [1, 2]]
"""Labels of our own: maps that ignore their labels are refused where a rule chose them."""

Write = Callable[[Tensor], object]
WRITES: dict[str, Write] = {
    "in place": lambda x: x.zero_(),
    "through data": lambda x: x.data.zero_(),
    "through NumPy": lambda x: np.copyto(x.numpy(), 0),
}


def scores(classifier: pm.Classifier | None = None, **options: Any) -> dict[str, Tensor]:
    """All values of an evaluation, and what it keeps of its input; NaN as 9."""
    given: dict[str, Any] = {
        "methods": [plain],
        "labels": [
            [2, 1],
            [0, 3],
            [1, 2],
        ],  # of our own: maps that ignore labels are refused where a rule chose them
        "metrics": ["soundness:points=4", "deletion:points=4"],
        **options,
    }
    found = pm.evaluate(classifier or conv_classifier(SIZE), pixels(N, SIZE), **given)
    kept = {"images": found.images, "labels": found.labels, "f": found.f}
    for result in found.results:
        kept |= {f"{result.name} {name}": value for name, value in result.values.items()}
        kept |= {f"{result.name} pairs of {name}": value for name, value in result.pairs.items()}
        kept |= {f"{result.name} maps": result.maps, f"{result.name} areas": result.insertion.auc}
    return {name: value.nan_to_num(9) for name, value in kept.items()}


def assert_same(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert len(found) == len(expected)
    for (name, value), other in zip(found.items(), expected.values(), strict=True):
        assert torch.equal(value, other), name


def plain(classifier: pm.Classifier, images: Tensor, labels: Tensor) -> Tensor:
    return MAPS[: len(images)]


# ---- methods --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
def test_a_method_may_write_into_its_images_and_labels(write: Write) -> None:
    def method(classifier: pm.Classifier, images: Tensor, labels: Tensor) -> Tensor:
        write(images), write(labels)
        return MAPS

    assert_same(scores(methods=[method, plain]), scores(methods=[plain, plain]))


def test_a_method_called_per_label_may_write_and_use_one_tensor_for_all_maps() -> None:
    buffer = torch.zeros(N, SIZE, SIZE)

    def reused(classifier: pm.Classifier, images: Tensor, label: Tensor) -> Tensor:
        buffer.copy_(images.sum(dim=1) * (1 + label).view(-1, 1, 1))
        images.zero_(), label.zero_()
        return buffer

    def fresh(classifier: pm.Classifier, images: Tensor, label: Tensor) -> Tensor:
        return images.sum(dim=1) * (1 + label).view(-1, 1, 1)

    assert_same(scores(methods=[reused]), scores(methods=[fresh]))


class Doubled(Wrapper):
    name: ClassVar[str] = "doubled"
    writes: bool = False

    def changed_maps(self, maps: Tensor) -> Tensor:
        return maps.mul_(-2) if self.writes else -2 * maps


def test_a_wrapper_may_write_into_the_maps_that_others_take() -> None:
    def rows(writes: bool) -> list[Any]:
        of = pm.make_method(plain)
        return [plain, Doubled(of=of, writes=writes), "top-label:random", plain]

    assert_same(scores(methods=rows(True)), scores(methods=rows(False)))


def test_the_callers_tensors_stay_as_they_are_and_may_be_changed_afterwards() -> None:
    def method(classifier: pm.Classifier, images: Tensor, labels: Tensor) -> Tensor:
        images.zero_(), labels.zero_()
        return MAPS

    x, labels = pixels(N, SIZE), torch.tensor([[2, 1], [0, 3], [1, 2]])
    given = x.clone(), labels.clone()
    found = pm.evaluate(conv_classifier(SIZE), x, methods=[method], labels=labels)
    assert torch.equal(x, given[0]) and torch.equal(labels, given[1])
    x.zero_(), labels.zero_()
    assert torch.equal(found.images, given[0]) and torch.equal(found.labels, given[1])


# ---- metrics --------------------------------------------------------------------------------------------------------


class Reader(Metric):
    """The sum of everything that a metric can read; it may write over it afterwards."""

    name: ClassVar[str] = "reader"
    higher_is_better: ClassVar[bool] = True
    how: str = ""

    def games(self) -> tuple[Game, ...]:
        return (InsertionGame(),)

    def values(self, judged: Judged) -> Tensor:
        curves = judged.play(InsertionGame())
        kept = judged.once("kept", lambda: judged.maps.sum(dim=(1, 2, 3)))
        given = [
            judged.images,
            judged.labels,
            judged.maps,
            judged.truth,
            judged.probabilities,
            kept,
            curves.auc,
            curves.probabilities,
            curves.matrix,
            curves.f,
        ]
        found = torch.stack(
            [x.flatten(1).float().sum(dim=1) if x.ndim > 1 else x.float() for x in given]
        ).sum(dim=0)
        found += len(judged.boxes[0])
        if self.how:
            for x in given:
                WRITES[self.how](x)
            judged.boxes[0].clear(), judged.objects[0].clear()  # type: ignore[attr-defined]
        return found


@pytest.mark.parametrize("how", WRITES)
def test_a_metric_may_write_into_what_it_is_given(how: str) -> None:
    def judged(how: str) -> dict[str, Tensor]:
        metrics = [Reader(how=how), "soundness", Reader(), "pointing-game", "deletion:points=4"]
        boxes: list[Any] = [[(0, 0, 3, 3)]] * N
        return scores(metrics=metrics, truth=[0, 1, 2], boxes=boxes, objects=[{0: [(0, 0, 4, 4)]}] * N)

    assert_same(judged(how), judged(""))


class Total(RunMetric):
    name: ClassVar[str] = "total"
    higher_is_better: ClassVar[bool] = True

    def over_run(self, run: RunValues) -> dict[str, tuple[float, int]]:
        values = [x for scores in run.values.values() for x in scores.values()]
        found = float(sum(x.nan_to_num().sum() for x in values))
        for x in values:
            x.zero_()
        return {"all": (found, N)}


def test_a_metric_of_runs_may_write_into_the_values() -> None:
    found = pm.evaluate(
        conv_classifier(SIZE),
        pixels(N, SIZE),
        methods=[plain],
        labels=OWN_LABELS,
        metrics=["soundness", Total(), Total()],
    )
    first, second = found.run_scores
    assert first.value == second.value > 0
    assert float(found.results[0].values["soundness"].sum()) == pytest.approx(first.value)


# ---- fills, games, targets ------------------------------------------------------------------------------------------


class Mean(Fill):
    """The mean of each image and its key; it may write over both afterwards."""

    name: ClassVar[str] = "mean-and-key"
    random: ClassVar[bool] = True
    how: str = ""

    def backgrounds(self, session: Session, images: Tensor, keys: Tensor) -> Tensor:
        level = images.flatten(1).mean(dim=1) / 2 + (keys % 7) / 20
        found = level.view(-1, 1, 1, 1).expand_as(images).clone()
        if self.how:
            WRITES[self.how](images), WRITES[self.how](keys)
        return found


@pytest.mark.parametrize("kind", [Mean])
@pytest.mark.parametrize("how", WRITES)
def test_a_fill_may_write_into_the_images_and_keys(how: str, kind: type[Mean]) -> None:
    def judged(how: str) -> dict[str, Tensor]:
        fill = kind(how=how)
        metrics = [Insertion(fill=fill, points=3, draws=2), Insertion(fill=Gray(), points=3)]
        return scores(methods=[Occlusion(window=4, stride=4, fill=fill), plain], metrics=metrics)

    assert_same(judged(how), judged(""))


class WritingGame(InsertionGame):
    name: ClassVar[str] = "writing"
    how: str = ""

    def order(self, maps: Tensor, keys: Tensor) -> Tensor:
        ranks = super().order(maps, keys)
        if self.how:
            WRITES[self.how](maps), WRITES[self.how](keys)
        return ranks

    def shown(self, ranks: Tensor, count: Tensor) -> Tensor:
        found = super().shown(ranks, count)
        if self.how:
            WRITES[self.how](ranks), WRITES[self.how](count)
        return found


class WritingTarget(Target):
    name: ClassVar[str] = "writing"
    how: str = ""

    def read(self, classifier: pm.Classifier, logits: Tensor) -> Tensor:
        found = logits.clone()
        if self.how:
            WRITES[self.how](logits)
        return found


class Area(Metric):
    name: ClassVar[str] = "area"
    higher_is_better: ClassVar[bool] = True
    game: Game = required("what is played")

    def games(self) -> tuple[Game, ...]:
        return (self.game,)

    def pairs(self, judged: Judged) -> Tensor:
        return judged.play(self.game).auc


@pytest.mark.parametrize("how", WRITES)
def test_a_game_may_write_into_ranks_counts_maps_and_keys(how: str) -> None:
    def judged(how: str) -> dict[str, Tensor]:
        return scores(metrics=[Area(game=WritingGame(how=how, points=4)), "soundness:points=4"])

    assert_same(judged(how), judged(""))


@pytest.mark.parametrize("how", WRITES)
def test_a_target_may_write_into_the_logits(how: str) -> None:
    def judged(how: str) -> dict[str, Tensor]:
        games = [InsertionGame(points=4, target=target) for target in (WritingTarget(how=how), Logit())]
        return scores(metrics=[*(Area(game=game) for game in games), "soundness:points=4"])

    assert_same(judged(how), judged(""))


# ---- nets -----------------------------------------------------------------------------------------------------------


class Net(nn.Module):
    """It doubles its input before anything else."""

    def __init__(self, in_place: bool) -> None:
        super().__init__()
        self.in_place = in_place
        self.weight = nn.Parameter(normal(4, 3 * SIZE * SIZE, seed=3))

    def forward(self, x: Tensor) -> Tensor:
        return (x.mul_(2) if self.in_place else 2 * x).flatten(1).tanh() @ self.weight.T


METHODS = ["gradient", "occlusion:window=4,stride=4", "learned-mask:steps=1,fill=gray"]


@pytest.mark.parametrize("normalised", [True, False], ids=["normalised", "not normalised"])
def test_a_net_may_work_on_its_input_in_place(normalised: bool) -> None:
    scale = {"mean": (0.5,) * 3, "std": (0.5,) * 3} if normalised else {}
    found, expected = (
        scores(pm.Classifier(Net(in_place), size=SIZE, batch_size=8, **scale), methods=METHODS)
        for in_place in (True, False)
    )
    assert_same(found, expected)


# ---- failures ------------------------------------------------------------------------------------------------


MINE = """
import sys
from typing import ClassVar

from beside import layer_of
from proofmap.fills import Fill
from proofmap.methods import Method; from proofmap.metrics import Metric

def bad(classifier, images, labels):
    return layer_of(classifier)  # line 10

def misused(classifier, images, labels):
    return images.mean(dim=1).view(3, -1, 5)  # line 13

def ends(classifier, images, labels):
    sys.exit(0)  # line 16

class Unready(Method):
    name: ClassVar[str] = "unready"
    description: ClassVar[str] = "cannot be made ready"

    def prepare(self, classifier):
        raise KeyError("layer")  # line 23

class Holes(Fill):
    name: ClassVar[str] = "holes"
    description: ClassVar[str] = "raises"

    def backgrounds(self, session, images, keys):
        return images / [0]  # line 30

def cut_short(classifier, images, labels):
    raise EOFError("cut short")  # line 33

def too_few(classifier, images):
    return images

class NoSession(Method):
    name: ClassVar[str] = "no-session"
    description: ClassVar[str] = "takes too little"

    def maps(self, images, labels):
        return images[:, :1]

class Nameless(Method):
    def maps(self, session, images, labels):
        return images[:, :1]

class Empty(Method):
    name: ClassVar[str] = "empty"
    description: ClassVar[str] = "has no code"

class Forgetful(Holes):
    name: ClassVar[str] = "forgetful"

    def backgrounds(self, session, images, keys):
        pass

class Wide(Metric):
    name: ClassVar[str] = "wide"
    description: ClassVar[str] = "too many values"
    higher_is_better: ClassVar[bool] = True

    def values(self, judged):
        return judged.f.repeat(2, 1)

class Undirected(Metric):
    name: ClassVar[str] = "undirected"
    description: ClassVar[str] = "no direction"
"""
BESIDE = """
def layer_of(classifier):
    raise LookupError("no such\\nlayer")  # line 3
"""
FAILING_NET = """
import torch
import proofmap as pm

class Net(torch.nn.Module):
    def forward(self, x):
        return x.flatten(1) @ torch.ones(5, 5)  # line 7

def small():
    return pm.Classifier(Net(), size=16, names=["cat", "dog"])
"""
PLACE = "LookupError: no such layer (beside.py, line 3, in layer_of)"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a net and methods in files, and a photo."""
    files = {"net.py": NET, "mine.py": MINE, "beside.py": BESIDE, "failing.py": FAILING_NET}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    pixels = np.random.default_rng(0).integers(0, 256, (20, 24, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "photo.png")
    monkeypatch.chdir(tmp_path)
    return tmp_path


ASKED = ("photo.png", *MODEL, "--labels", "top1", "--quiet", "--out", "out")


@pytest.mark.parametrize(
    "arguments, told",
    [
        (("explain", *ASKED, "--method", "mine.py:bad"), f"{PLACE}, while the method bad made maps"),
        (("sanity", *ASKED, "--methods", "random,mine.py:bad"), f"{PLACE}, while the method bad made maps"),
        (
            ("sanity", "--axioms", "--methods", "mine.py:bad", "--device", "cpu"),
            f"{PLACE}, while the method bad made maps",
        ),
        (
            ("explain", *ASKED, "--method", "top-label:mine.py:bad"),
            "while the method bad made maps, while the method top-label:bad made maps",
        ),
        (("explain", *ASKED, "--method", "mine.py:misused"), "(mine.py, line 13, in misused)"),
        (
            ("explain", *ASKED, "--method", "mine.py:ends"),
            "SystemExit: 0 (mine.py, line 16, in ends), while the method ends made maps",
        ),
        (
            ("explain", *ASKED, "--method", "mine.py:cut_short"),
            "EOFError: cut short (mine.py, line 33, in cut",
        ),
        (
            ("explain", *ASKED, "--method", "mine.py:too_few"),
            "the function too_few must be written too_few(classifier, images, labels): too many",
        ),
        (
            ("explain", *ASKED, "--method", "mine.py:NoSession"),
            "NoSession must be written maps(self, session, images, labels): too many positional arguments",
        ),
        (
            ("explain", *ASKED, "--method", "mine.py:Nameless"),
            "has no name; write in it: name = ",
        ),
        (("explain", *ASKED, "--method", "mine.py:Empty"), "the class Empty defines no maps()"),
        (
            ("explain", *ASKED, "--method", "mine.py:Unready"),
            "KeyError: 'layer' (mine.py, line 23, in Unready.prepare)",
        ),
        (
            ("explain", *ASKED, "--method", "random", "--fill", "mine.py:Holes"),
            "(mine.py, line 30, in Holes.backgrounds)",
        ),
        (
            ("explain", "photo.png", "--model", "failing.py:small", "--device", "cpu", "--out", "out"),
            "(failing.py, line 7, in Net.forward)",
        ),
    ],
)
def test_an_exception_in_a_users_file_is_one_message_with_its_place(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    told: str,
) -> None:
    before = sorted(folder.iterdir())
    assert run(monkeypatch, *arguments) == 2
    printed = capsys.readouterr()
    assert told in printed.err and printed.err.count("error:") == 1 and not printed.out
    assert "Traceback" not in printed.err
    assert sorted(folder.iterdir()) == before


def test_the_whole_traceback_is_printed_when_asked_for(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ("explain", *ASKED, "--method", "mine.py:bad")
    assert run(monkeypatch, *command) == 2
    assert "proofmap --traceback COMMAND" in capsys.readouterr().err
    assert run(monkeypatch, "--traceback", *command) == 2
    err = capsys.readouterr().err
    assert "Traceback (most recent call last)" in err and "return layer_of(classifier)  # line 10" in err
    assert f"error: {PLACE}" in err and "--traceback" not in err
    (folder / "mine.py").write_text("import math\nmath.sqrt(-1)\n")
    assert run(monkeypatch, "--traceback", *command) == 2
    err = capsys.readouterr().err
    assert 'mine.py", line 2' in err and "mine.py cannot be run: ValueError" in err
    assert run(monkeypatch, *command) == 2
    assert "Traceback" not in capsys.readouterr().err, "only when asked for"


@pytest.mark.parametrize(
    "text, told",
    [
        ("import math\nmath.sqrt(-1)\n", r"ValueError: .* \(mine.py, line 2\)"),
        ("import sys\nsys.exit(3)\n", r"SystemExit: 3 \(mine.py, line 2\)"),
        ("def bad(:\n", r"SyntaxError: .*line 1\)"),
    ],
)
def test_a_file_that_cannot_be_run_says_where(folder: Path, text: str, told: str) -> None:
    (folder / "mine.py").write_text(text)
    with pytest.raises(pm.InputError, match=f"mine.py cannot be run: {told}"):
        pm.make_method("mine.py:bad")
    with pytest.raises(pm.core.errors.ModelError, match=f"mine.py:bad cannot be built: {told}"):
        pm.load_classifier("mine.py:bad")


def test_a_study_goes_on_and_has_the_place_in_its_records(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ("--data", "photo.png", *MODEL, "--labels", "top1", "--quiet", "--no-pictures", "--out", "run")
    assert run(monkeypatch, "evaluate", *asked, "--methods", "mine.py:bad,random") == 3
    printed = capsys.readouterr()
    assert f"failed: bad on photo.png: {PLACE}\n" in printed.err and "random" in printed.out
    with pm.Run("run") as opened:
        assert [failure.reason for failure in opened.failures()] == [PLACE]


@pytest.mark.parametrize(
    "arguments, code, told",
    [
        (
            ("--fills", "mine.py:Forgetful"),
            2,
            "the fill forgetful: backgrounds(session, images, keys) must return",
        ),
        (("--metrics", "mine.py:Undirected"), 2, "the metric undirected must say which direction is better"),
        (
            ("--metrics", "mine.py:Wide"),
            3,
            "failed: random on photo.png: the metric wide: values(judged) must return",
        ),
    ],
)
def test_a_fill_or_metric_that_returns_something_else_ends_a_study_with_one_message(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, str],
    code: int,
    told: str,
) -> None:
    asked = ("--data", "photo.png", *MODEL, "--labels", "top1", "--quiet", "--no-pictures", "--out", "run")
    assert run(monkeypatch, "evaluate", *asked, "--methods", "random", *arguments) == code
    printed = capsys.readouterr()
    assert told in printed.err and "Traceback" not in printed.err


def test_in_python_the_exception_itself_arrives_with_a_note(folder: Path) -> None:
    f, images = conv_classifier(8), pixels(2, 8)

    class Mine(Exception):
        pass

    def bad(classifier: object, images: object, labels: object) -> object:
        raise Mine("so")

    for call in (
        lambda: pm.evaluate(f, images, methods=[bad]),
        lambda: pm.explain(f, images, method=bad),
        lambda: pm.sanity_checks(f, images, methods=[bad]),
        lambda: pm.make_method(bad)(f, images, torch.zeros(2, 1, dtype=torch.long)),
    ):
        with pytest.raises(Mine) as told:
            call()
        assert str(told.value) == "so"
        (note,) = told.value.__notes__
        assert re.fullmatch(r"while the method \S*bad made maps", note)
