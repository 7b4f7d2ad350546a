"""Objects of Captum, pytorch-grad-cam and torch-cam as methods: ``pm.evaluate(..., methods=[Saliency(f.as_module())])``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core.errors import InputError
from proofmap.methods.adapters import captum
from proofmap.methods.adapters.cams import (
    LABEL_FREE,
    RANDOM_GRAD_CAM,
    RANDOM_TORCH_CAM,
    grad_cam_maps,
    torch_cam_maps,
)
from proofmap.methods.adapters.library import Attribute, label_by_label, library_errors
from proofmap.methods.from_function import returned_maps
from proofmap.methods.gradients.plain import Channels
from proofmap.methods.method import ADOPTED, Method
from proofmap.plugins.identity import identity
from proofmap.plugins.settings import required, setting
from proofmap.session import Session

_PACKAGES = {"captum": "captum", "pytorch_grad_cam": "grad-cam", "torchcam": "torchcam"}
_RANDOM = captum.RANDOM | RANDOM_GRAD_CAM | RANDOM_TORCH_CAM
_MODELS = ("forward_func", "model")


@dataclass(frozen=True, kw_only=True)
class FromObject(Method):
    """An object of Captum, pytorch-grad-cam or torch-cam as a method. It must have been made with ``classifier.as_module()``.

    ``options`` are passed to Captum's ``attribute``, or to the call of an object of the other libraries::

        FromObject(of=Occlusion(f.as_module()), options={"sliding_window_shapes": (3, 8, 8)})

    If the object takes baselines and ``options`` has none, it gets the input that normalises to zero, as with ``captum:NAME``.
    """

    name = "object"
    family = "adapter"
    description = "an object of Captum, pytorch-grad-cam or torch-cam"
    revision = 2
    of: Any = required("the object, made with classifier.as_module()")
    options: Any = setting((), "keyword arguments for the object's attribute() or its call, as a dictionary")
    channels: Channels = setting("sum", "how the channels of a position become one value")

    def __post_init__(self) -> None:
        super().__post_init__()
        if library_of(self.of) is None:
            kinds = "Captum, pytorch-grad-cam or torch-cam"
            raise InputError(f"{type(self.of).__name__} is not an object of {kinds}")
        given = self.options.items() if isinstance(self.options, Mapping) else self.options
        object.__setattr__(self, "options", tuple(given))

    @property
    def signed(self) -> bool:  # type: ignore[override]
        kind = type(self.inner).__name__
        return library_of(self.of) == "captum" and captum.has_signs(kind, dict(self.options))

    @property
    def inner(self) -> Any:
        """The attribution object. If it wraps another one, as a NoiseTunnel does, the wrapped object."""
        return getattr(self.of, "attribution_method", self.of)

    @property
    def lacks_baselines(self) -> bool:
        """Whether the object takes baselines but none are given."""
        takes = library_of(self.of) == "captum" and captum.takes_baselines(type(self.inner))
        return takes and "baselines" not in dict(self.options)

    @property
    def stochastic(self) -> bool:  # type: ignore[override]
        return not _RANDOM.isdisjoint(kind.__name__ for kind in type(self.of).__mro__)

    @property
    def label_free(self) -> bool:  # type: ignore[override]
        if library_of(self.of) == "captum":
            return not captum.takes_target(type(self.of))
        return library_of(self.of) == "pytorch_grad_cam" and type(self.of).__name__ in LABEL_FREE

    def settings(self) -> dict[str, object]:
        """The settings that identify the object: the library's version, options, plain attributes, and the code of the user's class."""
        package = _PACKAGES[str(library_of(self.of))]
        options = {
            key: value if isinstance(value, (bool, int, float, str)) else _written(value)
            for key, value in self.options
        }
        plain = {
            key.lstrip("_"): value
            for key, value in vars(self.of).items()
            if isinstance(value, (bool, int, float, str))
        }
        own = type(self.of).__module__.partition(".")[0] not in _PACKAGES
        return {
            "method": self._title_name(),
            "library": f"{package} {version(package)}",
            **({"code": identity(type(self.of))} if own else {}),
            **({"attributes": plain} if plain else {}),
            **({"options": options} if options else {}),
            "channels": self.channels,
        }

    def _title_name(self) -> str:
        return type(self.of).__name__

    def prepare(self, session: Session) -> None:
        super().prepare(session)
        model = next((getattr(self.of, name) for name in _MODELS if hasattr(self.of, name)), None)
        if model is not None and not _is_of(model, session.net):
            raise InputError(
                f"the {self._title_name()} was not made for this classifier: its model does not return the "
                f"classifier's logits. Make it with {self._title_name()}(classifier.as_module(), ...), which takes images "
                "in [0, 1]"
            )

    def record(self, session: Session) -> dict[str, object]:
        """The settings, and the baseline that is passed to Captum."""
        baseline = captum.usual_baseline(type(self.inner), session.net) if self.lacks_baselines else {}
        return {**self.settings(), **baseline}

    def maps(self, session: Session, images: Tensor, labels: Tensor) -> Tensor:
        with library_errors(self._title_name()):
            attribute = self._attribute(session.net)
            return label_by_label(self, session, images, labels, attribute, self._merged)

    def _attribute(self, classifier: Classifier) -> Attribute:
        made, options = self.of, dict(self.options)
        if self.lacks_baselines:
            options["baselines"] = captum.baselines(type(self.inner).__name__, captum.GRAY, classifier)
        match library_of(made):
            case "captum":
                aimed = captum.takes_target(type(made))
                return lambda x, a: made.attribute(x, **({"target": a} if aimed else {}), **options)
            case "pytorch_grad_cam":
                return lambda x, a: grad_cam_maps(made, x, a, **options)
            case _:
                return lambda x, a: torch_cam_maps(made, x, a, **options)

    def _merged(self, found: Any, classifier: Classifier) -> Tensor:
        if library_of(self.of) == "captum":
            return captum.merged_attribution(found, classifier, self.channels, self._title_name())
        return returned_maps(found, self._title_name())


def _written(value: object) -> str:
    """An option for the record: its text, or its type and a digest if the text would be incomplete."""
    if isinstance(value, (tuple, list)) and all(isinstance(item, (int, float, str, tuple)) for item in value):
        return str(value)
    return f"{type(value).__name__} {identity(value)}"


def library_of(thing: Any) -> str | None:
    """The name of the library that an attribution object belongs to, also if its class is derived from a class of the library; None
    if it belongs to no known library.
    """
    for kind in type(thing).__mro__:
        root = kind.__module__.partition(".")[0]
        if root in _PACKAGES and (hasattr(thing, "attribute") if root == "captum" else callable(thing)):
            return root
    return None


def _is_of(model: Any, classifier: Classifier) -> bool:
    """Whether a model returns this classifier's logits or probabilities for a probe."""
    probe = classifier.inputs.probe().to(classifier.device)
    with torch.no_grad():
        try:
            found = torch.as_tensor(model(probe)).float()
        except Exception:  # it takes something else
            return False
        logits = classifier(probe)
        log_f = classifier.log_f(logits)
    return any(
        found.shape == own.shape
        and bool(((found - own).abs() <= 1e-2 * (1 + own.abs()))[own.isfinite()].all())
        for own in (logits, log_f, log_f.exp())
    )


def _from_object(thing: Any) -> Method | None:
    return None if library_of(thing) is None else FromObject(of=thing)


ADOPTED.insert(0, _from_object)  # before functions: such objects can be called too
