"""The contract of kinds of input: each value belongs to one position (a part that is shown or hidden as a whole), records describe the inputs,
and inputs can be read, filled and drawn."""

from __future__ import annotations

import json

import numpy as np
import torch
from torch import Tensor

from proofmap.core import streams
from proofmap.core.errors import InputError
from proofmap.core.inputs import KINDS, Inputs
from proofmap.core.text import one_line
from proofmap.data import TensorData
from proofmap.fills import Images, make_fill
from proofmap.judging import evaluate
from proofmap.session import Session
from proofmap.testing.nets import values
from proofmap.testing.plugins import Contract, raises, shared_classifier

check_inputs: Contract[Inputs] = Contract("kind of input")
"""Checks a kind of input, given as a small instance: raises one AssertionError that names every broken promise."""

_N = 3


def _owners(inputs: Inputs) -> Tensor:
    """The index of the position that each value of an input belongs to, in the shape ``shape`` of the input."""
    places = inputs.over_channels(torch.arange(inputs.count).view(inputs.positions))
    return places.expand(inputs.shape)


# ---- what it is --------------------------------------------------------------------------------------------------


@check_inputs.promise
def it_is_registered_and_has_words_for_messages(inputs: Inputs) -> None:
    kind = type(inputs)
    assert inputs.kind in KINDS and KINDS[inputs.kind] is kind, (
        f"{kind.__name__} is not registered: @KINDS.register"
    )
    for name in ("noun", "singular", "position_noun", "form"):
        assert getattr(inputs, name, ""), f"{name} is missing"
    assert inputs.form.startswith("(N, ") and inputs.form.count(",") == len(inputs.shape), (
        f"form is {inputs.form!r}, expected (N, ...) with {len(inputs.shape)} more axes"
    )


@check_inputs.promise
def its_record_is_plain_data_and_describes_it(inputs: Inputs) -> None:
    record = json.loads(json.dumps(inputs.record()))
    assert record.get("inputs", "pictures") == inputs.kind, (
        f"the record is {record}, without 'inputs': {inputs.kind!r}"
    )
    same = type(inputs).from_record({**record, "model": "another entry"})
    assert same == inputs and hash(same) == hash(inputs), f"its record describes {same}"


# ---- positions ---------------------------------------------------------------------------------------------------


@check_inputs.promise
def every_value_belongs_to_one_position_and_every_position_has_values(inputs: Inputs) -> None:
    assert len(inputs.positions) >= 1, "it has no positions"
    owners = _owners(inputs)
    seen = owners.unique().tolist()
    assert seen == list(range(inputs.count)), f"{inputs.count} positions, but values belong to {len(seen)}"
    x, hidden = values(inputs, 1)[0], inputs.blank(1)[0]
    for position in {0, inputs.count - 1}:
        keep = (torch.arange(inputs.count) == position).view(inputs.positions)
        shown = inputs.composite(keep, x, hidden)
        expected = torch.where(owners == position, x, hidden)
        assert torch.equal(shown, expected), f"showing position {position} alone shows other values"


@check_inputs.promise
def every_position_has_a_name_and_a_value_in_words(inputs: Inputs) -> None:
    names = inputs.position_names
    assert len(names) == inputs.count, f"{len(names)} names for {inputs.count} positions"
    assert len(set(names)) == len(names), "two positions have the same name"
    x = values(inputs, 1)[0]
    for position in (0, inputs.count - 1):
        for text in (names[position], inputs.value_text(x, position)):
            assert text and one_line(text) == text, f"{text!r} is not one line of text"


@check_inputs.promise
def values_of_a_position_are_merged(inputs: Inputs) -> None:
    x, owners = values(inputs, _N), _owners(inputs).flatten()
    for how, reduce in (("sum", torch.sum), ("mean", torch.mean), ("max", torch.amax)):
        found = inputs.merged_channels(x, how).reshape(_N, -1)
        assert found.shape == (_N, inputs.count), f"merged values are {tuple(found.shape)}"
        for position in {0, inputs.count - 1}:
            expected = reduce(x.flatten(1)[:, owners == position], dim=1)
            assert torch.allclose(found[:, position], expected, rtol=1e-4, atol=1e-5), (
                f"the {how} of position {position} is {found[:, position].tolist()}, expected {expected.tolist()}"
            )


# ---- values ------------------------------------------------------------------------------------------------------


@check_inputs.promise
def its_own_examples_are_inputs(inputs: Inputs) -> None:
    blank, probe = inputs.blank(2), inputs.probe()
    assert blank.shape == (2, *inputs.shape) and probe.shape == (1, *inputs.shape), (
        "blank or probe has another shape"
    )
    inputs.check(blank), inputs.check(probe)
    assert not torch.equal(probe, blank[:1]), "probe() must differ from the neutral input"
    assert torch.equal(blank[0], inputs.per_channel(inputs.neutral).expand(inputs.shape)), (
        "blank() is not neutral"
    )


@check_inputs.promise
def wrong_inputs_are_refused_with_an_input_error(inputs: Inputs) -> None:
    x = values(inputs, _N)
    infinite = x.clone()
    infinite.view(-1)[0] = torch.inf
    for wrong, what in (
        (x[..., None], "an axis too many"),
        (x.long(), "whole numbers"),
        (infinite, "infinity"),
        ("text", "text"),
    ):
        try:
            inputs.check(wrong)  # type: ignore[arg-type]
        except InputError:
            continue
        raise AssertionError(f"check() takes {what}")


@check_inputs.promise
def it_reads_numbers_of_its_shape(inputs: Inputs) -> None:
    x = values(inputs, _N)
    data = TensorData(x, kind=inputs.kind)
    assert data.names[0] == f"{inputs.singular}-00000"
    read = inputs.prepare(data.read(1))
    assert read.dtype == torch.float32 and torch.equal(read, x[1]), (
        "prepare() changes numbers of the right shape"
    )
    with raises(InputError, "."):
        inputs.prepare(np.zeros((1, *inputs.shape)))


# ---- fills, pictures, the whole way ------------------------------------------------------------------------------


@check_inputs.promise
def its_fills_show_inputs(inputs: Inputs) -> None:
    assert inputs.fills, "it names no fill"
    x, classifier = values(inputs, _N), shared_classifier(inputs)
    others = values(inputs, 5, seed=1)
    for name in inputs.fills:
        fill = make_fill(name)
        fill = fill.changed(source=others, crop="none") if isinstance(fill, Images) else fill
        shown = fill(Session(classifier), x, streams.image_keys(x, 0, "fill"))
        assert shown.shape == x.shape, f"the fill {name} shows {tuple(shown.shape)}"
        inputs.check(shown)


@check_inputs.promise
def its_picture_shows_every_position(inputs: Inputs) -> None:
    one, other = values(inputs, 2)
    pictures = [inputs.picture(x) for x in (one, other, one)]
    height, width = inputs.picture_size()
    for drawn in pictures:
        assert drawn.shape == (height, width, 3) and drawn.dtype == np.uint8, (
            f"the picture is {drawn.shape} of {drawn.dtype}, expected ({height}, {width}, 3) of uint8"
        )
    assert np.array_equal(pictures[0], pictures[2]), "two pictures of one input differ"
    assert not np.array_equal(pictures[0], pictures[1]), "two inputs have the same picture"
    places = inputs.pixel_positions()
    assert places.shape == (height, width), f"pixel_positions() are {tuple(places.shape)}"
    assert int(places.min()) >= 0 and int(places.max()) < inputs.count, (
        "a pixel shows a position that is not there"
    )


@check_inputs.promise
def methods_are_judged_on_it(inputs: Inputs) -> None:
    classifier = shared_classifier(inputs)
    found = evaluate(
        classifier, values(inputs, 2), methods=["random"], metrics=["insertion:points=4"], labels="top2"
    )
    maps = found.results[0].maps
    assert maps is not None and maps.shape[2:] == inputs.positions, "maps do not have its positions"
    assert found.image_names[0] == f"{inputs.singular}-0"
    assert found.inputs == inputs, f"a result describes {found.inputs}"
