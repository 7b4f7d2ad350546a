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
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.machinery import SourceFileLoader
from importlib.metadata import PackageNotFoundError, packages_distributions, version
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
            with run_file(path, key) as module:
                pass
        except ProofmapError:
            raise
        except (Exception, SystemExit) as error:
            raise InputError(f"{path} cannot be run: {reason_of(error)}") from error
        module._proofmap_stamp = stamp  # type: ignore[attr-defined]
    if not hasattr(module, name):
        raise InputError(f"{str(path)!r} has no {name!r} to take as a {what}")
    return getattr(module, name)


@contextmanager
def run_file(path: Path, name: str) -> Iterator[ModuleType]:
    """Run a file as a module called ``name``. The file, and the code inside the block, can import modules from its folder; modules that have
    changed are imported again."""
    imported = source_files(path)[1:]
    belong_to_user([path, *imported])
    _forget_changed(path.resolve().parent, imported)
    found = importlib.util.spec_from_file_location(name, path, loader=_FromSource(name, str(path.absolute())))
    assert found is not None  # a path ending in .py always has a loader
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    sys.modules[name] = module  # dataclasses look their module up while the file runs
    with _importable(path.parent):
        try:
            found.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
        _STAMPS.update({file: _stamp(file) for file in imported})
        yield module


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
        loaded = _module_file(name)
        if loaded in _STAMPS and (loaded != file or _STAMPS[loaded] != _stamp(file)):
            del sys.modules[name]


@contextmanager
def _importable(folder: Path) -> Iterator[None]:
    """Make modules in this folder importable, without leaving bytecode that could be out of date."""
    entry, writes = str(folder.resolve()), not sys.dont_write_bytecode
    sys.path.insert(0, entry)
    sys.dont_write_bytecode = True
    try:
        yield
    finally:
        sys.path.remove(entry)
        sys.dont_write_bytecode = not writes


# ---- source files --------------------------------------------------------------------------------


def source_of(module: str) -> str | None:
    """What identifies the source of a module: a digest of its files if it is the user's, or name and version of an installed package.

    Empty for packages whose code does not count. None for a module without a file, such as a notebook.

    >>> source_of("torch.nn"), source_of("a_notebook")
    ('', None)
    """
    package, path = module.partition(".")[0], _module_file(module)
    if package in _NOT_FOLLOWED:
        return ""
    if path is not None and not is_installed(path):
        return source_digest(path)
    return _installed_version(package) if path is not None or _is_built_in(module) else None


def _module_file(module: str) -> Path | None:
    """The Python file of a loaded module; None if it has none."""
    file = getattr(sys.modules.get(module), "__file__", None)
    path = Path(str(file)) if file else None
    return path.resolve() if path is not None and path.suffix == ".py" and path.is_file() else None


def is_installed(path: Path) -> bool:
    """Whether a file belongs to Python itself or to an installed package, not to a user's project."""
    if {"site-packages", "dist-packages"} & set(path.parts):
        return True
    return any(map(path.is_relative_to, _python_folders()))


@cache
def _python_folders() -> tuple[str, str]:
    return sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")


def _is_built_in(module: str) -> bool:
    """Whether a module without a Python file is part of Python or of an installed package: compiled, or built in."""
    if module.partition(".")[0] in sys.stdlib_module_names and module != "__main__":
        return True
    file = getattr(sys.modules.get(module), "__file__", None)
    return bool(file) and is_installed(Path(str(file)))


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


@cache
def _distributions() -> Mapping[str, list[str]]:
    return packages_distributions()


@cache
def _installed_version(package: str) -> str:
    """Name and version of an installed package. For a module of the standard library, name and version of Python."""
    found = () if package in sys.stdlib_module_names else _distributions().get(package, ())
    for distribution in found:
        try:
            return f"{distribution} {version(distribution)}"
        except PackageNotFoundError:
            continue
    return f"{package} {sys.version_info.major}.{sys.version_info.minor}"
