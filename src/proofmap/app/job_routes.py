"""Routes for jobs with their maps and files, and for painted proofs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Response
from starlette.concurrency import run_in_threadpool

from proofmap.app import answers, job_answers
from proofmap.app.choices import MOST_PASSES
from proofmap.app.items import NotFound
from proofmap.app.job_answers import JobAsked, PaintAsked
from proofmap.app.jobs import OVER, MapJob
from proofmap.app.nets import check_known
from proofmap.app.paint import painted
from proofmap.app.running import FILES, command_line, saved
from proofmap.app.server import Server
from proofmap.core.errors import InputError
from proofmap.core.text import counted
from proofmap.methods import Method

_FILE: dict[int | str, dict[str, Any]] = {200: answers.binary("application/octet-stream")}


def jobs_router(server: Server) -> APIRouter:
    """The routes for jobs and painted proofs."""
    router = APIRouter()
    jobs, choices = server.jobs, server.choices

    @router.post("/api/jobs", status_code=202)
    async def add_job(asked: JobAsked) -> job_answers.JobMade:
        """Queue a job. If a kept job has the same request, that job is returned."""
        photo, offer = server.subjects[asked.photo], server.nets.offer(asked.net)
        methods, fill = [choices.method(spec) for spec in asked.methods], choices.fill(asked.fill)
        if len({*asked.labels}) < len(asked.labels) or len({*asked.methods}) < len(asked.methods):
            raise InputError("a label or a method is named more than once; name each only once")
        check_known(asked.labels, await server.facts(asked.net))
        if server.access.token:  # others may wait; alone on this machine, whoever asks also waits
            _check_passes(methods, len(asked.labels))
        written = [choices.written(method) for method in methods]
        command = command_line(
            photo.arguments, offer.options, asked.labels, written, fill.title(), asked.seed
        )
        job = jobs.add(MapJob(asked, photo, methods, fill, command))
        return job_answers.JobMade(job=job.id)

    @router.get("/api/jobs")
    async def all_jobs() -> job_answers.JobList:
        """All jobs that are kept, newest first."""
        return job_answers.JobList(jobs=jobs.summaries())

    @router.get("/api/jobs/{job}")
    async def one_job(
        job: answers.JobId, after: Annotated[int, Query(ge=0, le=2**53)] = 0
    ) -> job_answers.JobAnswer:
        """A job, and its events with a number above ``after``."""
        return jobs.answer(jobs[job], after)

    @router.delete("/api/jobs/{job}")
    async def cancel(
        job: answers.JobId,
        leave: Annotated[bool, Query(description="only if no other request wants this job")] = False,
    ) -> job_answers.JobSummary:
        """Cancel a job: at once if it waits, after its current step if it runs."""
        found = jobs[job]
        jobs.cancel(found, leave=leave)
        return jobs.summary(found)

    @router.get("/api/jobs/{job}/maps/{method}/{label}")
    async def finished_map(
        job: answers.JobId,
        method: Annotated[int, Path(ge=0, lt=answers.MOST_METHODS)],
        label: answers.LabelIndex,
    ) -> job_answers.MapAnswer:
        """A finished map: its ranking of pixels, its curves, and what it proves."""
        found = jobs[job]
        if (method, label) not in found.maps:
            raise NotFound(
                "the map is not finished, or the job does not include it"
                if found.state not in OVER
                else "the job has no such map"
            )
        return found.maps[method, label]

    @router.get("/api/jobs/{job}/files/{file}", response_class=Response, responses=_FILE)
    async def job_file(job: answers.JobId, file: Annotated[str, Path(max_length=40)]) -> Response:
        """A file to save: sheet.png, page.html, maps.npz, maps.safetensors, command.txt."""
        found = jobs[job]
        facts = await server.facts(found.asked.net)
        content = await run_in_threadpool(saved, found, file, facts.inputs)
        named = f"{found.photo.id[:8]}-{file}"
        return Response(
            content,
            media_type=FILES[file],
            headers={"content-disposition": f'attachment; filename="{named}"'},
        )

    @router.post("/api/paint")
    async def paint(asked: PaintAsked) -> job_answers.PaintAnswer:
        """The net's probabilities if only the painted pixels are shown, and if the same number of top pixels of each method's map is shown."""
        photo, fill = server.subjects[asked.photo], choices.fill(asked.fill)
        job = None if asked.job is None else jobs.find(asked.job)  # a job that is gone is no error
        if job is not None and (job.asked.photo, job.asked.net) != (asked.photo, asked.net):
            raise InputError("that job has another photo or net")
        return await server.ask(partial(painted, server.nets, asked, photo, fill, job))

    return router


def _check_passes(methods: Sequence[Method], labels: int) -> None:
    """Raise if a job with these methods and this number of labels needs more passes than one job may take while others wait."""
    costs = [method.cost(labels) for method in methods]
    passes = sum(cost.passes for cost in costs if cost is not None)
    if passes > MOST_PASSES:
        raise InputError(
            f"{', '.join(method.title() for method in methods)} for {counted(labels, 'label')} would take {passes:,} passes of the net; "
            f"the limit for a job is {MOST_PASSES:,}: ask for fewer, or use the command line: proofmap explain"
        )
