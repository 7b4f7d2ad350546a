"""The common style of all figures, and the function that writes them as PDF, PNG or SVG. Equal records give equal bytes."""

from __future__ import annotations

import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from proofmap.core.errors import InputError, require
from proofmap.core.files import atomic_write
from proofmap.core.inputs.pictures import OWN_SOFTWARE
from proofmap.core.labels import LabelRule
from proofmap.core.outputs import in_words
from proofmap.core.text import counted, one_line
from proofmap.results.evaluation import Evaluation
from proofmap.results.notes import coverage_words, thresholds_words
from proofmap.results.records import SOUNDNESS

WIDTH = 5.5
"""Width of a figure in inches, the text width of NeurIPS. Figures are drawn at their printed size, so that fonts keep their size."""
DPI = 300
"""Dots per inch of a PNG, and of pictures in a PDF."""
SMALL = 7.0
"""Size of small text in points."""
INK, SOFT = "#18181c", "#5c5c64"
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
"""Okabe and Ito's colours, which colour-blind readers can distinguish."""
MARKERS = ("o", "s", "^", "D", "v", "P")
"""Markers, in the order of the HTML page. Six markers with seven colours give 42 methods different marks. With seven markers, marks would repeat
after seven methods."""
FORMATS = ("pdf", "png", "svg")
_STYLE = {
    # both come with matplotlib; STIX looks like Times
    "font.family": ["STIXGeneral", "DejaVu Sans"],
    "mathtext.fontset": "stix",
    "font.size": 8.5,
    "axes.titlesize": 8.5,
    "axes.labelsize": 8.5,
    "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5,
    "legend.fontsize": 7.5,
    "legend.frameon": False,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": SOFT,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "axes.linewidth": 0.6,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "xtick.major.size": 2.5,
    "ytick.major.size": 2.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "lines.linewidth": 1.2,
    "figure.constrained_layout.use": True,
    "pdf.fonttype": 42,  # TrueType, as publishers require; text stays text
    "ps.fonttype": 42,
    "svg.hashsalt": "proofmap",
}


class Figure(ABC):
    """Base class of figures: the data that a figure shows, its caption, and a method that draws it. Only drawing needs matplotlib."""

    name: str

    @abstractmethod
    def caption(self) -> str:
        """The caption: sentences that say what the figure shows, and all settings that it depends on."""

    @abstractmethod
    def drawn(self, plt: Any) -> Any:
        """The figure as a matplotlib figure. ``plt`` is the module ``matplotlib.pyplot``."""


Needs = Literal["evaluation", "images", "nothing"]
Make = TypeVar("Make", bound=Callable[..., Figure])


@dataclass(frozen=True)
class FigureInfo:
    """An entry of the registry: what a figure shows, what it needs, and the function that makes it.

    If ``needs`` is ``evaluation``, the function is called as ``make(evaluation, **settings)``. If it is ``images``, the function computes its
    own maps and is called as ``make(classifier, images, seed=, progress=, **settings)``. If it is ``nothing``, it is called as
    ``make(**settings)``.
    """

    name: str
    description: str
    needs: Needs
    make: Callable[..., Figure]


FIGURES: dict[str, FigureInfo] = {}


def registered(name: str, description: str, needs: Needs = "evaluation") -> Callable[[Make], Make]:
    """Add the decorated function to ``FIGURES``."""

    def register(make: Make) -> Make:
        FIGURES[name] = FigureInfo(name, description, needs, make)
        return make

    return register


def draw(figure: Figure, path: str | Path) -> Path:
    """Write the figure to a file, whose suffix (.pdf, .png or .svg) is the format, and return the path."""
    path = Path(path)
    if path.suffix[1:] not in FORMATS:
        raise InputError(f"a figure is written as {', '.join(FORMATS)}, not {path.suffix or path.name!r}")
    matplotlib = require("matplotlib", extra="figures", purpose="drawing charts")
    matplotlib.use("Agg")
    plt = require("matplotlib.pyplot", extra="figures", purpose="drawing charts")
    about = {"pdf": {"CreationDate": None}, "svg": {"Date": None}, "png": {"Software": OWN_SOFTWARE}}
    undated = about[path.suffix[1:]]
    with plt.rc_context(_STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")  # a label's name in a rare script
        drawn = figure.drawn(plt)
        with atomic_write(path) as part:
            save_figure(drawn, part, metadata=undated)
        plt.close(drawn)
    return path


def save_figure(drawn: Any, path: Path, **options: Any) -> None:
    """Write a matplotlib figure with the resolution ``DPI``."""
    drawn.savefig(path, dpi=DPI, **options)


def escaped(text: str) -> str:
    """The text in one line, escaped so that matplotlib prints it literally. A dollar sign would start a formula.

    >>> print(escaped("5$ note"))
    5\\$ note
    """
    return one_line(text).replace("$", r"\$")


def legend_below(figure: Any, handles: Sequence[Any], names: Sequence[str]) -> None:
    """Add a legend in two columns below the figure."""
    figure.legend(handles, names, loc="outside lower center", ncols=2, columnspacing=1.5, handlelength=2.2)


def legend_height(names: int) -> float:
    """The height in inches of a :func:`legend_below` with this number of names."""
    return 0.16 * math.ceil(names / 2)


def evaluation_settings(evaluation: Evaluation, *, thresholds: bool = True) -> str:
    """One sentence for captions with the settings of an evaluation. ``thresholds`` adds those of completeness and soundness."""
    settings, curve, n = evaluation.settings, evaluation.results[0].insertion.settings, len(evaluation)
    parts = [
        f"net {settings['model']}",
        counted(n, evaluation.inputs.singular),
        f"labels {settings['labels']} ({in_words(settings)})",
        *(_proof_settings(evaluation) if thresholds else []),
        f"insertion curve with {curve['fill']} fill, {curve['points']} points",
        f"seed {settings['seed']}",
    ]
    return one_line("Settings: " + "; ".join(parts) + ".")


def place_title(evaluation: Evaluation, place: int) -> str:
    """The name of the labels at index ``place`` of each image's row of labels, such as ``the top label`` or ``the second label``.

    If the user gave a list of labels, the first is ``the first label``, because the list is not ordered by probability.
    """
    if place == 0:
        by_probability = LabelRule.is_by_probability(str(evaluation.settings["labels"]))
        return "the top label" if by_probability else "the first label"
    return f"the {({1: 'second', 2: 'third'}).get(place, f'{place + 1}th')} label"


def _proof_settings(evaluation: Evaluation) -> list[str]:
    """The thresholds of the scores, and the number of labels over which soundness was judged, if it was."""
    sound = evaluation.results[0].first_score(SOUNDNESS) is not None
    covered = [f"soundness over {coverage_words(evaluation)}"] if sound else []
    return [words for words in (thresholds_words(evaluation), *covered) if words]
