"""The web application: its routes, the page and its files, and the responses to errors."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from proofmap.app.items import NotFound
from proofmap.app.jobs import Busy
from proofmap.app.nets import PHOTO, Nets, plural
from proofmap.app.pages import drawn, error_answer, static_file
from proofmap.app.routes import routes_of
from proofmap.app.security import Guard
from proofmap.app.server import Server
from proofmap.core.errors import ProofmapError
from proofmap.results.sharing import without_folders

_INVITATIONS = {
    "photo": "Drop a photo.",
    "row": "Choose a row of the data, or upload a table with the same columns.",
    "series": "Choose a series of the data, or upload a file of series of the same length.",
    "text": "Type or paste a text.",
}


def create_app(server: Server) -> FastAPI:
    """The application of a server."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        server.worker.ask(
            lambda: server.nets.classifier(server.nets.first)
        )  # so that the first request is fast
        yield
        server.worker.close()

    app = FastAPI(
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        lifespan=lifespan,
    )
    app.add_middleware(Guard, access=server.access)
    for kind in (ProofmapError, RequestValidationError, ValidationError, HTTPException, ClientDisconnect):
        app.add_exception_handler(kind, _error_response)
    app.include_router(routes_of(server))
    _add_page(app, server)
    return app


def _add_page(app: FastAPI, server: Server) -> None:
    """Add the routes of the page and of its files. The page has the right words for photos, rows or texts."""

    def answer(name: str) -> Response:
        found = static_file(name)
        if found is None:
            raise NotFound("there is no such file")
        content, kind = found
        return Response(content, media_type=kind, headers={"cache-control": "no-cache"})

    @app.get("/")
    async def index() -> Response:
        text = drawn("index.html", **_page_words(server.nets))
        return Response(text, media_type="text/html", headers={"cache-control": "no-cache"})

    @app.get("/idea")
    async def idea() -> Response:
        return answer("idea.html")

    @app.get("/static/{file}")
    async def static(file: str) -> Response:
        return answer(file)


def _page_words(nets: Nets) -> dict[str, Any]:
    """Words for the page: the nouns for an input and for its positions."""
    item = nets.singular or PHOTO
    return {
        "item": item,
        "items": plural(item),
        "positions": nets.positions,
        "net": "net" if nets.of_photos else "model",
        "invitation": _INVITATIONS[item],
    }


async def _error_response(request: Request, error: Exception) -> Response:
    """The response to an error: a page for a person's browser, otherwise JSON. The message says what to do."""
    match error:
        case ProofmapError():
            status = 404 if isinstance(error, NotFound) else 429 if isinstance(error, Busy) else 422
            message = without_folders(str(error))
        case RequestValidationError() | ValidationError():
            first = error.errors()[0]
            where = ".".join(str(part) for part in first["loc"] if part not in ("body", "query", "path"))
            status, message = 422, f"{where or 'the request'}: {first['msg']}"
        case HTTPException(status_code=404):
            status, message = 404, "there is nothing at this address"
        case HTTPException():
            status, message = error.status_code, str(error.detail)
        case _:
            status, message = 400, "the request ended before all of it was sent"
    for_a_person = not request.scope["path"].startswith("/api/") and request.method == "GET"
    if status == 422 and isinstance(error, RequestValidationError) and for_a_person:  # a mistyped address
        status, message = 404, "there is nothing at this address"
    title = "Not found" if status == 404 else "This cannot be shown"
    return error_answer(request.scope, title, message, status)
