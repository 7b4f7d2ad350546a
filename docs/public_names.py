"""The public names with one line each: the tables of the page that lists them, made from each module's ``__all__``."""

from __future__ import annotations

import re
from typing import Any

from name_pages import pages
from plain_docstrings import as_markdown  # MkDocs finds modules next to a hook
from public_modules import MODULES, explained, find

PLACE = re.compile(r"<!-- public names:.*?-->")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put the tables where a page has the comment."""
    return PLACE.sub(lambda _: tables(), markdown)


def tables() -> str:
    """A heading, a sentence and a table for each public module. Each name leads to its page."""
    parts = []
    for path in MODULES:
        module = find(path)
        rows = [_row(path, name) for name in sorted(module.exports)]
        parts.append(
            "\n".join([f"## {path}", "", _summary(module), "", "| name | description |", "|---|---|", *rows])
        )
    return "\n\n".join(parts)


def _row(module: str, name: str) -> str:
    target = find(f"{module}.{name}")
    page = pages().get(f"{module}.{name}")
    link = f"({page.file.removeprefix('reference/')})" if page else ""
    reference = explained().get(target.canonical_path)
    link = link or (f"[{reference}]" if reference else "")
    return f"| {f'[`{name}`]{link}' if link else f'`{name}`'} | {_summary(target)} |"


def _summary(target: Any) -> str:
    """The first sentence of a docstring."""
    if target.docstring is None:
        raise ValueError(f"{target.canonical_path} is public and has no docstring")
    text = as_markdown(target.docstring.value).split("\n\n")[0].replace("\n", " ")
    return re.split(r"(?<=\.) (?=[A-Z`])", text)[0].rstrip(":").replace("|", "\\|")
