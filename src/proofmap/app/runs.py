"""Runs below a folder, as pages and as JSON: what is being written, reports, any image, and two runs compared.

Reading files and drawing go on in threads of their own, few at a time, so that they never keep the rest of the server waiting.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path as FilePath
from typing import Annotated

from fastapi import APIRouter, Path, Query

from proofmap.app.run_pages import run_pages
from proofmap.app.run_records import ComparisonRecord, ImageList, RunImage, RunList, RunRecord
from proofmap.app.run_views import RunDesk, comparison_record, split_names

RunId = Annotated[str, Path(pattern="^[0-9a-f]{32}$", description="of a run, as the list of runs gives it")]
Place = Annotated[int, Path(ge=0, le=10_000_000, description="of the image in the run, from 0")]
Text = Annotated[str, Query(max_length=300)]


def runs_router(root: FilePath, *, pages: bool = True) -> APIRouter:
    """The routes of the runs below a folder; without ``pages``, JSON alone."""
    desk, router = RunDesk(root), APIRouter(tags=["runs"])
    _add_json(router, desk)
    if pages:
        router.include_router(run_pages(desk))
    return router


def _add_json(router: APIRouter, desk: RunDesk) -> None:
    @router.get("/api/runs", summary="The runs below the folder of --runs, as they are now")
    async def runs() -> RunList:
        return await desk.read(desk.folders.records)

    @router.get(
        "/api/runs/compare", summary="Paired differences between two runs, as proofmap compare gives them"
    )
    async def compare(
        run: Annotated[str, Query(pattern="^[0-9a-f]{32}$")],
        against: Annotated[str, Query(pattern="^[0-9a-f]{32}$", description="the run to compare with")],
        baseline: Annotated[
            Text, Query(description="METHOD or RUN/METHOD; the same method when left out")
        ] = "",
        metrics: Annotated[Text, Query(description="some alone, separated by commas")] = "",
        anyway: Annotated[bool, Query(description="also where settings differ")] = False,
        max_drop: Annotated[
            float | None, Query(ge=0, le=1e9, allow_inf_nan=False, description="how much a score may lose")
        ] = None,
    ) -> ComparisonRecord:
        work = partial(
            desk.views.comparison,
            run,
            against,
            baseline=baseline or None,
            metrics=split_names(metrics),
            anyway=anyway,
            max_drop=max_drop,
        )
        return comparison_record(run, against, *await desk.draw(work))

    @router.get("/api/runs/{run}", summary="One run as it is now")
    async def one_run(run: RunId) -> RunRecord:
        return await desk.read(partial(desk.record, run))

    @router.get("/api/runs/{run}/images", summary="Images of a run with their values by one metric")
    async def images(
        run: RunId,
        search: Annotated[Text, Query(description="in the names of images and labels")] = "",
        metric: Annotated[str | None, Query(max_length=300, description="the first when left out")] = None,
        sort: Annotated[
            str | None, Query(max_length=300, description="a method: those where it is worst come first")
        ] = None,
        start: Annotated[int, Query(ge=0, le=10_000_000)] = 0,
        number: Annotated[int, Query(ge=1, le=1000)] = 50,
    ) -> ImageList:
        work = partial(
            desk.views.images, run, search=search, metric=metric, sort=sort, start=start, number=number
        )
        return await desk.read(work)

    @router.get("/api/runs/{run}/images/{image}", summary="One image of a run with all its values")
    async def image(run: RunId, image: Place) -> RunImage:
        return await desk.read(partial(desk.views.image, run, image))
