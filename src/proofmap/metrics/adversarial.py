"""Adversarial soundness: the strongest proof of each wrong label that a stated number of passes finds.

A method is sound if its maps do not prove what the net does not believe. It may be sound only because it does not search for proofs of
wrong labels, although such proofs exist. This metric searches for them.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Literal

import torch
from torch import Tensor

from proofmap.core import streams
from proofmap.core.errors import InputError
from proofmap.core.inputs import Inputs
from proofmap.core.labels import NO_LABEL
from proofmap.methods.masks.belief import BeliefMask
from proofmap.methods.method import Cost, Method
from proofmap.methods.perturbation.additive import GreedyInsertion
from proofmap.metrics import scores
from proofmap.metrics.judged import Judged
from proofmap.metrics.metric import METRICS
from proofmap.metrics.proof_scores import ProofMetric
from proofmap.plugins.settings import setting
from proofmap.session import Session

Search = Literal["both", "greedy", "mask"]
_MOST_REGIONS = 50


@METRICS.register
class AdversarialSoundness(ProofMetric):
    """The smallest min(max(f, e2) / A*, 1) over an image's labels, without the net's top label, where

        A*(x, a) = the largest AUC(x, a, M) over the method's own map and the maps found by searches for a strong proof of a.

    Two searches share ``passes`` masked inputs per label: greedy insertion of superpixels, and a mask learned to make the area as
    large as possible, both on the fill of the curve. The value is never above the method's own soundness on these labels. It hardly
    differs between methods, because it measures what the net and the fill allow. If a method's soundness is far above it, the
    method did not search for such proofs, although they exist. More passes lower the value, apart from chance in the search. The
    value is NaN if only the top label is judged.
    """

    name = "adversarial-soundness"
    description = "soundness against the strongest proofs of wrong labels that a budget of passes finds"
    reference = f"{ProofMetric.reference} (soundness); Chen et al. 2024 (greedy search)"
    e2: float = setting(
        0.001, "floor of the label's probability f: a smaller f counts as e2", least=0, most=1
    )
    passes: int = setting(400, "masked inputs that the searches may use for each label", least=20)
    search: Search = setting(
        "both",
        "how strong proofs are searched for; greedy: show superpixels one by one; mask: learn a mask (needs gradients); both: half of the passes each",
    )

    def searches(self, inputs: Inputs) -> list[Method]:
        """The methods that search for proofs, each limited to its share of the passes."""
        share = self.passes // (2 if self.search == "both" else 1)
        found: list[Method] = []
        if self.search != "mask":
            found.append(_greedy(share, inputs).changed(fill=self.fill))
        if self.search != "greedy":
            learning = share - 2  # the rest finds where to start
            found.append(BeliefMask(passes=learning, target="strongest", smoothness=0.0, fills=(self.fill,)))
        return found

    def strongest(self, judged: Judged) -> Tensor:
        """A*(x, a): the largest area ``(N, L)`` that was found for each label."""
        return torch.fmax(self.curves(judged).auc, self._searched(judged))

    def pairs(self, judged: Judged) -> Tensor:
        wrong = (judged.labels != NO_LABEL) & (judged.labels != judged.top2[0][:, :1])
        found = scores.soundness(self.strongest(judged), self.curves(judged).f, self.e2)
        return found.masked_fill(~wrong, torch.nan)

    def from_pairs(self, judged: Judged, pairs: Tensor) -> Tensor:
        return scores.worst_case(pairs)

    def cost(self, labels: int, method: Cost | None) -> Cost | None:
        if self.points == "all":
            return None  # it depends on the number of positions
        draws = self.draws if self.fill.random else 1
        judging = Cost(forward=labels * self.points * draws + 1 + draws)
        share = self.passes // (2 if self.search == "both" else 1)
        greedy, mask = judging + Cost(forward=labels * share), judging + Cost(gradient=labels * share)
        return {"greedy": greedy, "mask": mask, "both": greedy + mask}[self.search]

    def record(self, session: Session) -> dict[str, object]:
        kinds = {
            "both": "greedy regions and learned masks",
            "greedy": "greedy regions",
            "mask": "learned masks",
        }
        searched = f"against the strongest proofs that {self.passes} passes per label found ({kinds[self.search]}); a bound from above"
        return {**super().record(session), "searched": searched}

    def _searched(self, judged: Judged) -> Tensor:
        """The largest areas ``(N, L)`` of the maps that the searches find. Results are cached, so each image is searched once in an
        evaluation.
        """
        session = judged.session.judging()
        session.refresh()
        known = session.memo((self, "strongest"), dict[Hashable, Tensor])
        rows = zip(streams.content_keys(judged.images), judged.labels.tolist(), strict=True)
        keys = [(session.seed, content, tuple(labels)) for content, labels in rows]
        new = [i for i, key in enumerate(keys) if key not in known]
        if new:
            images, labels = judged.images[new], judged.labels[new]
            areas = []
            for search in session.memo((self, "searches"), lambda: self.searches(judged.inputs)):
                maps = session.maps(search, images, labels)
                areas.append(Judged(session, images, labels, maps).play(self.game, matrix=False).auc)
            best = torch.stack(areas).amax(dim=0).cpu()
            known.update({keys[i]: best[k] for k, i in enumerate(new)})
        return torch.stack([known[key] for key in keys]).to(judged.labels.device)


def _greedy(passes: int, inputs: Inputs) -> GreedyInsertion:
    """The greedy search with the most trials at each step that ``passes`` per label allow.

    The labels of an image share the passes of the first step, but here these passes are counted for each label.
    """
    regions = max(2, min(_MOST_REGIONS, math.isqrt(4 * passes)))
    for candidates in range(regions, 0, -1):
        search = GreedyInsertion(regions=regions, candidates=candidates)
        if search.passes(inputs, 1) <= passes:
            return search
    raise InputError(
        f"greedy search over these {inputs.noun} needs {search.passes(inputs, 1)} passes for each label, and has {passes}; "
        "raise passes or use search=mask"
    )
