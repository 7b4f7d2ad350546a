"""Rules that choose the labels to explain, such as ``top5`` or ``p>=0.01``, from the probabilities of N images. The chosen labels are output
indices ``(N, L)``.

``top5+wrong`` adds two labels that the net does not believe, to test soundness. Both are drawn at random from the u labels of the
label set that are not among the top ones and have f < .01, sorted by falling probability. The draw depends only on the image's
content and the seed:

    near   one of the first min(10, ceil(u / 2)), with equal probability: the next labels that the net would give
    far    one of the last floor(u / 2)

An image with u = 1 has no far label, and one with u = 0 has no wrong label.
"""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from proofmap.core.deferred import Tensor, torch
from proofmap.core.errors import InputError
from proofmap.core.ranges import range_of
from proofmap.core.text import counted, shortened

__all__ = ["NO_LABEL", "LabelRule", "Labels"]

NO_LABEL = -1
"""Padding for the row of an image that has fewer labels than another image of the batch."""


UNBELIEVED = 0.01
"""A label with a smaller probability counts as not believed by the net. This is the paper's threshold e1, below which no proof is needed."""
WRONG = 2
"""How many wrong labels ``+wrong`` adds to an image."""
_NEAREST = 10

_TOP = re.compile(r"top-?(\d+)(\+wrong)?$")
_PROBABLE = re.compile(r"p\s*>=?\s*([0-9.eE+-]+)$")

Labels = str | int | Sequence[int | str] | Sequence[Sequence[int | str]] | Tensor | np.ndarray
"""The forms of ``labels``; see :meth:`LabelRule.parse`."""


@dataclass(frozen=True)
class LabelRule:
    """A rule that chooses labels: ``all``, ``top5``, ``top5+wrong``, ``p>=0.01``, ``true``, a list for every image, or the labels of each
    image.

    >>> f = torch.tensor([[0.7, 0.2, 0.1], [0.3, 0.3, 0.4]])
    >>> LabelRule.parse("top2", "abc").choose(f, range(3))
    tensor([[0, 1],
            [2, 0]])
    >>> LabelRule.parse("p>=0.15", "abc").choose(f, range(3))
    tensor([[ 0,  1, -1],
            [ 2,  0,  1]])
    """

    kind: Literal["all", "top", "probable", "true", "list", "given"]
    number: float = 0.0
    indices: tuple[int, ...] = ()
    rows: tuple[tuple[int, ...], ...] = ()
    wrong: bool = False
    """Whether two labels that the net does not believe follow the top ones."""

    @classmethod
    def parse(cls, rule: Any, names: Sequence[str], item: str = "image") -> LabelRule:
        """The rule for any form of ``labels``. Messages call an input ``item``.

        - A text: ``all``, ``top5``, ``top5+wrong`` (and two labels that the net does not believe), ``p>=0.01``, ``true`` (the true labels
          of each image), or names or indices separated by commas.
        - One label, or a list of labels, by index or name: these labels for every image. ``["true"]`` is a label named "true".
        - A list of lists: the labels of each image.
        - A tensor or array, as Captum reads ``target``: one number is the label of every image, ``(N,)`` has one label per image,
          ``(N, L)`` has the labels of each image, padded with -1.

        So a list ``[0, 1]`` means two labels for every image, and ``torch.tensor([0, 1])`` one label for each of two images.

        >>> f = torch.full((2, 3), 1 / 3)
        >>> [
        ...     LabelRule.parse(given, "abc").choose(f, range(3)).tolist()
        ...     for given in (2, [0, 2], torch.tensor([0, 2]))
        ... ]
        [[[2], [2]], [[0, 2], [0, 2]], [[0], [2]]]
        """
        if isinstance(rule, str):
            return cls._parse_text(rule, names)
        if isinstance(rule, int) or getattr(rule, "ndim", None) == 0:
            return cls("list", indices=(label_index(rule, names),))
        if isinstance(rule, torch.Tensor) or hasattr(rule, "__array__"):
            array = rule.detach().cpu().numpy() if isinstance(rule, torch.Tensor) else np.asarray(rule)
            if array.ndim > 2 or array.size == 0:
                raise InputError(
                    f"labels has the shape {tuple(array.shape)}; give one label per {item} (N,), or the labels of each {item} "
                    "(N, L)"
                )
            rule = array.tolist()
            if array.ndim == 1 and len(rule) > 1:
                rule = [[label_index(a, names)] for a in rule]
        if not isinstance(rule, Sequence):
            raise InputError(
                f"labels must be a rule such as 'top5', a label, a list of labels, or a tensor (N, L), not a {type(rule).__name__}"
            )
        if rule and all(_is_list(entry) for entry in rule):
            return cls("given", rows=tuple(_row(row, names, i, item) for i, row in enumerate(rule)))
        if not len(rule):
            raise InputError("labels is an empty list; name at least one label, or use 'top5'")
        return cls("list", indices=_each_once([label_index(a, names) for a in rule], names))

    @classmethod
    def _parse_text(cls, rule: str, names: Sequence[str]) -> LabelRule:
        text = rule.strip()
        if text in ("all", "true"):
            return cls(text)  # type: ignore[arg-type]
        if (match := _TOP.match(text)) and int(match[1]) > 0:
            return cls("top", number=int(match[1]), wrong=match[2] is not None)
        if match or text.endswith("+wrong"):
            raise InputError(
                f"labels {rule!r}: ask for top labels, at least one, as in 'top1' or 'top5+wrong'"
            )
        if match := _PROBABLE.match(text):
            try:
                threshold = float(match[1])
            except ValueError:
                threshold = -1.0
            if not 0 <= threshold <= 1:
                raise InputError(f"labels {rule!r}: the threshold must be a probability between 0 and 1")
            return cls("probable", number=threshold)
        try:
            return cls.parse([text], names)
        except InputError:
            if "," not in text:
                raise
        return cls.parse([part.strip() for part in text.split(",") if part.strip()], names)

    def choose(
        self,
        probabilities: Tensor,
        label_set: Sequence[int],
        truth: Tensor | None = None,
        image_names: Sequence[str] = (),
        images: Tensor | None = None,
        seed: int = 0,
        item: str = "image",
    ) -> Tensor:
        """The chosen labels ``(N, L)`` of N images with probabilities ``(N, A)`` for A outputs, most probable first. Labels from a list,
        and true labels, keep their order.

        Every image has at least one label; rows are padded with ``NO_LABEL``. The rule ``true`` needs ``truth``, the true labels
        ``(N,)`` or ``(N, T)`` of every image. Rules with ``+wrong`` draw labels by the content of the ``images`` ``(N, ...)`` and the ``seed``.
        """
        if self.kind == "true":
            return self._true_rows(truth, image_names, item).choose(probabilities, label_set, item=item)
        members = torch.tensor(list(label_set), device=probabilities.device)
        if self.kind == "given":
            self.check_rows(len(probabilities), item)
            rows = torch.from_numpy(label_array(self.rows)).to(probabilities.device)
            return check_labels(rows, len(rows), probabilities.shape[1], label_set, item)
        if self.kind == "list":
            outside = [a for a in self.indices if a not in set(label_set)]
            if outside:
                raise InputError(f"label {outside[0]} is not in the classifier's label set")
            row = torch.tensor(self.indices, device=probabilities.device)
            return row.expand(len(probabilities), -1).clone()
        f = probabilities[:, members]
        order = f.argsort(dim=1, descending=True, stable=True)
        labels = members[order]
        if self.kind == "all":
            return labels
        if self.kind == "top":
            top = labels[:, : int(self.number)]
            return top if not self.wrong else self._with_wrong(top, labels, f.gather(1, order), images, seed)
        chosen = f.gather(1, order) >= self.number
        chosen[:, 0] = True
        return labels.masked_fill(~chosen, NO_LABEL)[:, : max(1, int(chosen.sum(dim=1).max()))]

    def part(self, places: Sequence[int]) -> LabelRule:
        """The rule for some of the images."""
        return replace(self, rows=tuple(self.rows[i] for i in places)) if self.kind == "given" else self

    @staticmethod
    def _with_wrong(top: Tensor, labels: Tensor, f: Tensor, images: Tensor | None, seed: int) -> Tensor:
        """The top labels and two wrong ones, drawn from ``labels`` ``(N, A)``, which are sorted by falling probability ``f``."""
        assert images is not None, "their content draws the labels"
        first = (f >= UNBELIEVED).sum(dim=1).clamp_min(top.shape[1])
        n = labels.shape[1] - first
        near, far = (n + 1) // 2, n // 2
        from proofmap.core import streams

        drawn = streams.uniform(streams.image_keys(images, seed, "wrong labels"), WRONG).cpu().double()
        places = [
            first + (drawn[:, 0] * near.cpu().clamp_max(_NEAREST)).long().to(f.device),
            first + near + (drawn[:, 1] * far.cpu()).long().to(f.device),
        ]
        found = [
            labels.gather(1, place.clamp_max(labels.shape[1] - 1)[:, None]).masked_fill(
                (size == 0)[:, None], NO_LABEL
            )
            for place, size in zip(places, (near, far), strict=True)
        ]
        whole = torch.cat([top, *found], dim=1)
        return whole[:, : int((whole != NO_LABEL).sum(dim=1).max())]

    @staticmethod
    def _true_rows(truth: Tensor | None, image_names: Sequence[str], item: str) -> LabelRule:
        if truth is None:
            raise InputError(
                f"labels 'true' judges the true labels of each {item}, but none are known here: in Python pass truth=, on the command line "
                "use evaluate with a dataset that has labels"
            )
        rows = [tuple(a for a in row if a != NO_LABEL) for row in truth.reshape(len(truth), -1).tolist()]
        unknown = [image_names[i] if image_names else str(i) for i, row in enumerate(rows) if not row]
        if unknown:
            raise InputError(
                f"labels 'true' judges the true labels of each {item}, but none is known for {counted(len(unknown), item)}, "
                f"{unknown[0]!r} first; leave them out, or give their true labels"
            )
        return LabelRule("given", rows=tuple(rows))

    def check_rows(self, n_images: int, item: str = "image") -> None:
        """Refuse labels of each image if there are not as many images."""
        if self.kind == "given" and len(self.rows) != n_images:
            alone = [row[0] for row in self.rows if len(row) == 1]
            hint = (
                f" For the same labels on every {item} pass a list: {alone}."
                if len(alone) == len(self.rows) < 10
                else ""
            )
            raise InputError(
                f"labels has {counted(len(self.rows), 'row')} for {counted(n_images, item)}; a tensor, an array or a list of "
                f"lists has one row of labels for each {item}.{hint}"
            )

    def __str__(self) -> str:
        if self.kind == "given":
            return "given"
        if self.kind == "top":
            return f"top{int(self.number)}{'+wrong' if self.wrong else ''}"
        if self.kind == "probable":
            return f"p>={self.number}"
        return self.kind if self.kind in ("all", "true") else ",".join(map(str, self.indices))

    @staticmethod
    def is_by_probability(rule: str) -> bool:
        """Whether a rule, as text, orders labels by their probability.

        >>> [
        ...     LabelRule.is_by_probability(rule)
        ...     for rule in ("all", "top5+wrong", "p>=0.01", "tabby,topaz", "given", "true")
        ... ]
        [True, True, True, False, False, False]
        """
        text = rule.strip()
        return text == "all" or any(form.match(text) for form in (_TOP, _PROBABLE))

    @staticmethod
    def first_wrong(rule: str) -> int | None:
        """The index, in an image's row of labels, of the first wrong label that ``rule`` adds; None if the rule adds no wrong labels. The
        second wrong label follows the first.

        >>> LabelRule.first_wrong("top3+wrong"), LabelRule.first_wrong("top3")
        (3, None)
        """
        found = _TOP.match(rule.strip())
        return int(found[1]) if found and found[2] else None


def _is_list(entry: object) -> bool:
    return isinstance(entry, (list, tuple)) or getattr(entry, "ndim", 0) == 1


def _row(labels: Any, names: Sequence[str], image: int, item: str) -> tuple[int, ...]:
    """The label indices of one image. Entries of -1 are padding and are kept."""
    given = labels.tolist() if hasattr(labels, "tolist") else labels
    row = [a if isinstance(a, int) and a == NO_LABEL else label_index(a, names) for a in given]
    if all(a == NO_LABEL for a in row):
        raise InputError(f"labels has no label for {item} {image}; give each {item} one at least")
    _each_once([a for a in row if a != NO_LABEL], names)
    return tuple(row)


def _each_once(indices: Sequence[int], names: Sequence[str]) -> tuple[int, ...]:
    """The labels as a tuple. A repeated label is refused, because it would count twice."""
    doubled = next((a for a, count in Counter(indices).items() if count > 1), None)
    if doubled is not None:
        name = "" if names[doubled] == str(doubled) else f" ({shortened(names[doubled], 30)})"
        raise InputError(f"label {doubled}{name} is given more than once in labels; give each label once")
    return tuple(indices)


def label_array(labels: Sequence[Sequence[int]]) -> NDArray[np.int64]:
    """Lists of labels as one table ``(N, L)``, padded with ``NO_LABEL``.

    >>> label_array([[3], [4, 5]]).tolist()
    [[3, -1], [4, 5]]
    """
    widest = max(map(len, labels))
    return np.array([[*row, *[NO_LABEL] * (widest - len(row))] for row in labels], dtype=np.int64)


def check_labels(
    labels: Tensor,
    n_images: int,
    n_outputs: int,
    label_set: Sequence[int] | None = None,
    item: str = "image",
) -> Tensor:
    """The labels as an int64 tensor; raises an InputError if shape, type or values are wrong."""
    shape = tuple(labels.shape)
    if labels.ndim != 2 or shape[0] != n_images or shape[1] < 1 or labels.is_floating_point():
        raise InputError(f"labels must be integers (N, L) with N = {n_images}, got {labels.dtype} {shape}")
    labels = labels.long()
    if not len(labels):
        raise InputError(f"there is no {item} to judge")
    low, high = int(labels.min()), int(labels.max())
    if low < NO_LABEL or high >= n_outputs:
        raise InputError(
            f"labels must lie in 0 .. {n_outputs - 1} (or {NO_LABEL} for none), got {low} .. {high}"
        )
    if bool((labels[:, 0] == NO_LABEL).any()):
        raise InputError(f"every {item} needs a label in the first column")
    if label_set is not None and len(label_set) < n_outputs:
        members = torch.tensor([NO_LABEL, *label_set], device=labels.device)
        outside = labels[~torch.isin(labels, members)]
        if len(outside):
            raise InputError(f"label {int(outside[0])} is not in the classifier's label set")
    return labels


# ---- names of labels --------------------------------------------------------------------------------------------

_LONGEST_NAME = 200
"""Maximum length of an unknown name for which similar names are searched. The search takes time."""


def label_index(label: Any, names: Sequence[str]) -> int:
    """The output index of a label given by index or by name (case and ``_`` do not matter).

    >>> label_index("Tiger cat", ["tabby", "tiger cat"]), label_index(0, ["tabby", "tiger cat"])
    (1, 0)
    """
    if getattr(label, "ndim", None) == 0:
        label = label.item()  # a number of NumPy or a tensor without dimensions
    if isinstance(label, float) and (place := range_of(label, names)) is not None:
        return place
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
            hint = (
                ""
                if range_of(index, names) is None
                else f"; as a number in a range, write it as a float, {index}.0"
            )
            raise InputError(
                f"label {index} is out of range: the net has outputs 0 to {len(names) - 1}{hint}"
            )
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
    raise InputError(f"no label is named {shortened(text[: _LONGEST_NAME + 1], 100)!r}. {hint}")


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
    if not text or len(text) > _LONGEST_NAME:
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
