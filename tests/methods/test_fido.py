"""FIDO: its losses against a plain loop, regions that are found, and fills that are told what is shown."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from proofmap.core import streams
from proofmap.fills.infill import Infill
from proofmap.methods import make_method
from proofmap.methods.masks.fido import FIDO
from tests.mask_toys import PATCH, SIZE, gradient_of, lively, logits_of, patch_task, seated
from tests.sessions import bound
from tests.toys import normal, pixels


def in_and_out(maps: Tensor) -> tuple[float, float]:
    """The mean of a map ``(1, 1, *SIZE)`` inside the patch and outside."""
    inside = torch.zeros(SIZE, dtype=torch.bool)
    inside[PATCH] = True
    return float(maps[0, 0][inside].mean()), float(maps[0, 0][~inside].mean())


def painter(shown: Tensor, holes: Tensor) -> Tensor:
    """A stand-in for an inpainting net: holes get the mean of what is shown, and all else is spoilt."""
    seen = (shown * (1 - holes)).sum(dim=(2, 3), keepdim=True) / (1 - holes).sum(
        dim=(2, 3), keepdim=True
    ).clamp_min(1)
    return seen * holes + 0.123 * (1 - holes)


@pytest.mark.parametrize("region", ["ssr", "sdr"])
def test_losses_over_a_fill_that_paints_are_those_of_a_plain_loop(region: str) -> None:
    f, images, labels = lively(), pixels(2, SIZE), torch.tensor([2, 0])
    s = FIDO(region=region, grid=8, samples=2, steps=4, l1=0.01, fill=Infill(net=painter))
    problem, slots = seated(bound(s, f), images, labels)
    for step, share in ((0, 0.0), (3, 1.0)):
        slots["step"].fill_(step)
        weights = normal(2, 1, 6, 8, seed=5 + step)
        keys = streams.step_keys(slots["keys"], slots["step"], 4)
        losses, gradient = gradient_of(problem, weights, slots)
        for i in range(2):
            own = weights[i, 0].double().requires_grad_(True)
            p = F.interpolate(own.sigmoid()[None, None], size=SIZE, mode="bilinear")[0, 0]
            loss = share * 0.01 * (p if region == "ssr" else 1 - p).sum()
            for k in range(2):
                u = streams.uniform(keys[i, k], p.numel()).view(SIZE).double()
                up = (((p / (1 - p)).log() + (u / (1 - u)).log()) / 0.1).sigmoid()
                hole = (up.detach() < 0.5).float()
                gray = f.inputs.per_channel(f.inputs.neutral)
                shown = torch.where(hole.bool(), gray, images[i])
                painted = torch.where(hole.bool(), painter(shown[None], hole[None, None])[0], images[i])
                log_q = logits_of(f, up * images[i] + (1 - up) * painted).log_softmax(dim=0)
                odds = log_q[labels[i]] - (1 - log_q[labels[i]].exp()).log()
                loss = loss + (-odds if region == "ssr" else odds) / 2
            (expected,) = torch.autograd.grad(loss, own)
            assert losses[i].item() == pytest.approx(loss.item(), rel=1e-3, abs=1e-3)
            torch.testing.assert_close(gradient[i, 0].double(), expected, rtol=5e-3, atol=1e-4)


@pytest.mark.parametrize("region", ["ssr", "sdr"])
def test_the_patch_is_found(region: str) -> None:
    f, image = patch_task()
    maps = FIDO(region=region, grid=16, fill="gray", l1=0.005)(f, image, torch.tensor([[0]]))
    inside, outside = in_and_out(maps)
    assert inside > 0.7 and outside < 0.2


@pytest.mark.parametrize(
    "settings",
    [
        {"method": "rise", "masks": 8},
        {"method": "occlusion"},
        {"method": "kernel-shap", "samples": 96},
        {"method": "fido", "steps": 2},
    ],
    ids=lambda settings: str(settings["method"]),
)
def test_methods_tell_the_fill_what_is_shown(settings: dict[str, object]) -> None:
    f, image = patch_task()
    asked: list[Tensor] = []

    def net(shown: Tensor, holes: Tensor) -> Tensor:
        asked.append(holes)
        return painter(shown, holes)

    made = make_method({**settings, "fill": Infill(net=net)})
    assert made(f, image, torch.tensor([[0]])).shape == (1, 1, *SIZE)
    holes = torch.cat(asked)
    assert 0 < holes.mean() < 1 and len({tuple(hole.flatten().tolist()) for hole in holes}) > 3


def test_hidden_pixels_alone_are_painted() -> None:
    """The bright patch is the label's only evidence, and what is painted over it is dark: occlusion marks the patch."""
    f, image = patch_task()
    made = make_method({"method": "occlusion", "window": 4, "fill": Infill(net=painter)})
    maps = made(f, image, torch.tensor([[0]]))
    inside, outside = in_and_out(maps)
    assert inside > 5 * outside and maps[0, 0][PATCH].min() > 0
