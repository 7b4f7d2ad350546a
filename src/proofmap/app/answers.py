"""The requests and answers (JSON responses) of the API, as types. FastAPI uses them to check requests and to make the OpenAPI document.

The types of jobs and painted proofs are in :mod:`proofmap.app.job_answers`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

MOST_LABELS = 8
MOST_METHODS = 3
MOST_TYPED = 16
"""Largest number of labels that a visitor may type for a zero-shot net."""
MOST_LISTED = 100
"""Largest number of rows in one list."""
LONGEST_TEXT = 100_000
"""Largest number of characters in a request for a text. The limit for a text to explain is lower, so that its own error message is sent."""
LONGEST_SPEC = 300
"""Largest number of characters in a spec: the name of a method or fill with its settings."""

PhotoId = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
DataId = Annotated[str, Field(pattern=r"^(data|[0-9a-f]{32})$")]
JobId = Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
Spec = Annotated[str, Field(min_length=1, max_length=LONGEST_SPEC)]
Name = Annotated[str, Field(min_length=1, max_length=200)]
LabelIndex = Annotated[int, Field(ge=0, le=10_000_000)]
State = Literal["waiting", "running", "done", "failed", "cancelled"]


def binary(*kinds: str) -> dict[str, Any]:
    """The entry in the OpenAPI document for a request or an answer that is a file with one of these media types."""
    return {"content": {kind: {"schema": {"type": "string", "format": "binary"}} for kind in kinds}}


class StrictRequest(BaseModel):
    """A request; unknown fields are errors."""

    model_config = ConfigDict(extra="forbid", strict=True)


class ErrorAnswer(BaseModel):
    """Every answer with a status of 400 or more."""

    error: str = Field(description="what is wrong, and what to do")


# ---- the server -------------------------------------------------------------------------------------------------


class NetAbout(BaseModel):
    name: str
    labels: int | None = Field(description="how many it has; null until the net is loaded")
    size: tuple[int, int] | None = Field(description="height and width of its input; null until it is loaded")
    about: str
    ready: bool = Field(description="whether it is loaded, so that the first answer is fast")
    any_labels: bool = Field(default=False, description="whether it takes any labels: POST /api/nets")


class SettingField(BaseModel):
    """A setting of a method as a field of a form."""

    name: str
    kind: Literal["number", "whole", "choice", "text"]
    help: str
    default: str
    choices: list[str] = []
    least: float | None = None
    most: float | None = None
    optional: bool = Field(default=False, description="whether it may be none")
    required: bool = Field(default=False, description="whether a spec must name it")


class MethodAbout(BaseModel):
    name: str
    base: str = Field(description="the name before settings in a spec")
    family: str
    recommended: str = Field(description="why it is among the first to try; empty for the others")
    passes: str = Field(description="passes of the net, in words")
    live: bool = Field(description="whether its maps can be watched while they are learned")
    label_free: bool | None = Field(
        description="whether one map serves all labels; null if that depends on settings"
    )
    about: str
    settings: list[SettingField] = Field(description="those that a visitor may choose")


class Named(BaseModel):
    name: str
    about: str = ""


class Defaults(BaseModel):
    net: str
    methods: list[str]
    fill: str
    labels: int = Field(description="how many of the most probable labels are chosen at first")


class Limits(BaseModel):
    upload_bytes: int
    pixels: int = Field(description="of an uploaded picture")
    table_bytes: int = Field(description="of an uploaded table")
    rows: int = Field(description="of an uploaded table")
    characters: int = Field(description="of a text")
    typed_labels: int = Field(description="of a net that takes any labels")
    labels: int = Field(description="of one job")
    methods: int = Field(description="of one job")


class DataAbout(BaseModel):
    """Rows or texts to choose from: those of the command line, or an uploaded table."""

    data: DataId
    name: str
    total: int
    left_out: list[str] = Field(default=[], description="columns of the table that the model does not take")


class About(BaseModel):
    """What this server offers, and its limits."""

    version: str
    device: str
    item: str = Field(description="what the nets take: photo, row, text")
    positions: str = Field(description="what a proof is made of: pixels, columns, words")
    data: DataAbout | None = Field(description="rows or texts of the command line to choose from")
    nets: list[NetAbout]
    methods: list[MethodAbout]
    fills: list[Named]
    samples: list[Named]
    default: Defaults
    limits: Limits


# ---- photos and labels ------------------------------------------------------------------------------------------


class SampleAsked(StrictRequest):
    """A sample photograph, in place of an upload."""

    sample: Name


class PhotoAnswer(BaseModel):
    photo: PhotoId
    name: str
    width: int
    height: int


class TextAsked(StrictRequest):
    """A text to explain."""

    text: Annotated[str, Field(max_length=LONGEST_TEXT)]


class ChosenAsked(StrictRequest):
    """A row or text of some data, by its number."""

    data: DataId
    index: int = Field(ge=0, le=2**31 - 1)


class ItemAnswer(BaseModel):
    """A row or a text. Its id can be used wherever the id of a photo is expected."""

    photo: PhotoId
    name: str
    truth: str = Field(description="the name of its true label; empty if it is not known")


class Position(BaseModel):
    name: str = Field(description="of a column; of a text the word with the white space after it")
    value: str = Field(description="of the column; empty for a word")


class SeriesLine(BaseModel):
    name: str = Field(description="of the channel; empty if it has none")
    low: list[float] = Field(
        description="its least height in each column of a drawing, from 0 (bottom) to 1 (top)"
    )
    high: list[float] = Field(description="its largest height in each column")


class SeriesDrawing(BaseModel):
    """A series to draw."""

    columns: list[int] = Field(description="the first position that each column shows")
    lines: list[SeriesLine] = Field(description="one for each channel; none for a spectrogram")
    picture: str = Field(description="of a spectrogram, as a data URI; otherwise empty")


class Positions(BaseModel):
    """The positions of an input, in order: pixels, columns, words or time steps."""

    positions: list[Position]
    drawing: SeriesDrawing | None = Field(default=None, description="of a series")


class ListedItem(BaseModel):
    index: int
    name: str
    cells: list[str]
    truth: str
    drawing: SeriesDrawing | None = Field(default=None, description="of a series, small")


class DataList(DataAbout):
    """Some rows or texts of the data."""

    columns: list[str] = Field(description="the names of the cells; of a table the first columns")
    found: int = Field(description="how many match the search")
    items: list[ListedItem]


class NetAsked(StrictRequest):
    """Labels for a net that takes any."""

    net: Name
    labels: list[Annotated[str, Field(min_length=1, max_length=80, pattern=r"^[^,&?]*$")]] = Field(
        min_length=2, max_length=MOST_TYPED
    )


class NetMade(BaseModel):
    net: str


class Label(BaseModel):
    label: int = Field(description="index into the net's outputs")
    name: str


class LabelBelief(Label):
    f: float = Field(description="the net's probability f(x, a)")


class Beliefs(BaseModel):
    labels: list[LabelBelief]
    total: int = Field(description="how many labels the net has")
    wrong: list[LabelBelief] = Field(
        description="labels to test soundness with, which the net does not believe: the most probable of them, and one by chance"
    )


class FoundLabel(Label):
    f: float | None = Field(description="the net's probability f(x, a); null if no photo was named")


class Labels(BaseModel):
    labels: list[FoundLabel]


class PartBelief(LabelBelief):
    part: float = Field(description="the largest probability of the label on a part of the photo")


class Suggestions(BaseModel):
    """Labels that are more probable for a part of the photo than for the whole photo. They may belong to other objects."""

    labels: list[PartBelief]
