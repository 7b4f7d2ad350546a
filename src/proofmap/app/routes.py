"""The routes of the page: photos and labels; rows, series and texts. Those of jobs are in :mod:`proofmap.app.job_routes`."""

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
from torch.nn.functional import interpolate

from proofmap.app.items import LIMITS, Item, NotFound
from proofmap.app.job_routes import add_job_routes
from proofmap.app.jobs import LabelIndex, Name, PhotoId, Spec, StrictRequest
from proofmap.app.nets import PHOTO, check_known, plural, top_labels
from proofmap.app.server import Server
from proofmap.core.errors import InputError
from proofmap.core.inputs import Series, TextInputs
from proofmap.core.labels import NO_LABEL, LabelRule
from proofmap.core.text import one_line
from proofmap.core.version import __version__
from proofmap.data.photos import SAMPLES, sample_path
from proofmap.report.pictures import drawn_series, picture_bytes

_KNOWN = ("cat", "rocket", "coffee", "motorcycle", "astronaut")
_THUMBNAIL = (192, 192)
"""Largest width and height of the thumbnail of a sample photograph."""
_MOST_LISTED = 100
"""Largest number of rows in one list."""
_LONGEST_REQUEST = 100_000
"""Largest number of characters in a request for a text. The limit for a text to explain is lower, so that its own error message is sent."""
_MOST_VALUES = 1000
"""Largest number of positions for which an answer lists values."""
_FIRST = 3
"""The number of most probable labels that are chosen by default."""
_SEEN_IN_PART = 0.2
"""Least probability that a label must have for a part of the photo to be suggested."""
_MOST_SUGGESTED = 4
_PARTS = 3
"""Number of parts per side of a photo. Each part has half the height and half the width of the photo; neighbours overlap by half."""
_Search = Annotated[str, Query(max_length=200)]
_FileName = Annotated[str, Query(max_length=300)]
_Answer = dict[str, Any]


class SampleAsked(StrictRequest):
    """A sample photograph, in place of an upload."""

    sample: Name


class ItemAsked(StrictRequest):
    """A row, series or text of the data, by its number, or a text."""

    index: int | None = Field(default=None, ge=0, le=2**31 - 1)
    text: Annotated[str, Field(max_length=_LONGEST_REQUEST)] = ""


def routes_of(server: Server) -> APIRouter:
    """All routes of a server but the page itself."""
    router = APIRouter()
    _add_photos(router, server)
    _add_items(router, server)
    add_job_routes(router, server)
    return router


# ---- photos and labels ------------------------------------------------------------------------------------------


def _add_photos(router: APIRouter, server: Server) -> None:
    """Add the routes for photos and labels."""
    nets, items = server.nets, server.items

    @router.get("/api/about")
    async def about() -> _Answer:
        """What this server offers, and its limits."""
        return {
            "version": __version__,
            "device": server.device,
            "item": nets.singular or PHOTO,
            "positions": nets.positions,
            "data": None if items.own is None else items.own.about(),
            "nets": nets.about(),
            "methods": server.choices.methods_about,
            "fills": server.choices.fills_about(),
            "samples": [{"name": name} for name in _sample_names()] if nets.of_photos else [],
            "default": {
                "net": nets.first,
                "methods": list(server.choices.usual_methods),
                "fill": server.choices.usual_fill,
                "labels": _FIRST,
            },
            "limits": LIMITS,
        }

    @router.get("/api/methods")
    async def fitting_methods(net: Name) -> _Answer:
        """The names of the methods in /api/about that can explain this net."""
        nets.offer(net)
        return {"methods": await server.ask(lambda: server.choices.fitting(net, nets.classifier(net)))}

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
            photo = await server.decode(partial(items.add_sample, asked.sample))
        elif kind.startswith("image/") or kind == "application/octet-stream":
            photo = await server.decode(partial(items.add_photo, body, name))
        else:
            raise InputError('send a picture as image/..., or JSON {"sample": NAME}')
        width, height = photo.size or (0, 0)
        return {"photo": photo.id, "name": photo.name, "width": width, "height": height}

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
        found, facts = items[photo], await server.facts(net)
        seen = await server.seen(found, net)
        return _png(facts.inputs.picture(seen[0]))

    @router.get("/api/photos/{photo}/fill")
    async def fill_picture(
        photo: PhotoId,
        net: Name,
        fill: Spec = "gray",
        seed: Annotated[int, Query(ge=0, le=2**31 - 1)] = 0,
    ) -> Response:
        """A picture of what hidden pixels of a photo show. For a random fill, the first draw."""
        found, chosen, facts = items[photo], server.choices.fill(fill), await server.facts(net)

        def drawn() -> Any:
            image = nets.seen(found, net).to(nets.classifier(net).device)
            return nets.hidden(net, found, chosen, image, seed)[0].cpu()

        return _png(facts.inputs.picture(await server.ask(drawn)))

    @router.get("/api/photos/{photo}/beliefs")
    async def beliefs(
        photo: PhotoId,
        net: Name,
        number: Annotated[int, Query(ge=1, le=1000)] = 10,
        labels: Annotated[tuple[LabelIndex, ...], Query(max_length=LIMITS["labels"])] = (),
    ) -> _Answer:
        """The net's probabilities for a photo: the ``number`` most probable labels, then those in ``labels`` that are not among them; and wrong
        labels to test soundness with."""
        found, facts = items[photo], await server.facts(net)
        check_known(labels, facts)
        image = await server.seen(found, net)
        f = await server.beliefs(found, net)

        def believed(chosen: Iterable[int]) -> list[_Answer]:
            return [{"label": a, "name": facts.names[a], "f": float(f[a])} for a in chosen]

        return {
            "labels": believed(dict.fromkeys([*top_labels(f, facts.label_set, number), *labels])),
            "total": len(facts.label_set),
            "wrong": believed(_wrong_labels(f, facts.label_set, image)),
        }

    @router.get("/api/photos/{photo}/suggestions")
    async def suggestions(photo: PhotoId, net: Name) -> _Answer:
        """Up to 4 labels that are much more probable for a part of the photo than for the whole photo, with the ``box`` of the part: left, top,
        width and height as shares of the photo. Empty for rows and texts."""
        if not nets.of_photos:
            return {"labels": []}
        found, facts = items[photo], await server.facts(net)
        image, f = await server.seen(found, net), await server.beliefs(found, net)
        parts = await server.ask(lambda: nets.classifier(net).frozen().probabilities(_parts_of(image)).cpu())
        return {
            "labels": [
                {"label": a, "name": facts.names[a], "f": float(f[a]), "part": p, "box": _box_of(k, image)}
                for a, p, k in _seen_in_parts(f, parts, facts.label_set)
            ]
        }

    @router.get("/api/labels")
    async def labels(net: Name, search: _Search = "", photo: PhotoId | None = None) -> _Answer:
        """At most 20 labels of a net whose names contain the text ``search``, with their probabilities for a photo if one is named."""
        facts = await server.facts(net)
        f = None if photo is None else await server.beliefs(items[photo], net)
        return {
            "labels": [
                {"label": a, "name": facts.names[a], "f": None if f is None else float(f[a])}
                for a in nets.search(facts, search)
            ]
        }


def _wrong_labels(f: Tensor, label_set: Sequence[int], image: Tensor, seed: int = 0) -> list[int]:
    """The near and the far wrong label that the rule ``top3+wrong`` adds; see :mod:`proofmap.core.labels`.

    ``f`` ``(A,)`` has the probabilities of the image ``(1, C, H, W)``. If the rule finds no wrong label, because the net believes all labels a
    little, the least probable label is returned.

    >>> _wrong_labels(torch.tensor([0.5, 0.2, 0.3]), range(3), torch.zeros(1, 3, 2, 2))
    [1]
    """
    rule = LabelRule.parse(f"top{_FIRST}+wrong", ())
    row = rule.choose(f[None], label_set, images=image, seed=seed)[0].tolist()
    found: list[int] = [label for label in row[min(_FIRST, len(label_set)) :] if label != NO_LABEL]
    return found or top_labels(f, label_set, len(label_set))[-1:]


def _corners(image: Tensor) -> tuple[list[tuple[int, int]], int, int]:
    """The top left corners (top, left) of the overlapping parts of an image ``(1, C, H, W)``, row by row, and the height and width of each."""
    height, width = image.shape[-2:]
    tall, wide = -(-height // 2), -(-width // 2)
    tops, lefts = (
        [k * most // (_PARTS - 1) for k in range(_PARTS)] for most in (height - tall, width - wide)
    )
    return [(top, left) for top in tops for left in lefts], tall, wide


def _parts_of(image: Tensor) -> Tensor:
    """Overlapping parts ``(_PARTS ** 2, C, H, W)`` of an image ``(1, C, H, W)``, each enlarged to the size of the image."""
    corners, tall, wide = _corners(image)
    cut = [image[..., top : top + tall, left : left + wide] for top, left in corners]
    return interpolate(torch.cat(cut), size=image.shape[-2:], mode="bilinear", antialias=True)


def _box_of(part: int, image: Tensor) -> list[float]:
    """Left, top, width and height of a part, as shares of the image.

    >>> _box_of(5, torch.zeros(1, 3, 4, 4))
    [0.5, 0.25, 0.5, 0.5]
    """
    corners, tall, wide = _corners(image)
    height, width = image.shape[-2:]
    top, left = corners[part]
    return [left / width, top / height, wide / width, tall / height]


def _seen_in_parts(whole: Tensor, parts: Tensor, label_set: Sequence[int]) -> list[tuple[int, float, int]]:
    """Labels that a part of the photo suggests, each with its largest probability for a part, in decreasing order, and the part's index.

    A label is suggested if it is the most probable label of a part, and its largest probability for a part is at least :data:`_SEEN_IN_PART`
    and at least twice its probability for the whole photo. ``whole`` ``(A,)`` and ``parts`` ``(P, A)`` are the net's probabilities.
    """
    leading = {top_labels(row, label_set, 1)[0] for row in parts}
    best = [(a, float(parts[:, a].max()), int(parts[:, a].argmax())) for a in leading]
    found = [(a, p, k) for a, p, k in best if p >= _SEEN_IN_PART and p >= 2 * float(whole[a])]
    return sorted(found, key=lambda one: (-one[1], one[0]))[:_MOST_SUGGESTED]


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
    """Add the routes for rows, series and texts: a list to choose from, typed texts, and their positions."""
    items, nets = server.items, server.nets

    @router.get("/api/data")
    async def data_list(
        first: Annotated[int, Query(ge=0, le=2**31 - 1)] = 0,
        number: Annotated[int, Query(ge=1, le=_MOST_LISTED)] = 20,
        search: _Search = "",
    ) -> _Answer:
        """A list of rows, series or texts to choose from. With ``search``, only those whose name contains this text."""
        listing = items.listing
        found = listing.search(search)
        return {
            **listing.about(),
            "columns": listing.columns(),
            "found": len(found),
            "items": [
                {
                    "index": i,
                    "name": one_line(str(listing.data.names[i])),
                    "cells": listing.cells(i),
                    "truth": listing.truth(i),
                }
                for i in found[first : first + number]
            ],
        }

    @router.post("/api/items")
    async def add_item(asked: ItemAsked) -> _Answer:
        """Choose a row, series or text of the data, or send a text."""
        if nets.of_photos:
            raise InputError("the nets of this server take photos, no rows, series or texts")
        if asked.index is not None:
            return _about_item(items.choose(asked.index))
        facts = await server.facts(nets.first)
        if not isinstance(facts.inputs, TextInputs):
            raise InputError(f"the nets of this server take {facts.inputs.noun}, no texts")
        return _about_item(items.add_text(asked.text))

    @router.get("/api/photos/{photo}/positions")
    async def positions(photo: PhotoId, net: Name) -> _Answer:
        """The positions of an input: the columns of a row with their values, the time steps or segments of a series with its line, or the words
        of a text as the net divides it."""
        found, facts = items[photo], await server.facts(net)
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


def _about_item(item: Item) -> _Answer:
    return {"photo": item.id, "name": item.name, "truth": item.truth}


def _drawing(x: Tensor, inputs: Series) -> _Answer:
    """A series to draw: the first position that each column shows, and for each channel its least and largest height there, from 0 (bottom) to
    1 (top)."""
    found = drawn_series(x, inputs)
    return {**found, "lines": [{**line, "name": one_line(line["name"])} for line in found["lines"]]}
