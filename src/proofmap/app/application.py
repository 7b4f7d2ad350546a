"""The web application: all routes, the page, and the responses to errors."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from proofmap.app.answers import ErrorAnswer
from proofmap.app.item_routes import items_router
from proofmap.app.items import NotFound
from proofmap.app.job_routes import jobs_router
from proofmap.app.pages import as_sentence, drawn, is_page_request, message_page, page_words, static_file
from proofmap.app.photo_routes import photos_router
from proofmap.app.security import Guard
from proofmap.app.server import Server
from proofmap.app.worker import Busy
from proofmap.core.errors import ProofmapError
from proofmap.core.version import __version__
from proofmap.results.sharing import without_folders

_ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorAnswer} for status in (400, 401, 403, 404, 409, 413, 422, 429)
}


def create_app(server: Server) -> FastAPI:
    """The application of a server."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        server.worker.ask(server.warm_up)
        yield
        server.worker.close()

    app = FastAPI(
        title="Proofmap",
        description="Maps of labels, and what they prove. All errors have the form {error: what to do}.",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/openapi.json",
        lifespan=lifespan,
        responses=_ERRORS,
    )
    app.add_middleware(Guard, access=server.access)
    for kind in (ProofmapError, RequestValidationError, ValidationError, HTTPException, ClientDisconnect):
        app.add_exception_handler(kind, _error_response)
    app.include_router(photos_router(server))
    app.include_router(items_router(server))
    app.include_router(jobs_router(server))
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

    @app.get("/", include_in_schema=False)
    async def index() -> Response:
        text = drawn("index.html", **page_words(server.nets))
        return Response(text, media_type="text/html", headers={"cache-control": "no-cache"})

    @app.get("/idea", include_in_schema=False)
    async def idea() -> Response:
        return answer("idea.html")

    @app.get("/static/{file}", include_in_schema=False)
    async def static(file: str) -> Response:
        return answer(file)


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
    if not is_page_request(request.scope):
        return JSONResponse({"error": message}, status_code=status)
    if status == 422 and isinstance(error, RequestValidationError):  # an address that was mistyped
        status, message = 404, "there is nothing at this address"
    title = "Not found" if status == 404 else "This cannot be shown"
    return message_page(title, as_sentence(message), status=status)
