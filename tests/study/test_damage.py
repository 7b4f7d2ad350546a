"""Damage to a run directory: whatever is changed, cut or deleted is named, and repaired or refused."""

from __future__ import annotations

import json
import random
import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from proofmap.core.errors import ProofmapError
from proofmap.study import Run, StoreError, Study, export_run, run_study, verify_run
from tests.data.made_up import noise, save
from tests.study.processes import Processes
from tests.study.studies import facts, toy_study, values

DATABASE = "scores.sqlite"


# ---- maps -----------------------------------------------------------------------------------------------------


def first_maps(folder: Path) -> Path:
    return min((folder / "maps").iterdir())


def flip(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 0x10
    path.write_bytes(content)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


@pytest.mark.parametrize(
    "harm, told",
    [
        (lambda path: flip(path, path.stat().st_size // 2), "its content is not what was written"),
        (lambda path: flip(path, 3), "its content is not what was written"),
        (cut, "bytes, .* were written"),
        (Path.unlink, "cannot be read"),
    ],
    ids=["flipped", "header", "cut", "gone"],
)
def test_a_damaged_file_of_maps_is_named_and_made_anew(
    harm: Callable[[Path], None], told: str, run: tuple[Study, Path]
) -> None:
    study, folder = run
    before = facts(folder)
    path = first_maps(folder)
    harm(path)
    (problem,) = verify_run(folder)
    assert problem.path == path
    assert re.search(told, problem.what)
    with pytest.raises(StoreError, match=f"{path.name} is damaged.*--repair"):
        read_all_maps(folder)
    verify_run(folder, repair=True)
    assert run_study(study, folder).units == 1
    assert facts(folder) == before and verify_run(folder) == []


def read_all_maps(folder: Path) -> None:
    with Run(folder) as run:
        for method in run.methods:
            for image in run.images:
                run.maps_of(method, image.name)


@pytest.mark.parametrize("harm", [cut, Path.unlink], ids=["cut", "gone"])
def test_a_run_does_not_go_on_over_maps_that_are_cut_or_gone(
    harm: Callable[[Path], None], run: tuple[Study, Path]
) -> None:
    study, folder = run
    harm(first_maps(folder))
    with pytest.raises(StoreError, match=f"{first_maps(folder).parent}.*is damaged.*verify .* --repair"):
        run_study(study, folder)


def test_exact_maps_with_a_flipped_byte_are_made_anew_for_a_new_metric(tmp_path: Path) -> None:
    study = toy_study(tmp_path, 2, methods=["gradient"], maps="float32", metrics=["insertion"])
    both = replace(study, metrics=("insertion", "deletion"))
    run_study(study, tmp_path / "run")
    flip(first_maps(tmp_path / "run"), -5)
    run_study(both, tmp_path / "run")
    run_study(both, tmp_path / "fresh")
    assert facts(tmp_path / "run")["per_label"] == facts(tmp_path / "fresh")["per_label"]
    assert verify_run(tmp_path / "run") == [], "the file was written anew, too"


@pytest.mark.parametrize("way", ["absolute", "parent", "parent-of-maps", "folder", "bytes"])
def test_a_name_that_leads_out_of_the_run_is_damage_and_nothing_is_removed_there(
    way: str, run: tuple[Study, Path], tmp_path: Path
) -> None:
    study, folder = run
    before = facts(folder)
    mine = tmp_path / "maps" / "mine.safetensors"
    mine.parent.mkdir()
    mine.write_bytes(b"precious")
    name = {
        "absolute": str(mine),
        "parent": "../maps/mine.safetensors",
        "parent-of-maps": "maps/../../maps/mine.safetensors",
        "folder": "maps/",
        "bytes": b"maps/x",
    }[way]
    with closing(sqlite3.connect(folder / DATABASE)) as database:
        database.execute("UPDATE units SET maps = ? WHERE id = 1", (name,))
        database.commit()
    for attempt in (lambda: run_study(study, folder), lambda: read_all_maps(folder)):
        with pytest.raises(StoreError, match=r"(?s)is damaged: it names .*verify"):
            attempt()
    problems = verify_run(folder, repair=True)
    assert any("it names" in problem.what and problem.unit == 1 for problem in problems)
    assert mine.read_bytes() == b"precious" and folder.is_dir()
    assert run_study(study, folder).units == 1
    assert facts(folder) == before and verify_run(folder) == []


def test_a_folder_of_maps_that_is_a_link_is_refused_and_nothing_is_removed_there(
    run: tuple[Study, Path], tmp_path: Path
) -> None:
    study, folder = run
    (folder / "maps").rename(tmp_path / "elsewhere")
    mine = tmp_path / "elsewhere" / "mine.safetensors"
    mine.write_bytes(b"precious")
    (folder / "maps").symlink_to(tmp_path / "elsewhere")
    for attempt in (
        lambda: run_study(study, folder),
        lambda: verify_run(folder, repair=True),
        lambda: read_all_maps(folder),
    ):
        with pytest.raises(StoreError, match=r"maps is a link to .*outside the run directory"):
            attempt()
    assert mine.read_bytes() == b"precious"


# ---- the database ---------------------------------------------------------------------------------------------


def overwrite(path: Path, at: int, content: bytes) -> None:
    with open(path, "r+b") as file:
        file.seek(at)
        file.write(content)


@pytest.mark.parametrize(
    "harm",
    [
        lambda path: path.write_text("these are not the numbers you are looking for\n" * 100),
        lambda path: overwrite(path, 0, b"X" * 16),
        lambda path: overwrite(path, path.stat().st_size // 2 // 4096 * 4096, b"\xff" * 4096),
        lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
        lambda path: path.write_bytes(path.read_bytes()[:100]),
        lambda path: overwrite(path, 68, b"\0\0\0\7"),  # the application's number
    ],
    ids=["text", "header", "page", "half", "stump", "stranger"],
)
def test_a_damaged_database_is_named_set_aside_and_made_anew(
    harm: Callable[[Path], None], run: tuple[Study, Path]
) -> None:
    study, folder = run
    before = facts(folder)
    harm(folder / DATABASE)
    (problem,) = verify_run(folder)
    assert problem.path == folder / DATABASE
    with pytest.raises(ProofmapError, match=DATABASE):
        run_and_read(study, folder)
    verify_run(folder, repair=True)
    assert (folder / f"{DATABASE}.damaged-1").exists() and not (folder / DATABASE).exists()
    assert run_study(study, folder).units == 6
    assert facts(folder) == before and verify_run(folder) == []


def run_and_read(study: Study, folder: Path) -> None:
    run_study(study, folder)
    with Run(folder) as opened:
        opened.evaluation()
    pytest.fail("nothing was noticed")


def test_a_missing_database_is_reported_and_computed_again(run: tuple[Study, Path]) -> None:
    study, folder = run
    before = facts(folder)
    (folder / DATABASE).unlink()
    (problem,) = verify_run(folder, repair=True)
    assert "missing" in problem.what
    with pytest.raises(StoreError, match=f"has no {DATABASE}: .* computes it again"):
        Run(folder)
    assert run_study(study, folder).units == 6 and facts(folder) == before


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE image_scores SET value = value + 1e-9 WHERE rowid_is_first",
        "UPDATE label_scores SET value = NULL WHERE rowid_is_first",
        "DELETE FROM image_scores WHERE rowid_is_first",
        "UPDATE curves SET auc = zeroblob(length(auc)) WHERE rowid_is_first",
        "UPDATE curves SET game = 'insertion' WHERE rowid_is_first",
        "UPDATE curves SET seal = 'x' WHERE rowid_is_first",
        "UPDATE done SET unit = unit + 1 WHERE rowid_is_first",
        "UPDATE units SET seal = 'x' WHERE id = 1",
    ],
)
def test_a_changed_value_is_named_and_only_its_unit_is_made_anew(
    statement: str, run: tuple[Study, Path]
) -> None:
    study, folder = run
    before = facts(folder)
    change(folder, statement)
    problems = verify_run(folder)
    assert problems and all(DATABASE in str(p) and p.unit is not None for p in problems)
    assert verify_run(folder) == problems, "looking changes nothing"
    verify_run(folder, repair=True)
    assert 1 <= run_study(study, folder).units <= 2
    assert facts(folder) == before and verify_run(folder) == []


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE image_scores SET value = 1 WHERE method = 1",
        "UPDATE label_scores SET value = 1 WHERE method = 1",
        "UPDATE curves SET probabilities = zeroblob(length(probabilities)) WHERE method = 1",
        "UPDATE image_labels SET f = 1 WHERE image = 2",
        "UPDATE images SET name = 'x' WHERE id = 2",
        "UPDATE labels SET name = 'cow' WHERE label = 0",
        "UPDATE methods SET label_free = 1 WHERE id = 1",
        "UPDATE metrics SET higher_is_better = 0 WHERE id = 1",
        "UPDATE notes SET value = '{}' WHERE key LIKE 'insertion%'",
        "DELETE FROM image_scores WHERE method = 1",
        "DELETE FROM label_scores WHERE method = 1",
        "DELETE FROM curves WHERE method = 1 AND image = 1",
        "DELETE FROM curves",
        "DELETE FROM done WHERE method = 1",
        "DELETE FROM units WHERE method = 1",
        "DELETE FROM images WHERE id = 2",
        "DELETE FROM image_labels WHERE image = 2",
        "DELETE FROM labels WHERE label = 0",
        "DELETE FROM methods WHERE id = 1",
        "DELETE FROM methods WHERE id = 3",
        "DELETE FROM metrics WHERE id = 1",
        "DELETE FROM notes WHERE key LIKE 'insertion%'",
    ],
)
def test_no_reader_passes_on_what_was_changed_or_deleted(statement: str, run: tuple[Study, Path]) -> None:
    """Readers and the next run name the command that helps, and after it all is as it was."""
    study, folder = run
    before = values(folder)
    with closing(sqlite3.connect(folder / DATABASE)) as database:
        assert database.execute(statement).rowcount >= 1
        database.commit()
    for read in (lambda run: run.evaluation(), lambda run: export_run(run, folder / "export")):
        with pytest.raises(StoreError, match=rf"{DATABASE} is damaged: .*proofmap verify .*--repair"), Run(folder) as opened:  # fmt: skip
            read(opened)
    assert verify_run(folder)
    verify_run(folder, repair=True)
    assert run_study(study, folder).failed == 0 and verify_run(folder) == []
    assert values(folder) == pytest.approx(before, rel=1e-5)  # a picture may come into another block


@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM done WHERE method = 1",
        "DELETE FROM units WHERE method = 1",
        "DELETE FROM methods WHERE id = 3",
        "DELETE FROM metrics WHERE id = 5",
    ],
)
def test_a_run_is_not_continued_over_missing_rows(statement: str, run: tuple[Study, Path]) -> None:
    study, folder = run
    with closing(sqlite3.connect(folder / DATABASE)) as database:
        assert database.execute(statement).rowcount >= 1
        database.commit()
    with pytest.raises(StoreError, match=rf"{DATABASE} is damaged: .*proofmap verify .*--repair"):
        run_study(study, folder)


def test_a_failure_that_was_deleted_is_noticed(tmp_path: Path) -> None:
    def fails_on_one(classifier: Any, images: Any, labels: Any) -> Any:
        if (images[:, 0, 0, 0] > 0.999).any():
            raise ValueError("too bright")
        return images.mean(dim=1, keepdim=True).expand(-1, labels.shape[1], -1, -1)

    study = toy_study(tmp_path, 4, methods=[{"method": fails_on_one, "name": "mine"}])
    pixels = noise(9, 8, 8)
    pixels[0, 0] = 255
    save(tmp_path / "photos", "01.png", pixels)
    assert run_study(study, tmp_path / "run").failed == 1 and verify_run(tmp_path / "run") == []
    with closing(sqlite3.connect(tmp_path / "run" / DATABASE)) as database:
        assert database.execute("DELETE FROM failures").rowcount == 1
        database.commit()
    with pytest.raises(StoreError, match=r"neither values nor a failure.*--repair"), Run(tmp_path / "run") as opened:  # fmt: skip
        opened.evaluation()
    (problem,) = verify_run(tmp_path / "run", repair=True)
    assert "neither values nor a failure" in problem.what
    assert run_study(study, tmp_path / "run").failed == 1 and verify_run(tmp_path / "run") == []


def change(folder: Path, statement: str) -> None:
    first = (
        "method = 1 AND image = 2" if "done" not in statement else "method = 1 AND block = 0 AND metric = 1"
    )
    if "image_scores" in statement:
        first += " AND metric = 1"
    if "label_scores" in statement:
        first += " AND metric = 1 AND place = 1"
    with closing(sqlite3.connect(folder / DATABASE)) as database:
        assert database.execute(statement.replace("rowid_is_first", first)).rowcount == 1
        database.commit()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE images SET name = 'other' WHERE id = 2",
        "UPDATE images SET truth = 3 WHERE id = 2",
        "UPDATE image_labels SET f = f / 2 WHERE image = 2 AND place = 1",
        "UPDATE image_labels SET label = (label + 1) % 5 WHERE image = 2 AND place = 1",
        "UPDATE labels SET name = 'cow' WHERE label = 0",
        "UPDATE methods SET name = 'gradieot' WHERE id = 1",
        "UPDATE metrics SET higher_is_better = 0 WHERE id = 1",
        "UPDATE metrics SET least = -1 WHERE id = 1",
        "UPDATE images SET true_labels = '[1, 2]' WHERE id = 2",
        "UPDATE notes SET value = '{' WHERE key LIKE 'insertion%'",
        "UPDATE notes SET value = '{}' WHERE key = 'manifest.json'",
    ],
)
def test_a_change_to_what_all_units_share_is_noticed(statement: str, run: tuple[Study, Path]) -> None:
    study, folder = run
    before = facts(folder)
    with closing(sqlite3.connect(folder / DATABASE)) as database:
        assert database.execute(statement).rowcount == 1
        database.commit()
    (problem,) = verify_run(folder, repair=True)
    assert "not what was written" in problem.what
    run_study(study, folder)
    assert facts(folder) == before


def complaint_of(folder: Path) -> str:
    """What is said to a person who reads the run; empty if nothing."""
    try:
        with Run(folder) as opened:
            opened.evaluation()
    except ProofmapError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("flips", [25, pytest.param(100, marks=pytest.mark.slow)])
def test_wherever_one_byte_of_the_database_flips_no_wrong_number_passes(flips: int, tmp_path: Path) -> None:
    """Either verify sees it, or every number is what it was; and whatever is raised says what to do."""
    folder = tmp_path / "run"
    run_study(toy_study(tmp_path, 6, metrics=()), folder)  # long curves: many bytes that matter
    before = {key: facts(folder)[key] for key in ("per_image", "per_label", "curves", "labels")}
    content = (folder / DATABASE).read_bytes()
    drawn = random.Random(0)
    seen = 0
    for _ in range(flips):
        damaged = bytearray(content)
        damaged[drawn.randrange(len(damaged))] ^= 1 << drawn.randrange(8)
        (folder / DATABASE).write_bytes(damaged)
        for ending in ("-wal", "-shm"):
            (folder / (DATABASE + ending)).unlink(missing_ok=True)
        if problems := verify_run(folder):
            seen += 1
            assert all(str(folder) in str(problem) for problem in problems)
        else:
            now = facts(folder)
            assert {key: now[key] for key in before} == before
        told = complaint_of(folder)
        assert not told or DATABASE in told or "proofmap verify" in told
    assert seen > flips / 6, "the bytes that matter were hit too seldom"


def test_a_lost_journal_loses_only_what_was_in_it(processes: Processes, tmp_path: Path) -> None:
    """A directory copied without its -wal: what is there is whole, the rest is made anew."""
    study = toy_study(tmp_path)
    processes.run(study, tmp_path / "whole")
    child = processes.start(study, tmp_path / "run", kill_at=150)
    assert child.result() is None
    journal = tmp_path / "run" / f"{DATABASE}-wal"
    assert journal.stat().st_size > 0
    journal.unlink()
    (tmp_path / "run" / f"{DATABASE}-shm").unlink()
    processes.run(study, tmp_path / "run")
    assert facts(tmp_path / "run") == facts(tmp_path / "whole")


# ---- the manifest ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "null", "{}", '{"schema": "x"}', '{"batches": 5}', "\x00\xff"],
)
def test_a_damaged_manifest_is_named_and_restored(content: str, run: tuple[Study, Path]) -> None:
    study, folder = run
    before, path = facts(folder), folder / "manifest.json"
    written = path.read_bytes()
    path.write_text(content, encoding="latin-1")
    for attempt in (lambda: run_study(study, folder), lambda: Run(folder)):
        with pytest.raises(
            StoreError, match=r"manifest\.json is damaged.*verify .* --repair.*choose another --out"
        ):
            attempt()
    (problem,) = verify_run(folder)
    assert problem.path == path and "copy in the database" in problem.what
    assert path.read_bytes() != written, "looking changes nothing"
    verify_run(folder, repair=True)
    assert path.read_bytes() == written and verify_run(folder) == []
    assert run_study(study, folder).units == 0 and facts(folder) == before


def test_a_manifest_that_is_gone_is_restored(run: tuple[Study, Path]) -> None:
    _, folder = run
    written = (folder / "manifest.json").read_bytes()
    (folder / "manifest.json").unlink()
    (problem,) = verify_run(folder, repair=True)
    assert "missing" in problem.what
    assert (folder / "manifest.json").read_bytes() == written and verify_run(folder) == []


def test_a_damaged_manifest_of_a_run_without_a_copy_cannot_be_restored(run: tuple[Study, Path]) -> None:
    _, folder = run
    with closing(sqlite3.connect(folder / DATABASE)) as database:
        database.execute("DELETE FROM notes WHERE key = 'manifest.json'")
        database.commit()
    (folder / "manifest.json").write_text("{")
    with pytest.raises(StoreError, match=r"manifest\.json is damaged.*choose another --out"):
        verify_run(folder, repair=True)
    assert (folder / "manifest.json").read_text() == "{"


@pytest.mark.parametrize(
    "change",
    [
        lambda content: {**content, "study": {**content["study"], "images": {"number": 2}}},
        lambda content: {**content, "environments": []},
        lambda content: {**content, "threads": 64},
        lambda content: {key: value for key, value in content.items() if key != "digest"},
    ],
    ids=["number", "environments", "threads", "digest"],
)
def test_an_edited_manifest_is_noticed_and_restored(
    change: Callable[[dict[str, Any]], dict[str, Any]], run: tuple[Study, Path]
) -> None:
    _, folder = run
    path = folder / "manifest.json"
    written = path.read_bytes()
    path.write_text(json.dumps(change(json.loads(written))))
    with pytest.raises(StoreError, match=r"manifest\.json is damaged: its .*verify .* --repair"):
        Run(folder)
    verify_run(folder, repair=True)
    assert path.read_bytes() == written and verify_run(folder) == []


def test_a_run_with_nothing_to_do_leaves_its_manifest_alone(run: tuple[Study, Path]) -> None:
    study, folder = run
    before = (folder / "manifest.json").stat()
    run_study(study, folder)
    after = (folder / "manifest.json").stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


@pytest.mark.parametrize("key", ["identity", "study", "batches", "threads", "images_per_unit"])
def test_a_manifest_without_a_part_is_damaged(key: str, run: tuple[Study, Path]) -> None:
    study, folder = run
    content = json.loads((folder / "manifest.json").read_text())
    del content[key]
    (folder / "manifest.json").write_text(json.dumps(content))
    with pytest.raises(StoreError, match=f"is damaged.*{key}"):
        run_study(study, folder)


def test_scores_without_a_manifest_are_not_continued(run: tuple[Study, Path]) -> None:
    """Nobody knows any more what these are the numbers of."""
    study, folder = run
    before = facts(folder)
    (folder / "manifest.json").unlink()
    with pytest.raises(StoreError, match="manifest"):
        Run(folder)
    with pytest.raises(StoreError, match=r"manifest\.json.*choose another --out"):
        run_study(study, folder)
    assert facts(folder) == before
