"""The routes of the page: photos and labels; rows, series and texts; jobs with their maps and files; painted proofs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache, partial
from importlib.util import find_spec
from typing import Annotated, Any

import numpy as np
import torch
from fastapi import APIRouter, Path, Query, Request, Response
from PIL import Image
from pydantic import Field
from starlette.concurrency import run_in_threadpool
from torch import Tensor

from proofmap.app.choices import DEFAULT_FILL, MOST_PASSES
from proofmap.app.items import (
    LONGEST_TEXT,
    MOST_ROWS,
    PIXELS,
    TABLE_BYTES,
    UPLOAD_BYTES,
    Item,
    Listing,
    NotFound,
)
from proofmap.app.jobs import (
    MOST_LABELS,
    MOST_METHODS,
    OVER,
    JobAsked,
    JobId,
    LabelIndex,
    MapJob,
    Name,
    PhotoId,
    Spec,
    StrictRequest,
)
from proofmap.app.nets import PHOTO, check_known, plural
from proofmap.app.paint import FIRST, PaintAsked, painted, parts_of, seen_in_parts, top_labels, wrong_labels
from proofmap.app.running import FILES, command_line, saved
from proofmap.app.server import Server
from proofmap.core.errors import InputError
from proofmap.core.inputs import Series, TextInputs
from proofmap.core.text import counted, one_line
from proofmap.core.version import __version__
from proofmap.data.photos import SAMPLES, sample_path
from proofmap.data.series_files import SeriesFile
from proofmap.methods import Method
from proofmap.report.pictures import drawn_series, picture_bytes

_KNOWN = ("cat", "rocket", "coffee", "motorcycle", "astronaut")
_THUMBNAIL = (192, 192)
"""Largest width and height of the thumbnail of a sample photograph."""
_MOST_TYPED = 16
"""Largest number of labels that a visitor may type for a zero-shot net."""
_MOST_LISTED = 100
"""Largest number of rows in one list."""
_LONGEST_REQUEST = 100_000
"""Largest number of characters in a request for a text. The limit for a text to explain is lower, so that its own error message is sent."""
_PREVIEW = 120
"""Width in pixel columns of the small line drawing of a series in a list."""
_MOST_VALUES = 1000
"""Largest number of positions for which an answer lists values."""
DataId = Annotated[str, Field(pattern=r"^(data|[0-9a-f]{32})$")]
_Search = Annotated[str, Query(max_length=200)]
_FileName = Annotated[str, Query(max_length=300)]
_Answer = dict[str, Any]


class SampleAsked(StrictRequest):
    """A sample photograph, in place of an upload."""

    sample: Name


class TextAsked(StrictRequest):
    """A text to explain."""

    text: Annotated[str, Field(max_length=_LONGEST_REQUEST)]


class ChosenAsked(StrictRequest):
    """A row, series or text of some data, by its number."""

    data: DataId
    index: int = Field(ge=0, le=2**31 - 1)


class NetAsked(StrictRequest):
    """Labels for a net that takes any."""

    net: Name
    labels: list[Annotated[str, Field(min_length=1, max_length=80, pattern=r"^[^,&?]*$")]] = Field(
        min_length=2, max_length=_MOST_TYPED
    )


def routes_of(server: Server) -> APIRouter:
    """All routes of a server but the page itself."""
    router = APIRouter()
    _add_photos(router, server)
    _add_items(router, server)
    _add_jobs(router, server)
    return router


# ---- photos and labels ------------------------------------------------------------------------------------------


def _add_photos(router: APIRouter, server: Server) -> None:
    """Add the routes for photos and labels."""
    nets, photos = server.nets, server.photos

    @router.get("/api/about")
    async def about() -> _Answer:
        """What this server offers, and its limits."""
        return {
            "version": __version__,
            "device": server.device,
            "item": nets.singular or PHOTO,
            "positions": nets.positions,
            "data": None if server.items.own is None else _about_data(server.items.own),
            "nets": nets.about(),
            "methods": server.choices.methods_about,
            "fills": server.choices.fills_about(),
            "samples": [{"name": name} for name in _sample_names()] if nets.of_photos else [],
            "default": {
                "net": nets.first,
                "methods": [server.choices.usual_method],
                "fill": server.choices.usual_fill,
                "labels": FIRST,
            },
            "limits": {
                "upload_bytes": UPLOAD_BYTES,
                "pixels": PIXELS,
                "table_bytes": TABLE_BYTES,
                "rows": MOST_ROWS,
                "characters": LONGEST_TEXT,
                "typed_labels": _MOST_TYPED,
                "labels": MOST_LABELS,
                "methods": MOST_METHODS,
            },
        }

    @router.post("/api/photos")
    async def add_photo(request: Request, name: _FileName = "") -> _Answer:
        """Upload a photo: the bytes of a picture with any type image/..., or JSON that names a sample."""
        if not nets.of_photos:
            raise InputError(f"the nets of this server take {plural(str(nets.singular))}, no photos")
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
        return {"photo": photo.id, "name": photo.name, "width": photo.width, "height": photo.height}

    @router.get("/api/samples/{sample}")
    async def sample_picture(sample: Annotated[str, Path(max_length=100)]) -> Response:
        """A thumbnail of a sample photograph."""
        if sample not in SAMPLES or find_spec("skimage") is None:
            raise NotFound("no sample has that name; they are in /api/about")
        content = await run_in_threadpool(_thumbnail, sample)  # our own files, made small once
        return Response(content, media_type="image/jpeg", headers={"cache-control": "max-age=3600"})

    @router.get("/api/photos/{photo}/view")
    async def view(photo: PhotoId, net: Name) -> Response:
        """The photo as the net sees it."""
        found, facts = photos[photo], await server.facts(net)
        seen = await server.seen(found, net)
        return _png(facts.inputs.picture(seen[0]))

    @router.get("/api/photos/{photo}/fill")
    async def fill_picture(
        photo: PhotoId,
        net: Name,
        fill: Spec = DEFAULT_FILL,
        seed: Annotated[int, Query(ge=0, le=2**31 - 1)] = 0,
    ) -> Response:
        """A picture of what hidden pixels of a photo show. For a random fill, the first draw."""
        found, chosen, facts = photos[photo], server.choices.fill(fill), await server.facts(net)

        def drawn() -> Any:
            image = nets.seen(found, net).to(nets.classifier(net).device)
            return nets.hidden(net, found, chosen, image, seed)[0].cpu()

        return _png(facts.inputs.picture(await server.ask(drawn)))

    @router.get("/api/photos/{photo}/beliefs")
    async def beliefs(
        photo: PhotoId,
        net: Name,
        number: Annotated[int, Query(ge=1, le=1000)] = 10,
        labels: Annotated[tuple[LabelIndex, ...], Query(max_length=MOST_LABELS)] = (),
    ) -> _Answer:
        """The net's probabilities for a photo: the ``number`` most probable labels, then those in ``labels`` that are not among them; and wrong
        labels to test soundness with."""
        found, facts = server.subjects[photo], await server.facts(net)
        check_known(labels, facts)
        image = await server.seen(found, net)
        f = await server.beliefs(found, net)

        def believed(chosen: Iterable[int]) -> list[_Answer]:
            return [{"label": a, "name": facts.names[a], "f": float(f[a])} for a in chosen]

        return {
            "labels": believed(dict.fromkeys([*top_labels(f, facts.label_set, number), *labels])),
            "total": len(facts.label_set),
            "wrong": believed(wrong_labels(f, facts.label_set, image)),
        }

    @router.get("/api/photos/{photo}/suggestions")
    async def suggestions(photo: PhotoId, net: Name) -> _Answer:
        """Up to 4 labels that are much more probable for a part of the photo than for the whole photo. Empty for rows and texts."""
        if not nets.of_photos:
            return {"labels": []}
        found, facts = photos[photo], await server.facts(net)
        image, f = await server.seen(found, net), await server.beliefs(found, net)
        parts = await server.ask(lambda: nets.classifier(net).frozen().probabilities(parts_of(image)).cpu())
        return {
            "labels": [
                {"label": a, "name": facts.names[a], "f": float(f[a]), "part": part}
                for a, part in seen_in_parts(f, parts, facts.label_set)
            ]
        }

    @router.get("/api/labels")
    async def labels(net: Name, search: _Search = "", photo: PhotoId | None = None) -> _Answer:
        """At most 20 labels of a net whose names contain the text ``search``, with their probabilities for a photo if one is named."""
        facts = await server.facts(net)
        f = None if photo is None else await server.beliefs(server.subjects[photo], net)
        return {
            "labels": [
                {"label": a, "name": facts.names[a], "f": None if f is None else float(f[a])}
                for a in nets.search(facts, search)
            ]
        }


@cache
def _sample_names() -> list[str]:
    """The names of the sample photographs, those with objects of ImageNet's labels first; empty if the samples are not installed."""
    others = [name for name in SAMPLES if name not in _KNOWN]
    return [*_KNOWN, *others] if find_spec("skimage") is not None else []


def _thumbnail(sample: str) -> bytes:
    with Image.open(sample_path(sample)) as picture:
        small = picture.convert("RGB")
    small.thumbnail(_THUMBNAIL)
    return picture_bytes(small, "JPEG", quality=80)


def _png(pixels: np.ndarray) -> Response:
    return Response(picture_bytes(Image.fromarray(pixels), "PNG"), media_type="image/png")


# ---- rows, series and texts -------------------------------------------------------------------------------------


def _add_items(router: APIRouter, server: Server) -> None:
    """Add the routes for rows, series and texts: lists to choose from, uploaded files, typed texts, their positions, and labels of zero-shot
    nets."""
    items, nets = server.items, server.nets

    @router.post("/api/data")
    async def add_file(request: Request, net: Name, name: _FileName = "") -> _Answer:
        """Upload a file whose rows or series can be explained. For a net of tables: CSV with the columns that the net takes, in any order; other
        columns are left out. For a net of series: a .ts, CSV, .npz or WAV file with series of the net's length. The suffix of ``name`` names
        the format."""
        facts = await server.facts(net)
        server.check_decoders()
        body = await request.body()
        return _about_data(await server.decode(partial(items.add_file, body, name, facts.inputs)))

    @router.get("/api/data/{data}")
    async def data_list(
        data: DataId,
        first: Annotated[int, Query(ge=0, le=2**31 - 1)] = 0,
        number: Annotated[int, Query(ge=1, le=_MOST_LISTED)] = 20,
        search: _Search = "",
    ) -> _Answer:
        """A list of rows, series or texts to choose from. With ``search``, only those whose name contains this text."""
        listing = items.listing(data)
        found = listing.search(search)
        return {
            **_about_data(listing),
            "columns": listing.columns(),
            "found": len(found),
            "items": [
                {
                    "index": i,
                    "name": one_line(str(listing.data.names[i])),
                    "cells": listing.cells(i),
                    "truth": listing.truth(i),
                    "drawing": _preview(listing, i),
                }
                for i in found[first : first + number]
            ],
        }

    @router.post("/api/items")
    async def add_item(asked: ChosenAsked | TextAsked) -> _Answer:
        """Choose a row, series or text of some data, or send a text."""
        if nets.of_photos:
            raise InputError("the nets of this server take photos, no rows, series or texts")
        if isinstance(asked, ChosenAsked):
            return _about_item(items.choose(asked.data, asked.index))
        facts = await server.facts(nets.first)
        if not isinstance(facts.inputs, TextInputs):
            raise InputError(f"the nets of this server take {facts.inputs.noun}, no texts")
        return _about_item(items.add_text(asked.text))

    @router.get("/api/photos/{photo}/positions")
    async def positions(photo: PhotoId, net: Name) -> _Answer:
        """The positions of an input: the columns of a row with their values, the time steps or segments of a series with its line, or the words
        of a text as the net divides it."""
        found, facts = server.subjects[photo], await server.facts(net)
        image, inputs = (await server.seen(found, net))[0], facts.inputs
        if nets.of_photos:
            raise InputError("a photo has no list of positions, because its positions are pixels")
        if isinstance(inputs, TextInputs):
            return {"positions": [{"name": word, "value": ""} for word in inputs.words(image)]}

        def listed() -> _Answer:
            few = not isinstance(inputs, Series) or inputs.count <= _MOST_VALUES
            values = [
                {"name": one_line(name), "value": one_line(inputs.value_text(image, k)) if few else ""}
                for k, name in enumerate(inputs.position_names)
            ]
            return {
                "positions": values,
                "drawing": _drawing(image, inputs) if isinstance(inputs, Series) else None,
            }

        return await run_in_threadpool(listed)

    @router.post("/api/nets")
    async def relabel(asked: NetAsked) -> _Answer:
        """Make the same zero-shot net with other labels. It is loaded when it is first used."""
        labels = [one_line(label).strip() for label in asked.labels]
        if len({label.casefold() for label in labels}) < len(labels) or not all(labels):
            raise InputError("give every label once, and none that is empty")
        made = nets.relabel(asked.net, labels)
        await server.facts(made)  # labels that the net cannot tell apart are refused here
        return {"net": made}


def _about_data(listing: Listing) -> _Answer:
    return {
        "data": listing.id,
        "name": listing.name,
        "total": len(listing.data),
        "left_out": list(listing.left_out),
    }


def _about_item(item: Item) -> _Answer:
    return {"photo": item.id, "name": item.name, "truth": item.truth}


def _preview(listing: Listing, index: int) -> _Answer | None:
    """The small line drawing of a series for a list, scaled by the mean and standard deviation of this series; None for other data."""
    if not isinstance(listing.data, SeriesFile):
        return None
    x = torch.from_numpy(listing.data.read(index))
    inputs = Series(
        length=x.shape[1], mean=tuple(x.mean(dim=1).tolist()), std=tuple((x.std(dim=1) + 1e-12).tolist())
    )
    return _drawing(x, inputs, min(_PREVIEW, x.shape[1]))


def _drawing(x: Tensor, inputs: Series, *width: int) -> _Answer:
    """A series to draw: the first position that each column shows, and for each channel its least and largest height there, from 0 (bottom) to
    1 (top); or the picture of a spectrogram."""
    found = drawn_series(x, inputs, *width)
    return {**found, "lines": [{**line, "name": one_line(line["name"])} for line in found["lines"]]}


# ---- jobs and painted proofs ------------------------------------------------------------------------------------


def _add_jobs(router: APIRouter, server: Server) -> None:
    """Add the routes for jobs and painted proofs."""
    jobs, choices = server.jobs, server.choices

    @router.post("/api/jobs", status_code=202)
    async def add_job(asked: JobAsked) -> _Answer:
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
        return {"job": jobs.add(MapJob(asked, photo, methods, fill, command)).id}

    @router.get("/api/jobs")
    async def all_jobs() -> _Answer:
        """All jobs that are kept, newest first."""
        return {"jobs": jobs.summaries()}

    @router.get("/api/jobs/{job}")
    async def one_job(job: JobId, after: Annotated[int, Query(ge=0, le=2**53)] = 0) -> _Answer:
        """A job, and its events with a number above ``after``; of unfinished maps and progress only the newest."""
        found = jobs[job]
        events, last = found.events(after)
        return {**jobs.summary(found), "command": found.command, "events": events, "last": last}

    @router.delete("/api/jobs/{job}")
    async def cancel(job: JobId, leave: bool = False) -> _Answer:
        """Cancel a job: at once if it waits, after its current step if it runs. With ``leave``, only if no other request wants it."""
        found = jobs[job]
        jobs.cancel(found, leave=leave)
        return jobs.summary(found)

    @router.get("/api/jobs/{job}/maps/{method}/{label}")
    async def finished_map(
        job: JobId, method: Annotated[int, Path(ge=0, lt=MOST_METHODS)], label: LabelIndex
    ) -> _Answer:
        """A finished map: its ranking of pixels, its curves, and what it proves."""
        found = jobs[job]
        if (method, label) not in found.maps:
            raise NotFound(
                "the map is not finished, or the job does not include it"
                if found.state not in OVER
                else "the job has no such map"
            )
        return found.maps[method, label]

    @router.get("/api/jobs/{job}/files/{file}")
    async def job_file(job: JobId, file: Annotated[str, Path(max_length=40)]) -> Response:
        """A file to save: sheet.png, page.html, maps.npz, maps.safetensors, command.txt."""
        found = jobs[job]
        facts = await server.facts(found.asked.net)
        content = await run_in_threadpool(saved, found, file, facts.inputs)
        named = f'attachment; filename="{found.photo.id[:8]}-{file}"'
        return Response(content, media_type=FILES[file], headers={"content-disposition": named})

    @router.post("/api/paint")
    async def paint(asked: PaintAsked) -> _Answer:
        """The net's probabilities if only the painted pixels are shown, and if the same number of top pixels of each method's map is shown."""
        photo, fill = server.subjects[asked.photo], choices.fill(asked.fill)
        job = None if asked.job is None else jobs.find(asked.job)  # a job that is gone is no error
        if job is not None and (job.asked.photo, job.asked.net) != (asked.photo, asked.net):
            raise InputError("that job has another photo or net")
        return await server.ask(partial(painted, server.nets, asked, photo, fill, job))


def _check_passes(methods: Sequence[Method], labels: int) -> None:
    """Raise if a job with these methods and this number of labels needs more passes than one job may take while others wait."""
    costs = [method.cost(labels) for method in methods]
    passes = sum(cost.passes for cost in costs if cost is not None)
    if passes > MOST_PASSES:
        raise InputError(
            f"{', '.join(method.title() for method in methods)} for {counted(labels, 'label')} would take {passes:,} passes of the net; "
            f"the limit for a job is {MOST_PASSES:,}: ask for fewer, or use the command line: proofmap explain"
        )
