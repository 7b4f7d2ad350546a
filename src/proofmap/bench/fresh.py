"""Checks a submitted method on fresh images: does it do as well on images that are not in the task?

The code of a method could contain a list of answers for the images of a task. Computing its scores again would give the same scores. So a
method whose code comes with the record is judged on other images of the same data: those that follow the task's images in the order of the
task's selection rule. The method is refused if the mean of a score is higher on the task by more than :data:`GAP`, and a permutation test of
the two groups of images has p < :data:`LEVEL`.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from proofmap.bench.record import Record
from proofmap.bench.running import loaded
from proofmap.core.errors import InputError
from proofmap.core.text import counted
from proofmap.data.dataset import random_choice
from proofmap.study.session import Session

NUMBER = 20
"""Largest number of fresh images."""
GAP = 0.1
LEVEL = 0.001
KINDS = ("completeness", "soundness", "steadiness")
_SHUFFLES = 20_000


def fresh_images(session: Session, record: Record) -> list[str]:
    """The names of the first :data:`NUMBER` images that fit the task's selection rule and are not in the record, in the order of the rule."""
    rule, known = session.study.images, {image["name"] for image in record.images}
    order = random_choice(session.data.names, len(session.data), seed=rule.seed)
    names = [session.data.names[k] for k in order if session.data.names[k] not in known]
    found: list[str] = []
    for name, block in zip(names, loaded(session, [[name] for name in names]), strict=True):
        second = session.classifier.probabilities(block.images)[0].topk(2).values[1]
        if second >= (rule.min_second_probability or 0.0):
            found.append(name)
        if len(found) == NUMBER:
            break
    return found


def check_fresh(record: Record, fresh: Record, fills: Sequence[str]) -> None:
    """Raise if a method does much better on the images of the task (``record``) than on fresh images (``fresh``)."""
    for kind in KINDS:
        ours, others = (
            torch.stack([one.column(f"{kind} ({fill})") for fill in fills]).mean(dim=0)
            for one in (record, fresh)
        )
        gap = float(ours.mean() - others.mean())
        if gap > GAP and higher_p(ours, others) < LEVEL:
            raise InputError(
                f"{record.name} may know the images of the task: its {kind} is {ours.mean():.2f} there, and {others.mean():.2f} on "
                f"{counted(len(others), 'other image')} of the same data"
            )


def higher_p(a: Tensor, b: Tensor) -> float:
    """The one-sided p of a permutation test that ``a`` has a higher mean than ``b``: the share of random splits of both groups whose
    difference of means is at least as large.

    >>> higher_p(torch.ones(8), torch.zeros(8)) < 0.001, higher_p(torch.zeros(8), torch.ones(8)) > 0.9
    (True, True)
    """
    both = torch.cat([a, b]).double()
    order = torch.rand(_SHUFFLES, len(both), generator=torch.Generator().manual_seed(0)).argsort(dim=1)
    sums = both[order[:, : len(a)]].sum(dim=1)
    return float((1 + (sums >= float(a.sum()) - 1e-9).sum()) / (1 + _SHUFFLES))
