"""The source files of a user's module: its own file, and the modules next to or below it that it imports.

Imports are read from the source, so imports inside functions are found before the functions run. Installed packages are identified by
their version.
"""

from __future__ import annotations

import ast
import hashlib
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from pathlib import Path

HERE_ONLY = "only in this process: "
"""How the identity of a thing begins that another process cannot recognise: its code is in no file, or a value cannot be read."""
NOT_FOLLOWED = ("proofmap", "torch", "builtins", "abc", "typing", "collections")
"""Packages whose code does not enter a digest: ours has a version, and torch's version is recorded with a run."""


def source_of(module: str) -> str | None:
    """What identifies the source of a module: a digest of its files if it is the user's, or name and version of an installed package.

    Empty for packages whose code does not count. None for a module without a file, such as a notebook.

    >>> source_of("torch.nn"), source_of("a_notebook")
    ('', None)
    """
    package, path = module.partition(".")[0], module_file(module)
    if package in NOT_FOLLOWED:
        return ""
    if path is not None and not is_installed(path):
        return source_digest(path)
    return _installed_version(package) if path is not None or _is_built_in(module) else None


def module_file(module: str) -> Path | None:
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
    if level == 0 and name.partition(".")[0] in NOT_FOLLOWED:
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
