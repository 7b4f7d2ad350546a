"""The fill that a net paints: what the net is given, what is seen of its answer, what is recorded and refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import proofmap as pm
from proofmap.core import streams
from proofmap.core.errors import InputError
from proofmap.fills import make_fill
from proofmap.fills.infill import Infill
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
