"""Pages and files that the server sends: templates in the style of the report, content security policies, and the static files."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

from fastapi import Response
from fastapi.responses import JSONResponse
from jinja2 import Environment
from markupsafe import Markup
from starlette.datastructures import Headers
from starlette.types import Scope

from proofmap.report.html import templates_of

_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript", "json": "application/json"}
# files that the page shares with the report
_SHARED = ("look.css", "lines.js", "listed.js", "shared.js", "theme.js")
_MESSAGE_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'; form-action 'none'"


def error_answer(scope: Scope, title: str, message: str, status: int) -> Response:
    """The response to an error, which says what to do: a page for a person's browser, otherwise JSON.

    The page loads no other file, so it can be shown without the access token.
    """
    accepted = Headers(scope=scope).get("accept", "")
    if scope["method"] != "GET" or scope["path"].startswith("/api/") or "text/html" not in accepted:
        return JSONResponse({"error": message}, status)
    sentence = f"{message[:1].upper()}{message[1:].rstrip('.')}."
    text = drawn("message.html", title=title, message=sentence, style=Markup(_style_sheet()))
    headers = {"content-security-policy": _MESSAGE_POLICY, "cache-control": "no-cache"}
    return Response(text.encode("utf-8", "backslashreplace"), status, headers, media_type="text/html")


@cache
def _style_sheet() -> str:
    """The style sheets of the report and of messages, joined."""
    folder = files("proofmap.report") / "page"
    sheets = sorted(name for file in folder.iterdir() if (name := file.name).endswith(".css"))
    own = (files("proofmap.app") / "templates" / "pages.css").read_text("utf-8")
    return "\n".join([*((folder / name).read_text("utf-8") for name in sheets), own])


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


def drawn(template: str, **content: Any) -> str:
    """The text of a template, rendered with this content."""
    return _environment().get_template(template).render(**content)


@cache
def _environment() -> Environment:
    return templates_of("proofmap.app", "templates")
