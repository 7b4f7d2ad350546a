"""How pages are drawn from templates: the report's, the server's and those of recipes alike."""

from __future__ import annotations

from jinja2 import Environment, PackageLoader, StrictUndefined

from proofmap.core.text import counted
from proofmap.results import tables


def templates_of(package: str, folder: str) -> Environment:
    """The templates in a folder of a package; what they show is escaped, and a name that is not there is an error."""
    environment = Environment(
        loader=PackageLoader(package, folder),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["counted"] = counted
    environment.filters["number"] = lambda value: "-" if value is None else tables.number(float(value))
    return environment
