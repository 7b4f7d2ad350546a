"""Nets that this package defines, and their weights, which are read from files that are not trusted.

Only tensors are read from a file. It is a ``.safetensors`` file, or a PyTorch checkpoint, which is read by the restricted unpickler
(``weights_only=True``) that runs no code. A net gets all of its weights, in the right shapes, or none.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from proofmap.core.errors import ModelError
from proofmap.core.files import suggest_path
from proofmap.models.spec import ModelInfo
from proofmap.plugins.failures import reason_of

_State = dict[str, Tensor]

_WRAPPERS = ("state_dict", "model_state_dict", "model", "net")  # where training scripts put the weights
_PARALLEL = "module."  # nn.DataParallel puts this before every key
_COUNTER = "num_batches_tracked"  # batch-norm's count of training steps; evaluation never reads it


def load_state(path: str | Path, *, sha256: str | None = None) -> _State:
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
    if sha256 is not None and (found := hashlib.sha256(path.read_bytes()).hexdigest()) != sha256.lower():
        raise ModelError(
            f"{str(path)!r} is not the file it should be: its SHA-256 is {found}, expected {sha256}. "
            "It was truncated or altered; install or download it again."
        )
    content = load_checkpoint(path)
    inner = (content[key] for key in _WRAPPERS if isinstance(content, Mapping) and key in content)
    content = next((each for each in inner if isinstance(each, Mapping)), content)
    if (
        not isinstance(content, Mapping)
        or not content
        or not all(isinstance(value, Tensor) for value in content.values())
    ):
        held = (
            _a_few(map(str, content)) if isinstance(content, Mapping) else type(content).__name__
        ) or "nothing"
        raise ModelError(
            f"{str(path)!r} holds no table of named tensors, but {held}. "
            "Save the weights with torch.save(net.state_dict(), path)."
        )
    parallel = _PARALLEL if all(str(key).startswith(_PARALLEL) for key in content) else ""
    return {str(key).removeprefix(parallel): value for key, value in content.items()}


def load_checkpoint(path: Path) -> Any:
    """The content of a ``.safetensors`` file or a PyTorch checkpoint, on the CPU; only tensors and plain values are loaded."""
    kind = "safetensors" if path.suffix == ".safetensors" else "a PyTorch checkpoint of plain tensors"
    try:
        if path.suffix == ".safetensors":
            return load_file(path)
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a broken archive raises RuntimeError, EOFError, KeyError, ...
        raise ModelError(
            f"{str(path)!r} cannot be read as {kind} ({reason_of(error)}). "
            "It may be truncated, or hold objects whose loading would run code, which is refused. If you "
            "trust it, save its tensors alone with safetensors.torch.save_file and use that file."
        ) from error


@dataclass(frozen=True)
class OwnNet:
    """A net that this package defines.

    Attributes:
        info: its entry in the list of models.
        build: makes the net with random weights.
        arguments: gives the arguments of Classifier for the net, other than the net itself.
        published: reads the weights of an installed package; None if there is no such package.
        read: reads the weights of a file, with the names that the net has.
        package: the package that :attr:`published` needs.
    """

    info: ModelInfo
    build: Callable[[], nn.Module]
    arguments: Callable[[], dict[str, Any]]
    published: Callable[[], _State] | None = None
    read: Callable[[Path], _State] = load_state
    package: str = "proofmap"


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


def _a_few(keys: Iterable[str], most: int = 3) -> str:
    names = list(keys)
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
