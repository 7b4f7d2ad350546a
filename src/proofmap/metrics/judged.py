"""The input of a metric: one method's maps on some images, and everything that the metric can ask about them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from copy import copy as shallow_copy
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.classifier.kernels import steady_kernels
from proofmap.core import streams
from proofmap.core.batching import in_batches
from proofmap.core.errors import InputError
from proofmap.core.inputs import Box, Inputs
from proofmap.core.labels import NO_LABEL, check_labels
from proofmap.core.progress import Progress
from proofmap.core.ranking import as_maps, in_float32
from proofmap.core.tensors import private_copy
from proofmap.methods.method import Method
from proofmap.metrics.curves import Curves
from proofmap.metrics.games import Game
from proofmap.session import Session

_VALUES_AT_ONCE = 2**22  # of maps that are ranked together
Order = Callable[[Tensor, Tensor], Tensor]
"""A function from maps ``(P, *positions)`` and stream keys ``(P,)`` to ranks ``(P, n)``."""


class DistinctMaps:
    """The U distinct maps among maps ``(N, L, *positions)`` of labels ``(N, L)``; maps of different images are distinct.

    ``map_of`` ``(N, L)`` is the index of each label's map among the distinct maps. ``image_of`` ``(U,)`` is the index of each distinct
    map's image, in ascending order, and ``images_in_order`` the same as a list.
    """

    def __init__(self, maps: Tensor, labels: Tensor) -> None:
        distinct, map_of = _distinct(maps, labels)
        self.images_in_order = [place // labels.shape[1] for place in distinct]
        self.image_of = torch.tensor(self.images_in_order, dtype=torch.long, device=maps.device)
        self.map_of = torch.tensor(map_of, device=maps.device)
        self._flat = maps.flatten(0, 1)
        self._places = torch.tensor(distinct, dtype=torch.long, device=maps.device)
        self._ranks: tuple[Hashable, Tensor] | None = None

    def ranks(self, key: Hashable, order: Order, keys: Tensor) -> Tensor:
        """The ranks ``(U, n)`` of positions by ``order``, with the stream keys ``(N,)`` of the images. Those of the last ``key`` are kept."""
        if self._ranks is None or self._ranks[0] != key:
            self._ranks = None  # there is room for one
            each = (t.split(_at_once(self._flat)) for t in (self._places, keys[self.image_of]))
            ranks = [order(self._flat[places], own).clone() for places, own in zip(*each, strict=True)]
            self._ranks = key, torch.cat(ranks)
        return self._ranks[1]


def given_pairs(maps: Any, labels: Any, inputs: Inputs) -> tuple[Tensor, Tensor]:
    """Maps ``(N, L, *positions)`` and labels ``(N, L)`` as tensors, from tensors or arrays. One label for each image may be given as ``(N,)``,
    with maps ``(N, *positions)``.
    """
    maps = as_maps(maps, "maps must be given")
    if not isinstance(labels, Tensor):
        try:
            labels = torch.as_tensor(labels)
        except (TypeError, ValueError, RuntimeError):
            raise InputError(
                f"labels must be integers (N, L), or (N,) for one label for each {inputs.singular}, as a tensor or an array; "
                "classifier.choose_labels(images, labels) makes them from names or a rule"
            ) from None
    if labels.ndim == 1:
        labels = labels[:, None]
        maps = maps[:, None] if maps.ndim == 1 + len(inputs.positions) else maps
    return in_float32(maps), labels


def checked_maps(maps: Tensor, labels: Tensor, inputs: Inputs) -> Tensor:
    """The maps, after their shape is checked and that they contain no NaN. Maps of entries without a label may contain anything."""
    expected = (*labels.shape, *inputs.positions)
    if tuple(maps.shape) != expected:
        raise InputError(f"maps must be (N, L, positions) = {expected}, got {tuple(maps.shape)}")
    bad = maps.flatten(2).isnan().any(dim=2) & (labels != NO_LABEL)
    if bool(bad.any()):
        i, j = bad.nonzero()[0].tolist()
        raise InputError(
            f"the map of {inputs.singular} {i}, label {int(labels[i, j])} contains NaN; check the method"
        )
    return maps


def _distinct(maps: Tensor, labels: Tensor) -> tuple[list[int], list[list[int]]]:
    """The indices of the U distinct maps among all N x L maps, and for each label ``(N, L)`` the index of its map among the U maps."""
    flat, (n_images, n_labels) = maps.flatten(0, 1), labels.shape
    chosen, signatures = (labels != NO_LABEL).tolist(), _signatures(flat)
    distinct: list[int] = []
    map_of = [[0] * n_labels for _ in range(n_images)]
    for i in range(n_images):
        first_of: dict[int, int] = {}  # signature -> slot of the first map that has it
        for j in range(n_labels):
            place = i * n_labels + j
            slot = first_of.get(signatures[place])
            if not chosen[i][j]:
                map_of[i][j] = map_of[i][0]
            elif slot is not None and torch.equal(flat[distinct[slot]], flat[place]):
                map_of[i][j] = slot
            else:
                map_of[i][j] = first_of[signatures[place]] = len(distinct)
                distinct.append(place)
    return distinct, map_of


def _signatures(maps: Tensor) -> list[int]:
    """A 64-bit number per map. Equal maps have equal numbers; different maps almost never do."""
    odd = 2 * torch.arange(maps[0].numel(), device=maps.device) + 1
    found = [
        (some.flatten(1).float().contiguous().view(torch.int32).long() * odd).sum(dim=1)
        for some in maps.split(_at_once(maps))
    ]
    signatures: list[int] = torch.cat(found).tolist()
    return signatures


def _at_once(maps: Tensor) -> int:
    """The number of maps ``(P, *positions)`` that are ranked together: enough to fill a GPU, few enough to fit in memory."""
    return max(1, _VALUES_AT_ONCE // maps[0].numel())


_MOST_LABELS_IN_MATRIX = 64
"""The largest number of labels for which games return a label x label matrix. The matrix needs no further passes, but its memory
grows with the square of this number.
"""


@dataclass
class Judged:
    """One method's maps on a block of images, and what was measured on them so far. Equal games are played once.

    Attributes:
        session: the net, the seed and the random images; metrics that run the method again do so in it.
        images: ``(N, *shape)``.
        labels: ``(N, L)``, padded with -1 if an image has fewer labels. One label for each image may be given as ``(N,)``.
        maps: ``(N, L, *positions)``, a tensor or an array; ``(N, *positions)`` may be given for labels ``(N,)``.
        method: the method itself, to run it again: see :meth:`maps_again`. None if only its maps are known.
        truth: the true labels ``(N,)``, -1 if unknown. If an image has several: ``(N, T)``, padded with -1. None if no true label is
            known. :attr:`is_true` and :attr:`knows_truth` read both forms.
        boxes: for each image, boxes around the objects of the true label, in positions of the input; empty if unknown.
        objects: for each image, boxes around the objects of each label, also of labels that are not true; empty if unknown.
    """

    session: Session
    images: Tensor
    labels: Tensor
    maps: Tensor
    method: Method | None = None
    truth: Tensor | None = None
    boxes: Sequence[Sequence[Box]] = ()
    objects: Sequence[Mapping[int, Sequence[Box]]] = ()
    # measured on these tensors, so dataclasses.replace does not copy it: the tensors may be replaced
    _played: dict[tuple[Game, bool], Curves] = field(default_factory=dict, init=False, repr=False)
    _kept: dict[Hashable, Tensor] = field(default_factory=dict, init=False, repr=False)
    _distinct: DistinctMaps | None = field(default=None, init=False, repr=False)
    _original: Judged | None = field(default=None, init=False, repr=False)
    _first: Judged | None = field(default=None, init=False, repr=False)
    _whole: Judged | None = field(default=None, init=False, repr=False)
    """With the first label alone: the same images with all labels."""
    _frozen: tuple[Session, Classifier] | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.session, Session):
            raise InputError(
                f"Judged takes a session, not {type(self.session).__name__}: Judged(Session(net), ...)"
            )
        net, inputs = self.session.net, self.session.inputs
        maps, labels = given_pairs(self.maps, self.labels, inputs)
        self.images = net.check_images(self.images)
        self.labels = check_labels(
            labels.to(net.device), len(self.images), len(net.names), net.label_set, inputs.singular
        )
        self.maps = checked_maps(maps.to(net.device), self.labels, inputs)

    def copy(self) -> Judged:
        """A copy with its own tensors, which a metric may change. Each game is still played only once."""
        other = shallow_copy(self)
        other.images, other.labels = private_copy(self.images), private_copy(self.labels)
        other.maps = private_copy(self.maps)
        other.truth = None if self.truth is None else private_copy(self.truth)
        other.boxes, other.objects = deepcopy(self.boxes), deepcopy(self.objects)
        for computed in ("_contents", "_true_labels"):  # from tensors that may be changed
            other.__dict__.pop(computed, None)
        other._distinct, other._original = None, self._original or self
        return other

    def first_label(self) -> Judged:
        """The same images with their first label and its map alone. A game that was played for all labels is not played again."""
        whole = self._original or self
        if whole._first is None:
            whole._first = replace(whole, labels=whole.labels[:, :1], maps=whole.maps[:, :1])
            whole._first._whole = whole
        return whole._first

    @property
    def classifier(self) -> Classifier:
        """The net that judges: the frozen view of the session's net."""
        if self._frozen is None or self._frozen[0] is not self.session:
            self._frozen = self.session, self.session.net.frozen()
        return self._frozen[1]

    @property
    def inputs(self) -> Inputs:
        return self.session.inputs

    @property
    def probabilities(self) -> Tensor:
        """f(x, .) for all outputs, ``(N, A)``."""
        images = self._of_net.images
        return self._of_net.once((Judged, "probabilities"), lambda: self.classifier.probabilities(images))

    @property
    def logits(self) -> Tensor:
        """The net's output for the whole images, ``(N, A)``."""
        images = self._of_net.images
        return self._of_net.once((Judged, "logits"), lambda: self.classifier.logits(images))

    def read_from_nothing(self, game: Game, read: Callable[[], Tensor]) -> Tensor:
        """The values ``(N, A)`` that a game reads when nothing is shown. On these images, games with equal keys share them."""
        return self._of_net.once(("nothing shown", game.bare), read)

    @property
    def _of_net(self) -> Judged:
        """Where to keep what the net says about the images, whatever the labels and maps."""
        original = self._original or self
        return original._whole or original

    @property
    def f(self) -> Tensor:
        """f(x, a) for the labels, ``(N, L)``; NaN where a row has no label."""
        believed = self.probabilities.gather(1, self.labels.clamp_min(0))
        return believed.masked_fill(self.labels == NO_LABEL, torch.nan)

    @property
    def top2(self) -> tuple[Tensor, Tensor]:
        """The two most probable labels of the label set ``(N, 2)`` and their probabilities ``(N, 2)``."""
        members = torch.tensor(self.classifier.label_set, device=self.probabilities.device)
        order = self.probabilities[:, members].argsort(dim=1, descending=True, stable=True)[:, :2]
        labels = members[order]
        f = self.probabilities.gather(1, labels)
        if labels.shape[1] < 2:  # a label set of one: there is no second label
            labels, f = labels.expand(-1, 2), torch.cat([f, torch.zeros_like(f)], dim=1)
        return labels, f

    def play(self, game: Game, *, matrix: bool | None = None) -> Curves:
        """The game's curves; equal games are played once for all metrics. ``matrix``: whether to return the label x label matrix; by default
        if there are at most 64 labels.
        """
        original = self._original or self
        matrix = self.labels.shape[1] <= _MOST_LABELS_IN_MATRIX if matrix is None else matrix
        if (game, matrix) not in original._played:
            self.session.judging().prepare(game)
            of_all = {} if original._whole is None else original._whole._played
            known = next((of_all[game, m] for m in (True, matrix) if (game, m) in of_all), None)
            original._played[game, matrix] = (
                Curves.played(original, game, matrix=matrix) if known is None else known.first_label()
            )
        return original._played[game, matrix].mapped(Tensor.clone)

    @property
    def distinct(self) -> DistinctMaps:
        """The distinct maps, which all games share."""
        # not a cached_property: until Python 3.12 these hold a lock, and inputs of other lengths wait for the same net
        if self._distinct is None:
            self._distinct = DistinctMaps(self.maps, self.labels)
        return self._distinct

    def ranks(self, game: Game) -> Tensor:
        """The ranks ``(U, n)`` of positions in a game, for the distinct maps."""
        usual = type(game).order is Game.order
        keys = self.keys(("ties",), drawn=game.ties == "random" or not usual)[:, 0]
        return self.distinct.ranks(game.ties if usual else game, game.order, keys)

    def keys(self, *purposes: tuple[object, ...], drawn: bool = True) -> Tensor:
        """Stream keys ``(N, P)`` of the images for each purpose; zeros if nothing is drawn from them."""
        if not drawn:
            shape = (len(self.images), len(purposes))
            return torch.zeros(shape, dtype=torch.int64, device=self.images.device)
        seed = self.session.seed
        each = (streams.image_keys(self.images, seed, *p, contents=self._contents) for p in purposes)
        return torch.stack(list(each), dim=1)

    @cached_property
    def _contents(self) -> list[bytes]:
        return streams.content_keys(self.images)

    def places(self, image: int, label: int) -> Sequence[Box]:
        """The boxes of objects with this label in this image; empty if unknown."""
        if self.objects and label in self.objects[image]:
            return self.objects[image][label]
        true = label != NO_LABEL and label in self._true_labels[image]
        return self.boxes[image] if true and len(self.boxes) else ()

    @cached_property
    def _true_labels(self) -> list[list[int]]:
        return [[]] * len(self.images) if self.truth is None else self._truth_rows.tolist()

    @property
    def _truth_rows(self) -> Tensor:
        """The true labels as ``(N, T)``, from either form of ``truth``; -1 if unknown."""
        rows = self.labels.new_full((len(self.labels), 1), NO_LABEL) if self.truth is None else self.truth
        return rows.reshape(len(self.labels), -1)

    @property
    def is_true(self) -> Tensor:
        """Which of the labels are true, ``(N, L)``."""
        same = self.labels[:, :, None] == self._truth_rows[:, None, :]
        return same.any(dim=2) & (self.labels != NO_LABEL)

    @property
    def knows_truth(self) -> Tensor:
        """For which images a true label is known, ``(N,)``."""
        return (self._truth_rows != NO_LABEL).any(dim=1)

    def f_of(self, made: Tensor, image: Tensor, place: Tensor) -> Tensor:
        """f(z, a) ``(B,)`` for one batch of inputs z ``(B, *shape)``. The label a of each is given by the index of an image and the
        index in its row of labels, both ``(B,)``."""
        f = self.classifier.log_f(self.classifier(made)).exp()
        return f.gather(1, self.labels[image, place][:, None])[:, 0]

    @torch.no_grad()
    def over_pairs(
        self, value: Callable[[Tensor, Tensor, Tensor], Tensor], each: int = 1, title: str = ""
    ) -> Tensor:
        """Values ``(N, L, each)`` of ``each`` samples of every (image, label) pair; NaN where a row has no label.

        ``value`` returns the values ``(B,)`` of a batch for the indices of images, of labels and of samples, each ``(B,)``. One value takes
        one pass. With a ``title``, progress is reported.
        """
        image, place = (self.labels != NO_LABEL).nonzero(as_tuple=True)
        found = torch.full((*self.labels.shape, each), torch.nan, device=self.images.device)
        progress = self.session.progress if title else Progress()
        with steady_kernels(tf32=False), progress.task(title, len(image) * each) as task:

            def run(start: int, stop: int) -> None:
                job = torch.arange(start, stop, device=image.device)
                i, j, sample = image[job // each], place[job // each], job % each
                found[i, j, sample] = value(i, j, sample).to(found.dtype)
                task.advance(stop - start)

            in_batches(run, len(image) * each, self.classifier.batches[0], item="modified image")
        return found

    def once(self, key: Hashable, make: Callable[[], Tensor]) -> Tensor:
        """The result of ``make()``. It is computed once per key (such as the metric itself) for these maps."""
        kept = (self._original or self)._kept
        if key not in kept:
            kept[key] = make()
        return private_copy(kept[key])

    def maps_again(
        self,
        images: Tensor | None = None,
        labels: Tensor | None = None,
        *,
        session: Session | None = None,
        seed: int | None = None,
    ) -> Tensor:
        """The method's maps ``(N, L, *positions)`` for other images, other labels, another seed, or in the session of another net.

        A metric that calls this states the cost in :meth:`~proofmap.metrics.metric.Metric.cost`.
        """
        images = self.images if images is None else images
        labels = self.labels if labels is None else labels
        session = (session or self.session).like(shared=frozenset())
        session.seed = session.seed if seed is None else seed
        return session.maps(self.known_method, images, labels)

    @property
    def known_method(self) -> Method:
        """The method; raises if only its maps are known."""
        if self.method is None:
            raise InputError("this metric runs the method again, but only its maps are known here")
        return self.method
