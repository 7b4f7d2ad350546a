"""Playing one game on given maps: insertion, deletion, or any other; and the paper's scores of given maps as tensors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

import torch
from numpy.typing import ArrayLike
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.classifier.raw import as_classifier
from proofmap.classifier.together import each_length
from proofmap.core.errors import InputError
from proofmap.core.labels import LabelRule, Labels
from proofmap.core.progress import Progress
from proofmap.core.ranking import Ties
from proofmap.data.given import images_as_tensor
from proofmap.fills import Fill
from proofmap.methods.given import as_given
from proofmap.metrics import scores
from proofmap.metrics.curves import Curves, join_lengths
from proofmap.metrics.games import Game, make_game
from proofmap.metrics.judged import Judged, given_pairs
from proofmap.metrics.targets import Target
from proofmap.session import Session


def insertion(
    classifier: Classifier, images: Tensor, maps: ArrayLike, labels: ArrayLike, **options: Any
) -> Curves:
    """Play the insertion game (the paper's AUC): the top s positions are shown, the rest is filled.

    AUC(x, a, M) = mean over s of f(x~_s, a), where x~_s equals x on the top s positions of M. The options are those of
    :func:`curves`.

    >>> import torch
    >>> from torch import nn
    >>> f = Classifier(nn.Sequential(nn.Flatten(), nn.Linear(12, 2)), size=2)
    >>> x, map_ = torch.rand(1, 3, 2, 2), torch.rand(1, 1, 2, 2).expand(1, 2, 2, 2)
    >>> round(
    ...     insertion(f, x, map_, torch.tensor([[0, 1]]), points="all").auc.sum().item(), 6
    ... )  # one map for all labels
    1.0
    """
    return curves("insertion", classifier, images, maps, labels, **options)


def deletion(
    classifier: Classifier, images: Tensor, maps: ArrayLike, labels: ArrayLike, **options: Any
) -> Curves:
    """Play the deletion game: the top s positions are hidden, s = 1 .. n; lower is better. The options are those of :func:`curves`."""
    return curves("deletion", classifier, images, maps, labels, **options)


_AT_ONCE = 256  # images


def completeness(
    net: Any,
    images: Any,
    maps: Any,
    labels: Labels | None = None,
    *,
    target: Labels | None = None,
    e1: float = 0.01,
    **options: Any,
) -> Tensor:
    """Completeness min(max(AUC, e1) / f, 1) of each map: ``(N,)`` if each image has one label, otherwise ``(N, L)``, NaN where there is none. An
    image's completeness is the least of its labels. The arguments are those of :func:`proofmap.evaluate`; the options those of :func:`curves`.
    """
    auc, f = _areas(net, images, maps, labels, target, options)
    return scores.completeness(auc, f, e1)


def soundness(
    net: Any,
    images: Any,
    maps: Any,
    labels: Labels | None = None,
    *,
    target: Labels | None = None,
    e2: float = 0.001,
    **options: Any,
) -> Tensor:
    """Soundness min(max(f, e2) / AUC, 1) of each map, in the form of :func:`completeness`. An image's soundness is the least of its labels, of
    which some should be labels that the net does not believe.
    """
    auc, f = _areas(net, images, maps, labels, target, options)
    return scores.soundness(auc, f, e2)


def insertion_auc(
    net: Any,
    images: Any,
    maps: Any,
    labels: Labels | None = None,
    *,
    target: Labels | None = None,
    **options: Any,
) -> Tensor:
    """The AUC of each map in the insertion game, in the form of :func:`completeness`."""
    return _areas(net, images, maps, labels, target, options)[0]


def _areas(
    net: Any, images: Any, maps: Any, labels: Labels | None, target: Labels | None, options: Mapping[str, Any]
) -> tuple[Tensor, Tensor]:
    """The areas and f of given maps, ``(N, L)``, or ``(N,)`` for one label of each image."""
    net = as_classifier(net, images)
    asked = labels if target is None else target
    if asked is None or (labels is not None and target is not None):
        raise InputError("say which labels the maps are of: labels=y, or target=y; one of the two")
    found = [curves("insertion", net, *some, **options) for some in given_parts(net, images, maps, asked)]
    auc, f = torch.cat([c.auc for c in found]), torch.cat([c.h for c in found])
    return (auc[:, 0], f[:, 0]) if auc.shape[1] == 1 else (auc, f)


def given_parts(
    net: Classifier, images: Any, maps: Any, labels: Labels
) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Images ``(n, *shape)``, their maps ``(n, L, *positions)`` and their labels ``(n, L)``, a part of what a person hands over at a time."""
    images = net.check_images(images_as_tensor(images, net.inputs))
    chosen = net.choose_labels(images, labels)
    given = as_given(maps, "maps", net, len(images), LabelRule.parse(labels, net.names, net.inputs.singular))
    for start in range(0, len(images), _AT_ONCE):
        places = range(start, min(start + _AT_ONCE, len(images)))
        some = chosen[start : places.stop]
        yield images[start : places.stop], given.read(places, some), some


def curves(
    game: str | Game,
    classifier: Classifier,
    images: Tensor,
    maps: ArrayLike,
    labels: ArrayLike,
    *,
    curve: str | None = None,
    fill: str | Fill | None = None,
    points: int | Literal["all"] | None = None,
    within: tuple[float, float] | None = None,
    ties: Ties | None = None,
    draws: int | None = None,
    target: str | Target | None = None,
    matrix: bool = False,
    seed: int = 0,
    progress: Progress | None = None,
) -> Curves:
    """Play a game for maps ``(N, L, *positions)`` of labels ``(N, L)``, or for maps ``(N, *positions)`` of one label each ``(N,)``; tensors
    or arrays. Every option overrides the game's own setting.

    Args:
        curve: settings by name: ``paper``, ``released``, ``rise`` or ``restricted``.
        target: what is read off the net: ``probability`` (the default), ``decision``, ``margin``, ...
    """
    options = {
        "curve": curve,
        "fill": fill,
        "points": points,
        "within": within,
        "ties": ties,
        "draws": draws,
        "target": target,
    }
    chosen = make_game(game, **{key: value for key, value in options.items() if value is not None})
    net = as_classifier(classifier, images)
    session = Session(net, seed=seed, role="judge", progress=progress)
    session.prepare(chosen)
    maps, labels = given_pairs(maps, labels, net.inputs)
    return play(session, chosen, images, maps, labels, matrix=matrix)


def play(
    session: Session, game: Game, images: Tensor, maps: Tensor, labels: Tensor, *, matrix: bool = False
) -> Curves:
    """Play a game in a session. Each input is played with its own number of positions."""
    inputs = session.inputs
    groups = inputs.by_length(images)
    if not groups:
        return Judged(session, images, labels, maps).play(game, matrix=matrix)

    def at_length(n: int, places: Tensor, progress: Progress) -> Curves:
        near = session.at_length(n)
        near.progress = progress
        some = inputs.cut(images[places], n), maps[places][..., :n], labels[places]
        return play(near, game, *some, matrix=matrix)

    parts = each_length(session.net, groups, at_length, labels=labels.shape[1], progress=session.progress)
    return join_lengths(parts, [places for _, places in groups], inputs.count)
