"""The survey reads each picture that a study may use once, and selects those that the study judges.

Every surveyed picture becomes a row: its digest, its labels under the study's rule with their probabilities, whether it passes the
selection, or why it cannot be read. The rows are stored, so no picture is surveyed twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from proofmap.core import streams
from proofmap.core.errors import InputError, ProofmapError
from proofmap.core.files import digest_of
from proofmap.core.labels import NO_LABEL, LabelRule, label_array
from proofmap.core.text import did_you_mean
from proofmap.data.dataset import Dataset, match_labels, random_choice, true_outputs
from proofmap.data.loader import ImageBlock, load_blocks
from proofmap.fills import Fill
from proofmap.study.manifest import Selection
from proofmap.study.opened import OpenStudy
from proofmap.study.store import ImageRow, Store

CHUNK = 64
"""Number of pictures that are read and stored together."""
LOOKED_AT = 32
"""Number of images on which the sanity of the net is measured, spread evenly over those of the study."""


class Survey:
    """Runs the net of an open study on the pictures of its dataset, in the order of the selection, and makes a row of each."""

    def __init__(self, opened: OpenStudy, selection: Selection) -> None:
        dataset, classifier = opened.data, opened.classifier
        self.opened, self.dataset, self.classifier, self.selection = opened, dataset, classifier, selection
        self.rule = LabelRule.parse(opened.study.labels, classifier.names)
        self.seed = opened.study.seed
        strict = self.rule.kind == "true"
        known = any(dataset.true_labels(i) for i in range(min(len(dataset), 1000)))
        self.truths = true_outputs(dataset, classifier.names, strict=strict) if known else [()] * len(dataset)
        for needed, what in ((selection.correct, "images.correct"), (strict, "labels 'true'")):
            if needed and not any(self.truths):
                raise InputError(
                    f"{what} needs true labels, but {dataset.title} has none; leave it out, or use data with labels"
                )

    def order(self) -> list[int]:
        """The indices of the pictures that may be used, in the order in which they are surveyed."""
        names, selection = self.dataset.names, self.selection
        if selection.names:
            return choose_names(names, selection.names)
        if selection.number is None:
            return list(range(len(names)))
        return random_choice(names, len(names), seed=selection.seed)

    def complete(self, store: Store, *, retry: bool, on_progress: Callable[[int], None]) -> None:
        """Survey pictures and store their rows, until enough pictures are chosen.

        Pictures in the store are skipped. With ``retry``, pictures that could not be read are read again.
        """
        rows, names = store.images(), self.dataset.names
        if retry:
            unread = {row.name for row in rows if row.failure is not None}
            again = [i for i, name in enumerate(names) if name in unread]
            for start in range(0, len(again), CHUNK):
                store.add_images(self.look(again[start : start + CHUNK]))
            rows = store.images()
        known, chosen = {row.name for row in rows}, sum(row.eligible for row in rows)
        waiting = [i for i in self.order() if names[i] not in known]
        wanted, looked_at = self.selection.number, 0
        while looked_at < len(waiting) and (wanted is None or chosen < wanted):
            size = CHUNK if wanted is None else min(CHUNK, max(8, 2 * (wanted - chosen)))
            found = list(self.look(waiting[looked_at : looked_at + size]))
            store.add_images(found)
            chosen += sum(row.eligible for row in found)
            looked_at += len(found)
            on_progress(looked_at)

    def changes(self, rows: Sequence[ImageRow]) -> list[str]:
        """A message for each picture that changed since its row was made. A picture whose stamp is unchanged is not read.

        A stamp is a short text that changes when the file changes. True labels count if the study's pictures or labels depend on them.
        """
        index = {name: i for i, name in enumerate(self.dataset.names)}
        reads_truth = self.rule.kind == "true" or self.selection.correct
        problems: list[str] = []
        for row in rows:
            i = index.get(row.name)
            if row.failure is not None:
                continue
            if i is None:
                problems.append(f"{row.name} is gone")
                continue
            try:
                stamp = self.dataset.stamp(i)
                same = bool(stamp) and stamp == row.stamp
                if not same and self.dataset.digest(i) != row.digest:
                    problems.append(f"{row.name} has changed")
                elif _boxes(self.dataset, i) != row.boxes:
                    problems.append(f"the boxes of {row.name} have changed")
                elif reads_truth and {*self.truths[i]} != {*row.true_labels}:
                    problems.append(f"the true labels of {row.name} have changed")
            except ProofmapError as error:
                problems.append(str(error))
        return problems

    def look(self, indices: Sequence[int]) -> Iterator[ImageRow]:
        """Read the pictures with these indices, run the net on them, and yield their rows in the given order."""
        (block,) = load_blocks(self.dataset, self.classifier, indices, block_size=len(indices), ahead=0)
        read = {row.name: row for row in self._read(block)}
        for i in indices:
            name = self.dataset.names[i]
            yield read[name] if name in read else self._row(i, failure=block.failures[name])

    def _row(self, index: int, **found: Any) -> ImageRow:
        try:
            digest, boxes = self.dataset.digest(index), _boxes(self.dataset, index)
        except ProofmapError:  # it cannot be read
            digest = boxes = ""
        name, stamp = self.dataset.names[index], self.dataset.stamp(index)
        return ImageRow(name, digest, stamp, boxes, self.truths[index], **found)

    def _read(self, block: ImageBlock) -> Iterator[ImageRow]:
        if not block.indices:
            return
        label_set, floor = self.classifier.label_set, self.selection.min_second_probability
        f = self.classifier.frozen().probabilities(block.images)
        labels = self._labels(f, block)
        believed = f.gather(1, labels.clamp_min(0)).tolist()
        sorted_f, order = f[:, list(label_set)].sort(dim=1, descending=True, stable=True)
        seconds = sorted_f[:, 1].tolist() if len(label_set) > 1 else [0.0] * len(f)
        for k, (index, row) in enumerate(zip(block.indices, labels.tolist(), strict=True)):
            chosen = tuple(label for label in row if label != NO_LABEL)  # missing labels are at the end
            right = label_set[int(order[k, 0])] in self.truths[index]
            wanted = bool(chosen) and (right or not self.selection.correct)
            yield self._row(
                index,
                eligible=wanted and (floor is None or seconds[k] >= floor),
                labels=chosen,
                f=tuple(f + 0.0 for f in believed[k][: len(chosen)]),
            )

    def _labels(self, f: Tensor, block: ImageBlock) -> Tensor:
        """The labels ``(N, L)`` to judge for the N pictures of a block, given the net's probabilities ``f``.

        If true labels are judged, a picture without a true label in the label set gets only ``NO_LABEL``.
        """
        if self.rule.kind != "true":
            return self.rule.choose(f, self.classifier.label_set, images=block.images, seed=self.seed)
        members = set(self.classifier.label_set)
        rows = [[label for label in self.truths[i] if label in members] for i in block.indices]
        return torch.from_numpy(label_array([row or [NO_LABEL] for row in rows])).to(f.device)

    def sanity(self, images: Sequence[ImageRow]) -> dict[str, Any]:
        """Run the net on some of the images that are judged, and on each fill of the metrics without an image. The numbers, as they are stored in
        ``run.json``:

        ============= ===================================================================================================================
        images, of    the number of images that were checked, and the number of all images
        noun          the word for the inputs, such as "images"
        known, right  the number of checked images whose true label is known, and how many of these have a true label as top label
        labels        the number of labels in the label set
        truths, tops  the number of different true labels, and of different top labels
        moves         how much f differs between images: the mean over images x of 1/2 sum_a |f(x, a) - mean_x f(x, a)|; 0 if f never differs
        fills         for each fill (the values that replace hidden positions): the label with the highest mean probability f, and this f
        copies        the number of images, among all, that are equal to an earlier image
        chosen        whether the study takes only images that the net gets right
        by_order      the first names of the data's labels, if these were matched to outputs 0, 1, ... by their order alone; otherwise empty
        ============= ===================================================================================================================
        """
        classifier, opened = self.classifier, self.opened
        step = max(1, len(images) / LOOKED_AT)
        some = [images[int(k * step)] for k in range(min(LOOKED_AT, len(images)))]
        place = {name: i for i, name in enumerate(self.dataset.names)}
        indices = [place[row.name] for row in some]
        (block,) = load_blocks(self.dataset, classifier, indices, block_size=len(indices), ahead=0)
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
            "chosen": self.selection.correct,
            "labels": len(classifier.label_set),
            "truths": len({label for _, b in known for label in b}),
            "tops": len(set(top)),
            "moves": round(float((f - f.mean(dim=0)).abs().sum(dim=1).mean() / 2), 6) if len(f) else 0.0,
            "fills": [alone(fill) for fill in fills] if len(f) else [],
            "copies": len(images) - len({row.digest for row in images}),
            "by_order": _by_order(self.dataset.label_names, classifier.names),
        }


def _by_order(labels: Sequence[str], outputs: Sequence[str]) -> str:
    """The first names in ``labels``, if they match ``outputs`` only by their order because the outputs are unnamed; otherwise empty.

    >>> _by_order(["leaves", "stays"], ["0", "1"]), _by_order(["0", "1"], ["0", "1"])
    ('leaves, stays', '')
    """
    numbers = [str(k) for k in range(len(outputs))]
    if (
        list(outputs) != numbers
        or match_labels(labels, outputs) != tuple(range(len(labels)))
        or {*labels} & {*numbers}
    ):
        return ""
    return ", ".join(labels[:3]) + (", ..." if len(labels) > 3 else "")


def _boxes(dataset: Dataset, i: int) -> str:
    """A digest of the bounding boxes of picture ``i``; empty if it has none."""
    names = dataset.label_names
    boxes = {names[k] if names else str(k): list(map(tuple, own)) for k, own in dataset.objects(i).items()}
    return digest_of(repr(sorted(boxes.items()))) if boxes else ""


def choose_names(names: Sequence[str], wanted: Sequence[str]) -> list[int]:
    """The index in ``names`` of each of the names ``wanted``, in the order of ``wanted``.

    >>> choose_names(["a.png", "b.png"], ["b.png"])
    [1]
    """
    where = {name: i for i, name in enumerate(names)}
    for name in wanted:
        if name not in where:
            hint = (
                did_you_mean(name, where)
                or f" There are {', '.join(map(repr, names[:3]))}{', ...' if len(names) > 3 else ''}"
            )
            raise InputError(f"nothing in the data is named {name!r}.{hint}")
    return [where[name] for name in wanted]
