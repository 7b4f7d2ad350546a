"""Fills for rows of a table that use other rows (near rows, the typical row of a class), and fills for series that use the series itself.

With the common fills ``gray`` (the mean or the most frequent value of each column) and ``images`` (another row, the marginal draw),
these are the four usual ways to hide columns. A model reads a row as a whole, so scores can differ much between these fills.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from proofmap.core import streams
from proofmap.core.errors import InputError
from proofmap.core.inputs import Inputs, Rows, Series
from proofmap.fills.fill import FILLS, Fill
from proofmap.fills.images import Images
from proofmap.plugins.settings import setting
from proofmap.session import Session

if TYPE_CHECKING:
    from proofmap.data.distractors import Pool

_AT_ONCE = 2**24  # numbers in a table of distances


@FILLS.register
class NearRows(Images):
    """Hidden columns show the values of another row that is similar in the shown columns: a draw conditional on what is shown.

    The distance of two rows is Gower's, the mean over the shown columns of

        |x_j - r_j| / (range of column j in the pool)    for numbers,
        0 if equal, otherwise 1                          for categories, booleans, and if one of the two is missing.

    For each key, one of the ``neighbours`` nearest rows of the pool is drawn; rows as near as the farthest of these can be drawn
    too. If nothing is shown, all rows are equally near, so the fill draws as ``images`` does.
    """

    name = "near-rows"
    description = "another row that is near in the shown columns: conditional on what is shown"
    revision = 1
    reads_mask = True
    takes = Rows
    neighbours: int = setting(5, "number of nearest rows from which one is drawn at random", least=1)

    def _identity(self) -> tuple[object, ...]:
        return (*super()._identity(), self.neighbours)

    def backgrounds(self, session: Session, images: Tensor, keys: Tensor) -> Tensor:
        return Fill.backgrounds(self, session, images, keys)

    def backgrounds_behind(self, session: Session, images: Tensor, keys: Tensor, keep: Tensor) -> Tensor:
        inputs, pool = session.inputs, self.drawn_from(session)
        words = streams.random_words(keys, 1)[:, 0]
        shown = inputs.over_channels(keep)
        size = max(1, _AT_ONCE // pool.values.numel())
        parts = (each.split(size) for each in (images, words, shown))
        return torch.cat([self._near(inputs, pool, *part) for part in zip(*parts, strict=True)])

    def _near(self, inputs: Inputs, pool: Pool, x: Tensor, words: Tensor, shown: Tensor) -> Tensor:
        """For each row ``(B, C)``, a row of the pool ``(M, C)`` that is near it in the columns ``shown`` ``(B, C)``."""
        other = pool.others(x, inputs)  # (B, M)
        distance = (_differences(x, pool.values, inputs) * shown[:, None]).sum(dim=2)
        distance = distance.masked_fill(~other, torch.inf)
        k = min(self.neighbours, len(pool.marks))
        farthest = distance.kthvalue(k, dim=1, keepdim=True).values
        near = (distance <= farthest) & other
        count = near.sum(dim=1)
        if not bool(count.all()):
            raise InputError("the pool of rows contains only the explained row; name a pool with other rows")
        chosen = (words * count) >> 32
        return pool.values[torch.searchsorted(near.cumsum(dim=1), chosen[:, None] + 1)[:, 0]].to(x.dtype)


def _differences(x: Tensor, pool: Tensor, inputs: Inputs) -> Tensor:
    """The differences ``(B, M, C)`` of rows ``(B, C)`` from the rows of the pool ``(M, C)``, column by column. A difference of 1 is
    the range of the column in the pool.
    """
    low, high = (
        pool.nan_to_num(end).aminmax(dim=0)[which] for which, end in ((0, torch.inf), (1, -torch.inf))
    )
    width = (high - low).nan_to_num(0.0)
    scaled = (x[:, None] - pool).abs() / torch.where(width > 0, width, 1)
    unlike = x[:, None] != pool
    named = torch.tensor(_are_named(inputs), device=x.device)
    scaled = torch.where(named, unlike.to(scaled), scaled)
    missing = x.isnan()[:, None], pool.isnan()
    scaled = torch.where(missing[0] ^ missing[1], 1.0, scaled)
    return torch.where(missing[0] & missing[1], 0.0, scaled)


@FILLS.register
class ClassMedian(Images):
    """Hidden columns show the typical row of a class: the median of numbers, and the most frequent category or boolean.

    The class of a row in the pool is the net's top label for this row. One class is drawn for each key. All classes have the same
    probability, so that the fill itself favours no label. For an even number of rows the lower median is taken, because it is a
    value of the column. In a one-hot group (columns with exactly one 1 in each row), the most frequent column shows 1.
    """

    name = "class-median"
    description = "the median row of a class that is drawn: typical values of one label"
    takes = Rows
    revision = 1

    def prepare(self, session: Session) -> None:
        super().prepare(session)
        self._medians(session)

    def backgrounds(self, session: Session, images: Tensor, keys: Tensor) -> Tensor:
        medians = self._medians(session)
        words = streams.random_words(keys, 1)[:, 0]
        return medians[(words * len(medians)) >> 32].to(images.dtype)

    def record(self, session: Session) -> dict[str, object]:
        medians, drawn = self._medians(session), super().record(session)
        digest = hashlib.blake2b(medians.cpu().numpy().tobytes(), digest_size=8).hexdigest()
        return {
            **drawn,
            "pool": f"the medians of {len(medians)} classes of {drawn['pool']}",
            "digest": digest,
        }

    def _medians(self, session: Session) -> Tensor:
        """The typical row of each class, ``(classes, columns)``."""

        def build() -> Tensor:
            rows, inputs = self.drawn_from(session).values, session.inputs
            assert isinstance(inputs, Rows)
            labels = session.net.frozen().probabilities(rows).argmax(dim=1)
            return torch.stack([typical_row(rows[labels == label], inputs) for label in labels.unique()])

        return session.memo((self, "medians"), build)


def typical_row(rows: Tensor, inputs: Rows) -> Tensor:
    """The typical row ``(columns,)`` of ``rows``: the lower median of each number, and the most frequent value of each category,
    boolean and one-hot group.

    >>> rows = torch.tensor([[1.0, 0.0, 1.0], [5.0, 1.0, 0.0], [9.0, 0.0, 1.0], [3.0, 0.0, 1.0]])
    >>> typical_row(rows, Rows(columns=3, mean=(0, 0, 0), std=(1, 1, 1)))
    tensor([3., 0., 1.])
    """
    row = rows.nanmedian(dim=0).values
    for k, is_named in enumerate(_are_named(inputs)):
        present = rows[:, k][~rows[:, k].isnan()]
        if is_named and len(present):
            row[k] = present.mode().values
    for _, members in inputs.table.positions if inputs.table is not None else ():
        group = rows[:, list(members)]
        if (
            len(members) > 1
            and bool(((group == 0) | (group == 1)).all())
            and bool((group.sum(dim=1) == 1).all())
        ):
            row[list(members)] = torch.eye(len(members), device=rows.device)[group.sum(dim=0).argmax()]
    return row


def _are_named(inputs: object) -> list[bool]:
    """For each column, whether it is a category or boolean. The difference of two such values is only 0 or 1."""
    assert isinstance(inputs, Rows)
    if inputs.table is None:
        return [False] * inputs.columns
    return [column.kind != "number" for column in inputs.table.columns]


@FILLS.register
class TimeReversal(Fill):
    """The series itself, backwards: the same values and the same spectrum, in another order."""

    name = "time-reversal"
    description = "the series itself, backwards in time"
    takes = Series

    def backgrounds(self, session: Session, images: Tensor, keys: Tensor) -> Tensor:
        return images.flip(-1)


@FILLS.register
class TimeShift(Fill):
    """The series itself, shifted in time by a random number of steps; steps that leave at the end enter at the beginning.

    The shift is drawn uniformly between ``least`` and 1 - ``least`` of the length, so that no position shows nearly its own value.
    """

    name = "time-shift"
    description = "the series itself, moved in time by a drawn number of steps"
    random = True
    takes = Series
    least: float = setting(
        0.125, "smallest shift, as a share of the series' length; the largest is 1 - least", least=0, most=0.5
    )

    def backgrounds(self, session: Session, images: Tensor, keys: Tensor) -> Tensor:
        length = images.shape[-1]
        draws = streams.uniform(keys, 1)[:, 0]
        shift = ((self.least + (1 - 2 * self.least) * draws) * length).round().long()
        steps = (torch.arange(length, device=images.device) - shift[:, None]) % length
        return images.gather(-1, steps[:, None].expand_as(images))
