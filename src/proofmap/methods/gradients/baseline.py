"""What methods have in common that share out the change of a logit from a baseline x' to the input."""

from __future__ import annotations

from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core import streams
from proofmap.fills import Fill, ReadyFill
from proofmap.methods.method import Method, ReadyMethod

DRAWS_HELP = "baselines drawn, where they are random"


class BaselineMethod(Method):
    """A method with a baseline x', any fill, which is drawn ``draws`` times where it is random.

    The settings are declared by each method, among its own: their order is that of titles.
    """

    baseline: Fill
    draws: int

    @property
    def stochastic(self) -> bool:  # type: ignore[override]
        return self.baseline.random

    @property
    def ways(self) -> int:
        """Baselines of an image; one is enough for a fill that is not random."""
        return self.draws if self.baseline.random else 1

    def state_for(self, classifier: Classifier) -> ReadyFill:
        return self.baseline.prepare(classifier)

    def record(self, ready: ReadyMethod) -> dict[str, object]:
        return {**self.settings(), "baseline": ready.state.record()}

    def keys_of_ways(self, images: Tensor, seed: int) -> list[Tensor]:
        """The keys ``(N,)`` that the baselines of each way are drawn with."""
        return [streams.image_keys(images, seed, way, self.name) for way in range(self.ways)]
