"""Damage to a run directory: it is named when the file is opened, and what was lost is computed again."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from proofmap.core.errors import ProofmapError
from proofmap.study import Run, StoreError, Study, run_study, verify_run
from tests.study.processes import Processes
from tests.study.studies import facts, toy_study

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


def read_all_maps(folder: Path) -> None:
    with Run(folder) as run:
        for method in run.methods:
            for image in run.images:
                run.maps_of(method, image.name)


@pytest.mark.parametrize(
    "harm",
    [lambda path: flip(path, path.stat().st_size // 2), lambda path: flip(path, 3), cut, Path.unlink],
    ids=["flipped", "header", "cut", "gone"],
)
def test_a_damaged_file_of_maps_is_named_and_made_anew_when_it_is_gone(
    harm: Callable[[Path], None], study: Study, folder: Path
) -> None:
    before, path = facts(folder), first_maps(folder)
    harm(path)
    (problem,) = verify_run(folder)
    assert str(path) in problem and "remove it" in problem
    with pytest.raises(StoreError, match=f"{path.name} is damaged.*computes what it held again"):
        read_all_maps(folder)
    path.unlink(missing_ok=True)
    with pytest.warns(UserWarning, match="1 file of maps in .* is missing, and computed again"):
        assert run_study(study, folder).units == 1
    assert facts(folder) == before and verify_run(folder) == []


def test_exact_maps_with_a_flipped_byte_are_made_anew_for_a_new_metric(tmp_path: Path) -> None:
    study = toy_study(tmp_path, 2, methods=["gradient"], maps="float32", metrics=["insertion"])
    both = replace(study, metrics=("insertion", "deletion"))
    run_study(study, tmp_path / "run")
    flip(first_maps(tmp_path / "run"), -5)
    run_study(both, tmp_path / "run")
    run_study(both, tmp_path / "fresh")
    assert facts(tmp_path / "run")["per_label"] == facts(tmp_path / "fresh")["per_label"]
    assert verify_run(tmp_path / "run") == [], "the file was written anew, too"


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
    ],
    ids=["text", "header", "page", "half", "stump"],
)
def test_a_damaged_database_is_named_when_it_is_opened_and_made_anew_when_it_is_removed(
    harm: Callable[[Path], None], study: Study, folder: Path
) -> None:
    before = facts(folder)
    harm(folder / DATABASE)
    content = (folder / DATABASE).read_bytes()
    for attempt in (lambda: Run(folder), lambda: run_study(study, folder), lambda: verify_run(folder)):
        with pytest.raises(ProofmapError, match=DATABASE):
            attempt()
    assert (folder / DATABASE).read_bytes() == content, "a damaged file is left alone"
    for path in folder.glob(f"{DATABASE}*"):
        path.unlink()
    assert run_study(study, folder).units == 6
    assert facts(folder) == before and verify_run(folder) == []


def test_a_missing_database_is_reported_and_computed_again(study: Study, folder: Path) -> None:
    before = facts(folder)
    (folder / DATABASE).unlink()
    for attempt in (lambda: Run(folder), lambda: verify_run(folder)):
        with pytest.raises(StoreError, match=f"has no {DATABASE}: .* computes it again"):
            attempt()
    assert run_study(study, folder).units == 6 and facts(folder) == before


def test_a_lost_journal_loses_only_what_was_in_it(processes: Processes, tmp_path: Path) -> None:
    """A directory copied without its -wal: what is there is whole, the rest is made anew."""
    study = toy_study(tmp_path)
    processes.run(study, tmp_path / "whole")
    child = processes.start(study, tmp_path / "run", kill_at=80)
    assert child.result() is None
    journal = tmp_path / "run" / f"{DATABASE}-wal"
    assert journal.stat().st_size > 0
    journal.unlink()
    (tmp_path / "run" / f"{DATABASE}-shm").unlink()
    processes.run(study, tmp_path / "run")
    assert facts(tmp_path / "run") == facts(tmp_path / "whole")


# ---- images.jsonl ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "harm",
    [
        Path.unlink,
        lambda path: path.write_bytes(path.read_bytes()[:300]),
        lambda path: path.write_text("[]\n\n"),
    ],
    ids=["gone", "cut", "other"],
)
def test_lost_images_are_named_and_their_results_are_given_to_no_others(
    harm: Callable[[Path], None], study: Study, folder: Path
) -> None:
    before, content = facts(folder), (folder / "images.jsonl").read_bytes()
    harm(folder / "images.jsonl")
    for attempt in (lambda: facts(folder), lambda: run_study(study, folder)):
        with pytest.raises(StoreError, match=r"images\.jsonl is damaged"):
            attempt()
    (folder / "images.jsonl").write_bytes(content)
    assert run_study(study, folder).units == 0 and facts(folder) == before


def test_a_half_written_chunk_of_images_is_surveyed_again(study: Study, folder: Path) -> None:
    before, content = facts(folder), (folder / "images.jsonl").read_bytes()
    (folder / "images.jsonl").write_bytes(content + content[:150])
    assert facts(folder) == before and run_study(study, folder).units == 0
    assert (folder / "images.jsonl").read_bytes() == content


# ---- run.json -------------------------------------------------------------------------------------------------


def without(key: str) -> Callable[[bytes], bytes]:
    """A manifest without one of its parts."""
    return lambda text: json.dumps({k: v for k, v in json.loads(text).items() if k != key}).encode()


@pytest.mark.parametrize(
    "harm",
    [
        *(
            lambda _, content=content: content
            for content in (
                b"",
                b"{",
                b"[]",
                b"null",
                b"{}",
                b'{"batches": 5}',
                b"\0\xff",
            )
        ),
        *map(without, ("identity", "study", "batches", "threads", "images_per_unit")),
    ],
)
def test_a_damaged_manifest_is_named_and_nothing_is_lost(
    harm: Callable[[bytes], bytes], study: Study, folder: Path
) -> None:
    before, path = facts(folder), folder / "run.json"
    written = path.read_bytes()
    path.write_bytes(harm(written))
    for attempt in (lambda: run_study(study, folder), lambda: Run(folder), lambda: verify_run(folder)):
        with pytest.raises(
            StoreError, match=r"run\.json is damaged.*Put the file back.*choose another --out"
        ):
            attempt()
    path.write_bytes(written)
    assert run_study(study, folder).units == 0 and facts(folder) == before


def test_a_run_with_nothing_to_do_leaves_its_manifest_alone(study: Study, folder: Path) -> None:
    before = (folder / "run.json").stat()
    run_study(study, folder)
    after = (folder / "run.json").stat()
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_scores_without_a_manifest_are_not_continued(study: Study, folder: Path) -> None:
    """Nobody knows any more what these are the numbers of."""
    before = (folder / DATABASE).read_bytes()
    (folder / "run.json").unlink()
    with pytest.raises(StoreError, match="manifest"):
        Run(folder)
    with pytest.raises(StoreError, match=r"run\.json.*choose another --out"):
        run_study(study, folder)
    assert (folder / DATABASE).read_bytes() == before
