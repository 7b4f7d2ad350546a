"""SHAP's explainers as methods, for every label: ``shap:KernelExplainer``, ``shap:PermutationExplainer``, ``shap:TreeExplainer``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.classifier.probability_models import ProbabilityModel
from proofmap.core import streams
from proofmap.core.errors import InputError, require
from proofmap.core.inputs import Inputs
from proofmap.core.labels import NO_LABEL
from proofmap.core.progress import Progress
from proofmap.core.tensors import exact
from proofmap.core.text import did_you_mean
from proofmap.methods.adapters.library import NamedClass, in_library
from proofmap.methods.method import ADOPTED, METHODS, Cost, Method
from proofmap.methods.perturbation.regions import MaskedNet, RegionMethod, Regions
from proofmap.plugins.settings import required
from proofmap.session import Session

Array = NDArray[np.float64]
Values = Callable[[Array], Array]
"""A function from masks of the shown regions ``(B, K)`` to values of the labels ``(B, L)``."""

_TREE = "TreeExplainer"


@METHODS.register
class Shap(NamedClass, RegionMethod):
    """Shapley values by an explainer of the package shap.

    KernelExplainer and PermutationExplainer hide positions as metrics do: a player is a region (a column, a superpixel, a segment),
    and an absent player shows the ``fill``. For rows and the gray fill this is SHAP with the mean row as its background.
    TreeExplainer reads the trees of the model instead, and its values are those of the model's raw output: probabilities of a
    random forest, log-odds of boosted trees. Options in brackets go to the explainer, or to its call:
    ``shap:KernelExplainer(nsamples=200)``, ``shap:TreeExplainer(model_output=raw)``.
    """

    name = "shap"
    family = "adapter"
    package = "shap"
    example = "KernelExplainer"
    reference = "Lundberg and Lee 2017"
    description = "Shapley values by an explainer of the package shap"
    signed = True

    of: str = required("KernelExplainer, PermutationExplainer or TreeExplainer, with its options in brackets", main=True)  # fmt: skip

    def check(self) -> None:
        call = self.call
        known = (*_EXPLAINERS, _TREE)
        if call.name not in known:
            raise InputError(
                f"shap:{call.name} is not known; there are {', '.join(known)}.{did_you_mean(call.name, known)}"
            )

    @property
    def stochastic(self) -> bool:  # type: ignore[override]
        return self.call.name in ("KernelExplainer", "PermutationExplainer") or super().stochastic

    def passes(self, inputs: Inputs, labels: int) -> int:
        raise NotImplementedError  # shap decides

    def cost(self, labels: int, session: Session | None = None) -> Cost | None:
        return None

    def record(self, session: Session) -> dict[str, object]:
        require("shap", extra="shap", purpose=f"the method {self.title()}")
        return {**super().record(session), "library": f"shap {version('shap')}"}

    def maps(self, session: Session, images: Tensor, labels: Tensor) -> Tensor:
        if self.call.name != _TREE:
            return super().maps(session, images, labels)
        with in_library(self.title(), 0, images.device):
            values = self._of_trees(session.net, images)
        asked = torch.where(labels == NO_LABEL, labels[:, :1], labels)
        chosen = values.gather(1, asked[..., None].expand(-1, -1, values.shape[2]))
        return session.inputs.merged_channels(chosen)

    def _of_trees(self, classifier: Classifier, images: Tensor) -> Tensor:
        """Shapley values ``(N, A, columns)`` for all A labels, by TreeExplainer."""
        shap = require("shap", extra="shap", purpose=f"the method {self.title()}")
        net = classifier.net
        if not isinstance(net, ProbabilityModel) or net.columns is None or hasattr(net.model, "steps"):
            raise InputError(
                f"{self.title()} needs a model of trees itself, not a net, a function or a pipeline around it; "
                "use shap:KernelExplainer"
            )
        found = np.asarray(
            shap.TreeExplainer(net.model, **self.call.options)(net.columns.decode(images)).values
        )
        if found.ndim == 2:  # of one number: the probability of the second of two labels, or a prediction
            found = found[..., None] * net.directions(images).numpy()[:, None]
        if found.shape[2] != len(classifier.names):
            raise InputError(
                f"{self.title()} returned values of {found.shape[2]} outputs for {len(classifier.names)} labels"
            )
        return exact(torch.from_numpy(found.astype(np.float64)).transpose(1, 2), images.device)

    def values(self, net: MaskedNet, regions: Regions, progress: Progress) -> Tensor:
        shap = require("shap", extra="shap", purpose=f"the method {self.title()}")
        device, count = net.images.device, regions.count
        explain, options = _EXPLAINERS[self.call.name], self.call.options
        found = []
        with progress.task(self.title(), len(net.images)) as task:
            for k in range(len(net.images)):
                image = torch.tensor(k, device=device)

                def read(shown: Array, image: Tensor = image) -> Array:
                    masks = torch.from_numpy(np.asarray(shown) > 0.5).to(device)
                    several = image.expand(len(masks))
                    limit = net.classifier.batches[0].size
                    parts = [
                        net(
                            several[a : a + limit],
                            regions.keep(several[a : a + limit], part),
                            several[a : a + limit] * 0,
                        )
                        for a, part in zip(range(0, len(masks), limit), masks.split(limit), strict=True)
                    ]
                    return torch.cat(parts).cpu().double().numpy()

                key = int(streams.random_words(net.keys[k : k + 1], 1)[0, 0])
                with in_library(self.title(), key, device):
                    found.append(explain(shap, read, count, options))
                task.advance(1)
        stacked = np.stack(found) if found else np.zeros((0, count, net.labels.shape[1]))
        return exact(torch.from_numpy(stacked).transpose(1, 2), device)


def _kernel(shap: Any, values: Values, count: int, options: Mapping[str, Any]) -> Array:
    """Shapley values ``(K, L)`` of K = ``count`` regions for L labels, by KernelExplainer."""
    explainer = shap.KernelExplainer(values, np.zeros((1, count)))
    found = explainer.shap_values(np.ones((1, count)), **{"silent": True, **options})
    return np.asarray(found, dtype=np.float64).reshape(count, -1)


def _permutation(shap: Any, values: Values, count: int, options: Mapping[str, Any]) -> Array:
    seed = int(np.random.randint(2**31))  # noqa: NPY002  (of this row's generator; without one, shap seeds it from the system)
    explainer = shap.PermutationExplainer(values, shap.maskers.Independent(np.zeros((1, count))), seed=seed)
    least = {"max_evals": max(500, 2 * count + 1), "silent": True}
    found = explainer(np.ones((1, count)), **{**least, **options}).values
    return np.asarray(found, dtype=np.float64).reshape(count, -1)


_EXPLAINERS = {
    "KernelExplainer": _kernel,
    "PermutationExplainer": _permutation,
}


def _no_explainer(thing: Any) -> Method | None:
    """None; for an explainer object of shap, which reads data in a form of its own, an error that says what to write."""
    kinds = [kind.__name__ for kind in type(thing).__mro__ if kind.__module__.partition(".")[0] == "shap"]
    if not kinds:
        return None
    name = next((kind for kind in kinds if kind in (*_EXPLAINERS, _TREE)), "")
    named = (
        f"write its name instead, methods=['shap:{name}'] (options in brackets), or " if name else "write "
    )
    raise InputError(
        f"an object of shap, such as this {type(thing).__name__}, is no method; {named}a function (classifier, images, labels) -> maps "
        "(N, L, *positions) that returns its values for each label in labels"
    )


ADOPTED.insert(0, _no_explainer)  # before functions: explainers can be called too
