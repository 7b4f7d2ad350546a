"""The fill that a net paints: what the net is given, what is seen of its answer, what is recorded and refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import proofmap as pm
from proofmap.core import streams
from proofmap.core.errors import InputError
from proofmap.fills import make_fill
from proofmap.fills.infill import Infill
from proofmap.metrics import insertion
from tests.lazily import Lazily
from tests.sessions import bound
from tests.toys import PICTURES, classifier_of, conv_classifier, pixels, values

cv2 = Lazily("cv2")


class Diffusion(nn.Module):
    """A net that paints holes with weighted means of what is shown, ever further away; it has weights and a mode."""

    def __init__(self, channels: int = 3) -> None:
        super().__init__()
        self.mix = nn.Conv2d(channels, channels, 3, padding=1, groups=channels, bias=False)
        self.drop = nn.Dropout(0.9)
        nn.init.constant_(self.mix.weight, 1 / 9)

    def forward(self, images: Tensor, holes: Tensor) -> Tensor:
        x = images
        for _ in range(8):
            x = torch.where(holes > 0, self.drop(self.mix(x)), images)
        return x


def half_shown(x: Tensor) -> Tensor:
    keep = torch.zeros(len(x), *x.shape[2:], dtype=torch.bool)
    keep[:, :, : x.shape[3] // 2] = True
    return keep


def test_the_net_sees_gray_in_the_holes_and_paints_them() -> None:
    f, x = conv_classifier(), pixels(3, 8)
    seen: list[tuple[Tensor, Tensor]] = []

    def paint(images: Tensor, holes: Tensor) -> Tensor:
        seen.append((images.clone(), holes.clone()))
        images.zero_()  # its own copy
        return 1.5 * images + 2 * holes  # beyond the limits

    keep = half_shown(x)
    ready = bound(Infill(net=paint, batch=2), f)
    found = ready.behind(x, streams.image_keys(x, 0, "fill"), keep)
    assert [len(images) for images, _ in seen] == [2, 1]
    images, holes = (torch.cat(parts) for parts in zip(*seen, strict=True))
    gray = f.inputs.per_channel(f.gray)
    torch.testing.assert_close(images, torch.where(keep[:, None], x, gray))
    assert torch.equal(holes[:, 0], (~keep).float())
    assert found.max() == 1 and torch.equal(found, holes.expand_as(found))
    assert torch.equal(ready(x, streams.image_keys(x, 0, "fill")), torch.ones_like(x))  # nothing is shown


def test_games_are_played_on_what_it_paints() -> None:
    f, x = conv_classifier(), pixels(2, 8)
    labels, maps = (
        f.top(x, 1),
        torch.rand(2, 1, *f.inputs.positions, generator=torch.Generator().manual_seed(0)),
    )
    net = Diffusion().eval()
    curves = insertion(f, x, maps, labels, fill=Infill(net=net), points=4)
    order = maps.flatten(2).argsort(dim=2, descending=True)[:, 0]
    for place, count in enumerate(curves.counts.tolist()):
        keep = torch.zeros(2, order.shape[1], dtype=torch.bool)
        keep.scatter_(1, order[:, :count], True)
        keep = keep.view(2, *f.inputs.positions)
        with torch.no_grad():
            painted = net(
                torch.where(keep[:, None], x, f.inputs.per_channel(f.gray)), (~keep)[:, None].float()
            )
        shown = torch.where(keep[:, None], x, painted.clamp(0, 1))
        expected = f.probabilities(shown).gather(1, labels)
        torch.testing.assert_close(curves.probabilities[:, :, place], expected, rtol=1e-4, atol=1e-6)


def test_the_users_net_stays_as_it_is_and_is_used_in_evaluation_mode() -> None:
    f, x, net = conv_classifier(), pixels(2, 8), Diffusion().train()
    keys = streams.image_keys(x, 0, "fill")
    ready = bound(Infill(net=net), f)
    assert torch.equal(
        ready.behind(x, keys, half_shown(x)), ready.behind(x, keys, half_shown(x))
    )  # no dropout
    assert net.training and net.mix.weight.requires_grad
    before = ready.record()
    with torch.no_grad():
        net.mix.weight.mul_(0.5)
    assert ready.record() == before != bound(Infill(net=net), f).record()  # the weights are in the record


def test_a_file_names_the_net_and_its_code_is_recorded(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("import torch\ndef dark(images, holes):\n    return torch.zeros_like(images)\n")
    fill = make_fill(f"infill:{file}:dark")
    f, x = conv_classifier(), pixels(1, 8)
    assert fill.title() == f"infill:net={file}:dark"
    first = bound(fill, f)
    assert float(first(x, streams.image_keys(x, 0, "fill")).max()) == 0
    file.write_text("import torch\ndef dark(images, holes):\n    return torch.zeros_like(images) + .25\n")
    again = bound(make_fill(f"infill:{file}:dark"), f)
    assert first.record() != again.record()
    found = pm.evaluate(
        f, x, methods=["gradient"], metrics=[f"insertion:fill=infill({file}:dark)"], labels="top1"
    )
    assert "infill" in found.table()


def test_opencv_paints_a_smooth_picture_nearly_as_it_was() -> None:
    cv2 = pytest.importorskip("cv2", reason="OpenCV comes with the extra grad-cam")

    def telea(images: Tensor, holes: Tensor) -> Tensor:
        painted = [
            cv2.inpaint(
                (255 * image).round().byte().permute(1, 2, 0).numpy(),
                hole[0].byte().numpy(),
                3,
                cv2.INPAINT_TELEA,
            )
            for image, hole in zip(images, holes, strict=True)
        ]
        return torch.from_numpy(np.stack(painted)).permute(0, 3, 1, 2) / 255

    f = classifier_of(PICTURES)
    size = f.inputs.positions
    smooth = F.interpolate(torch.linspace(0.2, 0.8, 12).view(1, 3, 2, 2), size=size, mode="bilinear")
    keep = torch.ones(1, *size, dtype=torch.bool)
    keep[:, size[0] // 2, 1:-1] = False
    found = bound(Infill(net=telea), f).behind(smooth, torch.zeros(1, dtype=torch.long), keep)
    gray = f.inputs.per_channel(f.gray).expand_as(smooth)
    hidden = (~keep)[:, None].expand_as(smooth)
    assert (found - smooth)[hidden].abs().max() < 0.05 < (gray - smooth)[hidden].abs().max()


@pytest.mark.parametrize(
    "net, message",
    [
        (3, "net = a function or a torch module .* not int"),
        (Diffusion, "not Diffusion"),
        ("painter", "or FILE.py:NAME of one, not painter"),
        (lambda images, holes: holes, "must return finite images"),
        (lambda images, holes: None, "must return finite images .* not None"),
        (lambda images, holes: images / 0 - images / 0, "must return finite images"),
    ],
)
def test_what_paints_nothing_is_refused(net: Any, message: str) -> None:
    f, x = conv_classifier(), pixels(1, 8)
    with pytest.raises(InputError, match=message):
        bound(Infill(net=net), f)(x, streams.image_keys(x, 0, "fill"))


def test_it_is_for_judging() -> None:
    with pytest.raises(InputError, match="infill"):
        pm.LearnedMask(fill=Infill(net=Diffusion()))(
            classifier_of(PICTURES), values(PICTURES, 1), torch.tensor([[0]])
        )
