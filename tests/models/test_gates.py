"""Gates: what a method with gradients sees of words that are deleted, or that attention is closed to."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch

import proofmap as pm
from proofmap.core.inputs import Tokens
from proofmap.models.text_models import SentenceNet
from proofmap.models.token_nets import TokenNet
from tests.models.test_text_models import SMALL, SPECIAL, TEXTS, WORDS, bert, saved, transformers
from tests.toys import toy_tokens

KEEP = torch.tensor([[True, False, True, True, False, True]])


@pytest.fixture(autouse=True)
def _torchvision_that_fits(torchvision: Any) -> None:
    """As in the tests of text models."""


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
