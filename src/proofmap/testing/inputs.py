"""The contracts of kinds of input and of fills, what hidden positions show.

In a kind of input each value belongs to one position (a part that is shown or hidden as a whole), records describe the inputs, and inputs
can be read, filled and drawn. The background that a fill shows depends only on the net, the image and its random stream.
"""

from __future__ import annotations

import dataclasses
import functools
import json

import numpy as np
import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core import streams
from proofmap.core.errors import InputError
from proofmap.core.inputs import KINDS, Inputs
from proofmap.core.text import one_line
from proofmap.data import TensorData
from proofmap.fills import Fill, Images, make_fill
from proofmap.judging import evaluate
from proofmap.session import Session
from proofmap.testing.plugins import (
    TRIED,
    Contract,
    assert_apart,
    assert_close,
    assert_leaves_alone,
    assert_records,
    may_be_refused,
    shared_classifier,
    values,
)

check_inputs: Contract[Inputs] = Contract("kind of input")
"""Checks a kind of input, given as a small instance: raises one AssertionError that names every broken promise."""


@check_inputs.promise
def it_is_registered_and_described_by_its_record(inputs: Inputs) -> None:
    kind = type(inputs)
    assert KINDS[inputs.kind] is kind, f"{kind.__name__} is not registered: @KINDS.register"
    for name in ("noun", "singular", "position_noun", "form"):
        assert getattr(inputs, name, ""), f"{name} is missing"
    record = json.loads(json.dumps(inputs.record()))
    same = kind.from_record({**record, "model": "another entry"})
    assert same == inputs and hash(same) == hash(inputs), f"its record describes {same}"


@check_inputs.promise
def every_value_belongs_to_one_position_and_every_position_has_values(inputs: Inputs) -> None:
    owners = inputs.over_channels(torch.arange(inputs.count).view(inputs.positions)).expand(inputs.shape)
    seen = owners.unique().tolist()
    assert seen == list(range(inputs.count)), f"{inputs.count} positions, but values belong to {len(seen)}"
    x, hidden = values(inputs, 1)[0], inputs.blank(1)[0]
    for position in {0, inputs.count - 1}:
        keep = (torch.arange(inputs.count) == position).view(inputs.positions)
        expected = torch.where(owners == position, x, hidden)
        assert torch.equal(inputs.composite(keep, x, hidden), expected), (
            f"showing position {position} alone shows other values"
        )
        for how, reduce in (("sum", torch.sum), ("mean", torch.mean), ("max", torch.amax)):
            merged = inputs.merged_channels(x[None], how).flatten()[position]
            whole = reduce(x[owners == position])
            assert torch.isclose(merged, whole, rtol=1e-4, atol=1e-5), (
                f"the {how} of position {position} is {merged:g}, expected {whole:g}"
            )


@check_inputs.promise
def every_position_has_a_name_and_a_value_in_words(inputs: Inputs) -> None:
    names, x = inputs.position_names, values(inputs, 1)[0]
    assert len(names) == inputs.count, f"{len(names)} names for {inputs.count} positions"
    assert len(set(names)) == len(names), "two positions have the same name"
    for text in (names[0], names[-1], inputs.value_text(x, 0), inputs.value_text(x, inputs.count - 1)):
        assert text and one_line(text) == text, f"{text!r} is not one line of text"


@check_inputs.promise
def it_takes_inputs_of_its_shape_and_no_others(inputs: Inputs) -> None:
    x, blank, probe = values(inputs, 3), inputs.blank(2), inputs.probe()
    assert blank.shape == (2, *inputs.shape), "blank() has another shape"
    inputs.check(blank), inputs.check(probe)
    assert not torch.equal(probe, blank[:1]), "probe() must differ from the neutral input"
    read = inputs.prepare(TensorData(x, kind=inputs.kind).read(1))
    assert torch.equal(read, x[1]), "prepare() changes numbers of the right shape"
    infinite = x.clone()
    infinite.view(-1)[0] = torch.inf
    for wrong, what in ((x[..., None], "an axis too many"), (infinite, "infinity")):
        try:
            inputs.check(wrong)
        except InputError:
            continue
        raise AssertionError(f"check() takes {what}")


@check_inputs.promise
def its_fills_show_inputs(inputs: Inputs) -> None:
    assert inputs.fills, "it names no fill"
    x, others = values(inputs, 3), values(inputs, 5, seed=1)
    for name in inputs.fills:
        fill = make_fill(name)
        fill = fill.changed(source=others, crop="none") if isinstance(fill, Images) else fill
        inputs.check(fill(Session(shared_classifier(inputs)), x, streams.image_keys(x, 0, "fill")))


@check_inputs.promise
def its_picture_shows_every_position(inputs: Inputs) -> None:
    pictures, (height, width) = [inputs.picture(x) for x in values(inputs, 2)], inputs.picture_size()
    for drawn in pictures:
        assert drawn.shape == (height, width, 3) and drawn.dtype == np.uint8, (
            f"the picture is {drawn.shape} of {drawn.dtype}, expected ({height}, {width}, 3) of uint8"
        )
    assert not np.array_equal(pictures[0], pictures[1]), "two inputs have the same picture"
    places = inputs.pixel_positions()
    assert places.shape == (height, width), f"pixel_positions() are {tuple(places.shape)}"
    inside = int(places.min()) >= -1 and int(places.max()) < inputs.count
    assert inside, "a pixel shows a position that is not there"


@check_inputs.promise
def methods_are_judged_on_it(inputs: Inputs) -> None:
    net, x = shared_classifier(inputs), values(inputs, 2)
    found = evaluate(net, x, methods=["random"], metrics=["insertion:points=4"], labels="top2")
    maps = found.results[0].maps
    assert maps is not None and maps.shape[2:] == inputs.positions, "maps do not have its positions"
    assert found.inputs == inputs, f"a result describes {found.inputs}"


# ---- fills --------------------------------------------------------------------------------------------------------

check_fill = Contract.of(Fill)
"""Checks a fill: raises one AssertionError that names every broken promise."""

_Trial = tuple[Classifier, Tensor, Tensor]
"""A net that takes one kind of input, four images ``(N, *shape)`` for it, and random stream keys ``(N,)``."""


def _served(fill: Fill) -> list[_Trial]:
    """The trials of the kinds of input that the fill serves. Others are refused with an InputError."""
    served = []
    for inputs in TRIED:
        f, x = shared_classifier(inputs), values(inputs, 4)
        with may_be_refused(inputs.noun):
            trial = f, x, streams.image_keys(x, 0, "fill")
            _shown(fill, *trial)
            served.append(trial)
    assert served, "it serves no kind of input"
    return served


def _shown(fill: Fill, f: Classifier, images: Tensor, keys: Tensor) -> Tensor:
    session = Session(f)
    fill.prepare(session)
    return fill(session, images, keys)


def _other_net(f: Classifier) -> Classifier:
    """A classifier whose inputs have the same shape, but another mean."""
    return shared_classifier(dataclasses.replace(f.inputs, mean=tuple(0.5 * m + 0.1 for m in f.inputs.mean)))


@check_fill.promise
def it_shows_inputs_of_the_net_or_refuses_their_kind(fill: Fill) -> None:
    for f, x, keys in _served(fill):
        f.inputs.check(fill(Session(f), x, keys))


@check_fill.promise
def its_record_is_plain_data_and_differs_where_its_backgrounds_do(fill: Fill) -> None:
    for f, x, keys in _served(fill):
        here, there = Session(f), Session(_other_net(f))
        record = fill.record(here)
        assert_records(record, dataclasses.replace(fill).record(here))
        assert record.get("fill") == fill.name, (
            f"the record is {record}, expected 'fill': {fill.name!r} in it"
        )
        assert record != fill.record(there) or torch.equal(fill(here, x, keys), fill(there, x, keys)), (
            f"two nets get different backgrounds, but the same record: {record}"
        )


@check_fill.promise
def a_background_depends_on_its_image_and_key_alone(fill: Fill) -> None:
    for f, x, keys in _served(fill):
        session, what = Session(f), f"backgrounds of {f.inputs.noun}"
        together = fill(session, x, keys)
        assert torch.equal(fill(session, x, keys), together), "the same image and key give two backgrounds"
        for rows, when in (([2, 0, 3, 1], "with the order"), ([1], "when one is alone")):
            assert_close(fill(session, x[rows], keys[rows]), together[rows], what, when)
        used, other = dataclasses.replace(fill), Session(_other_net(f))
        used(session, x, keys)
        assert torch.equal(used(other, x, keys), dataclasses.replace(fill)(other, x, keys)), (
            "a fill that was used for another net before shows something else"
        )


@check_fill.promise
def a_session_keeps_two_settings_apart(fill: Fill) -> None:
    for f, x, keys in _served(fill):

        def shown(one: Fill, session: Session, x: Tensor = x, keys: Tensor = keys) -> Tensor:
            one.prepare(session)
            return one(session, x, keys)

        assert_apart(fill, functools.partial(Session, f), shown, f"backgrounds of {f.inputs.noun}")


@check_fill.promise
def random_means_that_the_key_matters(fill: Fill) -> None:
    for f, x, keys in _served(fill):
        first, *others = (fill(Session(f), x, keys + k) for k in range(6))
        same = all(torch.equal(first, other) for other in others)
        found = "the same background" if same else "different backgrounds"
        assert same != fill.random, f"random is {fill.random}, but two keys give {found}"


@check_fill.promise
def it_leaves_the_net_and_the_random_state_alone(fill: Fill) -> None:
    for f, x, keys in _served(fill):
        shown = functools.partial(_shown, fill, images=x, keys=keys)
        assert_leaves_alone(shown, "backgrounds", inputs=f.inputs)
