"""The contract of fills: a background depends only on the net, the image and its random stream."""

from __future__ import annotations

import dataclasses
import functools

import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core import streams
from proofmap.core.errors import InputError
from proofmap.fills import Fill
from proofmap.session import Session
from proofmap.testing.nets import KINDS, TEXT, toy_tokens, values
from proofmap.testing.plugins import (
    assert_close,
    assert_leaves_alone,
    assert_records,
    may_be_refused,
    plugin_contract,
    shared_classifier,
)

check_fill = plugin_contract(Fill)
"""Checks a fill: raises one AssertionError that names every broken promise."""

_N, _INPUTS = 4, (*KINDS, TEXT, toy_tokens(5))
_Trial = tuple[Classifier, Tensor, Tensor]
"""A net that takes one kind of input, N images ``(N, *shape)`` for it, and random stream keys ``(N,)``."""


def _trials() -> list[_Trial]:
    found = []
    for inputs in _INPUTS:
        images = values(inputs, _N)
        found.append((shared_classifier(inputs), images, streams.image_keys(images, 0, "fill")))
    return found


def _shown(fill: Fill, f: Classifier, images: Tensor, keys: Tensor) -> Tensor:
    session = Session(f)
    fill.prepare(session)
    return fill(session, images, keys)


def _served(fill: Fill) -> list[_Trial]:
    """The trials of the kinds of input that the fill serves."""
    served = []
    for trial in _trials():
        try:
            _shown(fill, *trial)
        except Exception:  # another promise checks the error
            continue
        served.append(trial)
    assert served, "it serves no kind of input"
    return served


def _other_net(f: Classifier) -> Classifier:
    """A classifier whose inputs have the same shape, but another mean."""
    return shared_classifier(dataclasses.replace(f.inputs, mean=tuple(0.5 * m + 0.1 for m in f.inputs.mean)))


@check_fill.promise
def it_shows_inputs_of_the_net_or_refuses_their_kind(fill: Fill) -> None:
    for f, x, keys in _trials():
        with may_be_refused(f.inputs.noun):
            found = _shown(fill, f, x.clone(), keys.clone())
            assert found.shape == x.shape, f"backgrounds are {tuple(found.shape)}, expected {tuple(x.shape)}"
            assert found.dtype == x.dtype, f"backgrounds are {found.dtype}, the {f.inputs.noun} are {x.dtype}"
            try:
                f.inputs.check(found)
            except InputError as error:
                raise AssertionError(str(error)) from error
    _served(fill)


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
