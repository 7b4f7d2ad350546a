"""Routes for photos and labels, and for the net's probabilities of a photo."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache, partial
from importlib.util import find_spec
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Path, Query, Request, Response
from PIL import Image
from starlette.concurrency import run_in_threadpool

from proofmap.app import answers
from proofmap.app.answers import PhotoId, SampleAsked
from proofmap.app.choices import DEFAULT_FILL
from proofmap.app.item_routes import data_about
from proofmap.app.items import LONGEST_TEXT, MOST_ROWS, PIXELS, TABLE_BYTES, UPLOAD_BYTES, NotFound
from proofmap.app.nets import PHOTO, check_known, plural
from proofmap.app.paint import FIRST, parts_of, seen_in_parts, top_labels, wrong_labels
from proofmap.app.server import Server
from proofmap.core.errors import InputError
from proofmap.core.version import __version__
from proofmap.data.photos import SAMPLES, sample_path
from proofmap.report.pictures import picture_bytes

_PNG: dict[int | str, dict[str, Any]] = {200: answers.binary("image/png")}
_JPEG: dict[int | str, dict[str, Any]] = {200: answers.binary("image/jpeg")}
_KNOWN = ("cat", "rocket", "coffee", "motorcycle", "astronaut")
_THUMBNAIL = (192, 192)
"""Largest width and height of the thumbnail of a sample photograph."""
_SAMPLE_BODY = {"application/json": {"schema": SampleAsked.model_json_schema()}}
_PHOTO_BODY = {
    "requestBody": {"required": True, "content": {**answers.binary("image/*")["content"], **_SAMPLE_BODY}}
}


def photos_router(server: Server) -> APIRouter:
    """The routes for photos and labels."""
    router = APIRouter()
    nets, photos = server.nets, server.photos

    @router.get("/api/about")
    async def about() -> answers.About:
        """What this server offers, and its limits."""
        return answers.About(
            version=__version__,
            device=server.device,
            item=nets.singular or PHOTO,
            positions=nets.positions,
            data=None if server.items.own is None else data_about(server.items.own),
            nets=nets.about(),
            methods=server.choices.methods_about,
            fills=server.choices.fills_about(),
            samples=[answers.Named(name=name) for name in _sample_names()] if nets.of_photos else [],
            default=answers.Defaults(
                net=nets.first,
                methods=[server.choices.usual_method],
                fill=server.choices.usual_fill,
                labels=FIRST,
            ),
            limits=answers.Limits(
                upload_bytes=UPLOAD_BYTES,
                pixels=PIXELS,
                table_bytes=TABLE_BYTES,
                rows=MOST_ROWS,
                characters=LONGEST_TEXT,
                typed_labels=answers.MOST_TYPED,
                labels=answers.MOST_LABELS,
                methods=answers.MOST_METHODS,
            ),
        )

    @router.post("/api/photos", openapi_extra=_PHOTO_BODY)
    async def add_photo(
        request: Request, name: Annotated[str, Query(max_length=300)] = ""
    ) -> answers.PhotoAnswer:
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
        nets.warm_soon(photo, nets.first)
        return answers.PhotoAnswer(photo=photo.id, name=photo.name, width=photo.width, height=photo.height)

    @router.get("/api/samples/{sample}", response_class=Response, responses=_JPEG)
    async def sample_picture(sample: Annotated[str, Path(max_length=100)]) -> Response:
        """A thumbnail of a sample photograph."""
        if sample not in SAMPLES or find_spec("skimage") is None:
            raise NotFound("no sample has that name; they are in /api/about")
        content = await run_in_threadpool(_thumbnail, sample)  # our own files, made small once
        return Response(content, media_type="image/jpeg", headers={"cache-control": "max-age=3600"})

    @router.get("/api/photos/{photo}/view", response_class=Response, responses=_PNG)
    async def view(photo: PhotoId, net: answers.Name) -> Response:
        """The photo as the net sees it."""
        found, facts = photos[photo], await server.facts(net)
        seen = await server.seen(found, net)
        return _png(facts.inputs.picture(seen[0]))

    @router.get("/api/photos/{photo}/fill", response_class=Response, responses=_PNG)
    async def fill_picture(
        photo: PhotoId,
        net: answers.Name,
        fill: answers.Spec = DEFAULT_FILL,
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
        net: answers.Name,
        number: Annotated[int, Query(ge=1, le=1000)] = 10,
        labels: Annotated[tuple[answers.LabelIndex, ...], Query(max_length=answers.MOST_LABELS)] = (),
    ) -> answers.Beliefs:
        """The net's probabilities for a photo: the ``number`` most probable labels, then those in ``labels`` that are not among them."""
        found, facts = server.subjects[photo], await server.facts(net)
        check_known(labels, facts)
        image = await server.seen(found, net)
        f = await server.beliefs(found, net)

        def believed(chosen: Iterable[int]) -> list[answers.LabelBelief]:
            return [answers.LabelBelief(label=a, name=facts.names[a], f=float(f[a])) for a in chosen]

        top = top_labels(f, facts.label_set, number)
        return answers.Beliefs(
            labels=believed(dict.fromkeys([*top, *labels])),
            total=len(facts.label_set),
            wrong=believed(wrong_labels(f, facts.label_set, image)),
        )

    @router.get("/api/photos/{photo}/suggestions")
    async def suggestions(photo: PhotoId, net: answers.Name) -> answers.Suggestions:
        """Up to 4 labels that are much more probable for a part of the photo than for the whole photo. Empty for rows and texts."""
        if not nets.of_photos:
            return answers.Suggestions(labels=[])
        found, facts = photos[photo], await server.facts(net)
        image, f = await server.seen(found, net), await server.beliefs(found, net)
        parts = await server.ask(lambda: nets.classifier(net).frozen().probabilities(parts_of(image)).cpu())
        return answers.Suggestions(
            labels=[
                answers.PartBelief(label=a, name=facts.names[a], f=float(f[a]), part=part)
                for a, part in seen_in_parts(f, parts, facts.label_set)
            ]
        )

    @router.get("/api/labels")
    async def labels(
        net: answers.Name,
        search: Annotated[str, Query(max_length=200)] = "",
        photo: Annotated[PhotoId | None, Query(description="whose probabilities to add")] = None,
    ) -> answers.Labels:
        """At most 20 labels of a net whose names contain the text ``search``."""
        facts = await server.facts(net)
        f = None if photo is None else await server.beliefs(server.subjects[photo], net)
        return answers.Labels(
            labels=[
                answers.FoundLabel(label=a, name=facts.names[a], f=None if f is None else float(f[a]))
                for a in nets.search(facts, search)
            ]
        )

    return router


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
