"""The contract of methods: maps depend only on the net, the image, the label and the seed."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from proofmap.classifier import Classifier
from proofmap.classifier.view import has_hooks
from proofmap.core.errors import InputError
from proofmap.core.inputs import Pictures
from proofmap.core.progress import CallbackTask, Progress
from proofmap.data.distractors import from_images
from proofmap.methods import Method
from proofmap.methods.method import FAMILIES, NEEDS
from proofmap.session import Session
from proofmap.testing.nets import (
    PICTURES,
    ROWS,
    SERIES,
    TEXT,
    blinded,
    classifier_of,
    linear_net,
    picture_net,
    values,
)
from proofmap.testing.plugins import (
    assert_close,
    assert_global_randomness_is_not_used,
    assert_net_stays_as_it_is,
    may_be_refused,
    plugin_contract,
    remembered,
    shared_classifier,
    with_another_seed,
)

check_method = plugin_contract(Method)
"""Checks a method: raises one AssertionError that names every broken promise."""

_POOL = 12
"""Number of random images from which methods may draw."""
N, SIZE = 3, PICTURES.size
LABELS = torch.tensor([[2, 0, 1], [1, 3, 0], [0, 2, 3]])


def classifier(method: Method, batch_size: int = 64) -> Classifier:
    """A classifier with a small net that the method can explain: with convolutions, or with attention."""
    return shared_classifier(PICTURES, batch_size=batch_size, attention=attends(method))


def attends(method: Method) -> bool:
    return "attention" in method.needs


def is_trained(method: Method) -> bool:
    """Whether the method was trained for one net, so that it may refuse other nets."""
    return "masker" in method.needs


def images() -> Tensor:
    return values(PICTURES, N)


def maps_of(
    method: Method,
    f: Classifier,
    images: Tensor,
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
        distractors=lambda: from_images(values(f.inputs, _POOL, seed=7), f.inputs),
        progress=progress,
    )
    return session.maps(method, images, labels)


@remembered
def usual(method: Method) -> Tensor:
    """The method's maps for all test images and labels, for comparison."""
    return maps_of(method, classifier(method), images(), LABELS)


@dataclass(frozen=True)
class MethodCall:
    """One call of a method on a new net under another global seed: the net after the call, and the result."""

    classifier: Classifier
    maps: Tensor
    randomness_is_untouched: bool


@remembered
def called(method: Method) -> MethodCall:
    f = classifier_of(PICTURES, attention=attends(method))
    maps, untouched = with_another_seed(lambda: maps_of(method, f, images(), LABELS))
    return MethodCall(f, maps, untouched)


# ---- what it is --------------------------------------------------------------------------------------------


@check_method.promise
def what_it_needs_is_known(method: Method) -> None:
    unknown = sorted(method.needs.difference(NEEDS))
    assert not unknown, f"needs knows {sorted(NEEDS)}, not {unknown}"


@check_method.promise
def its_family_is_known(method: Method) -> None:
    assert method.family in FAMILIES, f"families are {', '.join(sorted(FAMILIES))}, not {method.family!r}"


# ---- what it returns ---------------------------------------------------------------------------------------


@check_method.promise
def maps_are_finite_float32_one_per_label(method: Method) -> None:
    maps = usual(method)
    expected = (*LABELS.shape, *SIZE)
    assert maps.shape == expected, f"got maps {tuple(maps.shape)}, expected {expected}"
    assert maps.dtype == torch.float32, f"maps are {maps.dtype}"
    assert maps.device.type == "cpu", f"maps are on {maps.device}, the classifier is on the CPU"
    assert bool(maps.isfinite().all()), "a map has NaN or infinity"
    assert not maps.requires_grad, "maps still require a gradient; detach them"


@check_method.promise
def maps_are_not_constant(method: Method) -> None:
    maps = usual(method).flatten(2)
    constant = maps.amax(dim=2) == maps.amin(dim=2)
    assert not bool(constant.any()), f"{int(constant.sum())} of {constant.numel()} maps have one value only"


@check_method.promise
def one_image_with_one_label_is_enough(method: Method) -> None:
    shape = tuple(maps_of(method, classifier(method), images()[:1], LABELS[:1, :1]).shape)
    assert shape == (1, 1, *SIZE), f"got maps {shape}, expected {(1, 1, *SIZE)}"


@check_method.promise
def label_free_means_one_map_for_all_labels(method: Method) -> None:
    maps = usual(method)
    same = torch.equal(maps[:, 0], maps[:, 1]) and torch.equal(maps[:, 0], maps[:, 2])
    found = "the same" if same else "different"
    assert same == method.label_free, f"label_free is {method.label_free}, but labels get {found} maps"


@check_method.promise
def stochastic_means_that_the_seed_matters(method: Method) -> None:
    one, again = usual(method), called(method).maps
    other = maps_of(method, classifier(method), images(), LABELS, seed=1)
    assert torch.equal(one, again), "the same seed gives two different maps"
    found = "the same map" if torch.equal(one, other) else "different maps"
    assert torch.equal(one, other) != method.stochastic, (
        f"stochastic is {method.stochastic}, but two seeds give {found}"
    )


@check_method.promise
def places_without_a_label_are_zero_and_disturb_no_other(method: Method) -> None:
    expected = usual(method)
    padded = LABELS.clone()
    padded[1, 1:], padded[2, 1] = -1, -1
    maps = maps_of(method, classifier(method), images(), padded)
    assert maps[padded < 0].count_nonzero() == 0, "a map for the label -1 is not zero"
    assert_close(maps[padded >= 0], expected[padded >= 0], "maps", "where another place has the label -1")


@check_method.promise
def series_and_rows_get_maps_or_are_refused(method: Method) -> None:
    """A method for pictures only must raise an InputError for other inputs."""
    for inputs in (SERIES, ROWS):
        f, x = shared_classifier(inputs), values(inputs, N)
        with may_be_refused(inputs):
            maps = maps_of(method, f, x, LABELS)
            expected = (*LABELS.shape, *inputs.positions)
            assert maps.shape == expected, f"{inputs.noun} get maps {tuple(maps.shape)}, expected {expected}"
            assert bool(maps.isfinite().all()), f"a map of {inputs.noun} has NaN or infinity"
            alone = maps_of(method, f, x[1:2], LABELS[1:2])
            assert_close(alone, maps[1:2], f"maps of {inputs.noun}", "when one is alone")


@check_method.promise
def inputs_that_lack_what_it_needs_are_refused(method: Method) -> None:
    """A method must not return maps without meaning, such as a map of "the first words" for a row or of "the middle" for a text."""
    for inputs in (SERIES, ROWS, TEXT):
        lacking = method.lacks(inputs)
        if lacking is None:
            continue
        try:
            method.prepare(Session(shared_classifier(inputs)))
        except InputError:
            continue
        raise AssertionError(f"it needs {lacking}, which {inputs.noun} lack, but takes them")


@check_method.promise
def pictures_of_odd_sizes_and_of_1_or_4_channels_get_maps(method: Method) -> None:
    """A method for colour pictures may refuse other numbers of channels with an InputError, but it must accept every size."""
    for channels, size in ((3, (7, 9)), (1, (9, 7)), (4, (5, 11))):
        inputs = Pictures(size=size, mean=(0.4,) * channels, std=(0.25,) * channels)
        what = f"pictures of {channels} channels and {size[0]} x {size[1]} pixels"
        with may_be_refused(inputs, what, allowed=channels != 3 or is_trained(method)):
            maps = maps_of(
                method, shared_classifier(inputs, attention=attends(method)), values(inputs, 1), LABELS[:1]
            )
            assert_usable(maps, size, what)


@check_method.promise
def nets_of_half_precision_get_maps(method: Method) -> None:
    for dtype in (torch.float16, torch.bfloat16):
        net = picture_net(PICTURES, attention=attends(method)).to(dtype)
        with may_be_refused(PICTURES, f"a net of {dtype}", allowed=is_trained(method)):
            maps = maps_of(method, Classifier(net, inputs=PICTURES, batch_size=64), images()[:1], LABELS[:1])
            assert maps.dtype == torch.float32, f"a net of {dtype} gets maps of {maps.dtype}"
            assert_usable(maps, SIZE, f"a net of {dtype}")


@check_method.promise
def nets_without_convolution_and_functions_get_maps_or_are_refused(method: Method) -> None:
    """A method that needs a layer, or access to the inside of the net, must raise an InputError that says so."""
    net = linear_net(PICTURES)
    for what, given in (("a net without convolution", net), ("a function", lambda x: net(x))):
        with may_be_refused(PICTURES, what):
            f = Classifier(given, inputs=PICTURES, batch_size=64)
            assert_usable(maps_of(method, f, images()[:1], LABELS[:1]), SIZE, what)


@check_method.promise
def a_net_that_ignores_the_image_gets_a_constant_map_or_is_refused(method: Method) -> None:
    """Control methods, and methods that never run the net (their cost is 0), are not checked. The map of a stochastic method may have some
    noise, such as that of the initial masks.
    """
    cost = method.cost(LABELS.shape[1])
    if method.family == "control" or (cost is not None and cost.passes == 0):
        return
    with may_be_refused(PICTURES, "a net that ignores the image"):
        blind = blinded(picture_net(PICTURES, attention=attends(method)))
        maps = maps_of(method, Classifier(blind, inputs=PICTURES, batch_size=64), images(), LABELS)
        found, seeing = spread(maps).max(), spread(usual(method)).max()
        most = (0.05 if method.stochastic else 0.001) * seeing
        assert bool(found <= most), (
            f"its map spreads over {found:.2g}, those of a usual net over {seeing:.2g}"
        )


def spread(maps: Tensor) -> Tensor:
    """The range of values (largest minus smallest) of each map, ``(N, L)``."""
    return maps.flatten(2).amax(dim=2) - maps.flatten(2).amin(dim=2)


def assert_usable(maps: Tensor, size: tuple[int, ...], what: str) -> None:
    """Assert that the maps of the first image are finite, and that not all of them are constant."""
    expected = (*LABELS[:1].shape, *size)
    assert maps.shape == expected, f"{what}: got maps {tuple(maps.shape)}, expected {expected}"
    assert bool(maps.isfinite().all()), f"{what}: a map has NaN or infinity"
    assert bool((spread(maps) > 0).any()), f"{what}: every map has one value only"


# ---- what it does not depend on ----------------------------------------------------------------------------


@check_method.promise
def the_batch_size_changes_nothing(method: Method) -> None:
    expected = usual(method)
    for batch_size, n in ((1, 1), (5, N)):
        maps = maps_of(method, classifier(method, batch_size), images()[:n], LABELS[:n])
        assert_close(maps, expected[:n], "maps", f"with batches of {batch_size}")


@check_method.promise
def the_order_of_images_and_labels_changes_nothing(method: Method) -> None:
    expected = usual(method)
    turned, shuffled = torch.tensor([2, 0, 1]), torch.tensor([1, 2, 0])
    maps = maps_of(method, classifier(method), images()[turned], LABELS[turned][:, shuffled])
    assert_close(maps, expected[turned][:, shuffled], "maps", "with the order")


@check_method.promise
def an_image_alone_gets_the_map_it_gets_among_others(method: Method) -> None:
    together = usual(method)
    alone = maps_of(method, classifier(method), images()[1:2], LABELS[1:2])
    assert_close(alone, together[1:2], "maps", "when an image is alone")


@check_method.promise
def it_works_where_gradients_are_switched_off(method: Method) -> None:
    labels, expected = LABELS[:1], usual(method)[:1]
    for off in (torch.no_grad, torch.inference_mode):
        with off():  # where the net and the images are made, too
            f = classifier_of(PICTURES, attention=attends(method))
            maps = maps_of(method, f, images()[:1], labels)
            assert not torch.is_grad_enabled(), "gradients are left switched on"
        assert_close(maps, expected, "maps", f"inside torch.{off.__name__}()")


# ---- what it leaves alone ----------------------------------------------------------------------------------


@check_method.promise
def the_net_is_afterwards_what_it_was(method: Method) -> None:
    assert_net_stays_as_it_is(
        lambda classifier: maps_of(method, classifier, images(), LABELS),
        attention="attention" in method.needs,
    )


@check_method.promise
def no_hook_is_left_on_the_classifier(method: Method) -> None:
    f = called(method).classifier
    assert isinstance(f.net, nn.Module) and not has_hooks(f.net), "a hook is left on classifier.net"


@check_method.promise
def the_global_random_state_is_not_touched(method: Method) -> None:
    call = called(method)
    found = call.maps, call.randomness_is_untouched
    assert_global_randomness_is_not_used(found, usual(method), "maps")


# ---- what it reports ---------------------------------------------------------------------------------------


class CountedProgress(Progress):
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
    progress = CountedProgress()
    maps_of(method, classifier(method, 2), images()[:2], LABELS[:2], progress=progress)
    assert progress.done == progress.announced, (
        f"{progress.announced} passes were announced and {progress.done} done"
    )
