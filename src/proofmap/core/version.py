"""The version, and a digest of the source code that computes results."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

__version__ = "0.2.0"
"""The version of this package, as text. ``pyproject.toml`` reads it here."""

_PACKAGE = Path(__file__).parents[1]
_OF_STUDIES = ("opened", "sanity", "selection", "sink", "study", "survey", "unit")
_MAKE_NUMBERS = (
    *("core", "plugins", "classifier", "data", "models", "fills", "methods", "metrics"),
    *("session.py", "judging.py", "checking.py"),
    *("study/planning", *(f"study/{name}.py" for name in _OF_STUDIES)),
)
"""The folders and files whose code decides what a run stores. Weights and images have their own digests."""


@cache
def source_version() -> str:
    """The version with a digest of the source, as in a run's manifest: ``0.2.0+src.1f2e3d4c``. Computed once per process."""
    return f"{__version__}+src.{package_digest(_PACKAGE)}"


def package_digest(package: Path) -> str:
    """A digest of the code in the files that :func:`number_files` lists, without docstrings and comments."""
    digest = hashlib.blake2b(digest_size=4)
    for file in number_files(package):
        name = file.relative_to(package).as_posix().encode()
        digest.update(name + b"\0" + code_of(file.read_bytes()) + b"\0")
    return digest.hexdigest()


def number_files(package: Path) -> list[Path]:
    """The files that compute results, in a fixed order."""
    places = [package / part for part in _MAKE_NUMBERS]
    return [file for at in places for file in ([at] if at.suffix else sorted(at.rglob("*.py")))]


_QUOTES = b'"' * 3


def code_of(source: bytes) -> bytes:
    """Python source without blank lines, comment lines, and docstrings (statements that are strings in three double quotes).

    Three double quotes always count as the start or end of a string, which is correct for all files of this package. Splitting at
    these quotes takes 15 ms for all files; a parser would take a second.
    """
    pieces = source.split(_QUOTES)
    if len(pieces) % 2 == 0:  # they do something else too, so all of the text counts
        pieces = [source]
    kept = pieces[0]
    for inside, after in zip(pieces[1::2], pieces[2::2], strict=True):
        is_statement = not kept[kept.rfind(b"\n") + 1 :].strip() and after.lstrip(b" ")[:1] in b"\n#"
        kept += after if is_statement else _QUOTES + inside + _QUOTES + after
    lines = (line.rstrip() for line in kept.splitlines())
    return b"\n".join(line for line in lines if line and not line.lstrip().startswith(b"#"))
