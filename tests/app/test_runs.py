"""Runs below a folder: their list while they are written, reports, any image, two runs compared; nothing leads outside."""

from __future__ import annotations

import json
import os
import shutil
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from proofmap.report.runs import write_image_page, write_run_report
from proofmap.results.compare import compare
from proofmap.study import Run, run_study
from proofmap.study.store.database import Store
from tests.report.pages import PageParts
from tests.study.studies import Stop, toy_study

pytest.importorskip("fastapi")

from fastapi.testclient import TestClient

from proofmap.app.application import create_app
from proofmap.app.run_folders import RunFolders
from tests.app.served import HOME, made

GONE = 2**22 + 1  # no process has this number


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run, one two levels deep and without maps, one that was stopped, and a folder that is no run."""
    root = tmp_path_factory.mktemp("serve")
    study = toy_study(root, 4, methods=("gradient", "random"))
    run_study(study, root / "runs" / "first", threads=1)
    other = toy_study(root, 4, methods=("gradient", "random"), maps="none", seed=1)
    run_study(other, root / "runs" / "more" / "second", threads=1)
    with pytest.raises(KeyboardInterrupt):
        run_study(study, root / "runs" / "half", threads=1, watchers=[Stop(3)])
    (root / "runs" / "empty").mkdir()
    return root


@pytest.fixture
def runs(folder: Path, tmp_path: Path) -> Path:
    """The folder of runs, in a copy of its own."""
    return shutil.copytree(folder / "runs", tmp_path / "runs")


def client(root: Path | None, **options: Any) -> TestClient:
    return TestClient(create_app(made(runs=root), **options), base_url=HOME)


def ids(server: TestClient) -> dict[str, str]:
    """Name -> id of every run."""
    return {run["name"]: run["run"] for run in server.get("/api/runs").json()["runs"]}


def progress(folder: Path, *, pid: int, seconds_ago: float = 0, state: str = "running") -> None:
    updated = datetime.now(UTC) - timedelta(seconds=seconds_ago)
    content = {
        "state": state,
        "pid": pid,
        "updated": updated.isoformat(),
        "units": {"done": 3, "failed": 1, "before": 0, "total": 8},
        "passes": {"done": 90, "total": None, "per_second": 12.0},
        "seconds_left": 75.0,
        "last": "/home/anna/mine.py:gradient on block 1",
    }
    (folder / "progress.json").write_text(json.dumps(content))


# ---- the list -------------------------------------------------------------------------------------------------------


def test_the_list_says_of_each_run_what_the_run_itself_says(folder: Path) -> None:
    server = client(folder / "runs")
    listed = server.get("/api/runs").json()["runs"]
    assert [run["name"] for run in listed] == ["first", "half", "more/second"]
    with Run(folder / "runs" / "first") as run:
        found = run.evaluation()
    (first, _, second) = listed
    assert (
        first["state"] == "finished" and first["images"] == 4 and first["methods"] == ["gradient", "random"]
    )
    assert (first["maps"], second["maps"]) == ("float16", "none")
    for result in found.results:
        for score in result.scores:
            told = first["scores"][result.name][score.name]
            assert told["n"] == score.n and told["mean"] == pytest.approx(score.value, abs=1e-6)
    page = server.get("/runs").text
    assert f"/runs/{first['run']}" in page and "more/second" in page and str(folder) not in page


def test_a_run_that_is_written_shows_its_progress_and_one_whose_process_is_gone_says_so(runs: Path) -> None:
    run, server = runs / "half", client(runs)

    def state() -> str:
        return str(next(r for r in server.get("/api/runs").json()["runs"] if r["name"] == "half")["state"])

    assert state() == "unfinished"
    progress(run, pid=os.getpid())
    assert state() == "running"
    page = server.get("/runs").text
    assert "3 of 8 units, 1 failed, 12 passes a second, 75 s left, last: mine.py:gradient on block 1" in page
    assert '<progress max="8" value="4"' in page
    progress(run, pid=GONE, seconds_ago=5)  # perhaps of another machine
    assert state() == "running"
    progress(run, pid=GONE, seconds_ago=600)
    assert state() == "stopped" and "continues it" in server.get("/runs").text
    progress(run, pid=GONE, seconds_ago=-600)  # the clock was set back meanwhile
    assert state() == "stopped"
    progress(run, pid=GONE, state="interrupted")
    assert state() == "interrupted"
    for nonsense in ("", "[]", '{"state": 7}', '{"state": "running", "updated": "now"}', "[" * 100_000):
        (run / "progress.json").write_text(nonsense)
        assert state() == "unfinished"


def test_damaged_runs_are_listed_with_the_reason_and_nothing_else_breaks(runs: Path) -> None:
    (runs / "first" / "manifest.json").write_text("{}")
    server = client(runs)
    damaged = next(r for r in server.get("/api/runs").json()["runs"] if r["name"] == "first")
    assert damaged["state"] == "unreadable" and "damaged" in damaged["reason"]
    assert str(runs) not in server.get("/runs").text
    for address, status in {
        f"/runs/{damaged['run']}/report": 409,
        f"/api/runs/{damaged['run']}/images": 422,
    }.items():
        answer = server.get(address)
        assert answer.status_code == status and str(runs) not in answer.text


def test_links_that_lead_outside_and_deeper_folders_are_left_out(
    runs: Path, folder: Path, tmp_path: Path
) -> None:
    (runs / "outside").symlink_to(folder / "runs" / "first")
    (runs / "inside").symlink_to(runs / "first")  # the same run once more
    (runs / "loop").symlink_to(runs / "loop")
    deep = runs / "one" / "two" / "three"
    shutil.copytree(runs / "first", deep)
    stolen = runs / "stolen"
    stolen.mkdir()
    for name in ("manifest.json", "scores.sqlite"):
        (stolen / name).symlink_to(folder / "runs" / "first" / name)
    told = tmp_path / "told.json"
    progress(tmp_path, pid=os.getpid())
    (tmp_path / "progress.json").rename(told)
    (runs / "first" / "progress.json").symlink_to(told)
    found = {run.name: run for run in RunFolders(runs).records().runs}
    assert set(found) == {"first", "half", "more/second"}
    assert found["first"].progress is None
    assert [run.name for run in RunFolders(runs / "first").records().runs] == ["."]


# ---- pages ----------------------------------------------------------------------------------------------------------


def test_the_report_is_drawn_once_until_the_run_changes(
    runs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from proofmap.app import run_views

    drawn: list[Path] = []
    write = run_views.write_run_report
    monkeypatch.setattr(run_views, "write_run_report", lambda r, p, **o: drawn.append(p) or write(r, p, **o))
    server = client(runs)
    run = ids(server)["first"]
    first = server.get(f"/runs/{run}/report")
    assert first.status_code == 200 and server.get(f"/runs/{run}/report").content == first.content
    assert len(drawn) == 1
    page = tmp_path / "page.html"
    page.write_bytes(first.content)
    assert [m["name"] for m in PageParts(page).record["methods"]] == ["gradient", "random"]
    policy = first.headers["content-security-policy"]
    assert (
        "sandbox allow-scripts" in policy and "connect-src" not in policy
    )  # its script cannot ask the server
    before = server.get(f"/api/runs/{run}").json()["version"]
    with Store(runs / "first", create=True) as store:
        store.delete_method("random")
    assert server.get(f"/api/runs/{run}").json()["version"] != before
    page.write_bytes(server.get(f"/runs/{run}/report").content)
    assert [m["name"] for m in PageParts(page).record["methods"]] == ["gradient"] and len(drawn) == 2
    viewer = server.get(f"/runs/{run}").text
    assert f'src="/runs/{run}/report" sandbox="allow-scripts"' in viewer


def test_any_image_opens_with_its_own_maps_and_numbers(folder: Path, tmp_path: Path) -> None:
    server = client(folder / "runs")
    run = ids(server)["first"]
    with Run(folder / "runs" / "first") as opened:
        found = opened.evaluation([2])
        name = opened.images[2].name
        maps = opened.maps_of("gradient", name)
    page = tmp_path / "image.html"
    page.write_bytes(server.get(f"/runs/{run}/images/2/page").content)
    record = PageParts(page).record
    assert record["images"]["names"] == [name] and record["explained"]["headline"].startswith("The net says")
    assert [len(m["values"][0]) for m in record["methods"]] == [1, 1]
    alone = found.select_images([2])
    assert alone.f.tolist() == found.f[2:3].tolist() and alone.pictured == (0,)
    assert bool((alone.map_of(alone["gradient"], 0, 1) == maps[1]).all())
    for result, shown in zip(found.results, record["methods"], strict=True):
        values = [result.values[score.name][2].item() for score in result.scores]
        assert [row[0] for row in shown["values"]] == pytest.approx(values)
    told = server.get(f"/api/runs/{run}/images/2").json()
    assert told["name"] == name and told["maps"] == ["gradient", "random"]
    assert told["values"]["random"]["soundness"] == pytest.approx(
        found["random"].values["soundness"][2].item()
    )
    assert server.get(f"/runs/{run}/images/4").status_code == 404
    assert server.get(f"/api/runs/{run}/images/4").status_code == 404


def test_while_a_method_is_not_done_an_image_opens_with_the_others(folder: Path, tmp_path: Path) -> None:
    with Run(folder / "runs" / "half") as run:
        assert run.mapped(0) == ["gradient", "random"] and run.mapped(3) == ["gradient"]
        record = PageParts(write_image_page(run, 3, tmp_path / "page.html")).record
        report = PageParts(write_run_report(run, tmp_path / "report.html", worst=0, random=2)).record
    assert [shown["index"] for shown in report["pictured"]] == [0, 1]  # those that every method has judged
    assert [m["name"] for m in record["methods"]] == ["gradient"] and record["warnings"] == [
        "no map of random"
    ]


def test_where_maps_were_not_stored_the_page_says_how_to_store_them(folder: Path) -> None:
    server = client(folder / "runs")
    run = ids(server)["more/second"]
    answer = server.get(f"/runs/{run}/images/0/page")
    assert answer.status_code == 409 and "--maps float16" in answer.text
    assert "--maps float16" in server.get(f"/runs/{run}/images").text


def test_where_the_photo_is_gone_the_page_says_so(runs: Path, folder: Path) -> None:
    server = client(runs)
    run = ids(server)["first"]
    photo = folder / "photos" / "01.png"
    kept = photo.read_bytes()
    try:
        photo.unlink()
        answer = server.get(f"/runs/{run}/images/1/page")
    finally:
        photo.write_bytes(kept)
    assert answer.status_code == 409 and "no longer where it was" in answer.text


def test_images_are_found_sorted_and_paged(folder: Path) -> None:
    server = client(folder / "runs")
    run = ids(server)["first"]
    with Run(folder / "runs" / "first") as opened:
        values = opened.evaluation()["random"].values["deletion"].tolist()
        names = [row.name for row in opened.images]
        label = opened.label_names[opened.images[0].labels[0]]

    def ask(**query: object) -> dict[str, Any]:
        found: dict[str, Any] = server.get(f"/api/runs/{run}/images", params=query).json()
        return found

    found = ask(metric="deletion", sort="random", number=3)
    order = sorted(range(4), key=lambda k: -values[k])  # of deletion, high is worst
    assert [row["image"] for row in found["images"]] == order[:3] and found["found"] == 4
    assert [row["values"]["random"] for row in found["images"]] == pytest.approx(
        [values[k] for k in order[:3]]
    )
    assert [row["name"] for row in ask(start=1, number=2)["images"]] == names[1:3]
    assert [row["name"] for row in ask(search="02.P")["images"]] == ["02.png"]
    assert 0 in [row["image"] for row in ask(search=label)["images"]]
    assert "deletion" in server.get(f"/api/runs/{run}/images?metric=nothing").json()["error"]
    page = server.get(f"/runs/{run}/images?sort=random&metric=deletion").text
    places = [page.index(names[k]) for k in order]
    assert places == sorted(places)


# ---- two runs -------------------------------------------------------------------------------------------------------


def test_two_runs_compare_as_the_command_compares_them(folder: Path) -> None:
    server = client(folder / "runs")
    both = ids(server)
    query = {"run": both["more/second"], "against": both["first"], "allow_mismatch": True, "max_drop": 0.5}
    with Run(folder / "runs" / "first") as a, Run(folder / "runs" / "more" / "second") as b:
        expected = compare({"first": a.evaluation(), "more/second": b.evaluation()}, allow_mismatch=True)
    told = server.get("/api/runs/compare", params=query).json()
    assert [d["difference"] for d in told["differences"]] == [d.difference for d in expected.differences]
    assert {line["method"] for line in told["drops"]} == {"gradient", "random"}
    page = server.get("/runs/compare", params=query).text
    for row in expected.cells()[1]:
        assert row[5] in page and row[-1] in page
    for refused in (
        {"run": both["first"], "against": both["first"]},
        {**query, "baseline": "nothing"},
        {**query, "metrics": "nothing"},
    ):
        assert server.get("/api/runs/compare", params=refused).status_code == 422
        assert 'role="alert"' in server.get("/runs/compare", params=refused).text
    assert server.get("/runs/compare", params={**query, "max_drop": "nan"}).status_code == 400
    assert "choose a run" in server.get("/runs/compare").text


def test_without_pages_there_is_json_alone(folder: Path) -> None:
    server = client(folder / "runs", api_only=True)
    assert server.get("/api/runs").status_code == 200 and server.get("/runs").status_code == 404
    assert server.get("/api/about").json()["runs"] is True
    assert client(None).get("/api/about").json()["runs"] is False


def test_names_that_are_no_characters_are_spelled_out(runs: Path) -> None:
    if sys.platform != "linux":
        pytest.skip("file names are characters here")
    (runs / "first").rename(os.fsdecode(os.fsencode(runs) + b"/\xff<b>"))
    server = client(runs)
    name = next(run for run in ids(server) if run not in ("half", "more/second"))
    assert (
        name == "\\udcff<b>" and "<b>" not in server.get("/runs").text.replace("<b>.", "").split("</h2>")[0]
    )
    assert server.get(f"/runs/{ids(server)[name]}/report").status_code == 200
