"""The paper's worked example (section 3.3): one photo of a desk, two labels and three methods, computed by hand.

A net gives *desk* the probability f = .67 and *desktop computer* f = .13. Each method makes a map for each label. The paper states
the AUC of each map, the area under its insertion curve. With the floors e1 = e2 = 0, the definition gives these scores for each
method:

    method 1 (learned mask, TV .01)     complete .97    sound .87    the paper prints .89
    method 2 (learned mask, TV .001)    complete 1      sound .45    the paper prints .44
    method 3 (Phang et al. 2020)        complete .58    sound 1

The second method proves most, but its map of *desktop computer* is more than twice as convincing as the photo. The third method
uses one map for both labels. This map proves too little, and is therefore sound. The paper's last digits differ because the paper
computed them from unrounded numbers, which it does not print.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from proofmap.metrics import proof


@dataclass(frozen=True)
class Belief:
    """A label, the net's probability ``f`` for it, and the area ``auc`` under the insertion curve of its map."""

    label: str
    f: float
    auc: float

    def completeness(self, e1: float = 0.0) -> float:
        """The completeness of the map, alpha(x, a) = min( max(AUC, e1) / f , 1 ).

        >>> round(Belief("desk", f=0.67, auc=0.43).completeness(), 2)
        0.64
        """
        return float(proof.completeness(_exact(self.auc), _exact(self.f), e1))

    def soundness(self, e2: float = 0.0) -> float:
        """The soundness of the map, beta(x, a) = min( max(f, e2) / AUC , 1 ).

        >>> round(Belief("desktop computer", f=0.13, auc=0.29).soundness(), 2)
        0.45
        """
        return float(proof.soundness(_exact(self.auc), _exact(self.f), e2))


@dataclass(frozen=True)
class Case:
    """The results of one method on one photo: a :class:`Belief` for each label."""

    method: str
    beliefs: tuple[Belief, ...]

    def completeness(self, e1: float = 0.0) -> float:
        """The smallest completeness over the labels."""
        return min(b.completeness(e1) for b in self.beliefs)

    def soundness(self, e2: float = 0.0) -> float:
        """The smallest soundness over the labels."""
        return min(b.soundness(e2) for b in self.beliefs)


@dataclass(frozen=True)
class WorkedExample:
    """The results of several methods on one photo, for one net.

    >>> for case in DESK.cases:
    ...     print(f"{case.method:22} complete {case.completeness():.2f}  sound {case.soundness():.2f}")
    learned mask, TV .01   complete 0.97  sound 0.87
    learned mask, TV .001  complete 1.00  sound 0.45
    Phang et al. 2020      complete 0.58  sound 1.00
    """

    photo: str
    net: str
    cases: tuple[Case, ...]

    @property
    def labels(self) -> tuple[str, ...]:
        return tuple(b.label for b in self.cases[0].beliefs)


def _exact(value: float) -> torch.Tensor:
    return torch.tensor(value, dtype=torch.float64)


def _desk(method: str, auc_desk: float, auc_computer: float) -> Case:
    return Case(method, (Belief("desk", 0.67, auc_desk), Belief("desktop computer", 0.13, auc_computer)))


DESK = WorkedExample(
    photo="an ImageNet photo of a desk with a computer",
    net="ResNet-50",
    cases=(
        _desk("learned mask, TV .01", 0.65, 0.15),
        _desk("learned mask, TV .001", 0.70, 0.29),
        # not printed: the paper gives completeness .58 of f = .13
        _desk("Phang et al. 2020", 0.43, 0.58 * 0.13),
    ),
)
"""The paper's example, with the numbers that the paper prints."""
