"""Notebooks as pages: their text and code, with a link to the file. Outputs are not stored, so a notebook is small and never stale."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

NOTEBOOKS = Path(__file__).parent / "notebooks"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for notebook in sorted(NOTEBOOKS.glob("*.ipynb")):
        files.append(File.generated(config, f"notebooks/{notebook.stem}.md", content=as_page(notebook)))
    return files


def as_page(notebook: Path) -> str:
    """The page of a notebook. Its first cell has the title."""
    (_, title), *rest = cells(notebook)
    heading, _, text = title.partition("\n")
    note = f"This page is a notebook: [download {notebook.name}]({notebook.name}). Its results appear when you run it."
    parts = [heading, note, text.strip()]
    parts += [text if kind == "markdown" else f"```python\n{text}\n```" for kind, text in rest]
    return "\n\n".join(parts) + "\n"


def cells(notebook: Path) -> Iterator[tuple[str, str]]:
    """The kind and the text of each cell."""
    content: dict[str, Any] = json.loads(notebook.read_text(encoding="utf-8"))
    for cell in content["cells"]:
        yield cell["cell_type"], "".join(cell["source"])


def needs(notebook: Path) -> list[str]:
    """The packages without which a notebook does not run."""
    content: dict[str, Any] = json.loads(notebook.read_text(encoding="utf-8"))
    return list(content["metadata"]["proofmap"]["needs"])
