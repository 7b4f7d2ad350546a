"""Distinct maps: equal maps of one image are ranked and scored once."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import torch
from torch import Tensor

from proofmap.core.errors import InputError
from proofmap.core.inputs import Inputs
from proofmap.core.labels import NO_LABEL
from proofmap.core.ranking import as_maps, in_float32

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
