"""Models of texts from folders: tiny nets of transformers, saved here, agree with transformers itself."""

from __future__ import annotations

import dataclasses
import importlib.util
from pathlib import Path
from typing import Any

import pytest
import torch

import proofmap as pm
from proofmap.classifier.token_nets import TokenNet
from proofmap.core.errors import InputError, ModelError
from proofmap.core.inputs import Tokens
from proofmap.models.text_models import SentenceNet
from tests.lazily import Lazily
from tests.sessions import bound
from tests.toys import toy_tokens

transformers, tokenizers = Lazily("transformers"), Lazily("tokenizers")

TEXTS = ["the cat sat on the mat", "a dog", "the unbelievable telescope saw the cats and the dog"]
WORDS = [
    "the",
    "cat",
    "sat",
    "on",
    "mat",
    "a",
    "dog",
    "un",
    "##believ",
    "##able",
    "tele",
    "##scope",
    "saw",
    "##s",
    "and",
    "good",
    "bad",
    "is",
    "it",
    "yes",
    "no",
    "this",
    "text",
    "about",
    ".",
    "sport",
]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
SMALL: dict[str, Any] = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
}


@pytest.fixture(autouse=True)
def _torchvision_that_fits(request: pytest.FixtureRequest) -> None:
    """transformers imports torchvision if it is there, and its compiled half may not fit this torch; texts do not need it."""
    if importlib.util.find_spec("torchvision") is not None:
        request.getfixturevalue("torchvision")


def tokenizer() -> Any:
    vocabulary = {token: k for k, token in enumerate([*SPECIAL, *WORDS])}
    made = tokenizers.Tokenizer(tokenizers.models.WordPiece(vocabulary, unk_token="[UNK]"))
    made.normalizer = tokenizers.normalizers.BertNormalizer()
    made.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    made.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made,
        unk_token="[UNK]",
        mask_token="[MASK]",
        pad_token="[PAD]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        bos_token="[CLS]",
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
    )


def saved(folder: Path, model: Any) -> str:
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(4.0)
    model.eval().save_pretrained(folder)
    tokenizer().save_pretrained(folder)
    return str(folder)


def bert(folder: Path, names: list[str], **settings: Any) -> str:
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(SPECIAL) + len(WORDS),
        max_position_embeddings=40,
        id2label=dict(enumerate(names)),
        label2id={name: k for k, name in enumerate(names)},
        **SMALL,
        **settings,
    )
    return saved(folder, transformers.BertForSequenceClassification(config))


def test_sequence_classification_agrees_with_transformers(tmp_path: Path) -> None:
    folder = bert(tmp_path, ["bad", "good", "mixed"])
    f = pm.load_classifier(f"hf-text:{folder}")
    assert f.names == ("bad", "good", "mixed") and f.differentiable
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    batch = tokenizer()(TEXTS, return_tensors="pt", padding=True)
    with torch.no_grad():
        expected = model(**batch).logits.softmax(dim=1)
    x = f.inputs.encode(TEXTS)
    assert torch.allclose(f.probabilities(x), expected, atol=1e-5)
    assert f.inputs.decode(x) == TEXTS
    proof = pm.explain(f, TEXTS, labels="all", method=["gradient", "belief-order"])
    assert proof.methods == ("gradient", "belief-order")


def test_independent_labels(tmp_path: Path) -> None:
    folder = bert(tmp_path, ["a", "b"], problem_type="multi_label_classification")
    assert pm.load_classifier(f"hf-text:{folder}").independent


def test_positions_may_be_tokens_and_long_texts_cut(tmp_path: Path) -> None:
    folder = bert(tmp_path, ["bad", "good"])
    f = pm.load_classifier(f"hf-text:{folder}?units=tokens&longer=cut&length=5")
    x = f.inputs.encode("the unbelievable telescope saw")[0]
    assert [f.inputs.value_text(x, k) for k in range(5)] == ["the", "un", "believ", "able", "tele"]
    with pytest.raises(InputError, match="at most 38 words and 38 tokens"):
        pm.load_classifier(f"hf-text:{folder}").inputs.encode("cat " * 39)


def test_entailment_agrees_with_transformers(tmp_path: Path) -> None:
    folder = bert(tmp_path, ["contradiction", "neutral", "entailment"])
    f = pm.load_classifier(f"hf-nli:{folder}", labels=["sport", "cat"])
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    rows = []
    for text in TEXTS:
        pairs = tokenizer()(
            [text] * 2, ["This text is about sport.", "This text is about cat."], return_tensors="pt"
        )
        with torch.no_grad():
            rows.append(model(**pairs).logits[:, 2])
    assert torch.allclose(
        f.probabilities(f.inputs.encode(TEXTS)), torch.stack(rows).softmax(dim=1), atol=1e-5
    )


def language_model(folder: Path) -> str:
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=len(SPECIAL) + len(WORDS),
        n_positions=40,
        n_embd=16,
        n_layer=2,
        n_head=2,
        bos_token_id=2,
        eos_token_id=3,
    )
    return saved(folder, transformers.GPT2LMHeadModel(config))


@pytest.mark.parametrize("labels", [("yes it is", "no"), ("yes", "no", "it")])
def test_a_language_model_is_a_classifier_of_continuations(tmp_path: Path, labels: tuple[str, ...]) -> None:
    folder = language_model(tmp_path)
    f = pm.load_classifier(f"hf-lm:{folder}?labels={','.join(labels)}")
    assert f.names == labels
    model, tokens = transformers.AutoModelForCausalLM.from_pretrained(folder).eval(), tokenizer()
    for text, found in zip(TEXTS, f.probabilities(f.inputs.encode(TEXTS)), strict=True):
        scores = []
        for label in labels:
            start, rest = (
                [2, *tokens(text, add_special_tokens=False)["input_ids"]],
                tokens(label, add_special_tokens=False)["input_ids"],
            )
            with torch.no_grad():
                each = model(torch.tensor([[*start, *rest]])).logits[0].log_softmax(dim=-1)
            scores.append(sum(each[len(start) + k - 1, token].item() for k, token in enumerate(rest)))
        assert torch.allclose(found, torch.tensor(scores).softmax(dim=0), atol=1e-5)
    read: list[int] = []
    f.net.model.register_forward_hook(lambda *_: read.append(1))  # type: ignore[union-attr]
    f.probabilities(f.inputs.encode(TEXTS[:1]))
    assert len(read) == (1 if all(" " not in label for label in labels) else len(labels))
    assert pm.explain(f, TEXTS[:1], labels="all", method="occlusion").methods == ("occlusion",)


def test_what_cannot_be_loaded_is_refused(tmp_path: Path) -> None:
    (tmp_path / "nli").mkdir()
    folder, nli = bert(tmp_path, ["bad", "good"]), bert(tmp_path / "nli", ["neutral", "entailment"])
    for spec, labels, told in (
        (f"hf-nli:{folder}?labels=sport,cat", None, "one must be called entailment"),
        (f"hf-lm:{folder}", None, r"needs labels: write hf-lm:.*labels=sport,politics"),
        (f"hf-text:{folder}", ["a", "b"], "takes no labels; only zero-shot models"),
        (f"hf-nli:{nli}", ["Cat", "cat"], "the labels 'Cat' and 'cat' have the same tokens"),
        ("hf-text:./nowhere-at-all", None, "there is no folder"),
    ):
        with pytest.raises((InputError, ModelError), match=told):
            pm.load_classifier(spec, **{"labels": labels} if labels else {})


def test_a_tokenizer_without_offsets_is_refused() -> None:
    from proofmap.classifier.token_nets import TokenReader

    with pytest.raises(ModelError, match="the tokenizer of x gives no offsets"):
        TokenReader("x", object(), object())


def test_minilm_compares_sentences() -> None:
    pytest.importorskip("all_minilm_l6_v2")
    f = pm.load_classifier("minilm-zero-shot?labels=sport,politics,science&length=24")
    found = f.probabilities(
        f.inputs.encode(["The goalkeeper saved a late penalty.", "The senate passed the bill."])
    )
    assert found.argmax(dim=1).tolist() == [0, 1]


# ---- gates ----

KEEP = torch.tensor([[True, False, True, True, False, True]])


def half_hidden(f: pm.Classifier, fill: str, keep: torch.Tensor = KEEP) -> torch.Tensor:
    near = f.inputs.at_length(6)
    x = f.inputs.cut(f.inputs.encode(TEXTS[:1]), 6)
    hidden = near.removed(x) if fill == "delete" else near.closed(x)
    return near.composite(keep, x, hidden)


@pytest.mark.parametrize("fill", ["delete", "closed"])
def test_gates_leave_the_answers_as_they_are(fill: str, tmp_path: Path) -> None:
    f = pm.load_classifier(f"hf-text:{bert(tmp_path, ['bad', 'good', 'mixed'])}")
    net = f.net
    assert isinstance(net, TokenNet) and net.gates
    state, tokens = Tokens.embedded(half_hidden(f, fill))
    exact = net.logits(*net.packed(state, tokens, net.after))
    assert torch.allclose(net.logits(*net.gated(state, tokens)), exact, atol=1e-3)


@pytest.mark.parametrize("fill", ["delete", "closed"])
def test_the_gradient_of_a_shown_words_gate_is_the_slope_of_the_answer(fill: str, tmp_path: Path) -> None:
    f = pm.load_classifier(f"hf-text:{bert(tmp_path, ['bad', 'good', 'mixed'])}")
    net = f.net
    net = net.double()
    packed, gates = net.gated(*Tokens.embedded(half_hidden(f, fill).double()))
    m = gates.m.detach().clone().requires_grad_(True)

    def answer(of: torch.Tensor) -> torch.Tensor:
        return net.logits(packed, dataclasses.replace(gates, m=of))[0, 1]

    (slopes,) = torch.autograd.grad(answer(m), m)
    step = torch.zeros_like(m)
    step[0, 3] = -1e-6
    change = (answer(m.detach() + step) - answer(m.detach())) / -1e-6
    assert slopes[0, 3].item() == pytest.approx(change.item(), rel=1e-3) and change != 0


@pytest.mark.parametrize("fill", ["delete", "closed"])
def test_hidden_words_have_the_gradient_of_the_mean_sentence(fill: str) -> None:
    """sentence = sum m_j h_j / sum m_j with length one: its derivative in m_j, by hand."""
    torch.manual_seed(0)
    model = transformers.BertModel(
        transformers.BertConfig(vocab_size=8, max_position_embeddings=40, **{**SMALL, "hidden_size": 8})
    ).eval()
    net = SentenceNet(model, torch.randn(1, 8), torch.randn(1, 8), torch.randn(2, 8), 5.0)
    inputs = toy_tokens().at_length(4)
    x = toy_tokens().cut(toy_tokens().encode(["Sun and moon too"]), 4)
    hidden = inputs.removed(x) if fill == "delete" else inputs.closed(x)
    net.try_gates(x, [hidden])
    assert net.gates
    keep = torch.tensor([[1.0, 0.0, 1.0, 1.0]]).requires_grad_(True)
    packed, gates = net.gated(*Tokens.embedded(inputs.composite(keep, x, hidden)))
    assert torch.allclose(net(inputs.composite(keep, x, hidden)), net.logits(packed, gates))
    (slopes,) = torch.autograd.grad(net.logits(packed, gates)[0, 1], gates.m)
    with torch.no_grad():
        h = model(
            inputs_embeds=packed, attention_mask=gates.bias(), position_ids=gates.places
        ).last_hidden_state[0]
        mean = (gates.m[0, :, None] * h).sum(dim=0) / gates.m.sum()
        moved = (h - mean) / gates.m.sum()  # of the mean, for each m_j
        along = mean / mean.norm()
        turned = (moved - (moved @ along)[:, None] * along) / mean.norm()
        expected = 5.0 * turned @ net.sentences[1]
    closed = gates.m[0] == 0
    assert int(closed.sum()) == 1
    assert torch.allclose(slopes[0][closed], expected[closed], atol=1e-5)


def test_a_whole_text_has_the_gradient_of_its_embedding_alone(tmp_path: Path) -> None:
    f = pm.load_classifier(f"hf-text:{bert(tmp_path, ['bad', 'good', 'mixed'])}")
    x = f.inputs.encode(TEXTS).requires_grad_(True)
    (slopes,) = torch.autograd.grad(f(x)[:, 1].sum(), x)
    assert not slopes[:, :10].any() and slopes[:, 10:].any()


def test_a_model_without_places_has_no_gates(tmp_path: Path) -> None:
    settings = {"dim": 16, "n_layers": 2, "n_heads": 2, "hidden_dim": 32}
    torch.manual_seed(0)
    config = transformers.DistilBertConfig(
        vocab_size=len(SPECIAL) + len(WORDS), max_position_embeddings=40, num_labels=2, **settings
    )
    f = pm.load_classifier(
        f"hf-text:{saved(tmp_path, transformers.DistilBertForSequenceClassification(config))}"
    )
    keep = KEEP.float().requires_grad_(True)
    (slopes,) = torch.autograd.grad(f.at_length(6)(half_hidden(f, "delete", keep))[0, 1], keep)
    assert bool((slopes[KEEP] != 0).all())  # of shown words there is always one


# ---- methods that read attention keep the contract of methods on  ----

METHODS = ["attention-rollout", "chefer", "attention-lrp"]
NAMES = ["bad", "good", "mixed"]
LABELS = torch.tensor([[0, 1, 2]] * 3)
SIZE = {"vocab_size": len(SPECIAL) + len(WORDS), "max_position_embeddings": 40, "num_labels": 3}


def folder_of(kind: str, folder: Path) -> str:
    if kind == "bert":
        return bert(folder, NAMES)
    torch.manual_seed(0)
    if kind == "distilbert":
        config = transformers.DistilBertConfig(**SIZE, dim=16, n_layers=2, n_heads=2, hidden_dim=32)
        return saved(folder, transformers.DistilBertForSequenceClassification(config))
    config = transformers.ElectraConfig(**SIZE, **SMALL, embedding_size=16)
    return saved(folder, transformers.ElectraForSequenceClassification(config))


@pytest.mark.parametrize(
    "kind", ["bert", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("distilbert", "electra"))]
)
def test_the_contract_of_attention_methods(kind: str, tmp_path: Path) -> None:
    f = pm.load_classifier(f"hf-text:{folder_of(kind, tmp_path)}?length=12")
    x, words = f.inputs.encode(TEXTS), [len(f.inputs.split_text(text)) for text in TEXTS]
    before, f_before = f.fingerprint(), f.probabilities(x)
    for name in METHODS:
        method = pm.make_method(name)
        maps = method(f, x, LABELS)
        for own, count in zip(maps, words, strict=True):
            assert not own[:, count:].any(), f"{name} gives a value to padding"
            assert all(len(one[:count].unique()) > 1 for one in own), f"a map of {name} is constant"
        assert torch.equal(maps[:, 0], maps[:, 1]) == method.label_free, name
        assert torch.allclose(method(f, x[1:2], LABELS[:1]), maps[1:2], atol=1e-5), (
            f"{name} depends on other texts"
        )
    assert f.fingerprint() == before and torch.equal(f.probabilities(x), f_before)


@pytest.mark.parametrize(
    "name", METHODS[:2]
)  # attention-lrp is a gradient, which passes of their own have too
def test_nets_without_one_pass_are_refused(name: str, tmp_path: Path) -> None:
    model = pm.load_classifier(f"hf-lm:{language_model(tmp_path / 'lm')}?labels=yes,no")
    with pytest.raises(InputError, match="reads the text once for each label"):
        bound(pm.make_method(name), model)
    windows = pm.load_classifier(f"hf-text:{bert(tmp_path / 'bert', NAMES)}?longer=windows")
    with pytest.raises(InputError, match="windows"):
        bound(pm.make_method(name), windows)
