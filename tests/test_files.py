"""Files that are whole or not there, folders one can write to, names that are names."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proofmap.core.errors import InputError, ProofmapError
from proofmap.core.files import (
    NotWritable,
    atomic_write,
    check_output,
    distinct_names,
    file_name,
    output_folder,
    write_text,
    written_together,
)
from tests import texts


def test_a_file_appears_only_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    with atomic_write(path) as part:
        part.write_text("{}")
        assert not path.exists()
    assert path.read_text() == "{}"
    assert os.listdir(tmp_path) == ["result.json"]


def test_a_failure_leaves_the_older_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    path.write_text("old")

    def fail() -> None:
        with atomic_write(path) as part:
            part.write_text("new")
            raise ValueError

    with pytest.raises(ValueError):
        fail()
    assert path.read_text() == "old"
    write_text(path, "new ✓")
    assert path.read_text(encoding="utf-8") == "new ✓"


def test_a_file_gets_the_permissions_of_any_new_file(tmp_path: Path) -> None:
    (tmp_path / "usual").touch()
    with atomic_write(tmp_path / "private") as part:
        part.chmod(0o600)
    assert (tmp_path / "private").stat().st_mode == (tmp_path / "usual").stat().st_mode


def test_a_folder_is_made_with_its_parents_and_may_exist(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    assert check_output(folder) == folder
    assert os.listdir(tmp_path) == []  # asking makes nothing
    assert output_folder(str(folder)) == folder
    assert output_folder(folder).is_dir()


def test_a_relative_folder_is_checked_where_one_stands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert output_folder("out/deep") == tmp_path / "out" / "deep"
    assert (tmp_path / "out" / "deep").is_dir()


@pytest.mark.parametrize("below", ["", "deep", "deep/er"])
def test_a_file_in_the_way_is_named(tmp_path: Path, below: str) -> None:
    (tmp_path / "taken").write_text("a file")
    with pytest.raises(InputError, match="taken is a file, not a folder; choose another --out"):
        output_folder(tmp_path / "taken" / below)


def test_a_folder_without_permission_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may write anywhere
    with pytest.raises(InputError, match="cannot be written to; choose another --out"):
        output_folder(tmp_path / "out")
    assert os.listdir(tmp_path) == []


def test_a_folder_that_cannot_be_made_says_why(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot be made: .*too long"):
        output_folder(tmp_path.joinpath(*["x" * 200] * 30))


@given(parts=st.lists(st.text(texts.ANY, max_size=20), min_size=1, max_size=3))
def test_any_text_becomes_a_name_inside_the_folder(parts: list[str]) -> None:
    name = file_name(*parts)
    assert name
    assert not set('/\\:*?"<>|\0\n ') & set(name)
    assert name not in (".", "..")
    assert not name.startswith(".")
    assert Path("folder", name).parent == Path("folder")


def test_long_names_are_cut_but_stay_different() -> None:
    names = [file_name("ü" * 300), file_name("ü" * 301), file_name("x" * 300)]
    assert len(set(names)) == 3
    assert max(len(name.encode()) for name in names) <= 100
    assert names[0].startswith("ü" * 40)


@given(names=st.lists(st.sampled_from(["a", "b", "a-2", "a-3", "a-2-2", "b-2"]), max_size=9))
def test_names_that_occur_again_get_a_number_and_the_first_keeps_its_own(names: list[str]) -> None:
    result = distinct_names(names)
    assert len(set(result)) == len(names) == len(result)
    for i, (old, new) in enumerate(zip(names, result, strict=True)):
        if old not in names[:i]:
            assert new == old
        else:
            number = new.removeprefix(f"{old}-")
            assert number.isdigit()
            assert int(number) >= 2


def test_unfinished_files_of_killed_processes_are_removed_by_the_next_start(tmp_path: Path) -> None:
    gone = 2**22 + 1  # above the largest number a process can have
    ours = tmp_path / f".run.json.part{gone}.json"
    kept = [
        tmp_path / f".page.html.part{os.getpid()}.html",  # its process runs
        tmp_path / f".notes.txt.part{gone}.json",  # not a name that atomic_write gives
        tmp_path / ".hidden",
        tmp_path / "film.part2.mp4",
    ]
    for path in (ours, *kept):
        path.write_text("half")
    output_folder(tmp_path)
    assert not ours.exists() and all(path.exists() for path in kept)


# ---- several files at once ------------------------------------------------------------------------------------


def test_files_written_together_get_their_places_together(tmp_path: Path) -> None:
    with written_together(tmp_path / "out") as part:
        write_text(part / "a.txt", "new")
        assert list((tmp_path / "out").iterdir()) == [part]
    assert {path.name: path.read_text() for path in (tmp_path / "out").iterdir()} == {"a.txt": "new"}


def test_when_one_cannot_be_written_none_is(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "a.txt").write_text("old")

    def write_half(folder: Path) -> None:
        with written_together(folder) as part:
            write_text(part / "a.txt", "new")
            raise RuntimeError

    for folder in ("old", "new"):
        with pytest.raises(RuntimeError):
            write_half(tmp_path / folder)
    assert sorted(tmp_path.rglob("*")) == [tmp_path / "old", tmp_path / "old" / "a.txt"]
    assert (tmp_path / "old" / "a.txt").read_text() == "old"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_full_disk_says_what_to_do(tmp_path: Path, number: int) -> None:
    with pytest.raises(NotWritable, match=r"a.txt cannot be written: .+\. Free some space") as caught:
        with atomic_write(tmp_path / "a.txt"):
            raise OSError(number, os.strerror(number))
    assert isinstance(caught.value, ProofmapError) and caught.value.errno == number
    with pytest.raises(OSError, match="Input/output error"), atomic_write(tmp_path / "a.txt"):
        raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_a_file_that_cannot_be_begun_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(NotWritable, match=r"x\.txt cannot be written: .* Write to another place") as told:
        write_text(tmp_path / "nowhere" / "x.txt", "hello")
    assert isinstance(told.value, ProofmapError) and isinstance(told.value, OSError)
