"""Judging methods on images, explaining images, and what is written to disk."""

from __future__ import annotations

import csv
import json
import math
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file
from torch import Tensor

import proofmap as pm
from proofmap import judging
from proofmap.classifier import Classifier
from proofmap.core.errors import InputError, ModelError
from proofmap.fills import Noise
from proofmap.judging import evaluate, explain
from proofmap.methods import make_method
from proofmap.methods.controls import Random
from proofmap.metrics import (
    Insertion,
    best_effort,
    completeness,
    default_metrics,
    deletion,
    insertion,
    soundness,
    worst_case,
)
from proofmap.metrics.proof_scores import Completeness
from proofmap.results.evaluation import Evaluation, Proof
from tests.docs.pages import few_distractors
from tests.toys import Linear, conv_classifier, conv_net, pixels

N, SIZE, LABELS = 4, 8, 5
NAMES = ["cat", "dog", "cup", "rocket", "motor scooter"]
METHODS = ["gradient-x-input", "random", "top-label:grad-cam"]


def brightness(classifier: Classifier, images: Tensor, labels: Tensor) -> Tensor:
    return images.mean(dim=1, keepdim=True).expand(-1, labels.shape[1], -1, -1)


@pytest.fixture(scope="module")
def f() -> Classifier:
    return conv_classifier(SIZE, LABELS, names=NAMES, batch_size=64)


@pytest.fixture(scope="module")
def images() -> Tensor:
    return pixels(N, SIZE)


@pytest.fixture(scope="module")
def found(f: Classifier, images: Tensor) -> Evaluation:
    return evaluate(f, images, methods=[*METHODS, brightness], labels="top3", names=["a", "b", "c", "d"])


# ---- the numbers -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", METHODS)
def test_scores_are_means_over_images_of_worst_cases(
    spec: str, found: Evaluation, f: Classifier, images: Tensor
) -> None:
    result, labels = found[spec], found.labels
    maps = make_method(spec)(f, images, labels)
    torch.testing.assert_close(result.maps.expand_as(maps), maps)
    shown = insertion(f.frozen(), images, maps, labels)
    hidden = deletion(f.frozen(), images, maps, labels)
    two = f.probabilities(images).topk(2)
    expected = {
        "completeness": worst_case(completeness(shown.auc, shown.f, 0.01)),
        "soundness": worst_case(soundness(shown.auc, shown.f, 0.001)),
        "best-effort": best_effort(shown.auc, shown.f, labels, two.indices, two.values[:, 1], 0.01),
        "insertion": shown.auc[:, 0],
        "deletion": hidden.auc[:, 0],
    }
    assert [s.name for s in result.scores] == list(expected)
    assert result.label_free == (spec in ("random", "top-label:grad-cam"))
    for name, values in expected.items():
        torch.testing.assert_close(result.values[name], values, rtol=1e-4, atol=1e-6)
        score = result.score(name)
        assert score.value == pytest.approx(values.mean().item(), rel=1e-4)
        assert score.low <= score.value <= score.high and score.n == N


def test_rows_hold_every_image_and_label(found: Evaluation, f: Classifier, images: Tensor) -> None:
    p = f.probabilities(images)
    for result in found.results:
        assert len(result.rows) == N * 3
        for k, row in enumerate(result.rows):
            i, j = divmod(k, 3)
            label = int(found.labels[i, j])
            assert (row["method"], row["image"]) == (result.name, "abcd"[i])
            assert (row["label"], row["name"]) == (label, NAMES[label])
            assert row["f"] == pytest.approx(p[i, label].item(), rel=1e-4)
            assert row["insertion"] == pytest.approx(result.insertion.auc[i, j].item())
            assert 0 <= float(str(row["completeness"])) <= 1 and 0 <= float(str(row["soundness"])) <= 1
        lowest = min(float(str(r["completeness"])) for r in result.rows if r["image"] == "b")
        assert result.values["completeness"][1].item() == pytest.approx(lowest)


def test_a_score_carries_all_that_it_depends_on(images: Tensor) -> None:
    f = conv_classifier(SIZE, LABELS, label_set=[0, 1, 3], renormalise=True)
    metrics = default_metrics("released", {"curve": "released", "ties": "center"})
    found = evaluate(f, images, methods=["random"], labels="all", metrics=metrics)
    for score in found.results[0].scores:
        carried = score.settings
        assert (carried["label_set"], carried["renormalise"], carried["labels"]) == ([0, 1, 3], True, "all")
        assert (carried["fill"], carried["points"], carried["rule"], carried["ties"]) == (
            "gray",
            28,
            "right",
            "center",
        )
        assert carried["color"] == pytest.approx([0.5, 0.4, 0.3])
        assert carried["game"] == ("deletion" if score.name == "deletion" else "insertion")
        used = {"completeness": "e1", "best-effort": "e1", "soundness": "e2"}.get(score.name)
        assert {key: carried[key] for key in ("e1", "e2") if key in carried} == ({used: 0.1} if used else {})
        assert score.higher_is_better == (score.name != "deletion") and score.n == N


def test_one_metric_with_two_settings_gives_two_scores(f: Classifier, images: Tensor) -> None:
    metrics = [f"soundness:thresholds={which}" for which in ("released", "paper")] + [Completeness()]
    result = evaluate(f, images, methods=["gradient"], labels="all", metrics=metrics).results[0]
    assert [s.name for s in result.scores] == ["soundness", "soundness-2", "completeness"]
    loose, strict = result.score("soundness"), result.score("soundness-2")
    assert (loose.settings["e2"], strict.settings["e2"]) == (0.1, 0.001)
    for score, e2 in ((loose, 0.1), (strict, 0.001)):
        beta = worst_case(soundness(result.insertion.auc, result.insertion.f, e2))
        assert score.value == pytest.approx(beta.mean().item())
    assert {"soundness", "soundness-2"} <= result.rows[0].keys()


def test_a_large_job_is_done_in_blocks_that_change_nothing(
    found: Evaluation, f: Classifier, images: Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judging, "_BLOCK", 2 * SIZE * SIZE * 3)
    again = evaluate(f, images, methods=METHODS, labels="top3", names=["a", "b", "c", "d"])
    for result in again.results:
        torch.testing.assert_close(result.maps, found[result.name].maps)
        torch.testing.assert_close(result.insertion.probabilities, found[result.name].insertion.probabilities)
        for name, values in result.values.items():
            torch.testing.assert_close(values, found[result.name].values[name])


def test_the_same_seed_gives_the_same_numbers(f: Classifier, images: Tensor) -> None:
    metrics = [Insertion(fill=Noise())]

    def value(seed: int) -> float:
        return (
            evaluate(f, images, methods=["gradient"], metrics=metrics, seed=seed).results[0].scores[0].value
        )

    assert value(3) == value(3) != value(4)


# ---- labels ------------------------------------------------------------------------------------------------


def test_labels_may_be_given_per_image(f: Classifier, images: Tensor) -> None:
    given = torch.tensor([[0, 1], [4, -1], [2, 3], [1, 0]])
    found = evaluate(f, images, methods=["gradient"], labels=given)
    assert torch.equal(found.labels, given) and found.settings["labels"] == "given"
    assert [r["label"] for r in found.results[0].rows] == [0, 1, 4, 2, 3, 1, 0]
    assert found.f[1, 1].isnan() and found.results[0].maps[1, 1].count_nonzero() == 0
    assert found.table() and found.results[0].values["completeness"].isfinite().all()


# ---- names -------------------------------------------------------------------------------------------------


def test_images_that_share_a_name_are_told_apart(f: Classifier, images: Tensor) -> None:
    found = evaluate(f, images, methods=["random"], names=["cat", "dog", "cat", "cat"])
    assert found.image_names == ("cat", "dog", "cat-2", "cat-3")
    assert {r["image"] for r in found.results[0].rows} == set(found.image_names)
    assert evaluate(f, images, methods=["random"]).image_names == tuple(f"image-{i}" for i in range(N))


def test_one_method_with_two_settings_is_two_methods(f: Classifier, images: Tensor) -> None:
    methods: list[Any] = [
        "random",
        "random:seed_offset=1",
        Random(),
        brightness,
        lambda c, x, a: brightness(c, x, a),
    ]
    found = evaluate(f, images, methods=methods, labels="top1")
    names = [r.name for r in found.results]
    assert names[:4] == ["random", "random:seed_offset=1", "random-2", "brightness"]
    assert "<lambda>" in names[4] and len(set(names)) == 5
    with pytest.raises(
        InputError, match="no method 'gradient' was judged; there are random, random:seed_offset=1"
    ):
        found["gradient"]
    with pytest.raises(InputError, match="no score is named 'speed'; there are completeness"):
        found["random"].score("speed")


# ---- the table ---------------------------------------------------------------------------------------------


def test_the_table_shows_methods_directions_and_what_the_numbers_depend_on(found: Evaluation) -> None:
    table = str(found)
    lines = table.splitlines()
    names = [c.strip() for c in re.split(r"[↑↓]|  ", lines[0]) if c.strip()]
    assert names == ["method", "completeness", "soundness", "best effort", "insertion", "deletion"]
    assert lines[0].count("↑") == 4 and lines[0].count("↓") == 1
    assert [line.split()[0] for line in lines[1:5]] == [
        "gradient-x-input",
        "random*",
        "top-label:grad-cam*",
        "brightness*",
    ]
    told = "\n".join(lines[5:])
    for fact in (
        "4 images",
        "labels top3",
        "e1 = 0.01, e2 = 0.001",
        "fill gray",
        "32 points",
        "ties index",
        "seed 0",
    ):
        assert fact in told, fact


# ---- files -------------------------------------------------------------------------------------------------


def strict_json(text: str) -> Any:
    """JSON as the standard has it, which knows no NaN."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=refuse)


def test_what_is_saved_can_be_read_back(found: Evaluation, tmp_path: Path) -> None:
    written = found.save(tmp_path / "run" / "deep")
    assert all(path.is_file() for path in written)
    assert sorted(p.name for p in (tmp_path / "run" / "deep").iterdir()) == sorted(p.name for p in written)

    with open(tmp_path / "run" / "deep" / "scores.csv", newline="") as file:
        scores = list(csv.DictReader(file))
    assert len(scores) == 4 * 5
    for row in scores:
        score = found[row["method"]].score(row["metric"])
        assert (float(row["value"]), float(row["low"]), float(row["high"])) == (
            score.value,
            score.low,
            score.high,
        )
        assert (row["n"], row["better"]) == ("4", "lower" if score.name == "deletion" else "higher")
        carried = json.loads(row["settings"])
        assert (carried["fill"], carried["ties"], carried["labels"]) == ("gray", "index", "top3")
        assert not carried["renormalise"] and carried.get("e1") == score.settings.get("e1")

    with open(tmp_path / "run" / "deep" / "pairs.csv", newline="") as file:
        pairs = list(csv.DictReader(file))
    assert len(pairs) == 4 * N * 3
    for row, ours in zip(pairs, (r for result in found.results for r in result.rows), strict=True):
        assert row["image"] == ours["image"] and int(row["label"]) == ours["label"]
        assert float(row["completeness"]) == ours["completeness"]

    record = strict_json((tmp_path / "run" / "deep" / "evaluation.json").read_text())
    assert record["images"] == ["a", "b", "c", "d"]
    assert record["settings"]["labels"] == "top3" and record["settings"]["seed"] == 0
    assert [m["name"] for m in record["methods"]] == [r.name for r in found.results]
    assert record["methods"][0]["settings"] == {
        "method": "gradient-x-input",
        "channels": "sum",
        "absolute": False,
    }
    assert record["methods"][2]["scores"][0]["value"] == found.results[2].scores[0].value

    for name in "abcd":
        with Image.open(tmp_path / "run" / "deep" / f"{name}.compared.png") as picture:
            assert picture.width > 240 and picture.format == "PNG"


def test_scores_that_do_not_exist_are_null_in_json_and_a_dash_in_the_table(
    images: Tensor, tmp_path: Path
) -> None:
    """A net so sure of its label that no image counts for best effort."""
    weight = torch.zeros(2, 3 * SIZE * SIZE)
    weight[0] = 0.3
    f = Classifier(Linear(weight), size=SIZE)
    found = evaluate(f, images, methods=["random"], labels="all")
    score = found.results[0].score("best-effort")
    assert math.isnan(score.value) and score.n == 0
    assert " - " in found.table().splitlines()[1]
    assert "best effort counts 0 of 4 images" in found.table()
    found.save(tmp_path, pictures=False)
    record = strict_json((tmp_path / "evaluation.json").read_text())
    assert record["methods"][0]["scores"][2]["value"] is None
    assert record["methods"][0]["values"]["best-effort"] == [None] * N


def test_saving_again_replaces_what_was_there(found: Evaluation, tmp_path: Path) -> None:
    first = {p: p.read_bytes() for p in found.save(tmp_path, pictures=False)}
    assert {p: p.read_bytes() for p in found.save(tmp_path, pictures=False)} == first


# ---- explain -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def proof(f: Classifier, images: Tensor) -> Proof:
    return explain(f, images, labels="p>=0.2", method="grad-cam", names=["one", "two", "three", "one"])


def test_a_proof_has_maps_labels_and_a_table(proof: Proof, f: Classifier, images: Tensor) -> None:
    assert proof.maps.shape == (N, proof.labels.shape[1], SIZE, SIZE)
    torch.testing.assert_close(proof.maps, make_method("grad-cam")(f, images, proof.labels))
    lines = str(proof).splitlines()
    assert [line for line in lines if "maps by" in line] == [
        f"{name}, maps by grad-cam" for name in ("one", "two", "three", "one-2")
    ]
    assert len(lines) == 4 * 3 - 1 + int((proof.labels >= 0).sum()) + 1  # heads, gaps, rows, one sentence
    assert lines[1].split() == ["label", "belief", "proof", "peak"]
    scored = set(proof.table(scores=True).split())
    assert {"image", "label", "f", "completeness", "soundness", "insertion"} <= scored
    assert [s.name for s in proof.result.scores] == ["completeness", "soundness", "best-effort", "insertion"]


def test_a_proof_is_saved_with_its_maps_and_a_picture_per_image(proof: Proof, tmp_path: Path) -> None:
    written = proof.save(tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(p.name for p in written)
    stored = load_file(tmp_path / "maps.safetensors")
    assert torch.equal(stored["maps"], proof.maps) and torch.equal(stored["labels"], proof.labels)
    pictures = sorted(p.name for p in written if p.suffix == ".png")
    assert pictures == ["one-2.grad-cam.png", "one.grad-cam.png", "three.grad-cam.png", "two.grad-cam.png"]


def test_explaining_is_evaluating_one_method(f: Classifier, images: Tensor) -> None:
    one = explain(f, images, method=brightness, labels="top2", thresholds="0,0.1", curve="released", seed=5)
    score = one.result.score("soundness")
    assert (score.settings["e2"], score.settings["points"]) == (0.1, 28)
    assert one.result.score("completeness").settings["e1"] == 0.0
    many = evaluate(
        f, images, methods=[brightness], labels="top2", metrics=default_metrics("0,0.1", "released"), seed=5
    )
    assert torch.equal(one.result.values["soundness"], many.results[0].values["soundness"])


EVERY_KIND = [
    "learned-mask:steps=3,fill=noise",
    "learned-mask:steps=2,fill=blur,masks=2",
    "grad-cam",
    "gradient",
    "random",
    "centered-gaussian",
]


@contextmanager
def float64_by_default() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.fixture(scope="module")
def every_kind(images: Tensor) -> Evaluation:
    return evaluate(Classifier(conv_net(LABELS), size=SIZE), images, methods=EVERY_KIND, labels="top2")


@pytest.mark.parametrize(
    "context",
    [float64_by_default, torch.inference_mode, lambda: torch.autocast("cpu", dtype=torch.bfloat16)],
    ids=["default dtype", "inference mode", "autocast"],
)
def test_the_modes_of_the_caller_change_no_number(
    context: Callable[[], Any], every_kind: Evaluation, images: Tensor
) -> None:
    with context():
        found = evaluate(
            Classifier(conv_net(LABELS), size=SIZE), images.clone(), methods=EVERY_KIND, labels="top2"
        )
    for result in every_kind.results:
        assert found[result.name].maps.dtype == torch.float32
        torch.testing.assert_close(found[result.name].maps, result.maps, rtol=1e-4, atol=1e-5)
        for name, values in result.values.items():
            torch.testing.assert_close(found[result.name].values[name], values, equal_nan=True)


def test_pictures_and_arrays_are_taken_as_they_are_meant(f: Classifier) -> None:
    """Pillow's pictures are prepared as files are; arrays may hold bytes, and channels last."""
    pixel_bytes = np.random.default_rng(0).integers(0, 256, (2, SIZE, SIZE, 3), dtype=np.uint8)
    tensor = torch.from_numpy(pixel_bytes).permute(0, 3, 1, 2).float() / 255
    expected = explain(f, tensor, labels="top2", method="gradient").maps
    for given in (
        [Image.fromarray(item) for item in pixel_bytes],
        pixel_bytes,
        pixel_bytes.transpose(0, 3, 1, 2),
        tensor.numpy(),
    ):
        torch.testing.assert_close(explain(f, given, labels="top2", method="gradient").maps, expected)
    alone = explain(f, Image.fromarray(pixel_bytes[0]), labels="top2", method="gradient").maps
    torch.testing.assert_close(alone, expected[:1])
    with pytest.raises(InputError, match=r"there is no file or folder cat\.png"):
        explain(f, ["cat.png"], method="gradient")


# ---- several methods in one explanation ------------------------------------------------------------------------


def test_explain_takes_several_methods_and_gives_each_as_a_proof(tmp_path: Path) -> None:
    f, images = conv_classifier(8), pixels(2, 8)
    proof = explain(f, images, method=["gradient", "gradient-x-input"], labels="top2")
    assert proof.methods == ("gradient", "gradient-x-input") and len(proof.scores) == 8
    for name in proof.methods:
        alone = explain(f, images, method=name, labels="top2")
        assert torch.equal(proof[name].maps, alone.maps) and proof[name].scores == alone.scores
        assert str(proof[name]) == str(alone)
    with pytest.raises(InputError, match=r"there are 2 methods; name one, such as proof\['gradient'\].maps"):
        _ = proof.maps
    assert [row["method"] for row in proof.scores[::4]] == ["gradient", "gradient-x-input"]
    names = {path.name for path in proof.save(tmp_path / "out")}
    assert {"image-0.compared.png", "image-1.compared.png", "maps.safetensors"} <= names
    assert "gradient-x-input" in proof._repr_html_() and proof._repr_png_()


def test_masks_are_shown_on_their_way_also_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    images, seen = pixels(3, (6, 6)), list[tuple[int, int, int]]()
    f = conv_classifier(size=6)
    monkeypatch.setattr(judging, "_BLOCK", 2 * 6 * 6 * 2)  # two images
    found = judging.evaluate(
        f,
        images,
        methods=["belief-mask:passes=4,fills=gray+noise", "gradient"],
        labels=[0, 1],
        watch=lambda image, label, snapshot: seen.append((image, label, snapshot.step)),
    )
    assert sorted(seen) == [(i, a, k) for i in range(3) for a in (0, 1) for k in (1, 2)]
    unseen = judging.evaluate(f, images, methods=["belief-mask:passes=4,fills=gray+noise"], labels=[0, 1])
    assert torch.equal(found.results[0].maps, unseen.results[0].maps)  # watching changes nothing


# ---- images as they come --------------------------------------------------------------------------------------


SPECS = ["gradient", "learned-mask:steps=2,scale=2,fill=images", "random"]


def same_numbers(one: pm.Evaluation, other: pm.Evaluation) -> None:
    assert torch.equal(one.labels, other.labels) and one.image_names == other.image_names
    for a, b in zip(one.results, other.results, strict=True):
        assert a.name == b.name and a.scores == b.scores
        for name, values in a.values.items():
            torch.testing.assert_close(values, b.values[name], equal_nan=True, rtol=0, atol=1e-6)
        torch.testing.assert_close(a.maps, b.maps, rtol=0, atol=1e-6)


def test_a_judge_that_is_updated_batch_by_batch_finds_what_evaluate_finds(f: Classifier) -> None:
    images, truth = pixels(6, SIZE), [0, 1, 2, 3, 0, 1]
    whole = pm.evaluate(f, images, methods=SPECS, labels="top2", truth=truth)
    judge = pm.Judge(f, methods=SPECS, labels="top2", distractors=images)
    for start in (0, 4):
        judge.update(images[start : start + 4], truth=truth[start : start + 4])
    same_numbers(judge.compute(), whole)
    judge.reset()
    with pytest.raises(InputError, match="call update"):
        judge.compute()
    judge.update(images[:3])
    assert judge.compute().image_names == ("image-0", "image-1", "image-2")


def test_batches_with_other_numbers_of_labels_are_joined(f: Classifier) -> None:
    images = pixels(5, SIZE)
    whole = pm.evaluate(f, images, methods=["gradient"], labels="p>=0.2")
    counts = (whole.labels >= 0).sum(dim=1)
    assert len(counts.unique()) > 1, "the images must differ in how many labels they have"
    judge = pm.Judge(f, methods=["gradient"], labels="p>=0.2")
    for image in images:
        judge.update(image[None])
    found = judge.compute()
    assert torch.equal(found.labels, whole.labels)
    for key, values in whole.results[0].pairs.items():
        torch.testing.assert_close(found.results[0].pairs[key], values, equal_nan=True, rtol=0, atol=1e-6)


def test_a_loader_is_judged_as_its_images_are(f: Classifier) -> None:
    images, truth = pixels(6, SIZE), torch.tensor([0, 1, 2, 3, 0, 1])
    whole = pm.evaluate(f, images, methods=["gradient", "random"], labels="top2", truth=truth)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(images, truth), batch_size=4)
    same_numbers(pm.evaluate(f, loader, methods=["gradient", "random"], labels="top2"), whole)
    rows = [[a, 3 - a] for a in truth.tolist()]
    given = pm.evaluate(f, loader, methods=["gradient"], labels=rows)
    assert given.labels.tolist() == rows
    with pytest.raises(InputError, match="6 images"):
        pm.evaluate(f, loader, methods=["gradient"], labels=rows[:4])


def test_a_judge_that_is_reset_judges_the_net_as_it_is_then(monkeypatch: pytest.MonkeyPatch) -> None:
    few_distractors(monkeypatch)
    net, images = conv_net(5), pixels(3, SIZE)
    f = Classifier(net, size=SIZE)
    judge = pm.Judge(
        f, methods=SPECS, metrics=["soundness", "adversarial-soundness:passes=24"], labels="top2"
    )
    judge.update(images)
    before = judge.compute()
    with torch.no_grad():
        for weights in net.parameters():
            weights.mul_(1.5)
    with pytest.raises(ModelError, match=r"moved .*call reset\(\) of a Judge before update\(\)"):
        judge.update(images)
    judge.reset()
    judge.update(images)
    fresh = pm.Judge(
        Classifier(net, size=SIZE),
        methods=SPECS,
        metrics=["soundness", "adversarial-soundness:passes=24"],
        labels="top2",
    )
    fresh.update(images)
    same_numbers(judge.compute(), fresh.compute())
    assert not torch.equal(before.f, judge.compute().f)


def test_a_judge_records_the_labels_that_it_was_given(f: Classifier) -> None:
    judge = pm.Judge(f, methods=["random"], labels="top2")
    judge.update(pixels(1, SIZE))
    assert judge.compute().settings["labels"] == "top2"
    judge.update(pixels(1, SIZE, seed=1), labels=[[0, 1]])
    assert judge.compute().settings["labels"] == "top2 and given"
