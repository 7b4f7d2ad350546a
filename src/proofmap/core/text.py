"""Text for printing: safe for a terminal, in one line, shortened or wrapped."""

from __future__ import annotations

import csv
import difflib
import io
import os.path
import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

from proofmap.core.errors import InputError

# What a terminal does not print: control characters, marks that change the writing direction, and surrogates from broken names.
_OBEYED = r"\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff"
_UNPRINTABLE = rf"(?:[^\S ]|[{_OBEYED}])"
_GAP = re.compile(f"(?<! ) *{_UNPRINTABLE}(?: |{_UNPRINTABLE})*")
_UNSAFE = re.compile(rf"(?![\n\t])[{_OBEYED}]")


def terminal_text(text: str) -> str:
    """The text with control characters escaped, except line breaks and tabs.

    The name of a label or a file must not colour, hide or overwrite what is printed.

    >>> print(terminal_text("cat\\x1b[2K\\rdog"))
    cat\\x1b[2K\\rdog
    """
    return _UNSAFE.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def one_line(text: str) -> str:
    """The text with line breaks, tabs and control characters replaced by single spaces.

    >>> one_line("my\\n\\n photo\\t1.png")
    'my photo 1.png'
    """
    return _GAP.sub(" ", text)


def shortened(text: str, most: float, *, dots: str = "…", measure: Callable[[str], float] = len) -> str:
    """The text in one line, cut off with dots if it is longer than ``most``.

    >>> shortened("a long name", 7), shortened("short", 7)
    ('a long…', 'short')
    """
    text = one_line(text)
    if measure(text) <= most:
        return text
    return _longest(lambda letters: text[:letters] + dots, len(text), most, measure)


def _longest(cut: Callable[[int], str], letters: int, most: float, measure: Callable[[str], float]) -> str:
    """The longest of the texts ``cut(0)``, ..., ``cut(letters)`` with at most the length ``most``; if all are longer, ``cut(0)``."""
    fitting = bisect_right(range(letters + 1), most, key=lambda kept: measure(cut(kept)))
    return cut(max(0, fitting - 1))


def short_names(names: Sequence[str], most: float, *, measure: Callable[[str], float] = len) -> list[str]:
    """The names, each shortened to a length of at most ``most``. Different names stay different where possible.

    Long names are cut at the end. If names then become equal, the beginning that all long names share is cut instead, or else the
    middle.

    >>> short_names(["size of the cell: mean", "size of the cell: worst", "age"], 12)
    ['…mean', '…worst', 'age']
    >>> short_names(["kernel-shap:samples=60", "gradient-x-input:samples=60"], 12)
    ['kernel-shap…', 'gradient-x-…']
    """
    lines = [one_line(name) for name in names]
    long = {line for line in lines if measure(line) > most}
    # the beginning that all long names share, up to the last whole word
    shared = re.sub(r"[^\W_]+$", "", os.path.commonprefix(sorted(long)))  # noqa: RUF071 letters are meant

    def middle(text: str) -> str:
        def cut(letters: int) -> str:
            return f"{text[: letters // 2]}…{text[-max(1, (letters + 1) // 2) :]}"

        return _longest(cut, len(text), most, measure)

    cuts: list[Callable[[str], str]] = [
        lambda text: shortened(text, most, measure=measure),
        lambda text: shortened(f"…{text[len(shared) :]}", most, measure=measure),
        middle,
    ]
    best: list[str] = []
    for cut in cuts:
        found = [cut(line) if line in long else line for line in lines]
        best = found if len({*found}) > len({*best}) else best
        if len({*best}) == len({*lines}):
            break
    return best


def wrapped(text: str, width: int, lines: int = 3) -> str:
    """The text in at most ``lines`` lines of at most ``width`` characters. Lines end at a space, colon or comma, or else at a hyphen.

    >>> print(wrapped("top-label:learned-mask", 12))
    top-label:
    learned-mask
    """
    text = one_line(text)
    found = _broken(text, r"(?<=[\s:,])", width)
    if any(len(line) > width for line in found):
        found = _broken(text, r"(?<=[\s:,-])", width)
    if len(found) > lines:
        found = [*found[: lines - 1], found[lines - 1] + "…"]
    return "\n".join(shortened(line, width) for line in found)


def _broken(text: str, where: str, width: int) -> list[str]:
    lines = [""]
    for part in re.split(where, text):
        if lines[-1] and len(lines[-1]) + len(part.rstrip()) > width:
            lines.append("")
        lines[-1] += part
    return [line.rstrip() for line in lines]


def counted(n: float, what: str) -> str:
    """A number with its noun, such as "2 images". A fraction is printed with three digits.

    >>> counted(1, "image"), counted(3000, "pass"), counted(2.6667, "label"), counted(2, "series")
    ('1 image', '3,000 passes', '2.67 labels', '2 series')
    """
    number = f"{n:,}" if isinstance(n, int) else f"{n:.3g}"
    return f"{number} {what}" + (
        "" if number == "1" or what.endswith("series") else "es" if what.endswith("s") else "s"
    )


def size_text(size: float) -> str:
    """A number of bytes in a fitting unit.

    >>> size_text(312), size_text(4_096), size_text(999_960), size_text(2.5e9)
    ('312 bytes', '4.1 kB', '1.0 MB', '2.5 GB')
    """
    if size < 1000:
        return f"{size:.0f} bytes"
    for unit, factor in (("kB", 1e3), ("MB", 1e6)):
        if size < 999.95 * factor:
            return f"{size / factor:.1f} {unit}"
    return f"{size / 1e9:,.1f} GB"


def csv_lines(rows: Iterable[Iterable[object]]) -> Iterator[str]:
    """Rows as lines of CSV, without line ends.

    Cells with a line break are quoted. Text that a spreadsheet would run as a formula gets an apostrophe in front; numbers do not.

    >>> list(csv_lines([["name", "value"], ["=1+1", -0.5], ["a,b", "-0.5"]]))
    ['name,value', "'=1+1,-0.5", '"a,b",-0.5']
    """
    for row in rows:
        line = io.StringIO(newline="")
        csv.writer(line, lineterminator="\r\n").writerow(map(_csv_cell, row))  # what is in the end is quoted
        yield line.getvalue().removesuffix("\r\n")


def _csv_cell(cell: object) -> object:
    if not isinstance(cell, str) or not cell.startswith(("=", "+", "-", "@", "\t", "\r")):
        return cell
    try:
        float(cell)
    except ValueError:
        return f"'{cell}"
    return cell


def did_you_mean(name: str, known: Iterable[str], most: int = 2, before: str = "") -> str:
    """The question " Did you mean ...?" with similar known names, each preceded by ``before``; empty if no name is similar.

    >>> did_you_mean("grad-cm", ["grad-cam", "edges"]), did_you_mean("xyz", ["random"])
    (" Did you mean 'grad-cam'?", '')
    """
    found = [repr(before + one) for one in difflib.get_close_matches(name, list(known), n=most)]
    return f" Did you mean {' or '.join(found)}?" if found else ""


def check_known(kind: str, name: str, known: Collection[str], most: int = 2) -> None:
    """Refuse an unknown name. The message suggests up to ``most`` similar names and lists all known ones.

    >>> check_known("task", "smke", ["smoke", "photos"])
    Traceback (most recent call last):
    proofmap.core.errors.InputError: no task is named 'smke'. Did you mean 'smoke'? Known are: photos, smoke
    """
    if name not in known:
        raise InputError(
            f"no {kind} is named {name!r}.{did_you_mean(name, known, most)} Known are: {', '.join(sorted(known))}"
        )


def distinct(names: Sequence[str]) -> tuple[str, ...]:
    """The names, with the index added to each name that occurs more than once. Upper and lower case count as equal.

    >>> distinct(["Cardigan", "cat", "cardigan"])
    ('Cardigan (0)', 'cat', 'cardigan (2)')
    """
    times = Counter(name.lower() for name in names)
    return tuple(f"{name} ({index})" if times[name.lower()] > 1 else name for index, name in enumerate(names))
