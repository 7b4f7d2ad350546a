"""Checks that every score on the result pages is in a record, or is marked as being without one.

    python docs/recorded_numbers.py

Records are the files that ``proofmap reproduce`` writes, in ``docs/results/recorded``. A page may use the records that it links to, and those
that the result pages it links to use. Two kinds of numbers are checked:

- ``.24 [.22, .27]``: the three numbers must be those of one recorded score or difference, rounded as shown, or with the sign changed.
- ``.24`` alone: some recorded number, or a number that the record repeats from the paper, must round to it. With two decimals this catches little.

Numbers without a decimal point (counts, seconds, passes) are not checked. What has no record says so in words: a paragraph that begins with
``**No record.**`` speaks for the whole page if it stands before the first section, and otherwise for its section; ``no record`` in a paragraph, a
list item or a row of a table speaks for that alone.
"""

from __future__ import annotations

import json
import math
import re
import sys
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
NOTES = Path(__file__).parents[1] / "notes"
MARK = "**No record.**"
THRESHOLDS = (0.001, 0.01, 0.1)  # e1 and e2 are named on every page
NUMBER = r"[+\-]?(?:\d+\.\d+|\.\d+|\d+)(?:e-\d+)?"
INTERVAL = re.compile(rf"(?<![\w.])({NUMBER}) \[({NUMBER}), ({NUMBER})\]")
SCORE = re.compile(r"(?<![\w.,:])[+\-]?0?\.\d+(?![\w%]|\.\d| %)")
LINK = re.compile(r"\]\([^)]*\)")
CODE = re.compile(r"`[^`]*`")


def _decimals(text: str) -> int:
    mantissa, _, power = text.partition("e-")
    return len(mantissa.partition(".")[2]) + int(power or 0)


def _near(text: str, value: float) -> bool:
    """Whether a value rounds to what is shown; halves may go either way."""
    return abs(float(text) - value) <= 0.5 * 10 ** -_decimals(text) + 1e-9


@dataclass(frozen=True)
class Recorded:
    """The numbers of some records."""

    intervals: tuple[tuple[float, float, float], ...]
    values: tuple[float, ...]

    @cached_property
    def _sizes(self) -> list[float]:
        return sorted({abs(value) for value in self.values})

    @cached_property
    def _by_mean(self) -> list[tuple[float, float, float]]:
        """The intervals and the same with the sign changed, in the order of their means."""
        return sorted({*self.intervals, *((-mean, -high, -low) for mean, low, high in self.intervals)})

    def has(self, shown: tuple[str, str, str]) -> bool:
        """Whether a mean with this interval is recorded, as it is or with the sign changed."""
        mean, unit = float(shown[0]), 10 ** -_decimals(shown[0])
        first, last = (bisect_left(self._by_mean, (mean + side * unit,)) for side in (-1, 1))
        return any(all(map(_near, shown, numbers)) for numbers in self._by_mean[first:last])

    def has_value(self, shown: str) -> bool:
        """Whether some recorded number rounds to this, whatever its sign."""
        size = shown.lstrip("+-")
        place = bisect_left(self._sizes, float(size))
        return any(_near(size, value) for value in self._sizes[max(place - 1, 0) : place + 1])


def _inside(record: Any) -> Iterator[Any]:
    """Everything in a record, however deep."""
    yield record
    parts = record.values() if isinstance(record, dict) else record if isinstance(record, list) else ()
    for part in parts:
        yield from _inside(part)


def recorded(names: frozenset[str]) -> Recorded:
    """The numbers of records by name; sentences in a record count as what they say."""
    intervals, values = [], [*THRESHOLDS]
    for name in sorted(names):
        for part in _inside(json.loads((RESULTS / name).read_text(encoding="utf-8"))):
            if isinstance(part, dict) and None not in (
                three := [part.get(k) for k in ("value", "low", "high")]
            ):
                intervals.append((three[0], three[1], three[2]))
            elif isinstance(part, int | float) and not isinstance(part, bool) and math.isfinite(part):
                values.append(float(part))
            elif isinstance(part, str):
                intervals += [(float(a), float(b), float(c)) for a, b, c in INTERVAL.findall(part)]
                values += [float(number) for number in SCORE.findall(part)]
    return Recorded(tuple(intervals), tuple(values))


@cache
def records_of(page: Path) -> frozenset[str]:
    """Files that a page links to, or that a result page it links to does."""
    text = page.read_text(encoding="utf-8")
    others = {RESULTS / name for name in re.findall(r"\]\(([\w\-]+\.md)", text)} & {*pages()}
    texts = [text, *(other.read_text(encoding="utf-8") for other in others)]
    return frozenset(
        name for one in texts for name in re.findall(r"\]\((?:\.\./docs/results/)?([\w\-/]+\.json)\)", one)
    )


def blocks(text: str) -> Iterator[str]:
    """Paragraphs, list items and table rows that are not marked, on a page or in a section that is not."""
    sections = re.split(r"^(?=##+ )", text, flags=re.MULTILINE)
    if MARK in sections[0]:
        return
    for section in sections:
        if MARK in section:
            continue
        for block in re.split(r"\n\s*\n|\n(?=[-|] )", re.sub(r"^ {4}.*$", "", section, flags=re.MULTILINE)):
            words = " ".join(block.split())
            if "no record" not in words.lower() and not words.startswith("#"):
                yield words.replace("**", "")


def pages() -> list[Path]:
    """The result pages, and the notes with measurements."""
    return [*sorted(RESULTS.glob("*.md")), NOTES / "intervals.md", NOTES / "speed.md"]


def unrecorded(page: Path) -> list[str]:
    """The scores on a page that neither a record has nor a mark speaks for, with the words around them."""
    found, known = [], recorded(records_of(page))
    for block in blocks(page.read_text(encoding="utf-8").replace("\N{NO-BREAK SPACE}", " ")):
        plain = CODE.sub("", LINK.sub("]", block))
        for match in INTERVAL.finditer(plain):
            if not known.has(match.groups()):  # type: ignore[arg-type]
                found.append(f"{match[0]}   in: {plain[max(match.start() - 60, 0) : match.end() + 20]}")
        rest = INTERVAL.sub("", plain)
        for match in SCORE.finditer(rest):
            if not known.has_value(match[0]):
                found.append(f"{match[0]}   in: {rest[max(match.start() - 60, 0) : match.end() + 20]}")
    return found


def main() -> int:
    left = 0
    for page in pages():
        for line in unrecorded(page):
            left += 1
            print(f"{page.name}: {line}")
    print(
        f"{left} scores have neither a record nor the words 'no record'"
        if left
        else "every score with an interval is in a record or says that it has none; numbers without an interval were compared only roughly"
    )
    return 1 if left else 0


if __name__ == "__main__":
    sys.exit(main())
