"""A two-layer transformer of toy tokens, and the same by hand, one text at a time."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from proofmap.classifier import Classifier
from proofmap.classifier.token_nets import TokenNet
from tests.toys import WIDTH, ToyReader, drawn, normal, toy_tokens


class ToyNet(TokenNet):
    """Two layers of attention, and a linear head on the mean of the tokens that attention is open to."""

    def __init__(self, labels: int = 3) -> None:
        layer = nn.TransformerEncoderLayer(WIDTH, 2, 16, batch_first=True, dropout=0.0)
        super().__init__(
            nn.TransformerEncoder(layer, 2, enable_nested_tensor=False),
            normal(1, WIDTH, seed=8),
            normal(1, WIDTH, seed=9),
        )
        self.head = nn.Linear(WIDTH, labels)
        self.places = nn.Parameter(torch.zeros(64, WIDTH))

    def logits(self, tokens: Tensor, attention: Tensor) -> Tensor:
        states = self.model(tokens + self.places[: tokens.shape[1]], src_key_padding_mask=attention == 0)
        share = attention.to(states)[..., None]
        return self.head((states * share).sum(dim=1) / share.sum(dim=1))


def toy_classifier(length: int = 12) -> Classifier:
    return Classifier(drawn(ToyNet()), inputs=toy_tokens(length), names=["a", "b", "c"], batch_size=16)


@torch.no_grad()
def by_hand(net: ToyNet, words: list[list[int] | None]) -> Tensor:
    """f of words given by their tokens, one text at a time, without padding; a word that is None is removed."""
    reader = ToyReader()
    numbers = [number for word in words if word is not None for number in word]
    tokens = torch.cat([net.before, reader.table[torch.tensor(numbers, dtype=torch.long)], net.after])[None]
    return net.logits(tokens, torch.ones(1, tokens.shape[1], dtype=torch.long))[0].softmax(dim=0)
