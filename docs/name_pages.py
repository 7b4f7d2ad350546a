"""A page for each public name: how to import it, its signature and docstring, its members, and an example that the tests run.

The names are those of ``__all__`` in the public modules. Examples come from the docstring (doctests), from the page of all names of
``import proofmap``, from the first page whose code uses the name, or they make the plug-in by its name. The page *Public API* links to all.
``DOCS_NAMES`` keeps only names whose path begins so: the tests build a few pages.
"""

from __future__ import annotations

import importlib
import inspect
import os
import re
from collections.abc import Iterator
from dataclasses import MISSING, dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from plain_docstrings import as_markdown  # MkDocs finds modules next to a hook
from public_modules import MODULES, explained, find

DOCS = Path(__file__).parent
FOLDER = "reference/names"
_BLOCK = re.compile(
    r"(?:^<!-- (?P<comment>[^\n]*) -->\n)?^```python(?P<rest>[^\n]*)\n(?P<code>.*?)^```$", re.M | re.S
)
_SECTION = re.compile(r"^(Args|Returns|Raises|Yields):\n((?:[ ]+.*\n?|\n(?=[ ]))+)", re.M)
_TITLES = {"Args": "Arguments", "Returns": "Returns", "Raises": "Raises", "Yields": "Yields"}
_MAKERS = (
    ("proofmap.methods", "METHODS", "make_method"),
    ("proofmap.metrics", "METRICS", "make_metric"),
    ("proofmap.metrics", "GAMES", "make_game"),
    ("proofmap.fills", "FILLS", "make_fill"),
)
"""Where registered plug-ins are, and what makes one from its name."""
_MAIN = {"infill": "mine.py:paint"}
"""What stands after the name of a plug-in that needs something; wrappers need a method."""
_WIDTH = 88


@dataclass(frozen=True)
class PublicName:
    """A public name, at the first public module that has it."""

    module: str
    name: str
    canonical: str
    file: str

    @property
    def value(self) -> Any:
        return getattr(importlib.import_module(self.module), self.name)

    @property
    def path(self) -> str:
        return f"{self.module}.{self.name}"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for one in dict.fromkeys(pages().values()):
        files.append(File.generated(config, one.file, content=page(one)))
    return files


@cache
def pages(beginning: str | None = None) -> dict[str, PublicName]:
    """The names that have a page, by their path in each public module; a name of several modules has one page.

    Files that differ in capitals alone would be one file on some disks, so the second and later ones have a number.
    """
    beginning = os.environ.get("DOCS_NAMES", "") if beginning is None else beginning
    seen: dict[str, PublicName] = {}
    taken: list[str] = []
    found = {}
    for path in MODULES:
        module = importlib.import_module(path)
        for name in module.__all__:
            key = find(f"{path}.{name}").canonical_path
            if key not in seen:
                file = f"{FOLDER}/{path}.{name}"
                alike = sum(other == file.lower() for other in taken)
                taken.append(file.lower())
                file += f"-{alike + 1}" if alike else ""
                seen[key] = PublicName(path, name, key, f"{file}.md")
            if seen[key].path.startswith(beginning):
                found[f"{path}.{name}"] = seen[key]
    return found


def page(one: PublicName) -> str:
    """The page of a name as Markdown."""
    parts = [f"# {one.name}", f"```python\nfrom {one.module} import {one.name}\n```"]
    signature = signature_of(one)
    if signature:
        parts.append(f"```text\n{signature}\n```")
    parts.append(sections(as_markdown(docstring(one))))
    if one.canonical in explained():
        parts.append(f"[More in the reference][{explained()[one.canonical]}].")
    rows = [f"| `{name}` | {line} |" for name, line in members(one.value)]
    if rows:
        parts.append("\n".join(["| member | |", "|---|---|", *rows]))
    shown = example(one)
    if shown:
        parts += ["## Example", shown]
    parts.append("All names: [public API](../public-api.md).")
    return "\n\n".join(part for part in parts if part) + "\n"


def docstring(one: PublicName) -> str:
    """The docstring, of a constant too: the text below it in the source."""
    found = find(one.path).docstring
    return inspect.cleandoc(found.value) if found is not None else ""


def signature_of(one: PublicName) -> str:
    """How a function or class is called, an argument in a line if it is long; empty for other values."""
    try:
        found = inspect.signature(one.value)
    except (TypeError, ValueError):
        return ""
    arguments = []
    for one_of in found.parameters.values():
        if one_of.kind is inspect.Parameter.KEYWORD_ONLY and not any(a.startswith("*") for a in arguments):
            arguments.append("*")
        arguments.append(_argument(one_of))
    back = f" -> {_text(found.return_annotation)}" if inspect.isroutine(one.value) else ""
    line = f"{one.name}({', '.join(arguments)}){back}"
    return line if len(line) <= _WIDTH else f"{one.name}(\n    " + ",\n    ".join(arguments) + f",\n){back}"


def _argument(parameter: inspect.Parameter) -> str:
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}.get(
        parameter.kind, ""
    )
    empty = inspect.Parameter.empty
    kind = "" if parameter.annotation is empty else f": {_text(parameter.annotation)}"
    default = "" if parameter.default is empty else f" = {parameter.default!r}"
    return f"{stars}{parameter.name}{kind}{default}"


def _text(annotation: Any) -> str:
    if annotation is inspect.Signature.empty:
        return "Any"
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def sections(text: str) -> str:
    """Sections such as ``Args:`` as lists.

    >>> print(sections("Adds.\\n\\nArgs:\\n    a: one\\n        number.\\n    b: other.\\n"))
    Adds.
    <BLANKLINE>
    **Arguments**
    <BLANKLINE>
    - `a`: one number.
    - `b`: other.
    """

    def listed(found: re.Match[str]) -> str:
        entries = re.split(r"\n(?=[ ]{4}\S)", "\n" + found[2].rstrip())[1:]
        lines = [" ".join(entry.split()) for entry in entries]
        items = [re.sub(r"^([\w*, ]+): ", lambda name: f"`{name[1]}`: ", line) for line in lines]
        return f"**{_TITLES[found[1]]}**\n\n" + "\n".join(f"- {item}" for item in items) + "\n"

    return _SECTION.sub(listed, text).rstrip()


def members(value: Any) -> Iterator[tuple[str, str]]:
    """The public methods and properties that a class itself defines, each with the first paragraph of its docstring."""
    for name, member in vars(value).items() if inspect.isclass(value) else ():
        plain = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
        text = inspect.getdoc(plain) if inspect.isfunction(plain) else None
        if not name.startswith("_") and text:
            yield name, as_markdown(text).split("\n\n")[0].replace("\n", " ").replace("|", "\\|")


def example(one: PublicName) -> str:
    """An example that is run by the tests; empty if the docstring has one, or there is none."""
    if has_doctest(one):
        return ""
    word = re.compile(rf"\b{re.escape(one.name)}\b")
    for page, code in run_blocks():
        if word.search(code):
            link = os.path.relpath(DOCS / page, DOCS / FOLDER).replace(os.sep, "/")
            return f"From [{title_of(page)}]({link}), whose code runs from top to bottom:\n\n```python\n{code}```"
    code = making(one.value)
    return f"```python\n{code}\n```" if code else ""


def has_doctest(one: PublicName) -> bool:
    return ">>> " in docstring(one)


@cache
def run_blocks() -> tuple[tuple[str, str], ...]:
    """The Python of all pages that the tests run, the page of all names first."""
    pages = sorted(
        path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md") if "results" not in path.parts
    )
    found = []
    for page in sorted(pages, key=lambda page: page != "reference/by-name.md"):
        for block in _BLOCK.finditer((DOCS / page).read_text(encoding="utf-8")):
            if "title=" not in block["rest"] and not (block["comment"] or "").startswith("not run"):
                found.append((page, block["code"]))
    return tuple(found)


def title_of(page: str) -> str:
    return (DOCS / page).read_text(encoding="utf-8").split("\n", 1)[0].removeprefix("# ")


def making(value: Any) -> str:
    """How a plug-in is made from its name: for registered classes."""
    name = getattr(value, "name", None)
    for module, registry, maker in _MAKERS:
        known = getattr(importlib.import_module(module), registry)
        if isinstance(name, str) and name in known and known[name] is value:
            needs = [f for f in fields(value) if f.default is MISSING and f.default_factory is MISSING]
            spec = f"{name}:{getattr(value, 'example', _MAIN.get(name, 'gradient'))}" if needs else name
            return f'from {module} import {maker}\n\nprint({maker}("{spec}").settings())'
    return ""
