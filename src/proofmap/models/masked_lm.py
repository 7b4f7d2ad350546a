"""Masked language models, which give the probabilities of tokens at hidden places of a text."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from proofmap.core.errors import InputError, ModelError, require
from proofmap.models.hub_access import folder_or_repository
from proofmap.models.readers import special_tokens


class MaskedModel:
    """A masked language model of transformers as a function from tokens ``(N, T)`` and their attention mask ``(N, T)``, with padding at the
    end, to logits ``(N, T, V)`` over a vocabulary of V tokens.

    Special tokens are added before and after each text. They are never predicted.
    """

    def __init__(self, model: Any, tokenizer: Any) -> None:
        self.model = model
        self.vocabulary: dict[str, int] = tokenizer.get_vocab()
        self.first, self.last = special_tokens(tokenizer)
        self.special = sorted(set(tokenizer.all_special_ids))

    @torch.no_grad()
    def __call__(self, tokens: Tensor, attention: Tensor) -> Tensor:
        model, before, after = self.model.to(tokens.device), len(self.first), len(self.last)
        n, length = tokens.shape
        given = torch.zeros(n, before + length + after, dtype=torch.long, device=tokens.device)
        open_to = torch.zeros_like(given)
        given[:, :before] = torch.tensor(self.first, device=tokens.device)
        given[:, before : before + length], open_to[:, before : before + length] = tokens, attention
        ends = before + attention.sum(dim=1, keepdim=True) + torch.arange(after, device=tokens.device)
        given.scatter_(1, ends, torch.tensor(self.last, device=tokens.device).expand(n, -1))
        open_to[:, :before] = 1
        open_to.scatter_(1, ends, 1)
        logits: Tensor = model(input_ids=given, attention_mask=open_to).logits[:, before : before + length]
        logits[..., self.special] = -torch.inf
        return logits


@lru_cache(maxsize=2)
def load_masked_model(name: str) -> MaskedModel:
    """A masked language model from a folder or the hub."""
    transformers = require("transformers", extra="hf", purpose=f"the masked language model {name}")
    where = folder_or_repository("masked-lm", name)
    try:
        model, info = transformers.AutoModelForMaskedLM.from_pretrained(
            name, output_loading_info=True, **where
        )
        tokenizer = transformers.AutoTokenizer.from_pretrained(name, **where)
    except (OSError, ValueError, KeyError, ImportError) as error:
        raise ModelError(
            f"{name} cannot be loaded as a masked language model: {str(error).strip().splitlines()[0]}"
        ) from error
    missing = [key for key in info["missing_keys"] if "position_ids" not in key]
    if missing:
        raise ModelError(
            f"{name} has no head that predicts masked words (no {sorted(missing)[0]}); give a model that was saved as a masked language model"
        )
    return MaskedModel(model.float().eval().requires_grad_(False), tokenizer)


def check_same_tokens(model: MaskedModel, vocabulary: dict[str, int], name: str) -> None:
    """Raise an InputError if the vocabulary of the masked language model differs from ``vocabulary``, that of the net."""
    if model.vocabulary != vocabulary:
        raise InputError(
            f"the masked language model {name} has other tokens than the net, so its words cannot be shown to the net; give one with the same tokenizer"
        )
