"""The application: all routes, the page, and how problems are told."""

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

from proofmap.app.answers import Problem
from proofmap.app.api_page import api_page
from proofmap.app.job_routes import jobs_router
from proofmap.app.photo_routes import photos_router
from proofmap.app.photos import Unknown
from proofmap.app.run_pages import LINKS
from proofmap.app.runs import runs_router
from proofmap.app.security import Guard, Refused
from proofmap.app.server import Server
from proofmap.app.static import static_file
from proofmap.app.worker import Busy
from proofmap.core.errors import ProofmapError
from proofmap.core.version import __version__
from proofmap.results.sharing import without_folders

_PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem} for status in (400, 401, 403, 404, 409, 413, 422, 429)
}


def create_app(server: Server, *, api_only: bool = False) -> FastAPI:
    """The application of a server."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        server.worker.ask(server.begin)
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
        responses=_PROBLEMS,
    )
    app.add_middleware(Guard, access=server.access)
    _add_problems(app)
    app.include_router(photos_router(server))
    app.include_router(jobs_router(server))
    if not api_only:
        _add_page(app)
    if server.runs is not None:
        app.include_router(runs_router(server.runs, pages=not api_only))
    pages = {name: where for name, where in LINKS.items() if server.runs or not where.startswith("/runs")}
    app.include_router(api_page({} if api_only else pages))
    return app


def _add_page(app: FastAPI) -> None:
    """The page's files, by their names."""

    def answer(name: str) -> Response:
        found = static_file(name)
        if found is None:
            raise Unknown("there is no such file")
        content, kind = found
        return Response(content, media_type=kind, headers={"cache-control": "no-cache"})

    @app.get("/", include_in_schema=False)
    async def index() -> Response:
        return answer("index.html")

    @app.get("/static/{file}", include_in_schema=False)
    async def static(file: str) -> Response:
        return answer(file)


def _add_problems(app: FastAPI) -> None:
    """Every problem as JSON that says what to do."""

    def told(status: int, error: str) -> JSONResponse:
        return JSONResponse({"error": error}, status_code=status)

    @app.exception_handler(ProofmapError)
    async def wrong(request: Request, error: ProofmapError) -> JSONResponse:
        status = 404 if isinstance(error, Unknown) else 429 if isinstance(error, Busy) else 422
        return told(status, without_folders(str(error)))

    @app.exception_handler(RequestValidationError)
    @app.exception_handler(ValidationError)
    async def invalid(request: Request, error: RequestValidationError | ValidationError) -> JSONResponse:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"] if part not in ("body", "query", "path"))
        return told(422, f"{where or 'the request'}: {first['msg']}")

    @app.exception_handler(HTTPException)
    async def other(request: Request, error: HTTPException) -> JSONResponse:
        return told(error.status_code, str(error.detail))

    @app.exception_handler(Refused)
    async def refused(request: Request, error: Refused) -> JSONResponse:
        return told(error.status, error.error)

    @app.exception_handler(ClientDisconnect)
    async def gone(request: Request, error: ClientDisconnect) -> JSONResponse:
        return told(400, "the request ended before all of it was sent")
