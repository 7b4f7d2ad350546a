"""Things of a user's own, named as ``path/file.py:NAME``: the file runs once, as you, under a private name."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from proofmap.core.errors import InputError, ProofmapError


def is_python_file(spec: str) -> bool:
    """Whether a spec names something in a file.

    >>> is_python_file("mine.py:brightness:power=2"), is_python_file("grad-cam:layer=a.py")
    (True, False)
    """
    return ".py:" in spec and "=" not in spec.partition(".py:")[0]


def split_python_file(spec: str) -> tuple[str, str, str]:
    """File, name and the settings after it.

    >>> split_python_file("mine.py:brightness:power=2")
    ('mine.py', 'brightness', 'power=2')
    """
    file, _, rest = spec.partition(".py:")
    name, _, settings = rest.partition(":")
    return f"{file}.py", name.strip(), settings


def from_python_file(file: str | Path, name: str, what: str) -> Any:
    """What the file calls ``name``; the file runs when it is first asked for, and again when it has changed."""
    path = Path(file)
    if not path.is_file():
        raise InputError(f"there is no file {str(path)!r} to take the {what} from")
    stamp = path.stat().st_mtime_ns, path.stat().st_size
    key = f"_proofmap_file_{hashlib.blake2b(str(path.resolve()).encode(), digest_size=8).hexdigest()}"
    module = sys.modules.get(key)
    if module is None or getattr(module, "_proofmap_stamp", None) != stamp:
        try:
            module = run_file(path, key)
        except ProofmapError:
            raise
        except Exception as error:
            raise InputError(f"{path} cannot be run: {type(error).__name__}: {error}") from error
        module._proofmap_stamp = stamp  # type: ignore[attr-defined]
    if not hasattr(module, name):
        raise InputError(f"{str(path)!r} has no {name!r} to take as a {what}")
    return getattr(module, name)


def run_file(path: Path, name: str) -> ModuleType:
    """Run a file as a module of this name; modules beside it can be imported."""
    found = importlib.util.spec_from_file_location(name, path)
    assert found is not None  # a path ending in .py always has a loader
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules[name] = module  # dataclasses look their module up while the file runs
    try:
        with importable(path.parent):
            found.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


@contextmanager
def importable(folder: Path) -> Iterator[None]:
    """Modules in this folder can be imported meanwhile."""
    entry = str(folder.resolve())
    sys.path.insert(0, entry)
    try:
        yield
    finally:
        sys.path.remove(entry)
