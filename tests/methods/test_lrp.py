"""Layer-wise relevance propagation and DeepLIFT, against Captum, sums written out by hand, and nets that compute the same otherwise."""

from __future__ import annotations

import warnings
from functools import partial
from types import ModuleType
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from proofmap.classifier import Classifier
from proofmap.core import streams
from proofmap.core.errors import InputError
from proofmap.core.inputs import Rows
from proofmap.fills import Fill, make_fill
from proofmap.methods import make_method
from proofmap.methods.gradients.paths import gap
from proofmap.methods.propagation import deep_lift
from proofmap.methods.propagation.deep_lift import DeepLIFT
from proofmap.methods.propagation.lrp import LRP, ContrastiveLRP
from proofmap.models.efficientnet_lite import InvertedResidual
from proofmap.models.resnets import BasicBlock
from proofmap.session import Session
from tests.methods.test_gradients import LABELS, RELUS, Functional, deeper_net, normalised
from tests.sessions import bound
from tests.toys import MEAN, STD, conv_net, drawn, normal, pixels

PRESETS = list(LRP.shortcuts["preset"])


def classifier(net: nn.Module, **options: Any) -> Classifier:
    return Classifier(net, **{"size": 8, "mean": MEAN, "std": STD, **options})


def assert_same(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-5 * float(expected.abs().max()))


def settle(net: nn.Module) -> nn.Module:
    """Batch-norms as after some training."""
    for k, module in enumerate(net.modules()):
        if isinstance(module, nn.BatchNorm2d) and module.running_mean is not None:
            module.running_mean.copy_(0.3 * normal(module.num_features, seed=k))
            module.running_var.copy_(1 + normal(module.num_features, seed=k + 1).abs())  # type: ignore[union-attr]
    return net


# ---- against Captum ------------------------------------------------------------------------------------------


def pooled_net() -> nn.Sequential:
    return drawn(
        nn.Sequential(
            nn.Conv2d(3, 6, 3, padding=1, bias=False),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(6, 8, 3, bias=False),
            nn.ReLU(),
            nn.AvgPool2d(2),
            nn.Flatten(),
            nn.Linear(8, 6),
            nn.ReLU(),
            nn.Linear(6, 4),
        ),
        seed=2,
    )


def captums(captum: ModuleType, net: nn.Sequential, x: Tensor, label: int, rule: str) -> Tensor:
    """Captum's LRP with one rule for convolutions and epsilon elsewhere; it forgets its rules after each call."""
    from captum.attr._utils.lrp_rules import Alpha1_Beta0_Rule, EpsilonRule, GammaRule

    rules: dict[str, Any] = {"epsilon": EpsilonRule, "gamma": GammaRule, "alpha-beta": Alpha1_Beta0_Rule}
    for module in net:
        if isinstance(module, nn.Conv2d):
            module.rule = rules[rule]()
        elif not isinstance(module, (nn.ReLU, nn.MaxPool2d)):
            module.rule = EpsilonRule()
    theirs = captum.LRP(net).attribute(x.clone().requires_grad_(True), target=label)
    return theirs.detach().sum(dim=1)


@pytest.mark.parametrize("net", [conv_net, pooled_net])
def test_epsilon_is_captums_for_every_label(net: Any, captum: ModuleType) -> None:
    images = pixels(3, 8)
    maps = LRP.preset("epsilon", epsilon=1e-9)(classifier(net()), images, LABELS)
    for j in range(4):
        assert_same(maps[:, j], captums(captum, net(), normalised(images), j, "epsilon"))


@pytest.mark.parametrize("rule", ["gamma", "alpha-beta"])
def test_other_rules_are_captums_where_inputs_are_positive(rule: Any, captum: ModuleType) -> None:
    """Captum's are written for positive inputs and leave biases as they are; so: no biases, the first layer flat."""
    net = pooled_net()
    upper = Classifier(net[1:], size=8, mean=(0,) * 6, std=(1,) * 6)
    with torch.no_grad():
        shown = net[0](normalised(pixels(3, 8))).relu().clamp_max(1)
    maps = LRP(conv=rule, alpha=1.0, first="none", epsilon=1e-9)(upper, shown, LABELS)
    for j in range(4):
        assert_same(maps[:, j], captums(captum, pooled_net()[1:], shown, j, rule))


# ---- against sums written out --------------------------------------------------------------------------------


def shared(x: Tensor, w: Tensor, b: Tensor, r: Tensor, rule: str, **numbers: float) -> Tensor:
    """Relevance ``(J,)`` of one dense layer's outputs, shared out among its inputs ``(I,)``: the formulas as printed."""
    z = x[:, None] * w.T  # (I, J)
    plus, minus = z.clamp_min(0), z.clamp_max(0)
    total = z.sum(0) + b
    up, down = plus.sum(0) + b.clamp_min(0), minus.sum(0) + b.clamp_max(0)
    gamma, alpha = numbers.get("gamma", 0.25), numbers.get("alpha", 2.0)
    share = {
        "epsilon": lambda: z / total,
        "gamma": lambda: torch.where(
            total > 0,
            (z + gamma * plus) / (total + gamma * up),
            (z + gamma * minus) / (total + gamma * down),
        ),
        "alpha-beta": lambda: alpha_beta(plus, minus, up, down, alpha),
        "box": lambda: (
            (parts := z - numbers["low"] * w.T.clamp_min(0) - numbers["high"] * w.T.clamp_max(0))
            / parts.sum(0)
        ),
        "w-squared": lambda: w.T**2 / (w.T**2).sum(0),
        "flat": lambda: torch.ones_like(z) / len(x),
    }[rule]()
    return (share * r).sum(dim=1)


def alpha_beta(plus: Tensor, minus: Tensor, up: Tensor, down: Tensor, alpha: float) -> Tensor:
    """Column by column; with nothing below zero what is above takes all, and the other way round."""
    columns = []
    for p, m, above, below in zip(plus.T, minus.T, up, down, strict=True):
        if alpha == 1:
            columns.append(p / above if above > 0 else 0 * p)
        elif above > 0 and below < 0:
            columns.append(alpha * p / above - (alpha - 1) * m / below)
        else:
            columns.append(p / above if above > 0 else m / below)
    return torch.stack(columns, dim=1)


def mlp() -> nn.Sequential:
    return drawn(
        nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 6), nn.ReLU(), nn.Linear(6, 3)), seed=4
    )


def rows_classifier(net: nn.Module, columns: int = 5) -> Classifier:
    return Classifier(net, inputs=Rows(columns=columns, mean=(0.0,) * columns, std=(1.0,) * columns))


@pytest.mark.parametrize("dense", ["epsilon", "gamma", "alpha-beta"])
@pytest.mark.parametrize("first", ["w-squared", "flat", "none"])
@pytest.mark.parametrize("biases", ["absorb", "ignore"])
@pytest.mark.parametrize("alpha", [1.0, 2.0])
def test_rules_of_dense_layers_are_their_formulas(dense: Any, first: Any, biases: Any, alpha: float) -> None:
    """Inputs and hidden activations of both signs."""
    net, x = mlp(), normal(2, 5, seed=9)
    method = LRP(dense=dense, first=first, biases=biases, alpha=alpha, epsilon=1e-9)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the maps of")
        maps = method(rows_classifier(net), x, torch.tensor([[0, 1, 2]] * 2))
    layers = [
        (module.weight.double(), module.bias.double()) for module in net if isinstance(module, nn.Linear)
    ]
    for i in range(2):
        into = [x[i].double()]
        for (w, b), act in zip(layers, (torch.tanh, torch.relu, lambda z: z), strict=True):
            into.append(act(w @ into[-1] + b))
        for j in range(3):
            r = into[3] * F.one_hot(torch.tensor(j), 3)
            for k in (2, 1, 0):
                w, b = layers[k]
                rule = first if k == 0 and first != "none" else dense
                kept = b if biases == "absorb" else torch.zeros_like(b)
                r = shared(into[k], w, kept, r, rule, alpha=alpha).detach()
            assert_same(maps[i, j], r.float())


def test_the_box_rule_is_its_formula() -> None:
    images = pixels(2, 2)
    net = drawn(nn.Sequential(nn.Flatten(), nn.Linear(12, 6), nn.ReLU(), nn.Linear(6, 4)))
    f = Classifier(net, size=2, mean=(0.5,) * 3, std=(0.25,) * 3)
    maps = LRP(channels="sum", epsilon=1e-9)(f, images, LABELS[:2])
    for i in range(2):
        x = ((images[i] - 0.5) / 0.25).flatten()
        hidden = net[1](x).relu()
        for j in range(4):
            r = net[3](hidden) * F.one_hot(torch.tensor(j), 4)
            r = shared(hidden, net[3].weight, net[3].bias, r, "epsilon")
            r = shared(x, net[1].weight, net[1].bias, r, "box", low=-2.0, high=2.0).detach()
            assert_same(maps[i, j], r.view(3, 2, 2).sum(dim=0))


# ---- nets that compute the same ------------------------------------------------------------------------------


class Written(nn.Module):
    """conv_net with a product, a sum and a mean in place of its last layers."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = conv_net()

    def forward(self, x: Tensor) -> Tensor:
        features = self.layers[:4](x).mean((2, 3))
        return features @ self.layers[6].weight.T + self.layers[6].bias


class Scaled(nn.Module):
    """Normalises its input itself."""

    def __init__(self) -> None:
        super().__init__()
        self.net = conv_net()
        self.register_buffer("mean", torch.tensor(MEAN).view(1, 3, 1, 1))
        self.register_buffer("std", torch.tensor(STD).view(1, 3, 1, 1))

    def forward(self, x: Tensor) -> Tensor:
        return self.net((x - self.mean) / self.std)


@pytest.mark.parametrize("rectify", RELUS)
def test_it_does_not_matter_how_a_net_rectifies(rectify: str) -> None:
    images, method = pixels(2, 8), LRP(conv="alpha-beta")
    assert_same(
        method(classifier(Functional(rectify)), images, LABELS[:2]),
        method(classifier(conv_net()), images, LABELS[:2]),
    )


@pytest.mark.parametrize("preset", PRESETS)
def test_nor_whether_the_last_layer_is_written_out(preset: str) -> None:
    images, method = pixels(2, 8), LRP.preset(preset)
    assert_same(
        method(classifier(Written()), images, LABELS[:2]), method(classifier(conv_net()), images, LABELS[:2])
    )


@pytest.mark.parametrize("first", ["box", "flat", "w-squared"])
def test_nor_who_normalises(first: Any) -> None:
    images, method = pixels(2, 8), LRP(first=first)
    bare = classifier(Scaled(), mean=(0,) * 3, std=(1,) * 3)
    assert_same(method(bare, images, LABELS[:2]), method(classifier(conv_net()), images, LABELS[:2]))


@pytest.mark.parametrize("preset", PRESETS)
def test_batch_norm_is_folded_into_the_convolution_before_it(preset: str) -> None:
    conv, norm = nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6)
    head = (nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 4))
    net = settle(drawn(nn.Sequential(conv, norm, *head), seed=3))
    folded = nn.Sequential(fuse_conv_bn_eval(conv, norm), *head).eval()
    images, method = pixels(2, 8), LRP.preset(preset)
    assert_same(method(classifier(net), images, LABELS[:2]), method(classifier(folded), images, LABELS[:2]))


@pytest.mark.parametrize("preset", PRESETS)
def test_batch_norm_behind_a_rectifier_in_place_is_not_folded(preset: str) -> None:
    """The rectifier returns the tensor that the convolution gave, which is another one by then."""
    head = (nn.BatchNorm2d(6), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 4))
    first, second = (
        settle(drawn(nn.Sequential(nn.Conv2d(3, 6, 3), nn.ReLU(inplace=place), *head), seed=3))
        for place in (True, False)
    )
    images, method = pixels(2, 8), LRP.preset(preset)
    assert_same(method(classifier(first), images, LABELS[:2]), method(classifier(second), images, LABELS[:2]))


# ---- the sum rule --------------------------------------------------------------------------------------------


def residual_net() -> nn.Module:
    """Blocks of the CIFAR ResNets and of EfficientNet-Lite: sums, strided shortcuts, depthwise layers, ReLU6."""
    return settle(
        drawn(
            nn.Sequential(
                nn.Conv2d(3, 4, 3, padding=1),
                BasicBlock(4, 4, 1),
                BasicBlock(4, 8, 2),
                InvertedResidual(8, 8, kernel=3, stride=1, expansion=2),
                InvertedResidual(8, 8, kernel=3, stride=2, expansion=2),
                nn.BatchNorm2d(8),  # behind a batch-norm: a layer of its own
                nn.SiLU(),
                nn.AdaptiveAvgPool2d(1),
                nn.Flatten(),
                nn.Linear(8, 4),
            ),
            seed=5,
        )
    )


@pytest.mark.parametrize("preset", PRESETS)
def test_relevance_is_neither_made_nor_lost_in_residual_nets(preset: str) -> None:
    """What arrives at the input and at biases is the logit: any gap would warn, and warnings are errors here."""
    LRP.preset(preset)(classifier(residual_net()), pixels(2, 8), LABELS[:2])


def test_a_loss_is_told_with_its_size() -> None:
    with pytest.warns(UserWarning, match=r"lrp should add up to .* off by \d+% of it; some layer loses"):
        LRP(epsilon=1.0)(classifier(conv_net()), pixels(2, 8), LABELS[:2])


# ---- contrast ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dual", ["others", "weighted", "negated"])
def test_contrastive_relevance_is_the_difference_of_two(dual: Any) -> None:
    """As the paper has it: two relevances of the same amount, by the positive contributions, subtracted and cut at zero."""
    images = pixels(2, 2)
    net = drawn(nn.Sequential(nn.Flatten(), nn.Linear(12, 6), nn.ReLU(), nn.Linear(6, 4)))
    f = Classifier(net, size=2, mean=(0.5,) * 3, std=(0.25,) * 3)
    maps = ContrastiveLRP(dual=dual, epsilon=1e-9)(f, images, LABELS[:2])
    for i in range(2):
        x = ((images[i] - 0.5) / 0.25).flatten()
        hidden = net[1](x).relu()
        logits = net[3](hidden)
        for j in range(4):
            own = F.one_hot(torch.tensor(j), 4)
            amount = logits[j].abs()
            weights = {"others": 1 - own, "weighted": (1 - own) * logits.abs(), "negated": own}[dual]
            other = amount * weights / weights.sum()
            last = -net[3].weight if dual == "negated" else net[3].weight
            zero = torch.zeros(())
            r = shared(hidden, net[3].weight, zero, amount * own, "alpha-beta", alpha=1.0)
            against = shared(hidden, last, zero, other, "alpha-beta", alpha=1.0)
            both = [shared(x, net[1].weight, zero, each, "box", low=-2.0, high=2.0) for each in (r, against)]
            expected = (both[0] - both[1]).detach().view(3, 2, 2).sum(dim=0).clamp_min(0)
            assert_same(maps[i, j], expected)


@pytest.mark.parametrize("dual", ["others", "weighted", "negated"])
def test_the_one_output_of_a_yes_or_no_is_contrasted_as_two_would_be(dual: Any) -> None:
    one, two = conv_net(1), conv_net(2)
    with torch.no_grad():
        for there, here in zip(two[:6].parameters(), one[:6].parameters(), strict=True):
            there.copy_(here)
        two[6].weight.copy_(torch.cat([-one[6].weight, one[6].weight]))
        two[6].bias.copy_(torch.cat([-one[6].bias, one[6].bias]))
    images, labels = pixels(2, 8), torch.tensor([[0, 1]] * 2)
    maps = [
        ContrastiveLRP(dual=dual)(classifier(net, outputs="sigmoid"), images, labels) for net in (one, two)
    ]
    assert bool((maps[1].amax(dim=(2, 3)) > 0).any(dim=0).all()), "both labels have a map"
    assert_same(*maps)


def test_a_contrast_needs_two_labels() -> None:
    f = classifier(conv_net()).restricted([2], renormalise=False)
    with pytest.raises(InputError, match="the label set has only one label"):
        ContrastiveLRP()(f, pixels(1, 8), torch.tensor([[2]]))


# ---- what it cannot do, and what it costs --------------------------------------------------------------------


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.attend = nn.Conv2d(3, 8, 4, stride=4), nn.MultiheadAttention(8, 2, batch_first=True)
        self.head = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.embed(x).flatten(2).transpose(1, 2)
        return self.head(self.attend(tokens, tokens, tokens, need_weights=False)[0].mean(dim=1))


class Gate(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.features, self.head = nn.Conv2d(3, 4, 3), nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        y = self.features(x)
        return self.head((y * y.mean(dim=(2, 3), keepdim=True).sigmoid()).mean(dim=(2, 3)))


def normed() -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.GroupNorm(2, 4), nn.Flatten(), nn.Linear(144, 4))


REFUSED = {
    "attention": (Attention, "no rule"),
    "gate": (Gate, "product of two"),
    "norm": (normed, "GroupNorm"),
}


@pytest.mark.parametrize("name", ["lrp", "contrastive-lrp", "deep-lift"])
@pytest.mark.parametrize("refused", REFUSED)
def test_what_has_no_rule_is_refused(name: str, refused: str) -> None:
    net, told = REFUSED[refused]
    with pytest.raises(InputError, match=rf"{name} has no rule for .*{told.removeprefix('no rule')}"):
        make_method(name)(classifier(drawn(net())), pixels(1, 8), LABELS[:1])


@pytest.mark.parametrize("name", ["lrp", "deep-lift"])
def test_layers_that_cannot_be_seen_are_refused(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # TorchScript is deprecated
        scripted = torch.jit.script(conv_net())
        f = classifier(scripted)
    with pytest.raises(InputError, match=f"{name} has no rule for an operation of this net"):
        make_method(name)(f, pixels(1, 8), LABELS[:1])


@pytest.mark.parametrize("name", ["lrp", "deep-lift"])
def test_probabilities_are_refused(name: str) -> None:
    net = nn.Sequential(conv_net(), nn.Softmax(dim=1))
    with pytest.raises(InputError, match="without its last softmax or sigmoid"):
        make_method(name)(classifier(net, outputs="probabilities"), pixels(1, 8), LABELS[:1])


def test_rows_have_no_box() -> None:
    with pytest.raises(InputError, match="use first=w-squared"):
        LRP(first="box")(rows_classifier(mlp()), torch.ones(1, 5), torch.tensor([[0]]))


# ---- DeepLIFT ------------------------------------------------------------------------------------------------


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


def deep_lift_of_captum(
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
        expected, _ = deep_lift_of_captum(captum, inner, images, start, j)
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
def test_to_deep_lift_it_does_not_matter_how_a_net_rectifies(rectify: str) -> None:
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


def test_where_nothing_changes_the_derivative_counts() -> None:
    """A baseline that is the image: no change to share out, and no NaN."""
    f, images = classifier(curved_net()), torch.tensor(MEAN).view(1, 3, 1, 1).expand(1, 3, 8, 8).clone()
    images[0, 0, 0, 0] += 0.2
    maps = DeepLIFT()(f, images, LABELS[:1])
    assert bool(maps.isfinite().all())
    assert maps[0, :, 1:].abs().max() == 0


def test_a_net_that_goes_two_ways_is_refused() -> None:
    class Branching(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.layer(x.relu() if bool((x != 0).any()) else x)

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
