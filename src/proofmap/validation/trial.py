"""What a validation measures with: the net, the methods' maps of each block of images, and every metric's values of maps that are given."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.classifier.blind import blinded
from proofmap.core import streams
from proofmap.core.errors import ProofmapError
from proofmap.core.labels import LabelRule
from proofmap.core.progress import Progress
from proofmap.core.text import one_line
from proofmap.data.given import Subjects
from proofmap.loop import judge_blocks
from proofmap.methods.given import GivenMaps
from proofmap.methods.method import Method
from proofmap.metrics.metric import Metric
from proofmap.plugins.settings import setting_names
from proofmap.results.statistics import Doubles
from proofmap.session import Session
from proofmap.validation.ladder import Places, Step

Values = dict[str, Doubles]
"""Values per image ``(N,)`` by the name of a metric."""


class Trial:
    """A net, methods and metrics, and the maps of one block of images after another."""

    def __init__(
        self,
        session: Session,
        methods: Mapping[str, Method],
        metrics: Mapping[str, Metric],
        rule: LabelRule,
        progress: Progress | None,
    ) -> None:
        self.session, self.methods, self.rule, self.progress = session, methods, rule, progress
        self._kept: dict[Hashable, Tensor] = {}
        self.metrics: dict[str, Metric] = {}
        self.untested: dict[str, str] = {}
        for name, metric in metrics.items():
            try:
                session.judging().prepare(metric)
                self.metrics[name] = metric
            except ProofmapError as error:
                self.untested[name] = one_line(str(error))

    def maps(self, session: Session, method: Method, block: Subjects) -> Tensor:
        """A method's maps ``(N, L, *positions)`` of a block. Several tests read them, so they are kept, on the CPU."""
        contents = streams.content_keys(block.images)
        key = id(session.net), method, *contents, *block.labels.flatten().tolist()
        if key not in self._kept:
            session = session.like(progress=self.progress or Progress())
            self._kept[key] = session.maps(method, block.images, block.labels).cpu()
        return self._kept[key].to(block.images.device)

    def values(
        self,
        session: Session,
        block: Subjects,
        maps: Tensor,
        there: Tensor | None = None,
        metrics: Mapping[str, Metric] | None = None,
    ) -> Values:
        """Every metric's values of given maps; NaN for images that are not ``there``. A metric that fails is not tested from then on."""
        asked = self.metrics if metrics is None else metrics
        given = GivenMaps(array="maps")
        subjects = replace(block, maps={given: maps})
        found: dict[str, Tensor] = {}

        def judge(some: Mapping[str, Metric]) -> Mapping[str, Tensor]:
            rows = judge_blocks(
                session, {"maps": given}, some, [subjects], curves=False, progress=self.progress
            )
            return next(iter(rows)).values

        try:
            found.update(judge(asked))
        except Exception:
            for name, metric in list(asked.items()):  # find the ones that fail
                try:
                    found.update(judge({name: metric}))
                except Exception as error:
                    self.metrics.pop(name, None)
                    self.untested[name] = one_line(str(error)).removeprefix(f"the metric {name}: ")
        exists = np.ones(len(block), dtype=bool) if there is None else there.cpu().numpy()
        return {name: np.where(exists, values.double().numpy(), np.nan) for name, values in found.items()}

    def steps(
        self,
        session: Session,
        block: Subjects,
        maps: Tensor,
        steps: Sequence[Step],
        blind: Tensor | None = None,
        metrics: Mapping[str, Metric] | None = None,
    ) -> dict[Step, Values]:
        """The values of maps after each step; steps that exist for no image are left out."""
        places = Places(session.inputs, block.images, block.labels, maps, session.seed)
        found = {}
        for step in steps:
            changed, there = places.after(step, blind)
            if bool(there.any()):
                found[step] = self.values(session, block, changed, there, metrics)
        return found

    def blind(self, draw: int) -> tuple[Session, Tensor]:
        """A session of the net that does not see a half of the positions, and that half ``(*positions)``. Each draw is another half."""
        half = self.session.inputs.half(self.session.seed * 1000 + draw).to(self.session.net.device)
        return self.session.memo(
            ("blind", draw), lambda: (self.session.for_net(blinded(self.session.net, half)), half)
        )

    @staticmethod
    def believed(session: Session, block: Subjects) -> Values:
        """1 for images whose first label is more probable than on the neutral input, by .01 or more; NaN for others, about whose maps nothing is known."""
        f = session.net.probabilities(torch.cat([session.net.blank(1), block.images]))
        f = f[:, block.labels[:, 0].clamp_min(0)]
        more = f[1:].diagonal() >= f[0] + 0.01
        return {"": np.where(more.cpu().numpy(), 1.0, np.nan)}

    def relabelled(self, net: Classifier, block: Subjects) -> Subjects:
        """The images with the labels that the rule chooses for another net."""
        if self.rule.kind not in ("top", "probable"):
            return replace(block, truth=None, boxes=(), objects=())
        labels = net.choose_labels(block.images, str(self.rule), seed=self.session.seed)
        return Subjects(block.images, labels, names=block.names)


def coarse(metric: Metric, points: int) -> Metric:
    """The metric with at most ``points`` steps of its curve, unless its settings say another number than the default."""
    usual = getattr(type(metric), "points", None)
    if (
        "points" not in setting_names(type(metric))
        or getattr(metric, "points", None) != usual
        or usual is None
    ):
        return metric
    return metric.changed(points=min(points, usual))


class Table:
    """Values ``(N,)`` of each metric, for every test and step; NaN where nothing was measured."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.columns: dict[tuple[str, str], Values] = {}

    def put(self, test: str, step: object, values: Mapping[str, Doubles], places: Sequence[int]) -> None:
        """Keep the values of the images with these indices."""
        own = self.columns.setdefault((test, str(step)), {})
        for name, found in values.items():
            own.setdefault(name, np.full(self.count, np.nan))[places] = found

    def get(self, test: str, step: object, name: str) -> Doubles:
        """The values ``(N,)`` of one metric."""
        return self.columns.get((test, str(step)), {}).get(name, np.full(self.count, np.nan))


def marked(maps: Tensor, half: Tensor, share: float, lengths: Tensor | None) -> Tensor:
    """For each image, the share ``(N,)`` of a map's top positions that lies in ``half`` ``(*positions)``; the mean over labels. At least one
    position is looked at."""
    found = []
    for i, own in enumerate(maps):
        n = half.numel() if lengths is None else int(lengths[i])
        flat = own.flatten(1)[:, :n]
        top = flat.topk(max(1, round(share * n)), dim=1).indices
        found.append(half.flatten()[:n].to(maps.device)[top].double().mean())
    return torch.stack(found).cpu()
