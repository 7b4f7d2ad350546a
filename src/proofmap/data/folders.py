"""Datasets of picture files, and the search for pictures in folders."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from PIL import Image

from proofmap.core.errors import InputError
from proofmap.core.files import check_ends, digest_of, suggest_path
from proofmap.core.inputs import Box
from proofmap.core.inputs.pictures import OWN_SOFTWARE, SUFFIXES, decode_image
from proofmap.core.text import counted, one_line
from proofmap.data.dataset import Dataset, reader

RESULTS = frozenset({"scores.sqlite", "evaluation.json", "scores.csv"})
"""A folder that holds one of these files contains results of Proofmap."""
_NOT_READ = {
    *(".heic", ".heif", ".hif", ".avif", ".jxl", ".jp2", ".j2k", ".jfif", ".jpe", ".pgm", ".pbm", ".pnm"),
    *(".tga", ".ico", ".svg", ".eps", ".psd", ".dng", ".cr2", ".cr3", ".nef", ".arw", ".raf", ".orf"),
    *(".rw2", ".raw", ".exr", ".dcm"),
}
"""Suffixes of pictures that are not read; files with them are named in a warning."""


class ImageFiles(Dataset):
    """Image files below one folder.

    Args:
        root: the folder that contains ``files``.
        files: paths of the files, relative to ``root``.
        labels: one or several indices into ``label_names`` per file, or None.
        names: one per file; the files' paths by default.
        settings: what :meth:`settings` returns.
        objects: for each file, boxes by label, in pixels of the upright picture.
    """

    def __init__(
        self,
        root: str | Path,
        files: Sequence[str],
        *,
        title: str,
        settings: Mapping[str, object],
        names: Sequence[str] | None = None,
        labels: Sequence[int | Sequence[int] | None] | None = None,
        label_names: Sequence[str] = (),
        objects: Sequence[Mapping[int, Sequence[Box]]] | None = None,
    ) -> None:
        self.title, self.root, self.label_names = title, str(root), tuple(label_names)
        self.names = [printable(file) for file in files] if names is None else names
        self._files, self.labels, self._objects, self._settings = files, labels, objects, settings

    def path(self, i: int) -> Path:
        """The file of picture ``i``."""
        return Path(self.root, self._files[i])

    def read(self, i: int) -> Image.Image:
        path = self.path(i)
        return decode_image(path, printable(str(path)))

    def digest(self, i: int) -> str:
        path = self.path(i)
        check_ends(path, printable(str(path)))
        try:
            return digest_of(path.read_bytes())
        except (OSError, ValueError) as error:  # a name with a NUL is a ValueError
            reason = getattr(error, "strerror", None) or str(error)
            raise InputError(f"{printable(str(path))} cannot be read: {reason}") from None

    def stamp(self, i: int) -> str:
        try:
            about = os.stat(os.path.join(self.root, self._files[i]))
        except (OSError, ValueError):
            return ""
        return f"{about.st_size} {about.st_mtime_ns}"

    def objects(self, i: int) -> Mapping[int, Sequence[Box]]:
        return {} if self._objects is None else self._objects[i]


@reader("folder", "FOLDER", "images; with a sub-folder per label, those are the labels")
def image_folder(path: str | Path) -> ImageFiles:
    """All images below a folder, in a fixed order.

    If every image is in a sub-folder, the names of the first sub-folders are the labels, in alphabetical order; otherwise labels are
    unknown, with a warning if only some images are in sub-folders. Hidden files and folders are left out.
    """
    root = existing_folder(path)
    files = files_below(root)
    if not files:
        raise InputError(
            f"the folder {path} holds no images ({', '.join(sorted(SUFFIXES))}); for data of another kind write "
            "KIND:PLACE, such as cifar10:FOLDER or npz:FILE"
        )
    folders = [file.partition("/")[0] for file in files if "/" in file]
    label_names = sorted(set(folders)) if len(folders) == len(files) else []
    if folders and not label_names:
        beside = next(file for file in files if "/" not in file)
        warnings.warn(
            f"{root.name} holds {printable(beside)} beside its sub-folders, so the sub-folders are not read as labels and no true label "
            "is known; if they are labels, move such images away",
            stacklevel=2,
        )
    index = {name: k for k, name in enumerate(label_names)}
    return ImageFiles(
        root,
        files,
        title=root.name,
        settings={"dataset": "folder", "path": str(root)},
        labels=[index[name] for name in folders] if label_names else None,
        label_names=[printable(name) for name in label_names],
    )


# ---- files ----------------------------------------------------------------------------------------------------


def existing_folder(path: str | Path) -> Path:
    """The absolute path of a folder; raises an InputError if it does not exist."""
    folder = Path(os.path.abspath(path))
    if not folder.is_dir():
        raise InputError(
            f"there is no folder {path}"
            + (" (it is a file)" if folder.exists() else f".{suggest_path(path)}")
        )
    return folder


def printable(name: str) -> str:
    """A file's name as text that can be stored and shown, even if it is not valid UTF-8."""
    return name if name.isascii() else os.fsencode(name).decode("utf-8", "backslashreplace")


def files_below(folder: str | Path) -> list[str]:
    """The image files below a folder, as relative paths with ``/``, in alphabetical order of their folders.

    Hidden files, links to a parent folder, and pictures that Proofmap wrote are left out. A file is opened only if its folder
    has results of Proofmap. Pictures of other formats are named in a warning.
    """
    if os.path.realpath(folder) == os.path.realpath(os.sep):
        raise InputError(f"{folder} is the whole file system; name the folder that holds the images")
    found: list[str] = []
    unread: list[str] = []
    for file in _below(str(folder), "", False):
        suffix = os.path.splitext(file)[1].lower()
        if suffix in SUFFIXES or suffix in _NOT_READ:
            (found if suffix in SUFFIXES else unread).append(file)
    if unread:
        warnings.warn(
            f"{counted(len(unread), 'picture')} in {one_line(str(folder))} not read, because of the format: "
            f"{one_line(', '.join(sorted(unread)[:3]))}{', ...' if len(unread) > 3 else ''}; convert to JPEG or PNG",
            stacklevel=2,
        )
    return sorted(found, key=lambda file: file.split("/"))


def _below(folder: str, prefix: str, among_results: bool) -> Iterator[str]:
    try:
        with os.scandir(folder) as found:
            entries = [entry for entry in found if not entry.name.startswith(".")]
    except OSError as error:
        shown = folder.encode(errors="replace").decode()
        raise InputError(f"the folder {shown} cannot be listed: {error.strerror}") from None
    among_results = among_results or any(entry.name in RESULTS for entry in entries)
    for entry in entries:
        if _is_folder(entry):
            if not (entry.is_symlink() and _leads_back(entry.path)):
                yield from _below(entry.path, f"{prefix}{entry.name}/", among_results)
        elif not (entry.is_symlink() or entry.is_file()):  # a dangling link is an image that cannot be read
            continue
        elif not (among_results and _is_own_picture(entry.path)):
            yield prefix + entry.name


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself
        return False


def _leads_back(link: str) -> bool:
    """Whether a link leads to a folder that contains the link: following it would never end."""
    target, parent = os.path.realpath(link), os.path.realpath(os.path.dirname(link))
    return os.path.commonpath([target, parent]) == target


def _is_own_picture(path: str | Path) -> bool:
    """Whether Proofmap wrote this picture."""
    try:
        with open(path, "rb") as file:
            return b"Software\0" + OWN_SOFTWARE.encode() in file.read(1024)
    except OSError:
        return False
