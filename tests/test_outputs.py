"""Independent labels and nets with one output: f(x, a) = sigmoid(logit_a), judged label by label.

The oracle: what is said about one of several independent labels is what the yes of its own one-output net gets; and a
one-output net z is the softmax net with logits (-z / 2, z / 2).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import proofmap as pm
from proofmap.classifier import Classifier
from proofmap.core.errors import InputError, ModelError
from proofmap.core.labels import NO_LABEL
from proofmap.report.html import write_report
from proofmap.study import Run, Study, run_study
from tests.data.made_up import save
from tests.toys import MEAN, STD, Linear, conv_net, normal, pixels

NAMES = ["cat", "dog", "cup"]
METHODS = ["gradient", "grad-cam", "learned-mask:steps=4,fill=gray,scale=2", "random"]


def classifier(net: Any = None, outputs: Any = "sigmoid", **arguments: Any) -> Classifier:
    options = {"size": 8, "mean": MEAN, "std": STD, "batch_size": 64, **arguments}
    return Classifier(conv_net(3) if net is None else net, outputs=outputs, **options)


def column(a: int) -> nn.Sequential:
    """The conv net with three outputs, cut down to output a."""
    net = conv_net(3)
    head = nn.Linear(net[-1].in_features, 1)
    with torch.no_grad():
        head.weight.copy_(net[-1].weight[a : a + 1])
        head.bias.copy_(net[-1].bias[a : a + 1])
    return nn.Sequential(*net[:-1], head).eval()


class TwoSides(nn.Module):
    """(-z / 2, z / 2) of a net with one output z."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor) -> Tensor:
        z: Tensor = self.net(x) / 2
        return torch.cat([-z, z], dim=1)


@pytest.fixture
def images() -> Tensor:
    return pixels(4, 8)


def plain_logits(net: nn.Module, images: Tensor) -> Tensor:
    mean, std = (torch.tensor(v).view(-1, 1, 1) for v in (MEAN, STD))
    with torch.no_grad():
        return net((images - mean) / std)


# ---- f(x, a) --------------------------------------------------------------------------------------------------


def test_every_label_has_a_sigmoid_of_its_own(images: Tensor) -> None:
    f, z = classifier(names=NAMES), plain_logits(conv_net(3), images)
    torch.testing.assert_close(f.probabilities(images), 1 / (1 + (-z).exp()))
    torch.testing.assert_close(f.log_f(f.logits(images)), -(1 + (-z).exp()).log())
    torch.testing.assert_close(f.frozen().probabilities(images), 1 / (1 + (-z).exp()))
    assert (f.probabilities(images).sum(dim=1) - 1).abs().min() > 0.01


def test_a_net_with_its_own_sigmoid_gives_the_same_f_and_the_same_logits(images: Tensor) -> None:
    own = classifier(nn.Sequential(conv_net(3), nn.Sigmoid()), "sigmoid-probabilities")
    torch.testing.assert_close(own.probabilities(images), classifier().probabilities(images))
    torch.testing.assert_close(own.logits(images), classifier().logits(images), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("outputs", ["sigmoid", "sigmoid-probabilities"])
def test_one_output_is_two_labels_no_and_yes(outputs: str, images: Tensor) -> None:
    net = column(1)
    f = classifier(net if outputs == "sigmoid" else nn.Sequential(net, nn.Sigmoid()), outputs)
    yes = 1 / (1 + (-plain_logits(net, images)).exp())
    torch.testing.assert_close(f.probabilities(images), torch.cat([1 - yes, yes], dim=1))
    torch.testing.assert_close(f.frozen().probabilities(images), torch.cat([1 - yes, yes], dim=1))


def test_probabilities_of_zero_and_one_have_finite_logarithms_and_gradients() -> None:
    def certain(x: Tensor) -> Tensor:
        return torch.tensor([0.0, 1.0, 0.5]).expand(len(x), 3) + 0 * x.mean()

    f = classifier(certain, "sigmoid-probabilities")
    x = pixels(2, 8).requires_grad_()
    log_f = f.log_f(f(x))
    assert log_f.isfinite().all()
    torch.testing.assert_close(log_f.exp()[0], torch.tensor([0.0, 1.0, 0.5]))
    assert torch.autograd.grad(log_f.sum(), x)[0].isfinite().all()


@pytest.mark.parametrize(
    "names, expected",
    [(None, ("0", "1")), (["tumour"], ("not tumour", "tumour")), (["well", "ill"], ("well", "ill"))],
)
def test_the_two_labels_of_one_output_can_be_named(names: Any, expected: tuple[str, ...]) -> None:
    f = classifier(column(0), names=names)
    assert f.names == expected
    assert (
        f.with_net(f.net, device="cpu", batch_size=3).names,
        f.with_net(f.net, device="cpu", batch_size=3).outputs,
    ) == (expected, "sigmoid")


def test_a_smaller_label_set_leaves_f_as_it_was(images: Tensor) -> None:
    f = classifier(names=NAMES)
    part = f.restricted(["cat", "cup"])
    assert (part.label_set, part.renormalise) == ((0, 2), False)
    assert torch.equal(part.probabilities(images), f.probabilities(images))
    for made in (lambda: f.restricted([0], renormalise=True), lambda: classifier(renormalise=True)):
        with pytest.raises(
            InputError, match=r"outputs='sigmoid' the labels are independent.*Leave renormalise out"
        ):
            made()


def test_label_rules_look_at_each_label_for_itself() -> None:
    net = Linear(torch.zeros(3, 192), torch.tensor([3.0, -6.0, 2.0]))  # f = .95, .002, .88
    found = pm.explain(classifier(net, names=NAMES), pixels(1, 8), labels="p>=0.5", method="random")
    assert found.evaluation.labels.tolist() == [[0, 2]]
    assert classifier(net).top(pixels(1, 8), 5).tolist() == [[0, 2, 1]]


# ---- what is refused ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("outputs", ["logits", "probabilities"])
def test_one_output_without_a_sigmoid_is_refused(outputs: str) -> None:
    with pytest.raises(
        ModelError, match=r"returns one output.*would be 1 for every input.*outputs='sigmoid'"
    ):
        classifier(column(0), outputs)


@pytest.mark.parametrize("width", [1, 2, 3])
def test_a_sigmoid_applied_twice_is_refused(width: int) -> None:
    net = nn.Sequential(column(0) if width == 1 else conv_net(width), nn.Sigmoid())
    for outputs in ("sigmoid",) if width == 1 else ("sigmoid", "logits"):
        with pytest.raises(ModelError, match=rf"outputs='{outputs}' was declared.*'sigmoid-probabilities'"):
            classifier(net, outputs)


def test_a_sigmoid_without_a_graph_is_noticed_by_its_range() -> None:
    net = conv_net(3)

    def elsewhere(x: Tensor) -> Tensor:
        return torch.from_numpy(net(x).sigmoid().detach().numpy())

    with pytest.raises(ModelError, match="'sigmoid-probabilities'"):
        classifier(elsewhere)


def test_small_positive_logits_are_logits() -> None:
    net = Linear(0.001 * normal(3, 192), torch.tensor([0.4, 0.5, 0.6]))
    for outputs in ("sigmoid", "logits"):
        out = classifier(net, outputs).logits(pixels(2, 8))
        assert ((out > 0) & (out < 1)).all()


@pytest.mark.parametrize(
    "net, outputs, message",
    [
        (
            nn.Sequential(conv_net(3), nn.Sigmoid()),
            "probabilities",
            "Pass outputs='sigmoid-probabilities' if",
        ),
        (
            nn.Sequential(conv_net(3), nn.Softmax(dim=1)),
            "sigmoid",
            "sum to one.*Pass outputs='probabilities'",
        ),
        (
            nn.Sequential(conv_net(3), nn.Softmax(dim=1)),
            "sigmoid-probabilities",
            "Pass outputs='probabilities'",
        ),
        (conv_net(3), "sigmoid-probabilities", "range from .*Pass outputs='sigmoid' if"),
    ],
)
def test_another_declaration_than_what_the_net_returns_is_refused(
    net: nn.Module, outputs: str, message: str
) -> None:
    with pytest.raises(ModelError, match=message):
        classifier(net, outputs)


@pytest.mark.parametrize("names", [["a", "b", "c"], []])
def test_one_output_has_one_name_or_two(names: list[str]) -> None:
    with pytest.raises(InputError, match=r"the net returns one output: name its two labels"):
        classifier(column(0), names=names)


# ---- proofs ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("a", [0, 2])
def test_a_label_is_judged_as_if_it_were_the_only_one(method: str, a: int, images: Tensor) -> None:
    # explained alone in the first column, since a method's random numbers belong to (image, label)
    several = pm.explain(classifier(names=NAMES), images, labels=[a], method=method).evaluation.results[0]
    alone = pm.explain(classifier(column(a)), images, labels=[1], method=method).evaluation.results[0]
    torch.testing.assert_close(several.maps, alone.maps, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(
        several.insertion.probabilities, alone.insertion.probabilities, rtol=1e-4, atol=1e-5
    )
    for name in ("completeness", "soundness"):
        torch.testing.assert_close(several.values[name], alone.values[name], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("method", ["gradient", *METHODS[2:]])
def test_one_output_is_judged_as_the_softmax_net_with_its_two_sides(method: str, images: Tensor) -> None:
    one = pm.explain(classifier(column(1)), images, labels="all", method=method).evaluation
    two = pm.explain(
        classifier(TwoSides(column(1)), "logits"), images, labels="all", method=method
    ).evaluation
    assert torch.equal(one.labels, two.labels)
    ours, theirs = one.results[0], two.results[0]
    # two positions that differ by rounding may swap ranks: other versions of torch round otherwise
    torch.testing.assert_close(ours.insertion.auc, theirs.insertion.auc, rtol=1e-3, atol=1e-3)
    for name in ("completeness", "soundness", "best-effort"):
        torch.testing.assert_close(
            ours.values[name], theirs.values[name], rtol=1e-3, atol=1e-3, equal_nan=True
        )


# ---- records --------------------------------------------------------------------------------------------------


_NET = """\
from tests.test_outputs import MEAN, STD, column, conv_net

def several():
    return conv_net(3), dict(size=8, mean=MEAN, std=STD, names=["cat", "dog", "cup"], outputs="sigmoid")

def one():
    return column(1), dict(size=8, mean=MEAN, std=STD, names=["dog"], outputs="sigmoid")
"""


@pytest.mark.parametrize("net, names", [("several", ("cat", "dog", "cup")), ("one", ("not dog", "dog"))])
def test_a_stored_run_and_its_report_hold_what_evaluate_says(
    net: str, names: tuple[str, ...], tmp_path: Path
) -> None:
    (tmp_path / "net.py").write_text(_NET)
    for k in range(3):
        save(tmp_path / "photos", f"{k}.png", k)
    study = Study(
        model=f"{tmp_path / 'net.py'}:{net}",
        data=str(tmp_path / "photos"),
        labels="p>=0.4",
        methods=("gradient", "learned-mask:steps=2,fill=gray"),
    )
    run_study(study, tmp_path / "run")
    f = pm.load_classifier(study.model)
    photos = pm.load_images(sorted((tmp_path / "photos").iterdir()), f)
    expected = pm.evaluate(f, photos, methods=list(study.methods), labels="p>=0.4")
    with Run(tmp_path / "run") as run:
        stored = run.evaluation()
        assert (run.label_names, stored.settings["outputs"]) == (names, "sigmoid")
        assert torch.equal(stored.labels, expected.labels) and (stored.labels != NO_LABEL).any()
        for ours, theirs in zip(stored.results, expected.results, strict=True):
            for a, b in zip(ours.scores, theirs.scores, strict=True):
                assert a.value == pytest.approx(b.value, rel=1e-3, nan_ok=True)
        page = write_report(stored, tmp_path / "report.html").read_text(encoding="utf-8")
    assert "ndependent labels (sigmoid)" in page


def test_the_maps_of_two_digits_in_one_picture_avoid_each_other() -> None:
    """The numbers are on the page of own models."""
    data = pytest.importorskip("sklearn.datasets").load_digits()
    pictures, numbers = torch.tensor(data.images).float() / 16, torch.tensor(data.target)

    def sheets(first: int, last: int, n: int) -> tuple[Tensor, Tensor]:
        pairs = torch.randint(first, last, (n, 2), generator=torch.Generator().manual_seed(0))
        return torch.cat([pictures[pairs[:, 0]], pictures[pairs[:, 1]]], dim=2)[:, None], numbers[pairs]

    torch.manual_seed(0)
    net = nn.Sequential(
        *(nn.Conv2d(1, 16, 3, stride=2, padding=1), nn.ReLU(), nn.Flatten()),
        *(nn.Linear(512, 64), nn.ReLU(), nn.Linear(64, 10)),
    )
    x, digits = sheets(0, 1500, 6400)
    there = nn.functional.one_hot(digits, 10).amax(dim=1).float()
    adam = torch.optim.Adam(net.parameters(), lr=0.003)
    for _ in range(6):
        for some, truth in zip(x.split(64), there.split(64), strict=True):
            loss = nn.functional.binary_cross_entropy_with_logits(net(some), truth)
            adam.zero_grad()
            loss.backward()
            adam.step()
    f = pm.Classifier(net, size=(8, 16), mean=(0.0,), std=(1.0,), outputs="sigmoid")
    x, digits = sheets(1500, 1797, 60)
    both = (f.probabilities(x).gather(1, digits) > 0.9).all(dim=1) & (digits[:, 0] != digits[:, 1])
    proof = pm.explain(f, x[both], labels=digits[both], method="learned-mask:fill=gray,scale=2")
    best = proof.maps.flatten(2).topk(13).indices  # a tenth of 8 x 16 pixels
    left = (best % 16 < 8).float().mean(dim=(0, 2))
    assert left[0] == pytest.approx(0.93, abs=0.04) and left[1] == pytest.approx(0.07, abs=0.04)
    assert proof.result.insertion.f.min() > 0.9 and proof.result.pairs["completeness"].mean() > 0.8
