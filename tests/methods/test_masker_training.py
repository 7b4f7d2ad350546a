"""How long maskers are trained, and what a look at their maps tells."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core.progress import Lines, Progress
from proofmap.methods import Method, train_masker
from proofmap.methods.maskers import training
from proofmap.methods.maskers.file import (
    PACKAGED,
    Header,
    MapSummary,
    MaskerWarning,
    read_header,
    summarise_maps,
)
from proofmap.methods.maskers.nets import RealTimeNet
from proofmap.methods.maskers.objective import Adam
from proofmap.methods.maskers.training import Training
from tests.toys import conv_classifier, pixels


class Stopped(BaseException):
    pass


class Clock:
    """A clock on which each step takes so many seconds, with a list of the steps' places and rates; may end the run."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, step: float) -> None:
        self.now, self.places, self.rates, self.kept = 1000.0, list[int](), list[float](), list[int]()
        self.stop_after = math.inf
        learn, save, move = Training._learn, Training._save, Adam.step

        def learned(made: Training, place: int) -> Tensor:
            if len(self.places) >= self.stop_after:
                raise Stopped
            self.now += step
            self.places.append(place)
            return learn(made, place)

        def saved(made: Training, path: Path) -> None:
            self.kept.append(made.step)
            save(made, path)

        def moved(adam: Adam, rate: float) -> None:
            self.rates.append(rate)
            move(adam, rate)

        monkeypatch.setattr(Adam, "step", moved)
        monkeypatch.setattr(Training, "_learn", learned)
        monkeypatch.setattr(Training, "_save", saved)
        monkeypatch.setattr(training, "monotonic", lambda: self.now)


def trained(out: Path, kind: str = "phang-fix", **options: Any) -> Path:
    usual = {"steps": 100, "batch": 2, "width": 4}
    return train_masker(kind, conv_classifier(), pixels(6, 8), out=out, **{**usual, **options})


def test_a_training_with_little_time_goes_through_its_schedule(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch, step=10)
    header = Header.parse(read_header(trained(tmp_path / "m.safetensors", "belief", minutes=1)))
    assert clock.places == [0, 16, 33, 50, 66, 83]  # of 100, at seconds 0, 10, ..., 50 of 60
    assert clock.rates == pytest.approx([1e-3 * (1 + math.cos(math.pi * k / 100)) for k in clock.places])
    assert (header.made, header.recipe.steps, header.recipe.minutes) == (6, 100, 1)


def test_the_phases_of_a_training_have_their_shares_of_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The selector of real-time saliency learns for a quarter of it, and the decoder for the rest."""
    clock, selecting = Clock(monkeypatch, step=6), list[bool]()
    evidence = RealTimeNet.evidence

    def noted(net: RealTimeNet, top: Tensor, labels: Tensor) -> Tensor:
        selecting.append(True)
        return evidence(net, top, labels)

    monkeypatch.setattr(RealTimeNet, "evidence", noted)
    trained(tmp_path / "m.safetensors", "dabkowski", minutes=1)
    assert len(clock.places) == 10 and len(selecting) == 3  # those that begin before second 15


def test_time_that_suffices_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch, step=10)
    limited = trained(tmp_path / "limited.safetensors", steps=4, minutes=1)
    assert clock.places == [0, 1, 2, 3]
    plain = trained(tmp_path / "plain.safetensors", steps=4)
    one, other = load_file(limited), load_file(plain)
    assert all(torch.equal(one[name], other[name]) for name in other)
    assert Header.parse(read_header(plain)).made == 4


def test_time_before_a_stop_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, out = Clock(monkeypatch, step=10), tmp_path / "m.safetensors"
    clock.stop_after = 3
    with pytest.raises(Stopped):
        trained(out, minutes=1, every=1)
    clock.stop_after, clock.now = math.inf, 77.0  # another process has another clock
    assert Header.parse(read_header(trained(out, minutes=1, every=1))).made == 6
    assert clock.places == [0, 16, 33, 50, 66, 83]


def test_progress_tells_the_time_that_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Clock(monkeypatch, step=6)
    told = io.StringIO()
    trained(tmp_path / "m.safetensors", minutes=1.5, progress=Lines(told, every=0))
    assert "minute 1.0 of 1.5, step 10, loss " in told.getvalue()


def test_slow_steps_are_kept_every_five_minutes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch, step=200)
    trained(tmp_path / "m.safetensors", steps=7, every=1000)
    assert clock.kept == [2, 4, 6]


def test_maskers_and_checkpoints_of_earlier_versions_are_known(tmp_path: Path) -> None:
    header = Header.parse(read_header(trained(tmp_path / "m.safetensors", steps=1)))
    old = json.loads(header.text())
    assert old.pop("made") == 1 and old.pop("learned")["images"] == 6
    del old["recipe"]["minutes"]
    assert header.matches(json.dumps(old))
    old["recipe"]["minutes"] = 3
    assert not header.matches(json.dumps(old))
    assert not header.matches("{}")
    for path in PACKAGED.glob("*.phang-*.safetensors"):
        assert Header.parse(read_header(path)).made is None


# ---- what was learned -------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Given(Method):
    """A method that makes the maps it is given, times a factor."""

    name = "given"
    factor: float = 1.0

    def compute(
        self, classifier: Classifier, images: Tensor, labels: Tensor, *, seed: int, progress: Progress
    ) -> Tensor:
        return self.factor * MAPS[: len(images), : labels.shape[1]]


@dataclass(frozen=True, kw_only=True)
class GivenOne(Given):
    name = "given-one"
    label_free = True


MAPS = torch.randn(5, 2, 8, 8, generator=torch.Generator().manual_seed(0)) + 0.5


@pytest.fixture
def maps(monkeypatch: pytest.MonkeyPatch) -> Tensor:
    """A copy, to be changed, that the methods make."""
    copy = MAPS.clone()
    monkeypatch.setitem(globals(), "MAPS", copy)
    return copy


def seen(method: Method) -> MapSummary:
    return summarise_maps(method.prepare(conv_classifier()), pixels(5, 8))


def test_a_look_tells_how_maps_vary_and_differ(maps: Tensor) -> None:
    maps[1, 1] = 3 * maps[1, 0] + 1  # the same order
    maps[2, 1] = -maps[2, 0]
    r = [np.corrcoef(*image.flatten(1).numpy())[0, 1] for image in maps]
    found = seen(Given())
    assert found.images == 5 and found.flat == 0 and found.equal == 0.2  # opposite maps are not the same
    assert found.correlation == pytest.approx(np.abs(r).mean(), rel=1e-3)
    assert found.mean == pytest.approx(maps.numpy().mean(), rel=1e-3)
    assert found.spread == pytest.approx(maps.flatten(2).numpy().std(axis=2).mean(), rel=1e-3)
    assert found.problems() == []
    assert seen(GivenOne()).correlation is None and seen(GivenOne()).equal is None


@pytest.mark.parametrize(
    "fail, told",
    [
        (lambda x: x[:, 1].copy_(x[:, 0]), ["of the two likeliest labels are equal"]),
        (lambda x: x.fill_(0.005), ["are constant", "of the two likeliest labels are equal"]),
        (lambda x: x.mul_(1e-5).add_(0.5), ["are constant", "of the two likeliest labels are equal"]),
        (lambda x: x.mul_(1e4), ["are very large"]),
        (lambda x: x[:, 0].fill_(0.0), []),  # one of two: it differs from the other
    ],
)
def test_a_look_doubts_maps_that_say_nothing(
    fail: Callable[[Tensor], Tensor], told: list[str], maps: Tensor
) -> None:
    fail(maps)
    doubts = seen(Given()).problems()
    assert len(doubts) == len(told) and all(word in doubt for word, doubt in zip(told, doubts, strict=True))


def test_an_empty_mask_for_all_labels_is_told_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forward = RealTimeNet.forward

    def closed(net: RealTimeNet, *args: Any) -> Tensor:
        return 0.005 + 1e-6 * forward(net, *args)

    monkeypatch.setattr(RealTimeNet, "forward", closed)
    with pytest.warns(MaskerWarning) as caught:
        out = trained(tmp_path / "m.safetensors", "dabkowski", steps=2)
    told = [str(warning.message) for warning in caught]
    assert "its maps are constant" in told[0] and "do not depend on the label. Try more steps" in told[1]
    learned = Header.parse(read_header(out)).learned
    assert learned is not None and learned.spread < 1e-5
    assert learned == MapSummary(6, learned.mean, learned.spread, flat=1.0, correlation=1.0, equal=1.0)
    assert learned.mean == pytest.approx(0.005, abs=1e-5)


def test_the_look_is_at_images_from_all_over_the_data(tmp_path: Path) -> None:
    images = torch.linspace(0, 1, 40)[:, None, None, None].expand(40, 3, 8, 8)
    out = train_masker(
        "belief", conv_classifier(), pixels(40, 8), out=tmp_path / "m.safetensors", steps=1, batch=2, width=4
    )
    learned = Header.parse(read_header(out)).learned
    assert learned is not None and learned.images == 16
    assert learned.correlation is not None and 1.5 < learned.spread < 2.1  # maps of deviation 2
    made = Training(Header.parse(read_header(out)).recipe, conv_classifier(), images, None, "lines")
    some = made.sample_images(3)[:, 0, 0, 0]
    torch.testing.assert_close(some, images[[0, 20, 39], 0, 0, 0])
