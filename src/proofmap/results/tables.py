"""Tables as plain text, Markdown, CSV, JSON and HTML, all made from the same rows; and numbers as text."""

from __future__ import annotations

import json
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from html import escape
from typing import TypeVar

from proofmap.core.text import csv_lines, one_line

T = TypeVar("T")
Cells = tuple[list[str], list[list[str]]]
"""The header of a table and its rows; each row has as many cells as the header."""


def cells_of(items: Iterable[T], *columns: tuple[str, Callable[[T], str]]) -> Cells:
    """Header and one row of cells per item. Each column is a pair of its header and a function that turns an item into a cell.

    >>> cells_of([1, 2], ("number", str), ("square", lambda n: str(n * n)))
    (['number', 'square'], [['1', '1'], ['2', '4']])
    """
    return [header for header, _ in columns], [[cell(item) for _, cell in columns] for item in items]


class Tables(ABC):
    """Base class of results that print as tables with notes below: as text, Markdown, CSV and JSON, and in notebooks."""

    notes: tuple[str, ...]

    @abstractmethod
    def tables(self) -> list[Cells]:
        """Header and rows of each table."""

    @abstractmethod
    def records(self) -> list[dict[str, object]]:
        """The rows of :meth:`csv`."""

    def record(self) -> dict[str, object]:
        """The content of :meth:`json`: every field, unless a subclass defines another."""
        return asdict(self)  # type: ignore[call-overload, no-any-return]

    def footer(self) -> list[str]:
        """Lines of text to print below the notes."""
        return []

    def bold(self) -> list[list[bool]] | None:
        """A mask of the bold cells of the last table, except in text; None if there are none."""
        return None

    def table(self, width: int | None = None) -> str:
        """The tables as aligned text with the notes below. Tables wider than ``width`` columns are stacked (see :func:`aligned`)."""
        found = "\n\n".join(aligned(*cells, width) for cells in self.tables())
        return "\n".join([found, *self.notes, *self.footer()])

    def markdown(self) -> str:
        *first, last = self.tables()
        below = [*self.notes, *self.footer()]
        return "\n\n".join([*(markdown(*cells) for cells in first), markdown(*last, below, bold=self.bold())])

    def to_latex(self, *, caption: str | None = None, label: str = "tab:results") -> str:
        """The tables in LaTeX (package booktabs). ``caption`` is LaTeX code; by default the notes."""
        if caption is None:
            notes = [*self.notes, *self.footer()]
            caption = " ".join(f"{_latex_text(note[:1].upper() + note[1:]).rstrip('.')}." for note in notes)
        *first, last = self.tables()
        made = [_latex(*cells, caption, label) for cells in first]
        return "\n\n".join([*made, _latex(*last, caption, label, self.bold())])

    def csv(self) -> str:
        """The records as CSV, one line each, with all decimals."""
        return records_csv(self.records())

    def json(self) -> str:
        """All numbers and notes; NaN becomes null."""
        return json_text(self.record())

    def __str__(self) -> str:
        return self.table()

    def _repr_html_(self) -> str:
        *first, last = self.tables()
        below = [*self.notes, *self.footer()]
        return "".join([*(table_html(*cells) for cells in first), table_html(*last, below, bold=self.bold())])


def aligned(header: Sequence[str], rows: Sequence[Sequence[str]], width: int | None = None) -> str:
    """The table as text with aligned columns, one line per row. Text is left-aligned, numbers are right-aligned.

    A table that is wider than ``width`` is stacked: each row starts with its text cells, and its numbers follow below with their names.

    >>> print(aligned(["method", "x"], [["a", ".5"], ["bcd", "1.0"]]))
    method    x
    a        .5
    bcd     1.0
    """
    header, *rows = ([one_line(cell) for cell in row] for row in [header, *rows])
    columns = list(zip(header, *rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    textual = [any(c[:1].isalpha() for c in column[1:]) for column in columns]
    lines = []
    for row in [header, *rows]:
        cells = [
            cell.ljust(width) if text else cell.rjust(width)
            for cell, width, text in zip(row, widths, textual, strict=True)
        ]
        lines.append("  ".join(cells).rstrip())
    if width is None or max(map(len, lines)) <= width:
        return "\n".join(lines)
    return _stacked(header, rows, textual, width)


def _stacked(header: list[str], rows: list[list[str]], textual: list[bool], width: int) -> str:
    """The rows of a table that is too wide, as stacked text. A row starts with its leading text cells; an empty cell repeats the one above.
    The other cells follow below with their names, as many per line as fit.

    >>> print(
    ...     aligned(["method", "soundness", "n"], [["a long name", ".5", "3"], ["b", ".25", "4"]], width=20)
    ... )
    a long name
      soundness  .5
      n           3
    b
      soundness .25
      n           4
    """
    first = next((k for k, text in enumerate(textual) if not text), len(header))
    names, values = header[first:], [row[first:] for row in rows]
    wide = max(map(len, names), default=0)
    long = max((len(value) for row in values for value in row), default=0)
    in_a_line = max(1, (width - 2 + 3) // (wide + 1 + long + 3))
    lines: list[str] = []
    heading = [""] * first
    for row, cells in zip(rows, values, strict=True):
        heading = [cell or above for cell, above in zip(row[:first], heading, strict=True)]
        lines.append(", ".join(heading))
        named = [f"{name:<{wide}} {value:>{long}}" for name, value in zip(names, cells, strict=True)]
        lines += [
            "  " + "   ".join(named[k : k + in_a_line]).rstrip() for k in range(0, len(named), in_a_line)
        ]
    return "\n".join(lines)


def markdown(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    notes: Sequence[str] = (),
    *,
    bold: Sequence[Sequence[bool]] | None = None,
) -> str:
    """A Markdown table with notes below it. Special characters in cells and notes are escaped.

    >>> print(markdown(["name", "x"], [["a|b", ".5"]], bold=[[False, True]]))
    | name | x |
    | --- | --- |
    | a\\|b | **.5** |
    """
    marked = bold or [[False] * len(header)] * len(rows)
    cells = [
        [f"**{_markdown(c)}**" if b else _markdown(c) for c, b in zip(row, marks, strict=True)]
        for row, marks in zip(rows, marked, strict=True)
    ]
    lines = [[_markdown(c) for c in header], ["---"] * len(header), *cells]
    table = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return "\n\n".join([table, *map(_markdown, notes)])


def _markdown(text: str) -> str:
    """The text in one line, escaped for Markdown paragraphs and table cells."""
    return re.sub(r"([\\`*_|<>~&])", r"\\\1", one_line(text))


def _latex(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    caption: str,
    label: str,
    bold: Sequence[Sequence[bool]] | None = None,
) -> str:
    """A LaTeX table (package booktabs) with a column of names and columns of numbers. ``caption`` is LaTeX code; cells are escaped.

    >>> print(_latex(["name", "x"], [["a_b", ".5 [.4, .6]"]], "Ours.", "tab:ours").splitlines()[9].strip())
    a\\_b & .5 {\\scriptsize [.4, .6]} \\\\
    """
    marked = bold or [[False] * len(header)] * len(rows)
    lines = [
        " & ".join([_latex_text(row[0]), *map(_latex_number, row[1:], marks[1:])])
        for row, marks in zip(rows, marked, strict=True)
    ]
    body = "".join(f"    {line} \\\\\n" for line in lines)
    return rf"""% needs \usepackage{{booktabs}}
\begin{{table}}
  \centering
  \caption{{{caption}}}
  \label{{{label}}}
  \begin{{tabular}}{{l{"c" * (len(header) - 1)}}}
    \toprule
    {" & ".join(map(_latex_text, header))} \\
    \midrule
{body}    \bottomrule
  \end{{tabular}}
\end{{table}}"""


def _latex_number(cell: str, bold: bool) -> str:
    """A cell; a number has true minus signs, and what follows it, such as its interval, is small."""
    if not re.match(r"[<>+-]*[.\d]", cell):
        return "--" if cell == "-" else _latex_text(cell)
    value, _, small = re.sub(r"-(?=[.\d])", "$-$", _latex_text(cell)).partition(" ")
    value = rf"\textbf{{{value}}}" if bold else value
    return rf"{value} {{\scriptsize {small}}}" if small else value


_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": "$<$",
    ">": "$>$",
    "↑": r"$\uparrow$",
    "↓": r"$\downarrow$",
    "*": "$^{*}$",
    "†": r"$^{\dagger}$",
    **{c: f"\\{c}" for c in "&%$#_{}"},
}


def _latex_text(text: str) -> str:
    """The text in one line, escaped for LaTeX.

    >>> print(_latex_text("learned-mask:tv=0.1 & 50 % of a_b ↑"))
    learned-mask:tv=0.1 \\& 50 \\% of a\\_b $\\uparrow$
    """
    return "".join(_LATEX.get(c, c) for c in one_line(text))


def records_csv(records: Sequence[dict[str, object]]) -> str:
    """The records as CSV, with a column for every key that occurs in any of them."""
    fields = list(dict.fromkeys(key for record in records for key in record))
    rows = ([record.get(key, "") for key in fields] for record in records)
    return "\n".join([*csv_lines([fields, *rows]), ""])


def json_text(record: object) -> str:
    """The data as JSON. NaN and infinity become null, and an object that JSON does not know becomes its ``str``."""
    return json.dumps(_without_nan(record), indent=1, default=str)


def _without_nan(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {str(k): _without_nan(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_nan(v) for v in value]
    return value


def with_interval(value: float, low: float, high: float, n: int) -> str:
    """The mean of n images and its interval as text. Without an interval, as for one image, only the mean.

    >>> with_interval(0.84, 0.8, 0.88, 20), with_interval(1.0, 1.0, 1.0, 20)
    ('.84 [.80, .88]', '1.00 (20 equal values)')
    """
    if math.isnan(value) or math.isnan(low):
        return number(value)
    ends = interval(low, high, n)
    return f"{number(value)} {ends}" if low < high else f"{number(value)} ({ends})"


def interval(low: float, high: float, n: int, text: Callable[[float], str] | None = None) -> str:
    """The interval of the mean of n images as text, such as ``[.80, .88]``; ``20 equal values`` if it has no width; a dash if there is none.
    ``text`` prints its ends."""
    if math.isnan(low):
        return "-"
    if low == high:
        return f"{n:,} equal values"
    return "[{}, {}]".format(*map(text or number, (low, high)))


def number(value: object) -> str:
    """The value as text with two decimals and no leading zero, as papers print probabilities. A small value has up to four decimals, so
    that its first nonzero digit is shown. NaN is a dash.

    >>> [number(x) for x in (0.391, 1.0, 0.0, 0.0023, 0.0006, 0.00001, -0.00001)]
    ['.39', '1.00', '.00', '.002', '.0006', '<.0001', '>-.0001']
    """
    assert isinstance(value, float)
    if math.isnan(value):
        return "-"
    size = abs(value)
    if 0 < size < 0.00005:
        return "<.0001" if value > 0 else ">-.0001"
    places = 2 if size >= 0.005 or size == 0 else 3 if size >= 0.00095 else 4
    return decimals(value, places)


def decimals(value: float, places: int) -> str:
    """The value as text with ``places`` decimals, without the leading zero.

    >>> decimals(0.79996, 4), decimals(-0.5, 2), decimals(-0.0, 2)
    ('.8000', '-.50', '.00')
    """
    return re.sub(r"^(-?)0\.", r"\1.", f"{value + 0.0:.{places}f}")  # -0.0 has no sign


def signed(value: float) -> str:
    """The value as text with a sign and three decimals, without the leading zero.

    >>> signed(0.0412), signed(-0.5), signed(1.25)
    ('+.041', '-.500', '+1.250')
    """
    return "-" if math.isnan(value) else f"{value + 0.0:+.3f}".replace("+0.", "+.").replace("-0.", "-.")


def metric_words(name: str) -> str:
    """The name of a metric as tables print it: ``best effort`` for ``best-effort``. Settings after the name, and names with numbers,
    stay as they are.

    >>> (
    ...     metric_words("best-effort (gray)"),
    ...     metric_words("completeness:fill=near-rows"),
    ...     metric_words("auc-.2-.6"),
    ... )
    ('best effort (gray)', 'completeness:fill=near-rows', 'auc-.2-.6')
    """
    base = re.split(r":| \(", name, maxsplit=1)[0]
    words = base.replace("-", " ") if re.fullmatch(r"[a-z]{2,}(-[a-z]{2,})+", base) else base
    return words + name.removeprefix(base)


def metric_with_arrow(name: str, higher_is_better: bool) -> str:
    """The header of a metric's column, such as ``best effort ↑``; the arrow says whether higher or lower is better."""
    return f"{metric_words(name)} {'↑' if higher_is_better else '↓'}"


def table_html(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    notes: Sequence[str] = (),
    *,
    bold: Sequence[Sequence[bool]] | None = None,
) -> str:
    """An HTML table with notes below it. Text is left-aligned, numbers are right-aligned. ``bold`` is a mask of the cells."""
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(header)
    sides = ["left" if any(c[:1].isalpha() for c in column) else "right" for column in columns]
    lines = [_row("th", header, sides, [False] * len(header))]
    for i, row in enumerate(rows):
        lines.append(_row("td", row, sides, bold[i] if bold else [False] * len(row)))
    quoted = "".join(f"<br>{escape(note)}" for note in notes)
    small = f'<div style="font-size:small;color:#666">{quoted.removeprefix("<br>")}</div>' if notes else ""
    return f"<table>{''.join(lines)}</table>{small}"


def _row(tag: str, cells: Sequence[str], sides: Sequence[str], bold: Sequence[bool]) -> str:
    shown = [f"<b>{escape(c)}</b>" if b else escape(c) for c, b in zip(cells, bold, strict=True)]
    return (
        "<tr>"
        + "".join(
            f'<{tag} style="text-align:{side}">{c}</{tag}>' for c, side in zip(shown, sides, strict=True)
        )
        + "</tr>"
    )
