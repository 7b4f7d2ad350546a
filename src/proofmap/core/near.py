"""What lies where a file or folder was looked for and is not."""

from __future__ import annotations

import os
from collections.abc import Collection
from difflib import get_close_matches
from itertools import islice
from pathlib import Path

from proofmap.core.text import asked_for, one_line

_MOST = 20_000
"""Names of a folder that are looked at."""
_SHOWN = 3
_ALIKE = 0.7


def alike(path: str | Path) -> str:
    """A sentence, with a space in front, that asks for what is there under a name like this one; empty where nothing is.

    >>> alike("nowhere/at/all.png")
    ''
    """
    missing = Path(path)  # the first part of the path that is not there
    while not os.path.isdir(missing.parent) and missing != missing.parent:
        missing = missing.parent
    if missing.is_symlink():
        return f" {one_line(str(missing))} is a link to {one_line(os.readlink(missing))}, which is not there."
    called = {name.lower(): name for name in _names_in(missing.parent)}
    names = get_close_matches(missing.name.lower(), called, n=2, cutoff=_ALIKE)
    found = [missing.parent / called[name] for name in names]
    rest = Path(path).relative_to(missing)
    found = [whole if os.path.exists(whole := place / rest) else place for place in found]
    return asked_for([one_line(str(place)) for place in found])


def beside(path: str | Path, suffixes: Collection[str]) -> str:
    """A sentence, with a space in front, that names some files of these suffixes in the folder of this one; empty where
    there are none."""
    folder = Path(path).parent
    found = [name for name in _names_in(folder) if Path(name).suffix.lower() in suffixes]
    shown = ", ".join(one_line(str(folder / name)) for name in found[:_SHOWN])
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return f" Near it: {shown}{more}." if found else ""


def _names_in(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return sorted(e.name for e in islice(entries, _MOST) if not e.name.startswith("."))
    except (OSError, ValueError):
        return []
