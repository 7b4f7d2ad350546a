"""Asks a hub, with one short request, whether it has a net, before a download starts.

The libraries of hubs repeat failed requests with growing delays: a wrong name, or a machine without network, costs minutes for every
file. So one request, without retries, asks the hub whether it has the net.
"""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from proofmap.core.errors import ModelError, require
from proofmap.core.files import suggest_path
from proofmap.models.weights import first_line

TIMEOUT = 5.0
"""Time limit of a request in seconds."""


def ask_hugging_face(repository: str, files: Sequence[str], *, extra: str) -> bool:
    """Whether the Hugging Face hub can be reached and has the repository. This takes one request, for the first of ``files``.

    False if the hub cannot be reached and one of the files is in the local cache.

    Raises:
        ModelError: there is no such repository, or the hub cannot be reached and nothing is in the cache.
    """
    hub: Any = require("huggingface_hub", extra=extra, purpose=f"the net {repository}")
    errors: Any = require("huggingface_hub.errors", extra=extra, purpose=f"the net {repository}")
    try:
        hub.get_hf_file_metadata(hub.hf_hub_url(repository, files[0]), timeout=TIMEOUT)
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
            f"Hugging Face's hub cannot be reached ({first_line(error)}; asked once, for at most {TIMEOUT:g} s), and the net is not "
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


def ask_for_file(url: str) -> None:
    """Check that a server answers, with one request, unless the file is in torch's cache.

    Raises:
        OSError: the server cannot be reached.
    """
    if (Path(torch.hub.get_dir()) / "checkpoints" / url.rpartition("/")[2]).is_file():
        return
    try:
        urllib.request.urlopen(urllib.request.Request(url, method="HEAD"), timeout=TIMEOUT).close()
    except urllib.error.HTTPError:
        return  # it answers; the download gives the error
