"""Two rules that decide whether values computed again on this machine ("here") agree with the values of a record.

A record has a method's scores on a task of ProofBench, one value per image and score.

**Each value.** A value of the record and the same value computed here differ by at most :data:`TOLERANCE`. Methods that learn nothing pass
this rule on every device: their maps depend on rounding only in the last digits.

**As a whole.** A method that learns a mask amplifies rounding: another kind of device, another precision, or another batch size, on which
kernels depend, leads to another mask. Values of single images then differ by up to .5, though means over images hardly do. So no value can
be checked by itself, and the record is compared with ``R`` computations here. ``z_1`` is the value computed as the task states it. For
``z_2, ..., z_R``, maps are made by a copy of the net in which every weight ``w`` is replaced by ``w (1 + u e)``, with ``u`` the unit roundoff
(:func:`rounding_of`) and ``e`` normal. Seeds stay as they are, and the scores use the unchanged net. If the record is honest, its value ``y``
of an image and ``z_1, ..., z_R`` are draws from one distribution, so each of them could as well have been the value in the record. For a
score and an image with values ``v_0 = y, v_1 = z_1, ..., v_R = z_R``, let

    a_k = clip(v_k - mean of the others, -CLIP, CLIP)        how far value k is above the others
    b_k = |v_k - mean of the others|                         how far value k is away from the others

    shift = sum of a_0 over images        spread = sum of b_0 over images

Shift and spread are standardised by their mean and variance under random exchanges. In an exchange, a ``k`` is drawn from ``0, ..., R`` for
each image, and ``v_k`` takes the place of the record's value ``v_0``. All scores of an image use the same ``k``. The largest of ``|shift|`` and
``spread`` over all scores is compared with the largest in each of :data:`EXCHANGES` random exchanges; p is the share of exchanges that reach
it. A record is refused if p < :data:`LEVEL` for a score whose mean, or whose values, differ from those here by more than :data:`GAP`. An
honest record is therefore refused with a probability of at most :data:`LEVEL`, whatever the method's distribution is, however scores depend
on one another, and for any number of scores and images. ``shift`` finds scores that were raised; ``spread`` finds raised scores that were
hidden under added noise, and a few scores that were raised by much.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from proofmap.bench.record import Record, values_of
from proofmap.core.deferred import Tensor, torch
from proofmap.core.text import counted

if TYPE_CHECKING:
    from proofmap.methods.method import ReadyMethod
    from proofmap.study.session import Session

EACH, WHOLE = "each value", "as a whole"
"""The names of the rules in a record's check."""
TOLERANCE = 0.005
"""Rule "each value": the largest allowed difference. Other block sizes and numbers of threads round in another order and change less."""
LEVEL = 0.01
"""Rule "as a whole": the largest probability that an honest record is refused."""
GAP = 0.02
"""Rule "as a whole": a record is never refused for a score whose mean and values differ by at most this."""
CLIP = 0.1
"""Rule "as a whole": an image counts for at most this much in a shift, so that a few images with other masks do not hide the shift."""
NUMBER = 12
"""Rule "as a whole": the number of images that are computed again, or all images if the task has fewer."""
COMPUTATIONS = 3
"""Rule "as a whole": R, the number of times that each of these images is computed here."""
EXCHANGES = 20_000
_ROUNDOFF = {"float16": 2.0**-11, "bfloat16": 2.0**-8}
_FULL = 2.0**-24
_BLOCK = 4


@dataclass(frozen=True)
class Whole:
    """The result of the rule "as a whole": its p, and the score that is most extreme compared with random exchanges."""

    p: float
    score: str
    gap: float
    """The mean of this score in the record minus its mean here, over the images computed again."""
    apart: float
    """The mean absolute difference between the record's values of this score and the values here."""

    @property
    def refused(self) -> bool:
        return self.p < LEVEL


def compare_as_a_whole(stated: Mapping[str, Tensor], here: Sequence[Mapping[str, Tensor]]) -> Whole:
    """Compare the values of a record with several recomputations of the same images, as the docstring of this module describes.

    Args:
        stated: by score, the values ``(n,)`` of the record; NaN where an image does not count.
        here: the same for each computation here.

    >>> z = torch.linspace(0.2, 0.6, 12)
    >>> compare_as_a_whole({"soundness": z + 0.1}, [{"soundness": z}, {"soundness": z + 0.001}]).refused
    True
    >>> compare_as_a_whole({"soundness": z}, [{"soundness": z + 0.1}, {"soundness": z - 0.1}]).refused
    False
    """
    scores = list(stated)
    together = [stated, *here]
    v = torch.stack([torch.stack([one[score] for score in scores], dim=1) for one in together])
    v = v.double().nan_to_num(0.0)  # (R + 1, n, scores)
    others = (v.sum(dim=0) - v) / (len(together) - 1)
    off = v - others
    tables = torch.cat([off.clamp(-CLIP, CLIP), off.abs()], dim=2)
    centre, variance = tables.mean(dim=0).sum(dim=0), tables.var(dim=0, correction=0).sum(dim=0)
    scale = variance.clamp_min(1e-12).sqrt()

    def standardised(sums: Tensor) -> Tensor:
        z = (sums - centre) / scale
        return torch.cat([z[..., : len(scores)].abs(), z[..., len(scores) :]], dim=-1)

    gap, apart = off[0].mean(dim=0), off[0].abs().mean(dim=0)
    observed = standardised(tables[0].sum(dim=0))
    counts = torch.cat([gap.abs() > GAP, apart > GAP])
    reached = observed.masked_fill(~counts, -torch.inf)
    worst = int(reached.argmax())
    at = worst % len(scores)
    drawn = torch.randint(len(together), (EXCHANGES, v.shape[1]), generator=torch.Generator().manual_seed(0))
    chosen = torch.nn.functional.one_hot(drawn, len(together)).double()  # (exchanges, n, R + 1)
    sums = chosen.transpose(1, 2).flatten(1) @ tables.flatten(0, 1)
    largest = standardised(sums).max(dim=1).values
    p = (1 + int((largest >= float(reached[worst]) - 1e-9).sum())) / (1 + EXCHANGES)
    return Whole(p if bool(counts.any()) else 1.0, scores[at], float(gap[at]), float(apart[at]))


def rounding_of(*settings: Any) -> float:
    """The unit roundoff of the coarsest precision named in these settings, which may come from different machines.

    >>> rounding_of({"precision": "float16"}, {"precision": "float32"}) == 2**-11, rounding_of({}) == 2**-24
    (True, True)
    """
    return max([_FULL, *(_ROUNDOFF.get(name, _FULL) for name in values_of("precision", settings))])


def computed_again(
    session: Session, record: Record, places: Sequence[int], *, times: int = COMPUTATIONS
) -> list[dict[str, Tensor]]:
    """For each computation here, a mapping from score to the values ``(n,)`` of the images at ``places`` in the record.

    The first computation uses the net as it is; for the others, weights are changed by about the unit roundoff.
    """
    method = session.methods[record.name]
    unit = rounding_of(record.method["settings"], method.record())
    changed = [changed_roundings(session, method, unit, seed=k) for k in range(1, times)]
    return [_values(session, record, places, maker) for maker in (None, *changed)]


def changed_roundings(session: Session, method: ReadyMethod, unit: float, *, seed: int) -> ReadyMethod | None:
    """The method on a copy of the net whose weights are changed by about the unit roundoff. None if the model has no weights.

    The net is copied because a classifier reads its weights from the user's net again at its next pass, which would undo the changes.
    """
    from proofmap.classifier.view import copy_net

    source = session.classifier
    if not isinstance(source.net, torch.nn.Module) or not any(True for _ in source.net.parameters()):
        return None
    net = copy_net(source.net)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in net.parameters():
            weight.mul_(1 + unit * torch.randn(weight.shape, generator=generator).to(weight))
    return method.method.prepare(source.with_net(net))


def _values(
    session: Session, record: Record, places: Sequence[int], maker: ReadyMethod | None
) -> dict[str, Tensor]:
    """By score, the values ``(n,)`` of the maps that ``maker`` makes; if ``maker`` is None, of the maps of the session's own method."""
    from proofmap.bench.running import loaded
    from proofmap.metrics.block import Subjects

    images, found = [record.images[k] for k in places], []
    blocks = [images[k : k + _BLOCK] for k in range(0, len(images), _BLOCK)]
    names = [[image["name"] for image in block] for block in blocks]
    for block, read in zip(blocks, loaded(session, names), strict=True):
        labels = torch.tensor([image["labels"] for image in block], device=session.classifier.device)
        maps = None
        if maker is not None:
            maps = maker(read.images, labels, seed=session.study.seed)
            maps = maps[:, :1] if maker.label_free else maps
        subjects = Subjects(read.images, labels)
        found.append(session.judge(record.name, subjects, maps=maps, curves=False).values)
    return {score: torch.cat([part[score] for part in found]) for score in found[0]}


def furthest(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> float:
    """The largest difference between two sets of values, over all scores and images. Values that do not count are left out."""
    return max(float((one[score] - other[score]).abs().nan_to_num(0.0).max()) for score in one)


def refusal(whole: Whole, n: int) -> tuple[str, str]:
    """The score that differs most, and the reason why the record is refused as a whole."""
    return whole.score, (
        f"over {counted(n, 'image')} computed here {COMPUTATIONS} times, its mean is {abs(whole.gap):.3f} "
        f"{'higher' if whole.gap > 0 else 'lower'} in the record, and values are {whole.apart:.3f} apart on average; the method's own "
        f"variation gives this with p = {whole.p:.4f}"
    )
