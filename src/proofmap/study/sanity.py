"""A check before a study: do the net's outputs depend on the images? A few numbers reveal a wrong mean, wrong names or lost weights.

If images are normalised with the wrong units, the net sees nearly the same input whatever is shown. Then every map counts as
a perfect proof. No score can show this; these numbers do. f(x, a) is the probability that the net gives label a for image x.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from proofmap.core.deferred import torch
from proofmap.study.store import ImageRow

if TYPE_CHECKING:
    from proofmap.fills import Fill
    from proofmap.study.opened import OpenStudy

LOOKED_AT = 32
"""Number of images that are used, spread evenly over those of the study."""
HARDLY_MOVES = 0.01
CERTAIN = 0.9
MANY_COPIES = 0.01
"""Share of images that are copies of others, above which a warning is given."""


def sanity_notes(found: Mapping[str, Any]) -> list[str]:
    """What :func:`measure_sanity` found, in words: a line with the numbers, then a line for each suspicious one, with advice on what to check.

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


def measure_sanity(opened: OpenStudy, images: Sequence[ImageRow], *, chosen: bool) -> dict[str, Any]:
    """Run the net on some of the images, and on each fill of the metrics without an image. ``chosen`` says that the study takes only images
    that the net gets right. The numbers, as they are stored in ``run.json``:

    ============= ===================================================================================================================
    images, of    the number of images that were checked, and the number of all images
    noun          the word for the inputs, such as "images"
    known, right  the number of checked images whose true label is known, and how many of these have a true label as top label
    labels        the number of labels in the label set
    truths, tops  the number of different true labels, and of different top labels
    moves         how much f differs between images: the mean over images x of 1/2 sum_a |f(x, a) - mean_x f(x, a)|; 0 if f never differs
    fills         for each fill (the values that replace hidden positions): the label with the highest mean probability f, and this f
    copies        the number of images, among all, that are equal to an earlier image
    by_order      the first names of the data's labels, if these were matched to outputs 0, 1, ... by their order alone; otherwise empty
    ============= ===================================================================================================================
    """
    from proofmap.core import streams
    from proofmap.data.loader import load_blocks

    classifier = opened.classifier
    step = max(1, len(images) / LOOKED_AT)
    some = [images[int(k * step)] for k in range(min(LOOKED_AT, len(images)))]
    place = {name: i for i, name in enumerate(opened.data.names)}
    indices = [place[row.name] for row in some]
    (block,) = load_blocks(opened.data, classifier, indices, block_size=len(indices), ahead=0)
    truth_of = {place[row.name]: row.true_labels for row in some}
    truth = [truth_of[i] for i in block.indices]
    fast, pixels = classifier.frozen(), classifier.check_images(block.images)
    f = fast.probabilities(pixels)
    top = f.argmax(dim=1).tolist()
    fills = dict.fromkeys(game.fill for metric in opened.metrics.values() for game in metric.games())
    judging = opened.session.judging()
    keys = streams.image_keys(pixels, 0, "sanity")
    known = [(a, b) for a, b in zip(top, truth, strict=True) if b]

    def alone(fill: Fill) -> dict[str, Any]:
        backgrounds = fill(judging, pixels, keys)
        if torch.equal(backgrounds, backgrounds[:1].expand_as(backgrounds)):
            backgrounds = backgrounds[:1]  # the same for every image, such as gray
        mean = fast.probabilities(backgrounds).mean(dim=0)
        best = int(mean.argmax())
        return {
            "fill": fill.title(),
            "label": classifier.names[best],
            "f": round(float(mean[best]), 6),
        }

    return {
        "images": len(f),
        "of": len(images),
        "noun": classifier.inputs.noun,
        "known": len(known),
        "right": sum(a in b for a, b in known),
        "chosen": chosen,
        "labels": len(classifier.label_set),
        "truths": len({label for _, b in known for label in b}),
        "tops": len(set(top)),
        "moves": round(float((f - f.mean(dim=0)).abs().sum(dim=1).mean() / 2), 6) if len(f) else 0.0,
        "fills": [alone(fill) for fill in fills] if len(f) else [],
        "copies": len(images) - len({row.digest for row in images}),
        "by_order": _by_order(opened.data.label_names, classifier.names),
    }


def _by_order(labels: Sequence[str], outputs: Sequence[str]) -> str:
    """The first names in ``labels``, if they match ``outputs`` only by their order because the outputs are unnamed; otherwise empty.

    >>> _by_order(["leaves", "stays"], ["0", "1"]), _by_order(["0", "1"], ["0", "1"])
    ('leaves, stays', '')
    """
    from proofmap.data.dataset import match_labels

    numbers = [str(k) for k in range(len(outputs))]
    if (
        list(outputs) != numbers
        or match_labels(labels, outputs) != tuple(range(len(labels)))
        or {*labels} & {*numbers}
    ):
        return ""
    return ", ".join(labels[:3]) + (", ..." if len(labels) > 3 else "")


def _places(value: float) -> str:
    return f"{value:.2f}".removeprefix("0")
