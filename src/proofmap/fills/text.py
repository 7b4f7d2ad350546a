"""Fills for texts: what hidden words become.

With the common fills ``gray`` and ``images`` (the words of another text), these are the usual ways to hide words. ``gray`` deletes
the hidden words, as ``delete`` does. A model reads a text as a whole, so scores can differ much between fills.
"""

from __future__ import annotations

import torch
from torch import Tensor

from proofmap.core.errors import InputError
from proofmap.core.inputs import Inputs, TextInputs, Tokens
from proofmap.fills.fill import FILLS, Fill
from proofmap.fills.simple import Gray
from proofmap.session import Session


class TextFill(Fill):
    """Base class of fills that are only for texts. A subclass defines :meth:`hidden`."""

    takes = TextInputs

    def prepare(self, session: Session) -> None:
        super().prepare(session)
        # refuses a token that there is not
        self.backgrounds(session, session.inputs.probe(), torch.empty(0))

    def backgrounds(self, session: Session, images: Tensor, keys: Tensor) -> Tensor:
        assert isinstance(session.inputs, TextInputs)
        return self.hidden(images, session.inputs)

    def hidden(self, texts: Tensor, inputs: TextInputs) -> Tensor:
        """Texts ``(N, *shape)`` with every position hidden."""
        raise NotImplementedError

    @staticmethod
    def baseline_of(fill: Fill, inputs: Inputs) -> Fill:
        """The fill that path methods, such as integrated gradients, use as their baseline. This is ``fill``, except for ``gray`` with
        tokens.

        ``gray`` deletes words, and there is no path of values from a deleted word. So it is replaced by the mask token, or by the
        unknown token if there is no mask token, or else by an embedding of zeros.
        """
        if type(fill) is not Gray or not isinstance(inputs, Tokens) or inputs.reader is None:
            return fill
        known = {"mask": MaskToken, "unknown": UnknownToken}
        return next(
            (kind() for token, kind in known.items() if inputs.token_number(token) is not None),
            ZeroEmbedding(),
        )

    @staticmethod
    def path_start(inputs: Inputs, x: Tensor) -> Tensor:
        """What ``gray`` shows for inputs ``(N, *shape)`` as the baseline of path methods."""
        fill = TextFill.baseline_of(Gray(), inputs)
        return (
            fill.hidden(x, inputs)
            if isinstance(fill, TextFill) and isinstance(inputs, Tokens)
            else inputs.blank_like(x)
        )


@FILLS.register
class MaskToken(TextFill):
    """Hidden words show the token for a masked word, such as ``[MASK]``."""

    name = "mask"
    description = "the token for a masked word in place of each hidden word"

    def hidden(self, texts: Tensor, inputs: TextInputs) -> Tensor:
        return inputs.replaced(texts, "mask")


@FILLS.register
class UnknownToken(TextFill):
    """Hidden words show the token for an unknown word, such as ``[UNK]``."""

    name = "unknown"
    description = "the token for an unknown word in place of each hidden word"

    def hidden(self, texts: Tensor, inputs: TextInputs) -> Tensor:
        return inputs.replaced(texts, "unknown")


@FILLS.register
class DeletedWords(TextFill):
    """Hidden words are deleted, together with the white space after them, so the text gets shorter."""

    name = "delete"
    description = "nothing: hidden words are deleted, and the text is shorter"

    def hidden(self, texts: Tensor, inputs: TextInputs) -> Tensor:
        return inputs.removed(texts)


@FILLS.register
class ClosedAttention(TextFill):
    """Hidden tokens keep their positions, but no other token attends to them, as with padding."""

    name = "closed"
    description = "attention to hidden tokens is closed, as for padding; for nets of tokens"

    def hidden(self, texts: Tensor, inputs: TextInputs) -> Tensor:
        return _tokens_of(self, inputs).closed(texts)


@FILLS.register
class ZeroEmbedding(TextFill):
    """Hidden tokens show an embedding of zeros."""

    name = "zero"
    description = "an embedding of zeros in place of each hidden token; for nets of tokens"

    def hidden(self, texts: Tensor, inputs: TextInputs) -> Tensor:
        return _tokens_of(self, inputs).zeroed(texts)


@FILLS.register
class MeanEmbedding(TextFill):
    """Hidden tokens show the mean embedding of all tokens that the net knows."""

    name = "mean-embedding"
    description = "the mean embedding of all tokens in place of each hidden token; for nets of tokens"

    def hidden(self, texts: Tensor, inputs: TextInputs) -> Tensor:
        return _tokens_of(self, inputs).averaged(texts)


def _tokens_of(fill: Fill, inputs: Inputs) -> Tokens:
    """``inputs``, if they are tokens; otherwise an error that names the fill."""
    if isinstance(inputs, Tokens):
        return inputs
    taken = "strings" if isinstance(inputs, TextInputs) else inputs.noun
    raise InputError(
        f"the fill {fill.name} is for nets of tokens, and this model takes {taken}; use one of {', '.join(inputs.fills)}"
    )
