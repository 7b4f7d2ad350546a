"""The Classifier: f(x, a) as declared, and a net that is afterwards what it was."""

from __future__ import annotations

import copy
import math
import threading
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from proofmap.classifier import Classifier
from proofmap.core.errors import InputError, ModelError
from proofmap.methods import LearnedMask, make_method
from tests.sessions import bound

MEAN, STD = (0.5, 0.4, 0.3), (0.2, 0.25, 0.3)
NAMES = ["cat", "dog", "cup", "car", "bee"]


class Fuse:
    """Shared by a net and all its copies; once armed, it blows at the next pass."""

    armed = False

    def __deepcopy__(self, memo: dict[int, object]) -> Fuse:
        return self

    def blows(self) -> bool:
        return self.armed


class Net(nn.Module):
    """Convolution, batch-norm with statistics of its own, dropout; untraceable where there is a fuse."""

    def __init__(self, fuse: Fuse | None = None) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 6, 3, padding=1)
        self.norm = nn.BatchNorm2d(6)
        self.relu = nn.ReLU()
        self.dropout = nn.Dropout(0.5)
        self.fc = nn.Linear(6, 5)
        self.fuse = fuse
        nn.init.uniform_(self.norm.running_mean, -1, 1)
        nn.init.uniform_(self.norm.running_var, 0.5, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu(self.norm(self.conv(x)))
        if self.fuse is not None and bool(x.sum() >= 0) and self.fuse.blows():
            raise RuntimeError("the fuse has blown")
        logits: Tensor = self.fc(self.dropout(x.mean(dim=(2, 3))))
        return logits


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


@pytest.fixture
def images() -> Tensor:
    return torch.rand(7, 3, 8, 8)


def classifier(net: Any = None, **arguments: Any) -> Classifier:
    return Classifier(Net() if net is None else net, **{"size": 8, "mean": MEAN, "std": STD, **arguments})


def plain(net: Callable[[Tensor], Tensor], images: Tensor) -> Tensor:
    """Logits of a net, with nothing of ours between."""
    mean, std = torch.tensor(MEAN).view(3, 1, 1), torch.tensor(STD).view(3, 1, 1)
    with torch.no_grad():
        return net((images - mean) / std)


# ---- the net is never altered ---------------------------------------------------------------------------------


def used_net(fuse: Fuse | None = None, *, hooks: bool = True) -> Net:
    """A net in the middle of its owner's work: mixed modes, frozen parts, gradients, hooks."""
    net = Net(fuse)
    net.train()
    net.norm.eval()
    net.conv.weight.requires_grad_(False)
    net.fc(torch.rand(2, 6)).sum().backward()
    if hooks:
        net.conv.register_forward_hook(_watch)
        net.fc.register_forward_pre_hook(_watch)
        net.relu.register_full_backward_hook(_watch)
    return net


def _watch(*_: object) -> None:
    """A hook that changes nothing."""


def state(net: nn.Module) -> dict[str, object]:
    """All that an owner could notice: identities and values."""
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    tensors = {**dict(net.named_parameters()), **dict(net.named_buffers())}
    return {
        "modules": {name: (id(m), type(m), sorted(vars(m))) for name, m in net.named_modules()},
        "modes": {name: m.training for name, m in net.named_modules()},
        "hooks": {(n, h): list(getattr(m, h).items()) for n, m in net.named_modules() for h in hooks},
        "identity": {name: (id(t), t.data_ptr(), t._version) for name, t in tensors.items()},
        "values": {name: t.tolist() for name, t in tensors.items()},
        "kind": {name: (t.requires_grad, t.device, t.dtype, t.stride()) for name, t in tensors.items()},
        "gradients": {name: None if t.grad is None else t.grad.tolist() for name, t in tensors.items()},
    }


USES: dict[str, Callable[[Classifier, Tensor], object]] = {
    "probabilities": lambda f, x: f.probabilities(x),
    "top": lambda f, x: f.top(x, 2),
    "batches": lambda f, x: f.batches,
    "restricted": lambda f, x: f.restricted([0, 1]).probabilities(x),
    "frozen": lambda f, x: f.frozen().probabilities(x),
    "frozen in bfloat16": lambda f, x: f.frozen(dtype=torch.bfloat16).probabilities(x),
    "fingerprint": lambda f, x: f.fingerprint(),
    "gradient": lambda f, x: make_method("gradient")(f, x, f.top(x, 2)),
    "gradient of a batch": lambda f, x: torch.autograd.grad(f(x.requires_grad_()).sum(), x),
    "grad-cam": lambda f, x: make_method("grad-cam")(f, x, f.top(x, 2)),
    "learned-mask": lambda f, x: LearnedMask(steps=2, distractors=1, scale=2, fill="noise")(
        f, x, f.top(x, 1)
    ),
}


@pytest.mark.parametrize("hooks", [True, False])
@pytest.mark.parametrize("use", USES)
def test_a_net_is_afterwards_what_it_was(use: str, hooks: bool, images: Tensor) -> None:
    net = used_net(hooks=hooks)
    before = state(net)
    f = classifier(net)
    assert state(net) == before
    USES[use](f, images)
    assert state(net) == before


@pytest.mark.parametrize("use", [use for use in USES if use != "fingerprint"])
def test_a_net_is_what_it_was_after_an_exception(use: str, images: Tensor) -> None:
    fuse = Fuse()
    net = used_net(fuse)
    before = state(net)
    f = classifier(net)
    hooks = state(f.net)["hooks"]  # the view's own hooks are tidied up as well
    fuse.armed = True
    with pytest.raises(RuntimeError, match="the fuse has blown"):
        USES[use](f, images)
    assert state(net) == before
    assert state(f.net)["hooks"] == hooks


def trained(net: nn.Module, images: Tensor) -> None:
    """A step of training: weights and batch-norm statistics move."""
    net.train()
    optimiser = torch.optim.SGD(net.parameters(), lr=0.5)
    net(images).square().sum().backward()
    optimiser.step()


def replaced(net: Net, images: Tensor) -> None:
    net.load_state_dict({k: v + 0.5 for k, v in net.state_dict().items()}, assign=True)


def another_layer(net: Net, images: Tensor) -> None:
    net.fc = nn.Linear(net.fc.in_features, net.fc.out_features)


class Tempered(nn.Module):
    """A net of plain attributes and of layers without weights, beside its weights."""

    def __init__(self) -> None:
        super().__init__()
        self.net, self.activation, self.t, self.scales, self.push = (
            Net(),
            nn.Identity(),
            1.0,
            [1.0, 2.0],
            torch.zeros(1),
        )
        self.read: Callable[[Tensor], Tensor] = torch.clone

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.read(self.activation(self.net(x))) / self.t * self.scales[1]
        return torch.cat([out[:, :1] + self.push, out[:, 1:]], dim=1)


@pytest.mark.parametrize(
    "change",
    [
        lambda net: setattr(net, "t", 4.0),
        lambda net: setattr(net, "activation", nn.Tanh()),
        lambda net: setattr(net, "read", torch.square),
        lambda net: net.scales.__setitem__(1, 9.0),
        lambda net: net.push.add_(2),
    ],
    ids=["attribute", "layer without weights", "function", "entry of a list", "tensor that is no buffer"],
)
def test_a_changed_attribute_of_a_net_is_noticed(change: Callable[[Tempered], Any], images: Tensor) -> None:
    net = Tempered()
    f = classifier(net)
    fast, before = f.frozen(), f.state()
    f.probabilities(images), fast.probabilities(images)
    assert f.state() == before, "asking changes nothing"
    change(net)
    expected = classifier(copy.deepcopy(net)).probabilities(images)
    for view in (f, fast, f.restricted([0, 1, 2, 3, 4])):
        torch.testing.assert_close(view.probabilities(images), expected, atol=1e-4, rtol=1e-3)
    assert f.state() != before


@pytest.mark.parametrize("change", [trained, replaced, another_layer])
def test_what_a_net_learned_is_seen_by_every_view_of_it(
    change: Callable[[nn.Module, Tensor], None], images: Tensor
) -> None:
    net = Net()
    f = classifier(net)
    fast, some, fast_some = f.frozen(), f.restricted([0, 1]), f.frozen().restricted([0, 1])
    views = [f, fast, some, fast_some, some.frozen()]
    before, first = [view.probabilities(images) for view in views], f.fingerprint()
    change(net, images)
    learned = state(net)
    assert f.fingerprint() != first
    expected = classifier(copy.deepcopy(net))
    for k, view in enumerate(views):
        now = view.probabilities(images)
        wanted = (expected if k < 2 else expected.restricted([0, 1])).probabilities(images)
        torch.testing.assert_close(now, wanted, atol=1e-4, rtol=1e-3)
        assert not torch.allclose(now, before[k], atol=1e-3)
    for view in (f, fast, fast_some):  # as it is, without the checks of images
        logits = plain(copy.deepcopy(net).eval(), images)
        torch.testing.assert_close(view(images), logits, atol=1e-4, rtol=1e-3)
    make_method("grad-cam")(f, images, f.top(images, 2))
    assert f.frozen() is f.frozen() and state(net) == learned, "made anew once, and the net is as it was"


@pytest.mark.parametrize(
    "name", ["iba:steps=2,pool=4,fill=noise", "grad-cam", "learned-mask:steps=2,fill=gray"]
)
def test_a_method_that_was_made_ready_before_training_explains_the_trained_net(
    name: str, images: Tensor
) -> None:
    net = Net()
    f = classifier(net)
    labels = torch.tensor([[0, 1]] * len(images))
    ready = bound(make_method(name), f)
    before = ready(images, labels)
    trained(net, images)
    expected = bound(make_method(name), classifier(copy.deepcopy(net)))(images, labels)
    assert not torch.equal(before, expected)
    torch.testing.assert_close(ready(images, labels), expected, atol=1e-4, rtol=1e-2)


def test_a_copy_of_a_classifier_does_not_learn_with_the_net(images: Tensor) -> None:
    net = Net()
    alone = copy.deepcopy(classifier(net))
    before = alone.frozen().probabilities(images)
    trained(net, images)
    assert torch.equal(alone.frozen().probabilities(images), before)
    assert torch.equal(alone.probabilities(images), alone.probabilities(images))


def test_weights_are_shared_and_statistics_are_not(images: Tensor) -> None:
    net = Net()
    f = classifier(net)
    for ours, theirs in zip(f.net.parameters(), net.parameters(), strict=True):
        assert ours.data_ptr() == theirs.data_ptr()
        assert ours is not theirs
        assert not ours.requires_grad
    for ours, theirs in zip(f.net.buffers(), net.buffers(), strict=True):
        assert ours.data_ptr() != theirs.data_ptr()


def test_tied_weights_stay_tied() -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(12, 12), nn.Linear(12, 12))
    net[2].weight = net[1].weight
    f = classifier(net, size=2)
    assert f.net[2].weight is f.net[1].weight


def test_a_net_that_keeps_its_activations_can_be_wrapped_and_frozen(images: Tensor) -> None:
    class Keeps(Net):
        features: Tensor | None = None

        def forward(self, x: Tensor) -> Tensor:
            self.features = self.conv(x)
            return self.fc(self.features.mean(dim=(2, 3)))

    net = Keeps()
    net(images)  # the features it keeps have a history, which torch refuses to copy
    f = classifier(net)
    make_method("gradient")(f, images, f.top(images, 1))
    torch.testing.assert_close(f.frozen().logits(images), f.logits(images), rtol=1e-4, atol=1e-5)


def test_a_net_that_cannot_be_copied_is_refused_with_a_way_out(images: Tensor) -> None:
    net = Net()
    net.lock = threading.Lock()
    with pytest.raises(
        ModelError, match=r"Net cannot be copied .*net\.eval\(\); Classifier\(lambda x: net\(x\)"
    ):
        classifier(net)
    net.eval()
    f = classifier(lambda x: net(x))
    torch.testing.assert_close(f.logits(images), plain(net, images))


# ---- f(x, a) --------------------------------------------------------------------------------------------------


def test_probabilities_are_the_softmax_of_the_normalised_image(images: Tensor) -> None:
    net = Net().eval()
    f = classifier(net)
    logits = plain(net, images)
    torch.testing.assert_close(f.logits(images), logits)
    torch.testing.assert_close(f.probabilities(images), logits.softmax(dim=1))


def test_a_net_that_returns_probabilities_gives_the_same_f(images: Tensor) -> None:
    net = Net().eval()
    soft = classifier(nn.Sequential(net, nn.Softmax(dim=1)), outputs="probabilities")
    torch.testing.assert_close(soft.probabilities(images), classifier(net).probabilities(images))
    pair = soft.restricted([1, 3]).probabilities(images)
    torch.testing.assert_close(pair, classifier(net).restricted([1, 3]).probabilities(images))


def test_the_gradient_of_a_batch_is_the_nets_own(images: Tensor) -> None:
    net = Net().eval()
    x = images.clone().requires_grad_()
    (ours,) = torch.autograd.grad(classifier(net)(x)[:, 2].sum(), x)
    mean, std = torch.tensor(MEAN).view(3, 1, 1), torch.tensor(STD).view(3, 1, 1)
    (expected,) = torch.autograd.grad(net((x - mean) / std)[:, 2].sum(), x)
    torch.testing.assert_close(ours, expected)


@pytest.mark.parametrize("batch_size", [1, 2, 3, 7, 100])
def test_the_batch_size_changes_nothing(batch_size: int, images: Tensor) -> None:
    net = Net()
    expected = classifier(net).probabilities(images)
    found = classifier(net, batch_size=batch_size).probabilities(images)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


def test_a_net_without_memory_for_the_batch_gives_the_same_in_smaller_ones(images: Tensor) -> None:
    net = Net().eval()

    def small_device(x: Tensor) -> Tensor:
        if len(x) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return net(x)

    f = classifier(small_device, batch_size=7)
    with pytest.warns(UserWarning, match="batch_size=3") as told:
        found = f.logits(images)
    assert len(told) == 1
    torch.testing.assert_close(f.logits(images), found)  # in silence
    torch.testing.assert_close(found, plain(net, images))


def test_gray_is_the_colour_that_normalises_to_zero() -> None:
    seen: list[Tensor] = []

    def net(x: Tensor) -> Tensor:
        seen.append(x)
        return x.flatten(1)

    f = classifier(net)
    assert f.gray.tolist() == pytest.approx(MEAN)
    f(f.blank(2))
    assert seen[-1].shape == (2, 3, 8, 8)
    assert seen[-1].count_nonzero() == 0


@pytest.mark.parametrize("kind", [torch.float64, torch.float16, torch.bfloat16])
def test_images_of_any_float_type_are_accepted(kind: torch.dtype, images: Tensor) -> None:
    f = classifier()
    images = images.to(kind)
    assert f.logits(images).dtype == torch.float32
    torch.testing.assert_close(f.logits(images), f.logits(images.float()))


@pytest.mark.parametrize("kind", [torch.float64, torch.bfloat16])
def test_a_net_keeps_its_own_float_type(kind: torch.dtype, images: Tensor) -> None:
    net = Net().eval()
    expected = plain(net, images)
    f = classifier(copy.deepcopy(net).to(kind))
    assert f.logits(images).dtype == torch.float32
    torch.testing.assert_close(f.logits(images), expected, rtol=0.05, atol=0.02)


# ---- label sets -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("label_set", [[1, 3], [3, 1, 1], ["dog", "car"], ["Car", 1]])
def test_a_renormalised_label_set_is_the_softmax_of_the_slice(
    label_set: Sequence[int | str], images: Tensor
) -> None:
    net = Net().eval()
    f = classifier(net, names=NAMES, label_set=label_set, renormalise=True)
    assert f.label_set == (1, 3)
    expected = torch.zeros(7, 5)
    expected[:, [1, 3]] = plain(net, images)[:, [1, 3]].softmax(dim=1)
    torch.testing.assert_close(f.probabilities(images), expected)


def test_a_label_set_is_renormalised_unless_one_says_otherwise_however_it_is_given(images: Tensor) -> None:
    net = Net()
    made, part = classifier(net, label_set=[1, 3]), classifier(net).restricted([1, 3])
    assert made.renormalise and part.renormalise
    assert torch.equal(made.probabilities(images), part.probabilities(images))
    assert not classifier(net, label_set=range(5)).renormalise  # nothing is left out
    assert not classifier(net, label_set=[1, 3], outputs="sigmoid").renormalise
    with pytest.raises(
        InputError, match="a softmax over it alone gives it the probability 1 for every input"
    ):
        classifier(net, label_set=[1])
    assert classifier(net, label_set=[1], renormalise=False).label_set == (1,)


def test_restricting_gives_the_classifier_one_could_have_made_and_leaves_the_first(images: Tensor) -> None:
    net = Net()
    whole = classifier(net, names=NAMES)
    before = whole.probabilities(images)
    for renormalise in (True, False):
        part = whole.restricted(["cup", "bee"], renormalise=renormalise)
        made = classifier(net, names=NAMES, label_set=["cup", "bee"], renormalise=renormalise)
        torch.testing.assert_close(part.probabilities(images), made.probabilities(images))
        assert part.fingerprint() == made.fingerprint()
        assert (part.names, part.label_set) == (whole.names, (2, 4))
    torch.testing.assert_close(whole.probabilities(images), before)
    assert whole.label_set == (0, 1, 2, 3, 4)


def test_a_restriction_holds_in_the_frozen_view_too(images: Tensor) -> None:
    part = classifier().restricted([0, 4])
    torch.testing.assert_close(part.frozen().probabilities(images), part.probabilities(images))
    half = part.frozen().frozen(dtype=torch.bfloat16)
    assert half.label_set == (0, 4) and half.renormalise and half.dtype == torch.bfloat16
    torch.testing.assert_close(half.probabilities(images), part.probabilities(images), atol=0.05, rtol=0.1)
    part.restricted([1, 2]).frozen()
    assert part.frozen().label_set == (0, 4)


def test_top_labels_come_best_first_and_from_the_label_set(images: Tensor) -> None:
    f = classifier(label_set=[0, 1, 4])
    rows = f.probabilities(images).tolist()
    expected = [sorted([0, 1, 4], key=lambda a: -row[a])[:2] for row in rows]
    assert f.top(images, 2).tolist() == expected


@pytest.mark.parametrize(
    "label_set, message",
    [
        ([], "label_set is empty"),
        ("top5", "must be 'all' or a list"),
        ([9], "out of range"),
        (["catt"], "Did you mean 'cat'"),
    ],
)
def test_a_label_set_that_cannot_be_is_refused(label_set: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        classifier(names=NAMES, label_set=label_set)


# ---- what is refused ------------------------------------------------------------------------------------------


def test_probabilities_declared_as_logits_are_refused() -> None:
    with pytest.raises(ModelError, match="they are probabilities, but outputs='logits'"):
        classifier(nn.Sequential(Net(), nn.Softmax(dim=1)))


def test_log_probabilities_are_logits(images: Tensor) -> None:
    net = Net()
    f = classifier(nn.Sequential(net, nn.LogSoftmax(dim=1)))
    torch.testing.assert_close(f.probabilities(images), classifier(net).probabilities(images))


def test_a_net_that_returns_nan_for_some_images_names_the_first(images: Tensor) -> None:
    def net(x: Tensor) -> Tensor:
        return x.flatten(1).where(x.mean(dim=(1, 2, 3), keepdim=False)[:, None] < 1.5, math.nan)

    images[[2, 5]] = 1.0
    with pytest.raises(ModelError, match=r"for 2 of 7 images \(first: image 2\)"):
        classifier(net, batch_size=4).probabilities(images)


@pytest.mark.parametrize(
    "net, given",
    [
        (lambda x: x, r"\(\d, 3, 8, 8\)"),
        (lambda x: x.flatten(), r"\(\d+,\)"),
        (lambda x: x.flatten(1)[:, None], r"\(\d, 1, 192\)"),
        (lambda x: torch.zeros(9, 5), r"\(9, 5\)"),
        (lambda x: (x.flatten(1), x), "tuple"),
        (lambda x: {"logits": x.flatten(1)}, "dict"),
    ],
)
def test_outputs_of_another_shape_are_refused(net: Callable[[Tensor], Any], given: str) -> None:
    with pytest.raises(ModelError, match=rf"returned {given} for \d images; .*picks the logits"):
        classifier(net)


@pytest.mark.parametrize(
    "spoil, message",
    [
        (lambda x: x[:, :, :7], r"must be \(N, 3, 8, 8\), got \(7, 3, 7, 8\)"),
        (lambda x: x[:, :1], r"got \(7, 1, 8, 8\)"),
        (lambda x: x[0], r"got \(3, 8, 8\); for one image write x\[None\]"),
        (
            lambda x: x.permute(0, 2, 3, 1),
            r"got \(7, 8, 8, 3\); channels come before height and width: write x.movedim\(-1, -3\)",
        ),
        (lambda x: (x * 255).to(torch.uint8), r"got torch\.uint8; divide 8-bit pixels by 255"),
        (lambda x: x * 255, r"must lie in \[0, 1\] \(the classifier normalises"),
        (lambda x: x - 0.5, r"must lie in \[0, 1\]"),
        (lambda x: x.where(x < 0.99, math.nan), r"must lie in \[0, 1\].*nan"),
        (lambda x: x.where(x < 0.99, math.inf), r"must lie in \[0, 1\].*inf"),
        (lambda x: x.numpy(), "must be a tensor .*not ndarray"),
    ],
)
def test_images_that_are_none_are_refused(
    spoil: Callable[[Tensor], Any], message: str, images: Tensor
) -> None:
    with pytest.raises(InputError, match=message):
        classifier().probabilities(spoil(images))


def test_rounding_beyond_the_unit_range_is_no_reason_to_refuse() -> None:
    images = torch.full((1, 3, 8, 8), 1 + 1e-6)
    images[0, 0, 0, 0] = -1e-6
    assert classifier().probabilities(images).shape == (1, 5)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"size": 0}, "size must be positive"),
        ({"size": (8, -1)}, "size must be positive"),
        ({"mean": (0.5,)}, "one entry per channel"),
        ({"std": (1.0, 1.0, 0.0)}, "std > 0"),
        ({"mean": (), "std": ()}, "one entry per channel"),
        ({"batch_size": 0}, "batch_size must be at least 1"),
        (
            {"outputs": "scores"},
            "'logits', 'probabilities', 'probability', 'sigmoid' or 'sigmoid-probabilities', not 'scores'",
        ),
        ({"names": ["a", "b"]}, "names has 2 entries, but the net returns 5 outputs"),
        ({"device": "meta"}, "the device 'meta' cannot be used here: .*choose another, such as cpu"),
        ({"device": "cudda"}, "the device 'cudda' cannot be used here: .*choose another, such as cpu"),
        pytest.param(
            {"device": "cuda"},
            "the device 'cuda' cannot be used here: .*choose another, such as cpu",
            marks=pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU"),
        ),
    ],
)
def test_arguments_that_cannot_be_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        classifier(**arguments)


@pytest.mark.parametrize("arguments", [{}, {"device": "cpu"}])
def test_a_net_whose_weights_have_no_values_is_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(
        ModelError, match=r"weights of the net \w+ are on torch's meta device.*Load them first"
    ):
        Classifier(Net().to("meta"), size=8, **arguments)


def test_gray_pictures_without_an_axis_of_channels_are_refused_with_the_way_to_add_it() -> None:
    f = Classifier(nn.Sequential(nn.Flatten(), nn.Linear(64, 3)), size=8, mean=(0.5,), std=(0.5,))
    with pytest.raises(
        InputError, match=r"got \(2, 8, 8\); images have an axis of channels: write x.unsqueeze\(-3\)"
    ):
        f.probabilities(torch.rand(2, 8, 8))


# ---- records --------------------------------------------------------------------------------------------------


def test_the_fingerprint_is_that_of_the_function(images: Tensor) -> None:
    net = Net()
    f = classifier(net)
    first = f.fingerprint()
    f.probabilities(images)
    f.frozen()
    same = [
        f,
        classifier(net),
        classifier(net, batch_size=3),
        classifier(net, names=NAMES),
        classifier(copy.deepcopy(net).train()),
        classifier(copy.deepcopy(net).to(memory_format=torch.channels_last)),
        classifier(net, label_set=[4, 3, 2, 1, 0]),
    ]
    assert {other.fingerprint() for other in same} == {first}


def test_another_function_has_another_fingerprint() -> None:
    def altered(change: Callable[[Net], object]) -> Net:
        other = copy.deepcopy(net)
        with torch.no_grad():
            change(other)
        return other

    net = Net()
    different = [
        classifier(net),
        classifier(altered(lambda n: n.fc.bias[0].add_(1e-6))),
        classifier(altered(lambda n: n.norm.running_var[2].add_(1e-6))),
        classifier(altered(lambda n: setattr(n, "relu", nn.GELU()))),
        classifier(altered(lambda n: n.to(torch.bfloat16))),
        *(
            classifier(altered(lambda n, k=k: n.register_buffer("scale", torch.tensor(k), persistent=False)))
            for k in (1.0, 2.0)
        ),
        classifier(net, size=9),
        classifier(net, mean=(0.5, 0.4, 0.31)),
        classifier(net, std=(0.2, 0.25, 0.31)),
        classifier(net, label_set=[0, 1]),
        classifier(net, label_set=[0, 1], renormalise=False),
        classifier(net, name="other"),
        classifier(nn.Sequential(net, nn.Softmax(dim=1)), outputs="probabilities"),
    ]
    assert len({f.fingerprint() for f in different}) == len(different)


def test_the_record_says_which_f_was_judged() -> None:
    f = classifier(names=NAMES, label_set=["cup", "cat"], renormalise=True, resize=10, name="mine")
    assert f.settings() == {
        "model": "mine",
        "size": [8, 8],
        "mean": list(MEAN),
        "std": list(STD),
        "resize": 10,
        "interpolation": "bilinear",
        "label_set": [0, 2],
        "renormalise": True,
        "outputs": "logits",
    }
    assert classifier().settings()["label_set"] == "all"
    assert repr(f) == "Classifier(mine, 8x8, 2 of 5 labels, renormalised, cpu)"


def test_the_frozen_view_is_made_once_for_each_type() -> None:
    f = classifier()
    assert f.frozen() is f.frozen()
    assert f.frozen() is f.frozen(dtype=torch.float32)
    assert f.frozen() is not f.frozen(dtype=torch.bfloat16)
    assert f.frozen().frozen() is f.frozen()
    with pytest.raises(InputError, match="needs a torch module"):
        classifier(lambda x: x.flatten(1)[:, :3]).frozen(dtype=torch.bfloat16)


def test_scripted_and_traced_nets_can_be_wrapped() -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(12, 3)).eval()
    x = torch.rand(2, 3, 2, 2, generator=torch.Generator().manual_seed(0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scripted = [torch.jit.script(net), torch.jit.trace(net, x)]
    for script in scripted:
        f = Classifier(script, size=2)
        for view in (f, f.frozen()):
            torch.testing.assert_close(view.probabilities(x), net(x).softmax(dim=1))


def test_labels_outside_a_restricted_set_are_refused() -> None:
    f = Classifier(nn.Sequential(nn.Flatten(), nn.Linear(12, 3)), size=2).restricted([0, 2])
    with pytest.raises(InputError, match="label 1 is not in the classifier's label set"):
        make_method("gradient")(f, torch.rand(1, 3, 2, 2), torch.tensor([[0, 1]]))


def test_no_images_have_no_logits() -> None:
    assert classifier().probabilities(torch.zeros(0, 3, 8, 8)).shape == (0, 5)
