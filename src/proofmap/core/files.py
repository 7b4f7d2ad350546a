"""Files that are written completely or not at all, names for them, and suggestions for a path that does not exist."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import Any

from proofmap.core.errors import InputError, ProofmapError
from proofmap.core.text import one_line

_LONGEST = 100  # bytes of a file name that we choose, before its suffix and the suffix of unfinished files

DATA_FOLDER = Path("data")
"""The default folder of the data and weights that recipes and tasks need."""


class NotWritable(ProofmapError, OSError):
    """A file cannot be written. No partial file is left behind."""

    def __init__(self, path: object, error: OSError) -> None:
        super().__init__(error.errno, error.strerror, str(path))

    def __str__(self) -> str:
        advice = "Write to another place, or fix its permissions"
        if is_disk_full(self):
            advice = "Free some space, or write to another disk"
        return f"{self.filename} cannot be written: {self.strerror}. {advice}"


def is_disk_full(error: OSError) -> bool:
    return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """A temporary path to write to. It replaces ``path`` when the block ends, and is removed if the block raises.

    The file gets the permissions of any new file (umask). Content and name are synced to disk, so a power cut leaves the old or the
    new file.
    """
    part = path.with_name(f".{path.name}.part{os.getpid()}{path.suffix}")  # see remove_parts
    try:
        part.touch()
    except OSError as error:
        raise NotWritable(path, error) from error
    with _disk_full_named(path):
        try:
            usual = part.stat().st_mode
            yield part
            part.chmod(usual)  # safetensors writes files that only their owner may read
            _sync(part, os.O_RDWR)
            os.replace(part, path)
            sync_folder(path.parent)
        finally:
            part.unlink(missing_ok=True)


@contextmanager
def _disk_full_named(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if is_disk_full(error):
            raise NotWritable(path, error) from None
        raise


@contextmanager
def written_together(path: str | Path) -> Iterator[Path]:
    """A temporary folder for files. They are moved to the folder ``path`` together when the block ends.

    If the block raises, no file is moved, and a folder that did not exist before is removed.
    """
    missing = not os.path.exists(path)
    folder = output_folder(path)
    part = folder / f".files.part{os.getpid()}"  # see remove_parts
    try:
        with _disk_full_named(folder):
            part.mkdir()
            yield part
            for file in sorted(part.iterdir()):
                os.replace(file, folder / file.name)
            sync_folder(folder)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        if missing:
            with suppress(OSError):  # it has other files by now
                folder.rmdir()
        raise
    part.rmdir()


def remove_parts(folder: Path) -> None:
    """Remove unfinished files of killed processes from a folder."""
    for path in folder.glob(".*.part*"):
        found = re.fullmatch(r"\.(.+)\.part(\d+)(.*)", path.name)
        if not found or Path(found[1]).suffix != found[3] or path.is_symlink() or process_runs(int(found[2])):
            continue
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        elif path.is_file():
            path.unlink(missing_ok=True)


def process_runs(process: int) -> bool:
    """Whether a process may still be running. Always True on Windows, where the check would end the process."""
    if os.name == "nt":
        return True
    try:
        os.kill(process, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # it belongs to another user
        return True
    return process > 0


def check_ends(path: str | Path, name: str = "") -> None:
    """Refuse a path that is a pipe or a device, because reading it may never end. Error messages call the path ``name``."""
    try:
        kind = os.stat(path).st_mode
    except (OSError, ValueError):
        return  # opening it gives a better error
    if not (stat.S_ISREG(kind) or stat.S_ISDIR(kind)):
        raise InputError(f"{name or path} is a pipe or a device, not a regular file")


def sync_folder(folder: Path) -> None:
    """Sync a folder's list of files to disk, on file systems that support it."""
    if os.name == "nt":  # Windows opens no folders
        return
    try:
        _sync(folder, os.O_RDONLY)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise


def _sync(path: Path, flags: int) -> None:
    number = os.open(path, flags)
    try:
        os.fsync(number)
    finally:
        os.close(number)


_DEEPEST = 64  # lists and objects inside one another


def parse_json(text: str | bytes) -> Any:
    """The content of JSON that others may have written. Raises a ValueError if it is not JSON, or is nested so deeply that code that walks
    through it would fail.

    >>> parse_json("[" * 100_000)
    Traceback (most recent call last):
        ...
    ValueError: it has more than 64 lists or objects inside one another
    """
    too_deep = ValueError(f"it has more than {_DEEPEST} lists or objects inside one another")
    try:
        found = json.loads(text)
    except RecursionError:
        raise too_deep from None
    level = [found]
    for _ in range(_DEEPEST + 1):
        outer = [one for one in level if isinstance(one, (list, dict))]
        if not outer:
            return found
        level = [inner for one in outer for inner in (one.values() if isinstance(one, dict) else one)]
    raise too_deep


def write_text(path: Path, text: str) -> None:
    """Write a text file atomically. Surrogates are escaped, because UTF-8 cannot encode them."""
    with atomic_write(path) as part:
        part.write_text(text, encoding="utf-8", errors="backslashreplace")


def check_output(path: str | Path) -> Path:
    """Check that a folder can be written to or created, and return its absolute path, which stays right if code of the user changes the
    working folder. The folder is not created yet, so a failed run leaves nothing behind."""
    folder = check_path(path, "--out")
    try:
        absolute = folder.absolute()
    except FileNotFoundError:
        raise InputError(
            f"{folder} cannot be made: the current folder was deleted. Change to another one, or give --out as an absolute path"
        ) from None
    nearest = next(p for p in (folder, *absolute.parents) if os.path.exists(p))
    if not nearest.is_dir():
        raise InputError(f"{nearest} is a file, not a folder; choose another --out")
    if not os.access(nearest, os.W_OK):
        raise InputError(f"the folder {nearest} cannot be written to; choose another --out")
    return absolute


def output_folder(path: str | Path) -> Path:
    """Make a folder if needed, remove unfinished files of killed processes from it, and return its absolute path."""
    folder = check_output(path)
    missing = [parent for parent in (folder, *folder.parents) if not os.path.exists(parent)]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for made in missing:
            sync_folder(made.parent)
        remove_parts(folder)
    except OSError as error:
        raise InputError(f"the folder {folder} cannot be made: {error.strerror}") from None
    return folder


def output_file(path: str | Path, such_as: str = "report.html") -> Path:
    """Check that a file can be written, make its folder, and return the file's absolute path. Only a plain file is ever replaced."""
    file = check_path(path, "--out")
    if file.is_dir():
        raise InputError(f"{file} is a folder; name a file in it, such as {file / such_as}")
    if file.exists() and not file.is_file():
        raise InputError(f"{file} is not a plain file, so it is not replaced; choose another --out")
    return output_folder(file.parent) / file.name


def check_path(path: str | Path, what: str) -> Path:
    """The path. Raises an InputError if no file system can have such a path; the message calls it ``what``."""
    text = os.fspath(path)
    if not text.strip() or "\0" in text:
        raise InputError(f"{what} must name a file or folder, not {text!r}")
    return Path(text)


def file_name(*parts: str) -> str:
    """A readable file name from any texts. A long name is cut and ends in a hash of the whole name.

    >>> file_name("my photo", "learned-mask:tv=0.1")
    'my_photo.learned-mask_tv-0.1'
    """
    name = ".".join(re.sub(r"[^\w.+-]+", "_", part.replace("=", "-")).strip("_.") or "_" for part in parts)
    encoded = name.encode()
    if len(encoded) <= _LONGEST:
        return name
    short_hash = hashlib.sha256(encoded).hexdigest()[:8]
    return f"{encoded[: _LONGEST - 9].decode(errors='ignore')}-{short_hash}"


def digest_of(*parts: bytes | str) -> str:
    """A hash of the parts' content, 32 hexadecimal digits.

    >>> digest_of(b"ab") == digest_of("ab"), digest_of("a", "b") == digest_of("ab")
    (True, False)
    """
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        content = part.encode() if isinstance(part, str) else part
        if len(parts) > 1:
            digest.update(len(content).to_bytes(8, "little"))
        digest.update(content)
    return digest.hexdigest()


def distinct_names(names: list[str]) -> list[str]:
    """The same names, with a number added to repeated ones.

    >>> distinct_names(["cat", "dog", "cat"])
    ['cat', 'dog', 'cat-2']
    """
    seen: dict[str, int] = {}
    taken = set(names)
    result = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        new = name
        while seen[name] > 1 and (new == name or new in taken):
            new = f"{name}-{seen[name]}"
            seen[name] += new in taken
        taken.add(new)
        result.append(new)
    return result


# ---- paths that do not exist --------------------------------------------------------------------------------------

_MOST_LISTED = 20_000  # names of a folder


def suggest_path(path: str | Path) -> str:
    """The question " Did you mean ...?" for a path that does not exist; empty if no name nearby is similar.

    >>> suggest_path("nowhere/at/all.png")
    ''
    """
    missing = Path(path)  # the first part of the path that does not exist
    while not os.path.isdir(missing.parent) and missing != missing.parent:
        missing = missing.parent
    called = {name.lower(): name for name in _names_in(missing.parent)}
    names = get_close_matches(missing.name.lower(), called, n=2, cutoff=0.7)
    found = [missing.parent / called[name] for name in names]
    rest = Path(path).relative_to(missing)
    found = [whole if os.path.exists(whole := place / rest) else place for place in found]
    return f" Did you mean {' or '.join(repr(one_line(str(place))) for place in found)}?" if found else ""


def _names_in(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return sorted(e.name for e in islice(entries, _MOST_LISTED) if not e.name.startswith("."))
    except (OSError, ValueError):
        return []
