"""Maps on disk: one safetensors file per unit (one method on one block of images), named by a digest of its content.

Because of this name, a file is never overwritten by another one, and reading a file detects damage.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from proofmap.core.deferred import Tensor, torch
from proofmap.core.errors import is_disk_full
from proofmap.core.files import atomic_write, digest_of, sync_folder
from proofmap.study.store.database import FILE as SCORES
from proofmap.study.store.errors import StoreError, damaged, disk_full

FOLDER = "maps"
EXACT = ".float32"
"""Part of the name of a file whose maps are stored in float32, so equal to the last bit to what the method made."""

_NAME = re.compile(rf"{FOLDER}/[0-9a-f]+({re.escape(EXACT)})?\.safetensors")


@dataclass(frozen=True)
class MapsFile:
    """A file of maps: its path relative to the run directory, and its size in bytes."""

    name: str
    size: int


def write_maps(folder: Path, maps: Tensor, images: Sequence[str], dtype: torch.dtype) -> MapsFile:
    """Store the maps ``(n, L, *positions)`` of these images in one file, atomically. L is 1 for a label-free method.

    In float16, each map is divided by a power of two, which is stored with it, so that neither large nor tiny values are lost.
    """
    from safetensors.torch import save

    positions = tuple(range(2, maps.ndim))
    scale = torch.ones(*maps.shape[:2], *[1] * len(positions))
    if dtype == torch.float16 and maps.numel():
        exponent = maps.abs().amax(dim=positions, keepdim=True).float().frexp().exponent
        scale = torch.exp2(exponent.float() - 15).clamp_min(2.0**-100)
    content = save(
        {"maps": (maps / scale).to(dtype).contiguous(), "scale": scale},
        metadata={"images": json.dumps(list(images))},
    )
    digest = digest_of(content)
    name = f"{FOLDER}/{digest}{EXACT if dtype == torch.float32 else ''}.safetensors"
    try:
        check_folder(folder)
        if not (folder / FOLDER).is_dir():
            (folder / FOLDER).mkdir()
            sync_folder(folder)
        with atomic_write(folder / name) as part:
            part.write_bytes(content)
    except OSError as error:
        if is_disk_full(error):
            raise disk_full(folder / name, str(error.strerror)) from None
        raise StoreError(f"{folder / name} cannot be written: {error.strerror}") from None
    return MapsFile(name, len(content))


def maps_path(folder: Path, name: str) -> Path:
    """The path of a file of maps from its stored name. Raises if the name cannot come from :func:`write_maps`."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise damaged(folder / SCORES, f"it names {name!r} as a file of maps, which no run has written")
    return folder / name


def check_folder(folder: Path) -> None:
    """Raise if ``maps`` in the run directory is not a folder. It may be a link to a folder, such as one on another disk."""
    path = folder / FOLDER
    if path.is_symlink() and not path.is_dir():
        raise StoreError(
            f"{path} is a link to {path.readlink()}, which is not a folder. Put that folder back, or remove the link"
        )
    if path.exists() and not path.is_dir():
        raise StoreError(f"{path} is not a folder. Remove it, or put the folder of maps back")


def read_maps(folder: Path, file: str, images: Sequence[str]) -> dict[str, Tensor]:
    """The stored maps ``(L, *positions)``, float32, of those images that are in the file."""
    from safetensors.torch import load

    content = content_of(folder, file)
    stored = load(content)
    names = json.loads(_metadata(content)["images"])
    place = {name: k for k, name in enumerate(names)}
    return {
        name: stored["maps"][place[name]].float() * stored["scale"][place[name]]
        for name in images
        if name in place
    }


def content_of(folder: Path, file: str) -> bytes:
    """The content of a file of maps. Raises if it is not the content that the file is named by."""
    check_folder(folder)
    path = maps_path(folder, file)
    try:
        if path.exists() and not path.is_file():  # a pipe may never end
            raise damaged(path, "it is not a regular file")
        content = path.read_bytes()
    except FileNotFoundError:
        raise damaged(path, "it is missing") from None
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}") from None
    if digest_of(content) != path.name.partition(".")[0]:
        raise damaged(path, "its content is not what was written")
    return content


def _metadata(content: bytes) -> dict[str, str]:
    """The metadata of a safetensors file. It is in the JSON header, after 8 bytes with the header's length."""
    length = int.from_bytes(content[:8], "little")
    about: dict[str, str] = json.loads(content[8 : 8 + length])["__metadata__"]
    return about


def is_whole(folder: Path, name: str, size: int) -> bool:
    """Whether a file of maps is there with its size in bytes."""
    path = maps_path(folder, name)
    try:
        return path.is_file() and path.stat().st_size == size
    except OSError:
        return False


def unused_files(folder: Path, known: Collection[str]) -> list[Path]:
    """Files of maps whose names are not in ``known``: they were left by a run that was stopped, or by units that were deleted.
    None if ``maps`` is a link, because files behind it may belong to another run, or be no maps.
    """
    check_folder(folder)
    if (folder / FOLDER).is_symlink():
        return []
    files = sorted((folder / FOLDER).glob("*.safetensors"))
    return [path for path in files if f"{FOLDER}/{path.name}" not in known]


def remove_file(path: Path) -> None:
    """Remove a file of maps if it exists."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:  # it is a folder, or its folder is read-only
        raise StoreError(f"{path} cannot be removed: {error.strerror}. Remove it, and try again") from None
