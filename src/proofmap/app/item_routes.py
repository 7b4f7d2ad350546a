"""Routes for rows, series and texts: lists to choose from, uploaded files, typed texts, their positions, and labels of zero-shot nets."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import torch
from fastapi import APIRouter, Query, Request
from starlette.concurrency import run_in_threadpool
from torch import Tensor

from proofmap.app import answers
from proofmap.app.answers import ChosenAsked, DataAbout, TextAsked
from proofmap.app.items import Item, Listing
from proofmap.app.server import Server
from proofmap.core.errors import InputError
from proofmap.core.inputs import Series, TextInputs
from proofmap.core.text import one_line
from proofmap.data.series_files import SeriesFile
from proofmap.report.pictures import DrawnSeries, drawn_series

PREVIEW = 120
"""Width in pixel columns of the small line drawing of a series in a list."""
MOST_VALUES = 1000
"""Largest number of positions for which an answer lists values."""

_TABLE_BODY = {"requestBody": {"required": True, **answers.binary("text/csv", "application/octet-stream")}}


def items_router(server: Server) -> APIRouter:
    """The routes for rows, series and texts."""
    router = APIRouter()
    items, nets = server.items, server.nets

    @router.post("/api/data", openapi_extra=_TABLE_BODY)
    async def add_file(
        request: Request, net: answers.Name, name: Annotated[str, Query(max_length=300)] = ""
    ) -> DataAbout:
        """Upload a file whose rows or series can be explained. For a net of tables: CSV with the columns that the net takes, in any order; other
        columns are left out. For a net of series: a .ts, CSV, .npz or WAV file with series of the net's length. The suffix of ``name`` names
        the format."""
        facts = await server.facts(net)
        server.check_decoders()
        body = await request.body()
        return data_about(await server.decode(partial(items.add_file, body, name, facts.inputs)))

    @router.get("/api/data/{data}")
    async def data_list(
        data: answers.DataId,
        first: Annotated[int, Query(ge=0, le=2**31 - 1)] = 0,
        number: Annotated[int, Query(ge=1, le=answers.MOST_LISTED)] = 20,
        search: Annotated[str, Query(max_length=200)] = "",
    ) -> answers.DataList:
        """A list of rows, series or texts to choose from. With ``search``, only those whose name contains this text."""
        listing = items.listing(data)
        found = listing.search(search)
        chosen = found[first : first + number]
        return answers.DataList(
            **dict(data_about(listing)),
            columns=listing.columns(),
            found=len(found),
            items=[
                answers.ListedItem(
                    index=i,
                    name=one_line(str(listing.data.names[i])),
                    cells=listing.cells(i),
                    truth=listing.truth(i),
                    drawing=_preview(listing, i),
                )
                for i in chosen
            ],
        )

    @router.post("/api/items")
    async def add_item(asked: ChosenAsked | TextAsked) -> answers.ItemAnswer:
        """Choose a row, series or text of some data, or send a text."""
        if nets.of_photos:
            raise InputError("the nets of this server take photos, no rows, series or texts")
        if isinstance(asked, ChosenAsked):
            return _answer(items.choose(asked.data, asked.index))
        facts = await server.facts(nets.first)
        if not isinstance(facts.inputs, TextInputs):
            raise InputError(f"the nets of this server take {facts.inputs.noun}, no texts")
        return _answer(items.add_text(asked.text))

    @router.get("/api/photos/{photo}/positions")
    async def positions(photo: answers.PhotoId, net: answers.Name) -> answers.Positions:
        """The positions of an input: the columns of a row with their values, the time steps or segments of a series with its line, or the words
        of a text as the net divides it."""
        found, facts = server.subjects[photo], await server.facts(net)
        image, inputs = (await server.seen(found, net))[0], facts.inputs
        if nets.of_photos:
            raise InputError("a photo has no list of positions, because its positions are pixels")
        if isinstance(inputs, Series):
            return await run_in_threadpool(_series, image, inputs)
        if isinstance(inputs, TextInputs):
            return answers.Positions(
                positions=[answers.Position(name=word, value="") for word in inputs.words(image)]
            )
        return answers.Positions(
            positions=[
                answers.Position(name=one_line(name), value=one_line(inputs.value_text(image, k)))
                for k, name in enumerate(inputs.position_names)
            ]
        )

    @router.post("/api/nets")
    async def relabel(asked: answers.NetAsked) -> answers.NetMade:
        """Make the same zero-shot net with other labels. It is loaded when it is first used."""
        labels = [one_line(label).strip() for label in asked.labels]
        if len({label.casefold() for label in labels}) < len(labels) or not all(labels):
            raise InputError("give every label once, and none that is empty")
        made = nets.relabel(asked.net, labels)
        await server.facts(made)  # labels that the net cannot tell apart are refused here
        return answers.NetMade(net=made)

    return router


def data_about(listing: Listing) -> DataAbout:
    return DataAbout(
        data=listing.id, name=listing.name, total=len(listing.data), left_out=list(listing.left_out)
    )


def _series(image: Tensor, inputs: Series) -> answers.Positions:
    """The positions of a series by their times, and the line drawing. Values are included unless there are very many positions."""
    few = inputs.count <= MOST_VALUES
    positions = [
        answers.Position(name=name, value=one_line(inputs.value_text(image, k)) if few else "")
        for k, name in enumerate(inputs.position_names)
    ]
    return answers.Positions(positions=positions, drawing=_drawing(drawn_series(image, inputs)))


def _preview(listing: Listing, index: int) -> answers.SeriesDrawing | None:
    """The small line drawing of a series for a list, scaled by the mean and standard deviation of this series; None for other data."""
    if not isinstance(listing.data, SeriesFile):
        return None
    x = torch.from_numpy(listing.data.read(index))
    inputs = Series(
        length=x.shape[1], mean=tuple(x.mean(dim=1).tolist()), std=tuple((x.std(dim=1) + 1e-12).tolist())
    )
    return _drawing(drawn_series(x, inputs, min(PREVIEW, x.shape[1])))


def _drawing(found: DrawnSeries) -> answers.SeriesDrawing:
    return answers.SeriesDrawing(
        columns=found.columns,
        lines=[
            answers.SeriesLine(name=one_line(line.name), low=line.low, high=line.high) for line in found.lines
        ],
        picture=found.picture,
    )


def _answer(item: Item) -> answers.ItemAnswer:
    return answers.ItemAnswer(photo=item.id, name=item.name, truth=item.truth)
