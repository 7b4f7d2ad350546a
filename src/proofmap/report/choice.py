"""Which images a report shows in full: those where methods do worst, and a random sample.

A report of a large study cannot show the pixels of every image. The images are chosen by their scores alone, so that only the pixels of chosen
images are loaded. The page states the rule of the choice.
"""

from __future__ import annotations

import random as random_numbers
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from proofmap.core.errors import InputError
from proofmap.core.text import counted
from proofmap.results.evaluation import Evaluation
from proofmap.results.records import COMPLETENESS, SOUNDNESS


@dataclass(frozen=True)
class Choice:
    """The images to show in full. ``reasons`` maps the index of each image to the reasons why it was chosen; ``rule`` is the rule in words."""

    reasons: Mapping[int, tuple[str, ...]]
    rule: str

    @property
    def indices(self) -> tuple[int, ...]:
        """The indices of the chosen images in increasing order, as in ``Evaluation.pictured``."""
        return tuple(sorted(self.reasons))

    @classmethod
    def of(
        cls,
        evaluation: Evaluation,
        *,
        worst: int = 7,
        random: int = 6,
        seed: int = 0,
        among: Sequence[int] | None = None,
    ) -> Choice:
        """Choose the images that are worst in soundness, those that are worst in completeness, and a random sample.

        The worst image of each method is chosen first, then the second worst of each method, so that every method's failures are seen. An image
        that does not count (NaN) is never among the worst. If there are few enough images, all are chosen.

        Args:
            worst, random: the number of images to choose by soundness, as many by completeness, and the number at random.
            among: the indices of the images that can be chosen; by default all.
        """
        if min(worst, random) < 0:
            raise InputError("the numbers of images to show must not be negative")
        n, item = len(evaluation), evaluation.inputs.singular
        open_to = list(range(n)) if among is None else sorted(set(among))
        wanted = 2 * worst + random
        if len(open_to) <= wanted:
            return cls(
                dict.fromkeys(open_to, ()), _all_rule(len(open_to), n, item, evaluation.inputs.position_noun)
            )
        reasons: dict[int, tuple[str, ...]] = {}
        rule = []
        for kind in (SOUNDNESS, COMPLETENESS):
            found = _worst_in_turn(evaluation, kind, open_to, worst, taken=reasons)
            if found:
                rule.append(f"the {len(found)} worst in {kind} (each method's worst in turn)")
            for i, method in found.items():
                reasons[i] = (f"among the worst in {kind} for {method}",)
        left = [i for i in open_to if i not in reasons]
        drawn = random_numbers.Random(seed).sample(left, min(wanted - len(reasons), len(left)))
        if drawn:
            rule.append(f"{len(drawn)} at random (seed {seed})")
        reasons.update((i, ("drawn at random",)) for i in drawn)
        shown = f"Shown in full: {len(reasons)} of {counted(n, item)}"
        return cls(reasons, f"{shown}: {', '.join(rule)}." if rule else f"{shown}.")


def _worst_in_turn(
    evaluation: Evaluation, kind: str, among: Sequence[int], count: int, taken: Iterable[int]
) -> dict[int, str]:
    """Choose ``count`` images, and return the method that chose each image, by the image's index. The methods take turns. Each chooses its
    image with the lowest score of this kind and skips images that are already chosen.
    """
    queues = []
    for result in evaluation.results:
        score = result.first_score(kind)
        if score is not None:
            column = result.values[score.name].tolist()
            counted = (i for i in among if column[i] == column[i])  # NaN is not equal to itself
            queues.append((result.name, iter(sorted(counted, key=column.__getitem__))))
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
        return f"Every {item} is shown with its maps." if n > 1 else f"The {item} is shown with its maps."
    return f"Shown in full: the {shown} of {counted(n, item)} whose {positions} and maps were kept."
