"""The application: its routes, and what they share."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from pathlib import Path as Folder
from typing import Annotated, Any, TypeVar

import numpy as np
from anyio import CapacityLimiter, to_thread
from fastapi import FastAPI, Path, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from PIL import Image
from pydantic import ValidationError
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from torch import Tensor

from proofmap.app import answers
from proofmap.app.answers import JobAsked, PaintAsked, PhotoId, Problem, SampleAsked
from proofmap.app.api_page import api_page
from proofmap.app.choices import DEFAULT_FILL, DEFAULT_METHOD, MOST_PASSES, Choices
from proofmap.app.jobs import OVER, Job, Jobs
from proofmap.app.nets import Facts, Nets, check_known, hidden_by
from proofmap.app.paint import painted, top_labels
from proofmap.app.photos import PIXELS, UPLOAD_BYTES, Photo, Photos, Unknown
from proofmap.app.run_pages import LINKS
from proofmap.app.running import Runner
from proofmap.app.runs import runs_router
from proofmap.app.saving import FILES, command_line, saved
from proofmap.app.security import Access, Guard, Refused
from proofmap.app.static import static_file
from proofmap.app.worker import Busy, Worker
from proofmap.core.errors import InputError, ProofmapError
from proofmap.core.version import __version__
from proofmap.data.samples import SAMPLES
from proofmap.results.sharing import without_folders

T = TypeVar("T")
DECODERS, MOST_UNDECODED = 2, 16
"""Pictures that are decoded at once; and those with the ones that wait for it."""
_FIRST_LABELS = 4
_PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem} for status in (400, 401, 403, 404, 409, 413, 422, 429)
}


@dataclass(eq=False)
class Server:
    """What all routes share."""

    nets: Nets
    choices: Choices
    access: Access = field(default_factory=Access)
    device: str = "cpu"
    runs: Folder | None = None
    """The folder whose runs can be looked at."""
    worker: Worker = field(default_factory=Worker)

    def __post_init__(self) -> None:
        self.photos = Photos(self.nets.look)
        self.jobs = Jobs(self.worker, Runner(self.nets, self.worker))
        self._decoders, self._undecoded = CapacityLimiter(DECODERS), 0

    def begin(self) -> None:
        """What is done before anyone asks, so that the first photo is answered fast; in the worker's thread."""
        self.nets.classifier(self.nets.first)
        self.nets.warm_soon(None, self.nets.first)

    async def ask(self, question: Callable[[], T]) -> T:
        """What the worker's thread answers."""
        return await asyncio.wrap_future(self.worker.ask(question))

    async def decode(self, work: Callable[[], T]) -> T:
        """What needs a picture decoded: a few at a time, in threads that nobody else needs, and few wait."""
        self.check_decoders()
        self._undecoded += 1
        try:
            return await to_thread.run_sync(work, limiter=self._decoders)
        finally:
            self._undecoded -= 1

    def check_decoders(self) -> None:
        """Refuse a picture where too many wait to be decoded, before it is sent."""
        if self._undecoded >= MOST_UNDECODED:
            raise Busy("too many photos come at once; send it again in a moment")

    async def seen(self, photo: Photo, net: str) -> Tensor:
        """The photo as a net sees it; at once where that is known."""
        known = self.nets.seen_before(photo, net)
        return await self.decode(partial(self.nets.seen, photo, net)) if known is None else known

    async def facts(self, net: str) -> Facts:
        """What is known of a net; it is loaded for that where it must be."""
        found = self.nets.known(net)
        return await self.ask(lambda: self.nets.facts(net)) if found is None else found


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
    _add_photos(app, server)
    _add_jobs(app, server)
    if not api_only:
        _add_page(app)
    if server.runs is not None:
        app.include_router(runs_router(server.runs, pages=not api_only))
    pages = {name: where for name, where in LINKS.items() if server.runs or not where.startswith("/runs")}
    app.include_router(api_page({} if api_only else pages))
    return app


# ---- photos, labels, beliefs ------------------------------------------------------------------------------------


def _add_photos(app: FastAPI, server: Server) -> None:
    nets, photos = server.nets, server.photos

    @app.get("/api/about")
    async def about() -> answers.About:
        """What this server has, and what it allows."""
        return answers.About(
            version=__version__,
            device=server.device,
            nets=nets.about(),
            methods=server.choices.methods_about,
            fills=server.choices.fills_about(),
            samples=[answers.Named(name=name) for name in SAMPLES if find_spec("skimage") is not None],
            runs=server.runs is not None,
            default=answers.Defaults(
                net=nets.first, methods=[DEFAULT_METHOD], fill=DEFAULT_FILL, labels=_FIRST_LABELS
            ),
            limits=answers.Limits(
                upload_bytes=UPLOAD_BYTES,
                pixels=PIXELS,
                labels=answers.MOST_LABELS,
                methods=answers.MOST_METHODS,
            ),
        )

    @app.post("/api/photos", openapi_extra=_PHOTO_BODY)
    async def add_photo(
        request: Request, name: Annotated[str, Query(max_length=300)] = ""
    ) -> answers.PhotoAnswer:
        """A picture's bytes as the body, of any type image/...; or JSON that names a sample."""
        server.check_decoders()
        body = await request.body()
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind == "application/json":
            asked = SampleAsked.model_validate_json(body)
            photo = await server.decode(partial(photos.add_sample, asked.sample))
        elif kind.startswith("image/") or kind == "application/octet-stream":
            photo = await server.decode(partial(photos.add, body, name))
        else:
            raise InputError('send a picture as image/..., or JSON {"sample": NAME}')
        nets.warm_soon(photo, nets.first)
        return answers.PhotoAnswer(photo=photo.id, name=photo.name, width=photo.width, height=photo.height)

    @app.get("/api/photos/{photo}/view", response_class=Response, responses=_PNG)
    async def view(photo: PhotoId, net: answers.Name) -> Response:
        """What the net sees of a photo."""
        found, facts = photos[photo], await server.facts(net)
        seen = await server.seen(found, net)
        return _png(facts.inputs.picture(seen[0]))

    @app.get("/api/photos/{photo}/fill", response_class=Response, responses=_PNG)
    async def fill_picture(
        photo: PhotoId,
        net: answers.Name,
        fill: answers.Spec = DEFAULT_FILL,
        seed: Annotated[int, Query(ge=0, le=2**31 - 1)] = 0,
    ) -> Response:
        """What hidden pixels of a photo show; of a fill that draws, its first draw."""
        found, chosen, facts = photos[photo], server.choices.fill(fill), await server.facts(net)

        def drawn() -> Any:
            image = nets.seen(found, net).to(nets.classifier(net).device)
            return hidden_by(nets.fill(net, found, chosen), image, seed)[0].cpu()

        return _png(facts.inputs.picture(await server.ask(drawn)))

    @app.get("/api/photos/{photo}/beliefs")
    async def beliefs(
        photo: PhotoId,
        net: answers.Name,
        number: Annotated[int, Query(ge=1, le=1000)] = 10,
        labels: Annotated[tuple[answers.LabelIndex, ...], Query(max_length=answers.MOST_LABELS)] = (),
    ) -> answers.Beliefs:
        """What the net believes of a photo: the most probable labels first, then ``labels`` that are not among them."""
        found, facts = photos[photo], await server.facts(net)
        check_known(labels, facts)
        image = await server.seen(found, net)
        f = await server.ask(lambda: nets.classifier(net).frozen().probabilities(image)[0].cpu())
        told = dict.fromkeys([*top_labels(f, facts.label_set, number), *labels])
        found_labels = [answers.Belief(label=a, name=facts.names[a], f=float(f[a])) for a in told]
        return answers.Beliefs(labels=found_labels, total=len(facts.label_set))

    @app.get("/api/labels")
    async def labels(net: answers.Name, search: Annotated[str, Query(max_length=200)] = "") -> answers.Labels:
        """Labels of a net by a part of their name, at most 20."""
        facts = await server.facts(net)
        found = nets.search(facts, search)
        return answers.Labels(labels=[answers.Label(label=a, name=facts.names[a]) for a in found])


_PNG: dict[int | str, dict[str, Any]] = {
    200: {"content": {"image/png": {"schema": {"type": "string", "format": "binary"}}}}
}
_PHOTO_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "image/*": {"schema": {"type": "string", "format": "binary"}},
            "application/json": {"schema": SampleAsked.model_json_schema()},
        },
    }
}


def _png(pixels: np.ndarray) -> Response:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return Response(file.getvalue(), media_type="image/png")


# ---- jobs and painting ------------------------------------------------------------------------------------------


def _add_jobs(app: FastAPI, server: Server) -> None:
    jobs, choices = server.jobs, server.choices

    @app.post("/api/jobs", status_code=202)
    async def add_job(asked: JobAsked) -> answers.JobMade:
        """Ask for maps; they are made when the jobs before are done."""
        photo, offer = server.photos[asked.photo], server.nets.offer(asked.net)
        methods, fill = [choices.method(spec) for spec in asked.methods], choices.fill(asked.fill)
        if len({*asked.labels}) < len(asked.labels) or len({*asked.methods}) < len(asked.methods):
            raise InputError("name every label and every method once")
        check_known(asked.labels, await server.facts(asked.net))
        for method in methods:
            cost = method.cost(len(asked.labels))
            if cost is not None and cost.passes > MOST_PASSES:
                raise InputError(
                    f"{method.title()} would take {cost.passes:,} passes of the net; at most {MOST_PASSES:,} are taken here"
                )
        written = [choices.written(method) for method in methods]
        command = command_line(photo.name, offer.written, asked.labels, written, fill.title(), asked.seed)
        job = jobs.add(Job(asked, photo, methods, fill, command))
        return answers.JobMade(job=job.id)

    @app.get("/api/jobs")
    async def all_jobs() -> answers.Jobs:
        """All jobs that are remembered, newest first."""
        return answers.Jobs(jobs=jobs.summaries())

    @app.get("/api/jobs/{job}")
    async def one_job(
        job: answers.JobId, after: Annotated[int, Query(ge=0, le=2**53)] = 0
    ) -> answers.JobAnswer:
        """A job, and what happened after event number ``after``."""
        return jobs.answer(jobs[job], after)

    @app.delete("/api/jobs/{job}")
    async def cancel(job: answers.JobId) -> answers.JobSummary:
        """Cancel a job: one that waits at once, one that runs after its present step."""
        found = jobs[job]
        jobs.cancel(found)
        return jobs.summary(found)

    @app.get("/api/jobs/{job}/maps/{method}/{label}")
    async def finished_map(
        job: answers.JobId,
        method: Annotated[int, Path(ge=0, lt=answers.MOST_METHODS)],
        label: answers.LabelIndex,
    ) -> answers.MapAnswer:
        """A finished map: its order of pixels, its curves, and what it proves."""
        found = jobs[job]
        if (method, label) not in found.maps:
            raise Unknown(
                "the map is not made yet, or was not asked for"
                if found.state not in OVER
                else "the job has no such map"
            )
        return found.maps[method, label]

    @app.get("/api/jobs/{job}/files/{file}", response_class=Response, responses=_FILE)
    async def job_file(job: answers.JobId, file: Annotated[str, Path(max_length=40)]) -> Response:
        """What can be saved: sheet.png, page.html, maps.npz, maps.safetensors, command.txt."""
        found = jobs[job]
        facts = await server.facts(found.asked.net)
        content = await run_in_threadpool(saved, found, file, facts.inputs)
        named = f"{found.photo.id[:8]}-{file}"
        return Response(
            content,
            media_type=FILES[file],
            headers={"content-disposition": f'attachment; filename="{named}"'},
        )

    @app.post("/api/paint")
    async def paint(asked: PaintAsked) -> answers.PaintAnswer:
        """What the net says when only the painted pixels are shown, and what the machine's proofs of that size say."""
        photo, fill = server.photos[asked.photo], choices.fill(asked.fill)
        job = (
            None if asked.job is None else jobs.find(asked.job)
        )  # the net answers also when the maps are gone
        if job is not None and (job.asked.photo, job.asked.net) != (asked.photo, asked.net):
            raise InputError("that job is about another photo or net")
        return await server.ask(partial(painted, server.nets, asked, photo, fill, job))


_FILE: dict[int | str, dict[str, Any]] = {
    200: {"content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}}}
}


# ---- the page, and problems -------------------------------------------------------------------------------------


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
