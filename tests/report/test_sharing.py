"""What is given to others names no folder of one's own machine, and says first what failed."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

import proofmap as pm
from proofmap.cli.runs import export_run
from proofmap.core.text import one_line
from proofmap.report.figures import draw_figure
from proofmap.report.html import write_report
from proofmap.report.runs import save_run, write_run_report
from proofmap.results import score_tables
from proofmap.results.sharing import shared, without_folders
from proofmap.study import run_study
from proofmap.study.stored_run import Run
from tests.report.pages import PageParts, judged
from tests.study.studies import toy_study

pytestmark = pytest.mark.usefixtures("drawn_figures")

HOME = "/home/anna"


@pytest.mark.parametrize(
    "text, left",
    [
        ("/home/anna/net.py:make", "net.py:make"),
        ("fill=images(source=/home/anna/pool)", "fill=images(source=pool)"),
        ("--methods gradient,/home/anna/own.py:mine", "--methods gradient,own.py:mine"),
        ("--data '/home/anna/my photos/' --seed 0", "--data 'my photos' --seed 0"),
        ("cannot read /home/anna/a.png: no such file", "cannot read a.png: no such file"),
        ("file:///home/anna/a.png", "a.png"),
        ("sqlite:///home/anna/mlflow.db", "mlflow.db"),
        ("--track mlflow:sqlite:///home/anna/mlflow.db", "--track mlflow:mlflow.db"),
        ("'sqlite:////home/anna/my runs/m.db'", "'m.db'"),
        ("at sqlite:////home/anna/m.db, f", "at m.db, f"),
        ("sqlite:///mlflow.db", "mlflow.db"),
        ("postgresql://host/runs", "postgresql://host/runs"),
        ("~/photos/a.png", "a.png"),
        (r"C:\Users\anna\a.png", "a.png"),
        ("photos/a.png and ../b.png", "photos/a.png and ../b.png"),
        ("hf:org/name, 300 passes/s, f / AUC, and/or", "hf:org/name, 300 passes/s, f / AUC, and/or"),
        ("https://example.org/a/b", "https://example.org/a/b"),
        (
            "POST https://example.org/v1/{net}/a?of=/b, /home/c",
            "POST https://example.org/v1/{net}/a?of=/b, c",
        ),
        ("refused at http://[::1]:80/api/jobs, C:/a/b", "refused at http://[::1]:80/api/jobs, b"),
        (
            "port=443): failed with url: /v1/nets/a (of /home/a)",
            "port=443): failed with url: /v1/nets/a (of a)",
        ),
        ("They are in /api/about.", "They are in /api/about."),
        ("it has 3, see /api/labels; /api/anna.csv", "it has 3, see /api/labels; anna.csv"),
        ("<i>one</i>", "<i>one</i>"),
    ],
)
def test_absolute_paths_are_cut_to_their_last_part_and_nothing_else_is(text: str, left: str) -> None:
    assert without_folders(text) == left


@pytest.mark.parametrize("part", ["a", "a+", "a.", "/a", "a://", "'/a", "url: /", "/api/a", " "])
def test_long_texts_are_read_in_linear_time(part: str) -> None:
    text = part * (300_000 // len(part)) + "-"
    with ended_after(120):  # it was many minutes
        assert len(without_folders(text)) <= len(text) and len(one_line(text)) <= len(text)


@contextmanager
def ended_after(seconds: int) -> Iterator[None]:
    """Raises in a block that has used this many seconds of processor time, so that a hanging test ends."""

    def end(*_: object) -> None:
        raise AssertionError(f"it did not end in {seconds} s")

    before = signal.signal(signal.SIGVTALRM, end)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


@pytest.fixture(scope="module")
def evaluation() -> pm.Evaluation:
    """Folders wherever results can have them."""
    found = judged(
        2, 8, labels="top2", methods=["gradient", "random"], names=[f"{HOME}/1.png", f"{HOME}/2.png"]
    )
    names = [f"images(source={HOME}/pool)", f"images(source={HOME}/other/pool)"]
    results = [
        replace(
            result,
            name=name,
            settings={"fill": {"source": f"{HOME}/pool"}},
            scores=tuple(replace(s, settings={**s.settings, "file": f"{HOME}/m.py"}) for s in result.scores),
        )
        for name, result in zip(names, found.results, strict=True)
    ]
    settings = {**found.settings, "model": f"{HOME}/net.py:make"}
    return replace(found, results=tuple(results), settings=settings)


def test_shared_results_keep_their_numbers_and_have_names_of_their_own(evaluation: pm.Evaluation) -> None:
    found = shared(evaluation)
    assert [r.name for r in found.results] == ["images(source=pool)", "images(source=pool)-2"]
    assert found.image_names == ("1.png", "2.png")
    assert [s.value for r in found.results for s in r.scores] == [
        s.value for r in evaluation.results for s in r.scores
    ]


def test_no_page_table_or_caption_names_a_folder(evaluation: pm.Evaluation, tmp_path: Path) -> None:
    write_report(
        evaluation,
        tmp_path / "report.html",
        command=f"proofmap evaluate --data {HOME}/photos",
        provenance={"command 1": f"proofmap evaluate --data {HOME}/photos"},
        failures=[(f"{HOME}/bad.png", f"{HOME}/bad.png cannot be read")],
        warnings=[f"{HOME}/own.py:mine failed"],
    )
    evaluation.save(tmp_path)
    pm.Proof(evaluation).save(tmp_path / "proof")
    draw_figure("curves", evaluation=evaluation, out=tmp_path, formats=["svg"])
    texts = [p for p in tmp_path.rglob("*") if p.suffix in (".html", ".csv", ".json", ".txt", ".svg")]
    assert len(texts) >= 8
    for path in texts:
        assert "anna" not in path.read_text(), path.name
    assert (
        "anna"
        not in score_tables.shared_table(evaluation).to_latex()
        + score_tables.shared_table(evaluation).markdown()
    )
    assert "--data photos" in (tmp_path / "report.html").read_text()


def test_a_run_names_the_method_that_failed_at_the_top_and_no_folder(tmp_path: Path) -> None:
    own = tmp_path / "own.py"
    own.write_text(
        "def broken(classifier, images, labels):\n    raise ValueError('no file "
        + str(tmp_path)
        + "/x.txt')\n"
    )
    study = toy_study(tmp_path, 3, methods=("gradient", f"{own}:broken"))
    folder = tmp_path / "run"
    run_study(study, folder, command=f"proofmap evaluate --data {tmp_path}/photos --out {folder}")
    with Run(folder) as run:
        page = PageParts(write_run_report(run, tmp_path / "page.html"))
        exported = export_run(run, tmp_path / "tables")
    save_run(folder, pictures=False)
    assert "maps stored as float16" in page.text  # the usual setting: the slider cannot be exact then
    top = page.text.split("How to read this")[0]
    assert "broken failed on 3 of 3 images, first with: ValueError: no file x.txt" in top
    for path in (tmp_path / "page.html", folder / "report.html", folder / "scores.csv", *exported):
        assert str(tmp_path) not in path.read_text(), path.name
