"""Docstrings as Markdown: for the reference, as mkdocstrings reads them from the source without importing it."""

from __future__ import annotations

import re
from typing import Any

import griffe

_ROLE = re.compile(r":(?:func|class|meth|mod|attr):`~?(?:[\w.]*\.)?(\w+)`")
_EXAMPLE = re.compile(r"(?:^>>> .*\n?(?:^(?!>>>)[^\n]+\n?)*)+", re.MULTILINE)
_SHARED = re.compile(r"^ {4}(\w+(?:, \w+)+): (.*(?:\n {8,}.*)*)", re.MULTILINE)


class PlainDocstrings(griffe.Extension):
    """Names in place of roles, examples as blocks of code, and arguments that share a sentence one by one."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)


def as_markdown(text: str) -> str:
    """
    >>> print(as_markdown("See :func:`~a.b`.\\n\\n>>> 1 + 1  # doctest: +SKIP\\n2\\n"))
    See `b`.
    <BLANKLINE>
    ```pycon
    >>> 1 + 1
    2
    ```
    """
    text = _SHARED.sub(_one_each, text)
    text = _ROLE.sub(r"`\1`", text)
    text = re.sub(r"  # doctest: [^\n]*", "", text)
    return _EXAMPLE.sub(lambda found: f"```pycon\n{found[0].rstrip()}\n```\n", text).rstrip()


def _one_each(found: re.Match[str]) -> str:
    return "\n".join(f"    {name}: {found[2]}" for name in found[1].split(", "))
