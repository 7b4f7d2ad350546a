"""Objects in a user's file, named ``path/file.py:NAME``. The file runs once, as a module of a private name."""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from proofmap.core.errors import InputError, ProofmapError
from proofmap.core.files import suggest_path
from proofmap.plugins.failures import belong_to_user, reason_of
from proofmap.plugins.source import module_file, source_files

_Stamp = tuple[int, int]
_STAMPS: dict[Path, _Stamp] = {}
"""Modification time and size of the modules that user files imported, at the time of import."""


def is_python_file(spec: str) -> bool:
    """Whether a spec (the text that names a plug-in) refers to an object in a Python file.

    >>> is_python_file("mine.py:brightness:power=2"), is_python_file("grad-cam:layer=a.py")
    (True, False)
    """
    return ".py:" in spec and "=" not in spec.partition(".py:")[0]


def split_python_file(spec: str) -> tuple[str, str, str]:
    """The file, the name of the object in it, and the settings after the name, from a spec of the form ``FILE.py:NAME:SETTINGS``.

    >>> split_python_file("mine.py:brightness:power=2")
    ('mine.py', 'brightness', 'power=2')
    """
    file, _, rest = spec.partition(".py:")
    name, _, settings = rest.partition(":")
    return f"{file}.py", name.strip(), settings


def from_python_file(file: str | Path, name: str, what: str) -> Any:
    """The object ``name`` of a file. The file is run at first use. It is run again if it has changed, or if a module that it imports
    from its own folder has changed.
    """
    path = Path(file)
    if not path.is_file():
        raise InputError(f"there is no file {str(path)!r} to take the {what} from.{suggest_path(path)}")
    stamp = {file: _stamp(file) for file in source_files(path)}
    key = f"_proofmap_file_{hashlib.blake2b(str(path.resolve()).encode(), digest_size=8).hexdigest()}"
    module = sys.modules.get(key)
    if module is None or getattr(module, "_proofmap_stamp", None) != stamp:
        try:
            module = run_file(path, key)
        except ProofmapError:
            raise
        except (Exception, SystemExit) as error:
            raise InputError(f"{path} cannot be run: {reason_of(error)}") from error
        module._proofmap_stamp = stamp  # type: ignore[attr-defined]
    if not hasattr(module, name):
        raise InputError(f"{str(path)!r} has no {name!r} to take as a {what}")
    return getattr(module, name)


def run_file(path: Path, name: str) -> ModuleType:
    """Run a file as a module called ``name``, and return the module. The file can import modules from its own folder; modules that have
    changed are imported again."""
    imported = source_files(path)[1:]
    belong_to_user([path, *imported])
    _forget_changed(path.resolve().parent, imported)
    found = importlib.util.spec_from_file_location(name, path, loader=_FromSource(name, str(path.absolute())))
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
    _STAMPS.update({file: _stamp(file) for file in imported})
    return module


class _FromSource(SourceFileLoader):
    """Loader that always compiles the file. Cached bytecode is not used: Python matches it to the file by size and by time in seconds, so
    after two edits within a second the bytecode may be out of date.
    """

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


def _stamp(file: Path) -> _Stamp:
    return file.stat().st_mtime_ns, file.stat().st_size


def _forget_changed(folder: Path, files: Iterable[Path]) -> None:
    """Remove modules from ``sys.modules`` that an earlier user file imported, if they were edited since or come from another folder."""
    for file in files:
        if not file.is_relative_to(folder):
            continue
        parts = file.relative_to(folder).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        loaded = module_file(name)
        if loaded in _STAMPS and (loaded != file or _STAMPS[loaded] != _stamp(file)):
            del sys.modules[name]


@contextmanager
def importable(folder: Path) -> Iterator[None]:
    """Make modules in this folder importable, without leaving bytecode that could be out of date."""
    entry, writes = str(folder.resolve()), not sys.dont_write_bytecode
    sys.path.insert(0, entry)
    sys.dont_write_bytecode = True
    try:
        yield
    finally:
        sys.path.remove(entry)
        sys.dont_write_bytecode = not writes
