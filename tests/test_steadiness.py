"""A net is one function of its input: one whose outputs move between calls is refused, with what was seen."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import proofmap as pm
from proofmap.classifier.steadiness import FirstLook
from proofmap.core.errors import ModelError
from proofmap.data import image_folder
from proofmap.methods import Random
from proofmap.metrics import Insertion
from proofmap.study.session import open_session
from proofmap.study.store.records import ImageRow
from proofmap.study.unit import Unit, Worker
from tests.study.studies import photos
from tests.toys import conv_net, counted_classifier, pixels

SIZE = 8


class Moving:
    """A net whose logits move by ``step`` with each call."""

    def __init__(self, step: float) -> None:
        self.net, self.step, self.calls = conv_net(), step, 0
        self.push = torch.tensor([1.0, -1.0, 0.0, 0.0])

    def __call__(self, x: Tensor) -> Tensor:
        self.calls += 1
        return self.net(x) + self.calls * self.step * self.push


def test_a_net_with_a_state_is_refused_with_the_size_of_the_difference() -> None:
    with pytest.raises(
        ModelError, match=r"same image .* differ by 0\.5 .*a state that changes with every call"
    ):
        pm.Classifier(Moving(0.5), size=SIZE)


def test_forced_dropout_is_named_as_randomness() -> None:
    net = conv_net()
    with pytest.raises(ModelError, match=r"differ by .*It draws random numbers.*dropout") as refused:
        pm.Classifier(lambda x: net(F.dropout(x, 0.5)), size=SIZE)
    assert "batch" not in str(refused.value)


def test_the_look_for_random_numbers_leaves_the_generator_alone() -> None:
    net = Moving(0.5)
    before = torch.get_rng_state()
    with pytest.raises(ModelError, match="a state"):
        pm.Classifier(net, size=SIZE)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_batch_norm_in_training_mode_is_named_as_dependence_on_the_other_images() -> None:
    net = nn.Sequential(nn.BatchNorm2d(3), conv_net()).train()
    with pytest.raises(
        ModelError, match=r"depends on the other images of its batch: it moves by .*batch-norm"
    ):
        pm.Classifier(lambda x: net(x), size=SIZE)


def test_a_state_too_slow_for_the_first_look_is_found_at_the_end_with_its_size() -> None:
    net = Moving(2e-5)
    f = pm.Classifier(net, size=SIZE, batch_size=4)
    with pytest.raises(ModelError, match=r"moved by \S+ .*while .*random.* was judged") as refused:
        pm.evaluate(f, pixels(3, SIZE), methods=["random"], labels="top2", metrics=["insertion"])
    found = re.search(r"moved by (\S+) ", str(refused.value))
    assert found and 1e-4 < float(found[1]) < net.calls * net.step + 1e-4


def test_a_net_that_looks_at_other_images_later_is_found_at_the_end() -> None:
    net, later = conv_net(), [False]

    def centred(x: Tensor) -> Tensor:
        return net(x - x.mean(dim=0)) if later[0] and len(x) > 2 else net(x)

    f, x = pm.Classifier(centred, size=SIZE, batch_size=8), pixels(3, SIZE)
    look = FirstLook(f, x)
    look.check("before")
    later[0] = True
    with pytest.raises(ModelError, match="depends on the other images of its batch: it moves by"):
        look.check("after")


def test_a_look_costs_two_passes_at_first_and_five_more_each_time() -> None:
    f, tally = counted_classifier(size=SIZE)
    tally.reset()
    look = FirstLook(f, pixels(5, SIZE))
    assert tally.images == 2
    look.check("now")
    look.check("now")
    assert tally.images == 2 + 2 * 5


def test_a_worker_marks_the_images_of_a_unit_in_which_the_net_moved(tmp_path: Path) -> None:
    data = image_folder(photos(tmp_path / "photos", 2))
    f = pm.Classifier(Moving(5e-5), size=SIZE, batch_size=4)
    study = pm.Study(methods=[Random()], metrics=[Insertion(points=32)])
    worker = Worker(open_session(study, classifier=f, dataset=data), (4, 4))
    subjects = tuple(ImageRow(name, data.digest(k), "", labels=(0, 1)) for k, name in enumerate(data.names))
    result = worker(Unit("random", 0, subjects, ("insertion",), "key"))
    assert result.parts == () and sorted(result.failures) == [0, 1]
    assert "outputs for the same images moved by" in result.failures[0]
