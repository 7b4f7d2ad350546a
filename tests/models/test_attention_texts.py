"""Methods that read attention keep the contract of methods on tiny nets of Hugging Face, saved to a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import proofmap as pm
from proofmap.core.errors import InputError
from tests.models.test_text_models import (
    SMALL,
    SPECIAL,
    TEXTS,
    WORDS,
    bert,
    language_model,
    saved,
    transformers,
)
from tests.sessions import bound

METHODS = ["attention-rollout", "chefer", "attention-lrp"]
NAMES = ["bad", "good", "mixed"]
LABELS = torch.tensor([[0, 1, 2]] * 3)
SIZE = {"vocab_size": len(SPECIAL) + len(WORDS), "max_position_embeddings": 40, "num_labels": 3}


@pytest.fixture(autouse=True)
def _torchvision_that_fits(torchvision: Any) -> None:
    """As in the tests of text models."""


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
