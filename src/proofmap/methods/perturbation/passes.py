"""What perturbation methods share: masked inputs, and the net's values of every label for them.

A masked input is ``keep * x + (1 - keep) * x'``, where ``keep`` is the mask and x' the background from the fill. The value of a label is
its probability, log-probability or logit. One pass of the net gives the values of all labels of an image, so the number of passes does not
depend on the number of labels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from proofmap.core import streams
from proofmap.core.batching import in_batches
from proofmap.core.inputs import Inputs, Pictures
from proofmap.core.labels import NO_LABEL
from proofmap.core.progress import Progress, ProgressTask
from proofmap.core.tensors import private_copy
from proofmap.fills import Fill, Gray
from proofmap.methods.method import Cost, Family, Method
from proofmap.plugins.settings import setting
from proofmap.session import Session

Quantity = Literal["probability", "log-probability", "logit"]
QUANTITY_HELP = "what is explained: the net's probability f, its logarithm, or the logit"
FILL_HELP = (
    "what hidden positions show; none: the mean of their region, or of the input if there are no regions"
)

Masks = Callable[[Tensor, Tensor], Tensor]
"""Function from the indices of images ``(B,)`` and of their samples ``(B,)`` to masks ``(B, *positions)``, 1 where shown."""
Draw = Callable[[Tensor], Tensor]
"""Function from the indices of samples ``(B,)`` to the indices ``(B,)`` of the draws of a random fill that the samples use."""

_USUAL = Pictures(size=(224, 224))
"""The kind of input for which passes are counted if no net is known yet."""


@dataclass(frozen=True, kw_only=True)
class PerturbationMethod(Method):
    """Base class of black-box methods, which hide parts of the input and read the values of the labels."""

    family: ClassVar[Family] = "perturbation"
    fill: Fill | None = setting(Gray(), FILL_HELP)
    quantity: Quantity = setting("probability", QUANTITY_HELP)

    @property
    def stochastic(self) -> bool:  # type: ignore[override]
        return self.fill is not None and self.fill.random

    def prepare(self, session: Session) -> None:
        super().prepare(session)
        if self.fill is not None:
            self.fill.prepare(session)

    def record(self, session: Session) -> dict[str, object]:
        own: dict[str, object] = {"fill": "own mean"}
        return {**self.settings(), "fill": own if self.fill is None else self.fill.record(session)}

    def cost(self, labels: int, session: Session | None = None) -> Cost | None:
        return Cost(forward=self.passes(_USUAL if session is None else session.inputs, labels))

    def passes(self, inputs: Inputs, labels: int) -> int:
        """Maximum number of masked inputs that are shown for one input with this number of labels."""
        raise NotImplementedError

    @torch.no_grad()
    def maps(self, session: Session, images: Tensor, labels: Tensor) -> Tensor:
        return self.explain(MaskedNet(self, session, images, labels), session.progress)

    def explain(self, net: MaskedNet, progress: Progress) -> Tensor:
        """Maps ``(N, L, *positions)`` of the images and labels of ``net``."""
        raise NotImplementedError


class MaskedNet:
    """Runs the net on masked images: returns the values of each image's labels for any number of masks, in full batches."""

    def __init__(self, method: PerturbationMethod, session: Session, images: Tensor, labels: Tensor) -> None:
        fill, seed = method.fill, session.seed
        self.session, self.classifier, self.inputs = session, session.net.frozen(), session.inputs
        self.images, self.labels = images, labels
        # places without a label read one of the label set, outside of which log f is not finite
        self._asked = torch.where(labels == NO_LABEL, labels[:, :1], labels)
        self.name, self.quantity = method.name, method.quantity
        self.keys = streams.image_keys(images, seed, method.name)
        """One stream for the masks of each image."""
        self._fill, self._fill_keys = fill, streams.image_keys(images, seed, method.name, "fill")
        self._fixed: Tensor | None = None
        if fill is None:
            self.hide_by_means(None)
        elif not fill.random:
            self._fixed = private_copy(fill(session, images, self._fill_keys))

    def hide_by_means(self, region: Tensor | None) -> None:
        """Let hidden positions show the mean of their region, or of the whole image if ``region`` is None. ``region`` ``(N, *positions)`` has
        the index of each position's region. If the method has a fill, do nothing.
        """
        if self._fill is None:
            self._fixed = region_means(self.images, region, self.inputs)

    @property
    def random(self) -> bool:
        """Whether the fill is random, so that two draws differ."""
        return self._fixed is None

    def sample_keys(self, image: Tensor, sample: Tensor) -> Tensor:
        """Keys ``(B,)`` of random numbers for the samples ``(B,)`` of images ``(B,)``."""
        return streams.step_keys(self.keys[image], sample, 1)[:, 0]

    def backgrounds(self, image: Tensor, draw: Tensor) -> Tensor:
        """Backgrounds ``(B, *shape)`` for the images with indices ``image`` ``(B,)``, at the draws ``draw`` ``(B,)`` of the fill."""
        if self._fixed is not None:
            return self._fixed[image]
        assert self._fill is not None, "without a fill, the backgrounds are fixed"
        keys = streams.step_keys(self._fill_keys[image], draw, 1)[:, 0]
        return self._fill(self.session, self.images[image], keys)

    def __call__(self, image: Tensor, keep: Tensor, draw: Tensor) -> Tensor:
        """The values ``(B, L)`` of the labels for one batch: images with indices ``image`` ``(B,)`` under masks ``keep`` ``(B, *positions)``,
        with backgrounds from the draws ``draw`` ``(B,)``.
        """
        shown = self.inputs.composite(keep, self.images[image], self.backgrounds(image, draw))
        logits = self.classifier(shown)
        if self.quantity != "logit":
            logits = self.classifier.log_f(logits)
        values = logits.gather(1, self._asked[image])
        return values.exp() if self.quantity == "probability" else values

    def samples(self, count: int, masks: Masks, progress: Progress, *, draw: Draw | None = None) -> Tensor:
        """The values ``(N, count, L)`` of the labels under ``count`` masks of each image.

        ``draw`` maps the indices of samples ``(B,)`` to those of the draws of a random fill; by default each sample has its own draw.
        """
        place = torch.arange(len(self.images) * count, device=self.images.device)
        with progress.task(self.name, len(place)) as task:
            values = self.read(place // count, place % count, masks, task, draw=draw)
        return values.view(len(self.images), count, -1)

    def read(
        self, image: Tensor, sample: Tensor, masks: Masks, task: ProgressTask, *, draw: Draw | None = None
    ) -> Tensor:
        """The values ``(J, L)`` of the labels for J masked images, which are shown in batches. They are given by the index ``(J,)`` of the
        image and the index ``(J,)`` of the sample.
        """
        values = torch.empty(len(image), self.labels.shape[1], device=image.device)

        def run(start: int, stop: int) -> None:
            which, number = image[start:stop], sample[start:stop]
            drawn = number if draw is None else draw(number)
            values[start:stop] = self(which, masks(which, number), drawn)
            task.advance(stop - start)

        in_batches(run, len(image), self.classifier.batches[0], item="masked image")
        return values


def region_means(images: Tensor, region: Tensor | None, inputs: Inputs) -> Tensor:
    """Images ``(N, *shape)`` in which every value is replaced by the mean over its region, or over the whole image if ``region`` is None.
    ``region`` ``(N, *positions)`` has the index of each position's region.

    The columns of a table have different units, so for rows the means are those of the table. Words have no mean, so texts show what the
    fill ``gray`` shows.
    """
    if inputs.channel_axis is None or not inputs.has_neighbours:
        return inputs.blank_like(images)
    channels = images.flatten(2)  # (N, C, n)
    if region is None:
        return channels.mean(dim=2, keepdim=True).expand_as(channels).reshape(images.shape)
    if tuple(region.shape[1:]) != tuple(images.shape[2:]):  # segments of a series
        region = inputs.over_channels(region)[:, 0]
    means = []
    for values, index in zip(channels, region.flatten(1), strict=True):
        inside = F.one_hot(index).to(values)  # a product adds in the same order each time
        means.append(((values @ inside) / inside.sum(dim=0).clamp_min(1))[:, index])
    return torch.stack(means).view_as(images)
