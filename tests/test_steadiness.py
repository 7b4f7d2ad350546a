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
from proofmap.data.folders import image_folder
from proofmap.data.given import Subjects
from proofmap.loop import judge_blocks
from proofmap.methods.controls import Random
from proofmap.metrics import Insertion
from proofmap.study.opened import open_study, prepare_study
from proofmap.study.planning import Unit
from proofmap.study.store import ImageRow
from proofmap.study.unit import Worker
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


def test_forced_dropout_is_named_as_randomness() -> None:
    net = conv_net()
    with pytest.raises(ModelError, match=r"differ by .*look for a dropout that stays on") as refused:
        pm.Classifier(lambda x: net(F.dropout(x, 0.5)), size=SIZE)
    assert "batch" not in str(refused.value)


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
    worker = Worker(open_study(study, classifier=f, dataset=data), (4, 4), tmp_path)
    subjects = tuple(ImageRow(name, data.digest(k), "", labels=(0, 1)) for k, name in enumerate(data.names))
    result = worker(Unit("random", 0, subjects, ("insertion",)))
    assert result.parts == () and sorted(result.failures) == [0, 1]
    assert "outputs for the same images moved by" in result.failures[0]


# ---- one batch of masked images, once per evaluation --------------------------------------------------------------------


def by_batch(x: Tensor) -> Tensor:
    out: Tensor = conv_net()(x)
    return out * (1 if len(x) < 64 else 2)


def wrong_at_seven(x: Tensor) -> Tensor:
    out: Tensor = conv_net()(x)
    return torch.cat([out[:7], out[7:8].flip(1) + 5, out[8:]])


def random_if_masked(x: Tensor) -> Tensor:
    masked = (x == 0).all(dim=1).float().mean(dim=(1, 2)) > 0.02
    out: Tensor = conv_net()(x)
    return out + masked[:, None] * torch.randn(out.shape)


def judged(net: object, images: int = 5, **options: object) -> pm.Evaluation:
    f = pm.Classifier(net, size=SIZE, mean=(0.5,) * 3, std=(0.25,) * 3, batch_size=100)
    asked = {"methods": ["random"], "labels": "top2", "metrics": ["insertion"], **options}
    return pm.evaluate(f, pixels(images, SIZE), **asked)  # type: ignore[arg-type]


@pytest.mark.parametrize("net", [by_batch, wrong_at_seven, random_if_masked])
def test_a_net_that_depends_on_large_batches_of_masked_images_is_refused(net: object) -> None:
    with pytest.raises(
        ModelError, match=r"output for a masked image depends on its batch.*an output moves by .* and f by"
    ):
        judged(net)


@pytest.mark.parametrize("size", [8, 9, 15, 16, 22, 23, 38, 64, 99])
def test_an_error_at_one_index_is_found_in_batches_of_any_size(size: int) -> None:
    f = pm.Classifier(wrong_at_seven, size=SIZE)
    with pytest.raises(ModelError, match="depends on its batch"):
        FirstLook.difference_between_batches(f.frozen(), pixels(size, SIZE))


def slightly_by_batch(x: Tensor) -> Tensor:
    out: Tensor = conv_net()(x)
    return out + (0.02 if len(x) > 50 else 0) * torch.tensor([1.0, -1, 0, 0])


def test_the_size_of_a_small_difference_is_in_the_record_and_under_the_table(tmp_path: Path) -> None:
    data = image_folder(photos(tmp_path / "photos", 5))
    found = judged(slightly_by_batch)
    f = pm.Classifier(slightly_by_batch, size=SIZE, batch_size=100)
    study = pm.Study(methods=[Random()], metrics=[Insertion()], labels="top2")
    pm.run_study(study, tmp_path / "run", classifier=f, dataset=data)
    with pm.Run(tmp_path / "run") as run:
        for evaluation in (found, run.evaluation()):
            size = evaluation.settings["batch_difference"]
            assert isinstance(size, float) and 1e-3 < size < 0.02
            assert f"f of a masked image differs by up to {size:g} between batches" in str(evaluation)
    steady = judged(conv_net())
    assert "batch_difference" not in steady.settings and "between batches" not in str(steady)


def test_one_comparison_of_one_batch_is_made_for_all_methods_and_is_not_counted_as_their_passes() -> None:
    f, tally = counted_classifier(size=SIZE, batch_size=16)
    study = pm.Study(methods=[Random()], metrics=[Insertion()])
    opened = prepare_study(study, f, lambda: None)
    x = pixels(3, SIZE)
    subjects = Subjects(x, torch.tensor([[0, 1]] * 3))
    f.frozen()
    tally.reset()
    looked = []
    for blocks in ([subjects], [subjects], [subjects, subjects]):
        list(judge_blocks(opened.session, opened.methods, opened.metrics, blocks))
        looked.append(tally.images)
        tally.reset()
    assert looked[0] == looked[1] + 2 + 2 * 16, (
        "the look at two images and the comparison are of the first block alone"
    )
    assert looked[2] == 2 * looked[1]
    assert opened.session.batch_difference is not None and opened.session.batch_difference < 1e-5


def test_a_run_with_such_a_net_keeps_no_scores_and_says_why(tmp_path: Path) -> None:
    data = image_folder(photos(tmp_path / "photos", 5))
    f = pm.Classifier(by_batch, size=SIZE, batch_size=100)
    study = pm.Study(methods=[Random()], metrics=[Insertion()], labels="top2")
    outcome = pm.run_study(study, tmp_path / "run", classifier=f, dataset=data)
    assert outcome.failed == 5
    with pm.Run(tmp_path / "run") as run:
        assert not run.has_results and "depends on its batch" in run.failures()[0].reason
