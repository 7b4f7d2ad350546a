"""Typed records about runs: the JSON of ``/api/runs`` and the data of the pages."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

State = Literal[
    "surveying",
    "running",
    "stopped",
    "interrupted",
    "failed",
    "empty",
    "unfinished",
    "finished",
    "unreadable",
]


class _Record(BaseModel):
    model_config = ConfigDict(allow_inf_nan=False)


class UnitCounts(_Record):
    """Numbers of units of a study. A unit is one method on one block of images."""

    done: int = 0
    failed: int = 0
    before: int = 0
    total: int = 0


class PassCounts(_Record):
    """Numbers of passes. A pass is one image through the net."""

    done: int = 0
    total: int | None = None
    per_second: float | None = None


class RunProgress(_Record):
    """The last report of the process that writes a run (its file ``progress.json``)."""

    state: Literal["surveying", "running", "finished", "failed", "interrupted"]
    updated: str = ""
    units: UnitCounts = UnitCounts()
    passes: PassCounts = PassCounts()
    seconds: float | None = None
    seconds_left: float | None = None
    last: str = ""


class Mean(_Record):
    """The mean over the n images that count so far."""

    mean: float | None
    n: int


class MetricRecord(_Record):
    name: str
    higher_is_better: bool


class RunRecord(_Record):
    """The current state of a run directory."""

    run: str = Field(description="its name in addresses, which reveals no folder")
    name: str = Field(description="its path below the folder of --runs")
    state: State
    reason: str = Field(default="", description="why it cannot be read")
    model: str = ""
    data: str = ""
    labels: str = ""
    images: int = 0
    item: str = Field(default="image", description="the word for one of them: image, series, row")
    items: str = Field(default="images", description="the word for several")
    methods: list[str] = []
    metrics: list[MetricRecord] = []
    scores: dict[str, dict[str, Mean]] = Field(default={}, description="method -> metric -> mean so far")
    maps: str = Field(default="", description="how its maps are stored: none, float16 or float32")
    notes: list[str] = []
    progress: RunProgress | None = None
    version: str = Field(default="", description="changes when the run does")


class RunList(_Record):
    runs: list[RunRecord]
    left_out: int = Field(default=0, description="runs that are not listed because there are too many")


class BelievedLabel(_Record):
    label: int
    name: str
    f: float | None


class ImageRecord(_Record):
    """One image of a run, with its labels and the values of one metric."""

    image: int = Field(description="its place in the run, from 0")
    name: str
    labels: list[BelievedLabel]
    values: dict[str, float | None] = Field(description="method -> value of the requested metric")


class ImageList(_Record):
    run: str
    metric: MetricRecord
    total: int
    found: int
    start: int
    images: list[ImageRecord]


class RunImage(_Record):
    """One image of a run with all its values."""

    run: str
    image: int
    name: str
    labels: list[BelievedLabel]
    values: dict[str, dict[str, float | None]] = Field(description="method -> metric -> value")
    maps: list[str] = Field(description="the methods whose maps of it are stored")


class DifferenceRecord(_Record):
    """One line of ``proofmap compare``: a method minus a baseline, image by image."""

    metric: str
    higher_is_better: bool
    method: str
    baseline: str
    value: float | None
    baseline_value: float | None
    difference: float | None
    low: float | None
    high: float | None
    n: int
    p: float | None
    wins: float | None
    corrected_p: float | None
    images_needed: int | None
    verdict: Literal["better", "worse", "undecided"]


class DropRecord(_Record):
    """One line of ``proofmap audit --against``: how a score changed, and whether that is allowed."""

    method: str
    metric: str
    higher_is_better: bool
    max_drop: float
    value: float | None
    value_against: float | None
    difference: float | None
    low: float | None
    high: float | None
    n: int
    passes: bool
    reason: str


class ComparisonRecord(_Record):
    run: str
    against: str
    differences: list[DifferenceRecord]
    drops: list[DropRecord] = []
    notes: list[str]
