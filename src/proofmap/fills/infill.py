"""Generative infill: hidden positions are painted by a net that sees the shown positions.

    background = net(x where shown and gray elsewhere, holes),      holes = 1 where hidden.

Chang et al. 2019 hide pixels in this way (with the net of Yu et al. 2018), and so do Phang et al. 2020 (also with DFNet, Hong et al. 2019).
No such net comes with Proofmap; any function or torch module of this form can be used.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from proofmap.classifier import Classifier
from proofmap.core.errors import InputError
from proofmap.core.inputs import Pictures
from proofmap.fills.fill import FILLS, Fill, ReadyBehind, rounded, title_of
from proofmap.plugins.code import code_record
from proofmap.plugins.failures import check_call
from proofmap.plugins.python_file import from_python_file, is_python_file, split_python_file
from proofmap.plugins.settings import required, setting

Painter = Callable[[Tensor, Tensor], Tensor]
_FORM = "(images, holes) -> images"


@FILLS.register
class Infill(Fill):
    """Hidden pixels show what an inpainting net paints there, given the shown pixels.

    ``net`` is a function or a torch module ``(images, holes) -> images``, or ``FILE.py:NAME`` of one. Images are ``(N, C, H, W)``
    in [0, 1], gray in the holes; holes are ``(N, 1, H, W)``, 1 where pixels are hidden. The result is clipped to [0, 1], and only
    its hidden pixels are used. A module is copied to the classifier's device and put into evaluation mode. The fill depends on what
    is shown, so it is for games and metrics; methods take other fills.

    >>> f = Classifier(nn.Sequential(nn.Flatten(), nn.Linear(12, 2)), size=2)
    >>> fill = Infill(net=lambda images, holes: 0.25 * holes.expand_as(images))
    >>> keep = torch.tensor([[[True, False], [True, True]]])
    >>> fill.prepare(f).behind(torch.ones(1, 3, 2, 2), torch.zeros(1, dtype=torch.long), keep)[0, 0]
    tensor([[0.0000, 0.2500],
            [0.0000, 0.0000]])
    """

    name = "infill"
    description = "hidden pixels painted by an inpainting net of yours (for judging)"
    reference = "Chang et al. 2019"
    reads_mask = True
    takes = Pictures
    net: Any = required(f"FILE.py:NAME of a function or module {_FORM}, or the object", main=True)
    batch: int = setting(16, "number of images in one batch of the inpainting net", least=1, most=128)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.net, str) and (not callable(self.net) or isinstance(self.net, type)):
            raise InputError(
                f"infill needs net = a function or a torch module {_FORM}, not {title_of(self.net)}"
            )

    def prepare(self, classifier: Classifier) -> ReadyInfill:
        self.check_inputs(classifier.inputs)
        net = self._painter()
        # before it is copied and called
        recorded = {**self.settings(), "gray": rounded(classifier.inputs.neutral), **code_record(net)}
        if isinstance(net, nn.Module):
            net = copy.deepcopy(net).to(classifier.device).eval().requires_grad_(False)
        return ReadyInfill(self, classifier.inputs, recorded, net)

    def _painter(self) -> Painter:
        net: Any = self.net
        if isinstance(net, str):
            if not is_python_file(net):
                raise InputError(
                    f"infill: net = {net!r} must be FILE.py:NAME of a function or module {_FORM}"
                )
            file, name, _ = split_python_file(net)
            net = from_python_file(file, name, "net for infill")
            if not callable(net) or isinstance(net, type):
                raise InputError(
                    f"infill: {self.net} is {title_of(net)}, expected a function or a torch module {_FORM}"
                )
        call = net.forward if isinstance(net, nn.Module) else net
        check_call(call, f"the infill {title_of(self.net)}", "paint(images, holes)", None, None)
        return net  # type: ignore[no-any-return]

    def settings(self) -> dict[str, object]:
        return {**super().settings(), "net": title_of(self.net)}

    def changes(self) -> list[str]:
        batch = [] if self.batch == type(self).batch else [f"batch={self.batch}"]
        return [f"net={title_of(self.net)}", *batch]


@dataclass(frozen=True, eq=False)
class ReadyInfill(ReadyBehind):
    """The prepared fill, with its net on the classifier's device."""

    fill: Infill
    net: Painter

    def behind(self, images: Tensor, keys: Tensor, keep: Tensor) -> Tensor:
        gray = self.inputs.per_channel(self.inputs.neutral.to(images))
        shown, holes = torch.where(keep[:, None], images, gray), (~keep)[:, None].to(images)
        parts = zip(shown.split(self.fill.batch), holes.split(self.fill.batch), strict=True)
        with torch.no_grad():
            found = torch.cat([self._part(x, hole) for x, hole in parts]) if len(images) else shown
        low, high = self.inputs.limits or (0.0, 1.0)
        return found.clamp(low, high)

    def _part(self, shown: Tensor, holes: Tensor) -> Tensor:
        who, found = f"the infill {title_of(self.fill.net)}", self.net(shown.clone(), holes.clone())
        if not isinstance(found, Tensor) or found.shape != shown.shape:
            given = tuple(found.shape) if isinstance(found, Tensor) else type(found).__name__
            raise InputError(f"{who} returned {given}, expected images {tuple(shown.shape)} in [0, 1]")
        found = found.to(shown)
        if not bool(found.isfinite().all()):
            raise InputError(
                f"{who} returned values that are not finite; check its weights and its input's range"
            )
        return found
