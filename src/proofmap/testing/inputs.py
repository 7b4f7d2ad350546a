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
from proofmap.testing.plugins import Contract, shared_classifier

check_inputs: Contract[Inputs] = Contract("kind of input")
"""Checks a kind of input, given as a small instance: raises one AssertionError that names every broken promise."""

_N = 3


def _owners(inputs: Inputs) -> Tensor:
    """The index of the position that each value of an input belongs to, in the shape ``shape`` of the input."""
    places = inputs.over_channels(torch.arange(inputs.count).view(inputs.positions))
    return places.expand(inputs.shape)


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
    owners = _owners(inputs)
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
    for position in (0, inputs.count - 1):
        for text in (names[position], inputs.value_text(x, position)):
            assert text and one_line(text) == text, f"{text!r} is not one line of text"


@check_inputs.promise
def it_takes_inputs_of_its_shape_and_no_others(inputs: Inputs) -> None:
    x, blank, probe = values(inputs, _N), inputs.blank(2), inputs.probe()
    assert blank.shape == (2, *inputs.shape), "blank() has another shape"
    inputs.check(blank), inputs.check(probe)
    assert not torch.equal(probe, blank[:1]), "probe() must differ from the neutral input"
    read = inputs.prepare(TensorData(x, kind=inputs.kind).read(1))
    assert read.dtype == torch.float32 and torch.equal(read, x[1]), (
        "prepare() changes numbers of the right shape"
    )
    infinite = x.clone()
    infinite.view(-1)[0] = torch.inf
    for wrong, what in ((x[..., None], "an axis too many"), (infinite, "infinity"), ("text", "text")):
        try:
            inputs.check(wrong)  # type: ignore[arg-type]
        except InputError:
            continue
        raise AssertionError(f"check() takes {what}")


@check_inputs.promise
def its_fills_show_inputs(inputs: Inputs) -> None:
    assert inputs.fills, "it names no fill"
    x, others = values(inputs, _N), values(inputs, 5, seed=1)
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
    outside = int(places.min()) < 0 or int(places.max()) >= inputs.count
    assert not outside, "a pixel shows a position that is not there"


@check_inputs.promise
def methods_are_judged_on_it(inputs: Inputs) -> None:
    net, x = shared_classifier(inputs), values(inputs, 2)
    found = evaluate(net, x, methods=["random"], metrics=["insertion:points=4"], labels="top2")
    maps = found.results[0].maps
    assert maps is not None and maps.shape[2:] == inputs.positions, "maps do not have its positions"
    assert found.inputs == inputs, f"a result describes {found.inputs}"
