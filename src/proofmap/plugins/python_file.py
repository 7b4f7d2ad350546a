"""Objects in a user's file, named ``path/file.py:NAME``, and the source files of a user's module.

The file runs once, as a module of a private name. Its source files are its own file, and the modules next to or below it that it imports.
Imports are read from the source, so imports inside functions are found before the functions run. Installed packages are identified by
their version.
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

from proofmap.core.errors import InputError, ProofmapError
from proofmap.core.files import suggest_path
from proofmap.plugins.failures import belong_to_user, reason_of

HERE_ONLY = "only in this process: "
"""How the identity of a thing begins that another process cannot recognise: its code is in no file, or a value cannot be read."""
_NOT_FOLLOWED = ("proofmap", "torch", "builtins", "abc", "typing", "collections")
"""Packages whose code does not enter a digest: ours has a version, and torch's version is recorded with a run."""
_IMPORTED: set[str] = set()
"""The names of loaded modules that user files imported from their own folders."""


def from_python_file(spec: str, what: str) -> Any:
    """The object that ``FILE.py:NAME`` names; the file is run for it (:func:`module_of`)."""
    file, _, after = spec.partition(".py:")
    path, name = Path(f"{file}.py"), after.partition(":")[0].strip()
    if not path.is_file():
        raise InputError(f"there is no file {str(path)!r} to take the {what} from.{suggest_path(path)}")
    module = module_of(path)
    if not hasattr(module, name):
        own = [key for key, value in vars(module).items() if _is_public(key, value, module)]
        hint = f" Write {path}:NAME, where NAME is one of: {', '.join(own)}" if own else ""
        raise InputError(f"{str(path)!r} has no {name!r} to take as a {what}.{hint}")
    return getattr(module, name)


def _is_public(name: str, value: Any, module: ModuleType) -> bool:
    """Whether a name in a module is a class or function that the module defines."""
    return not name.startswith("_") and getattr(value, "__module__", None) == module.__name__


def module_of(path: Path) -> ModuleType:
    """The module of a file. The file is run at first use. It is run again if it has changed, or if a module that it imports from its own
    folder has changed.
    """
    stamp = [(file, file.stat().st_mtime_ns, file.stat().st_size) for file in source_files(path)]
    key = f"_proofmap_file_{hashlib.blake2b(str(path.resolve()).encode(), digest_size=8).hexdigest()}"
    module = sys.modules.get(key)
    if module is None or getattr(module, "_proofmap_stamp", None) != stamp:
        try:
            with run_file(path, key) as module:
                pass
        except ProofmapError:
            raise
        except (Exception, SystemExit) as error:
            raise InputError(f"{path} cannot be run: {reason_of(error)}") from error
        module._proofmap_stamp = stamp  # type: ignore[attr-defined]
    return module


@contextmanager
def run_file(path: Path, name: str) -> Iterator[ModuleType]:
    """Run a file as a module called ``name``. The file, and the code inside the block, can import modules from its folder. Those that
    earlier files imported from their folders are imported again."""
    files, folder, writes = source_files(path), str(path.resolve().parent), sys.dont_write_bytecode
    belong_to_user(files)
    for imported in _IMPORTED:
        sys.modules.pop(imported, None)
    _IMPORTED.clear()
    found = importlib.util.spec_from_file_location(name, path, loader=_FromSource(name, str(path.absolute())))
    assert found is not None  # a path ending in .py always has a loader
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules[name] = module  # dataclasses look their module up while the file runs
    before = set(sys.modules)
    sys.path.insert(0, folder)
    sys.dont_write_bytecode = True  # it could be out of date
    try:
        found.loader.exec_module(module)
        yield module
    except BaseException:
        sys.modules.pop(name, None)
        raise
    finally:
        sys.path.remove(folder)
        sys.dont_write_bytecode = writes
        _IMPORTED.update(other for other in set(sys.modules) - before if _module_file(other) in files)


class _FromSource(SourceFileLoader):
    """Loader that always compiles the file. Cached bytecode is not used: Python matches it to the file by size and by time in seconds, so
    after two edits within a second the bytecode may be out of date.
    """

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


# ---- source files --------------------------------------------------------------------------------


def source_of(module: str) -> str | None:
    """What identifies the source of a module: a digest of its files if it is the user's, or name and version of an installed package.

    Empty for packages whose code does not count. None for a module without a file, such as a notebook.

    >>> source_of("torch.nn"), source_of("a_notebook")
    ('', None)
    """
    package, file = module.partition(".")[0], getattr(sys.modules.get(module), "__file__", None)
    if package in _NOT_FOLLOWED:
        return ""
    if (path := _module_file(module)) is not None and not is_installed(path):
        return source_digest(path)
    if package in sys.stdlib_module_names:
        return None if module == "__main__" else f"Python {sys.version_info.major}.{sys.version_info.minor}"
    if file is None or not is_installed(Path(file)):
        return None
    return f"{package} {getattr(sys.modules.get(package), '__version__', '')}"


def _module_file(module: str) -> Path | None:
    """The Python file of a loaded module; None if it has none."""
    path = Path(str(getattr(sys.modules.get(module), "__file__", None))).resolve()
    return path if path.suffix == ".py" and path.is_file() else None


def is_installed(path: Path) -> bool:
    """Whether a file belongs to Python itself or to an installed package, not to a user's project."""
    if {"site-packages", "dist-packages"} & set(path.parts):
        return True
    return any(path.is_relative_to(sysconfig.get_path(place)) for place in ("stdlib", "platstdlib"))


def source_digest(path: Path) -> str:
    """A digest of a file and of the modules next to or below it that it imports, without comments and layout."""
    digest = hashlib.blake2b(digest_size=8)
    folder = path.resolve().parent
    for file in source_files(path):
        place = file.relative_to(folder).as_posix() if file.is_relative_to(folder) else file.name
        digest.update(place.encode() + b"\0" + _parsed(file)[0] + b"\0")
    return digest.hexdigest()


def source_files(path: Path) -> tuple[Path, ...]:
    """The file, followed by the files of the modules that it imports, directly or indirectly, from its folder, the folders below, and its
    package."""
    path = path.resolve()
    roots = tuple(dict.fromkeys([path.parent, _package_root(path)]))
    found, waiting = {path}, [path]
    while waiting:
        file = waiting.pop()
        for name, level in _parsed(file)[1]:
            for other in _modules(name, level, file, roots):
                if other not in found:
                    found.add(other)
                    waiting.append(other)
    return (path, *sorted(found - {path}))


def _package_root(path: Path) -> Path:
    """The folder that contains the file's package; the file's folder if it is in no package."""
    folder = path.parent
    while (folder / "__init__.py").is_file():
        folder = folder.parent
    return folder


def _modules(name: str, level: int, file: Path, roots: tuple[Path, ...]) -> Iterator[Path]:
    """The files in these folders that run if ``name`` is imported with ``level`` dots before it."""
    if level == 0 and name.partition(".")[0] in _NOT_FOLLOWED:
        return
    folders = roots if level == 0 else (file.parents[min(level, len(file.parents)) - 1],)
    for folder in folders:
        at = folder
        for part in [p for p in name.split(".") if p]:
            at = at / part
            for candidate in (at.with_name(f"{part}.py"), at / "__init__.py"):
                if candidate.is_file() and not is_installed(candidate):
                    yield candidate.resolve()


def _parsed(path: Path) -> tuple[bytes, tuple[tuple[str, int], ...]]:
    found = path.stat()
    return _parse(path, found.st_mtime_ns, found.st_size)


@cache
def _parse(path: Path, modified: int, size: int) -> tuple[bytes, tuple[tuple[str, int], ...]]:
    """A digest of a file's code, and for each import in it the name of the module and the number of dots before the name."""
    content = path.read_bytes()
    try:
        tree = ast.parse(content)
    except (SyntaxError, ValueError):
        return hashlib.blake2b(content, digest_size=16).digest(), ()
    names: list[tuple[str, int]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [(alias.name, 0) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            inside = f"{node.module}." if node.module else ""
            names += [(inside + alias.name, node.level) for alias in node.names]
    return hashlib.blake2b(ast.dump(tree).encode(), digest_size=16).digest(), tuple(dict.fromkeys(names))
