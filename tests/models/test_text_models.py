"""Models of texts from folders: tiny nets of transformers, saved here, agree with transformers itself."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
import torch

import proofmap as pm
from proofmap.core.errors import InputError, ModelError
from tests.lazily import Lazily

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
    folder = bert(tmp_path, ["bad", "good"])
    with pytest.raises(ModelError, match="one must be called entailment"):
        pm.load_classifier(f"hf-nli:{folder}?labels=sport,cat")
    with pytest.raises(InputError, match=r"needs labels: write hf-lm:.*labels=sport,politics"):
        pm.load_classifier(f"hf-lm:{folder}")
    with pytest.raises(InputError, match="takes no labels; only zero-shot models"):
        pm.load_classifier(f"hf-text:{folder}", labels=["a", "b"])
    (tmp_path / "nli").mkdir()
    nli = bert(tmp_path / "nli", ["neutral", "entailment"])
    with pytest.raises(InputError, match="the labels 'Cat' and 'cat' have the same tokens"):
        pm.load_classifier(f"hf-nli:{nli}", labels=["Cat", "cat"])
    with pytest.raises(ModelError, match="there is no folder"):
        pm.load_classifier("hf-text:./nowhere-at-all")


def test_a_tokenizer_without_offsets_is_refused() -> None:
    from proofmap.models.token_nets import TokenReader

    with pytest.raises(ModelError, match="the tokenizer of x gives no offsets"):
        TokenReader(object(), torch.zeros(2, 2), None, 2, "x")


def test_minilm_compares_sentences() -> None:
    pytest.importorskip("all_minilm_l6_v2")
    f = pm.load_classifier("minilm-zero-shot?labels=sport,politics,science&length=24")
    found = f.probabilities(
        f.inputs.encode(["The goalkeeper saved a late penalty.", "The senate passed the bill."])
    )
    assert found.argmax(dim=1).tolist() == [0, 1]


def test_long_texts_are_read_in_windows(tmp_path: Path) -> None:
    folder = bert(tmp_path, ["bad", "good"])
    f = pm.load_classifier(f"hf-text:{folder}?longer=windows&length=60")
    texts = ["cat " * 30 + "dog " * 20, "a dog"]
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    with torch.no_grad():
        each = [
            model(**tokenizer()(t, return_tensors="pt")).logits[0]
            for t in ("cat " * 30 + "dog " * 8, "dog " * 12, texts[1])
        ]
    expected = torch.stack([(38 * each[0] + 12 * each[1]) / 50, each[2]])
    assert torch.allclose(f(f.inputs.encode(texts)), expected, atol=1e-4)
    with pytest.raises(InputError, match="which it must read as a whole"):
        pm.load_classifier(f"hf-lm:{language_model(tmp_path / 'lm')}?labels=yes,no&longer=windows")
