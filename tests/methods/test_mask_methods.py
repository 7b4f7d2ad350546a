"""What all mask methods bear: half precision, other numbers of channels, odd sizes, and company that leaves early."""

from __future__ import annotations

import pytest
import torch

import proofmap as pm
from tests.toys import MEAN, STD, conv_net, pixels

SPECS = [
    "diffmask:steps=2,grid=4,fill=noise",
    "extremal-perturbation:steps=2,areas=0.2,step=60,sigma=60",
    "fong-vedaldi:steps=2,grid=8",
    "iba:steps=2,samples=2,fill=noise,pool=8",
    "igos++:iterations=2,integration=2,grid=8",
]
LABELS = torch.tensor([[0, 1], [2, -1]])


@pytest.mark.parametrize("spec", SPECS)
def test_nets_in_half_precision_get_the_maps_of_the_same_net_in_full(spec: str) -> None:
    images, maps = pixels(2, (9, 11)), []
    for dtype in (torch.float32, torch.bfloat16):
        f = pm.Classifier(conv_net().to(dtype), size=(9, 11), mean=MEAN, std=STD)
        maps.append(pm.make_method(spec)(f, images, LABELS))
    assert bool(maps[1].isfinite().all()) and maps[1].dtype == torch.float32
    if "igos" not in spec:  # its line search may take another step
        torch.testing.assert_close(maps[1], maps[0], rtol=0.1, atol=0.1 * maps[0].max().item())


@pytest.mark.parametrize("channels", [1, 4])
@pytest.mark.parametrize("spec", SPECS)
def test_one_channel_or_four(spec: str, channels: int) -> None:
    mean, std = MEAN[:1] * channels, STD[:1] * channels
    f = pm.Classifier(conv_net(channels=channels), size=(9, 11), mean=mean, std=std)
    maps = pm.make_method(spec)(f, pixels(2, (9, 11), channels=channels), LABELS)
    assert maps.shape == (2, 2, 9, 11) and bool(maps.isfinite().all())


@pytest.mark.parametrize("spec", [spec for spec in SPECS if "iba" not in spec])
def test_a_net_that_no_gradient_passes_is_refused(spec: str) -> None:
    net = conv_net()
    f = pm.Classifier(lambda x: net(x).detach(), size=(9, 11), mean=MEAN, std=STD)
    with pytest.raises(pm.InputError, match="gradients cannot be taken"):
        pm.make_method(spec)(f, pixels(1, (9, 11)), LABELS[:1])


@pytest.mark.parametrize("spec", SPECS)
def test_specs_are_read_back_and_presets_are_known(spec: str) -> None:
    method = pm.make_method(spec)
    assert pm.make_method(method.title()) == method and method.family == "mask" and method.reference
    for preset in method.shortcuts.get("preset", {}):
        assert method.preset(preset).title().startswith(method.name)
