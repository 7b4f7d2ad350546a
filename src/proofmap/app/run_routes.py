"""Routes for the runs below a folder, as pages and as JSON: the list of runs, reports, single images, and the comparison of two runs.

A report is shown in a sandboxed frame that cannot use this server; see :data:`proofmap.app.pages.REPORT_POLICY`. A small script
keeps the page around the frame up to date.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable
from functools import partial
from pathlib import Path as FilePath
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import BaseModel, Field

from proofmap.app.items import NotFound
from proofmap.app.pages import REPORT_POLICY, as_sentence, html, message_page, page, template_file
from proofmap.app.run_folders import public_text
from proofmap.app.run_records import ComparisonRecord, ImageList, RunImage, RunList, RunRecord
from proofmap.app.run_views import RunViews, comparison_record, split_names
from proofmap.core.errors import InputError, ProofmapError
from proofmap.results.drops import drop_cells

LINKS = {"Try it": "/", "The idea": "/idea", "Runs": "/runs", "Compare": "/runs/compare", "API": "/api"}
ROWS = 50
"""Number of images on one page of the list of images."""

RunId = Annotated[str, Path(pattern="^[0-9a-f]{32}$", description="of a run, as the list of runs gives it")]
Place = Annotated[int, Path(ge=0, le=10_000_000, description="of the image in the run, from 0")]
Start = Annotated[int, Query(ge=0, le=10_000_000)]
Text = Annotated[str, Query(max_length=300)]
FormText = Annotated[str, Field(max_length=300)]


def runs_router(root: FilePath, *, pages: bool = True) -> APIRouter:
    """The routes for the runs below ``root``. Without ``pages``, only the JSON routes."""
    views, router = RunViews(root), APIRouter(tags=["runs"])
    _add_json(router, views)
    if pages:
        router.include_router(_page_routes(views))
    return router


def no_runs_router() -> APIRouter:
    """The routes of the pages about runs, for a server without a folder of runs. The pages explain how to set one."""
    router = APIRouter(include_in_schema=False)

    @router.get("/runs")
    @router.get("/runs/compare")
    async def explanation(request: Request) -> Response:
        return page("no_runs.html", links=LINKS, here=request.url.path)

    return router


# ---- JSON ---------------------------------------------------------------------------------------------------


def _add_json(router: APIRouter, views: RunViews) -> None:
    @router.get("/api/runs", summary="The runs below the folder of --runs, as they are now")
    async def runs() -> RunList:
        return await views.read(views.folders.records)

    @router.get(
        "/api/runs/compare", summary="Paired differences between two runs, as proofmap compare gives them"
    )
    async def compare(
        run: Annotated[str, Query(pattern="^[0-9a-f]{32}$")],
        against: Annotated[str, Query(pattern="^[0-9a-f]{32}$", description="the run to compare with")],
        baseline: Annotated[
            Text, Query(description="METHOD or RUN/METHOD; the same method when left out")
        ] = "",
        metrics: Annotated[Text, Query(description="names separated by commas; all when left out")] = "",
        allow_mismatch: Annotated[bool, Query(description="compare runs whose settings differ")] = False,
        max_drop: Annotated[
            float | None, Query(ge=0, le=1e9, allow_inf_nan=False, description="how much a score may lose")
        ] = None,
    ) -> ComparisonRecord:
        work = partial(
            views.comparison,
            run,
            against,
            baseline=baseline or None,
            metrics=split_names(metrics),
            allow_mismatch=allow_mismatch,
            max_drop=max_drop,
        )
        return comparison_record(run, against, *await views.draw(work))

    @router.get("/api/runs/{run}", summary="One run as it is now")
    async def one_run(run: RunId) -> RunRecord:
        return await views.read(partial(views.record, run))

    @router.get("/api/runs/{run}/images", summary="Images of a run with their values by one metric")
    async def images(
        run: RunId,
        search: Annotated[Text, Query(description="in the names of images and labels")] = "",
        metric: Annotated[str | None, Query(max_length=300, description="the first when left out")] = None,
        sort: Annotated[
            str | None, Query(max_length=300, description="a method: its worst images come first")
        ] = None,
        start: Start = 0,
        number: Annotated[int, Query(ge=1, le=1000)] = 50,
    ) -> ImageList:
        work = partial(views.images, run, search=search, metric=metric, sort=sort, start=start, number=number)
        return await views.read(work)

    @router.get("/api/runs/{run}/images/{image}", summary="One image of a run with all its values")
    async def image(run: RunId, image: Place) -> RunImage:
        return await views.read(partial(views.image, run, image))


# ---- pages --------------------------------------------------------------------------------------------------


class CompareForm(BaseModel):
    """The fields of the form on the page that compares two runs."""

    run: FormText = ""
    against: FormText = ""
    baseline: FormText = ""
    metrics: FormText = ""
    max_drop: FormText = ""
    allow_mismatch: bool = False


def _page_routes(views: RunViews) -> APIRouter:
    router = APIRouter(include_in_schema=False)

    @router.get("/runs/live.js")
    async def live_script() -> Response:
        return Response(template_file("live.js"), media_type="text/javascript")

    @router.get("/runs")
    async def run_list() -> Response:
        return await views.read(lambda: page("runs.html", links=LINKS, found=views.folders.records()))

    @router.get("/runs/compare")
    async def compare(form: Annotated[CompareForm, Query()]) -> Response:
        return await _compare_page(views, form)

    @router.get("/runs/{run}")
    async def viewer(run: RunId) -> Response:
        return await _or_message(_viewer(views, run, None))

    @router.get("/runs/{run}/report")
    async def report(run: RunId) -> Response:
        return await _or_message(_framed(views, run, None), framed=True)

    @router.get("/runs/{run}/images")
    async def images(
        run: RunId, search: Text = "", metric: Text = "", sort: Text = "", start: Start = 0
    ) -> Response:
        return await _or_message(views.read(lambda: _images_page(views, run, search, metric, sort, start)))

    @router.get("/runs/{run}/images/{image}")
    async def image_viewer(run: RunId, image: Place) -> Response:
        return await _or_message(_viewer(views, run, image))

    @router.get("/runs/{run}/images/{image}/page")
    async def image_page(run: RunId, image: Place) -> Response:
        return await _or_message(_framed(views, run, image), framed=True)

    return router


async def _viewer(views: RunViews, run: str, image: int | None) -> Response:
    """A page that shows the state of a run, and below it a frame with the report, or with the page of one image."""
    record = await views.read(partial(views.record, run))
    if image is not None and image >= record.images:
        raise NotFound(f"the run has no image {image}; look for it in the list of its images")
    address = f"/runs/{run}/report" if image is None else f"/runs/{run}/images/{image}/page"
    return page("run.html", links=LINKS, run=record, image=image, shown=address if record.scores else "")


async def _framed(views: RunViews, run: str, image: int | None) -> Response:
    """The content of the frame: the current report of a run, or the page of one image."""
    return html(await views.draw(partial(views.page, run, image)), REPORT_POLICY)


def _images_page(views: RunViews, run: str, search: str, metric: str, sort: str, start: int) -> Response:
    """One page of the list of images."""
    query = {"search": search, "metric": metric, "sort": sort}
    found = views.images(
        run, search=search, metric=metric or None, sort=sort or None, start=start, number=ROWS
    )

    def address(place: int) -> str:
        return f"/runs/{run}/images?{urlencode({**query, 'start': place})}"

    return page(
        "images.html",
        links=LINKS,
        run=views.record(run),
        found=found,
        search=search,
        sort=sort,
        before=address(max(0, start - ROWS)) if start else None,
        after=address(start + ROWS) if start + ROWS < found.found else None,
    )


async def _compare_page(views: RunViews, form: CompareForm) -> Response:
    """The page with the form and, if two runs are chosen, their comparison or an error message below it."""
    listed = (await views.read(views.folders.records)).runs
    content: dict[str, object] = {"found": None, "message": "", "drops": [], "drop_notes": ()}
    if form.run and form.against:
        try:
            work = partial(
                views.comparison,
                form.run,
                form.against,
                baseline=form.baseline.strip() or None,
                metrics=split_names(form.metrics),
                allow_mismatch=form.allow_mismatch,
                max_drop=_parse_drop(form.max_drop),
            )
            found, drops, notes = await views.draw(work)
            content |= {"found": found, "drops": drops and drop_cells(drops), "drop_notes": notes}
        except ProofmapError as error:
            message = public_text(str(error))
            content["message"] = message.replace("--allow-mismatch", "“compare although settings differ”")
    return page(
        "compare.html",
        status=400 if content["message"] else 200,
        links=LINKS,
        runs=[run for run in listed if run.scores],
        form=form,
        **content,
    )


async def _or_message(work: Awaitable[Response], *, framed: bool = False) -> Response:
    """The page that ``work`` makes. If ``work`` fails, a page with the error message, which has no links if it is shown inside a frame."""
    try:
        return await work
    except ProofmapError as error:
        message = as_sentence(public_text(str(error)))
        title, status = ("Not found", 404) if isinstance(error, NotFound) else ("This cannot be shown", 409)
        if framed:
            return message_page(title, message, status=status)
        return page("error.html", status=status, links=LINKS, title=title, message=message)


def _parse_drop(text: str) -> float | None:
    if not text.strip():
        return None
    try:
        drop = float(text)
    except ValueError:
        drop = math.nan
    if not (math.isfinite(drop) and drop >= 0):
        raise InputError(f"what a score may lose is a number of at least 0, such as .02, not {text!r}")
    return drop
