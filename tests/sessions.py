"""A plug-in with the session of one net, so that tests can call it in one short expression."""

from __future__ import annotations

from collections.abc import Mapping
from functools import wraps
from typing import Any

from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core.progress import Progress
from proofmap.data.given import Subjects
from proofmap.loop import Row, judge_blocks
from proofmap.methods import Method
from proofmap.metrics import Metric
from proofmap.session import Session


class Bound:
    """A method, fill, game or metric, prepared in a session of its own. Its methods are called without the session."""

    def __init__(self, thing: Any, classifier: Classifier) -> None:
        self.thing, self.session = thing, Session(classifier)
        thing.prepare(self.session)

    def __call__(self, images: Tensor, second: Tensor, **how: Any) -> Tensor:
        """Maps for labels, or backgrounds for stream keys."""
        self._set(**how)
        if isinstance(self.thing, Method):
            return self.session.maps(self.thing, images, second)
        return self.thing(self.session, images, second)

    @property
    def classifier(self) -> Classifier:
        return self.session.net

    def watched(self, watch: Any, every: int = 10) -> Bound:
        """The same, with a callback that receives the masks while they are learned."""
        self.session.watch, self.session.watch_every = watch, every
        return self

    def record(self) -> dict[str, Any]:
        whole = isinstance(self.thing, Metric)
        return (self.thing.full_record if whole else self.thing.record)(self.session)

    def cost(self, labels: int) -> Any:
        return self.thing.cost(labels, self.session)

    def _set(self, seed: int = 0, progress: Progress | None = None) -> None:
        self.session.seed, self.session.progress = seed, progress or Progress()

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.thing, name)
        if not callable(found):
            return found

        @wraps(found)
        def called(*given: Any, seed: int = 0, progress: Progress | None = None, **named: Any) -> Any:
            self._set(seed, progress)
            return found(self.session, *given, **named)

        return called


def bound(thing: Any, classifier: Classifier) -> Bound:
    """The plug-in, prepared for a net.

    >>> import proofmap as pm
    >>> bound(pm.LearnedMask(steps=20), net).record()["steps"]  # doctest: +SKIP
    20
    """
    return Bound(thing, classifier)


class _NoLook:
    def check(self, during: str) -> None: ...


def judged_block(
    session: Session, method: Method, subjects: Subjects, metrics: Mapping[str, Metric], **options: Any
) -> Row:
    """The row of one method on one block of images, without looks at the net, whose passes are not those of the work."""
    session.first_look, session.batch_difference = _NoLook(), 0.0  # type: ignore[assignment]
    (row,) = judge_blocks(session, {"": method}, metrics, [subjects], **options)
    return row
