"""Class activation maps of pytorch-grad-cam by the name of their class: ``pytorch-grad-cam:ScoreCAM``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from proofmap.classifier import Classifier
from proofmap.core.errors import require
from proofmap.methods.adapters.library import LibraryMethod
from proofmap.methods.method import METHODS

_MODEL = ("model", "target_layers")
_GIVEN = ("input_tensor", "targets")


@METHODS.register
class PytorchGradCam(LibraryMethod):
    """Any class activation map of pytorch-grad-cam: ``CLASS(classifier.as_module(), target_layers=[layer])``.

    The library itself scales each map to [0, 1] and enlarges it. The options are those of the library's class and of its call, such
    as ``eigen_smooth=true``.
    """

    name = "pytorch-grad-cam"
    description = "any class of pytorch-grad-cam, such as pytorch-grad-cam:ScoreCAM"
    reference = "Gildenblat et al. 2021"
    needs = frozenset({"layer"})
    package = "grad-cam"
    root = "pytorch_grad_cam"
    place = "pytorch_grad_cam"
    extra = "grad-cam"
    example = "ScoreCAM"
    random_classes = frozenset({"RandomCAM"})
    precision = torch.float32  # it computes with NumPy

    @classmethod
    def ignores_labels(cls, kind: Any) -> bool:
        return kind.__name__ in ("EigenCAM", "FEM", "KPCA_CAM")

    @classmethod
    def serves(cls, kind: Any) -> bool:
        made = tuple(LibraryMethod.parameters(kind.__init__))
        return made[:2] == _MODEL and hasattr(kind, "forward") and kind.__name__ != "BaseCAM"

    def check(self) -> None:
        kind = self.class_named(self.call.name)
        # some classes pass the options of the call on to their forward
        called = {
            **LibraryMethod.parameters(kind.__call__, *_GIVEN),
            **LibraryMethod.parameters(kind.forward, *_GIVEN),
        }
        known = {**dict.fromkeys(("layer", *called), False), **self._made_with(kind)}
        self.check_options(known)

    @staticmethod
    def _made_with(kind: Any) -> dict[str, bool]:
        return LibraryMethod.parameters(kind.__init__, *_MODEL, "reshape_transform", "base_method")

    @classmethod
    def attributing(cls, made: Any, options: Mapping[str, Any]) -> Callable[[Tensor, Tensor], Any]:
        targets = require("pytorch_grad_cam.utils.model_targets", extra=cls.extra, purpose=cls.name)

        def attribute(images: Tensor, labels: Tensor) -> Any:
            wanted = [targets.ClassifierOutputTarget(int(label)) for label in labels]
            return made(input_tensor=images, targets=wanted, **options)

        return attribute

    @contextmanager
    def opened(
        self, classifier: Classifier, module: nn.Module, layers: list[nn.Module]
    ) -> Iterator[Callable[[Tensor, Tensor], Any]]:
        kind, options = self.class_named(self.call.name), self.call.options
        options.pop("layer", None)
        given = {name: options.pop(name) for name in self._made_with(kind) if name in options}
        cam = kind(module, layers, **given)
        with cam if hasattr(cam, "__enter__") else nullcontext(cam):
            yield self.attributing(cam, options)
