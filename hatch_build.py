"""Build hook: the description of the package is the README without what works only in the repository.

Package indexes show the description on a page of their own, where links to files of the repository are dead. The text of such a link stays;
pictures of the repository go.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_PICTURE = re.compile(r"^!\[[^\]]*\]\((?!https?:)[^)]*\)\n\n?", re.MULTILINE)
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?!https?:)[^)]*\)")


def description(readme: str) -> str:
    """The README as a package index can show it."""
    return _LINK.sub(r"\1", _PICTURE.sub("", readme))


class ReadmeHook(MetadataHookInterface):
    """Fills in ``readme``, which pyproject.toml declares as dynamic."""

    def update(self, metadata: dict[str, Any]) -> None:
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": description(text)}
