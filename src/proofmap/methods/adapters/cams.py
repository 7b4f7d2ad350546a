"""Class activation maps of pytorch-grad-cam and torch-cam by the name of their class: ``torch-cam:ScoreCAM``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor

from proofmap.core.errors import require
from proofmap.methods.adapters.library import Attribute, Call, LibraryMethod, LibraryNet, Parameters
from proofmap.methods.method import METHODS

LABEL_FREE = frozenset({"EigenCAM", "FEM", "KPCA_CAM"})
"""Classes of pytorch-grad-cam whose maps do not depend on the label."""
_MODEL = ("model", "target_layers")
RANDOM_GRAD_CAM = frozenset({"RandomCAM"})
RANDOM_TORCH_CAM = frozenset({"SSCAM", "SmoothGradCAMpp"})


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
    place = "pytorch_grad_cam"
    extra = "grad-cam"
    example = "ScoreCAM"
    random_classes = RANDOM_GRAD_CAM
    precision = torch.float32  # it computes with NumPy

    @property
    def label_free(self) -> bool:  # type: ignore[override]
        return self.call.name in LABEL_FREE

    @classmethod
    def serves(cls, kind: Any) -> bool:
        made = Parameters.of(kind.__init__).names
        return made[:2] == _MODEL and hasattr(kind, "forward") and kind.__name__ != "BaseCAM"

    def check(self, call: Call) -> None:
        made, called = self._parameters()
        self.check_options(call, ("layer", *made.names, *called), made.required)

    def takes_layer(self) -> bool:
        return True

    def _parameters(self) -> tuple[Parameters, tuple[str, ...]]:
        """The options of the constructor and of the call. Some classes pass the options of the call on to their ``forward``."""
        kind, given = self.class_named(self.call.name), ("input_tensor", "targets")
        called = (Parameters.of(kind.__call__, without=given), Parameters.of(kind.forward, without=given))
        return (
            Parameters.of(kind.__init__, without=(*_MODEL, "reshape_transform", "base_method")),
            tuple(dict.fromkeys(name for parameters in called for name in parameters.names)),
        )

    @contextmanager
    def opened(self, subject: LibraryNet) -> Iterator[Attribute]:
        options, made = self.call.options, self._parameters()[0].names
        options.pop("layer", None)
        given = {name: options.pop(name) for name in made if name in options}
        cam = self.class_named(self.call.name)(subject.module, subject.layers, **given)
        with cam if hasattr(cam, "__enter__") else nullcontext(cam):
            yield lambda images, labels: grad_cam_maps(cam, images, labels, **options)


@METHODS.register
class TorchCam(LibraryMethod):
    """Any class activation map of torch-cam: ``CLASS(classifier.as_module(), target_layer=layer)``.

    The library's maps are not scaled to [0, 1], and are enlarged bilinearly. If several layers are named, the library fuses their
    maps.
    """

    name = "torch-cam"
    description = "any class of torch-cam, such as torch-cam:SmoothGradCAMpp"
    reference = "Fernandez 2020"
    needs = frozenset({"layer"})
    package = "torchcam"
    place = "torchcam.methods"
    extra = "torch-cam"
    example = "SmoothGradCAMpp"
    random_classes = RANDOM_TORCH_CAM

    @property
    def signed(self) -> bool:  # type: ignore[override]
        return self.call.name == "CAM"  # the others are rectified

    @classmethod
    def serves(cls, kind: Any) -> bool:
        base = require("torchcam.methods.core", extra=cls.extra, purpose=cls.name)._CAM
        return issubclass(kind, base) and kind is not base

    def check(self, call: Call) -> None:
        made = self._parameters()
        self.check_options(call, ("layer", *made.names), made.required)

    def takes_layer(self) -> bool:
        return True

    def _parameters(self) -> Parameters:
        given = ("model", "target_layer", "input_shape", "reshape_transform", "enable_hooks")
        return Parameters.of(self.class_named(self.call.name).__init__, without=given)

    @contextmanager
    def opened(self, subject: LibraryNet) -> Iterator[Attribute]:
        options = self.call.options
        options.pop("layer", None)
        with self.class_named(self.call.name)(subject.module, target_layer=subject.layers, **options) as cam:
            yield lambda images, labels: torch_cam_maps(cam, images, labels)


def grad_cam_maps(cam: Any, images: Tensor, labels: Tensor, **options: Any) -> Any:
    """The maps ``(n, H, W)`` that an object of pytorch-grad-cam makes of images ``(n, *shape)`` for labels ``(n,)``."""
    targets = require("pytorch_grad_cam.utils.model_targets", extra="grad-cam", purpose="pytorch-grad-cam")
    wanted = [targets.ClassifierOutputTarget(int(label)) for label in labels]
    return cam(input_tensor=images, targets=wanted, **options)


def torch_cam_maps(cam: Any, images: Tensor, labels: Tensor, **options: Any) -> Tensor:
    """The maps ``(n, h, w)`` that an object of torch-cam makes of images ``(n, *shape)`` for labels ``(n,)``. The model runs once;
    the maps come from the values that the object's hooks recorded.
    """
    scores = cam.model(images)
    maps: list[Tensor] = cam(labels.tolist(), scores, normalized=False, **options)
    return maps[0] if len(maps) == 1 else cam.fuse_cams(maps)
