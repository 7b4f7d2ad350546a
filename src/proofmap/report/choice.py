"""Which images a report shows in full: those where methods do worst, and a random sample.

A report of a large study cannot show the pixels of every image. The images are chosen by their scores alone, so that only the pixels of chosen
images are loaded. The page states the rule of the choice.
"""

from __future__ import annotations

import random as random_numbers
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from proofmap.core.errors import InputError
from proofmap.core.text import counted
from proofmap.results.evaluation import Evaluation
from proofmap.results.records import COMPLETENESS, SOUNDNESS

Values = Mapping[str, Mapping[str, Tensor]]
"""Values ``(N,)`` per image, by method and kind of score, as :func:`values_of` returns them."""


@dataclass(frozen=True)
class Choice:
    """The images to show in full. ``reasons`` maps the index of each image to the reasons why it was chosen; ``rule`` is the rule in words."""

    reasons: Mapping[int, tuple[str, ...]]
    rule: str

    @property
    def indices(self) -> tuple[int, ...]:
        """The indices of the chosen images in increasing order, as in ``Evaluation.pictured``."""
        return tuple(sorted(self.reasons))


def values_of(evaluation: Evaluation) -> Values:
    """The values per image of each method and kind of score. If a method has several scores of one kind, the first is used."""
    return {result.name: result.values_by_kind for result in evaluation.results}


def choose_pictured(
    values: Values,
    *,
    soundness: int = 7,
    completeness: int = 7,
    random: int = 6,
    seed: int = 0,
    item: str = "image",
    positions: str = "pixels",
    among: Sequence[int] | None = None,
) -> Choice:
    """Choose the images that are worst in soundness, those that are worst in completeness, and a random sample.

    The worst image of each method is chosen first, then the second worst of each method, so that every method's failures are seen. An image
    that does not count (NaN) is never among the worst. If there are few enough images, all are chosen.

    Args:
        values: per-image values by method and kind of score.
        soundness, completeness, random: the number of images to choose by soundness, by completeness and at random.
        item, positions: the words for an input and for its positions in the rule, such as "image" and "pixels".
        among: the indices of the images that can be chosen; by default all.

    >>> import torch
    >>> values = {
    ...     "m": {"soundness": torch.tensor([0.9, 0.1, 0.5]), "completeness": torch.tensor([0.2, 0.9, 0.9])}
    ... }
    >>> choose_pictured(values, soundness=1, completeness=1, random=0).indices
    (0, 1)
    """
    if min(soundness, completeness, random) < 0:
        raise InputError("the numbers of images to show must not be negative")
    if not values or not all(values.values()):
        raise InputError("there are no values to choose images by")
    n = len(next(iter(next(iter(values.values())).values())))
    open_to = list(range(n)) if among is None else sorted(set(among))
    wanted = soundness + completeness + random
    if len(open_to) <= wanted:
        return Choice(dict.fromkeys(open_to, ()), _all_rule(len(open_to), n, item, positions))
    reasons: dict[int, tuple[str, ...]] = {}
    rule = []
    for kind, count in ((SOUNDNESS, soundness), (COMPLETENESS, completeness)):
        worst = _worst_in_turn(values, kind, open_to, count, taken=reasons)
        if worst:
            rule.append(f"the {len(worst)} worst in {kind} (each method's worst in turn)")
        for i, method in worst.items():
            reasons[i] = (f"among the worst in {kind} for {method}",)
    left = [i for i in open_to if i not in reasons]
    drawn = random_numbers.Random(seed).sample(left, min(wanted - len(reasons), len(left)))
    if drawn:
        rule.append(f"{len(drawn)} at random (seed {seed})")
    reasons.update((i, ("drawn at random",)) for i in drawn)
    shown = f"Shown in full: {len(reasons)} of {counted(n, item)}"
    return Choice(reasons, f"{shown}: {', '.join(rule)}." if rule else f"{shown}.")


def _worst_in_turn(
    values: Values, kind: str, among: Sequence[int], count: int, taken: Iterable[int]
) -> dict[int, str]:
    """Choose ``count`` images, and return the method that chose each image, by the image's index. The methods take turns. Each chooses its
    image with the lowest score of this kind and skips images that are already chosen.
    """
    queues = []
    for method, found in values.items():
        if kind in found:
            column = found[kind].tolist()
            counted = (i for i in among if column[i] == column[i])  # NaN is not equal to itself
            queues.append((method, iter(sorted(counted, key=column.__getitem__))))
    skipped = set(taken)
    worst: dict[int, str] = {}
    while queues and len(worst) < count:
        for method, queue in list(queues):
            image = next((i for i in queue if i not in skipped), None)
            if image is None:
                queues.remove((method, queue))
            elif len(worst) < count:
                worst[image] = method
                skipped.add(image)
    return worst


def _all_rule(shown: int, n: int, item: str, positions: str) -> str:
    if shown == 0:
        return f"No {item} is shown in full; the {positions} of all {n} were left out."
    if shown == n:
        return f"Every {item} is shown in full." if n > 1 else f"The {item} is shown in full."
    return f"Shown in full: the {shown} of {counted(n, item)} whose {positions} and maps were kept."
