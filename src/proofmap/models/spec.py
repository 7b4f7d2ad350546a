"""Model strings, which say which net to load, from where, and with which weights:

efficientnet-lite0                        one of our own nets
cifar10-resnet56@weights.safetensors      ... with the weights of a file
keras-resnet50@FOLDER                     ... with those of an unpacked package, see :mod:`proofmap.models.resnets`
torchvision:resnet50                      a hub's net, its weights and its preprocessing
torchvision:resnet50.IMAGENET1K_V1        ... with one of several published weights
timm:resnet18?pretrained=false            ... untrained
hf:google/vit-base-patch16-224            a repository of Hugging Face, or a folder in its layout
clip:DIR?labels=cat,dog                   a CLIP-like checkpoint with these labels, or labels=FILE.txt
clip:DIR?labels=l.txt&template=a {}.      ... with another sentence than "a photo of a {}."
onnx:net.onnx?mean=0.5&std=0.25           a model of pictures in the ONNX format
onnx:churn.onnx?data=c.csv&target=churned a model of tables; its columns are those of a file, without the target
xgboost:model.json?data=c.csv             a classifier of XGBoost; likewise lightgbm:
sklearn:FILE.skops?data=c.csv&target=price  a regressor; its labels are ranges of the target, whose error is measured in this file
onnx:FILE?data=c.csv&ranges=5:9&error=2   ... with limits of your own, or at_least=9, and a stated error
sklearn:model.joblib?pickle=true          a model of scikit-learn; a pickle runs code, so it needs this flag
sklearn:spam.joblib?pickle=true&length=99 ... a pipeline of texts; texts may have up to 99 words (512 by default)
hf-text:FOLDER                            a model of texts: see :mod:`proofmap.models.text_models`
hf-nli:FOLDER?labels=sport,politics       ... zero-shot by entailment; likewise minilm-zero-shot?labels=sport,politics
hf-lm:FOLDER?labels=yes,no                a language model whose labels are continuations
nets/mine.py:make                         the result of your function
nets/mine.py:predict?size=32              a net, or a function of a batch, of pictures of this size; ?data=FILE.csv for rows
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from proofmap.core.errors import InputError

_FILES = ("onnx", "xgboost", "lightgbm", "sklearn")
_ANY_LABELS = ("hf-nli", "hf-lm", "minilm-zero-shot")  # of texts
_TEXTS = ("hf-text", "py3langid", *_ANY_LABELS)
_SCHEMES = ("torchvision", "timm", "hf", "clip", "hf-text", "hf-nli", "hf-lm", *_FILES)

_TABLE = ("data", "target", "names", "outputs", "ranges", "at_least", "error")
_TEXT = ("units", "length", "longer")
_OPTIONS: Mapping[str, tuple[str, ...]] = {
    "": ("labels", "template", *_TEXT),  # of minilm-zero-shot
    "hf-text": _TEXT,
    "hf-nli": ("labels", "template", *_TEXT),
    "hf-lm": ("labels", "template", *_TEXT),
    "clip": ("labels", "template"),
    "onnx": (*_TABLE, "size", "mean", "std"),
    "xgboost": _TABLE,
    "lightgbm": _TABLE,
    "sklearn": (*_TABLE, *_TEXT, "pickle"),
    "file": (*_TABLE, "size", "mean", "std"),
}

_READERS = {".onnx": "onnx", ".skops": "sklearn", ".json": "xgboost", ".ubj": "xgboost"}
_READERS |= dict.fromkeys((".joblib", ".pkl", ".pickle"), "sklearn")

_FILE = re.compile(r"(?P<path>[^?]+\.py)(?::(?P<function>\w*))?(?:\?(?P<options>.+))?")
_NAMED = re.compile(
    rf"(?:(?P<scheme>{'|'.join(_SCHEMES)}):)?"
    r"(?P<name>[^@?]*[^@?:])(?:@(?P<weights>[^?]+))?(?:\?(?P<options>.+))?"
)


@dataclass(frozen=True)
class ModelInfo:
    """A model, or a family of models.

    Attributes:
        name: the model string; a part in capitals stands for your own value.
        size: side of the square input in pixels; None if it depends on the net.
        weights: where the weights come from.
        description: one line.
    """

    name: str
    size: int | None
    weights: str
    description: str


@dataclass(frozen=True)
class ModelSpec:
    """The parts of a model string.

    Attributes:
        text: the whole string.
        scheme: ``""`` for our own nets, one of the schemes, or ``file``.
        name: the net's name within the scheme, or the path of the Python file for ``file``.
        function: for ``file``, the net in the Python file, or the function that makes it or is it.
        weights: a file with weights to use instead of the published ones.
        pretrained: False for a net with random weights.
        options: what follows the question mark, such as ``labels`` of ``clip`` or ``data`` of ``onnx``.
    """

    text: str
    scheme: str
    name: str
    function: str = ""
    weights: Path | None = None
    pretrained: bool = True
    options: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> ModelSpec:
        """Parse a model string.

        >>> spec = ModelSpec.parse("cifar10-resnet56@nets/56.safetensors")
        >>> spec.name, spec.weights.name
        ('cifar10-resnet56', '56.safetensors')
        >>> ModelSpec.parse("timm:resnet18?pretrained=false").pretrained
        False
        """
        text = text.strip()
        if match := _FILE.fullmatch(text):
            if not match["function"]:
                raise InputError(
                    f"model {text!r} names no function of the file: write {text.rstrip(':')}:FUNCTION"
                )
            found = cls(text, "file", match["path"], match["function"], options=_options(match["options"]))
            if all(found.options.values()) and {*_OPTIONS["file"]} >= {*found.options}:
                return found
        elif match := _NAMED.fullmatch(text):
            scheme, weights = match["scheme"] or "", Path(match["weights"]) if match["weights"] else None
            if not scheme and (reader := _READERS.get(Path(match["name"]).suffix.lower())):
                raise InputError(f"{match['name']} is a file, so say who reads it: {reader}:{text}")
            options = _options(match["options"])
            trained = options.pop("pretrained", "true")
            known = _OPTIONS.get(scheme, ())
            if trained in ("true", "false") and all(options.values()) and {*known} >= {*options}:
                return cls(text, scheme, match["name"], "", weights, trained == "true", options)
        raise InputError(
            f"model {text!r} cannot be read. Write a name, such as efficientnet-lite0 or timm:resnet18, "
            "followed by @FILE for weights of your own or ?pretrained=false for none; clip:DIR?labels=FILE.txt; "
            "onnx:FILE?data=FILE.csv&target=COLUMN; or FILE.py:FUNCTION"
        )

    @property
    def kind(self) -> str:
        """Which reader loads the model: a scheme, ``file``, the name of a model of texts, or ``""`` for our own nets."""
        return self.name if not self.scheme and self.name in _TEXTS else self.scheme

    @property
    def reads_file(self) -> bool:
        """Whether the model is in a file of another library, so that it may need rows like those that it was fitted on."""
        return self.scheme in _FILES

    @property
    def takes_texts(self) -> bool:
        """Whether this is a model of texts by its name alone."""
        return self.kind in _TEXTS

    @property
    def asks_labels(self) -> bool:
        """Whether this is a model of texts with labels of the user's choice: a zero-shot model or a language model."""
        return self.kind in _ANY_LABELS

    @property
    def title(self) -> str:
        """The model string for records of results, without the folder of its weights.

        >>> ModelSpec.parse("cifar10-resnet56@nets/56.safetensors").title
        'cifar10-resnet56@56.safetensors'
        """
        if self.reads_file:
            return f"{self.scheme}:{Path(self.name).name}"
        model = f"{self.scheme}:{self.name}" if self.scheme else self.name
        if self.weights is not None:
            return f"{model}@{self.weights.name}"
        return model if self.pretrained else f"{model}?pretrained=false"

    def with_arguments(self, *, weights: str | Path | None, pretrained: bool) -> ModelSpec:
        """The spec, combined with the arguments ``weights`` and ``pretrained`` that the caller gave outside the model string; such weights count
        where both name some."""
        weights = self.weights if weights is None else Path(weights)
        return replace(self, weights=weights, pretrained=self.pretrained and pretrained)

    def labels(self, given: Sequence[str] | None = None) -> tuple[str, ...]:
        """The labels of a model that takes any: ``given``, or those of the option ``labels``, which are separated by commas, or in a text file
        with one in a line.

        >>> ModelSpec.parse("clip:DIR?labels=cat, tabby cat,dog").labels()
        ('cat', 'tabby cat', 'dog')
        """
        if given is None and "labels" not in self.options:
            raise InputError(
                f"{self.text} needs labels: write {self.text}?labels=sport,politics or ?labels=FILE.txt with one in a line, or "
                f"load_classifier({self.text!r}, labels=[...])"
            )
        given = self.listed("labels") if given is None else given
        names = tuple(name for each in given if (name := str(each).strip()))
        if len(names) < 2 or len(set(names)) < len(names):
            raise InputError(
                f"{self.text} needs at least two different labels, not {', '.join(names) or 'none'}"
            )
        return names

    def template(self, usual: str) -> str:
        """The sentence that a zero-shot model reads, with ``{}`` for the label."""
        found = self.options.get("template", usual)
        if "{}" not in found:
            raise InputError(
                f"the template {found!r} has no {{}}, which marks the place of the label, as in {usual!r}"
            )
        return found

    def listed(self, option: str) -> list[str]:
        """The names in an option, separated by commas or, if it is the path of a text file, in its lines."""
        text = self.options[option]
        if Path(text).suffix != ".txt":
            return text.split(",")
        try:
            return Path(text).read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"the labels file {text!r} cannot be read: {error}") from None


def _options(text: str | None) -> dict[str, str]:
    return dict(part.partition("=")[::2] for part in (text or "").split("&") if part)
