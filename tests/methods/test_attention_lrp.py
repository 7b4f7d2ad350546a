"""Relevance propagation through attention: maps add up to the logit, and follow the rules as worked out with separate copies."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from proofmap.methods.gradients.plain import input_gradients
from proofmap.methods.propagation.attention_lrp import AttentionLRP, LinearOperations
from tests.toys import PICTURES, classifier_of, drawn, normal, values


class Small(nn.Module):
    """A transformer without biases, on tokens ``(N, T, 8)``."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, bias=False, batch_first=True)
        self.norm = nn.LayerNorm(8, elementwise_affine=False)
        self.layers = nn.Sequential(
            nn.Linear(8, 12, bias=False), nn.GELU(), nn.Linear(12, 8, bias=False), nn.Tanh()
        )
        self.head = nn.Linear(8, 3, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(x + self.attention(x, x, x)[0])
        found: Tensor = self.head((x + self.layers(x)).mean(dim=1))
        return found


def test_relevances_add_up_to_the_logit_if_attention_is_constant() -> None:
    net, x, labels = drawn(Small()), normal(2, 5, 8, seed=3), torch.tensor([[0, 1, 2]] * 2)

    def linear(given: Tensor) -> Tensor:
        with LinearOperations("constant"):
            return net(given)

    assert torch.allclose(linear(x), net(x), atol=1e-5)
    relevance = input_gradients(linear, x, labels) * x[:, None]
    assert torch.allclose(relevance.sum(dim=(2, 3)), net(x), atol=1e-4)
    plain = input_gradients(net, x, labels) * x[:, None]
    assert not torch.allclose(plain.sum(dim=(2, 3)), net(x), atol=1e-2)


def test_attention_shares_relevance_between_values_queries_and_keys() -> None:
    weights = [normal(4, 4, seed=k) for k in range(3)]
    x, out = normal(1, 5, 4, seed=5), normal(4, seed=6)

    def attended(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q @ weights[0], k @ weights[1], v @ weights[2]) @ out

    def logits(given: Tensor) -> Tensor:
        with LinearOperations("halved"):
            return attended(given, given, given).sum(dim=1, keepdim=True)

    found = input_gradients(logits, x, torch.zeros(1, 1, dtype=torch.long))[0, 0]
    copies = [x.clone().requires_grad_() for _ in range(3)]
    gradients = torch.autograd.grad(attended(*copies).sum(), copies)
    expected = gradients[0] / 4 + gradients[1] / 4 + gradients[2] / 2
    assert torch.allclose(found, expected[0], atol=1e-5)


def test_the_outputs_of_the_net_are_the_same_inside() -> None:
    f = classifier_of(PICTURES, attention=True)
    x = values(PICTURES, 2)
    for rule in ("halved", "constant"):
        with LinearOperations(rule):  # type: ignore[arg-type]
            inside = f(x)
        assert torch.allclose(inside, f(x), atol=1e-5)
    assert AttentionLRP(attention="constant").title() == "attention-lrp:attention=constant"
