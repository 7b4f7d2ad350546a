"""Load nets from hubs (torchvision, timm, Hugging Face), each with its hub's preprocessing and label names.

Each hub has a function here that returns the net and the other arguments of Classifier. Packages of hubs are imported only here, when needed.
Checkpoints are read as plain tensors; pickled code is refused.

Zero-shot nets (``clip``) compare a picture with a sentence about each label,

    logit_a(x) = scale * cos(image features of x, text features of "a photo of a LABEL.")

as in Radford et al., *Learning transferable visual models from natural language supervision* (ICML 2021). Any checkpoint of Hugging
Face with the two towers of CLIP (an image encoder and a text encoder) works. Checkpoints of SigLIP (Zhai et al. 2023) also have a bias, and
their labels are independent: ``outputs="sigmoid"``. The sentences are encoded once. The net that is explained is the image encoder.

The library of Hugging Face's hub repeats failed requests with growing delays: a wrong name, or a machine without network, costs minutes for
every file. So one request, without retries, asks whether the net is there before a download starts.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from proofmap.classifier.stated import of_processor, stated_by
from proofmap.core.errors import MissingExtra, ModelError, ProofmapError, require
from proofmap.core.files import suggest_path
from proofmap.core.text import did_you_mean, distinct
from proofmap.models.spec import ModelSpec
from proofmap.models.weights import load_into, load_state
from proofmap.plugins.failures import reason_of

_TIMEOUT = 5.0  # of a request, in seconds
_HubNet = tuple[nn.Module, dict[str, Any]]
"""A net, and the other arguments to make a Classifier from it, beside what the net, its transforms or its processor state."""


def _load(spec: ModelSpec) -> tuple[nn.Module, dict[str, Any]]:
    """The net of a spec with the scheme ``torchvision``, ``timm``, ``hf`` or ``clip``, with the spec's weights if it names any.

    Raises:
        ModelError: there is no such net, or its weights cannot be downloaded or read.
        MissingExtra: the hub's package is not installed or cannot be imported.
    """
    download = spec.pretrained and spec.weights is None
    try:
        with _plain_tensors_only():
            net, given = _HUBS[spec.scheme](spec, download)
            transforms, processor = given.pop("transforms", None), given.pop("processor", None)
            net, stated = stated_by(net, transforms, processor, f"{spec.scheme}:{spec.name}")
    except ProofmapError:
        raise
    except ImportError as error:  # transformers imports its parts, and torchvision, only when they are used
        raise MissingExtra(
            f"{spec.text} needs a package that cannot be imported ({reason_of(error)}). "
            f"Install what it needs with: pip install 'proofmap[{'hf' if spec.scheme == 'clip' else spec.scheme}]'"
        ) from error
    except Exception as error:  # hubs and their network libraries have many errors
        reason = reason_of(error)
        if not download:
            raise ModelError(f"{spec.text} cannot be built ({reason})") from error
        raise ModelError(
            f"{spec.text} cannot be loaded: its weights could not be downloaded or read ({reason}). Check "
            f"the name and the network, or give a file you have: {spec.scheme}:{spec.name}@FILE"
        ) from error
    if spec.weights is not None:
        inner = net.get_submodule("model") if spec.scheme == "hf" else net
        load_into(inner, load_state(spec.weights), source=str(spec.weights))
    return net, {**stated, **given}


# ---- torchvision -------------------------------------------------------------------------------------------


def _torchvision(spec: ModelSpec, pretrained: bool) -> _HubNet:
    """A net of torchvision. The name ``resnet50`` loads the newest weights, ``resnet50.IMAGENET1K_V1`` the weights of this name."""
    name = spec.name
    models = require("torchvision.models", extra="torchvision", purpose=f"the model torchvision:{name}")
    architecture, _, tag = name.partition(".")
    known = models.list_models(module=models)  # classifiers only; detection and others are in submodules
    if architecture not in known:
        raise ModelError(
            f"torchvision has no classifier {architecture!r}.{did_you_mean(architecture, known, most=5)}"
        )
    published = models.get_model_weights(architecture)
    if tag and tag.upper() not in published.__members__:
        raise ModelError(f"{architecture} has no weights {tag!r}; it has {', '.join(published.__members__)}")
    weights = published[tag.upper() or "DEFAULT"]
    with warnings.catch_warnings():  # googlenet and inception warn about their initialisation
        warnings.simplefilter("ignore", FutureWarning)
        net = models.get_model(architecture, weights=weights if pretrained else None)
    return net, {"transforms": weights.transforms(), "names": distinct(weights.meta["categories"])}


# ---- timm --------------------------------------------------------------------------------------------------


def _timm(spec: ModelSpec, pretrained: bool) -> _HubNet:
    """A net of timm, by any name that timm knows, with or without a tag: ``resnet50``, ``resnet50.a1_in1k``."""
    name = spec.name
    timm = require("timm", extra="timm", purpose=f"the model timm:{name}")
    if not timm.is_model(name):
        raise ModelError(f"timm has no model {name!r}.{did_you_mean(name, timm.list_models(), most=5)}")
    if pretrained and (repository := getattr(timm.models.get_pretrained_cfg(name), "hf_hub_id", None)):
        _ask_hugging_face(repository, ["model.safetensors", "pytorch_model.bin"], extra="timm")
    return timm.create_model(name, pretrained=pretrained), {}  # the net states all


# ---- Hugging Face ------------------------------------------------------------------------------------------


def _hf(spec: ModelSpec, pretrained: bool) -> _HubNet:
    """The net of a repository ``org/name`` of Hugging Face, or of a folder in the layout of such a repository."""
    name = spec.name
    transformers = require("transformers", extra="hf", purpose=f"the model hf:{name}")
    where = _folder_or_repository("hf", name)
    if pretrained:
        model = transformers.AutoModelForImageClassification.from_pretrained(name, **where).float()
    else:
        config = transformers.AutoConfig.from_pretrained(name, **where)
        model = transformers.AutoModelForImageClassification.from_config(config)
    return model, {"processor": _image_processor(transformers, spec, where)}


class _ZeroShot(nn.Module):
    """The image encoder of a CLIP-like model with fixed features of sentences. It maps normalised images ``(N, 3, H, W)`` to the logits
    ``scale * cosine + bias``, ``(N, labels)``.
    """

    sentences: Tensor
    scale: Tensor
    bias: Tensor

    def __init__(self, model: nn.Module, sentences: Tensor, scale: Tensor, bias: Tensor) -> None:
        super().__init__()
        self.model = model
        self.register_buffer("sentences", sentences)
        self.register_buffer("scale", scale)
        self.register_buffer("bias", bias)

    def forward(self, x: Tensor) -> Tensor:
        image: Any = self.model
        features = F.normalize(_features_of(image.get_image_features(pixel_values=x)), dim=-1)
        return self.scale * features @ self.sentences.T + self.bias


def _features_of(output: Any) -> Tensor:
    """The features that an encoder returned. Newer versions of transformers return them inside an output object, which is unpacked."""
    features: Tensor = output if isinstance(output, Tensor) else output.pooler_output
    return features


def _clip(spec: ModelSpec, pretrained: bool) -> _HubNet:
    """A zero-shot net for the labels that the spec names, from a repository or folder of Hugging Face with the two encoders of CLIP."""
    names, template = spec.labels(), spec.template("a photo of a {}.")
    transformers = require("transformers", extra="hf", purpose=f"the model clip:{spec.name}")
    where = _folder_or_repository("clip", spec.name)
    model = transformers.AutoModel.from_pretrained(spec.name, **where).float().eval()
    if not all(hasattr(model, part) for part in ("get_image_features", "get_text_features", "logit_scale")):
        raise ModelError(
            f"clip:{spec.name} is a {type(model).__name__}, which does not compare pictures with sentences; "
            "a CLIP-like checkpoint is needed"
        )
    tokenizer = transformers.AutoTokenizer.from_pretrained(spec.name, **where)
    bias = getattr(model, "logit_bias", None)
    padding = True if bias is None else "max_length"  # as SigLIP was trained
    words = [template.replace("{}", label) for label in names]
    tokens = tokenizer(words, padding=padding, truncation=True, return_tensors="pt")
    with torch.no_grad():
        sentences = F.normalize(_features_of(model.get_text_features(**tokens)), dim=-1)
    if hasattr(model, "text_model"):
        model.text_model = nn.Identity()  # half of the weights, no longer needed
    arguments, reverse_channels = of_processor(
        _image_processor(transformers, spec, where), f"clip:{spec.name}"
    )
    if reverse_channels:
        raise ModelError(f"clip:{spec.name} needs colours in reverse order, which is not supported")
    scale = model.logit_scale.detach().exp()
    shift = torch.zeros_like(scale) if bias is None else bias.detach()
    net = _ZeroShot(model.requires_grad_(False), sentences, scale, shift)
    return net, {**arguments, "names": names, "outputs": "logits" if bias is None else "sigmoid"}


def _image_processor(transformers: Any, spec: ModelSpec, where: Mapping[str, Any]) -> Any:
    # this backend needs no torchvision
    return transformers.AutoImageProcessor.from_pretrained(spec.name, backend="pil", **where)


# ---- what the hubs share -----------------------------------------------------------------------------------

_HUBS = {"torchvision": _torchvision, "timm": _timm, "hf": _hf, "clip": _clip}
READERS = dict.fromkeys(_HUBS, _load)


@contextmanager
def _plain_tensors_only() -> Iterator[None]:
    """A context in which every ``torch.load`` refuses pickled code."""
    changed = {"TORCH_FORCE_WEIGHTS_ONLY_LOAD": "1", "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD": "0"}
    before = {key: os.environ.get(key) for key in changed}
    os.environ.update(changed)
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                os.environ.pop(key, None)
            else:
                os.environ[key] = value


# ---- Hugging Face --------------------------------------------------------------------------------


def _ask_hugging_face(repository: str, files: Sequence[str], *, extra: str) -> bool:
    """Whether the Hugging Face hub can be reached and has the repository. This takes one request, for the first of ``files``.

    False if the hub cannot be reached and one of the files is in the local cache.

    Raises:
        ModelError: there is no such repository, or the hub cannot be reached and nothing is in the cache.
    """
    hub: Any = require("huggingface_hub", extra=extra, purpose=f"the net {repository}")
    errors: Any = require("huggingface_hub.errors", extra=extra, purpose=f"the net {repository}")
    try:
        hub.get_hf_file_metadata(hub.hf_hub_url(repository, files[0]), timeout=_TIMEOUT)
    except errors.EntryNotFoundError:
        return True  # the repository is there
    except errors.HFValidationError:
        raise ModelError(f"{repository!r} is not a name of the form ORG/NAME") from None
    except errors.RepositoryNotFoundError:
        raise ModelError(f"Hugging Face's hub has no repository {repository!r}, or it is private") from None
    except Exception as error:  # the network library has many errors
        if any(isinstance(hub.try_to_load_from_cache(repository, file), str) for file in files):
            return False
        raise ModelError(
            f"Hugging Face's hub cannot be reached ({reason_of(error)}; asked once, for at most {_TIMEOUT:g} s), and the net is not "
            "in the local cache"
        ) from error
    return True


def _folder_or_repository(scheme: str, name: str) -> dict[str, Any]:
    """Additional arguments of ``from_pretrained`` for a folder or a repository of Hugging Face. For a repository, the hub is asked once.

    Raises:
        ModelError: there is neither such a folder nor such a repository.
    """
    if Path(name).is_dir():
        return {}
    try:
        return {} if _ask_hugging_face(name, ["config.json"], extra="hf") else {"local_files_only": True}
    except ModelError as error:
        raise ModelError(
            f"{scheme}:{name} cannot be loaded: there is no folder {name!r}, and {error}. Write {scheme}:FOLDER for a folder that "
            f"save_pretrained() wrote, or {scheme}:ORG/NAME for a net of the hub.{suggest_path(name)}"
        ) from error


def load_transformer(scheme: str, name: str, kind: str) -> tuple[Any, Any]:
    """A model of texts of the class ``kind`` of transformers, from a folder or the hub, and its tokenizer.

    Raises:
        ModelError: it cannot be loaded.
    """
    transformers = require("transformers", extra="hf", purpose=f"the model {scheme}:{name}")
    where = _folder_or_repository(scheme, name)
    try:
        model = getattr(transformers, kind).from_pretrained(name, **where)
        tokenizer = transformers.AutoTokenizer.from_pretrained(name, **where)
    except (OSError, ValueError, KeyError, ImportError) as error:
        raise ModelError(f"{scheme}:{name} cannot be loaded: {reason_of(error)}") from error
    return model.float().eval().requires_grad_(False), tokenizer
