"""Templates of all pages: of reports, of the server and of recipes."""

from __future__ import annotations

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from proofmap.core.text import counted, terminal_text
from proofmap.results import tables


def templates_of(package: str, folder: str) -> Environment:
    """The templates in a folder of a package. Values are escaped, and unknown names are errors.

    Control characters, and characters that change the direction of text, are spelled out as on a terminal.
    """
    environment = Environment(
        loader=PackageLoader(package, folder),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["counted"] = counted
    environment.filters["number"] = lambda value: "-" if value is None else tables.number(float(value))
    return environment


def _shown(value: object) -> object:
    return terminal_text(value) if isinstance(value, str) and not isinstance(value, Markup) else value
