"""The contract of fills. A fill makes the backgrounds that hidden positions show. Backgrounds must be valid inputs of the net, and depend only
on the net, the image and the random stream key."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from proofmap.classifier import Classifier
from proofmap.core import streams
from proofmap.core.inputs import Inputs
from proofmap.fills import Fill
from proofmap.session import Session
from proofmap.testing.nets import KINDS, TEXT, toy_tokens, values
from proofmap.testing.plugins import (
    assert_close,
    assert_global_randomness_is_not_used,
    may_be_refused,
    plugin_contract,
    shared_classifier,
    with_another_seed,
)

check_fill = plugin_contract(Fill)
"""Checks a fill: raises one AssertionError that names every broken promise."""

N = 4


@dataclass(frozen=True)
class Trial:
    """A net that takes one kind of input, N images ``(N, *shape)`` for it, and random stream keys ``(N,)``."""

    classifier: Classifier
    images: Tensor
    keys: Tensor

    @property
    def noun(self) -> str:
        return self.classifier.inputs.noun

    def backgrounds(self, fill: Fill) -> Tensor:
        session = Session(self.classifier)
        fill.prepare(session)
        return fill(session, self.images.clone(), self.keys.clone())


def trial(inputs: Inputs) -> Trial:
    images = values(inputs, N)
    return Trial(shared_classifier(inputs), images, streams.image_keys(images, 0, "fill"))


def served(fill: Fill) -> list[Trial]:
    """One trial for each kind of input that the fill can serve."""
    trials = []
    for inputs in (*KINDS, TEXT, toy_tokens(5)):
        tried = trial(inputs)
        try:
            tried.backgrounds(fill)
        except Exception:  # another promise checks the error
            continue
        trials.append(tried)
    return trials


def other_net(tried: Trial) -> Classifier:
    """A classifier whose inputs have the same shape as in ``tried``, but another mean."""
    inputs = tried.classifier.inputs
    return shared_classifier(dataclasses.replace(inputs, mean=tuple(0.5 * m + 0.1 for m in inputs.mean)))


# ---- what it is --------------------------------------------------------------------------------------------------


@check_fill.promise
def it_serves_a_kind_of_input_and_refuses_others_with_an_input_error(fill: Fill) -> None:
    for inputs in (*KINDS, TEXT, toy_tokens(5)):
        with may_be_refused(inputs):
            trial(inputs).backgrounds(fill)
    assert served(fill), "it serves none of pictures, series and rows"


# ---- what is made from it ----------------------------------------------------------------------------------------


@check_fill.promise
def its_record_is_plain_data_that_names_it_and_the_same_each_time(fill: Fill) -> None:
    for tried in served(fill):
        record, again = (each.record(Session(tried.classifier)) for each in (fill, dataclasses.replace(fill)))
        assert record == again, f"two records differ: {record} and {again}"
        assert record.get("fill") == fill.name, (
            f"the record is {record}, expected 'fill': {fill.name!r} in it"
        )
        assert json.loads(json.dumps(record)) == record, f"the record changes when JSON carries it: {record}"


@check_fill.promise
def its_record_differs_where_its_backgrounds_do(fill: Fill) -> None:
    for tried in served(fill):
        here, there = Session(tried.classifier), Session(other_net(tried))
        shown = (fill(session, tried.images, tried.keys) for session in (here, there))
        if torch.equal(*shown):
            continue
        assert fill.record(here) != fill.record(there), (
            f"two nets get different backgrounds, but the same record: {fill.record(here)}"
        )


@check_fill.promise
def its_use_for_one_net_does_not_disturb_another(fill: Fill) -> None:
    for tried in served(fill):
        x, keys = tried.images, tried.keys
        here, there = Session(tried.classifier), Session(other_net(tried))
        used, unused = dataclasses.replace(fill), dataclasses.replace(fill)
        before = used(here, x, keys)
        assert torch.equal(used(there, x, keys), unused(there, x, keys)), (
            "a fill that was used for another net before shows something else"
        )
        assert torch.equal(used(here, x, keys), before), (
            "backgrounds change when the fill is used for another net"
        )


# ---- what it shows -----------------------------------------------------------------------------------------------


@check_fill.promise
def backgrounds_are_inputs_of_the_net(fill: Fill) -> None:
    for tried in served(fill):
        found, x = tried.backgrounds(fill), tried.images
        assert found.shape == x.shape, f"backgrounds are {tuple(found.shape)}, expected {tuple(x.shape)}"
        assert found.dtype == x.dtype, f"backgrounds are {found.dtype}, the {tried.noun} are {x.dtype}"
        assert found.device == x.device, f"backgrounds are on {found.device}, the {tried.noun} on {x.device}"
        tried.classifier.inputs.check(found)


@check_fill.promise
def a_background_depends_on_its_image_and_key_alone(fill: Fill) -> None:
    for tried in served(fill):
        session, x, keys = Session(tried.classifier), tried.images, tried.keys
        together, what = fill(session, x, keys), f"backgrounds of {tried.noun}"
        assert torch.equal(fill(session, x, keys), together), (
            "the same image and key give two different backgrounds"
        )
        turned = torch.tensor([2, 0, 3, 1])
        assert_close(fill(session, x[turned], keys[turned]), together[turned], what, "with the order")
        assert_close(fill(session, x[1:2], keys[1:2]), together[1:2], what, "when one is alone")


@check_fill.promise
def random_means_that_the_key_matters(fill: Fill) -> None:
    for tried in served(fill):
        session = Session(tried.classifier)
        first, *others = (fill(session, tried.images, tried.keys + k) for k in range(6))
        same = all(torch.equal(first, other) for other in others)
        found = "the same background" if same else "different backgrounds"
        assert same != fill.random, f"random is {fill.random}, but two keys give {found}"


# ---- what it leaves alone ----------------------------------------------------------------------------------------


@check_fill.promise
def images_and_keys_stay_as_they_are(fill: Fill) -> None:
    for tried in served(fill):
        x, keys = tried.images.clone(), tried.keys.clone()
        fill(Session(tried.classifier), x, keys)
        assert torch.equal(x, tried.images), f"the {tried.noun} were changed"
        assert torch.equal(keys, tried.keys), "the keys were changed"


@check_fill.promise
def the_global_random_state_is_not_touched(fill: Fill) -> None:
    for tried in served(fill):
        found = with_another_seed(partial(tried.backgrounds, fill))
        assert_global_randomness_is_not_used(found, tried.backgrounds(fill), "backgrounds")
