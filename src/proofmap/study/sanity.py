"""A check before a study: do the net's outputs depend on the images? A few numbers reveal a wrong mean, wrong names or lost weights.

If images are normalised with the wrong units, the net sees nearly the same input whatever is shown. Then every map counts as
a perfect proof. No score can show this; these numbers do. f(x, a) is the probability that the net gives label a for image x.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from proofmap.core.deferred import torch
from proofmap.plugins.failures import exit_as_error
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


@dataclass(frozen=True)
class FillAlone:
    """The net's output if only a fill (the values that replace hidden positions) is shown.

    ``label`` is the label with the highest mean probability, and ``f`` this probability.
    """

    fill: str
    label: str
    f: float


@dataclass(frozen=True)
class Sanity:
    """What the net does with some of a study's images, in numbers that reveal common mistakes.

    Attributes:
        images, of: the number of images that were checked, and the number of all images.
        noun: the word for the inputs, such as "images".
        known, right: the number of checked images whose true label is known, and how many of these have a true label as top label.
        chosen: whether the study takes only images that the net gets right.
        labels: the number of labels in the label set.
        truths, tops: the number of different true labels, and of different top labels.
        moves: how much f differs between images: the mean over images x of 1/2 sum_a |f(x, a) - mean_x f(x, a)|. It is 0 if f is the same
            for all images.
        fills: the net's output for each fill that metrics use.
        copies: the number of images, among all, that are equal to an earlier image.
        by_order: the first names of the data's labels, if these were matched to outputs 0, 1, ... by their order because the outputs have
            no names; otherwise empty.
    """

    images: int
    of: int
    noun: str
    known: int
    right: int
    chosen: bool
    labels: int
    truths: int
    tops: int
    moves: float
    fills: tuple[FillAlone, ...]
    copies: int = 0
    by_order: str = ""

    @classmethod
    def from_record(cls, record: Any) -> Sanity:
        return cls(**{**record, "fills": tuple(FillAlone(**fill) for fill in record["fills"])})

    def __str__(self) -> str:
        """One line with the numbers.

        >>> print(
        ...     Sanity(30, 90, "images", 30, 28, False, 1000, 9, 11, 0.93, (FillAlone("gray", "web", 0.1),))
        ... )
        sanity of 30 images: 28 of 30 right; f moves by .93 from one to another (above .01: nothing to do); gray alone is 'web' with f = .10
        """
        order = f", with {self.by_order} as outputs 0, 1, ... in this order: name the outputs to be sure"
        right = (
            [f"{self.right} of {self.known} right{order if self.by_order else ''}"]
            if self.known
            else ["true labels are not known"]
        )
        fine = f" (above {_places(HARDLY_MOVES)}: nothing to do)" if self.moves >= HARDLY_MOVES else ""
        moves = [f"f moves by {_places(self.moves)} from one to another{fine}"] if self.images > 1 else []
        alone = [f"{fill.fill} alone is {fill.label!r} with f = {_places(fill.f)}" for fill in self.fills]
        many = f"{self.images} {self.noun}" if self.images != 1 else f"one of the {self.noun}"
        return f"sanity of {many}: {'; '.join([*right, *moves, *alone])}"

    def warnings(self) -> list[str]:
        """Warnings about suspicious numbers, each with advice on what to check."""
        notes = []
        if self.known >= 5 and not self.chosen:
            if self.right == 0:
                notes.append(
                    f"0 of {self.known} right: check the names of the labels and their order, the weights, size, and mean and std"
                )
            elif self.known >= 10 and self.right / self.known <= 1 / self.labels:
                notes.append(
                    f"{self.right} of {self.known} right is no better than guessing one of {self.labels} labels: "
                    "check the names of the labels and their order, the weights, size, and mean and std"
                )
        if self.images >= 5 and self.tops == 1 and self.truths > 1:
            notes.append(
                f"the net gives all {self.images} {self.noun} one label, but they have {self.truths} true ones"
            )
        if self.copies > MANY_COPIES * self.of:
            notes.append(
                f"{self.copies} of {self.of} {self.noun} are copies of others, and intervals count each as one more: "
                "check how they were read, or leave the copies out"
            )
        if self.images > 1 and self.moves < HARDLY_MOVES:
            notes.append(
                f"f hardly moves from one of the {self.noun} to another ({self.moves:.4f}), so that every map, noise too, "
                "looks like a proof: check mean and std (in units of [0, 1]) and the weights"
            )
        notes += [
            f"{fill.fill} alone is {fill.label!r} with f = {_places(fill.f)}: that label is proved before anything is "
            "shown; try another fill"
            for fill in self.fills
            if fill.f >= CERTAIN and self.moves >= HARDLY_MOVES
        ]
        return notes


@exit_as_error()
def measure_sanity(opened: OpenStudy, images: Sequence[ImageRow], *, chosen: bool) -> Sanity:
    """Compute the sanity numbers: run the net on some of the images, and on each fill of the metrics without an image."""
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

    def alone(fill: Fill) -> FillAlone:
        backgrounds = fill(judging, pixels, keys)
        if torch.equal(backgrounds, backgrounds[:1].expand_as(backgrounds)):
            backgrounds = backgrounds[:1]  # the same for every image, such as gray
        mean = fast.probabilities(backgrounds).mean(dim=0)
        best = int(mean.argmax())
        return FillAlone(fill.title(), classifier.names[best], round(float(mean[best]), 6))

    return Sanity(
        images=len(f),
        of=len(images),
        noun=classifier.inputs.noun,
        known=len(known),
        right=sum(a in b for a, b in known),
        chosen=chosen,
        labels=len(classifier.label_set),
        truths=len({label for _, b in known for label in b}),
        tops=len(set(top)),
        moves=round(float((f - f.mean(dim=0)).abs().sum(dim=1).mean() / 2), 6) if len(f) else 0.0,
        fills=tuple(alone(fill) for fill in fills) if len(f) else (),
        copies=len(images) - len({row.digest for row in images}),
        by_order=_by_order(opened.data.label_names, classifier.names),
    )


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
