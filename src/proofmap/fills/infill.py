"""Generative infill: hidden positions are painted by a net that sees the shown positions.

    background = net(x where shown and gray elsewhere, holes),      holes = 1 where hidden.

Chang et al. 2019 hide pixels in this way (with the net of Yu et al. 2018), and so do Phang et al. 2020 (also with DFNet, Hong et al. 2019).
No such net comes with Proofmap; any function or torch module of this form can be used.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from proofmap.core.errors import InputError
from proofmap.core.inputs import Pictures
from proofmap.fills.fill import FILLS, Fill, rounded
from proofmap.plugins.identity import identity
from proofmap.plugins.python_file import from_python_file
from proofmap.plugins.settings import required, setting
from proofmap.session import Session

Painter = Callable[[Tensor, Tensor], Tensor]
_FORM = "(images, holes) -> images"


@FILLS.register
class Infill(Fill):
    """Hidden pixels show what an inpainting net paints there, given the shown pixels.

    ``net`` is a function or a torch module ``(images, holes) -> images``, or ``FILE.py:NAME`` of one. Images are ``(N, C, H, W)``
    in [0, 1], gray in the holes; holes are ``(N, 1, H, W)``, 1 where pixels are hidden. The result is clipped to [0, 1], and only
    its hidden pixels are used. A module is copied to the classifier's device and put into evaluation mode. The fill depends on what
    is shown: games, metrics, perturbation methods (Agarwal and Nguyen 2020) and ``fido`` can use it.

    >>> from proofmap.classifier import Classifier
    >>> f = Classifier(nn.Sequential(nn.Flatten(), nn.Linear(12, 2)), size=2)
    >>> fill = Infill(net=lambda images, holes: 0.25 * holes.expand_as(images))
    >>> keep = torch.tensor([[[True, False], [True, True]]])
    >>> fill.behind(Session(f), torch.ones(1, 3, 2, 2), torch.zeros(1, dtype=torch.long), keep)[0, 0]
    tensor([[1.0000, 0.2500],
            [1.0000, 1.0000]])
    """

    name = "infill"
    description = "hidden pixels painted by an inpainting net of yours"
    reference = "Chang et al. 2019"
    reads_mask = True
    takes = Pictures
    net: Any = required(f"FILE.py:NAME of a function or module {_FORM}, or the object", main=True)
    batch: int = setting(16, "number of images in one batch of the inpainting net", least=1, most=128)

    def prepare(self, session: Session) -> None:
        super().prepare(session)
        self._net(session)

    def backgrounds_behind(self, session: Session, images: Tensor, keys: Tensor, keep: Tensor) -> Tensor:
        inputs, (net, _) = session.inputs, self._net(session)
        gray = inputs.per_channel(inputs.neutral.to(images))
        shown, holes = torch.where(keep[:, None], images, gray), (~keep)[:, None].to(images)
        parts = zip(shown.split(self.batch), holes.split(self.batch), strict=True)
        with torch.no_grad():
            found = [self._painted(net, x, hole) for x, hole in parts]
        painted = torch.cat([shown[:0], *found])
        painted = painted if inputs.limits is None else painted.clamp(*inputs.limits)
        return torch.where(keep[:, None], images, painted)

    def record(self, session: Session) -> dict[str, object]:
        return {**self.settings(), "gray": rounded(session.inputs.neutral), **self._net(session)[1]}

    def _net(self, session: Session) -> tuple[Painter, Mapping[str, object]]:
        """The net that paints, on the classifier's device, and the record of its code, made before it is copied and called."""

        def build() -> tuple[Painter, Mapping[str, object]]:
            net = self.net
            if isinstance(net, str) and ".py:" in net:
                net = from_python_file(net, "net for infill")
            if not callable(net) or isinstance(net, type):
                raise InputError(
                    f"infill needs net = a function or a torch module {_FORM}, or FILE.py:NAME of one, not {self._net_name()}"
                )
            recorded = {"code": identity(net)}
            if isinstance(net, nn.Module):
                net = copy.deepcopy(net).to(session.net.device).eval().requires_grad_(False)
            return net, recorded

        return session.memo((self, "net"), build)

    def _painted(self, net: Painter, shown: Tensor, holes: Tensor) -> Tensor:
        found = net(shown.clone(), holes.clone())
        if not isinstance(found, Tensor) or found.shape != shown.shape or not bool(found.isfinite().all()):
            raise InputError(
                f"the infill {self._net_name()} must return finite images {tuple(shown.shape)} in [0, 1], not {found}"
            )
        return found.to(shown)

    def _net_name(self) -> str:
        net = self.net
        return net if isinstance(net, str) else str(getattr(net, "__qualname__", type(net).__name__))

    def settings(self) -> dict[str, object]:
        return {**super().settings(), "net": self._net_name()}

    def changes(self) -> list[str]:
        return [f"net={self._net_name()}", *(part for part in super().changes() if part.startswith("batch"))]
