"""ImageNet's validation photos with the labels of Beyer et al. 2020 ("Are we done with ImageNet?"), which may be several or none."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

from proofmap.core.errors import InputError
from proofmap.core.pictures import files_below
from proofmap.data.folders import ImageFiles, existing_folder
from proofmap.data.tables import text_of
from proofmap.models.names import imagenet_names

TABLE = "real.json"
_NAME = re.compile(r"ILSVRC2012_val_(\d{8})\.\w+$")


def imagenet_real(path: str | Path, *, table: str = "", count: int = 0) -> ImageFiles:
    """ImageNet's validation photos, in one folder or in folders, with the labels of ``real.json``.

    Args:
        table: the file of labels, a list for each photo from ILSVRC2012_val_00000001 on; by default ``real.json`` in the folder or
            in the one above.
        count: keep only photos with this number of labels; 0 keeps all.
    """
    root = existing_folder(path)
    labels = _read(_table(root, table))
    files, kept = [], []
    for file in files_below(root):
        match = _NAME.search(file)
        if match is None or not 1 <= int(match[1]) <= len(labels):
            raise InputError(
                f"{root / file} has no labels in {TABLE}: expected names such as ILSVRC2012_val_00000001.JPEG, numbered 1 to {len(labels)}"
            )
        own = labels[int(match[1]) - 1]
        if count in (0, len(own)):
            files.append(file)
            kept.append(own)
    if not files:
        raise InputError(f"no photo of {root} has {count} labels; choose another count")
    return ImageFiles(
        root,
        files,
        title=f"imagenet-real[{count} labels]" if count else "imagenet-real",
        settings={"dataset": "imagenet-real", "path": str(root), "table": table, "count": count},
        labels=kept,
        label_names=imagenet_names(),
    )


def _table(root: Path, named: str) -> Path:
    places = [Path(os.path.abspath(named))] if named else [root / TABLE, root.parent / TABLE]
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        raise InputError(
            f"there is no file {places[0]}: supply {TABLE} of Beyer et al. 2020, or name it with ?table=FILE"
        )
    return found


def _read(path: Path) -> list[tuple[int, ...]]:
    """The labels of each photo, by its number."""
    try:
        found: Any = json.loads(text_of(path))
        labels = [tuple(own) for own in found]
    except (ValueError, TypeError):
        raise InputError(f"{path} must be a JSON list with a list of labels for each photo") from None
    wrong = next((a for own in labels for a in own if type(a) is not int or not 0 <= a < 1000), None)
    if wrong is not None or not labels:
        raise InputError(f"{path} must give ImageNet labels as numbers 0 to 999, not {wrong!r}")
    return labels
