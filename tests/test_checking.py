"""Sanity checks of methods: every order draws what it says anew, the verdict goes by it, and the net stays as it is."""

from __future__ import annotations

import copy
import csv
import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch

import proofmap as pm
from proofmap.classifier.randomised import randomised
from proofmap.core.errors import InputError
from proofmap.metrics.randomisation import Randomisation
from proofmap.report.figures.sanity import sanity_figure
from proofmap.results.randomisation import SanityChecks, SanityLine
from tests.command import run
from tests.report.test_figures import drawn, words
from tests.test_cli import folder
from tests.toys import ROWS, classifier_of, conv_classifier, conv_net, pixels, values

__all__ = ["folder"]
NET, IMAGES = conv_classifier(12), pixels(4, 12)
METHODS = ["gradient-x-input", "edges"]
STEPS = [
    ("cascading", 1, ["6"], "the last layer"),
    ("cascading", 2, ["2", "6"], "the last 2 layers"),
    ("cascading", 3, ["0", "2", "6"], "all 3 layers"),
    ("bottom-up", 1, ["0"], "the first layer"),
    ("bottom-up", 2, ["0", "2"], "the first 2 layers"),
    ("bottom-up", 3, ["0", "2", "6"], "all 3 layers"),
    ("independent", 1, ["6"], "6 (1 layer)"),
    ("independent", 2, ["2"], "2 (1 layer)"),
    ("independent", 3, ["0"], "0 (1 layer)"),
    ("last", 1, ["6"], "the last layer"),
]


@pytest.fixture(scope="module")
def found() -> SanityChecks:
    """Two methods in every order."""
    return pm.sanity_checks(
        NET,
        IMAGES,
        methods=METHODS,
        labels="top2",
        orders=["cascading", "bottom-up", "independent", "last"],
        seed=7,
    )


@pytest.mark.parametrize("order, step, modules, told", STEPS)
def test_each_step_compares_with_the_net_whose_layers_were_drawn_anew(
    found: SanityChecks, order: Any, step: int, modules: list[str], told: str
) -> None:
    labels, method = NET.top(IMAGES, 2), pm.make_method("gradient-x-input")
    before, after = (
        method(net, IMAGES, labels, seed=7).flatten(0, 1) for net in (NET, randomised(NET, modules, seed=7))
    )
    for measure in ("rank", "abs-rank", "ssim"):
        line = found.find("gradient-x-input", order, step, measure)
        expected = Randomisation.compared(before, after, measure).view(4, 2).mean(dim=1)  # type: ignore[arg-type]
        assert line.value == pytest.approx(float(expected.mean()), abs=1e-6)
        assert (line.layers, line.drawn, line.of, line.n) == (told, len(modules), 3, 4)
        assert line.low <= line.value <= line.high


def test_there_is_nothing_else_and_a_floor_of_other_images(found: SanityChecks) -> None:
    assert len(found.lines) == 2 * 3 * len(STEPS)
    maps = pm.make_method("edges")(NET, IMAGES, NET.top(IMAGES, 2))
    other = torch.stack([maps[k - 1] for k in range(4)])
    floor = Randomisation.compared(maps.flatten(0, 1), other.flatten(0, 1), "rank").mean()
    (line,) = (line for line in found.floors if (line.method, line.measure) == ("edges", "rank"))
    assert line.value == pytest.approx(float(floor), abs=1e-6)
    assert pm.sanity_checks(NET, IMAGES[:1], methods=["edges"], orders=["last"]).floors == ()


def test_edges_fail_and_a_gradient_passes(found: SanityChecks) -> None:
    verdicts = found.verdicts()
    assert verdicts["edges"][0] == "fails" and "1.00" in verdicts["edges"][1]
    assert verdicts["gradient-x-input"][0] == "passes"


def with_rank(value: float, low: float, high: float, **changes: Any) -> str:
    line = SanityLine("m", "cascading", 1, "all 3 layers", 3, 3, "rank", value, low, high, 9)
    sized = dataclasses.replace(line, measure="abs-rank", value=0.1, low=0.0, high=0.2)
    fewer = dataclasses.replace(line, drawn=1, value=0.99, low=0.98, high=1.0)  # does not count
    lines = [fewer, sized, dataclasses.replace(line, **changes)]
    return SanityChecks(tuple(lines), (), ()).verdicts()["m"][0]


@pytest.mark.parametrize(
    "numbers, verdict",
    [
        ((0.2, 0.1, 0.3), "passes"),
        ((0.8, 0.7, 0.9), "fails"),
        ((0.5, 0.3, 0.6), "undecided"),
        ((0.8, float("nan"), float("nan")), "fails"),
        ((0.2, float("nan"), float("nan")), "passes"),
        ((-0.9, -1.0, -0.8), "passes"),
    ],
)
def test_the_verdict_needs_the_whole_interval(numbers: tuple[float, float, float], verdict: str) -> None:
    assert with_rank(*numbers) == verdict


def test_one_similarity_that_stays_is_enough_to_fail_and_ssim_does_not_count() -> None:
    assert with_rank(0.8, 0.7, 0.9, measure="abs-rank") == "fails"
    assert with_rank(0.8, 0.7, 0.9, measure="ssim") == "passes"
    nothing = SanityLine(
        "m", "cascading", 1, "all", 3, 3, "rank", float("nan"), float("nan"), float("nan"), 0
    )
    assert SanityChecks((nothing,), (), ()).verdicts()["m"][0] == "undecided"


def test_a_net_trained_on_shuffled_labels_is_compared_as_it_is_and_missed_where_there_is_none(
    found: SanityChecks,
) -> None:
    assert any("label randomisation was left out: it needs a net" in note for note in found.notes)
    other = conv_classifier(12, seed=3)
    found = pm.sanity_checks(NET, IMAGES, methods=METHODS, orders=[], relabelled=other)
    labels, method = NET.top(IMAGES, 1), pm.make_method("gradient-x-input")
    expected = Randomisation.compared(
        *(method(n, IMAGES, labels).flatten(0, 1) for n in (NET, other)), "rank"
    ).mean()  # type: ignore[call-arg,arg-type]
    assert found.find("gradient-x-input", "labels", 1, "rank").value == pytest.approx(
        float(expected), abs=1e-6
    )
    assert found.verdicts()["edges"][0] == "fails"
    assert not any("left out" in note for note in found.notes)
    with pytest.raises(InputError, match="the input and the labels"):
        pm.sanity_checks(NET, IMAGES, methods=METHODS, relabelled=conv_classifier(8))


def test_the_smooth_variant_is_asked_for_by_samples() -> None:
    one = pm.sanity_checks(NET, IMAGES[:2], methods=["gradient"], orders=["last"])
    smooth = pm.sanity_checks(NET, IMAGES[:2], methods=["gradient"], orders=["last"], samples=4, noise=0.3)
    assert smooth.find("gradient", "last", 1, "rank") != one.find("gradient", "last", 1, "rank")
    assert "averaged over 4 noisy copies" in smooth.notes[0]


def test_the_users_net_is_never_changed() -> None:
    net = conv_net().train()
    before, hooks = copy.deepcopy(net.state_dict()), len(net._forward_pre_hooks)
    pm.sanity_checks(pm.Classifier(net, size=12), IMAGES[:2], methods=["gradient"], orders=["cascading"])
    assert net.training and len(net._forward_pre_hooks) == hooks
    assert all(torch.equal(value, before[key]) for key, value in net.state_dict().items())


def test_rows_are_checked_without_ssim_and_distractors_are_found() -> None:
    found = pm.sanity_checks(classifier_of(ROWS), values(ROWS, 3), methods=["gradient"], orders=["last"])
    assert "ssim" not in found.measures
    hidden = "occlusion:window=6,stride=6,fill=images"
    assert pm.sanity_checks(NET, IMAGES[:2], methods=[hidden], orders=["last"]).lines


@pytest.mark.parametrize(
    "options, message",
    [
        ({"methods": []}, "no methods"),
        ({"orders": ["upwards"]}, "an order is one of cascading, bottom-up, independent, last"),
        ({"orders": []}, "nothing to check"),
        ({"groups": 0}, "at least 1"),
        ({"samples": 0}, "at least 1"),
        ({"noise": 0.0}, "above 0"),
        ({"images": IMAGES[:0]}, "no images"),
    ],
)
def test_what_cannot_be_checked_is_refused(options: dict[str, Any], message: str) -> None:
    given = {"methods": ["edges"], "images": IMAGES, **options}
    with pytest.raises(InputError, match=message):
        pm.sanity_checks(NET, given.pop("images"), **given)


def test_all_forms_say_the_same(found: SanityChecks) -> None:
    record = json.loads(found.json())
    rows = list(csv.DictReader(found.csv().splitlines()))
    assert len(record["lines"]) == len(found.lines) and len(rows) == len(found.lines) + len(found.floors)
    assert record["verdicts"][1]["verdict"] == "fails" and rows[-1]["order"] == "other image"
    for text in (str(found), found.markdown(), found._repr_html_()):
        assert "all 3 layers" in text and "verdict" in text and "other image" in text


def test_the_figure_has_a_line_for_each_method_and_a_panel_for_each_order(found: SanityChecks) -> None:
    figure = sanity_figure(found, measure="abs-rank")
    plotted = drawn(figure)
    assert {"cascading", "independent", "edges", "similarity (abs-rank)"} <= set(words(plotted))
    line = next(line for line in plotted.axes[0].lines if len(line.get_xdata()) == 4)
    assert [axis.get_title() for axis in plotted.axes] == ["cascading", "bottom-up", "independent", "last"]
    first = [
        each.value
        for each in figure.lines
        if (each.method, each.order) == (figure.lines[0].method, "cascading")
    ]
    assert list(line.get_xdata()) == [0, 1, 2, 3] and list(line.get_ydata()) == [1.0, *first]
    assert "seed 7" in figure.caption()
    with pytest.raises(InputError, match="there is no 'speed'"):
        sanity_figure(found, measure="speed")


def test_the_command_prints_and_writes_or_says_what_is_wrong(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    usual = [
        "sanity",
        "photos",
        "--model",
        "net.py:tiny",
        "--methods",
        "gradient,edges",
        "--device",
        "cpu",
        "-q",
    ]
    assert run(monkeypatch, *usual, "--out", "checked") == 0
    told = capsys.readouterr().out
    assert "hardly depend on what was learned" in told
    assert {path.name for path in (folder / "checked").iterdir()} == {
        "sanity.csv",
        "sanity.json",
        "sanity.png",
    }
    assert run(monkeypatch, *usual, "--orders", "sideways", "--out", "other") == 2
    assert "an order is one of" in capsys.readouterr().err and not (folder / "other").exists()
    assert run(monkeypatch, *usual, "--format", "json", "--number", "1", "--orders", "last") == 0
    assert json.loads(capsys.readouterr().out)["lines"][0]["n"] == 1
