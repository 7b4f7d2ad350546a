"""A check before a study: do the net's outputs depend on the images? A few numbers reveal a wrong mean, wrong names or lost weights.

If images are normalised with the wrong units, the net sees nearly the same input whatever is shown. Then every map counts as
a perfect proof. No score can show this; these numbers do. f(x, a) is the probability that the net gives label a for image x.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

HARDLY_MOVES = 0.01
CERTAIN = 0.9
MANY_COPIES = 0.01
"""Share of images that are copies of others, above which a warning is given."""


def sanity_notes(found: Mapping[str, Any]) -> list[str]:
    """What :meth:`~proofmap.study.survey.Survey.sanity` found, in words: a line with the numbers, then a line for each suspicious one, with advice on what to check.

    >>> gray = {"fill": "gray", "label": "web", "f": 0.1}
    >>> numbers = {"images": 30, "of": 90, "noun": "images", "known": 30, "right": 28, "chosen": False}
    >>> numbers |= {
    ...     "labels": 1000,
    ...     "truths": 9,
    ...     "tops": 11,
    ...     "moves": 0.93,
    ...     "fills": [gray],
    ...     "copies": 0,
    ...     "by_order": "",
    ... }
    >>> print(*sanity_notes(numbers))
    sanity of 30 images: 28 of 30 right; f moves by .93 from one to another (above .01: nothing to do); gray alone is 'web' with f = .10
    """
    images, known, right, moves = (found[name] for name in ("images", "known", "right", "moves"))
    noun, of, copies, labels = (found[name] for name in ("noun", "of", "copies", "labels"))
    order = f", with {found['by_order']} as outputs 0, 1, ... in this order: name the outputs to be sure"
    numbers = [
        f"{right} of {known} right{order if found['by_order'] else ''}"
        if known
        else "true labels are not known"
    ]
    if images > 1:
        fine = f" (above {_places(HARDLY_MOVES)}: nothing to do)" if moves >= HARDLY_MOVES else ""
        numbers.append(f"f moves by {_places(moves)} from one to another{fine}")
    alone = [
        (f"{fill['fill']} alone is {fill['label']!r} with f = {_places(fill['f'])}", fill["f"])
        for fill in found["fills"]
    ]
    many = f"{images} {noun}" if images != 1 else f"one of the {noun}"
    first = f"sanity of {many}: {'; '.join([*numbers, *(text for text, _ in alone)])}"
    check = "check the names of the labels and their order, the weights, size, and mean and std"
    suspicious = []
    if known >= 5 and not found["chosen"] and right == 0:
        suspicious.append(f"0 of {known} right: {check}")
    elif known >= 10 and not found["chosen"] and right / known <= 1 / labels:
        suspicious.append(
            f"{right} of {known} right is no better than guessing one of {labels} labels: {check}"
        )
    if images >= 5 and found["tops"] == 1 and found["truths"] > 1:
        suspicious.append(
            f"the net gives all {images} {noun} one label, but they have {found['truths']} true ones"
        )
    if copies > MANY_COPIES * of:
        suspicious.append(
            f"{copies} of {of} {noun} are copies of others, and intervals count each as one more: "
            "check how they were read, or leave the copies out"
        )
    if images > 1 and moves < HARDLY_MOVES:
        suspicious.append(
            f"f hardly moves from one of the {noun} to another ({moves:.4f}), so that every map, noise too, "
            "looks like a proof: check mean and std (in units of [0, 1]) and the weights"
        )
    suspicious += [
        f"{text}: that label is proved before anything is shown; try another fill"
        for text, f in alone
        if f >= CERTAIN and moves >= HARDLY_MOVES
    ]
    return [first, *(f"suspicious: {text}" for text in suspicious)]


def _places(value: float) -> str:
    return f"{value:.2f}".removeprefix("0")
