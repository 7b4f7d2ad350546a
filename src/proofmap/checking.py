"""Sanity checks of methods (Adebayo et al. 2018): do maps change when the net's weights are randomised?"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, get_args

import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.classifier.kernels import outside_inference_mode
from proofmap.classifier.randomised import layers_of, randomised
from proofmap.classifier.raw import as_classifier
from proofmap.core.errors import InputError
from proofmap.core.inputs import Inputs
from proofmap.core.labels import NO_LABEL, LabelRule, Labels
from proofmap.core.progress import Progress
from proofmap.core.text import counted
from proofmap.data.distractors import Distractors
from proofmap.data.given import images_as_tensor
from proofmap.methods.method import Method, MethodLike
from proofmap.metrics.randomisation import Randomisation, Similarity
from proofmap.results.randomisation import FLOOR, Order, SanityChecks, SanityLine
from proofmap.results.statistics import Score
from proofmap.session import Session
from proofmap.study.opened import prepare_study
from proofmap.study.study import Study

_SIMILARITIES: tuple[Similarity, ...] = get_args(Similarity)
_ORDERS: tuple[Order, ...] = tuple(order for order in get_args(Order) if order != "labels")


@dataclass(frozen=True)
class _Step:
    """One step of a check: a net with some randomised layers, or a separately trained net."""

    order: Order
    number: int
    layers: str
    drawn: int
    of: int
    modules: tuple[str, ...]
    net: Classifier | None = None


@outside_inference_mode()
def sanity_checks(
    classifier: Classifier,
    images: Any,
    *,
    methods: Sequence[MethodLike | Mapping[str, Any]],
    labels: Labels = "top1",
    orders: Sequence[Order] = ("cascading",),
    groups: int = 6,
    samples: int = 1,
    noise: float = 0.1,
    relabelled: Classifier | None = None,
    on_maps: Callable[[str, int, Tensor], None] | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> SanityChecks:
    """Compare the maps of each method before and after layers of the net are randomised; returns similarities and a verdict.

    The net itself is not changed: layers are randomised in copies (:mod:`proofmap.classifier.randomised`).

    Args:
        methods, labels: as :func:`proofmap.evaluate` takes them.
        orders: ``cascading`` randomises the last layer, then also the group before it, and so on up to all layers. ``bottom-up`` starts
            at the input, as Hedstroem et al. advise. ``independent`` randomises one group at a time. ``last`` randomises only the last
            layer, as the paper does.
        groups: number of groups of layers; the last layer is a group by itself.
        samples, noise: average the maps over this number of noisy copies of each image (the smooth variant). With ``samples=1`` only
            the image itself is used.
        relabelled: a net of the same kind, trained on the same pictures with shuffled labels. Its maps are compared too (the label
            randomisation test).
        on_maps: callback that receives a method's title, the number of the step (0 is the original net) and the maps
            ``(N, L, *positions)``. It is called only for the steps of ``orders[0]``.
    """
    classifier = as_classifier(classifier, images)
    if not methods:
        raise InputError("there are no methods to check; see: proofmap list methods")
    for order in orders:
        if order not in _ORDERS:
            raise InputError(f"an order is one of {', '.join(_ORDERS)}, not {order!r}")
    if not orders and relabelled is None:
        raise InputError(f"there is nothing to check; name an order: {', '.join(_ORDERS)}")
    if groups < 1 or samples < 1 or not 0 < noise < math.inf:
        raise InputError("groups and samples must be at least 1, and noise a number above 0")
    images = classifier.check_images(images_as_tensor(images, classifier.inputs))
    if len(images) == 0:
        raise InputError(f"there are no {classifier.inputs.noun} to check on")
    opened = prepare_study(
        Study(methods=methods, seed=seed),
        classifier,
        lambda: Distractors.from_images(images, classifier.inputs),
    )
    opened.session.progress = progress or Progress()
    titles, judged = list(opened.methods), list(opened.methods.values())
    table = classifier.choose_labels(images, labels)
    steps = list(_steps(classifier, orders, groups, relabelled))

    def maps_of(method: Method, session: Session) -> Tensor:
        return Randomisation.smooth_maps(session, method, images, table, samples=samples, noise=noise)

    measures: list[Similarity] = [m for m in _SIMILARITIES if m != "ssim" or classifier.inputs.has_neighbours]
    first = [maps_of(method, opened.session) for method in judged]
    for title, before in zip(titles, first, strict=True):
        if on_maps is not None:
            on_maps(title, 0, before)
    found: dict[str, list[SanityLine]] = {title: [] for title in titles}
    for step in steps:
        net = step.net or randomised(classifier, step.modules, seed=seed)
        session = opened.session.for_net(net)
        for title, method, before in zip(titles, judged, first, strict=True):
            after = maps_of(method, session)
            found[title] += _lines(title, step, before, after, table, measures)
            if on_maps is not None and step.order == steps[0].order:
                on_maps(title, step.number, after)
    nothing = _Step("last", 0, "nothing", 0, 0, ())
    floors: list[SanityLine] = []
    for title, before in zip(titles, first, strict=True):
        if len(images) > 1:
            floors += _lines(title, nothing, before, before.roll(1, dims=0), table, measures)
    draws = (
        f"maps averaged over {samples} noisy copies"
        if samples > 1
        else f"maps of the {classifier.inputs.noun} themselves"
    )
    rule = str(LabelRule.parse(labels, classifier.names))
    done: list[Order] = [*orders, *(["labels"] if relabelled is not None else [])]  # type: ignore[list-item]
    notes = _notes(
        len(images), draws, done, model=classifier.name, labels=rule, seed=seed, inputs=classifier.inputs
    )
    return SanityChecks(tuple(line for title in titles for line in found[title]), tuple(floors), tuple(notes))


def _notes(
    images: int, draws: str, orders: Sequence[Order], *, model: str, labels: str, seed: int, inputs: Inputs
) -> list[str]:
    """Notes on how the similarities were computed, and on a missing label randomisation."""
    notes = [
        f"{counted(images, inputs.singular)}, labels {labels}, model {model}, seed {seed}; {draws}; 95 % intervals over {inputs.noun}; "
        f"{', '.join(_SIMILARITIES)}: 1 where maps stay as they are; "
        f"{FLOOR}: maps of two {inputs.noun} of the net as it is"
    ]
    if "labels" not in orders:
        notes.append(
            "label randomisation was left out: it needs a net of the same kind that was trained on the same pictures with shuffled "
            "labels (relabelled=...)"
        )
    return notes


def _steps(
    classifier: Classifier, orders: Sequence[Order], groups: int, relabelled: Classifier | None
) -> Iterator[_Step]:
    layers = layers_of(classifier) if orders else []
    parts = _grouped(layers, groups) if layers else []
    for order in dict.fromkeys(orders):
        for number, taken in enumerate(_randomised_groups(order, parts), start=1):
            modules = tuple(name for part in taken for name in part)
            drawn = sum(layer[0] in modules for layer in layers)
            yield _Step(
                order, number, _layer_words(order, taken, drawn, len(layers)), drawn, len(layers), modules
            )
    if relabelled is not None:
        if relabelled.inputs.positions != classifier.inputs.positions or relabelled.names != classifier.names:
            raise InputError(
                "the relabelled net must have the input and the labels of the net that is checked"
            )
        of = len(layers_of(classifier))
        yield _Step("labels", 1, "a net trained on shuffled labels", of, of, (), relabelled)


def _grouped(layers: Sequence[tuple[str, ...]], groups: int) -> list[tuple[str, ...]]:
    """The layers in at most ``groups`` groups of about equal size; the last layer is a group by itself.

    >>> _grouped([("a",), ("b",), ("c", "c.norm"), ("d",)], 3)
    [('a', 'b'), ('c', 'c.norm'), ('d',)]
    """
    *rest, last = layers
    parts = min(max(groups - 1, 0), len(rest))
    cuts = [round(k * len(rest) / parts) for k in range(parts + 1)] if parts else []
    found = [tuple(n for layer in rest[a:b] for n in layer) for a, b in pairwise(cuts)]
    return [*found, last] if parts or not rest else [tuple(n for layer in layers for n in layer)]


def _randomised_groups(order: Order, parts: Sequence[tuple[str, ...]]) -> list[Sequence[tuple[str, ...]]]:
    """For each step of ``order``, the groups of layers that are randomised."""
    if order == "last":
        return [parts[-1:]]
    if order == "independent":
        return [[part] for part in reversed(parts)]
    if order == "bottom-up":
        return [parts[:k] for k in range(1, len(parts) + 1)]
    return [parts[-k:] for k in range(1, len(parts) + 1)]


def _layer_words(order: Order, taken: Sequence[tuple[str, ...]], drawn: int, of: int) -> str:
    """The layers of a step in words, such as ``all 53 layers`` or ``the last 9 layers``."""
    if drawn == of:
        return f"all {counted(of, 'layer')}"
    if order == "independent":
        return f"{taken[0][0]} ({counted(drawn, 'layer')})"
    side = "first" if order == "bottom-up" else "last"
    return f"the {side} layer" if drawn == 1 else f"the {side} {drawn} layers"


def _lines(
    method: str, step: _Step, before: Tensor, after: Tensor, labels: Tensor, measures: Sequence[Similarity]
) -> list[SanityLine]:
    """One line for each similarity measure of a method's maps before and after a step: the mean over labels, then over images, with its
    interval."""
    a, b = before.flatten(0, 1), after.flatten(0, 1)
    lines = []
    for measure in measures:
        pairs = (
            Randomisation.compared(a, b, measure)
            .view(labels.shape)
            .masked_fill(labels == NO_LABEL, torch.nan)
        )
        score = Score(measure, higher_is_better=False, limits=(-1.0, 1.0)).over(pairs.nanmean(dim=1).cpu())
        place = (step.order, step.number, step.layers, step.drawn, step.of)
        lines.append(SanityLine(method, *place, measure, score.value, score.low, score.high, score.n))
    return lines
