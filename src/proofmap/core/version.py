"""The version, where every room can import it; and the version with a digest of the source that makes numbers."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

__version__ = "0.1.0"

_PACKAGE = Path(__file__).parents[1]
_MAKE_NUMBERS = (
    *("core", "plugins", "classifier", "data", "models", "fills", "methods", "metrics"),
    *(
        f"study/{name}.py"
        for name in ("blocks", "controls", "cost", "plan", "sanity", "setup", "study", "unit")
    ),
)
"""The folders and files whose code decides what a run stores. Weights and images have digests of their own."""


@cache
def source_version() -> str:
    """The version with a digest of our source, as a run's manifest notes it: ``0.1.0+src.1f2e3d4c``.

    It is computed once in a process, when a run is begun or continued.
    """
    return f"{__version__}+src.{source_digest(_PACKAGE)}"


def source_digest(package: Path) -> str:
    """A digest of the files that make numbers. Blank lines, and lines that are only a comment, do not count."""
    digest = hashlib.blake2b(digest_size=4)
    for part in _MAKE_NUMBERS:
        at = package / part
        for file in [at] if at.suffix else sorted(at.rglob("*.py")):
            lines = (line.rstrip() for line in file.read_bytes().splitlines())
            code = [line for line in lines if line and not line.lstrip().startswith(b"#")]
            digest.update(file.relative_to(package).as_posix().encode() + b"\0" + b"\n".join(code) + b"\0")
    return digest.hexdigest()
