"""Texts as embedded tokens: a two-layer transformer agrees with a plain loop, and methods with gradients explain it."""

from __future__ import annotations

import pytest
import torch

import proofmap as pm
from proofmap.classifier.token_nets import PerLabelNet
from proofmap.core.errors import InputError
from proofmap.core.inputs import Text, Tokens, inputs_of
from proofmap.fills import make_fill
from proofmap.fills.text import TextFill
from proofmap.metrics.playing import curves
from tests.sessions import bound
from tests.toy_tokens import ToyNet, by_hand, toy_classifier
from tests.toys import MASK, SLOTS, UNKNOWN, ToyReader, drawn, toy_tokens

TEXTS = [
    "Stars are far away",
    "No",
    "The committee voted to fund the telescope",
]
LABELS = torch.tensor([[0, 1, 2]] * 3)


def tokens_of(text: str) -> list[list[int]]:
    return [list(tokens) for _, tokens in ToyReader().pieces(text, "words", SLOTS)]


def test_the_net_agrees_with_a_loop_over_texts_without_padding() -> None:
    f = toy_classifier()
    found = f.probabilities(f.inputs.encode(TEXTS))
    expected = torch.stack([by_hand(drawn(ToyNet()), list(tokens_of(text))) for text in TEXTS])
    assert torch.allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("fill", ["gray", "mask", "unknown", "delete"])
def test_curves_agree_with_a_loop(fill: str) -> None:
    f = toy_classifier()
    x = f.inputs.encode(TEXTS)
    maps = torch.randn(3, 3, 12, generator=torch.Generator().manual_seed(1))
    found = curves("insertion", f, x, maps, LABELS, fill=fill)
    hidden = {"mask": MASK, "unknown": UNKNOWN}.get(fill)
    for i, text in enumerate(TEXTS):
        words = tokens_of(text)
        for a in range(3):
            order = maps[i, a, : len(words)].argsort(descending=True).tolist()
            total = 0.0
            for s in range(1, len(words) + 1):
                shown = set(order[:s])
                behind = [None if hidden is None else [hidden] * len(word) for word in words]
                seen = [word if k in shown else behind[k] for k, word in enumerate(words)]
                total += by_hand(drawn(ToyNet()), list(seen))[a].item()
            assert found.auc[i, a].item() == pytest.approx(total / len(words), abs=1e-5)


def test_closed_attention_keeps_places_and_hides_content() -> None:
    f = toy_classifier()
    x = f.inputs.encode(TEXTS)
    keep = torch.ones(3, 12, dtype=torch.bool)
    keep[:, 1] = False
    closed = bound(make_fill("closed"), f)(x, torch.zeros(3, dtype=torch.int64))
    shown = f.inputs.composite(keep, x, closed)
    other = shown.clone()
    other[:, 10:, SLOTS : 2 * SLOTS] += 5.0 * (shown[:, :1, SLOTS : 2 * SLOTS] != 0)
    assert torch.allclose(f.probabilities(shown), f.probabilities(other), atol=1e-6)
    assert not torch.allclose(f.probabilities(shown)[0], f.probabilities(x)[0], atol=1e-4)


def test_words_are_carried_to_the_letter_and_records_describe_them() -> None:
    inputs = toy_tokens()
    x = inputs.encode(TEXTS)
    assert inputs.decode(x) == TEXTS
    same = inputs_of(inputs.record())
    assert same == inputs and isinstance(same, Tokens) and same.decode(x) == TEXTS
    with pytest.raises(InputError, match="without the tokenizer; load the model"):
        same.encode(TEXTS)


METHODS = [
    "gradient",
    "gradient-x-input",
    "integrated-gradients:steps=8",
    "occlusion",
    "belief-order",
    "random",
]


def test_methods_with_gradients_explain_texts_of_different_lengths() -> None:
    found, more = (
        pm.evaluate(
            toy_classifier(n), TEXTS, methods=METHODS, metrics=["completeness", "soundness"], labels="all"
        )
        for n in (12, 20)
    )
    for result, other in zip(found.results, more.results, strict=True):
        assert torch.allclose(result.maps, other.maps[..., :12], atol=1e-5), result.name
        assert not other.maps[..., 7:].any()
        for name in result.values:
            assert torch.allclose(result.values[name], other.values[name], atol=1e-5), (result.name, name)


def test_integrated_gradients_add_up_to_the_change_of_the_logit() -> None:
    f = toy_classifier()
    x = f.inputs.encode(TEXTS[:1])
    maps = pm.make_method("integrated-gradients:steps=200")(f, x, torch.tensor([[0, 1, 2]]))
    hidden = bound(make_fill("mask"), f)(x, torch.zeros(1, dtype=torch.int64))
    change = (f(x) - f(hidden)).detach()
    assert torch.allclose(maps.sum(dim=2), change, atol=0.02 * float(change.abs().max()) + 1e-3)


@pytest.mark.parametrize("method", ["learned-mask:steps=4", "belief-mask:passes=60,fills=gray"])
def test_masks_are_learned_at_the_embedding(method: str) -> None:
    proof = pm.explain(toy_classifier(), TEXTS, labels="top2", method=method)
    assert proof.maps.shape == (3, 2, 12)
    assert len(proof.maps[0, 0, :4].unique()) > 1


@pytest.mark.parametrize(
    "texts, reason",
    [
        (["?? ???"], "text 0 has no token that the net's tokenizer knows"),
        (
            ["one " * 13],
            "text 0 has 13 words and 13 tokens, and the net takes at most 12 words and 40 tokens",
        ),
        (["abcdefghi " * 12], "text 0 has 12 words and 36 tokens"),
    ],
)
def test_texts_that_the_net_cannot_read_are_refused(texts: list[str], reason: str) -> None:
    reader = ToyReader()
    reader.most = 30 if "36" in reason else 40
    inputs = Tokens(width=8, slots=SLOTS, length=12, reader=reader)
    with pytest.raises(InputError, match=reason):
        inputs.encode(texts)


def test_a_tokenizer_without_a_mask_token() -> None:
    reader = ToyReader()
    reader.has_mask = False
    f = pm.Classifier(drawn(ToyNet()), inputs=Tokens(width=8, slots=SLOTS, length=12, reader=reader))
    with pytest.raises(InputError, match="the tokenizer has no mask token"):
        bound(make_fill("mask"), f)
    x = f.inputs.encode("Stars")
    assert TextFill.path_start(f.inputs, x)[0, 1, 0].item() == UNKNOWN


@pytest.mark.usefixtures("captum")
def test_captum_explains_the_layer_of_the_embeddings() -> None:
    """Integrated gradients at the output of a layer add up to the change of the logit, with what special tokens hold."""
    f = pm.Classifier(drawn(EmbeddedNet()), inputs=toy_tokens(), batch_size=16)
    x = f.inputs.encode(TEXTS)
    method = pm.make_method("captum:LayerIntegratedGradients(n_steps=300)")
    assert bound(method, f).record()["layer"] == "first"
    found = method(f, x, LABELS)
    assert found.shape == (3, 3, 12) and not found[0, :, 4:].any()
    assert torch.allclose(found[:1], method(f, x[:1], LABELS[:1]), atol=1e-5)
    hidden = bound(make_fill("mask"), f)(x, torch.zeros(3, dtype=torch.int64))
    change = (f(x) - f(hidden)).detach()
    assert torch.allclose(
        found.sum(dim=2), change, atol=0.03 * float(change.abs().max())
    )  # special tokens do not change


class EmbeddedNet(ToyNet):
    """The toy net behind a layer of its own for each token."""

    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(8, 8)

    def logits(self, tokens: torch.Tensor, attention: torch.Tensor) -> torch.Tensor:
        return super().logits(self.first(tokens), attention)


@pytest.mark.parametrize("method", ["attention-rollout", "chefer", "attention-lrp", "smooth-grad:samples=3"])
def test_methods_of_attention_give_words_their_own_relevance(method: str) -> None:
    """The map of a text does not depend on longer ones beside it, and hidden tokens, special ones and padding have no value."""
    f = toy_classifier()
    x = f.inputs.encode(TEXTS)
    maps = pm.make_method(method)(f, x, LABELS)
    assert maps.shape == (3, 3, 12) and bool(maps[:, 0, 0].all())
    assert not maps[0, :, 4:].any() and not maps[1, :, 1:].any()
    alone = pm.make_method(method)(f, x[:1], LABELS[:1])
    assert torch.allclose(maps[:1], alone, atol=1e-5)


def test_attention_rollout_of_texts_is_the_product_of_the_layers() -> None:
    """By hand: a text of two words of one token each, so the net is given four tokens."""
    f = toy_classifier()
    net = f.net
    state, tokens = Tokens.embedded(f.inputs.cut(f.inputs.encode(["a b"]), 2))
    packed, _ = net.packed(state, tokens, net.after)
    matrices, states = [], packed + net.places[:4]
    for layer in net.model.layers:
        matrices.append(layer.self_attn(states, states, states, average_attn_weights=True)[1][0])
        states = layer(states)
    joined = torch.eye(4)
    for matrix in matrices:
        joined = (matrix + torch.eye(4)) / 2 @ joined
    found = pm.make_method("attention-rollout")(f, f.inputs.encode(["a b"]), LABELS[:1])
    assert torch.allclose(
        found[0, 0, :2], joined.mean(dim=0)[1:3].detach(), atol=1e-5
    )  # read from the mean of all tokens


def test_noise_of_smooth_grad_reaches_embeddings_alone() -> None:
    inputs = toy_tokens()
    x = inputs.encode(TEXTS)
    varied = inputs.varied(x)
    assert not varied[:, :10].any()
    assert torch.equal(varied[:, 10:].any(dim=1), x[:, 0] != 0)


def test_nets_that_read_a_text_once_for_each_label_have_no_shared_attention() -> None:
    class PerLabel(PerLabelNet):
        def of_label(self, state: torch.Tensor, tokens: torch.Tensor, label: int) -> torch.Tensor:
            return tokens.sum(dim=(1, 2)) * label

    empty = torch.zeros(1, 8)
    f = pm.Classifier(PerLabel(torch.nn.Identity(), empty, [empty, empty]), inputs=toy_tokens())
    with pytest.raises(InputError, match="reads the text once for each label"):
        bound(pm.make_method("chefer"), f)


def test_first_words() -> None:
    f = toy_classifier()
    texts = ["the cat sat", "the dog sat", "the cat ran"]
    found = pm.evaluate(f, texts, methods=["first-words"], metrics=["completeness"], labels="top1")
    first = found.results[0].maps
    assert torch.allclose(first[0, 0, :3], torch.tensor([1, 2 / 3, 1 / 3]))


def test_gray_deletes_words_and_paths_of_gradients_start_at_the_mask_token() -> None:
    f = toy_classifier()
    x, keys = f.inputs.encode(TEXTS), torch.zeros(3, dtype=torch.int64)
    gray, deleted = (bound(make_fill(name), f)(x, keys) for name in ("gray", "delete"))
    assert torch.equal(gray, deleted)
    baseline = bound(pm.make_method("integrated-gradients"), f).record()["baseline"]
    assert baseline == {"fill": "mask"}
    assert bound(pm.make_method("integrated-gradients:baseline=zero"), f).record()["baseline"] == {
        "fill": "zero"
    }


@pytest.mark.usefixtures("captum")
def test_captum_hides_words_not_code_points() -> None:
    """FeatureAblation is f(x) - f(x without the word); for strings and for tokens."""

    def strings(texts: list[str]) -> list[list[float]]:
        yes = [(text.count("a") + 1) / (len(text) + 2) for text in texts]
        return [[share, 1 - share] for share in yes]

    black_box = pm.Classifier(strings, inputs=Text(length=12))
    for f, labels in ((black_box, torch.tensor([[0]])), (toy_classifier(), torch.tensor([[1]]))):
        x = f.inputs.encode(TEXTS[:1])
        found = pm.make_method("captum:FeatureAblation")(f, x, labels)[0, 0]
        expected = pm.make_method("occlusion:fill=delete,quantity=logit")(f, x, labels)[0, 0]
        assert torch.allclose(found, expected, atol=1e-5) and len(found[:4].unique()) > 1
