"""Nets of several inputs: one is explained, the others are given."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import proofmap as pm
from tests.command import run
from tests.toys import conv_net, drawn, normal, pixels

X, TABLE = pixels(3, 6), normal(3, 4, seed=5)


class Both(nn.Module):
    """A picture and a row of a table: three labels."""

    def __init__(self) -> None:
        super().__init__()
        self.eye, self.rest = conv_net(5), drawn(nn.Linear(9, 3), 1)

    def forward(self, picture: Tensor, row: Tensor) -> Tensor:
        return 4 * self.rest(torch.cat([self.eye(picture), row], dim=1))


NET = Both()


def of(given: Any, net: Any = NET, **how: Any) -> pm.Classifier:
    return pm.Classifier(net, size=6, mean=(0.0,) * 3, std=(1.0,) * 3, given=given, batch_size=16, **how)


def f_of(rows: Tensor) -> Tensor:
    with torch.no_grad():
        return NET(X, rows).softmax(dim=1)


@pytest.mark.parametrize("given", [TABLE[:1], TABLE[:1].numpy(), (TABLE[:1],)])
def test_all_images_may_share_what_is_given(given: Any) -> None:
    net = of(given)
    expected = f_of(TABLE[:1].expand(3, -1))
    assert net.probabilities(X).allclose(expected, atol=1e-6)
    assert net.frozen().probabilities(X).allclose(expected, atol=1e-6)
    by_function = of(given, lambda x, row: NET(x, row))
    assert by_function.differentiable and by_function.probabilities(X).allclose(expected, atol=1e-6)
    assert of(TABLE[1:2]).fingerprint() != net.fingerprint()
    maps = [pm.explain(each, X, labels="top1", method="gradient").maps for each in (net, by_function)]
    assert torch.allclose(*maps, atol=1e-5)


@pytest.mark.parametrize(
    "method",
    ["gradient", "grad-cam", "belief-mask:passes=3,grid=3", "occlusion:window=3,stride=3,fill=images"],
)
def test_each_image_is_judged_beside_its_own_row(method: str) -> None:
    net, how = of(TABLE), {"methods": method, "labels": "all", "metrics": ["completeness", "soundness"]}
    assert net.probabilities(X).allclose(f_of(TABLE), atol=1e-6)
    assert net.top(X, 1)[:, 0].tolist() == f_of(TABLE).argmax(dim=1).tolist()
    found = pm.evaluate(net, X, **how)
    (result,) = found.results
    for i in range(3):
        judge = pm.Judge(
            of(TABLE[i : i + 1]), methods=method, labels="all", metrics=how["metrics"], distractors=X
        )
        judge.update(X[i : i + 1])
        (alone,) = judge.compute().results
        assert result.insertion.labels[i].tolist() == alone.insertion.labels[0].tolist()
        assert torch.allclose(result.insertion.auc[i], alone.insertion.auc[0], atol=1e-5)
        for name in result.values:
            assert torch.allclose(result.values[name][i], alone.values[name][0], atol=1e-5)


def test_maps_that_exist_and_names_and_truth_belong_to_their_images() -> None:
    maps = normal(3, 6, 6, seed=2)
    whole = pm.evaluate(of(TABLE), X, maps=maps, labels="true", truth=[0, 2, 1], names=["a", "b", "c"])
    assert whole.image_names == ("a", "b", "c") and whole.labels.tolist() == [[0], [2], [1]]
    alone = pm.evaluate(of(TABLE[2:]), X[2:], maps=maps[2:], labels=[1])
    areas = [study.results[0].insertion.auc[-1, 0] for study in (whole, alone)]
    assert torch.allclose(*areas, atol=1e-6)


def test_two_texts() -> None:
    def same_words(texts: list[str], others: list[str]) -> Any:
        shared = [len({*a.split()} & {*b.split()}) / 9 for a, b in zip(texts, others, strict=True)]
        return np.stack([1 - np.array(shared), shared], axis=1)

    texts = ["a cat sat", "the dog ran off"]
    net = pm.Classifier(same_words, data=texts, given="a dog sat", names=["other", "same"])
    proof = pm.explain(net, texts, labels=["same"], method="occlusion")
    assert proof.maps[0, 0, :3].argmin() == 1 and proof.maps[1, 0].argmax() == 1
    each = pm.Classifier(same_words, data=texts, given=["no word", "dog"], names=["other", "same"])
    assert torch.allclose(each.probabilities(each.inputs.encode(texts))[:, 1], torch.tensor([0, 1 / 9]))


def test_a_reference_of_each_picture() -> None:
    class Alike(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.eye = NET.eye

        def forward(self, x: Tensor, reference: Tensor) -> Tensor:
            code = self.eye(reference)  # first: a CAM reads the last call of a layer
            return 20 * F.cosine_similarity(self.eye(x), code)[:, None] - 10

    net = of(X.flip(0), Alike(), outputs="sigmoid", names=["another", "the same"])
    f = net.probabilities(X)[:, 1]
    assert f.argmax() == 1 and f[1] > 0.9999  # the second one is its own reference
    assert pm.explain(net, X, labels=["the same"], method="grad-cam").maps.shape == (3, 1, 6, 6)
    number = of(TABLE, lambda x, row: row[:, :1] + x.mean(dim=(1, 2, 3))[:, None], at_least=0.5, error=0.1)
    expected = torch.special.ndtr((TABLE[:, 0] + X.mean(dim=(1, 2, 3)) - 0.5) / 0.1)
    assert number.probabilities(X)[:, 1].allclose(expected, atol=1e-5)


@pytest.mark.parametrize(
    "given, message",
    [
        (
            (TABLE, X[:2]),
            "given has batches of 3, 2: each input needs one value for all images, or one for each",
        ),
        (3, r"given must be a tensor, an array or a list .*not int"),
        (torch.tensor(1.0), "given must be a tensor"),
    ],
)
def test_what_is_refused(given: Any, message: str) -> None:
    with pytest.raises(pm.InputError, match=message):
        of(given)


def test_other_counts_of_images_are_refused() -> None:
    for call in (lambda: of(TABLE).probabilities(X[:2]), lambda: pm.explain(of(TABLE), X[:2])):
        with pytest.raises(
            pm.InputError, match="given has values for 3 images, and there are 2; give as many"
        ):
            call()
    with pytest.raises(pm.InputError, match=r"state limits and error: ranges=\[...\], error="):
        of(TABLE, data=X, ranges=2, error=1)


FILE = """
import torch
import proofmap as pm

torch.manual_seed(0)
net, rows = torch.nn.Bilinear(4, 2, 3), torch.rand(6, 2)
inputs = pm.Rows(mean=(0.0,) * 4, std=(1.0,) * 4, names=("a", "b", "c", "d"))
one, each = (pm.Classifier(net, inputs=inputs, given=given) for given in (rows[:1], rows))
"""


def test_a_run_takes_what_all_share(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("nets.py").write_text(FILE)
    Path("rows.csv").write_text("a,b,c,d\n" + "".join(f"{k},1,2.5,{k * k / 9}\n" for k in range(6)))
    words = (
        "evaluate",
        "--data",
        "rows.csv",
        "--labels",
        "all",
        "--methods",
        "gradient",
        "--no-pictures",
        "-q",
    )
    assert run(monkeypatch, *words, "--model", "nets.py:one") == 0, capsys.readouterr().err
    assert run(monkeypatch, *words, "--model", "nets.py:each", "--out", "other") == 2
    assert "a run takes a net whose given inputs are the same" in capsys.readouterr().err
    assert pm.load_classifier("nets.py:each", batch_size=2).own_given == 6
