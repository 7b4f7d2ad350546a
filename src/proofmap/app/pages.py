"""Pages and files that the server sends: templates in the style of the report, content security policies, and the static files."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

from fastapi import Response
from jinja2 import Environment
from markupsafe import Markup
from starlette.datastructures import Headers
from starlette.types import Scope

from proofmap.app.nets import PHOTO, Nets, plural
from proofmap.app.run_folders import public_text
from proofmap.app.run_records import BelievedLabel, ImageRecord
from proofmap.report.html import templates_of
from proofmap.study.watchers.status import duration

_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "json": "application/json"}
_INVITATIONS = {
    "photo": "Drop a photo.",
    "row": "Choose a row of the data, or upload a table with the same columns.",
    "series": "Choose a series of the data, or upload a file of series of the same length.",
    "text": "Type or paste a text.",
}
# files that the page shares with the report
_SHARED = ("look.css", "lines.js", "listed.js", "shared.js", "theme.js")
_BASE = "base-uri 'none'; frame-ancestors {ancestors}; form-action {forms}"
PAGE_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "frame-src 'self'; " + _BASE.format(ancestors="'none'", forms="'self'")
)
REPORT_POLICY = (
    "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
    + _BASE.format(ancestors="'self'", forms="'none'")
    + "; sandbox allow-scripts"
)
"""The content security policy of a report, which has its own script and style. In the sandbox, this script cannot send requests here."""
MESSAGE_POLICY = "default-src 'none'; style-src 'unsafe-inline'; " + _BASE.format(
    ancestors="'self'", forms="'none'"
)


def page(template: str, *, status: int = 200, **content: Any) -> Response:
    """The HTML response for a template of the server, rendered with this content."""
    return html(drawn(template, **content), PAGE_POLICY, status)


def page_words(nets: Nets) -> dict[str, Any]:
    """Words for the page: the nouns for an input and for its positions."""
    item = nets.singular or PHOTO
    return {
        "item": item,
        "items": plural(item),
        "positions": nets.positions,
        "net": "net" if nets.of_photos else "model",
        "invitation": _INVITATIONS[item],
    }


def message_page(title: str, message: str, *, status: int) -> Response:
    """A page with an error message. It loads no other file, so it can be shown inside a report's frame and without the access token."""
    text = drawn("message.html", title=title, message=message, style=Markup(style_sheet()))
    return html(text, MESSAGE_POLICY, status)


def as_sentence(message: str) -> str:
    """An error message as a sentence: with a capital letter and a full stop.

    >>> as_sentence("there is no such run")
    'There is no such run.'
    """
    return f"{message[:1].upper()}{message[1:].rstrip('.')}."


def is_page_request(scope: Scope) -> bool:
    """Whether the request comes from a person's browser, so that errors are shown as a page."""
    accepted = Headers(scope=scope).get("accept", "")
    return scope["method"] == "GET" and not scope["path"].startswith("/api/") and "text/html" in accepted


def html(text: str | bytes, policy: str, status: int = 200) -> Response:
    """An HTML response with this content security policy. ``x-frame-options`` sets the same rule about frames for older browsers."""
    content = text if isinstance(text, bytes) else text.encode("utf-8", "backslashreplace")
    frames = "SAMEORIGIN" if "frame-ancestors 'self'" in policy else "DENY"
    headers = {"content-security-policy": policy, "cache-control": "no-cache", "x-frame-options": frames}
    return Response(content, status, headers, media_type="text/html")


@cache
def style_sheet() -> str:
    """The style sheets of the report and of the pages, joined."""
    folder = files("proofmap.report") / "page"
    sheets = sorted(name for file in folder.iterdir() if (name := file.name).endswith(".css"))
    return "\n".join([*((folder / name).read_text("utf-8") for name in sheets), template_file("pages.css")])


@cache
def theme_script() -> str:
    """The script of the theme, which every page loads before it is drawn."""
    return (files("proofmap.report") / "page" / "theme.js").read_text("utf-8")


def template_file(name: str) -> str:
    return (files("proofmap.app") / "templates" / name).read_text(encoding="utf-8")


def static_file(name: str) -> tuple[bytes, str] | None:
    """The content and media type of a static file of the page; None if there is no such file. Names are looked up, never joined to a path.

    >>> static_file("main.js")[1], static_file("../pages.py")
    ('text/javascript; charset=utf-8', None)
    """
    return _static_files().get(name)


@cache
def _static_files() -> dict[str, tuple[bytes, str]]:
    own = [file for file in (files("proofmap.app") / "page").iterdir() if file.is_file()]
    shared = [files("proofmap.report") / "page" / name for name in _SHARED]
    return {
        file.name: (file.read_bytes(), f"{_TYPES[suffix]}; charset=utf-8")
        for file in (*own, *shared)
        if (suffix := file.name.rpartition(".")[2]) in _TYPES
    }


def first_choice(image: ImageRecord) -> BelievedLabel | None:
    """The judged label of an image with the highest probability; None if no probability is known."""
    known = [label for label in image.labels if label.f is not None]
    return max(known, key=lambda label: label.f or 0.0, default=None)


def drawn(template: str, **content: Any) -> str:
    """The text of a template, rendered with this content."""
    return _environment().get_template(template).render(**content)


@cache
def _environment() -> Environment:
    environment = templates_of("proofmap.app", "templates")
    environment.filters["duration"] = duration
    environment.filters["public"] = public_text
    environment.filters["first_choice"] = first_choice
    return environment
