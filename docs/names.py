"""The reference of Python names, from docstrings: how to import each name, its signature, its members, and an example that the tests run.

The names are those of ``__all__`` in the public modules, the registered plug-ins, and a few others that these return. Examples come from the
docstring (doctests), from the page about Python, from the first page whose code uses the name, or they make the plug-in by its name.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import os
import re
from collections.abc import Iterator
from dataclasses import MISSING, dataclass, fields
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
FOLDER = "reference/names"
MODULES = (
    "proofmap",
    *(f"proofmap.{name}" for name in ("methods", "metrics", "fills", "data", "models", "study", "testing")),
    "proofmap.session",
    "proofmap.plugins.settings",
    *(f"proofmap.core.{name}" for name in ("batching", "errors", "inputs", "labels", "ranking", "streams")),
)
REGISTERED = (("METHODS", "methods", "make_method"), ("METRICS", "metrics", "make_metric"), ("FILLS", "fills", "make_fill"), ("GAMES", "metrics", "make_game"))  # fmt: skip
"""Registries of plug-ins, the public module each is in, and what makes a plug-in from its name."""
OTHERS = (
    *(f"core.{name}" for name in ("tensors.NamedImages", "allocator.keep_memory")),
    *(f"results.{name}" for name in ("records.MethodResult", "statistics.mean_interval", "tables.Tables")),
    *(f"results.compare.{name}" for name in ("Comparison", "Difference")),
    *(f"results.audit.{name}" for name in ("AuditResult", "AuditLine")),
    *("results.randomisation.SanityChecks", "testing.plugins.Contract", "methods.from_function.FromFunction"),
    *("metrics.axioms.check_axioms", "metrics.axioms.AxiomReport", "metrics.games.Quadrature"),
    *("metrics.boxes.saliency_sweep", "metrics.boxes.SweepRow", "metrics.localisation.side_by_side"),
    *("metrics.minimality.sufficient_subsets", "report.runs.write_run_report", "report.figures.figures_of"),
)
"""Names that public functions return, or that few need, below ``proofmap``."""
_BLOCK = re.compile(
    r"(?:^<!-- (?P<comment>[^\n]*) -->\n)?^```python(?P<rest>[^\n]*)\n(?P<code>.*?)^```$", re.M | re.S
)
_ROLE = re.compile(r":(?:func|class|meth|mod|attr):`~?(?:[\w.]*\.)?(\w+)`")
_EXAMPLE = re.compile(r"(?:^>>> .*\n?(?:^(?!>>>)[^\n]+\n?)*)+", re.MULTILINE)
_SECTION = re.compile(r"^(Args|Returns|Raises|Yields):\n((?:[ ]+.*\n?|\n(?=[ ]))+)", re.M)
_TITLES = {"Args": "Arguments", "Returns": "Returns", "Raises": "Raises", "Yields": "Yields"}
_MAIN = {"infill": "mine.py:paint"}
"""What stands after the name of a plug-in that needs something; wrappers need a method."""
_WIDTH = 88


@dataclass(frozen=True)
class Name:
    """A name at the first public module that has it."""

    module: str
    name: str
    page: str

    @property
    def value(self) -> Any:
        return getattr(importlib.import_module(self.module), self.name)

    @property
    def path(self) -> str:
        return f"{self.module}.{self.name}"

    @property
    def link(self) -> str:
        """The address from the folder ``reference``."""
        return f"names/{self.page}.md#{self.path}"


@cache
def public() -> dict[str, Name]:
    """The names of ``__all__`` by their path in each public module; a name of several modules is described once."""
    seen: dict[Any, Name] = {}
    found = {}
    for module in MODULES:
        for name in importlib.import_module(module).__all__:
            one = Name(module, name, "proofmap" if module == "proofmap" else "modules")
            value = one.value
            key = id(value) if inspect.isclass(value) or inspect.isroutine(value) else (name, repr(value))
            found[f"{module}.{name}"] = seen.setdefault(key, one)
    return found


def plugins() -> dict[str, list[tuple[str, Name]]]:
    """The registered plug-ins of each kind, with their names on the command line."""
    found = {}
    for registry, module, _ in REGISTERED:
        known = getattr(importlib.import_module(f"proofmap.{module}"), registry)
        found[registry.lower()] = [
            (name, Name(known[name].__module__, known[name].__name__, "plug-ins")) for name in sorted(known)
        ]
    return found


def others() -> list[Name]:
    return [Name(*f"proofmap.{path}".rsplit(".", 1), "modules") for path in OTHERS]  # type: ignore[call-arg]


def beyond() -> set[str]:
    """Paths that examples may import although no ``__all__`` has them."""
    return {one.path for members in plugins().values() for _, one in members} | {o.path for o in others()}


def pages() -> dict[str, str]:
    """The generated pages: file and text."""
    texts = {
        "proofmap": ["# Names of `import proofmap`", *map(described, _of("proofmap"))],
        "modules": ["# Names of other modules"],
        "plug-ins": ["# Methods, metrics, fills and games by name", "Text such as `grad-cam:layer=head` makes each with its settings."],
    }  # fmt: skip
    for module in MODULES[1:]:
        texts["modules"] += [f"## {module}", summary(importlib.import_module(module).__doc__ or "")]
        texts["modules"] += map(described, _of(module))
    texts["modules"] += ["## Other names", *map(described, others())]
    known = {id(one.value) for one in public().values()}
    for kind, members in plugins().items():
        texts["plug-ins"].append(f"## {kind.capitalize()}")
        texts["plug-ins"] += [described(o, f"`{name}`", short=id(o.value) in known) for name, o in members]
    return {f"{FOLDER}/{page}.md": "\n\n".join(filter(None, parts)) + "\n" for page, parts in texts.items()}


def _of(module: str) -> list[Name]:
    """The names that are described at this module, in the order of the alphabet."""
    return sorted({one for one in public().values() if one.module == module}, key=lambda one: one.name)


def tables() -> str:
    """A heading, a sentence and a table for each public module. Each name leads to its description."""
    parts = []
    for module in MODULES:
        rows = []
        for name in sorted(importlib.import_module(module).__all__):
            one = public()[f"{module}.{name}"]
            rows.append(f"| [`{name}`]({one.link}) | {summary(docstring(one))} |")
        about = summary(importlib.import_module(module).__doc__ or "")
        parts.append(
            "\n".join([f"### {module}", "", about, "", "| name | description |", "|---|---|", *rows])
        )
    return "\n\n".join(parts)


def linked(text: str) -> str:
    """The page about Python, with a link at the first use of each name of ``import proofmap`` in its text."""
    names = {one.name: one for one in _of("proofmap")}
    parts = re.split(r"(^```.*?^```$|^#[^\n]*$)", text, flags=re.M | re.S)
    for place in range(0, len(parts), 2):
        for name in [n for n in names if f"`{n}`" in parts[place]]:
            link = f"[`{name}`]({names.pop(name).link})"
            parts[place] = re.sub(
                rf"(?<!\[)`{re.escape(name)}`", lambda _, link=link: link, parts[place], count=1
            )  # type: ignore[misc]
    return "".join(parts)


def described(one: Name, title: str = "", short: bool = False) -> str:
    """The section of a name; ``short`` leaves out what stands on another page."""
    anchor = f'<a id="{one.path}"></a>'
    parts = [f"{anchor}\n\n### {title or one.name}", f"```python\nfrom {one.module} import {one.name}\n```"]
    if short:
        return "\n\n".join([*parts, summary(docstring(one))])
    signature = signature_of(one)
    parts.append(f"```text\n{signature}\n```" if signature else "")
    parts.append(sections(as_markdown(docstring(one))))
    rows = [f"| `{name}` | {line} |" for name, line in members(one.value)]
    parts.append("\n".join(["| member | |", "|---|---|", *rows]) if rows else "")
    parts.append(example(one) if one.page != "plug-ins" else "")
    return "\n\n".join(part for part in parts if part)


def docstring(one: Name) -> str:
    """The docstring, of a constant too: the text below it in the source."""
    value = one.value
    if inspect.isclass(value) or inspect.isroutine(value):
        return inspect.getdoc(value) or ""
    return _below(one.module, one.name)


def _below(module: str, name: str) -> str:
    """The text below a constant, in the module that defines it."""
    file = importlib.import_module(module).__file__
    tree = ast.parse(Path(file or "").read_text(encoding="utf-8"))
    for node in ast.walk(tree):  # also imports for readers of types alone, where the package imports on use
        if isinstance(node, ast.ImportFrom) and name in {found.asname or found.name for found in node.names}:
            return _below(str(node.module), name)
    for node, text in pairwise(tree.body):
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        named = any(isinstance(target, ast.Name) and target.id == name for target in targets)
        if named and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
            return inspect.cleandoc(str(text.value.value))
    return ""


def summary(text: str) -> str:
    """The first sentence of a docstring."""
    first = as_markdown(text).split("\n\n")[0].replace("\n", " ")
    return re.split(r"(?<=\.) (?=[A-Z`])", first)[0].rstrip(":").replace("|", "\\|")


def signature_of(one: Name) -> str:
    """How a function or class is called, an argument in a line if it is long; empty for other values."""
    try:
        found = inspect.signature(one.value)
    except (TypeError, ValueError):
        return ""
    arguments = []
    for parameter in found.parameters.values():
        only = parameter.kind is inspect.Parameter.KEYWORD_ONLY
        if only and not any(a.startswith("*") for a in arguments):
            arguments.append("*")
        arguments.append(_argument(parameter))
    back = f" -> {_text(found.return_annotation)}" if inspect.isroutine(one.value) else ""
    line = f"{one.name}({', '.join(arguments)}){back}"
    return line if len(line) <= _WIDTH else f"{one.name}(\n    " + ",\n    ".join(arguments) + f",\n){back}"


def _argument(parameter: inspect.Parameter) -> str:
    kinds = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    empty = inspect.Parameter.empty
    kind = "" if parameter.annotation is empty else f": {_text(parameter.annotation)}"
    default = "" if parameter.default is empty else f" = {parameter.default!r}"
    return f"{kinds.get(parameter.kind, '')}{parameter.name}{kind}{default}"


def _text(annotation: Any) -> str:
    if annotation is inspect.Signature.empty:
        return "Any"
    return annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)


def as_markdown(text: str) -> str:
    """Names in place of roles, and examples as blocks of code.

    >>> print(as_markdown("See :func:`~a.b`.\\n\\n>>> 1 + 1  # doctest: +SKIP\\n2\\n"))
    See `b`.
    <BLANKLINE>
    ```pycon
    >>> 1 + 1
    2
    ```
    """
    text = re.sub(r"  # doctest: [^\n]*", "", _ROLE.sub(r"`\1`", text)).replace("``", "`")
    return _EXAMPLE.sub(lambda found: f"```pycon\n{found[0].rstrip()}\n```\n", text).rstrip()


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


def example(one: Name) -> str:
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


def has_doctest(one: Name) -> bool:
    return ">>> " in docstring(one)


@cache
def run_blocks() -> tuple[tuple[str, str], ...]:
    """The Python of all pages that the tests run, the page about Python first."""
    files = (path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md") if "results" not in path.parts)
    return tuple(
        (page, block["code"])
        for page in sorted(files, key=lambda page: (page != "reference/python.md", page))
        for block in _BLOCK.finditer((DOCS / page).read_text(encoding="utf-8"))
        if "title=" not in block["rest"] and not (block["comment"] or "").startswith("not run")
    )


def title_of(page: str) -> str:
    return (DOCS / page).read_text(encoding="utf-8").split("\n", 1)[0].removeprefix("# ")


def making(value: Any) -> str:
    """How a plug-in is made from its name: for registered classes."""
    name = getattr(value, "name", None)
    for registry, module, maker in REGISTERED:
        known = getattr(importlib.import_module(f"proofmap.{module}"), registry)
        if isinstance(name, str) and name in known and known[name] is value:
            needs = [f for f in fields(value) if f.default is MISSING and f.default_factory is MISSING]
            spec = f"{name}:{getattr(value, 'example', _MAIN.get(name, 'gradient'))}" if needs else name
            return f'from proofmap.{module} import {maker}\n\nprint({maker}("{spec}").settings())'
    return ""
