"""Nets built by a function in the user's file, ``path/file.py:function``."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FunctionType
from typing import Any

import torch
from torch import nn

from proofmap.classifier import Classifier
from proofmap.core.errors import ModelError, ProofmapError
from proofmap.core.files import suggest_path
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
    """Run the file, call the function without arguments, and make a Classifier of the result.

    The file runs as a module of a private name; modules next to it can be imported.

    Raises:
        ModelError: the file or the function is missing, raises, or returns something else.
    """
    path = Path(path)
    where = f"{path.name}:{function}"  # the name in records of results, without the folder
    if not path.is_file():
        raise ModelError(f"there is no file {str(path)!r} to take the model from.{suggest_path(path)}")
    with _model_errors(where), importable(path.parent):
        module = _run(path)
        make = getattr(module, function, None)
        if not callable(make):
            functions = [f for f in vars(module).values() if isinstance(f, FunctionType)]
            own = [f.__name__ for f in functions if f.__module__ == module.__name__]
            raise ModelError(f"{str(path)!r} has no function {function!r}; it has {', '.join(own) or 'none'}")
        made = make()
    return _as_classifier(made, where, device, batch_size)


def _run(path: Path) -> Any:
    return run_file(
        path, f"_proofmap_model_{hashlib.blake2b(str(path.resolve()).encode(), digest_size=8).hexdigest()}"
    )


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


@contextmanager
def _model_errors(where: str) -> Iterator[None]:
    """Turn errors of the user's code into a ModelError that names the model."""
    try:
        yield
    except ProofmapError:
        raise
    except (Exception, SystemExit) as error:
        raise ModelError(f"the model {where} cannot be built: {reason_of(error)}") from error
