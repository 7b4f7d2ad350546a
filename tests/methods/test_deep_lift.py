"""DeepLIFT, against Captum, and on nets that Captum gets wrong because they call functions or call a module twice."""

from __future__ import annotations

import warnings
from functools import partial
from types import ModuleType
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from proofmap.classifier import Classifier
from proofmap.core import streams
from proofmap.core.errors import InputError
from proofmap.fills import Fill, make_fill
from proofmap.methods import make_method
from proofmap.methods.gradients.paths import gap
from proofmap.methods.gradients.plain import GradientInput
from proofmap.methods.propagation import deep_lift
from proofmap.methods.propagation.deep_lift import DeepLIFT
from proofmap.session import Session
from tests.methods.test_gradients import LABELS, deeper_net, normalised
from tests.methods.test_lrp import assert_same, classifier, pooled_net, residual_net, rows_classifier
from tests.methods.test_rectified import RELUS, Functional
from tests.sessions import bound
from tests.toys import MEAN, conv_net, drawn, linear_classifier, pixels


def curved_net() -> nn.Sequential:
    """Activations of many shapes, a maximum over overlapping windows, and one over all places."""
    return drawn(
        nn.Sequential(
            nn.Conv2d(3, 6, 3, padding=1),
            nn.Tanh(),
            nn.MaxPool2d(3, stride=2, padding=1),
            nn.Conv2d(6, 6, 3, padding=1),
            nn.ELU(),
            nn.MaxPool2d(4),
            nn.Flatten(),
            nn.Linear(6, 5),
            nn.Sigmoid(),
            nn.Linear(5, 4),
        ),
        seed=6,
    )


def without_maxima(net: nn.Sequential) -> nn.Sequential:
    """The same with means in place of maxima."""
    return nn.Sequential(
        *(nn.AvgPool2d(m.kernel_size, m.stride, m.padding) if isinstance(m, nn.MaxPool2d) else m for m in net)
    )


NETS = {"rectified": conv_net, "pooled": pooled_net, "batch-norms": deeper_net, "curved": curved_net}


def captums(
    captum: ModuleType, net: nn.Module, images: Tensor, start: Tensor, label: int
) -> tuple[Tensor, Tensor]:
    """Captum's values and how far their sum is off, by its own account."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it puts hooks on the net
        values, off = captum.DeepLift(net).attribute(
            normalised(images), start, target=label, return_convergence_delta=True
        )
    return values.detach().sum(dim=1), off.detach()


@pytest.mark.parametrize("net", NETS)
@pytest.mark.parametrize("baseline", ["gray", "gray:color=0", "blur:sigma=2,kernel=5"])
def test_it_is_captums_for_every_label(net: str, baseline: str, captum: ModuleType) -> None:
    images, inner = pixels(3, 8), without_maxima(NETS[net]())
    f = classifier(inner)
    maps = DeepLIFT(baseline=make_fill(baseline))(f, images, LABELS)
    start = normalised(bound(make_fill(baseline), f)(images, torch.zeros(3, dtype=torch.int64)))
    for j in range(4):
        expected, _ = captums(captum, inner, images, start, j)
        both = torch.stack([maps[:, j].flatten(), expected.flatten()])
        assert float(torch.corrcoef(both)[0, 1]) > 0.9999
        assert_same(maps[:, j], expected)


@pytest.mark.parametrize("kernel, stride", [(2, 2), (3, 1)])
def test_maxima_share_their_change_between_two_winners(kernel: int, stride: int) -> None:
    """Written out for every window: overlapping ones, too."""
    side = (4 - kernel) // stride + 1
    head = drawn(nn.Linear(3 * side * side, 4))
    f = Classifier(nn.Sequential(nn.MaxPool2d(kernel, stride), nn.Flatten(), head), size=4)
    images, start = pixels(1, 4), pixels(1, 4, seed=7)
    expected = torch.zeros(4, 4, 4)
    for c in range(3):
        for i in range(side):
            for j in range(side):
                rows, columns = (slice(k * stride, k * stride + kernel) for k in (i, j))
                x, before = images[0, c, rows, columns], start[0, c, rows, columns]
                y, begun = x.max(), before.max()
                weight = head.weight[:, (c * side + i) * side + j].detach()
                for window, share in (
                    (x, torch.maximum(y, begun) - begun),
                    (before, y - torch.maximum(y, begun)),
                ):
                    place = divmod(int(window.argmax()), kernel)
                    expected[:, i * stride + place[0], j * stride + place[1]] += weight * share

    class Before(Fill):
        name, description = "before", "another picture"

        def backgrounds(self, session: Session, images: Tensor, keys: Tensor) -> Tensor:
            return start.expand_as(images)

    assert_same(DeepLIFT(baseline=Before())(f, images, LABELS[:1])[0], expected)


@pytest.mark.parametrize("rectify", RELUS)
def test_it_does_not_matter_how_a_net_rectifies(rectify: str) -> None:
    images = pixels(2, 8)
    found = DeepLIFT()(classifier(Functional(rectify)), images, LABELS[:2])
    assert_same(found, DeepLIFT()(classifier(conv_net()), images, LABELS[:2]))


@pytest.mark.parametrize("net", [*NETS.values(), residual_net, partial(Functional, "F.relu6")])
@pytest.mark.parametrize("baseline", ["gray", "noise"])
def test_values_add_up_to_the_change_of_the_logit(net: Any, baseline: str) -> None:
    f, images = classifier(net()), pixels(3, 8)
    fill = make_fill(baseline)
    sums = DeepLIFT(baseline=fill)(f, images, LABELS).sum(dim=(2, 3))
    start = bound(fill, f)(images, streams.image_keys(images, 0, 0, "deep-lift"))
    assert gap(sums, f.logits(images) - f.logits(start), LABELS) < 1e-3


def test_a_wrong_sum_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if the exponential were thought to be linear."""

    class Exponential(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.exp()

    f = classifier(drawn(nn.Sequential(nn.Flatten(), nn.Linear(192, 6), Exponential(), nn.Linear(6, 4))))
    with pytest.raises(InputError, match="no rule for an operation of this net: Exp "):
        DeepLIFT()(f, pixels(2, 8), LABELS[:2])
    monkeypatch.setattr(deep_lift, "KNOWN", deep_lift.KNOWN | {"Exp"})
    with pytest.warns(UserWarning, match="the maps of deep-lift should add up to"):
        DeepLIFT()(f, pixels(2, 8), LABELS[:2])


def test_a_linear_net_has_gradient_times_input() -> None:
    f, images = linear_classifier(4, 4), pixels(3, 4)
    assert_same(DeepLIFT()(f, images, LABELS), GradientInput()(f, images, LABELS))


def test_where_nothing_changes_the_derivative_counts() -> None:
    """A baseline that is the image: no change to share out, and no NaN."""
    f, images = classifier(curved_net()), torch.tensor(MEAN).view(1, 3, 1, 1).expand(1, 3, 8, 8).clone()
    images[0, 0, 0, 0] += 0.2
    maps = DeepLIFT()(f, images, LABELS[:1])
    assert bool(maps.isfinite().all())
    assert maps[0, :, 1:].abs().max() == 0


def test_random_baselines_are_averaged() -> None:
    f, images = classifier(conv_net()), pixels(2, 8)
    both = make_method("deep-lift:baseline=noise,draws=2")(f, images, LABELS[:2])
    one = make_method("deep-lift:baseline=noise")(f, images, LABELS[:2])
    start = bound(make_fill("noise"), f)(images, streams.image_keys(images, 0, 1, "deep-lift"))
    sums = 2 * both.sum(dim=(2, 3)) - one.sum(dim=(2, 3))
    torch.testing.assert_close(sums, f.logits(images) - f.logits(start), rtol=1e-3, atol=1e-3)


def test_a_net_that_goes_two_ways_is_refused() -> None:
    class Branching(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 2)

        def forward(self, x: Tensor) -> Tensor:
            out: Tensor = self.layer(x.relu() if bool((x != 0).any()) else x)
            return out

    f = rows_classifier(drawn(Branching()), columns=3)
    with pytest.raises(InputError, match="calls the same layers for every input"):
        DeepLIFT()(f, torch.ones(1, 3), torch.tensor([[0]]))


class Squared(nn.Module):
    """A product of two things that both depend on the input, with something added in the same step."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.layer, self.kind = nn.Linear(3, 3), kind

    def forward(self, x: Tensor) -> Tensor:
        y = self.layer(x)
        if self.kind == "addmm":
            mixed: Tensor = torch.stack([torch.addmm(self.layer.weight, row.T, row) for row in y[:, None]])
            return mixed.flatten(1)
        mixed = torch.stack([torch.conv1d(row[None, None], row[None, None]) for row in y])
        return torch.cat([mixed.flatten(1), y], dim=1)


@pytest.mark.parametrize("kind", ["addmm", "conv1d"])
def test_a_product_within_another_step_is_refused(kind: str) -> None:
    f = rows_classifier(drawn(Squared(kind)), columns=3)
    with pytest.raises(InputError, match="no rule for a product of two tensors"):
        DeepLIFT()(f, torch.ones(1, 3), torch.tensor([[0]]))
