"""Find the output index of a label that is given by index or name, with suggestions for unknown names."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from typing import Any

from proofmap.core.errors import InputError
from proofmap.core.text import shortened

LONGEST_NAME = 200
"""Maximum length of an unknown name for which similar names are searched. The search takes time."""


def label_index(label: Any, names: Sequence[str]) -> int:
    """The output index of a label given by index or by name (case and ``_`` do not matter).

    >>> label_index("Tiger cat", ["tabby", "tiger cat"]), label_index(0, ["tabby", "tiger cat"])
    (1, 0)
    """
    if getattr(label, "ndim", None) == 0:
        label = label.item()  # a number of NumPy or a tensor without dimensions
    if isinstance(label, bool) or not isinstance(label, (int, str)):
        raise InputError(f"a label is an index (a whole number) or a name, not {shortened(repr(label), 100)}")
    if isinstance(label, int) and 0 <= label < len(names):
        return label
    text = str(label).strip()
    known = [canonical_name(name) for name in names]
    found = [i for i, name in enumerate(known) if name == canonical_name(text)]
    if re.fullmatch(r"[+-]?\d+", text):
        index = int(text)
        if isinstance(label, str) and found and found != [index]:
            raise InputError(
                f"label {text!r} is the name of output {found[0]} and the index of another; pass {found[0]}"
            )
        if not 0 <= index < len(names):
            raise InputError(f"label {index} is out of range: the net has outputs 0 to {len(names) - 1}")
        return index
    if len(found) == 1:
        return found[0]
    if len(found) > 1:
        raise InputError(
            f"label {text!r} names {len(found)} outputs ({', '.join(map(str, found))}); give the index"
        )
    close = [repr(names[i]) for i in close_names(canonical_name(text), known)]
    some = " and ".join(repr(shortened(name, 30)) for name in names[:2])
    hint = (
        f"Did you mean {', '.join(close)}?"
        if close
        else f"Labels are named as {some} are, or by their numbers: 0 to {len(names) - 1}"
    )
    raise InputError(f"no label is named {shortened(text[: LONGEST_NAME + 1], 100)!r}. {hint}")


def close_names(text: str, known: Sequence[str]) -> list[int]:
    """Indices of up to three names in ``known`` that are similar to ``text``.

    Names that contain ``text`` as whole words are returned. If there are none, names with a word that begins with ``text``. If there
    are none either, names with a similar spelling.

    >>> (
    ...     close_names("cat", ["oystercatcher", "catamaran", "tiger cat"]),
    ...     close_names("cata", ["oystercatcher", "catamaran"]),
    ... )
    ([2], [1])
    """
    if not text or len(text) > LONGEST_NAME:
        return []
    for form in (rf"(?<!\w){re.escape(text)}(?!\w)", rf"(?<!\w){re.escape(text)}"):
        if found := [i for i, name in enumerate(known) if re.search(form, name)]:
            return found[:3]
    spelt = {word: i for i, name in reversed(list(enumerate(known))) for word in name.split()}
    spelt.update({name: i for i, name in enumerate(known)})
    return list(dict.fromkeys(spelt[word] for word in difflib.get_close_matches(text, spelt, n=3)))


def canonical_name(name: str) -> str:
    """A label name in the form used for comparison: lower case, ``_`` as a space, single spaces.

    >>> canonical_name("Tiger_Cat")
    'tiger cat'
    """
    return " ".join(name.replace("_", " ").lower().split())
