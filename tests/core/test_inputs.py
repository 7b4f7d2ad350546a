"""Pictures, series and rows: what a position is, how inputs are composed, checked, read, shown and named."""

from __future__ import annotations

import copy
import io
import itertools
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from torch import Tensor

from proofmap.core.errors import InputError
from proofmap.core.inputs import Box, Inputs, Pictures, Rows, Series, inputs_of
from proofmap.core.tensors import NamedImages
from tests.toys import conv_classifier, normal, pixels

PICTURES = Pictures(size=(4, 5), mean=(0.5, 0.4, 0.3), std=(0.25, 0.2, 0.3))
SERIES = Series(length=6, mean=(1.0, -2.0), std=(3.0, 0.5))
ROWS = Rows(columns=7, mean=tuple(range(7)), std=tuple(range(1, 8)))
EVERY: dict[str, Inputs] = {"pictures": PICTURES, "series": SERIES, "rows": ROWS}

every_kind = pytest.mark.parametrize("inputs", EVERY.values(), ids=EVERY)


def some(inputs: Inputs, *lead: int, seed: int = 0) -> Tensor:
    """Inputs ``(*lead, *shape)`` with independent values, inside the limits."""
    values = normal(*lead, *inputs.shape, seed=seed)
    return values if inputs.limits is None else values.sigmoid()


# ---- shapes -----------------------------------------------------------------------------------------------------


# ---- composites -------------------------------------------------------------------------------------------------


def composed_in_a_loop(inputs: Inputs, keep: Tensor, shown: Tensor, hidden: Tensor) -> Tensor:
    """keep * shown + (1 - keep) * hidden, number by number, in float64."""
    result = np.zeros(shown.shape)
    for index in itertools.product(*map(range, shown.shape)):
        position = index if inputs.channel_axis is None else (index[0], *index[2:])
        share = float(keep[position])
        result[index] = share * float(shown[index]) + (1 - share) * float(hidden[index])
    return torch.from_numpy(result).float()


@every_kind
def test_a_soft_mask_mixes_at_each_position(inputs: Inputs) -> None:
    shown, hidden = some(inputs, 3), some(inputs, 3, seed=1)
    keep = normal(3, *inputs.positions, seed=2).sigmoid()
    torch.testing.assert_close(
        inputs.composite(keep, shown, hidden), composed_in_a_loop(inputs, keep, shown, hidden)
    )


@every_kind
def test_masks_inputs_and_backgrounds_broadcast(inputs: Inputs) -> None:
    x, background = some(inputs, 2, 1), inputs.blank(1)
    keep = normal(2, 4, *inputs.positions) > 0
    composite = inputs.composite(keep, x, background)
    assert composite.shape == (2, 4, *inputs.shape)
    for i, j in itertools.product(range(2), range(4)):
        assert torch.equal(composite[i, j], inputs.composite(keep[i, j], x[i, 0], background[0]))


@every_kind
def test_a_soft_mask_passes_the_gradient_of_the_difference(inputs: Inputs) -> None:
    shown, hidden = some(inputs), some(inputs, seed=1)
    keep = torch.full(inputs.positions, 0.3, requires_grad=True)
    inputs.composite(keep, shown, hidden).sum().backward()
    torch.testing.assert_close(keep.grad, inputs.merged_channels(shown - hidden))


@every_kind
def test_a_soft_mask_takes_the_precision_of_the_inputs(inputs: Inputs) -> None:
    shown, hidden = some(inputs, 3).half(), some(inputs, 3, seed=1).half()
    keep = normal(3, *inputs.positions, seed=2).sigmoid().requires_grad_(True)
    composite = inputs.composite(keep, shown, hidden)
    assert composite.dtype == torch.float16
    exact = composed_in_a_loop(inputs, keep.detach(), shown.float(), hidden.float())
    torch.testing.assert_close(composite.float(), exact, rtol=2e-3, atol=2e-3)
    composite.sum().backward()
    assert keep.grad is not None and keep.grad.dtype == torch.float32
    expected = inputs.merged_channels(shown.float() - hidden.float())
    torch.testing.assert_close(keep.grad, expected, rtol=2e-3, atol=2e-3)


# ---- neutral values and probes ------------------------------------------------------------------------------------


OUTSIDE = Pictures(size=2, mean=(-0.5, 1.5), std=(1.0, 1.0))
"""Its mean is no colour."""


@pytest.mark.parametrize("inputs", [*EVERY.values(), OUTSIDE], ids=[*EVERY, "outside"])
def test_blank_inputs_are_the_mean_where_the_limits_allow(inputs: Inputs) -> None:
    blank, mean = inputs.check(inputs.blank(2)), inputs.per_channel(torch.tensor(inputs.mean))
    inside = mean if inputs.limits is None else mean.clamp(*inputs.limits)
    assert torch.equal(blank, inside.expand(2, *inputs.shape))


# ---- settings and records -----------------------------------------------------------------------------------------


def test_a_record_without_a_kind_is_of_pictures() -> None:
    record = {"size": [2, 3], "mean": [0.5], "std": [1.0], "name": "an older run", "resize": None}
    assert inputs_of(record) == Pictures(size=(2, 3), mean=(0.5,), std=(1.0,))


def test_a_record_of_an_unknown_kind_says_so() -> None:
    with pytest.raises(InputError, match="inputs of the kind 'scents' are not known here"):
        inputs_of({"inputs": "scents", "length": 3})


@pytest.mark.parametrize(
    "kind, settings, told",
    [
        (Series, {"length": 0}, r"the size of series must be positive, not \(0,\)"),
        (Series, {"length": 3, "mean": (0, 0)}, "mean and std need one entry per channel"),
        (Series, {"length": 3, "std": (0,)}, "std > 0"),
        (Series, {"length": 3, "std": (float("nan"),)}, "std > 0, got .*nan"),
        (Series, {"length": 3, "mean": (float("inf"),)}, r"got \(inf,\)"),
        (Series, {"length": 3, "mean": (), "std": ()}, "one entry per channel"),
        (Rows, {"columns": 3, "mean": (0, 0), "std": (1, 1)}, "rows of 3 columns need as many means, not 2"),
        (Rows, {"columns": 0, "mean": (0,), "std": (1,)}, "the size of rows must be positive"),
        (Pictures, {"size": 0}, r"size must be positive, not \(0, 0\)"),
        (Pictures, {"size": (4, -1)}, "size must be positive"),
        (Pictures, {"size": (3, 4, 4)}, r"\(height, width\) in pixels, or one number .*, not \(3, 4, 4\)"),
        (Pictures, {"size": (4,)}, "size must be"),
        (Pictures, {"size": (4.5, 4)}, "size must be"),
        (Pictures, {"size": float("inf")}, "size must be"),
        (Pictures, {"size": "large"}, "size must be .*, not 'large'"),
        (Pictures, {"size": 4, "mean": 0.5}, "mean must be a list with one number per channel.*, not 0.5"),
        (Pictures, {"size": 4, "interpolation": "cubic"}, "one of nearest, bilinear, .*, not 'cubic'"),
    ],
)
def test_settings_that_make_no_sense_are_refused(kind: Any, settings: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=told):
        kind(**settings)


# ---- checks -------------------------------------------------------------------------------------------------------


@every_kind
def test_good_inputs_pass_as_they_are(inputs: Inputs) -> None:
    for x in (some(inputs, 2), some(inputs, 2).double(), some(inputs, 0)):
        assert inputs.check(x) is x


@pytest.mark.parametrize(
    "inputs, given_, told",
    [
        (
            PICTURES,
            np.zeros((1, 3, 4, 5)),
            r"images must be a tensor \(N, channels, height, width\), not ndarray; see load_images",
        ),
        (SERIES, [[0.0]], r"series must be a tensor \(N, channels, time steps\), not list$"),
        (ROWS, None, r"rows must be a tensor \(N, columns\), not NoneType$"),
        (PICTURES, torch.zeros(1, 3, 5, 4), r"images must be \(N, 3, 4, 5\), got \(1, 3, 5, 4\)"),
        (SERIES, torch.zeros(2, 6), r"series must be \(N, 2, 6\), got \(2, 6\)"),
        (ROWS, torch.zeros(7), r"rows must be \(N, 7\), got \(7,\)"),
        (
            PICTURES,
            torch.zeros(1, 3, 4, 5, dtype=torch.uint8),
            r"images must be floats in \[0, 1\], got torch.uint8; divide 8-bit pixels by 255",
        ),
        (SERIES, torch.zeros(1, 2, 6, dtype=torch.int64), r"series must be floats, got torch.int64$"),
        (
            PICTURES,
            torch.full((1, 3, 4, 5), 255.0),
            r"images must lie in \[0, 1\] \(the classifier normalises them itself\), got \[255, 255\]",
        ),
        (PICTURES, torch.full((1, 3, 4, 5), 1.002), r"must lie in \[0, 1\].*got \[1.002, 1.002\]"),
        (PICTURES, torch.full((1, 3, 4, 5), float("nan")), r"images must lie in \[0, 1\].*got \[nan, nan\]"),
        (SERIES, torch.full((1, 2, 6), float("nan")), r"series must be finite, got \[nan, nan\]"),
        (SERIES, torch.tensor([float("inf")]).expand(1, 2, 6), r"series must be finite, got \[inf, inf\]"),
        (ROWS, torch.tensor([-float("inf"), *[0.0] * 6])[None], r"rows must be finite, got \[-inf, 0\]"),
    ],
)
def test_what_is_wrong_with_inputs_is_said(inputs: Inputs, given_: Any, told: str) -> None:
    with pytest.raises(InputError, match=told):
        inputs.check(given_)


# ---- reading --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("inputs", [SERIES, ROWS], ids=["series", "rows"])
def test_numbers_in_any_form_are_prepared_as_they_are(inputs: Inputs) -> None:
    x = some(inputs)
    frozen = x.numpy().copy()
    frozen.flags.writeable = False
    forms = [x, x.tolist(), x.double(), x.numpy(), frozen, x.clone().requires_grad_()]
    for item in forms:
        prepared = inputs.prepare(item)
        assert prepared.dtype == torch.float32 and not prepared.requires_grad
        assert torch.equal(prepared, x)
    inputs.prepare(x).zero_()
    assert x.count_nonzero(), "what is prepared is a copy"


@pytest.mark.parametrize(
    "item, told",
    [
        (torch.zeros(6, 2), r"series must be \(N, 2, 6\), got \(1, 6, 2\)"),
        ([[0.0] * 6, [float("nan")] * 6], "series must be finite, got"),
        ([["a"] * 6] * 2, "series must be numbers: "),
        ([[1.0], [1.0, 2.0]], "series must be numbers: "),
    ],
)
def test_items_that_are_no_series_are_refused(item: Any, told: str) -> None:
    with pytest.raises(InputError, match=told):
        SERIES.prepare(item)


def test_nets_that_no_picture_fits_are_refused_before_reading() -> None:
    with pytest.raises(InputError, match="pictures have 1 or 3 channels, but the classifier takes 4"):
        Pictures(size=4, mean=(0,) * 4, std=(1,) * 4).check_readable()  # type: ignore[arg-type]
    for inputs in EVERY.values():
        inputs.check_readable()


# ---- boxes ----------------------------------------------------------------------------------------------------------


@st.composite
def painted(draw: st.DrawFn) -> tuple[Image.Image, Box]:
    """A black picture with a white box."""
    wide, high = draw(st.integers(20, 90)), draw(st.integers(20, 90))
    x0, y0 = draw(st.integers(0, wide - 2)), draw(st.integers(0, high - 2))
    x1, y1 = draw(st.integers(x0 + 1, wide)), draw(st.integers(y0 + 1, high))
    picture = Image.new("RGB", (wide, high))
    picture.paste((255, 255, 255), (x0, y0, x1, y1))
    return picture, (x0, y0, x1, y1)


@given(
    painted(),
    st.tuples(st.integers(8, 40), st.integers(8, 40)),
    st.none() | st.integers(8, 60),
    st.booleans(),
)
def test_a_box_moves_with_the_picture(
    given_: tuple[Image.Image, Box], size: tuple[int, int], resize: int | None, cropped: bool
) -> None:
    """A pixel that lies inside the moved box is white, and one that lies outside is black; the edge may be either."""
    picture, box = given_
    inputs = Pictures(size=size, resize=resize, interpolation="box")
    white = inputs.prepare(picture, cropped=cropped)[0]
    covered = torch.zeros(size)
    for x0, y0, x1, y1 in inputs.moved_boxes([box], picture, cropped=cropped):
        assert 0 <= x0 < x1 <= size[1] and 0 <= y0 < y1 <= size[0]
        covered = _share(y0, y1, size[0])[:, None] * _share(x0, x1, size[1])
    assert bool((white[covered > 0.999] == 1).all())
    assert bool((white[covered < 0.001] == 0).all())


def _share(start: float, end: float, length: int) -> Tensor:
    """How much of each unit interval of ``0 .. length`` lies between start and end."""
    left = torch.arange(length, dtype=torch.float64)
    return (torch.clamp(left + 1, max=end) - torch.clamp(left, min=start)).clamp(min=0).float()


def test_a_box_that_is_cut_off_is_dropped_and_one_on_the_edge_is_clipped() -> None:
    picture = Image.new("RGB", (40, 10))  # only the middle 10 of 40 columns are kept
    inputs = Pictures(size=10)  # type: ignore[arg-type]
    boxes: list[Box] = [(0, 0, 15, 10), (30, 2, 40, 8), (10, 2, 20, 8), (18, 0, 22, 10)]
    assert inputs.moved_boxes(boxes, picture) == ((0, 2, 5, 8), (3, 0, 7, 10))


# ---- pictures for people --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [2, 7, 50, 192, 500])
def test_a_series_is_drawn_where_its_time_steps_are(length: int) -> None:
    inputs = Series(length=length)
    for step in {0, length // 2, length - 1}:
        x = torch.zeros(1, length)
        x[0, step] = 3.0
        ink = inputs.picture(x)[:, :, 0] < 200
        top = np.flatnonzero(ink.argmax(axis=0) == ink.argmax(axis=0).min())
        away = np.abs(inputs.pixel_positions()[0].numpy() - step)
        own = np.flatnonzero(away == away.min())  # of a long series, not every step has a column
        assert np.abs(own - top[0]).min() <= (length > inputs.picture_size()[1])
        if 0 < step < length - 1:
            assert top.mean() == pytest.approx(own.mean(), abs=1)


def test_a_row_is_drawn_as_bars_up_and_down() -> None:
    inputs = Rows(columns=3, mean=(10.0, 10.0, 10.0), std=(2.0, 2.0, 2.0))
    ink = inputs.picture(torch.tensor([12.0, 10.0, 6.0]))[:, :, 0] < 200
    columns, middle = inputs.pixel_positions()[0].numpy(), inputs.picture_size()[0] // 2
    up, flat, down = (ink[:, columns == k].any(axis=1) for k in range(3))
    assert up[:middle].sum() > 0 and up[middle + 1 :].sum() == 0
    assert flat.sum() == 0
    assert down[:middle].sum() == 0 and down[middle + 1 :].sum() == pytest.approx(
        2 * up[:middle].sum(), abs=1
    )


@pytest.mark.parametrize(
    "mean, std, told",
    [
        (
            (123.675, 116.28, 103.53),
            (58.395, 57.12, 57.375),
            r"mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225)",
        ),
        ((123.68, 116.78, 103.94), (1, 1, 1), r"mean=(0.485, 0.458, 0.4076), std=(0.0039, 0.0039, 0.0039)"),
        ((0.5, 0.5, 0.5), (127.5, 127.5, 127.5), r"mean=(0.5, 0.5, 0.5), std=(0.5, 0.5, 0.5)"),
        ((0,), (255,), r"mean=(0.0,), std=(1.0,)"),
    ],
)
def test_mean_and_std_in_units_of_bytes_are_refused(
    mean: tuple[float, ...], std: tuple[float, ...], told: str
) -> None:
    with pytest.raises(InputError, match=re.escape(f"divide by 255: {told}")):
        Pictures(size=(4, 4), mean=mean, std=std)
    Pictures(size=(4, 4), mean=(0.4,), std=(1 / 255,))  # a net that wants bytes less a mean


# ---- names of images -----------------------------------------------------------------------------------------


NAMES = ("ant", "bee", "cat", "dog")
MOVES: dict[str, Callable[[Tensor], Tensor]] = {
    "slice": lambda x: x[1:3],
    "step": lambda x: x[::2],
    "negative": lambda x: x[-1:],
    "list": lambda x: x[[3, 0]],
    "mask": lambda x: x[[True, False, False, True]],
    "tensor": lambda x: x[torch.tensor([2, 2])],
    "boolean tensor": lambda x: x[torch.tensor([False, True, False, True])],
    "array": lambda x: x[np.array([1, 3])],
    "channels": lambda x: x[1:, :1],
    "nothing": lambda x: x[:0],
    "type": lambda x: x.double().to(torch.float32),
    "device": lambda x: x.to("cpu").cpu(),
    "copy": lambda x: copy.deepcopy(x.clone().detach()),
}
OTHERS: dict[str, Callable[[Tensor], Tensor]] = {
    "one image": lambda x: x[0],
    "one channel": lambda x: x[:, 0],
    "joined": lambda x: torch.cat([x[2:], x[:1]]),
    "another order": lambda x: x.flip(0),
    "other pixels": lambda x: x * 0.5,
    "reshaped": lambda x: x.flatten(0, 1),
}


@pytest.fixture
def images() -> NamedImages:
    return NamedImages.of(pixels(4, 8), NAMES)


@pytest.mark.parametrize("move", MOVES.values(), ids=MOVES)
def test_names_follow_their_images(move: Callable[[Tensor], Tensor], images: NamedImages) -> None:
    moved = move(images)
    whole = images[:, : moved.shape[1]]
    expected = [NAMES[next(i for i in range(4) if torch.equal(whole[i], one))] for one in moved]
    assert NamedImages.names_of(moved) == tuple(expected)
    assert torch.equal(moved, move(torch.Tensor(images)))


@pytest.mark.parametrize("change", OTHERS.values(), ids=OTHERS)
def test_other_images_are_plain_tensors(change: Callable[[Tensor], Tensor], images: NamedImages) -> None:
    assert type(change(images)) is Tensor
    assert NamedImages.names_of(change(images)) is None


def test_a_net_sees_plain_tensors(images: NamedImages) -> None:
    f = conv_classifier(8, 5)
    assert type(f.check_images(images)) is Tensor
    assert torch.equal(f.probabilities(images), f.probabilities(pixels(4, 8)))
    seen: list[type] = []
    f.net.register_forward_pre_hook(lambda _, given: seen.append(type(given[0])))
    f.logits(images)
    assert seen and set(seen) == {Tensor}


def test_they_are_saved_as_any_tensor(images: NamedImages) -> None:
    file = io.BytesIO()
    torch.save(images, file)
    file.seek(0)
    assert torch.equal(torch.load(file, weights_only=True), pixels(4, 8))


def test_there_is_a_name_for_each_image() -> None:
    with pytest.raises(InputError, match="1 names were given for 2 images"):
        NamedImages.of(pixels(2, 8), ["cat"])
