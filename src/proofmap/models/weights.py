"""Load weights from files that are not trusted.

Only tensors are read from a file. It is a ``.safetensors`` file, or a PyTorch checkpoint, which is read by the restricted unpickler
(``weights_only=True``) that runs no code. A net gets all of its weights, in the right shapes, or none.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from proofmap.core.errors import ModelError
from proofmap.core.files import suggest_path

State = dict[str, Tensor]

_WRAPPERS = ("state_dict", "model_state_dict", "model", "net")  # where training scripts put the weights
_PARALLEL = "module."  # nn.DataParallel puts this before every key
_COUNTER = "num_batches_tracked"  # batch-norm's count of training steps; evaluation never reads it


def load_state(path: str | Path, *, sha256: str | None = None) -> State:
    """The weights of a ``.safetensors`` file or a PyTorch checkpoint, by name, on the CPU.

    A checkpoint may have the weights under the key ``state_dict`` and with the prefix ``module.`` of ``nn.DataParallel``. ``sha256`` is
    the expected digest of the file in hexadecimal.

    Raises:
        ModelError: the file is missing, truncated or altered, or its loading would run code.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "weights.pth"
    >>> torch.save({"state_dict": {"module.fc.bias": torch.zeros(2)}, "epoch": 3}, file)
    >>> load_state(file)
    {'fc.bias': tensor([0., 0.])}
    """
    path = Path(path)
    if not path.is_file():
        hint = " It is a folder." if path.is_dir() else suggest_path(path)
        raise ModelError(f"there is no weights file {str(path)!r}.{hint}")
    if sha256 is not None:
        _check_digest(path, sha256)
    content = _load_safetensors(path) if path.suffix == ".safetensors" else load_checkpoint(path)
    return _weights_in(content, path)


def load_into(net: nn.Module, state: Mapping[str, Tensor], *, source: str) -> None:
    """Load all weights into a net. If any of them does not fit, the net is not changed and an error names ``source``.

    ``state`` has one tensor per weight and buffer; only batch-norm's ``num_batches_tracked`` may be missing.

    >>> net = nn.Linear(2, 1)
    >>> load_into(net, {"weight": torch.ones(1, 2)}, source="demo.pth")
    Traceback (most recent call last):
    proofmap.core.errors.ModelError: demo.pth does not fit the net Linear: missing bias
    """
    own = net.state_dict()
    missing = [key for key in own if key not in state and not key.endswith(_COUNTER)]
    unexpected = [key for key in state if key not in own]
    misshapen = [
        f"{key} (file {tuple(state[key].shape)}, net {tuple(own[key].shape)})"
        for key in own
        if key in state and state[key].shape != own[key].shape
    ]
    faults = {"missing": missing, "unexpected": unexpected, "of another shape": misshapen}
    problems = [f"{kind} {_a_few(keys)}" for kind, keys in faults.items() if keys]
    if problems:
        raise ModelError(f"{source} does not fit the net {type(net).__name__}: {'; '.join(problems)}")
    counters = {key: value for key, value in own.items() if key not in state}
    net.load_state_dict({**state, **counters}, strict=True)


def _check_digest(path: Path, expected: str) -> None:
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != expected.lower():
        raise ModelError(
            f"{str(path)!r} is not the file it should be: its SHA-256 is {found}, expected {expected}. "
            "It was truncated or altered; install or download it again."
        )


def _load_safetensors(path: Path) -> Any:
    try:
        return load_file(path)
    except Exception as error:  # SafetensorError for the header, OSError and others for the rest
        raise ModelError(
            f"{str(path)!r} cannot be read as safetensors ({first_line(error)}). "
            "It may be truncated; download or save it again."
        ) from error


def load_checkpoint(path: Path) -> Any:
    """The content of a PyTorch checkpoint on the CPU; only tensors and plain values are loaded."""
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a broken archive raises RuntimeError, EOFError, KeyError, ...
        raise ModelError(
            f"{str(path)!r} cannot be read as a PyTorch checkpoint of plain tensors ({first_line(error)}). "
            "It may be truncated, or hold objects whose loading would run code, which is refused. If you "
            "trust it, save its tensors alone with safetensors.torch.save_file and use that file."
        ) from error


def _weights_in(content: Any, path: Path) -> State:
    for wrapper in _WRAPPERS:
        if isinstance(content, Mapping) and isinstance(content.get(wrapper), Mapping):
            content = content[wrapper]
            break
    named_tensors = isinstance(content, Mapping) and all(
        isinstance(key, str) and isinstance(value, Tensor) for key, value in content.items()
    )
    if not named_tensors or not content:
        held = _a_few(map(str, content)) if isinstance(content, Mapping) else type(content).__name__
        raise ModelError(
            f"{str(path)!r} holds no table of named tensors, but {held or 'nothing'}. "
            "Save the weights with torch.save(net.state_dict(), path)."
        )
    if all(key.startswith(_PARALLEL) for key in content):
        return {key.removeprefix(_PARALLEL): value for key, value in content.items()}
    return dict(content)


def _a_few(keys: Iterable[str], most: int = 3) -> str:
    names = list(keys)
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def first_line(error: Exception) -> str:
    """The type and the first line of an error.

    >>> first_line(ValueError("too long\\nbecause ..."))
    'ValueError: too long'
    """
    return f"{type(error).__name__}: {(str(error).strip() or 'no message').splitlines()[0]}"
