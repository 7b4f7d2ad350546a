"""Build hook: the description of the package is the README, with links that work on the page of a package index.

There, a link to a file of the repository is dead. If ``PROOFMAP_REPOSITORY`` has the address of the repository (``https://HOST/OWNER/proofmap``), links
and pictures lead to its files at the tag of this version, and the index links the repository. Without it, the text of such a link stays, and
pictures go.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_PICTURE = re.compile(r"^!\[([^\]]*)\]\((?!https?:)([^)]*)\)(\n\n?)", re.MULTILINE)
_BOTH = re.compile(r"<picture>.*?</picture>\n\n?", re.DOTALL)
"""A picture for light pages and one for dark ones."""
_FILE = re.compile(r'(src|srcset)="(?!https?:)([^"]*)"')
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?!https?:)([^)]*)\)")


def description(readme: str, repository: str = "", version: str = "") -> str:
    """The README as a package index can show it."""
    if not repository:
        return _LINK.sub(r"\1", _PICTURE.sub("", _BOTH.sub("", readme)))
    readme = _FILE.sub(rf'\1="{repository}/raw/v{version}/\2"', readme)
    pictures = _PICTURE.sub(rf"![\1]({repository}/raw/v{version}/\2)\3", readme)
    return _LINK.sub(rf"[\1]({repository}/blob/v{version}/\2)", pictures)


class ReadmeHook(MetadataHookInterface):
    """Fills in ``readme`` and ``urls``, which pyproject.toml declares as dynamic."""

    def update(self, metadata: dict[str, Any]) -> None:
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        repository = os.environ.get("PROOFMAP_REPOSITORY", "").rstrip("/")
        if repository and not repository.startswith("https://"):
            raise ValueError(f"PROOFMAP_REPOSITORY must begin with https://, and is {repository}")
        shown = description(text, repository, metadata["version"])
        metadata["readme"] = {"content-type": "text/markdown", "text": shown}
        metadata["urls"] = {"Repository": repository} if repository else {}
