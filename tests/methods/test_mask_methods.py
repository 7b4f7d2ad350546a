"""What all mask methods bear: half precision, other numbers of channels, odd sizes, and company that leaves early."""

from __future__ import annotations

import pytest
import torch

import proofmap as pm
from proofmap.testing.nets import PICTURES, classifier_of, values
from tests.toys import MEAN, STD, conv_net, counted_classifier, pixels

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


@pytest.mark.parametrize("fill", ["noise", "gray"])
def test_where_fong_and_vedaldi_start_depends_on_no_other_label(fill: str) -> None:
    f, labels = classifier_of(PICTURES), torch.tensor([[2, 3, 1, 0]]).expand(4, -1)
    method = pm.make_method(f"fong-vedaldi:steps=1,grid=4,fill={fill}")
    together = method(f, values(PICTURES, 4), labels)
    alone = [method(f, values(PICTURES, 4), labels[:, j : j + 1]) for j in range(4)]
    torch.testing.assert_close(torch.cat(alone, dim=1), together)


@pytest.mark.parametrize(
    "spec", [*SPECS, "fong-vedaldi:steps=1,fill=noise", "fong-vedaldi:preset=pytorch,steps=2"]
)
def test_the_cost_is_what_goes_through_the_net(spec: str) -> None:
    f, tally = counted_classifier(size=(9, 11))
    f.frozen()  # which looks at the net
    ready = pm.make_method(spec).prepare(f)
    for labels in ([[0]], [[0, 1, 2]]):
        tally.reset()
        ready(pixels(1, (9, 11)), torch.tensor(labels))
        cost = ready.cost(len(labels[0]))
        assert cost is not None
        if "igos" in spec:  # as long as its line search may be
            assert cost.gradient < tally.images <= cost.passes
        else:
            assert tally.images == cost.passes
