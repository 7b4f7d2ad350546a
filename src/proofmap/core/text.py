"""Names as they can be printed: any photo, method or label in one line of readable characters."""

from __future__ import annotations

import re
from collections.abc import Callable

# Whitespace other than plain spaces, control characters, and halves of characters from broken file names.
_UNPRINTABLE = r"(?:[^\S ]|[\x00-\x1f\x7f-\x9f\ud800-\udfff])"
_GAP = re.compile(f" *{_UNPRINTABLE}(?: |{_UNPRINTABLE})*")


def shortened(text: str, most: float, *, dots: str = "…", measure: Callable[[str], float] = len) -> str:
    """The text in one line, its end cut off for dots where it measures more than ``most``.

    >>> shortened("a long name", 7), shortened("short", 7)
    ('a long…', 'short')
    """
    text = one_line(text)
    if measure(text) <= most:
        return text
    while text and measure(text + dots) > most:
        text = text[:-1]
    return text + dots


def one_line(text: str) -> str:
    """The text with line breaks, tabs and control characters as single spaces; plain spaces stay as they are.

    >>> one_line("my\\n\\n photo\\t1.png")
    'my photo 1.png'
    """
    return _GAP.sub(" ", text)
