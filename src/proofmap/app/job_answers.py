"""Types of the requests and answers for jobs and painted proofs. Other types are in :mod:`proofmap.app.answers`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from proofmap.app.answers import (
    MOST_LABELS,
    MOST_METHODS,
    JobId,
    LabelBelief,
    LabelIndex,
    Name,
    PhotoId,
    Spec,
    State,
    StrictRequest,
)


class JobAsked(StrictRequest):
    photo: PhotoId = Field(description="or the id of a row or text")
    net: Name
    labels: list[LabelIndex] = Field(min_length=1, max_length=MOST_LABELS)
    methods: list[Spec] = Field(min_length=1, max_length=MOST_METHODS)
    fill: Spec = "gray"
    seed: int = Field(default=0, ge=0, le=2**31 - 1)


class JobMade(BaseModel):
    job: JobId


class ProgressEvent(BaseModel):
    """Progress of the current task, in passes of the net. A task computes the maps of a method, or plays a game that judges them."""

    number: int
    kind: Literal["progress"] = "progress"
    method: int = Field(description="its index in the request's list")
    label: None = Field(default=None, description="always null: all labels are learned together")
    what: str = Field(description="the method's name, or the game's: insertion, deletion")
    step: int = Field(description="passes done")
    steps: int = Field(description="passes in all")
    rate: float = Field(description="passes per second")
    seconds_left: float | None


class MapEvent(BaseModel):
    """A mask while it is being learned."""

    number: int
    kind: Literal["map"] = "map"
    method: int
    label: int
    step: int
    steps: int
    width: int
    height: int
    data: str = Field(description="base64 of one byte per pixel, row by row")


class ScoredEvent(BaseModel):
    """A map is finished and judged; get it from /maps."""

    number: int
    kind: Literal["scored"] = "scored"
    method: int
    label: int


class StateEvent(BaseModel):
    number: int
    kind: Literal["state"] = "state"
    state: State


Event = Annotated[ProgressEvent | MapEvent | ScoredEvent | StateEvent, Field(discriminator="kind")]


class JobSummary(BaseModel):
    job: JobId
    state: State
    place: int | None = Field(description="in the queue, where 1 is next; null unless it waits")
    message: str = Field(description="the error, if the job failed")
    photo_name: str
    request: JobAsked


class JobAnswer(JobSummary):
    command: str = Field(description="the command that repeats the job")
    events: list[Event] = Field(
        description="those after the number given; of unfinished maps and progress only the newest"
    )
    last: int = Field(description="the number to send next time")


class JobList(BaseModel):
    jobs: list[JobSummary]


class CurveAnswer(BaseModel):
    """A game's curve: f of the label at each share of the positions."""

    shares: list[float]
    f: list[float]


class MapAnswer(BaseModel):
    """A finished map: its ranking of pixels, its curves, and what it proves. For rows and texts, a pixel is a column or a word."""

    method: str
    label: int
    name: str
    width: int
    height: int
    order: str = Field(
        description="base64 of a little-endian rank per pixel, row by row; 0 is the most important"
    )
    order_type: Literal["uint16", "uint32"]
    map: str = Field(
        description="base64 of one byte per pixel, scaled for display; 128 is the zero of a signed map"
    )
    signed: bool
    insertion: CurveAnswer
    deletion: CurveAnswer
    f: float
    area: float = Field(description="the AUC: area under the insertion curve, to be compared with f")
    completeness: float | None
    soundness: float | None
    strength: Literal["weak", "match", "strong", "unknown"]
    below: float | None = Field(description="the completeness or soundness that is below the bar")
    peak: float = Field(description="the largest point of the insertion curve at which something is shown")
    reach: float | None = Field(
        description="the least share of the pixels at which the curve is at .9 f or above; null if the net does not believe the label"
    )
    words: str = Field(description="what the curve does, compared with f, in a few words")
    seconds: float = Field(description="time of the method for all labels, judging included")
    enough: int | None = Field(
        default=None, description="how many columns or words give the belief, 0 if none do; null for photos"
    )


# ---- painting ---------------------------------------------------------------------------------------------------


class PaintAsked(StrictRequest):
    photo: PhotoId = Field(description="or the id of a row or text")
    net: Name
    fill: Spec = "gray"
    mask: Annotated[str, Field(max_length=700_000)] = Field(
        description="base64 of one bit per pixel, column or word of the net's input, row by row, the first one in the highest bit; 1 means shown"
    )
    labels: list[LabelIndex] = Field(default_factory=list, max_length=MOST_LABELS)
    job: JobId | None = None
    seed: int = Field(default=0, ge=0, le=2**31 - 1)


class MachineProof(BaseModel):
    """The net's probability for the label if as many pixels as were painted are shown, chosen by a method's map."""

    method: int
    label: int
    f: float


class PaintedBelief(LabelBelief):
    """A label's probability if only the painted part is shown (``f``), and for the whole input (``whole``)."""

    whole: float


class PaintAnswer(BaseModel):
    share: float = Field(description="of the pixels that is shown")
    labels: list[PaintedBelief] = Field(description="the five most probable, then those in the request")
    machine: list[MachineProof]
