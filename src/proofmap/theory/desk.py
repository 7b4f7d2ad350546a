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

from collections.abc import Mapping, Sequence

import torch

from proofmap.metrics.scores import completeness, soundness

PHOTO, NET = "an ImageNet photo of a desk with a computer", "ResNet-50"
LABELS = ("desk", "desktop computer")
F = (0.67, 0.13)
AREAS: Mapping[str, tuple[float, float]] = {
    "learned mask, TV .01": (0.65, 0.15),
    "learned mask, TV .001": (0.70, 0.29),
    # not printed: the paper gives completeness .58 of f = .13
    "Phang et al. 2020": (0.43, 0.58 * 0.13),
}
"""The paper's example, with the numbers that the paper prints: f of each label, and for each method the AUC of each label's map."""


def scores(
    f: Sequence[float], areas: Sequence[float], *, e1: float = 0.0, e2: float = 0.0
) -> list[tuple[float, float]]:
    """Completeness min( max(AUC, e1) / f , 1 ) and soundness min( max(f, e2) / AUC , 1 ) of each label.

    >>> for method, areas in AREAS.items():
    ...     complete, sound = map(min, zip(*scores(F, areas)))
    ...     print(f"{method:22} complete {complete:.2f}  sound {sound:.2f}")
    learned mask, TV .01   complete 0.97  sound 0.87
    learned mask, TV .001  complete 1.00  sound 0.45
    Phang et al. 2020      complete 0.58  sound 1.00
    """
    believed, auc = (torch.tensor(values, dtype=torch.float64) for values in (f, areas))
    complete, sound = completeness(auc, believed, e1), soundness(auc, believed, e2)
    return list(zip(complete.tolist(), sound.tolist(), strict=True))
