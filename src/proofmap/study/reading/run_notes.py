"""Notes on how the numbers of a run were made, for readers of its tables and report."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from proofmap.core.inputs import Inputs, Pictures
from proofmap.core.text import counted


@dataclass(frozen=True)
class Failure:
    """An image without a result: it could not be read (then ``method`` is empty), or ``method`` failed on it."""

    image: str
    method: str
    reason: str


def gaps(
    methods: Collection[str],
    lacking: Mapping[str, int],
    failures: Sequence[Failure],
    images: int,
    inputs: type[Inputs] = Pictures,
) -> list[str]:
    """Notes on images without a result: not judged yet, not readable, or failed.

    ``lacking`` has for each unfinished method the number of images that it has not judged yet. ``images`` is the number of all images.

    >>> gaps(["a", "b"], {"a": 2}, [Failure("x.png", "a", "too dark"), Failure("x.png", "c", "odd")], 5)
    ['not finished, so means are over different images: a lacks 2 of 5 images', 'a failed on 1 of 5 images, first with: too dark']
    """
    notes = []
    if lacking:
        missing = ", ".join(
            f"{name} lacks {n} of {counted(images, inputs.singular)}" for name, n in lacking.items()
        )
        notes.append(f"not finished, so means are over different {inputs.noun}: {missing}")
    unreadable = sum(not failure.method for failure in failures)
    if unreadable:
        notes.append(
            f"{counted(unreadable, inputs.singular)} could not be read and {'is' if unreadable == 1 else 'are'} not counted"
        )
    reasons: dict[str, list[str]] = {}
    for failure in failures:
        if failure.method in methods:
            reasons.setdefault(failure.method, []).append(failure.reason)
    for method, given in reasons.items():
        notes.append(
            f"{method} failed on {len(given)} of {counted(images, inputs.singular)}, first with: {given[0]}"
        )
    return notes
