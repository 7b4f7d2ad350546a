"""Score-CAM: each channel is tried as a mask, and the masked images serve all labels at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core.batching import in_batches
from proofmap.core.progress import Progress, Task
from proofmap.methods.cams.cam import CAM, enlarged
from proofmap.methods.cams.layers import activations_of
from proofmap.methods.method import METHODS, Cost, Need, ReadyMethod
from proofmap.plugins.settings import setting

_IMAGES = 64
"""The activations of so many images are held at once."""


@METHODS.register
@dataclass(frozen=True, kw_only=True)
class ScoreCAM(CAM):
    """Score-CAM (Wang et al. 2020): relu(sum_k w_k A_k), w = softmax over k of the score of label a for the image x H_k.

    H_k is channel A_k, enlarged to the input and scaled to [0, 1]; the image is multiplied by it after normalisation, so
    what is hidden shows gray. The score is the logit. Passes: one per channel, for any number of labels.

    Presets: ``paper`` (the defaults), ``released`` (the authors' own code, where w_k is the probability itself),
    ``pytorch-grad-cam`` (where channels are enlarged from corner to corner).
    """

    name: ClassVar[str] = "score-cam"
    reference: ClassVar[str] = "Wang et al. 2020"
    description: ClassVar[str] = "feature maps, each weighted by the score of the image that it shows"
    needs: ClassVar[frozenset[Need]] = frozenset({"layer"})
    shortcuts: ClassVar[Mapping[str, Mapping[str, Mapping[str, Any]]]] = {
        "preset": {
            "paper": {},
            "released": {"score": "probability", "weights": "score"},
            "pytorch-grad-cam": {"align_corners": True},
        }
    }
    score: Literal["logit", "probability"] = setting("logit", "what is read off for a masked image")
    weights: Literal["softmax", "score"] = setting(
        "softmax", "a softmax of the scores over channels, or the scores"
    )
    align_corners: bool = setting(False, "enlarge channels so that corners lie on corners")

    def cost_on(self, ready: ReadyMethod, labels: int) -> Cost:
        """One pass to have the channels, and one for each of them."""
        return Cost(forward=1 + ready.state.channels)

    def make_maps(
        self, ready: ReadyMethod, images: Tensor, labels: Tensor, *, seed: int, progress: Progress
    ) -> Tensor:
        with progress.task(self.name, len(images) * (1 + ready.state.channels)) as task:
            blocks = zip(images.split(_IMAGES), labels.split(_IMAGES), strict=True)
            return torch.cat([self._block(ready, x, a, task) for x, a in blocks])

    def _block(self, ready: ReadyMethod, images: Tensor, labels: Tensor, task: Task) -> Tensor:
        classifier = ready.classifier

        def run(start: int, stop: int) -> Tensor:
            channels = activations_of(classifier, ready.state, images[start:stop])
            task.advance(stop - start)
            return channels

        activations = torch.cat(in_batches(run, len(images), classifier.batches[0]))
        scores = self.scores(classifier, images, activations, labels, task)
        weights = scores.softmax(dim=2) if self.weights == "softmax" else scores
        return enlarged(torch.einsum("nlk,nkhw->nlhw", weights, activations).relu(), images)

    @torch.no_grad()
    def scores(
        self, classifier: Classifier, images: Tensor, activations: Tensor, labels: Tensor, task: Task
    ) -> Tensor:
        """The score of each label ``(N, L, K)`` for the image seen through each channel."""
        fast, channels = classifier.frozen(), activations.shape[1]
        gray = classifier.inputs.per_channel(images.new_tensor(classifier.mean))

        def run(start: int, stop: int) -> Tensor:
            pair = torch.arange(start, stop, device=images.device)
            i, k = pair // channels, pair % channels
            masks = scaled(
                F.interpolate(
                    activations[i, k][:, None],
                    images.shape[2:],
                    mode="bilinear",
                    align_corners=self.align_corners,
                )
            )
            logits = fast(gray + masks * (images[i] - gray))
            task.advance(stop - start)
            values = logits if self.score == "logit" else classifier.log_f(logits).exp()
            return values.gather(1, labels[i].clamp_min(0))

        rows = in_batches(run, len(images) * channels, fast.batches[0])
        return torch.cat(rows).view(len(images), channels, -1).transpose(1, 2)


def scaled(masks: Tensor) -> Tensor:
    """Masks ``(B, 1, H, W)`` each scaled to [0, 1]; a constant one hides everything."""
    low, high = masks.amin(dim=(2, 3), keepdim=True), masks.amax(dim=(2, 3), keepdim=True)
    return torch.where(high > low, (masks - low) / (high - low).clamp_min(torch.finfo(masks.dtype).tiny), 0.0)
