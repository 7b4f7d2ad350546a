"""The border: everything that a person hands over to be judged becomes :class:`Subjects`, copied and checked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core.errors import InputError
from proofmap.core.files import distinct_names
from proofmap.core.inputs import Box
from proofmap.core.labels import NO_LABEL, LabelRule, label_array, label_index
from proofmap.core.tensors import NamedImages, private_copy
from proofmap.core.text import counted
from proofmap.data.dataset import Dataset, true_outputs
from proofmap.data.given import ImagesLike, as_dataset, images_as_tensor, is_in_memory
from proofmap.data.loader import load_blocks
from proofmap.data.truth import Truth, label_rows


@dataclass(frozen=True)
class Subjects:
    """Images to judge, and all that is known of them.

    Attributes:
        images: ``(N, *shape)`` on the net's device; no one else writes to them.
        labels: the labels to judge ``(N, L)``, padded with -1.
        truth: the true labels ``(N,)`` or ``(N, T)``, padded with -1; None if none is known.
        boxes: for each image, boxes around the objects of its true label; empty if unknown. By default they are taken from the objects of
            images with one true label.
        objects: for each image, the boxes of each of its labels; empty if unknown.
        rule: how the labels were chosen; None if that is not known. Then methods may ignore them.
        names: one distinct name per image.
        f: f(x, a) of the labels ``(N, L)``; NaN where a row has no label.
        source: the dataset that the images are a block of; None for images in memory.
        maps: maps that exist already: for a method, ``(N, L, *positions)``, or ``(N, 1, *positions)`` if its maps ignore the label.
    """

    images: Tensor
    labels: Tensor
    truth: Tensor | None = None
    boxes: Sequence[Sequence[Box]] = ()
    objects: Sequence[Mapping[int, Sequence[Box]]] = ()
    rule: LabelRule | None = None
    names: Sequence[str] = ()
    f: Tensor | None = None
    source: Dataset | None = None
    maps: Mapping[Any, Tensor] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if len(self.boxes) or not len(self.objects):
            return
        truth = [] if self.truth is None else self.truth.reshape(len(self), -1).tolist()
        rows = [[a for a in row if a != NO_LABEL] for row in truth or [[]] * len(self)]
        boxes = [
            own.get(row[0], ()) if len(row) == 1 else () for own, row in zip(self.objects, rows, strict=True)
        ]
        object.__setattr__(self, "boxes", boxes)

    @staticmethod
    def truth_of(truths: Sequence[Sequence[int]]) -> Tensor | None:
        """The true labels of each image as a tensor ``(N,)``, or ``(N, T)`` if an image has several, padded with ``NO_LABEL``. None if no
        label is known.

        >>> (
        ...     Subjects.truth_of([[3], []]),
        ...     Subjects.truth_of([[3], [4, 5]]).tolist(),
        ...     Subjects.truth_of([[], []]),
        ... )
        (tensor([ 3, -1]), [[3, -1], [4, 5]], None)
        """
        if not any(map(len, truths)):
            return None
        table = torch.from_numpy(label_array(truths))
        return table[:, 0] if table.shape[1] == 1 else table

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, places: slice | list[int]) -> Subjects:
        """A part of the images with what is known of them: a slice, or the images with these indices, in this order."""
        which = range(len(self))[places] if isinstance(places, slice) else places
        return replace(
            self,
            images=self.images[places],
            labels=self.labels[places],
            truth=None if self.truth is None else self.truth[places],
            boxes=[self.boxes[i] for i in which] if len(self.boxes) else (),
            objects=[self.objects[i] for i in which] if len(self.objects) else (),
            names=[self.names[i] for i in which] if len(self.names) else (),
            f=None if self.f is None else self.f[places],
            maps={method: maps[places] for method, maps in self.maps.items()},
        )


def as_subjects(
    images: ImagesLike,
    classifier: Classifier,
    rule: LabelRule,
    *,
    seed: int = 0,
    names: Sequence[str] | None = None,
    truth: Truth | None = None,
    boxes: Sequence[Sequence[Box]] = (),
    objects: Sequence[Mapping[int | str, Sequence[Box]]] = (),
    block_size: int = 32,
    first: int = 0,
) -> Iterator[Subjects]:
    """Check everything that a person hands over, and yield it in blocks with the labels that ``rule`` chooses.

    Images in memory are one block, a copy of what was given. Of a dataset, one block of ``block_size`` images is in memory at a time. The
    arguments are those of :func:`proofmap.evaluate`. Images without names are numbered from ``first`` on.
    """
    inputs, outputs = classifier.inputs, classifier.names
    if is_in_memory(images, inputs):
        given = images_as_tensor(images, inputs)
        if len(given) == 0:
            raise InputError(f"there are no {inputs.noun} to evaluate on")
        inputs.check_given(given)
        rows = None if truth is None else label_rows(truth, outputs, len(given), inputs.singular, of=images)
        names = NamedImages.names_of(given) if names is None else names
        names = [f"{inputs.singular}-{first + i}" for i in range(len(given))] if names is None else names
        if len(names) != len(given):
            raise InputError(f"{len(names)} names were given for {counted(len(given), inputs.singular)}")
        copied = private_copy(classifier.check_images(given))
        yield _checked(copied, distinct_names(list(names)), rows, boxes, objects, classifier, rule, seed)
        return
    if boxes or objects:
        raise InputError("boxes and objects are for images in memory; a dataset has its own")
    data = as_dataset(images, inputs, names, truth, outputs=outputs)
    rule.check_rows(len(data), inputs.singular)
    for block in load_blocks(data, classifier, block_size=block_size):
        if block.failures:
            name, reason = next(iter(block.failures.items()))
            raise InputError(reason if name in reason else f"{name}: {reason}")
        truths = true_outputs(data, outputs, block.indices)
        around = block.objects if any(block.objects) else ()
        chosen, part = [data.names[i] for i in block.indices], rule.part(block.indices)
        yield replace(_checked(block.images, chosen, truths, (), around, classifier, part, seed), source=data)


def _checked(
    images: Tensor,
    names: Sequence[str],
    truths: Sequence[Sequence[int]] | None,
    boxes: Sequence[Sequence[Box]],
    objects: Sequence[Mapping[Any, Sequence[Box]]],
    classifier: Classifier,
    rule: LabelRule,
    seed: int,
) -> Subjects:
    """The images with their labels, and with boxes as plain numbers."""
    inputs = classifier.inputs
    truth = None if truths is None else Subjects.truth_of(truths)
    for given, what in (
        (boxes, f"{len(boxes)} lists of boxes"),
        (objects, f"objects of {len(objects)} images"),
    ):
        if len(given) not in (0, len(names)):
            raise InputError(f"{what} were given for {len(names)} images")
    for name, own, several in zip(names, boxes, truths or (), strict=False):
        if len(own) and len(several) > 1:
            raise InputError(
                f"boxes has boxes for {name!r}, which has several true labels; give the boxes of each label in objects"
            )
    f = classifier.frozen().probabilities(images)
    labels = rule.choose(f, classifier.label_set, truth, names, images, seed, inputs.singular)
    return Subjects(
        images,
        labels,
        truth,
        [inputs.checked_boxes(own, name) for own, name in zip(boxes, names, strict=False)],
        [
            {
                label_index(a, classifier.names): inputs.checked_boxes(around, name)
                for a, around in own.items()
            }
            for own, name in zip(objects, names, strict=False)
        ],
        rule,
        names,
        f.gather(1, labels.clamp_min(0)).masked_fill(labels == NO_LABEL, torch.nan),
    )
