"""Texts, as strings and as tokens: positions, fills, curves and methods, against loops over strings."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import proofmap as pm
from proofmap.core.errors import InputError, ModelError
from proofmap.core.inputs import Text, TextInputs, Tokens, inputs_of
from proofmap.fills import make_fill
from proofmap.fills.text import TextFill
from proofmap.metrics.playing import curves
from proofmap.models.text_models import PerLabelNet
from tests.sessions import bound
from tests.texts import ANY
from tests.toy_tokens import ToyNet, by_hand, toy_classifier
from tests.toys import MASK, SLOTS, UNKNOWN, ToyReader, drawn, toy_tokens

TEXTS = [
    "Good, really good film.",
    "Bad.",
    "The plot is bad but the songs are good and the ending is great fun for everyone who likes songs",
    "Neither good nor bad: great!",
    "A long and boring evening.",
]
WEIGHTS = {"good": 1.0, "great": 1.5, "fun": 0.5, "bad": -1.2, "boring": -2.0, "[mask]": 0.1, "songs": 0.3}


def score(text: str) -> float:
    """A bag of words in which neighbours interact a little."""
    found = [WEIGHTS.get(word.strip(" .,:!").lower(), 0.0) for word in text.split()]
    return sum(found) + 0.2 * sum(a * b for a, b in itertools.pairwise(found))


def reviewer(texts: list[str]) -> list[list[float]]:
    """Three labels: bad, mixed, good."""
    rows = ([math.exp(k * score(text)) for k in (-1, 0, 1)] for text in texts)
    return [[p / sum(row) for p in row] for row in rows]


def net(length: int = 24, **settings: Any) -> pm.Classifier:
    inputs = Text(length=length, **settings)
    return pm.Classifier(reviewer, inputs=inputs, names=["bad", "mixed", "good"], batch_size=64)


# ---- what a position is -------------------------------------------------------------------------------------------


@given(st.text(ANY).filter(lambda text: text.strip()))
@pytest.mark.parametrize("units", ["words", "sentences"])
def test_positions_make_up_the_text(units: str, text: str) -> None:
    found = TextInputs.in_units(text, units)
    assert "".join(found) == text
    assert all(found)


@given(st.lists(st.text(alphabet=st.characters(exclude_characters="\0", exclude_categories=["Cs"]))))
def test_a_text_is_carried_to_the_letter(parts: list[str]) -> None:
    text = " ".join([*parts, "end"])
    inputs = Text(length=400)
    assert inputs.decode(inputs.encode([text])) == [text]


@pytest.mark.parametrize(
    "units, text, expected",
    [
        ("words", "Why not?  Yes", ["Why", "not?", "Yes"]),
        ("words", "東京は晴れ。Hello 世界", ["東", "京", "は", "晴", "れ。", "Hello", "世", "界"]),
        ("words", "שלום עולם", ["שלום", "עולם"]),
        ("sentences", "One. Two! 三。四", ["One.", "Two!", "三。", "四"]),
    ],
)
def test_words_and_sentences(units: Any, text: str, expected: list[str]) -> None:
    inputs = Text(length=10, units=units)
    x = inputs.encode(text)[0]
    assert [inputs.value_text(x, k) for k in range(len(expected))] == expected
    assert int(inputs.lengths(x[None])) == len(expected)


def test_a_long_word_is_several_positions() -> None:
    inputs = Text(length=10, width=8)
    found = inputs.words(inputs.encode("see https://example.org now")[0])
    assert found == ["see ", "https://", "example.", "org ", "now"]


def test_records_describe_texts() -> None:
    inputs = Text(length=9, units="sentences", mask_token="#", longer="cut")
    assert inputs_of(inputs.record()) == inputs
    assert inputs.at_length(4).record() == inputs.record()


def test_own_positions_must_make_up_the_text() -> None:
    inputs = Text(
        length=9, units="tokens", split=lambda text: [text[k : k + 2] for k in range(0, len(text), 2)]
    )
    assert inputs.words(inputs.encode("abcde")[0]) == ["ab", "cd", "e"]
    with pytest.raises(InputError, match="split must divide the whole text"):
        Text(length=9, split=str.split).encode("a b")
    with pytest.raises(InputError, match="tokens of black-box texts need split="):
        Text(length=9, units="tokens").encode("a b")


# ---- fills --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fill, expected",
    [
        ("gray", "Good, film."),
        ("delete", "Good, film."),
        ("mask", "Good, [MASK] [MASK] film."),
        ("unknown", "Good, [UNK] [UNK] film."),
    ],
)
def test_what_hidden_words_show(fill: str, expected: str) -> None:
    f = net()
    x = f.inputs.encode(TEXTS[:1])
    hidden = bound(make_fill(fill), f)(x, torch.zeros(1, dtype=torch.int64))
    keep = torch.tensor([[k in (0, 3) for k in range(24)]])
    assert f.inputs.decode(f.inputs.composite(keep, x, hidden)) == [expected]


def test_words_of_another_text_are_repeated_and_keep_the_gaps() -> None:
    inputs = Text(length=24)
    x, other = inputs.encode("a b\nc d, e"), inputs.encode("Yes No.")
    near = inputs.at_length(5)
    assert near.decode(near.of_others(inputs.cut(x, 5), other)) == ["Yes No.\nYes No. Yes"]


# ---- curves and scores --------------------------------------------------------------------------------------------


def looped(
    f: Callable[[list[str]], Any], text: str, heat: Sequence[float], label: int, mask: str
) -> tuple[float, list[float]]:
    """The insertion area and curve of a text by a loop over strings: the mean over s = 1 .. n of f with the top s words shown."""
    found = re.findall(r"\S+\s*", text)
    order = sorted(range(len(found)), key=lambda k: (-heat[k], k))
    curve = []
    for s in range(len(found) + 1):
        shown = set(order[:s])
        hidden = [mask and mask + re.findall(r"\s*$", word)[0] for word in found]
        kept = [word if k in shown else hidden[k] for k, word in enumerate(found)]
        curve.append(float(f(["".join(kept)])[0][label]))
    return sum(curve[1:]) / len(found), curve


@pytest.mark.parametrize("fill, mask", [("gray", ""), ("mask", "[MASK]")])
def test_curves_equal_a_loop_over_strings(fill: str, mask: str) -> None:
    f = net(40)
    x = f.inputs.encode(TEXTS)
    maps = torch.randn(len(TEXTS), 3, 40, generator=torch.Generator().manual_seed(0)).round(decimals=1)
    labels = torch.tensor([[0, 1, 2]] * len(TEXTS))
    found = curves("insertion", f, x, maps, labels, fill=fill)
    for i, text in enumerate(TEXTS):
        for a in range(3):
            area, curve = looped(reviewer, text, maps[i, a].tolist(), a, mask)
            assert found.auc[i, a].item() == pytest.approx(area, abs=1e-6)
            n = len(curve) - 1
            shown = found.counts_of(n)  # words of this text at each point
            assert (shown > 0).equal(found.counts > 0) and (
                shown / n - found.counts / 40
            ).abs().max() <= 1 / n
            assert set(shown.tolist()) == set(range(n + 1))
            assert found.probabilities[i, a].tolist() == pytest.approx([curve[s] for s in shown], abs=1e-6)


METHODS = [
    "random",
    "occlusion",
    "occlusion:fill=mask",
    "belief-order:budget=200",
    "kernel-shap:samples=40",
    "shapley:orders=2",
    "rise:masks=20",
]


@pytest.fixture(scope="module")
def judged() -> pm.Evaluation:
    return evaluated(24, TEXTS)


def evaluated(length: int, texts: Sequence[str]) -> pm.Evaluation:
    return pm.evaluate(
        net(length),
        list(texts),
        methods=METHODS,
        metrics=["completeness", "soundness", "deletion", "insertion"],
        labels="all",
        fills=["gray", "mask"],
    )


def values_of(found: pm.Evaluation, image: int, text: str) -> str:
    """All that was found for one text, at its own positions."""
    own: list[object] = []
    n = len(text.split())
    for result in found.results:
        assert not result.maps[image, :, n:].any()
        own += [(result.name, name, values[image].item()) for name, values in result.values.items()]
        own += [result.maps[image, :, :n].tolist(), result.insertion.auc[image].tolist()]
    return repr(own)


def test_more_empty_positions_change_no_bit(judged: pm.Evaluation) -> None:
    more = evaluated(61, TEXTS)
    for i, text in enumerate(TEXTS):
        assert values_of(judged, i, text) == values_of(more, i, text)


@pytest.mark.parametrize("i", [0, 2])
def test_a_text_is_judged_alone_as_among_others(judged: pm.Evaluation, i: int) -> None:
    assert values_of(evaluated(24, [TEXTS[i]]), 0, TEXTS[i]) == values_of(judged, i, TEXTS[i])


def test_a_method_equals_a_loop_over_strings(judged: pm.Evaluation) -> None:
    occlusion = next(result for result in judged.results if result.name == "occlusion")
    for i, text in enumerate(TEXTS):
        found, whole = text.split(), reviewer([text])[0]
        without = [reviewer([" ".join(found[:k] + found[k + 1 :])])[0] for k in range(len(found))]
        lost = (torch.tensor(whole) - torch.tensor(without)).T[judged.labels[i]]
        assert torch.allclose(occlusion.maps[i, :, : len(found)], lost, atol=1e-6)


# ---- what people give ---------------------------------------------------------------------------------------------


def test_texts_are_given_as_strings_lists_and_columns() -> None:
    f = net()
    for texts in (
        TEXTS[0],
        TEXTS[:2],
        tuple(TEXTS[:2]),
        np.array(TEXTS[:2]),
        np.array(TEXTS[:2], dtype=object),
    ):
        proof = pm.explain(f, texts, labels="top1", method="occlusion")
        assert proof.evaluation.image_names[0] == "text-0"


def test_data_describes_texts() -> None:
    f = pm.Classifier(reviewer, data=TEXTS, names=["bad", "mixed", "good"])
    assert isinstance(f.inputs, Text) and f.inputs.length == 512 and len(f.inputs.pool) == 5
    assert Text.of([*TEXTS, "word " * 600]).length == 600 and Text.of(TEXTS, length=30).length == 30
    assert Text().length == 512 and Text(units="sentences").length == 64
    found = pm.evaluate(
        f, TEXTS[:1], methods=["occlusion"], metrics=["insertion:fill=images,draws=2"], labels="top1"
    )
    assert re.match("[2-5] of the texts", str(found.results[0].insertion.settings["pool"]))


@pytest.fixture(scope="module")
def pipeline() -> Any:
    """A model of scikit-learn, which learned from the texts."""
    text = pytest.importorskip("sklearn.feature_extraction.text", reason="scikit-learn is not installed")
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    truth = ["good", "bad", "good", "good", "bad"]
    return make_pipeline(text.TfidfVectorizer(), LogisticRegression()).fit(TEXTS, truth)


def test_a_file_of_a_scikit_learn_pipeline_of_texts_is_explained(pipeline: Any, tmp_path: Path) -> None:
    import joblib
    from sklearn.linear_model import LogisticRegression

    joblib.dump(pipeline, tmp_path / "m.joblib")
    spec = f"sklearn:{tmp_path / 'm.joblib'}?pickle=true"
    f = pm.load_classifier(spec)
    assert isinstance(f.inputs, Text) and f.inputs.length == 512 and f.names == ("bad", "good")
    x = f.inputs.encode(TEXTS)
    assert torch.allclose(f.probabilities(x).double(), torch.tensor(pipeline.predict_proba(TEXTS)), atol=1e-6)
    letters = pm.load_classifier(f"{spec}&units=sentences&length=30&longer=cut").inputs
    assert isinstance(letters, Text) and (letters.units, letters.length, letters.longer) == (
        "sentences",
        30,
        "cut",
    )
    sampled = pm.load_classifier(spec, data=["a good film", "bad"]).inputs
    assert isinstance(sampled, Text) and sampled.pool == ("a good film", "bad")
    table = LogisticRegression().fit([[0.0], [1.0]], [0, 1])
    joblib.dump(table, tmp_path / "table.joblib")
    with pytest.raises(InputError, match="is a model of tables, without length"):
        pm.load_classifier(f"sklearn:{tmp_path / 'table.joblib'}?pickle=true&length=30")
    with pytest.raises(InputError, match="is a model of tables, and the data are texts"):
        pm.load_classifier(f"sklearn:{tmp_path / 'table.joblib'}?pickle=true", data=TEXTS)


@pytest.mark.parametrize(
    "texts, reason",
    [
        (["ok", ""], "text 1 is empty"),
        (["ok", " \n"], "text 1 is empty"),
        (["ok", None], "text 1 must be a string, not NoneType"),
        (["word " * 100_000], "text 0 has 100,000 words, and at most 24 are taken"),
        ([b"caf\xe9"], "text 0 has bytes that are not UTF-8, from byte 3 on"),
        (["a\0b"], "text 0 has the character .*NUL"),
        (["a\ud800b"], "text 0 has the character .*surrogate pair"),
    ],
)
def test_bad_texts_are_refused(texts: list[object], reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        pm.explain(net(), texts, labels="all", method="occlusion")  # type: ignore[arg-type]


def test_a_text_of_one_word_is_judged_and_its_scores_are_one() -> None:
    proof = pm.explain(net(), ["Bad."], labels="all", method=["belief-order", "occlusion", "random"])
    assert len(proof.methods) == 3
    found = pm.evaluate(net(), ["Bad.", "A bad end."], methods=["random"], labels="all")
    assert found["random"].values["soundness"][0] == found["random"].values["completeness"][0] == 1


def test_every_score_of_a_linear_model_of_languages_is_exact() -> None:
    """py3langid is linear in log(1 + n-gram counts): curves, completeness and soundness by hand, from its weights."""
    langid = pytest.importorskip("py3langid.langid", reason="py3langid is not installed")
    model = langid.LanguageIdentifier.from_model_file(langid.MODEL_FILE)
    chosen = [list(model.nb_classes).index(name) for name in ("en", "de", "fr")]

    def languages(texts: list[str]) -> np.ndarray:
        rows = []
        for text in texts:
            visits = langid.visit_counts(
                model.tk_nextmove, model._rowbase, model.tk_output, model._encode(text)
            )
            total = np.zeros(3)
            for feature, count in (visits or {}).items():
                total += math.log1p(count) * model.nb_ptc[feature][chosen].astype(float)
            rows.append(np.exp(total - total.max()) / np.exp(total - total.max()).sum())
        return np.array(rows)

    texts = ["The cat sat und dann schlief die Katze.", "Le chat dort on the old chair near the door."]
    f = pm.Classifier(languages, inputs=Text(length=16), names=["en", "de", "fr"])
    found = pm.evaluate(
        f, texts, methods=["occlusion", "belief-order"], metrics=["completeness", "soundness"], labels="all"
    )
    for result in found.results:
        for i, text in enumerate(texts):
            whole = languages([text])[0]
            ratios = []
            for j, a in enumerate(found.labels[i].tolist()):
                area, _ = looped(languages, text, result.maps[i, j].tolist(), a, "")
                assert result.insertion.auc[i, j].item() == pytest.approx(area, rel=1e-5)
                ratios.append((area, whole[a]))
            complete, sound = (values[i].item() for values in result.values.values())
            assert complete == pytest.approx(min(min(max(area, 0.01) / p, 1) for area, p in ratios), abs=1e-5)
            assert sound == pytest.approx(min(min(max(p, 0.001) / area, 1) for area, p in ratios), abs=1e-5)


def test_a_model_that_fails_on_an_empty_text_is_refused() -> None:
    with pytest.raises(
        ModelError, match=r"fails on 2 texts: IndexError.*One of them is empty, as when all words are deleted"
    ):
        pm.Classifier(lambda texts: [[text[0] == "a", text[0] != "a"] for text in texts], inputs=Text())


def test_the_mean_of_a_region_hides_words_although_words_have_no_mean() -> None:
    found = pm.evaluate(
        net(), [TEXTS[3]], methods=["kernel-shap:fill=none,samples=64"], labels="top1", keep_maps=1
    )
    heat = found.map_of(found.results[0], 0, 0)
    assert found.label_names[int(found.labels[0, 0])] == "good" and int(heat.argmax()) == 4  # "great!"


# ---- tokens --------------------------------------------------------------------------------------------------


SENTENCES = [
    "Stars are far away",
    "No",
    "The committee voted to fund the telescope",
]
LABELS = torch.tensor([[0, 1, 2]] * 3)


def tokens_of(text: str) -> list[list[int]]:
    return [list(tokens) for _, tokens in ToyReader().pieces(text, "words", SLOTS)]


def test_the_net_agrees_with_a_loop_over_texts_without_padding() -> None:
    f = toy_classifier()
    found = f.probabilities(f.inputs.encode(SENTENCES))
    expected = torch.stack([by_hand(drawn(ToyNet()), list(tokens_of(text))) for text in SENTENCES])
    assert torch.allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("fill", ["gray", "mask", "unknown", "delete"])
def test_curves_agree_with_a_loop(fill: str) -> None:
    f = toy_classifier()
    x = f.inputs.encode(SENTENCES)
    maps = torch.randn(3, 3, 12, generator=torch.Generator().manual_seed(1))
    found = curves("insertion", f, x, maps, LABELS, fill=fill)
    hidden = {"mask": MASK, "unknown": UNKNOWN}.get(fill)
    for i, text in enumerate(SENTENCES):
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
    x = f.inputs.encode(SENTENCES)
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
    x = inputs.encode(SENTENCES)
    assert inputs.decode(x) == SENTENCES
    same = inputs_of(inputs.record())
    assert same == inputs and isinstance(same, Tokens) and same.decode(x) == SENTENCES
    with pytest.raises(InputError, match="without the tokenizer; load the model"):
        same.encode(SENTENCES)


TOKEN_METHODS = [
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
            toy_classifier(n),
            SENTENCES,
            methods=TOKEN_METHODS,
            metrics=["completeness", "soundness"],
            labels="all",
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
    x = f.inputs.encode(SENTENCES[:1])
    maps = pm.make_method("integrated-gradients:steps=200")(f, x, torch.tensor([[0, 1, 2]]))
    hidden = bound(make_fill("mask"), f)(x, torch.zeros(1, dtype=torch.int64))
    change = (f(x) - f(hidden)).detach()
    assert torch.allclose(maps.sum(dim=2), change, atol=0.02 * float(change.abs().max()) + 1e-3)


@pytest.mark.parametrize("method", ["learned-mask:steps=4", "belief-mask:passes=60,fills=gray"])
def test_masks_are_learned_at_the_embedding(method: str) -> None:
    proof = pm.explain(toy_classifier(), SENTENCES, labels="top2", method=method)
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
    x = f.inputs.encode(SENTENCES)
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
    x = f.inputs.encode(SENTENCES)
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
    x = inputs.encode(SENTENCES)
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
    x, keys = f.inputs.encode(SENTENCES), torch.zeros(3, dtype=torch.int64)
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
        x = f.inputs.encode(SENTENCES[:1])
        found = pm.make_method("captum:FeatureAblation")(f, x, labels)[0, 0]
        expected = pm.make_method("occlusion:fill=delete,quantity=logit")(f, x, labels)[0, 0]
        assert torch.allclose(found, expected, atol=1e-5) and len(found[:4].unique()) > 1
