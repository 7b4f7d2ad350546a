"""The contract of methods: maps depend only on the net, the image, the label and the seed."""

from __future__ import annotations

import functools

import torch
from torch import Tensor, nn

from proofmap.classifier import Classifier
from proofmap.core.inputs import Inputs, Pictures, TextInputs
from proofmap.data.distractors import Distractors
from proofmap.methods import Method
from proofmap.session import Session
from proofmap.testing.plugins import (
    PICTURES,
    TRIED,
    Contract,
    assert_alone,
    assert_apart,
    assert_close,
    assert_leaves_alone,
    may_be_refused,
    net_for,
    shared_classifier,
    values,
)

check_method = Contract.of(Method)
"""Checks a method: raises one AssertionError that names every broken promise."""

_POOL = 12
"""Number of random images from which methods may draw."""
_LABELS = torch.tensor([[2, 0, 1], [1, 3, 0]])
_IMAGES = values(PICTURES, len(_LABELS))


def _maps(method: Method, f: Classifier, x: Tensor, labels: Tensor, *, seed: int = 0) -> Tensor:
    return _session(f, seed).maps(method, x, labels)


def _session(f: Classifier, seed: int = 0) -> Session:
    """A session in which random images are drawn from a fixed pool, as in a study, and not from the other images of the call."""

    def pool() -> Distractors | None:
        return Distractors.from_images(values(f.inputs, _POOL, seed=7), f.inputs)

    return Session(f, seed=seed, role="learn", distractors=pool)


def _classifier(method: Method, batch_size: int = 64, inputs: Inputs = PICTURES) -> Classifier:
    """A classifier with a small net that the method can explain: with convolutions, or with attention."""
    return shared_classifier(inputs, batch_size=batch_size, attention="attention" in method.needs)


@functools.lru_cache(maxsize=1)
def _usual(method: Method) -> Tensor:
    """The method's maps for all test images and labels, for comparison."""
    return _maps(method, _classifier(method), _IMAGES, _LABELS)


def _spread(maps: Tensor) -> Tensor:
    """The range of values (largest minus smallest) of each map, ``(N, L)``."""
    return maps.flatten(2).amax(dim=2) - maps.flatten(2).amin(dim=2)


@check_method.promise
def it_makes_one_finite_map_for_each_label(method: Method) -> None:
    """Maps of other shapes and with NaN are refused wherever maps are made."""
    constant = _spread(_usual(method)) == 0
    assert not bool(constant.any()), f"{int(constant.sum())} of {constant.numel()} maps have one value only"


@check_method.promise
def label_free_and_stochastic_are_true(method: Method) -> None:
    """``label_free``: one map serves all labels. ``stochastic``: the seed matters, and nothing else does."""
    maps = _usual(method)
    same = torch.equal(maps, maps[:, :1].expand_as(maps))
    found = "the same" if same else "different"
    assert same == method.label_free, f"label_free is {method.label_free}, but labels get {found} maps"
    same = torch.equal(maps, _maps(method, _classifier(method), _IMAGES, _LABELS, seed=1))
    found = "the same map" if same else "different maps"
    assert same != method.stochastic, f"stochastic is {method.stochastic}, but two seeds give {found}"


@check_method.promise
def a_map_depends_on_its_image_and_label_alone(method: Method) -> None:
    """It does not depend on the size of batches, on the other images and labels, or on their order; and the label -1 is a place without one."""

    def run(batch_size: int, rows: list[int]) -> Tensor:
        return _maps(method, _classifier(method, batch_size), _IMAGES[rows], _LABELS[rows])

    usual, f = assert_alone(run, len(_LABELS), "maps"), _classifier(method)
    labels = torch.tensor([[1, 2, -1], [1, -1, -1]])
    maps = _maps(method, f, _IMAGES, labels)
    assert_close(maps[0, :2], usual[0, [2, 0]], "maps", "with the order of labels")
    assert_close(maps[1, 0], usual[1, 0], "maps", "where other places have the label -1")


@check_method.promise
def a_session_keeps_settings_and_seeds_apart(method: Method) -> None:
    f, image, labels = _classifier(method), _IMAGES[:1], _LABELS[:1]
    shared = _session(f)
    shared.maps(method, image, labels)
    assert_close(
        shared.like(seed=1).maps(method, image, labels),
        _session(f, seed=1).maps(method, image, labels),
        "maps",
        "in a session that had another seed before; a state that is drawn needs session.seed in its key",
    )
    assert_apart(method, lambda: _session(f), lambda one, session: session.maps(one, image, labels), "maps")


@check_method.promise
def other_inputs_get_maps_or_are_refused(method: Method) -> None:
    """Series and rows may be refused with an InputError, and inputs must be if they lack what the method needs: a row has no "first words"."""
    for inputs in TRIED[1:]:
        lacking = method.lacks(inputs)
        if lacking is None and isinstance(inputs, TextInputs):  # whose texts no small net tells apart
            continue
        with may_be_refused(inputs.noun):
            method.prepare(Session(shared_classifier(inputs)))
            assert lacking is None, f"it needs {lacking}, which {inputs.noun} lack, but takes them"
            maps = _maps(method, shared_classifier(inputs), values(inputs, len(_LABELS)), _LABELS)
            assert bool((_spread(maps) > 0).any()), "every map has one value only"


@check_method.promise
def other_pictures_and_nets_get_maps_or_are_refused(method: Method) -> None:
    """Pictures of every size and nets of half precision get maps, unless the method was trained for one net. A method may refuse pictures
    that are not of three channels, and functions."""
    trained, attention = "masker" in method.needs, "attention" in method.needs
    half, linear = net_for(PICTURES, attention=attention).to(torch.bfloat16), net_for(PICTURES, conv=False)
    tried = [
        ("a net of torch.bfloat16", Classifier(half, inputs=PICTURES), trained),
        ("a function", Classifier(lambda x: linear(x), inputs=PICTURES, batch_size=64), True),
    ]
    for channels, size in ((3, (7, 9)), (1, (9, 7))):
        inputs = Pictures(size=size, mean=(0.4,) * channels, std=(0.25,) * channels)
        what = f"pictures of {channels} channels and {size[0]} x {size[1]} pixels"
        tried.append((what, _classifier(method, inputs=inputs), trained or channels != 3))
    for what, f, allowed in tried:
        with may_be_refused(what, allowed=allowed):
            maps = _maps(method, f, values(f.inputs, 1), _LABELS[:1])
            assert bool((_spread(maps) > 0).any()), "every map has one value only"


@check_method.promise
def a_net_that_ignores_the_image_gets_a_constant_map_or_is_refused(method: Method) -> None:
    """Control methods, and methods that never run the net (their cost is 0), are not checked. The map of a stochastic method may have some
    noise, such as that of the initial masks.
    """
    cost = method.cost(_LABELS.shape[1])
    if method.family == "control" or (cost is not None and cost.passes == 0):
        return
    net = net_for(PICTURES, attention="attention" in method.needs)
    nn.init.zeros_([layer for layer in net.modules() if isinstance(layer, nn.Linear)][-1].weight)
    with may_be_refused("a net that ignores the image"):
        maps = _maps(method, Classifier(net, inputs=PICTURES, batch_size=64), _IMAGES, _LABELS)
        found, seeing = _spread(maps).max(), _spread(_usual(method)).max()
        assert bool(found <= (0.05 if method.stochastic else 0.001) * seeing), (
            f"its map spreads over {found:.2g}, those of a usual net over {seeing:.2g}"
        )


@check_method.promise
def it_works_where_gradients_are_switched_off(method: Method) -> None:
    with torch.no_grad():  # where the net and the images are made, too
        f = Classifier(net_for(PICTURES, attention="attention" in method.needs), inputs=PICTURES)
        maps = _maps(method, f, values(PICTURES, 1), _LABELS[:1])
    assert_close(maps, _usual(method)[:1], "maps", "inside torch.no_grad()")


@check_method.promise
def it_leaves_the_net_and_the_random_state_alone(method: Method) -> None:
    attention = "attention" in method.needs
    assert_leaves_alone(lambda f: _maps(method, f, _IMAGES, _LABELS), "maps", attention=attention)
