"""Methods made from functions of the user: ``(classifier, images, labels) -> maps``."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core.errors import InputError
from proofmap.core.inputs import Inputs
from proofmap.core.labels import NO_LABEL
from proofmap.core.ranking import as_maps
from proofmap.core.tensors import private_copy
from proofmap.core.text import shortened
from proofmap.methods.grids import interpolated
from proofmap.methods.method import ADOPTED, Method
from proofmap.plugins.failures import check_call
from proofmap.plugins.identity import identity
from proofmap.plugins.settings import required, setting
from proofmap.session import Session

MapFunction = Callable[[Classifier, Tensor, Tensor], Any]


def given_maps(found: Any, inputs: Inputs, who: str) -> Tensor:
    """Maps ``(N, L, *positions)``, from what a function returned. Error messages call this function ``who``.

    Maps ``(N, L, *grid)`` on a coarser grid are enlarged linearly along each axis (bilinearly for pictures, trilinearly for volumes, ``align_corners=False``), like
    class activation maps. Maps of any other shape are returned unchanged, and the caller refuses them.

    >>> from proofmap.core.inputs import Pictures
    >>> given_maps(torch.tensor([[[[0, 4]]]]), Pictures(size=(1, 4)), "mine").tolist()
    [[[[0.0, 1.0, 3.0, 4.0]]]]
    """
    maps = as_maps(found, f"{who} must return maps")
    positions = inputs.positions
    grid = tuple(maps.shape[2:])
    coarser = len(grid) == len(positions) and all(
        0 < few <= many for few, many in zip(grid, positions, strict=True)
    )
    if not coarser or grid == positions or not inputs.has_neighbours:
        return maps
    return interpolated(maps, positions)


class FromFunction(Method):
    """Any function ``(classifier, images (N, *shape), labels (N, L)) -> maps (N, L, *positions)`` as a method.

    With ``per_label`` the function is called once for each column of labels, with one label ``(N,)`` per image, and returns ``(N,
    *positions)``; :func:`per_label` sets this. By default, a function whose third parameter is named ``label`` or ``target`` is called per
    label, and every other function once. If all labels of the net are judged, as with ``labels="all"``, a function that is called once gets them in the
    order of the net's outputs. Maps may be NumPy arrays, and coarser than the input: see :func:`given_maps`.
    """

    name = "function"
    description = "a function of yours"
    function: MapFunction = required("function that takes a classifier, images and labels, and returns maps")
    per_label: bool | None = setting(
        None,
        "call the function for one label at a time; none: only if its third parameter is named label or target",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        name = self._title_name()
        check_call(self.function, f"the function {name}", f"{name}(classifier, images, labels)", *[None] * 3)
        if self.per_label is None:
            object.__setattr__(self, "per_label", _third_parameter(self.function) in ("label", "target"))

    def maps(self, session: Session, images: Tensor, labels: Tensor) -> Tensor:
        try:
            return self._maps(session, images, labels)
        except InputError:
            raise
        except (RuntimeError, IndexError, TypeError, ValueError) as error:  # perhaps of their shapes
            each = (
                "one label an image (N,)"
                if self.per_label
                else f"labels {tuple(labels.shape)}, a column for each"
            )
            other = "" if self.per_label else f"; for one label at a time: pm.per_label({self._title_name()})"
            error.add_note(f"it was called with images {tuple(images.shape)} and {each}{other}")
            raise

    def _maps(self, session: Session, images: Tensor, labels: Tensor) -> Tensor:
        name, positions = self._title_name(), session.inputs.positions
        who, labels = f"the function {name}", torch.where(labels == NO_LABEL, labels[:, :1], labels)
        if not self.per_label:
            asked, places = _asked(labels, session.net)
            maps = given_maps(self.function(session.net, images, asked), session.inputs, who)
            if maps.ndim == 1 + len(positions):
                raise InputError(
                    f"{who} returned maps {tuple(maps.shape)}, expected {(*labels.shape, *positions)}; if it makes maps of one "
                    f"label at a time, write pm.per_label({name})"
                )
            if maps.shape[:2] != labels.shape:
                return maps  # refused by the caller
            if places is None:
                return maps
            return maps[torch.arange(len(maps), device=maps.device)[:, None], places.to(maps.device)]
        columns = []
        for column in labels.T:
            found = as_maps(
                self.function(session.net, private_copy(images), private_copy(column)),
                f"{who} must return maps",
            )
            if found.ndim != 1 + len(positions):
                raise InputError(
                    f"{who} was called for one label at a time and returned maps {tuple(found.shape)}, expected "
                    f"{(len(images), *positions)}; if it makes maps of all labels at once, call its third parameter labels"
                )
            columns.append(found.clone())
        return given_maps(torch.stack(columns, dim=1), session.inputs, who)

    def settings(self) -> dict[str, object]:
        calls = {"per_label": True} if self.per_label else {}
        return {"method": self._title_name(), "code": identity(self.function), **calls}

    def check_labels_used(self, session: Session, images: Tensor, labels: Tensor) -> None:
        """Refuse a function that returns the same maps in the same order when the labels ``(N, L)`` are reversed, unless all labels have the same
        map. A function that is called per label or gets all labels in the order of the net's outputs is not called.

        The function is called twice with the first image that has two labels. If a call fails, nothing is refused: the same call fails again when
        the maps are made, and the message is given there.
        """
        net = session.net
        rows = ((labels != NO_LABEL).sum(dim=1) > 1).nonzero()[:1, 0].tolist()
        if self.per_label or labels.shape[1] == len(net.label_set) or not rows:
            return
        image, row = images[rows], labels[rows]
        there = row[0] != NO_LABEL
        back = row.clone()
        back[0, there] = row[0, there].flip(0)
        try:
            # a function that draws from torch's generator draws what it would without this check
            with torch.random.fork_rng(devices=[]):
                maps, again = (
                    session.maps(self, image, order)[0, there.to(net.device)] for order in (row, back)
                )
        except Exception:
            return
        if torch.equal(maps, again) and not torch.equal(maps, maps.flip(0)):
            name, first, second = self._title_name(), *(x[0, there].tolist() for x in (row, back))
            raise InputError(
                f"the function {name} does not use its labels: it returned the same maps in the same order for the labels "
                f"{shortened(str(first), 60)} and {shortened(str(second), 60)} of one {net.inputs.singular}. Each {net.inputs.singular} has "
                f"labels of its own, in an order of its own. Make maps[n, k] the map of labels[n, k]; or write a function of one label, "
                f"pm.per_label({name}); or, if its maps do not depend on the label, return one map for all labels, L times"
            )

    def _title_name(self) -> str:
        return str(getattr(self.function, "__qualname__", type(self.function).__name__))

    def changes(self) -> list[str]:
        """Empty: a function is identified by its name."""
        return []


def per_label(function: MapFunction) -> FromFunction:
    """Make a method from a function that returns the maps of one label per image, ``(classifier, images, label (N,)) -> (N, *positions)``.

    ``per_label`` can be used as a decorator.

    >>> @per_label
    ... def brightness(classifier, images, target):
    ...     return images.mean(dim=1)
    >>> brightness.title(), brightness.per_label
    ('brightness', True)
    """
    return FromFunction(function=function, per_label=True)


def _third_parameter(function: MapFunction) -> str | None:
    try:
        names = list(inspect.signature(function).parameters)
    except (TypeError, ValueError):  # some that are not written in Python have no signature
        return None
    return names[2] if len(names) > 2 else None


def _asked(labels: Tensor, classifier: Classifier) -> tuple[Tensor, Tensor | None]:
    """The labels with which a function is called, and for each of the ``labels`` ``(N, L)`` its index among them; None if it is called with
    ``labels`` themselves.

    A function that is asked for as many labels as the label set has gets all of them, in the order of the net's outputs: it may return an
    array with the maps of all outputs.
    """
    members = torch.tensor(sorted(classifier.label_set), device=labels.device)
    if labels.shape[1] != len(members):
        return labels, None
    return members.repeat(len(labels), 1), torch.searchsorted(members, labels)


def _from_function(thing: object) -> Method | None:
    return FromFunction(function=thing) if callable(thing) else None


ADOPTED.append(_from_function)
