"""Names as they can be printed: any photo, method or label in one line of readable characters."""

from __future__ import annotations

import re

# Whitespace other than plain spaces, control characters, and halves of characters from broken file names.
_UNPRINTABLE = r"(?:[^\S ]|[\x00-\x1f\x7f-\x9f\ud800-\udfff])"
_GAP = re.compile(f" *{_UNPRINTABLE}(?: |{_UNPRINTABLE})*")


def one_line(text: str) -> str:
    """The text with line breaks, tabs and control characters as single spaces; plain spaces stay as they are.

    >>> one_line("my\\n\\n photo\\t1.png")
    'my photo 1.png'
    """
    return _GAP.sub(" ", text)
