"""How many inputs go through the net for a method, for one label and for three."""

from __future__ import annotations

import pytest
import torch

from proofmap.methods import Cost, make_method
from tests.sessions import bound
from tests.toys import counted_classifier, pixels

SHARED = {
    "gradient": 1,
    "gradient-x-input": 1,
    "guided-backprop": 1,
    "lrp": 1,
    "contrastive-lrp": 1,
    "deep-lift": 2,
    "smooth-grad:samples=3": 3,
    "integrated-gradients:steps=30": 32,
    "grad-cam": 1,
    "layer-cam": 1,
    "score-cam": 13,
    "occlusion:window=3,stride=2": 17,
    "rise:masks=70,grid=3": 70,
    "belief-order:regions=4,superpixels=grid": 16,
}
"""Passes of methods for which all labels share the forward passes."""


@pytest.mark.parametrize("spec, passes", SHARED.items())
def test_all_labels_share_the_forward_passes(spec: str, passes: int) -> None:
    f, tally = counted_classifier(size=8)
    ready = bound(make_method(spec), f)
    f.frozen()  # which looks at the net
    for labels in ([[0]], [[0, 1, 2]]):
        tally.reset()
        ready(pixels(1, 8), torch.tensor(labels))
        cost = ready.cost(len(labels[0])) or Cost()
        assert tally.images == passes and (cost.gradient or cost.forward == passes)


@pytest.mark.parametrize(
    "spec",
    [
        "diffmask:steps=2,grid=4,fill=noise",
        "extremal-perturbation:steps=2,areas=0.2,step=60,sigma=60",
        "fong-vedaldi:steps=2,grid=8",
        "fong-vedaldi:steps=1,fill=noise",
        "fong-vedaldi:preset=pytorch,steps=2",
        "iba:steps=2,samples=2,fill=noise,pool=8",
        "igos++:iterations=2,integration=2,grid=8",
        "rate-distortion:steps=2,grid=4",
        "learned-mask:steps=4,scale=2,fill=noise",
        "learned-mask:steps=4,scale=2,fill=gray",
        "learned-mask:steps=4,scale=2,fill=noise,masks=3",
        "shapley:regions=5",
        "shapley:regions=5,fill=noise",
        "kernel-shap:samples=20,regions=5",
        "greedy-insertion:regions=9",
        "greedy-insertion:regions=9,candidates=3",
    ],
)
def test_the_cost_is_what_goes_through_the_net(spec: str) -> None:
    f, tally = counted_classifier(size=(9, 11))
    f.frozen()  # which looks at the net
    ready = bound(make_method(spec), f)
    for labels in ([[0]], [[0, 1, 2]]):
        tally.reset()
        ready(pixels(1, (9, 11)), torch.tensor(labels))
        cost = ready.cost(len(labels[0])) or Cost()
        if "igos" in spec:  # as long as its line search may be
            assert cost.gradient < tally.images <= cost.passes
        else:
            assert tally.images == cost.passes
