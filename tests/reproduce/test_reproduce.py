"""``proofmap reproduce``: every recipe runs with --quick on tiny data, by the code that the full one uses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from markupsafe import escape

from proofmap.reproduce import linear_case, run
from proofmap.reproduce.findings import Claim, Findings, Job, PaperTable
from proofmap.reproduce.recipe import Recipe
from proofmap.reproduce.rows import study_of
from proofmap.reproduce.run import reproduce
from proofmap.results.tables import number
from tests.command import run as command
from tests.reproduce.small_world import APPENDIX, PICTURED, small_data, small_maskers, small_nets

pytestmark = pytest.mark.usefixtures("small_world")
FILES = {"paper.html", "paper.json", "recipe.toml"}


@pytest.fixture
def small_world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiny nets under the names of large ones, in a folder of its own."""
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    small_nets(monkeypatch)


@pytest.mark.parametrize("name", [name for name in Recipe.names() if name not in (*APPENDIX, *PICTURED)])
def test_every_recipe_runs_quickly(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data = (
        small_data(tmp_path / "mine") if any(n.path for n in Recipe.named(name).needs) else tmp_path / "none"
    )
    if name in ("imagenette", "two-labels"):  # those of the package are for the real net
        small_maskers(data)
    assert command(monkeypatch, "reproduce", name, "--quick", "--data", str(data), "-q") == 0
    shown = capsys.readouterr().out
    folder = tmp_path / "reproduced" / f"{name}-quick"
    assert {path.name for path in folder.iterdir()} >= FILES
    told = json.loads((folder / "paper.json").read_text())
    assert told["quick"] and told["recipe"] == name and told["seed"] == 0 and told["environment"]["torch"]
    assert str(tmp_path) not in (folder / "paper.json").read_text() + (folder / "paper.html").read_text()
    page = (folder / "paper.html").read_text()
    assert told["numbers"] and "s end to end on" in shown and "s end to end on" in page
    for claim in told["claims"]:
        assert claim["statement"] in shown and escape(claim["statement"]) in page
    assert (
        "made with --quick" in page
        and "made with --quick" in shown
        and "<table>" in page
        and "data:image/png;base64," in page
    ) or name in ("desk", "imagenette", "imagenette-corner")  # tables alone
    assert not list(tmp_path.rglob(".*.part*"))
    if Recipe.named(name).experiment in ("study", "corner"):
        assert (folder / "report.html").exists() and 'href="report.html"' in page
    if name in ("cifar10-tv", "two-labels"):
        _check_study(name, folder, data)


def _check_study(name: str, folder: Path, data: Path) -> None:
    """Its folder is a run, too, which can be continued; the paper's numbers stand beside its own."""
    numbers = json.loads((folder / "paper.json").read_text())["numbers"]
    again = reproduce(name, folder, data=data, quick=True)
    assert json.loads((folder / "paper.json").read_text())["numbers"] == numbers
    settings = Recipe.named(name).settings
    paper = settings.get("paper", {})
    table = again.outcome.tables[0]
    for method, *cells in table.rows:
        for metric, cell in zip(table.header[1:], cells, strict=True):
            printed = paper.get(method, {}).get(metric)
            assert "[" in cell or "(2 equal values)" in cell
            assert printed is None or cell.endswith(f"(paper {number(float(printed))})")
    assert len(again.outcome.claims) >= len(settings.get("trends", ())) + len(settings.get("orderings", ()))
    effort = json.loads((folder / "paper.json").read_text())["effort"]
    assert effort["images"] == 2 and effort["labels"] >= 2 and effort["seconds"] > 0 and effort["device"]
    assert not effort["whole"] and effort["passes"] == 0  # all was there from the first time


def test_rows_without_a_masker_are_left_out_with_a_note(tmp_path: Path) -> None:
    data = small_data(tmp_path / "mine")
    settings = Recipe.named("two-labels").with_variant(data)
    job = Job(settings, settings.chosen(data=data), tmp_path, missing=["Phang et al."], data=data)
    assert "Phang et al." not in study_of(job).named_methods()
    (note,) = job.left_out()
    assert note.startswith("left out: Phang et al., which needs") and "maskers.train --kind phang-ca" in note


def test_distractors_are_training_images(tmp_path: Path) -> None:
    for name in ("cifar10-tv", "imagenette", "imagenette-corner"):
        methods = study_of(
            Job(Recipe.named(name), Recipe.named(name).chosen(data=tmp_path), tmp_path)
        ).named_methods()
        learned = [method for method in methods.values() if method.name == "learned-mask"]
        assert learned and all("[train]" in str(m.settings()) or "gray" in str(m.settings()) for m in learned)


def test_missing_data_is_named_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(monkeypatch, "reproduce", "cifar10-tv") == 2
    assert "data/weights/cifar10_resnet56.safetensors: weights of" in capsys.readouterr().err
    assert command(monkeypatch, "reproduce", "nothing") == 2
    assert command(monkeypatch, "reproduce", "desk", "--images", "3") == 2
    assert "leave out --images" in capsys.readouterr().err
    assert command(monkeypatch, "reproduce", "desk", "--images-seed", "3") == 2
    assert "draws no random sample of images; leave out --images-seed" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_the_list_says_what_is_ready_and_what_to_supply(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(monkeypatch, "reproduce") == 2
    assert "no recipe was named; see: proofmap list recipes" in capsys.readouterr().err
    assert command(monkeypatch, "list", "recipes") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line in Recipe.names()] == Recipe.names()
    states = {}
    for name in ("cifar10-tv", "desk"):
        assert command(monkeypatch, "list", "recipes", name) == 0
        states[name] = " ".join(capsys.readouterr().out.split())
    assert (
        "data missing" in states["cifar10-tv"] and "missing: data/cifar-10-batches-py" in states["cifar10-tv"]
    )
    assert "ready" in states["desk"] and "missing" not in states["desk"]


@pytest.mark.usefixtures("small_world")
def test_another_seed_of_images_reaches_the_study_and_its_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data, seeds = str(small_data(tmp_path / "mine")), []
    table = PaperTable("t", ("a",), (("b",),), ({"a": 1},))

    def experiment(job: Job) -> Findings:
        seeds.append((study_of(job).seed, study_of(job).images.seed))
        return Findings((table,), ())

    monkeypatch.setattr(run, "EXPERIMENTS", {"study": experiment})
    asked = ("reproduce", "cifar10-tv", "--data", data, "-q")
    for given in ([], ["--seed", "1"], ["--images-seed", "3"]):
        assert command(monkeypatch, *asked, "--out", f"run{len(seeds)}", *given) == 0
    assert seeds == [(0, 0), (1, 0), (0, 3)]
    told = [json.loads((tmp_path / f"run{k}" / "paper.json").read_text()) for k in range(3)]
    assert [(about["seed"], about["images_seed"]) for about in told] == seeds
    pages = [(tmp_path / f"run{k}" / "paper.html").read_text() for k in range(3)]
    assert ["images drawn with seed 3" in page for page in pages] == [False, False, True]
    assert command(monkeypatch, "reproduce", "two-labels", "--images-seed", "3", "--data", data) == 2
    assert "leave out --images-seed" in capsys.readouterr().err


def test_check_fails_where_a_claim_does_not_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command(monkeypatch, "reproduce", "desk", "--check", "-q") == 0
    table = PaperTable("t", ("a",), (("b",),), ({"a": 1},))
    found = Findings((table,), (Claim("pigs fly", False, "0 of 3"),))
    monkeypatch.setattr(run, "EXPERIMENTS", {"desk": lambda job: found})
    assert command(monkeypatch, "reproduce", "desk", "-q") == 0
    assert "contradicted: pigs fly (0 of 3)" in capsys.readouterr().out
    assert command(monkeypatch, "reproduce", "desk", "--check", "-q") == 1
    told = (Claim("pigs fly", False, "0 of 3", checked=False), Claim("pigs swim", None, "1 of 2"))
    monkeypatch.setattr(run, "EXPERIMENTS", {"desk": lambda job: Findings((table,), told)})
    assert command(monkeypatch, "reproduce", "desk", "--check", "-q") == 0
    assert "undecided: pigs swim (1 of 2)" in capsys.readouterr().out


def test_a_quick_run_says_above_everything_that_it_is_no_evidence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Findings(
        (PaperTable("t", ("a",), (("b",),), ({"a": 1},)),), (Claim("pigs fly", False, "0 of 3"),)
    )
    monkeypatch.setattr(run, "EXPERIMENTS", {"desk": lambda job: found})
    pages = {}
    for quick in (False, True):
        reproduce("desk", tmp_path / str(quick), data=tmp_path, quick=quick)
        pages[quick] = (tmp_path / str(quick) / "paper.html").read_text()
    first = pages[True].partition('<main class="quick">')[2].strip()
    assert first.startswith('<p class="banner" role="alert"><b>Quick run: not evidence.</b>')
    assert 'class="banner"' not in pages[False] and '<li class="fails">' in pages[False]
    assert '<li class="fails">' not in pages[True], "verdicts are gray"


def test_a_picture_that_cannot_be_read_ends_with_exit_code_3(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    data = small_data(tmp_path / "mine")
    (data / "imagenet_val" / "0001.png").write_bytes(b"no picture")
    options = ("--quick", "--images", "3", "--data", str(data), "-q")
    assert command(monkeypatch, "reproduce", "imagenet", *options) == 3
    assert "1 thing failed; report.html says which" in capsys.readouterr().out
    assert (tmp_path / "reproduced" / "imagenet-quick" / "paper.html").exists()
    report = (tmp_path / "reproduced" / "imagenet-quick" / "report.html").read_text()
    body = report.partition('<body class="quick">')[2].strip()
    assert body.startswith('<p class="banner" role="alert">Quick run: not evidence.')


def test_claims_about_the_theorem_can_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lengths that are too short are found out."""
    recipe = Recipe.named("theory")
    settings = recipe.chosen(data=tmp_path, quick=True)
    settings["curves"] = settings["curves"][:1]
    assert linear_case.run(Job(recipe, settings, tmp_path)).holds
    monkeypatch.setattr("proofmap.theory.theorem.stated_lengths", lambda *_, **__: (1, 2))
    claims = linear_case.run(Job(recipe, settings, tmp_path)).claims
    assert [claim.holds for claim in claims] == [False, False, True, True]


def test_optional_packages_leave_a_note(tmp_path: Path) -> None:
    recipe = Recipe.named("theory")
    settings = recipe.chosen(data=tmp_path, quick=True)
    found = linear_case.run(Job(recipe, settings, tmp_path, missing=["digits", "languages"]))
    assert [note.split(",")[0] for note in found.notes] == ["left out: digits", "left out: languages"]
    assert {str(record["inputs"]).split(",")[0] for record in found.tables[1].records} == {"gaussian"}
