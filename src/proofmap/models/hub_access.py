"""Hugging Face: asks the hub, with one short request, whether it has a net, before a download starts, and loads models of texts.

The library of the hub repeats failed requests with growing delays: a wrong name, or a machine without network, costs minutes for every
file. So one request, without retries, asks whether the net is there.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from proofmap.core.errors import ModelError, require
from proofmap.core.files import suggest_path
from proofmap.plugins.failures import reason_of

_TIMEOUT = 5.0  # of a request, in seconds


def ask_hugging_face(repository: str, files: Sequence[str], *, extra: str) -> bool:
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


def folder_or_repository(scheme: str, name: str) -> dict[str, Any]:
    """Additional arguments of ``from_pretrained`` for a folder or a repository of Hugging Face. For a repository, the hub is asked once.

    Raises:
        ModelError: there is neither such a folder nor such a repository.
    """
    if Path(name).is_dir():
        return {}
    try:
        return {} if ask_hugging_face(name, ["config.json"], extra="hf") else {"local_files_only": True}
    except ModelError as error:
        raise ModelError(
            f"{scheme}:{name} cannot be loaded: there is no folder {name!r}, and {error}. Write {scheme}:FOLDER for a folder that "
            f"save_pretrained() wrote, or {scheme}:ORG/NAME for a net of the hub.{suggest_path(name)}"
        ) from error


def load_transformer(scheme: str, name: str, kind: str) -> tuple[Any, Any]:
    """A model of texts of the class ``kind`` of transformers, from a folder or the hub, and its tokenizer.

    Raises:
        ModelError: it cannot be loaded, or lacks weights, as if it was saved as a model of another class.
    """
    transformers = require("transformers", extra="hf", purpose=f"the model {scheme}:{name}")
    where = folder_or_repository(scheme, name)
    try:
        model, info = getattr(transformers, kind).from_pretrained(name, output_loading_info=True, **where)
        tokenizer = transformers.AutoTokenizer.from_pretrained(name, **where)
    except (OSError, ValueError, KeyError, ImportError) as error:
        raise ModelError(f"{scheme}:{name} cannot be loaded: {reason_of(error)}") from error
    missing = sorted(key for key in info["missing_keys"] if "position_ids" not in key)
    if missing and kind == "AutoModelForMaskedLM":
        raise ModelError(
            f"{name} has no head that predicts masked words (no {missing[0]}); give a model that was saved as a masked language model"
        )
    return model.float().eval().requires_grad_(False), tokenizer


def special_tokens(tokenizer: Any, texts: int = 1) -> list[list[int]]:
    """The special tokens that a tokenizer adds before ``texts`` texts, between them, and after them."""
    marker, found = tokenizer("a", add_special_tokens=False)["input_ids"], []
    rest = tokenizer(*["a"] * texts)["input_ids"]
    for _ in range(texts):
        at = next((k for k in range(len(rest)) if rest[k : k + len(marker)] == marker), None)
        if at is None:
            raise ModelError(
                "tokenizers that split a text differently next to special tokens are not supported"
            )
        found.append(rest[:at])
        rest = rest[at + len(marker) :]
    return [*found, rest]
