"""Pages about runs: the list while they are written, a report in its frame, every image, two runs compared.

A report is shown in a frame that makes it a stranger to this server, see :data:`proofmap.app.pages.REPORT_POLICY`; what is
around it is drawn here and kept as it is now by a small script.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable
from dataclasses import dataclass
from functools import partial
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Path, Query, Response

from proofmap.app.pages import REPORT_POLICY, html, message_page, page, template_file
from proofmap.app.photos import Unknown
from proofmap.app.run_folders import told
from proofmap.app.run_views import RunDesk, split_names
from proofmap.core.errors import InputError, ProofmapError
from proofmap.results.drops import HEADER as DROP_HEADER

LINKS = {"Photo": "/", "Runs": "/runs", "Compare": "/runs/compare", "API": "/api"}
ROWS = 50
"""Images on one page of the list."""

RunId = Annotated[str, Path(pattern="^[0-9a-f]{32}$")]
Place = Annotated[int, Path(ge=0, le=10_000_000)]
Text = Annotated[str, Query(max_length=300)]


def run_pages(desk: RunDesk) -> APIRouter:
    """The routes of the pages."""
    router = APIRouter(include_in_schema=False)

    @router.get("/runs/live.js")
    async def live_script() -> Response:
        return Response(template_file("live.js"), media_type="text/javascript")

    @router.get("/runs")
    async def run_list() -> Response:
        return await desk.read(lambda: page("runs.html", links=LINKS, found=desk.folders.records()))

    @router.get("/runs/compare")
    async def compare(
        run: Text = "",
        against: Text = "",
        baseline: Text = "",
        metrics: Text = "",
        max_drop: Text = "",
        anyway: bool = False,
    ) -> Response:
        return await _compare_page(desk, Asked(run, against, baseline, metrics, max_drop, anyway))

    @router.get("/runs/{run}")
    async def viewer(run: RunId) -> Response:
        return await _or_message(_viewer(desk, run, None))

    @router.get("/runs/{run}/report")
    async def report(run: RunId) -> Response:
        return await _or_message(_framed(desk, run, None))

    @router.get("/runs/{run}/images")
    async def images(
        run: RunId,
        search: Text = "",
        metric: Text = "",
        sort: Text = "",
        start: Annotated[int, Query(ge=0, le=10_000_000)] = 0,
    ) -> Response:
        return await _or_message(desk.read(lambda: _images_page(desk, run, search, metric, sort, start)))

    @router.get("/runs/{run}/images/{image}")
    async def image_viewer(run: RunId, image: Place) -> Response:
        return await _or_message(_viewer(desk, run, image))

    @router.get("/runs/{run}/images/{image}/page")
    async def image_page(run: RunId, image: Place) -> Response:
        return await _or_message(_framed(desk, run, image))

    return router


@dataclass(frozen=True)
class Asked:
    """What is to be compared, as the form of the page has it."""

    run: str
    against: str
    baseline: str
    metrics: str
    max_drop: str
    anyway: bool


async def _viewer(desk: RunDesk, run: str, image: int | None) -> Response:
    """The frame of a report, or of one image's page, with the state of the run above it."""
    record = await desk.read(partial(desk.record, run))
    if image is not None and image >= record.images:
        raise Unknown(f"the run has no image {image}; look for it in the list of its images")
    address = f"/runs/{run}/report" if image is None else f"/runs/{run}/images/{image}/page"
    return page("run.html", links=LINKS, run=record, image=image, shown=address if record.scores else "")


async def _framed(desk: RunDesk, run: str, image: int | None) -> Response:
    """A report as it is now, or one image's page."""
    views = desk.views
    work = partial(views.report, run) if image is None else partial(views.image_page, run, image)
    return html(await desk.draw(work), REPORT_POLICY)


def _images_page(desk: RunDesk, run: str, search: str, metric: str, sort: str, start: int) -> Response:
    """One page of the list of images."""
    asked = {"search": search, "metric": metric, "sort": sort}
    found = desk.views.images(
        run, search=search, metric=metric or None, sort=sort or None, start=start, number=ROWS
    )

    def address(place: int) -> str:
        return f"/runs/{run}/images?{urlencode({**asked, 'start': place})}"

    return page(
        "images.html",
        links=LINKS,
        run=desk.record(run),
        found=found,
        search=search,
        sort=sort,
        before=address(max(0, start - ROWS)) if start else None,
        after=address(start + ROWS) if start + ROWS < found.found else None,
    )


async def _compare_page(desk: RunDesk, asked: Asked) -> Response:
    """The form, and below it the table where two runs are chosen; what does not compare is said above the table."""
    listed = (await desk.read(desk.folders.records)).runs
    content: dict[str, object] = {"found": None, "message": "", "drops": [], "drop_notes": ()}
    if asked.run and asked.against:
        try:
            work = partial(
                desk.views.comparison,
                asked.run,
                asked.against,
                baseline=asked.baseline.strip() or None,
                metrics=split_names(asked.metrics),
                anyway=asked.anyway,
                max_drop=_drop(asked.max_drop),
            )
            found, drops, notes = await desk.draw(work)
            content |= {"found": found, "drops": [line.cells() for line in drops], "drop_notes": notes}
        except ProofmapError as error:
            content["message"] = told(str(error)).replace("--allow-mismatch", "“also where settings differ”")
    status = 400 if content["message"] else 200
    return page(
        "compare.html",
        status=status,
        links=LINKS,
        runs=[run for run in listed if run.scores],
        asked=asked,
        drop_header=DROP_HEADER,
        **content,
    )


async def _or_message(work: Awaitable[Response]) -> Response:
    """The page, or one that says what to do."""
    try:
        return await work
    except Unknown as error:
        return message_page("Not here", told(str(error)), status=404)
    except ProofmapError as error:
        return message_page("This cannot be shown", told(str(error)), status=409, link=False)


def _drop(text: str) -> float | None:
    if not text.strip():
        return None
    try:
        drop = float(text)
    except ValueError:
        drop = math.nan
    if not (math.isfinite(drop) and drop >= 0):
        raise InputError(f"what a score may lose is a number of at least 0, such as .02, not {text!r}")
    return drop
