"""Metrics with known answers are put to the tests: noise gets half of them right, the truth all, a reversed direction none; and intervals cover."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import proofmap as pm
from proofmap.classifier.blind import blinded
from proofmap.core import streams
from proofmap.core.errors import InputError
from proofmap.core.inputs import Rows, Series
from proofmap.core.ranking import rank
from proofmap.metrics import Judged
from proofmap.results.validation import Measured, Validation, rightly_ordered, share_interval
from proofmap.validation.ladder import LADDER, Places, Step
from tests.command import run
from tests.test_cli import MODEL, folder
from tests.toys import TEXT, conv_classifier, linear_classifier, pixels

__all__ = ["folder"]
NET, IMAGES = linear_classifier(16, strength=0.02), pixels(12, 16)
HALF = NET.inputs.half(0)
LINE = Series(length=20, mean=(0.0,), std=(1.0,))
COLUMNS = Rows(columns=9, mean=(0.0,) * 9, std=(1.0,) * 9)


def letters(texts: list[str]) -> list[list[float]]:
    """The more words with an a, the more probable is the first label."""
    share = [(text.count("a") + 1) / 9 for text in texts]
    return [[each, 1 - each] for each in share]


NETS = {
    "pictures": (conv_classifier(12), pixels(4, 12)),
    "series": (
        pm.Classifier(nn.Sequential(nn.Flatten(), nn.Linear(20, 3)), inputs=LINE),
        streams.uniform(torch.tensor(6), 80).view(4, 1, 20),
    ),
    "rows": (
        pm.Classifier(lambda x: x[:, :2] * 3, inputs=COLUMNS),
        streams.uniform(torch.tensor(7), 36).view(4, 9),
    ),
    "texts": (
        pm.Classifier(letters, inputs=TEXT, outputs="probabilities"),
        TEXT.encode(["a b c d e", "ab d", "b a a e", "c d e f a"]),
    ),
}


def flip(judged: Judged) -> Tensor:
    """Noise: a number that depends on the maps and on nothing else."""
    return streams.uniform(streams.image_keys(judged.maps, 0), 1)[:, 0]


def truth(judged: Judged) -> Tensor:
    """How late the positions come of which a blind net sees nothing."""
    places = rank(judged.maps[:, 0]).view(len(judged.images), -1).float()
    return (places * HALF.flatten()).mean(dim=1)


def reversed_truth(judged: Judged) -> Tensor:
    return -truth(judged)


@pytest.fixture(scope="module")
def found() -> Validation:
    return pm.validate(
        NET,
        IMAGES,
        metrics=["insertion", "deletion", "soundness", flip, truth, reversed_truth],
        methods=["gradient-x-input", "random"],
        labels="top1",
        tests=["ladder", "blind spots", "noise"],
        draws=1,
    )


def line(found: Validation, test: str, of: str, step: str = "all") -> Measured:
    measured = found.find(test, of, step)
    assert measured is not None
    return measured


def test_a_metric_that_is_noise_gets_half_of_the_pairs_right_and_is_not_trusted(found: Validation) -> None:
    for test in ("ladder", "blind spots"):
        measured = line(found, test, "flip")
        assert measured.low < 0.5 < measured.high
    assert found.verdict("flip") == "chance" and "do not trust" in found.sentence("flip")


def test_a_metric_that_is_told_the_blind_half_is_always_right_about_it(found: Validation) -> None:
    measured = line(found, "blind spots", "truth")
    assert measured.value == 1.0 and measured.low == pytest.approx(0.025 ** (1 / measured.n))


def test_a_metric_with_the_wrong_direction_is_found_out(found: Validation) -> None:
    assert line(found, "blind spots", "reversed_truth").value == 0.0
    assert found.verdict("reversed_truth") == "reversed"
    assert "prefers the worse map" in found.sentence("reversed_truth")


def test_areas_are_right_about_a_linear_net_and_soundness_is_not(found: Validation) -> None:
    """The contributions of a linear net are its best map, and every change of it lowers the area; soundness likes that."""
    for name in ("insertion", "deletion"):
        assert line(found, "ladder", name).value > 0.9 and found.verdict(name) == "passes"
    assert line(found, "ladder", "soundness").value < 0.5 and found.verdict("soundness") == "reversed"


def test_gradients_of_a_blind_net_are_zero_where_it_sees_nothing(found: Validation) -> None:
    assert line(found, "blind spots of methods", "gradient-x-input", "top 5 %").value == 0.0
    noise = line(found, "blind spots of methods", "random", "top 25 %")
    assert noise.low < 0.5 < noise.high


def test_the_images_for_a_difference_come_from_the_spread_of_the_differences(found: Validation) -> None:
    needed = line(found, "noise", "insertion", "images for .05")
    least = line(found, "noise", "insertion", "least difference")
    spread = least.value * math.sqrt(least.n) / 2.8016
    assert needed.value == max(6, math.ceil((2.8016 * spread / 0.05) ** 2 + 1.92))


def test_intervals_cover_a_known_share() -> None:
    random = np.random.default_rng(0)
    for share in (0.5, 0.9, 0.99):
        alike = np.full((1000, 24), share)
        own = alike if share > 0.95 else random.beta(10 * share, 10 * (1 - share), (1000, 24))
        ends = [share_interval(row) for row in random.binomial(10, own) / 10]
        assert np.mean([low <= share <= high for low, high in ends]) >= 0.9


def test_pairs_in_the_right_order() -> None:
    right = rightly_ordered([1.0, 0.0, 2.0, np.nan], [0.0, 1.0, 2.0, 0.0], higher_is_better=True)
    assert np.array_equal(right, [1, 0, 0.5, np.nan], equal_nan=True)
    assert rightly_ordered([1.0], [0.0], higher_is_better=False) == [0]


# ---- steps and blind nets --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("step", LADDER, ids=str)
def test_a_step_keeps_the_values_of_a_map(step: Step) -> None:
    maps, labels = (
        streams.uniform(torch.tensor(5), 1536).view(3, 2, 16, 16),
        torch.tensor([[0, 1], [1, 2], [2, -1]]),
    )
    changed, there = Places(NET.inputs, IMAGES[:3], labels, maps, 0).after(step)
    assert there.tolist() == ([True, True, False] if step.kind == "other label" else [True] * 3)
    assert torch.equal(changed.flatten(2).sort().values, maps.flatten(2).sort().values)
    assert not torch.equal(changed[0, 0], maps[0, 0])


def test_the_map_of_another_label_is_not_worse_if_it_is_the_same() -> None:
    one = streams.uniform(torch.tensor(5), 512).view(2, 1, 16, 16).repeat(1, 2, 1, 1)
    places = Places(NET.inputs, IMAGES[:2], torch.tensor([[0, 1], [1, 2]]), one, 0)
    assert places.after(Step("other label"))[1].tolist() == [False, False]


def test_a_share_of_the_positions_is_shuffled() -> None:
    maps, labels = (
        streams.uniform(torch.tensor(5), 512).view(2, 1, 16, 16),
        torch.zeros(2, 1, dtype=torch.long),
    )
    places = Places(NET.inputs, IMAGES[:2], labels, maps, 0)
    few, more = (places.after(Step("shuffled", share))[0] != maps for share in (0.1, 0.2))
    assert few.sum().item() == 2 * 26 and more.sum().item() == 2 * 51 and bool((more | ~few).all())


def test_mass_moved_into_the_blind_half_comes_first() -> None:
    maps, labels = (
        streams.uniform(torch.tensor(5), 256).view(1, 1, 16, 16),
        torch.zeros(1, 1, dtype=torch.long),
    )
    places = Places(NET.inputs, IMAGES[:1], labels, maps, 0)
    blind = int(HALF.sum())
    order = places.after(Step("into"), HALF)[0].flatten().argsort(descending=True)
    there = HALF.flatten()[order]
    assert bool(there[:blind].all()) and int(there.sum()) == blind
    own = maps.flatten()[order[~there]]
    assert bool((own.diff() <= 0).all())  # seen positions keep their order


@pytest.mark.parametrize("kind", list(NETS))
def test_a_blind_net_says_the_same_whatever_hidden_positions_show(kind: str) -> None:
    net, x = NETS[kind]
    half = net.inputs.half(3)
    assert 0.2 <= float(half.double().mean()) <= 0.8
    blind = blinded(net, half)
    shown = net.inputs.composite(~half[None], x, net.inputs.blank_like(x))
    assert torch.allclose(blind.probabilities(x), blind.probabilities(shown), atol=1e-6)
    assert torch.allclose(blind.probabilities(x), net.probabilities(shown), atol=1e-6)
    assert torch.allclose(blind.frozen().probabilities(x), net.probabilities(shown), atol=1e-5)


# ---- the outline -----------------------------------------------------------------------------------------------------


class Stripes(nn.Module):
    """Label 1 is proved by stripes of shown and hidden rows, whatever they show; label 0 by a very bright patch."""

    def forward(self, x: Tensor) -> Tensor:
        rows = x[:, 0].abs().mean(dim=2)
        striped = (rows[:, 0::2].mean(dim=1) - rows[:, 1::2].mean(dim=1)).clamp_min(0)
        bright = (x[:, 0] - 1.5).clamp_min(0).flatten(1).sum(dim=1)
        return torch.stack([2 * bright, 12 * striped, torch.full_like(bright, 5.0)], dim=1)


STRIPED = pm.Classifier(Stripes(), size=12, mean=(0.5,), std=(0.25,))


def patched(n: int, every: int) -> Tensor:
    """Pictures of noise, of which every so many have the patch."""
    x = 0.5 + 0.25 * (2 * (pixels(n, 12, channels=1) > 0.5).float() - 1)
    x[::every, :, 2:5, 2:6] = 1.0
    return x


def test_a_code_is_outline_and_evidence_is_not() -> None:
    maps = torch.zeros(16, 2, 12, 12)
    maps[:, 0, 2:5, 2:6] = 1.0
    maps[:, 1, 0::2] = 1.0
    labels = torch.tensor([[0, 1]] * 16)
    result = pm.evaluate(
        STRIPED, patched(16, 4), maps={"mine": maps}, labels=labels, metrics=["outline:points=all,others=8"]
    )
    pairs = result["mine"].pairs["outline"]
    assert float(pairs[::4, 0].nanmean()) < 0.1  # the patch proves the label, its shape does not
    assert float(pairs[:, 1].nanmean()) > 0.9  # the stripes prove theirs on any image


def test_an_encoder_draws_a_code_and_soundness_finds_it_out() -> None:
    found = pm.validate(
        STRIPED,
        patched(8, 1),
        metrics=["soundness"],
        methods=["random"],
        labels=[0, 1],
        tests=["code", "outline"],
    )
    assert line(found, "code", "soundness").low > 0.5
    assert line(found, "outline", "a code").value > 0.8


# ---- the whole -------------------------------------------------------------------------------------------------------


def test_every_test_and_its_tables(tmp_path: Path) -> None:
    net, other = (conv_classifier(12, labels=3, seed=seed) for seed in (0, 1))
    found = pm.validate(net, pixels(4, 12), metrics=["insertion", "randomisation"], points=3, judge=other)
    assert found.tested == ["insertion"] and "runs the method again" in found.metrics["randomisation"]
    file = tmp_path / "validation.json"
    file.write_text(found.json())
    assert str(Validation.load(file)) == str(found)
    record = json.loads(found.json())
    assert record["settings"]["images"] == 4 and record["sentences"] == found.sentences()
    tests = {measured.test for measured in found.lines}
    assert {"fills", "off the data", "detail", "noise", "blind spots of methods"} <= tests
    away = [measured.value for measured in found.lines if measured.test == "off the data"]
    assert len(away) == 2 and min(away) > 0
    assert any(measured.of.startswith("judge ") for measured in found.lines)


@pytest.mark.parametrize("kind", ["rows", "texts", "series"])
def test_other_kinds_of_input(kind: str) -> None:
    net, x = NETS[kind]
    found = pm.validate(
        net, x, metrics=["insertion", "completeness"], methods=["random", "greedy-insertion"], points=3
    )
    assert found.tested == ["insertion", "completeness"]
    assert {measured.test for measured in found.lines} >= {"blind spots of methods", "fills"}


@pytest.mark.parametrize(
    "options, message",
    [
        ({"tests": ["ladders"]}, "there is no test 'ladders'"),
        ({"points": 1}, "points must be at least 2"),
        ({"images": IMAGES[:1]}, "two images or more"),
    ],
)
def test_mistakes(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        pm.validate(NET, **{"images": IMAGES, **options})


@pytest.mark.parametrize(
    "shares, advice",
    [
        ([(0.9, 0.8, 1.0), (0.95, 0.9, 1.0)], "keep the fill gray: no other"),
        ([(0.6, 0.5, 0.7), (0.95, 0.9, 1.0)], "judge with the fill blur: blur gets .95 [.90, 1.00] of"),
        ([(0.6, 0.5, 0.7)], ""),
    ],
)
def test_the_fill_that_finds_surely_more_blind_spots_is_recommended(
    shares: list[tuple[float, float, float]], advice: str
) -> None:
    lines = [
        Measured("fills and blind spots", name, "all", *share, 20)
        for name, share in zip(("gray", "blur"), shares, strict=False)
    ]
    found = Validation(tuple(lines), {})
    assert found.fill_advice().startswith(advice) and bool(found.fill_advice()) is bool(advice)


def test_a_file_that_is_no_validation(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("{}")
    with pytest.raises(InputError, match="not the JSON file of a validation"):
        Validation.load(tmp_path / "x.json")
    with pytest.raises(InputError, match="there is no validation"):
        Validation.load(tmp_path / "y.json")


def test_the_report_of_a_run_shows_what_the_validation_of_its_net_found(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    usual = [*MODEL, "--methods", "gradient-x-input,random", "-q"]
    options = ["--metrics", "insertion", "--tests", "ladder", "--labels", "top2", "--points", "3"]
    assert run(monkeypatch, "validate", "photos", *usual, *options, "--out", "v") == 0
    assert "insertion: no pair has a known answer" in capsys.readouterr().out
    assert {path.name for path in (folder / "v").iterdir()} == {"validation.json", "validation.csv"}
    record = json.loads((folder / "v" / "validation.json").read_text())
    share = "90 % [80, 95]"
    known = Measured("all known", "insertion", "all", 0.9, 0.8, 0.95, 2)
    record["lines"].append(dataclasses.asdict(known))
    (folder / "v" / "validation.json").write_text(json.dumps(record))
    judged = ["evaluate", "--data", "photos", *usual, "--no-pictures", "--metrics", "insertion,deletion"]
    assert run(monkeypatch, *judged, "--out", "run", "--validation", "v/validation.json") == 0
    assert f"rightly on this net: insertion {share}" in capsys.readouterr().out
    assert f'"trust":"{share}"' in (folder / "run" / "report.html").read_text()
    record["settings"]["fingerprint"] = "another"
    (folder / "other.json").write_text(json.dumps(record))
    assert run(monkeypatch, *judged, "--out", "other", "--validation", "other.json") == 0
    found = capsys.readouterr()
    assert "is of another net" in found.err and "rightly on this net" not in found.out
    assert run(monkeypatch, *judged, "--out", "x", "--validation", "no.json") == 2
    assert run(monkeypatch, "validate", "photos", *usual, "--tests", "ladders") == 2
    assert "there is no test" in capsys.readouterr().err
