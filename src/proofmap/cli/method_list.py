"""The list of methods by family: what each is, what it costs and needs, and whose it is."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator

from proofmap.methods.facts import MethodFacts, by_family

_NOTES = (
    "passes: runs of the net for one image; METHOD's are those of the method inside.",
    "signed: values below zero speak against the label.",
    "Settings follow a colon: learned-mask:tv=0.1,scale=4 or learned-mask:preset=paper",
    "All about one: proofmap methods NAME",
)
_LEAST_ROOM = 24


def method_list(width: int) -> str:
    """All methods, no line longer than the width where words are not."""
    families = list(by_family())
    names = max(len(facts.name) for _, members in families for facts in members)
    indent = " " * (names + 4)
    lines: list[str] = []
    for title, members in families:
        lines.append(title)
        for facts in members:
            first, *more = _about(facts, max(_LEAST_ROOM, width - len(indent)))
            lines += [f"  {facts.name.ljust(names)}  {first}", *(indent + line for line in more)]
        lines.append("")
    return "\n".join([*lines, *(line for note in _NOTES for line in wrapped_words(note, width))])


def _about(facts: MethodFacts, width: int) -> Iterator[str]:
    yield from wrapped_words(facts.description, width)
    yield from _joined(fact_words(facts), width)


def fact_words(facts: MethodFacts) -> list[str]:
    """What it costs and needs, whose it is, and what its maps are where they are unlike most, in a few words each."""
    found = [
        f"passes: {'not known beforehand' if facts.passes is None else facts.passes}",
        "one map for all labels" if facts.label_free else "",
        "signed" if facts.signed else "",
        "random" if facts.stochastic else "",
        f"needs {' and '.join(facts.needs)}" if facts.needs else "",
        facts.reference,
    ]
    return [words for words in found if words]


def _joined(facts: Iterable[str], width: int) -> Iterator[str]:
    """Facts in lines, none of them broken unless it is longer than a line."""
    line = ""
    for fact in facts:
        if line and len(line) + len(fact) + 3 > width:  # with a semicolon before it, and one at the end
            yield line + ";"
            line = ""
        *full, rest = wrapped_words(fact, width - 1)
        yield from full
        line += f"; {rest}" if line else rest
    yield line


def settings_table(header: list[str], rows: list[list[str]], width: int) -> str:
    """A table of texts whose last column is wrapped to the width; where that leaves no room, it stands below the others."""
    before = [max(map(len, column)) for column in list(zip(header, *rows, strict=True))[:-1]]
    start = sum(before) + 2 * len(before)
    below = width - start < _LEAST_ROOM
    lines = []
    for *cells, words in [header, *rows]:
        front = "  ".join(cell.ljust(room) for cell, room in zip(cells, before, strict=True))
        first, *more = wrapped_words(words, width - (4 if below else start)) or [""]
        if below:
            indented = [f"    {line}" for line in (first, *more) if line and cells != header[:-1]]
            lines += [front.rstrip(), *indented]
        else:
            lines += [f"{front}  {first}".rstrip(), *(" " * start + line for line in more)]
    return "\n".join(lines)


def wrapped_words(text: str, width: int) -> list[str]:
    """Text in lines, broken between words alone: names and specs stay whole."""
    return textwrap.wrap(text, width, break_on_hyphens=False, break_long_words=False)
