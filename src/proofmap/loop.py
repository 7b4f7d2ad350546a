"""The loop that judges: every method's maps on every block of images, measured by every metric.

:func:`proofmap.evaluate`, :class:`proofmap.Judge`, studies and all that stands on them call :func:`judge_blocks`. What measures maps that exist
already (recipes, ``pm.insertion``) makes a :class:`~proofmap.metrics.judged.Judged` of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import torch
from torch import Tensor

from proofmap.classifier.steadiness import UnsteadyNet
from proofmap.classifier.together import each_length
from proofmap.core.errors import InputError
from proofmap.core.labels import NO_LABEL
from proofmap.core.progress import Progress
from proofmap.data.given import Subjects
from proofmap.methods.method import Method
from proofmap.metrics.curves import Curves, join_lengths
from proofmap.metrics.games import Game, InsertionGame
from proofmap.metrics.judged import Judged
from proofmap.metrics.metric import Metric
from proofmap.metrics.proof_scores import ProofMetric
from proofmap.metrics.targets import Probability
from proofmap.plugins.failures import reason_of
from proofmap.session import Session, Watch


@dataclass(frozen=True)
class Row:
    """The results of one method on images of one block, on the CPU. ``places`` are the indices of these images in the block.

    ``maps`` are the maps of the first of the images, as many as are kept. ``values`` ``(n,)`` per image and ``pairs`` ``(n, L)`` per label
    are stored by the name of the metric. ``insertion`` are the insertion curves, or None. If the method or a metric failed on the images,
    ``failure`` is the reason and there are no results.
    """

    places: tuple[int, ...]
    maps: Tensor = field(default_factory=lambda: torch.empty(0))
    values: Mapping[str, Tensor] = field(default_factory=dict)
    pairs: Mapping[str, Tensor] = field(default_factory=dict)
    insertion: Curves | None = None
    failure: str = ""
    method: str = ""
    seconds: float = 0.0


def judge_blocks(
    session: Session,
    methods: Mapping[str, Method],
    metrics: Mapping[str, Metric],
    blocks: Iterable[Subjects],
    *,
    keep_maps: int = 0,
    curves: bool = True,
    skip_failures: bool = False,
    progress: Progress | None = None,
    watch: Watch | None = None,
    number: int = 0,
) -> Iterator[Row]:
    """Make every method's maps of every block of images, measure them by every metric, and yield a row for each block and method.

    Methods and metrics are those by their names in the results; each is called once for a block (for each length, if inputs have several, and
    again for the halves of a block that fails). One block is in memory at a time.
    Refused are a net that is no function of the image (its outputs change while it is judged, or depend on the batch), and methods that
    ignore labels which were chosen for each image.

    Args:
        keep_maps: the number of images, from the first on, whose maps are kept.
        curves: whether to return the insertion curves; if not, that game is played only if a metric needs it.
        skip_failures: if a block fails, judge its halves by themselves, and so on down to the image that fails. There are then several
            rows for the block and method, some with a ``failure``. By default, errors are raised.
        watch: callback that receives intermediate masks after every step, with the number of the image; ``number`` is that of the first.
    """
    first, game = 0, _masking_game(metrics)
    for block in blocks:
        if not skip_failures:  # before hours of work
            for method in methods.values():
                _check(session, method, game, block)
        for name, method in methods.items():
            began = time.monotonic()
            session.progress = progress or Progress()
            session.watch = Session.watch_at(watch, range(number + first, number + first + len(block)))
            judge = partial(_judge_part, session, method, metrics, keep_maps - first, curves, block)
            try:
                if skip_failures:
                    _check(session, method, game, block)
                rows = _halves(judge, session, len(block)) if skip_failures else [judge(range(len(block)))]
                session.look(block.images, block.labels, game).check(f"while {name} was judged")
            except (UnsteadyNet, InputError) as error:  # what was found belongs to no one net or label
                if not skip_failures:
                    raise
                rows = [Row(tuple(range(len(block))), failure=reason_of(error))]
            finally:
                session.progress, session.watch, session.made = Progress(), None, {}
            seconds = time.monotonic() - began
            yield from (replace(row, method=name, seconds=seconds / len(rows)) for row in rows)
        first += len(block)


def _halves(judge: Callable[[range], Row], session: Session, count: int) -> list[Row]:
    """The rows of a block of ``count`` images, in which images that fail are skipped."""
    net = session.net
    batches = net.batches[0].size, net.batches[1].size

    def halves(places: range) -> list[Row]:
        try:
            return [judge(places)]
        except Exception as error:
            if isinstance(error, MemoryError):  # it leaves batches of one, and other images may need less
                net.fix_batches(*batches)
            if len(places) == 1:
                return [Row(tuple(places), failure=reason_of(error))]
        # outside the except block, so that the traceback does not keep the failed block's tensors alive
        half = len(places) // 2
        return halves(places[:half]) + halves(places[half:])

    return halves(range(count))


def _check(session: Session, method: Method, game: Game, block: Subjects) -> None:
    """Refuse a net whose outputs for masked images depend on the batch, and a function of the user that ignores its labels, if a rule
    chose them for each image and the maps do not exist yet. Both are found out at the first block.
    """
    session.look(block.images, block.labels, game)
    rule = None if method in block.maps else block.rule
    chosen = rule is not None and rule.kind in ("top", "probable", "true")
    if chosen and not method.label_free and bool((block.labels[:, 1:] != NO_LABEL).any()):
        while method.source is not None:
            method = method.source
        session.memo(
            ("labels used", method), lambda: method.check_labels_used(session, block.images, block.labels)
        )


def _masking_game(metrics: Mapping[str, Metric]) -> Game:
    """A game that is played, whose masked images show whether the net's outputs depend on the batch."""
    return next((game for metric in metrics.values() for game in metric.games()), InsertionGame())


def _judge_part(
    session: Session,
    method: Method,
    metrics: Mapping[str, Metric],
    keep_maps: int,
    curves: bool,
    block: Subjects,
    places: range,
) -> Row:
    """The row of the images with these indices in the block. ``keep_maps`` counts from the block's first image."""
    some, keep = block[places.start : places.stop], max(0, keep_maps - places.start)
    return replace(_judge(session, method, metrics, keep, curves, some), places=tuple(places))


def _judge(
    session: Session,
    method: Method,
    metrics: Mapping[str, Metric],
    keep_maps: int,
    curves: bool,
    subjects: Subjects,
) -> Row:
    """Make a method's maps for some images, and compute every metric on them. Inputs of different lengths are judged each at its own."""
    groups = session.inputs.by_length(subjects.images)
    if groups:  # inputs with different numbers of positions are judged each at its own length
        near = {n: session.at_length(n) for n, _ in groups}
        for own in near.values():  # before they share batches: what is found in the net is found there alone
            own.prepare(method)
            for metric in metrics.values():
                own.judging().prepare(metric)

        def at_length(n: int, own: Tensor, progress: Progress) -> Row:
            near[n].progress, near[n].watch = progress, Session.watch_at(session.watch, own.tolist())
            some = subjects[own.tolist()]
            cut = {method: maps[..., :n] for method, maps in some.maps.items()}
            some = replace(some, images=session.inputs.cut(some.images, n), maps=cut)
            return _judge(near[n], method, metrics, int((own < keep_maps).sum()), curves, some)

        labels = subjects.labels.shape[1]
        parts = each_length(session.net, groups, at_length, labels=labels, progress=session.progress)
        return _join_lengths(parts, [own.cpu() for _, own in groups], session.inputs.positions)
    session.made = subjects.maps
    maps = session.shared_maps(method, subjects.images, subjects.labels)
    judged = Judged(
        session,
        subjects.images,
        subjects.labels,
        maps,
        method=method,
        truth=None if subjects.truth is None else subjects.truth.to(subjects.images.device),
        boxes=subjects.boxes,
        objects=subjects.objects,
    )
    shown = judged.play(shown_game(list(metrics.values()))).mapped(Tensor.cpu) if curves else None
    # games that are played for all labels come first: metrics of the first label read them too
    order = sorted(metrics.items(), key=lambda each: each[1].reads == "first")
    found = {name: metric.measure(judged) for name, metric in order}
    stored = (maps[:, :1] if method.label_free else maps)[:keep_maps]
    return Row(
        tuple(range(len(subjects))),
        stored.cpu().clone(),
        {name: found[name][0].cpu().clone() for name in metrics},
        {name: pairs.cpu().clone() for name in metrics if (pairs := found[name][1]) is not None},
        shown,
    )


def _join_lengths(parts: Sequence[Row], places: Sequence[Tensor], positions: tuple[int, ...]) -> Row:
    """One row in its original order, from results of inputs that were judged separately because their numbers of positions differ.

    Maps are zero at the positions that an input lacks. Only the maps of the first inputs are kept.
    """
    order = torch.cat(list(places)).argsort()
    curves = [part.insertion for part in parts if part.insertion is not None]
    maps, kept = [], []
    for part, own in zip(parts, places, strict=True):
        whole = part.maps.new_zeros(*part.maps.shape[:2], *positions)
        whole[..., : part.maps.shape[-1]] = part.maps
        maps.append(whole)
        kept.append(own[: len(part.maps)])
    return Row(
        tuple(range(len(order))),
        torch.cat(maps)[torch.cat(kept).argsort()],
        {name: torch.cat([part.values[name] for part in parts])[order] for name in parts[0].values},
        {name: torch.cat([part.pairs[name] for part in parts])[order] for name in parts[0].pairs},
        join_lengths(curves, places, positions[0]) if curves else None,
    )


def shown_game(metrics: Sequence[Metric]) -> Game:
    """The insertion game whose curves are shown: the game of the proof scores, otherwise that of the metric ``insertion``, otherwise that of
    another metric, otherwise the default.
    """
    first = sorted(metrics, key=lambda m: (not isinstance(m, ProofMetric), m.kind != "insertion"))
    played = [
        game
        for metric in first
        for game in metric.games()
        if isinstance(game, InsertionGame) and game.target == Probability()
    ]
    return [*played, InsertionGame()][0]
