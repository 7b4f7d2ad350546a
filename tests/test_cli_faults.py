"""What the machine does to a command: a full disk, Ctrl-C at the first moment, links that lead nowhere, broken names."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from proofmap.core import files
from proofmap.data import load_dataset
from proofmap.data.photos import find_photos
from tests.command import run
from tests.study.test_faults import small_disk
from tests.test_cli import MODEL, NET, folder

__all__ = ["folder"]


def photo(path: Path | bytes, seed: int = 0) -> None:
    pixels = np.random.default_rng(seed).integers(0, 256, (20, 24, 3), dtype=np.uint8)
    with open(path, "wb") as file:
        Image.fromarray(pixels).save(file, "png")


# ---- a full disk ----------------------------------------------------------------------------------------------


@pytest.fixture
def full(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A disk that is nearly full: a real one where root allows, else one whose files cannot be put on it."""
    real = hasattr(os, "getuid") and os.getuid() == 0
    if real:
        try:
            with small_disk(folder / "disk", "256k"):
                (folder / "disk" / "ballast").write_bytes(bytes(236_000))
                yield folder / "disk"
            return
        except pytest.skip.Exception:
            pass
    disk = folder / "disk"
    disk.mkdir(exist_ok=True)
    (disk / "ballast").write_bytes(b"")
    put_on_disk = files._sync

    def no_room(path: Path, flags: int) -> None:
        if disk in path.absolute().parents and path.is_file():
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        put_on_disk(path, flags)

    monkeypatch.setattr(files, "_sync", no_room)
    yield disk


def left(disk: Path) -> list[str]:
    return sorted(str(path.relative_to(disk)) for path in disk.rglob("*"))


def test_explain_on_a_full_disk_leaves_nothing_and_says_what_to_do(
    full: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run(monkeypatch, "explain", "photos", *MODEL, "--method", "gradient", "--out", str(full / "out"))
    err = capsys.readouterr().err
    assert code == 2 and "No space left on device. Free some space" in err and "Traceback" not in err
    assert left(full) == ["ballast"]


@pytest.mark.parametrize(
    "command",
    [
        ("report", "--out", "disk/page.html"),
        ("export", "--out", "disk/tables"),
        ("export", "--format", "json", "--out", "disk/tables"),
    ],
    ids=" ".join,
)
def test_a_run_on_a_full_disk_is_not_half_exported(
    full: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: tuple[str, ...],
) -> None:
    if "parquet" in command:
        pytest.importorskip("pyarrow")
    flags = ("--data", "photos", "--methods", "gradient,random", "--no-pictures", "--quiet", "--out", "run")
    assert run(monkeypatch, "evaluate", *flags, *MODEL) == 0
    room = os.statvfs(full).f_bavail * os.statvfs(full).f_frsize
    (full / "more").write_bytes(bytes(max(0, min(room, 300_000) - 3_000)))  # of the real one, nearly all
    name, *rest = command
    assert run(monkeypatch, name, "run", *rest) == 2
    err = capsys.readouterr().err
    assert "cannot be written: No space left on device. Free some space" in err and "Traceback" not in err
    assert left(full) == ["ballast", "more"]


READING = (("report",), ("export",), ("figures",), ("audit", "--min-soundness", "0"))


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root may mount a small disk")
def test_a_run_on_a_full_disk_can_be_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ("--data", "photos", "--methods", "gradient,random", "--no-pictures", "--quiet", "--out", "run")
    assert run(monkeypatch, "evaluate", *flags, *MODEL) == 0
    with small_disk(folder / "disk", "2m"):
        shutil.copytree("run", "disk/run")
        with suppress(OSError), open("disk/ballast", "wb", buffering=0) as ballast:
            while True:
                ballast.write(bytes(512))
        before = left(folder / "disk")
        for name, *rest in READING:
            out = () if name == "audit" else ("--out", f"out/{name}.html")
            assert run(monkeypatch, name, "disk/run", *rest, *out) in (0, 1), capsys.readouterr().err
        for name in ("report", "export", "figures"):
            out = ("--out", "disk/figures") if name == "figures" else ()
            capsys.readouterr()
            assert run(monkeypatch, name, "disk/run", *out) == 2
            err = capsys.readouterr().err
            assert (
                "cannot be written: No space left on device. Free some space" in err and "sqlite" not in err
            )
        there = [name for name in left(folder / "disk") if not name.startswith("run/scores.sqlite-")]
        assert there in (before, sorted([*before, "figures"]))  # SQLite's own files, and an empty folder


# ---- too little memory ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("could not create a primitive"),
        RuntimeError("can't start new thread"),
        ImportError("_backend_agg.so: failed to map segment from shared object"),
        OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)),
    ],
    ids=repr,
)
def test_a_report_without_memory_is_one_message_and_nothing_half_written(
    error: Exception, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ("explain", "photos", *MODEL, "--method", "random", "--quiet", "--out", "out")

    def refuse(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("proofmap.report.html.write_text", refuse)
    assert run(monkeypatch, *asked) == 2
    err = " ".join(capsys.readouterr().err.split())
    assert "error: out of memory. " in err and "run the same command again" in err and "Traceback" not in err
    assert not (folder / "out").exists()


# ---- Ctrl-C ---------------------------------------------------------------------------------------------------


def test_ctrl_c_while_pytorch_is_imported_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    places = [str(tmp_path), *(os.environ.get("PYTHONPATH", "").split(os.pathsep)), *sys.path]
    ended = subprocess.run(
        [sys.executable, "-c", "import proofmap_command as p; p.main()", "evaluate", "--help"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(places)},
        capture_output=True,
        text=True,
    )
    assert (ended.returncode, ended.stdout, ended.stderr.strip()) == (130, "", "Interrupted")


def test_the_command_is_the_command_line() -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "proofmap_command", "--version"], capture_output=True, text=True
    )
    assert ended.returncode == 0 and ended.stdout.startswith("proofmap ")


# ---- links and names ------------------------------------------------------------------------------------------


def test_the_whole_file_system_is_no_folder_of_photos(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "root").symlink_to("/")
    for place in ("/", "root"):
        assert run(monkeypatch, "evaluate", "--data", place, *MODEL, "--out", "run") == 2
        assert "is the whole file system; name the folder that holds the images" in capsys.readouterr().err
        assert run(monkeypatch, "explain", place, *MODEL, "--out", "run") == 2
    assert not (folder / "run").exists()


def test_a_link_to_itself_among_photos_is_a_photo_that_cannot_be_read(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "photos" / "self.png").symlink_to("self.png")
    (folder / "photos" / "inner").symlink_to("inner")
    assert load_dataset("photos").names == ["photo0.png", "photo1.png", "self.png"]
    assert [path.name for path in find_photos(["photos"])] == ["photo0.png", "photo1.png"]
    flags = ("--data", "photos", "--methods", "gradient", "--no-pictures", "--out", "run")
    assert run(monkeypatch, "evaluate", *flags, *MODEL) == 3
    assert "failed: self.png: " in capsys.readouterr().err
    assert run(monkeypatch, "explain", "photos", *MODEL, "--method", "gradient") == 0


@pytest.mark.skipif(sys.platform != "linux", reason="other file systems have no such names")
@pytest.mark.usefixtures("drawn_figures")
def test_names_that_are_no_utf8_are_spelled_out(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    photo(os.fsencode(folder) + b"/photos/x\xff.png")
    assert run(monkeypatch, "explain", "photos", *MODEL, "--method", "gradient", "--quiet") == 0
    assert r"x\xff" in (folder / "proofs" / "scores.csv").with_name("pairs.csv").read_text(encoding="utf-8")
    assert r"x\xff" in (folder / "proofs" / "report.html").read_text(encoding="utf-8")
    flags = ("--methods", "gradient", "--quiet", "--out", "run")
    photos = [os.fsdecode(path) for path in sorted(os.listdir(b"photos"))]
    data = [flag for name in photos for flag in ("--data", f"photos/{name}")]
    assert run(monkeypatch, "evaluate", *data, *flags, *MODEL) == 0
    assert run(monkeypatch, "evaluate", *data, *flags, *MODEL) == 0, "read again"


@pytest.mark.usefixtures("drawn_figures")
def test_labels_with_broken_characters_reach_every_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "net.py").write_text(NET.replace('"cat"', r'"c\udcffat"').replace('"dog"', r'"d\0og"'))
    flags = ("--methods", "gradient", "--quiet", "--out", "run")
    assert run(monkeypatch, "evaluate", "--data", "photos", *flags, *MODEL) == 0
    assert run(monkeypatch, "export", "run") == 0
    assert r"c\udcffat" in (folder / "run" / "export" / "per_label.csv").read_text(encoding="utf-8")
    assert run(monkeypatch, "explain", "photos", *MODEL, "--method", "gradient", "--quiet") == 0
    assert r"c\udcffat" in (folder / "proofs" / "report.html").read_text(encoding="utf-8")


def test_a_nul_in_the_name_of_a_file_is_told(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "study.toml").write_text('data = "pho\\u0000tos"\nmethods = ["gradient"]\n')
    assert run(monkeypatch, "evaluate", "study.toml", *MODEL) == 2
    assert r"pho\x00tos" in capsys.readouterr().err
    (folder / "study.toml").write_text('data = "photos"\nmodel = "net\\u0000.py:tiny"\n')
    assert run(monkeypatch, "evaluate", "study.toml", "--device", "cpu") == 2
    assert "Traceback" not in capsys.readouterr().err
    table = image_csv_with(folder / "list.csv", "a\0b.png")
    assert run(monkeypatch, "evaluate", "--data", str(table), *MODEL, "--methods", "gradient") in (2, 3)
    assert "Traceback" not in capsys.readouterr().err


def image_csv_with(path: Path, name: str) -> Path:
    path.write_bytes(f"file\n{name}\nphotos/photo0.png\n".encode())
    return path
