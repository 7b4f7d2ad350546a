"""SHAP's explainers as methods, for every label: ``shap:KernelExplainer``, ``shap:PermutationExplainer``, ``shap:TreeExplainer``."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from importlib.metadata import version
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.classifier.probability_models import ProbabilityModel
from proofmap.core import streams
from proofmap.core.errors import InputError, require
from proofmap.core.inputs import Columns, Inputs
from proofmap.core.labels import NO_LABEL, LabelRule
from proofmap.core.progress import Progress
from proofmap.core.tensors import exact
from proofmap.core.text import did_you_mean
from proofmap.methods.adapters.library import NamedClass, in_library
from proofmap.methods.by_columns import shares_of
from proofmap.methods.given import as_given
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
        if not isinstance(net, ProbabilityModel) or net.columns is None:
            raise InputError(
                f"{self.title()} needs a model of trees itself, not a net or a function around it; use shap:KernelExplainer"
            )
        trees, rows, shares = net.model, net.columns.decode(images), None
        if hasattr(trees, "steps"):
            rows, names = self._preprocessed(trees[:-1], rows, net.columns)
            trees, shares = (
                trees[-1],
                shares_of(names, net.columns, f"the steps before {type(trees[-1]).__name__}"),
            )
        found = np.asarray(shap.TreeExplainer(trees, **self.call.options)(rows).values)
        if shares is not None:
            found = np.moveaxis(np.tensordot(found, shares, (1, 0)), -1, 1)
        if found.ndim == 2:  # of one number: the probability of the second of two labels, or a prediction
            found = found[..., None] * net.directions(images).numpy()[:, None]
        if found.shape[2] != len(classifier.names):
            raise InputError(
                f"{self.title()} returned values of {found.shape[2]} outputs for {len(classifier.names)} labels"
            )
        return exact(torch.from_numpy(found.astype(np.float64)).transpose(1, 2), images.device)

    def _preprocessed(self, steps: Any, rows: Any, columns: Columns) -> tuple[Array, list[str]]:
        """Rows as the last step of a pipeline takes them, and the names of their columns."""
        try:
            given = {} if hasattr(steps, "feature_names_in_") else {"input_features": list(columns.names)}
            names = [str(name) for name in steps.get_feature_names_out(**given)]
            found = steps.transform(rows)
        except (AttributeError, ValueError) as error:
            raise InputError(
                f"{self.title()} must know which columns the steps of the pipeline make of which, and they do not say it ({error}); use "
                "shap:KernelExplainer"
            ) from error
        return np.asarray(found.toarray() if hasattr(found, "toarray") else found, dtype=np.float64), names

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


class FromExplainer(Method):
    """An explainer of shap as a method, an object made with the user's own model: ``shap.TreeExplainer(forest)``.

    It gets inputs as the model takes them: rows in a frame or array like those that it was fitted on, or a batch of normalised images. The
    values that it returns are read like maps that are given: see :func:`proofmap.methods.given.as_given`. Explainers that draw random numbers are
    called for each input by itself.
    """

    name = "explainer"
    family = "adapter"
    description = "an explainer of the package shap, as an object"
    signed = True
    of: Any = required("the explainer, made with your model")

    @property
    def stochastic(self) -> bool:  # type: ignore[override]
        return not {"TreeExplainer", "LinearExplainer", "AdditiveExplainer", "DeepExplainer"} & {
            kind.__name__ for kind in type(self.of).__mro__
        }

    def settings(self) -> dict[str, object]:
        return {"method": self._title_name(), "library": f"shap {version('shap')}"}

    def _title_name(self) -> str:
        return type(self.of).__name__

    def changes(self) -> list[str]:
        """Empty: the name of the class says it."""
        return []

    def maps(self, session: Session, images: Tensor, labels: Tensor) -> Tensor:
        if not self.stochastic:
            return self._values(session, images, labels, 0)
        keys = streams.content_keys(images)
        return torch.cat(
            [
                self._values(session, images[k : k + 1], labels[k : k + 1], streams.key_of(key, session.seed))
                for k, key in enumerate(keys)
            ]
        )

    def _values(self, session: Session, images: Tensor, labels: Tensor, key: int) -> Tensor:
        """The maps of some inputs, for their labels."""
        net, title = session.net, self._title_name()
        own = net.net if isinstance(net.net, ProbabilityModel) else None
        with in_library(title, key, images.device), torch.enable_grad():
            # a copy of an explainer of a torch net, which puts hooks into it
            explainer = self.of if own is not None else copy.deepcopy(self.of)
            found = explainer(own.inputs.decode(images.cpu()) if own else net.normalised(images))
        values = np.asarray(found.values, dtype=np.float64)
        if own is not None and values.ndim == 2:  # of one number: the second of two labels, or a prediction
            values = values[..., None] * own.directions(images).numpy()[:, None]
        every = LabelRule.parse("all", net.names, net.inputs.singular)
        names = getattr(found, "feature_names", None)
        named = SimpleNamespace(values=values, base_values=0, feature_names=names)
        return (
            as_given(named, title, net, len(images), every).read(range(len(images)), labels).to(images.device)
        )


def _explainer(thing: Any) -> Method | None:
    """An explainer of shap as a method. Other objects of shap are refused."""
    kinds = [kind for kind in type(thing).__mro__ if kind.__module__.partition(".")[0] == "shap"]
    if not kinds:
        return None
    if any(kind.__name__.endswith("Explainer") for kind in kinds):
        return FromExplainer(of=thing)
    raise InputError(
        f"an object of shap, such as this {type(thing).__name__}, is no method; give an explainer, or values in maps={{'shap': explanation}}"
    )


ADOPTED.insert(0, _explainer)  # before functions: explainers can be called too
