"""The files of the page, read once: those of the folder ``page``, and those that the page shares with the report."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript"}
_SHARED = ("look.css", "shared.js")


def static_file(name: str) -> tuple[bytes, str] | None:
    """A file's content and media type, or None. Names are looked up, never joined to a path.

    >>> static_file("main.js")[1], static_file("../static.py")
    ('text/javascript; charset=utf-8', None)
    """
    return _static_files().get(name)


@cache
def _static_files() -> dict[str, tuple[bytes, str]]:
    own = [file for file in (files("proofmap.app") / "page").iterdir() if file.is_file()]
    shared = [files("proofmap.report") / "page" / name for name in _SHARED]
    return {
        file.name: (file.read_bytes(), f"{_TYPES[suffix]}; charset=utf-8")
        for file in (*own, *shared)
        if (suffix := file.name.rpartition(".")[2]) in _TYPES
    }
