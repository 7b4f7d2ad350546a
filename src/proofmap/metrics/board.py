"""The maps on which games are played, and the results that games on the same maps share. A game shows or hides the positions of an
input in the order of a map, and reads the net's output.

Equal maps of one image are ranked and scored once. Games with the same order of positions share the ranking. All games share the
net's output for the whole images. Games with the same fill share its output for the fill alone.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core import streams
from proofmap.core.errors import InputError
from proofmap.core.inputs import Inputs
from proofmap.core.labels import NO_LABEL, check_labels
from proofmap.core.ranking import as_maps, in_float32
from proofmap.metrics.games import Game

_VALUES_AT_ONCE = 2**22  # of maps that are ranked together


class GameBoard:
    """Images ``(N, *shape)``, their labels ``(N, L)`` and a map of each label ``(N, L, *positions)``. All are checked, and moved to the
    classifier's device.

    Equal maps are played once. ``map_of`` ``(N, L)`` is the index of each label's map among the U distinct maps. ``image_of`` ``(U,)`` is the
    index of each distinct map's image, in ascending order.
    """

    def __init__(
        self, classifier: Classifier, images: Tensor, maps: Tensor, labels: Tensor, *, seed: int = 0
    ) -> None:
        self.classifier, self.seed = classifier, seed
        self.images = classifier.check_images(images)
        self.labels = check_labels(
            labels.to(classifier.device),
            len(images),
            len(classifier.names),
            classifier.label_set,
            classifier.inputs.singular,
        )
        self.maps = _checked(maps.to(classifier.device), self.labels, classifier.inputs)
        distinct, map_of = _distinct(self.maps, self.labels)
        n_labels = self.labels.shape[1]
        self.images_in_order = [place // n_labels for place in distinct]  # as image_of
        self._places = torch.tensor(distinct, dtype=torch.long, device=self.maps.device)
        self.image_of = self._places // n_labels
        self.map_of = torch.tensor(map_of, device=self.maps.device)
        self._ranks: tuple[Hashable, Tensor] | None = None
        self._kept: dict[Hashable, Tensor] = {}

    def ranks(self, game: Game) -> Tensor:
        """The ranks ``(U, n)`` of positions in a game, for the distinct maps. The last ranking is cached."""
        usual = type(game).order is Game.order
        order: Hashable = game.ties if usual else game
        if self._ranks is None or self._ranks[0] != order:
            self._ranks = None  # there is room for one
            keys = self.keys(("ties",), drawn=game.ties == "random" or not usual)[self.image_of, 0]
            flat = self.maps.flatten(0, 1)
            each = (t.split(_at_once(flat)) for t in (self._places, keys))
            ranks = [game.order(flat[places], own).clone() for places, own in zip(*each, strict=True)]
            self._ranks = order, torch.cat(ranks)
        return self._ranks[1]

    def keys(self, *purposes: tuple[object, ...], drawn: bool) -> Tensor:
        """Stream keys ``(N, P)`` of the images for each purpose; zeros if nothing is drawn from them."""
        if not drawn:
            shape = (len(self.images), len(purposes))
            return torch.zeros(shape, dtype=torch.int64, device=self.images.device)
        each = (streams.image_keys(self.images, self.seed, *p, contents=self._contents) for p in purposes)
        return torch.stack(list(each), dim=1)

    @cached_property
    def _contents(self) -> list[bytes]:
        return streams.content_keys(self.images)

    @property
    def logits(self) -> Tensor:
        """The net's output for the whole images, ``(N, A)``."""
        # not a cached_property: until Python 3.12 these hold a lock, and inputs of other lengths wait for the same net
        return self.once("logits", lambda: self.classifier.logits(self.images))

    def once(self, key: Hashable, make: Callable[[], Tensor]) -> Tensor:
        """The result of ``make()``, computed once per key for these images."""
        if key not in self._kept:
            self._kept[key] = make()
        return self._kept[key]


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


def _checked(maps: Tensor, labels: Tensor, inputs: Inputs) -> Tensor:
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
