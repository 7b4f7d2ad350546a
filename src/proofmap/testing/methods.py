"""The contract of methods: maps depend only on the net, the image, the label and the seed."""

from __future__ import annotations

import functools

import torch
from torch import Tensor, nn

from proofmap.classifier import Classifier
from proofmap.core.inputs import Inputs, Pictures
from proofmap.core.progress import CallbackTask, Progress
from proofmap.data.distractors import Distractors
from proofmap.methods import Method
from proofmap.methods.method import FAMILIES, NEEDS
from proofmap.session import Session
from proofmap.testing.nets import (
    PICTURES,
    ROWS,
    SERIES,
    TEXT,
    classifier_of,
    linear_net,
    net_for,
    values,
)
from proofmap.testing.plugins import (
    assert_close,
    assert_leaves_alone,
    may_be_refused,
    plugin_contract,
    shared_classifier,
)

check_method = plugin_contract(Method)
"""Checks a method: raises one AssertionError that names every broken promise."""

_POOL = 12
"""Number of random images from which methods may draw."""
_LABELS = torch.tensor([[2, 0, 1], [1, 3, 0], [0, 2, 3]])
_IMAGES = values(PICTURES, len(_LABELS))


def _maps(
    method: Method,
    f: Classifier,
    x: Tensor,
    labels: Tensor,
    *,
    seed: int = 0,
    progress: Progress | None = None,
) -> Tensor:
    """The method's maps. Random images are drawn from a fixed pool, as in a study, and not from the other images of the call."""
    session = Session(
        f,
        seed=seed,
        role="learn",
        distractors=lambda: Distractors.from_images(values(f.inputs, _POOL, seed=7), f.inputs),
        progress=progress,
    )
    return session.maps(method, x, labels)


def _attends(method: Method) -> bool:
    return "attention" in method.needs


def _classifier(method: Method, batch_size: int = 64, inputs: Inputs = PICTURES) -> Classifier:
    """A classifier with a small net that the method can explain: with convolutions, or with attention."""
    return shared_classifier(inputs, batch_size=batch_size, attention=_attends(method))


@functools.lru_cache(maxsize=1)
def _usual(method: Method) -> Tensor:
    """The method's maps for all test images and labels, for comparison."""
    return _maps(method, _classifier(method), _IMAGES, _LABELS)


def _spread(maps: Tensor) -> Tensor:
    """The range of values (largest minus smallest) of each map, ``(N, L)``."""
    return maps.flatten(2).amax(dim=2) - maps.flatten(2).amin(dim=2)


def _assert_maps(maps: Tensor, labels: Tensor, inputs: Inputs) -> None:
    expected = (*labels.shape, *inputs.positions)
    assert maps.shape == expected, f"got maps {tuple(maps.shape)}, expected {expected}"
    assert maps.dtype == torch.float32, f"maps are {maps.dtype}"
    assert bool(maps.isfinite().all()), "a map has NaN or infinity"
    assert bool((_spread(maps) > 0).any()), "every map has one value only"


@check_method.promise
def its_family_and_needs_are_known(method: Method) -> None:
    unknown = sorted(method.needs.difference(NEEDS))
    assert method.family in FAMILIES, f"families are {', '.join(sorted(FAMILIES))}, not {method.family!r}"
    assert not unknown, f"needs knows {sorted(NEEDS)}, not {unknown}"


@check_method.promise
def it_makes_one_finite_map_for_each_label(method: Method) -> None:
    maps, constant = _usual(method), _spread(_usual(method)) == 0
    _assert_maps(maps, _LABELS, PICTURES)
    assert not maps.requires_grad, "maps still require a gradient; detach them"
    assert not bool(constant.any()), f"{int(constant.sum())} of {constant.numel()} maps have one value only"


@check_method.promise
def label_free_and_stochastic_are_true(method: Method) -> None:
    """``label_free``: one map serves all labels. ``stochastic``: the seed matters, and nothing else does."""
    maps, f = _usual(method), _classifier(method)
    same = torch.equal(maps, maps[:, :1].expand_as(maps))
    found = "the same" if same else "different"
    assert same == method.label_free, f"label_free is {method.label_free}, but labels get {found} maps"
    again = _maps(method, f, _IMAGES, _LABELS)
    assert torch.equal(maps, again), "the same seed gives two different maps"
    same = torch.equal(maps, _maps(method, f, _IMAGES, _LABELS, seed=1))
    found = "the same map" if same else "different maps"
    assert same != method.stochastic, f"stochastic is {method.stochastic}, but two seeds give {found}"


@check_method.promise
def a_map_depends_on_its_image_and_label_alone(method: Method) -> None:
    """It does not depend on the size of batches, on the other images and labels, or on their order; and the label -1 is a place without one."""
    usual = _usual(method)
    for batch_size, rows, columns, when in (
        (64, [2, 0, 1], [1, 2, 0], "with the order"),
        (64, [1], [0, 1, 2], "when an image is alone"),
        (64, [1], [0], "when a label is alone"),
        (1, [0], [0, 1, 2], "with batches of 1"),
        (5, [0, 1, 2], [0, 1, 2], "with batches of 5"),
    ):
        maps = _maps(method, _classifier(method, batch_size), _IMAGES[rows], _LABELS[rows][:, columns])
        assert_close(maps, usual[rows][:, columns], "maps", when)
    padded = _LABELS.clone()
    padded[1, 1:], padded[2, 1] = -1, -1
    maps = _maps(method, _classifier(method), _IMAGES, padded)
    assert maps[padded < 0].count_nonzero() == 0, "a map for the label -1 is not zero"
    assert_close(maps[padded >= 0], usual[padded >= 0], "maps", "where another place has the label -1")


@check_method.promise
def other_inputs_get_maps_or_are_refused(method: Method) -> None:
    """Series and rows may be refused with an InputError, and inputs must be if they lack what the method needs: a row has no "first words"."""
    for inputs in (SERIES, ROWS, TEXT):
        lacking = method.lacks(inputs)
        if lacking is None and inputs is TEXT:
            continue
        f, x = shared_classifier(inputs), values(inputs, len(_LABELS))
        with may_be_refused(inputs.noun):
            method.prepare(Session(f))
            assert lacking is None, f"it needs {lacking}, which {inputs.noun} lack, but takes them"
            maps = _maps(method, f, x, _LABELS)
            _assert_maps(maps, _LABELS, inputs)
            assert_close(_maps(method, f, x[1:2], _LABELS[1:2]), maps[1:2], "maps", "when one is alone")


@check_method.promise
def other_pictures_and_nets_get_maps_or_are_refused(method: Method) -> None:
    """Pictures of every size and nets of half precision get maps, unless the method was trained for one net. A method may refuse pictures
    that are not of three channels, nets without convolution, and functions."""
    trained, net, attention = "masker" in method.needs, linear_net(PICTURES), _attends(method)
    tried = [
        (
            f"a net of {dtype}",
            Classifier(net_for(PICTURES, attention=attention).to(dtype), inputs=PICTURES),
            trained,
        )
        for dtype in (torch.float16, torch.bfloat16)
    ]
    for what, function in (("a net without convolution", net), ("a function", lambda x: net(x))):
        tried.append((what, Classifier(function, inputs=PICTURES, batch_size=64), True))
    for channels, size in ((3, (7, 9)), (1, (9, 7)), (4, (5, 11))):
        inputs = Pictures(size=size, mean=(0.4,) * channels, std=(0.25,) * channels)
        what = f"pictures of {channels} channels and {size[0]} x {size[1]} pixels"
        tried.append((what, _classifier(method, inputs=inputs), trained or channels != 3))
    for what, f, allowed in tried:
        with may_be_refused(what, allowed=allowed):
            maps = _maps(method, f, values(f.inputs, 1), _LABELS[:1])
            _assert_maps(maps, _LABELS[:1], f.inputs)


@check_method.promise
def a_net_that_ignores_the_image_gets_a_constant_map_or_is_refused(method: Method) -> None:
    """Control methods, and methods that never run the net (their cost is 0), are not checked. The map of a stochastic method may have some
    noise, such as that of the initial masks.
    """
    cost = method.cost(_LABELS.shape[1])
    if method.family == "control" or (cost is not None and cost.passes == 0):
        return
    with may_be_refused("a net that ignores the image"):
        blind = _blinded(net_for(PICTURES, attention=_attends(method)))
        maps = _maps(method, Classifier(blind, inputs=PICTURES, batch_size=64), _IMAGES, _LABELS)
        found, seeing = _spread(maps).max(), _spread(_usual(method)).max()
        assert bool(found <= (0.05 if method.stochastic else 0.001) * seeing), (
            f"its map spreads over {found:.2g}, those of a usual net over {seeing:.2g}"
        )


def _blinded(net: nn.Module) -> nn.Module:
    """The net, with the weights of its last linear layer set to zero, so that logits are the same for all images."""
    last = [layer for layer in net.modules() if isinstance(layer, nn.Linear)][-1]
    nn.init.zeros_(last.weight)
    return net


@check_method.promise
def it_works_where_gradients_are_switched_off(method: Method) -> None:
    for off in (torch.no_grad, torch.inference_mode):
        with off():  # where the net and the images are made, too
            f = classifier_of(PICTURES, attention=_attends(method))
            maps = _maps(method, f, values(PICTURES, 1), _LABELS[:1])
            assert not torch.is_grad_enabled(), "gradients are left switched on"
        assert_close(maps, _usual(method)[:1], "maps", f"inside torch.{off.__name__}()")


@check_method.promise
def it_leaves_the_net_and_the_random_state_alone(method: Method) -> None:
    assert_leaves_alone(lambda f: _maps(method, f, _IMAGES, _LABELS), "maps", attention=_attends(method))


class _CountedProgress(Progress):
    """A progress object that counts the passes that a method announces and the passes that it reports as done."""

    def __init__(self) -> None:
        self.announced, self.done = 0, 0

    def task(self, what: str, passes: int) -> CallbackTask:
        self.announced += passes
        return CallbackTask(self._advanced)

    def _advanced(self, passes: int) -> None:
        self.done += passes


@check_method.promise
def progress_does_what_it_announced(method: Method) -> None:
    progress = _CountedProgress()
    _maps(method, _classifier(method, 2), _IMAGES[:2], _LABELS[:2], progress=progress)
    assert progress.done == progress.announced, (
        f"{progress.announced} passes were announced and {progress.done} done"
    )
