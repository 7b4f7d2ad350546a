"""Datasets of Hugging Face: from the hub, from a folder, or as an object of the library ``datasets``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from PIL import Image

from proofmap.core.errors import InputError, require
from proofmap.core.files import digest_of
from proofmap.core.inputs.pictures import decode_image
from proofmap.data.dataset import Dataset, reader
from proofmap.data.tables import check_columns
from proofmap.data.texts import TextData
from proofmap.plugins.failures import reason_of


class HuggingFaceImages(Dataset):
    """A ``datasets.Dataset`` with a column of images and, optionally, a column of class labels.

    Images are hashed and decoded here from their bytes, so that an error names a damaged image and other images can still be read.

    Args:
        rows: one split of a dataset, not a stream.
        image, label: the names of the columns; by default found by their types.
    """

    _advice = "name it as hf:ORG/NAME[SPLIT], or save it with save_to_disk(FOLDER) and write hf:FOLDER"

    def __init__(
        self,
        rows: Any,
        *,
        image: str | None = None,
        label: str | None = None,
        title: str = "hf",
        settings: Mapping[str, object] | None = None,
    ) -> None:
        library = require("datasets", extra="hf", purpose="a Hugging Face dataset")
        rows = _one_split(rows, title)
        if not isinstance(rows, library.Dataset):
            raise InputError(f"expected a datasets.Dataset with a length, not {type(rows).__name__}")
        image_column = _column(rows, library.Image, image, title)
        if image_column is None:
            raise InputError(
                f"{title} has no column of images; its columns are {', '.join(rows.features)}. Texts are named {title}?text=COLUMN"
            )
        label_column = _column(rows, library.ClassLabel, label, title)
        rows = rows.with_format(None)
        self._pictures = rows.select_columns([image_column]).cast_column(
            image_column, library.Image(decode=False)
        )
        self._column, self.title, self._settings = image_column, title, settings
        if label_column is not None:
            self.label_names = tuple(rows.features[label_column].names)
            self.labels = rows.select_columns([label_column])[:][label_column]
        prefix = str(rows.split or "image").partition("[")[0]
        self.names = [f"{prefix}-{i:05d}" for i in range(len(rows))]

    def _content(self, i: int) -> bytes:
        cell = self._pictures[i][self._column] or {}
        content, path = cell.get("bytes"), cell.get("path")
        if content is None and path is None:
            raise InputError(f"{self._description(i)} is empty")
        try:
            return Path(str(path)).read_bytes() if content is None else bytes(content)
        except OSError as error:
            raise InputError(f"{self._description(i)}: {path} cannot be read: {error.strerror}") from None

    def read(self, i: int) -> Image.Image:
        return decode_image(self._content(i), self._description(i))

    def digest(self, i: int) -> str:
        return digest_of(self._content(i))

    def _description(self, i: int) -> str:
        return f"{self.names[i]} of {self.title}"


@reader(
    "hf",
    "hf:ORG/NAME[SPLIT]?image=COLUMN&label=COLUMN, or text=COLUMN",
    "a dataset of Hugging Face, or a folder in one of its layouts",
)
def hugging_face(
    path: str,
    *,
    split: str | None = None,
    image: str | None = None,
    label: str | None = None,
    text: str | None = None,
) -> Dataset:
    """A dataset of the hub, ``ORG/NAME``, or of a folder that ``save_to_disk`` made or that has files which the library reads.

    ``split`` is needed if the dataset has several splits; it may be a slice such as ``test[:100]``. ``text`` names the column of texts in a
    dataset without images.
    """
    library = require("datasets", extra="hf", purpose=f"the Hugging Face dataset {path!r}")
    folder = Path(path).absolute()
    title = f"hf:{folder.name if folder.is_dir() else path}" + (f"[{split}]" if split else "")
    try:
        if any((folder / name).is_file() for name in ("state.json", "dataset_dict.json")):
            rows = library.load_from_disk(str(folder))
            if split is not None:
                rows = _part(rows, split, library)
        else:
            rows = library.load_dataset(str(folder) if folder.is_dir() else path, split=split)
    except Exception as error:  # the library has many errors, for network, cache and parsing
        raise InputError(f"{title} cannot be loaded: {reason_of(error)}") from error
    rows = _one_split(rows, title)
    settings = {
        "dataset": "hf",
        "path": str(folder) if folder.is_dir() else path,
        "split": split,
        "image": image,
        "label": label,
        "text": text,
    }
    if text is not None:
        return texts_of_rows(rows, column=text, target=label, title=title, settings=settings)
    return HuggingFaceImages(rows, image=image, label=label, title=title, settings=settings)


def _part(rows: Any, split: str, library: Any) -> Any:
    """The split ``split`` of a saved dataset, or a slice of it such as ``test[:100]``. A dataset that was saved without a split name counts as
    the split that is asked for."""
    name = split.partition("[")[0]
    parts = rows if isinstance(rows, library.DatasetDict) else {str(rows.split or name): rows}
    if name not in parts:
        raise InputError(f"it has the splits {', '.join(parts)}")
    if split == name:
        return parts[name]
    (slice_,) = library.ReadInstruction.from_spec(split).to_absolute({name: len(parts[name])})
    start, end = slice_.from_ or 0, len(parts[name]) if slice_.to is None else slice_.to
    return parts[name].select(range(start, end))


def _column(rows: Any, kind: type, wanted: str | None, title: str) -> str | None:
    """The name of the column with the type ``kind``: ``wanted``, or the only column of this type."""
    found = [name for name, feature in rows.features.items() if isinstance(feature, kind)]
    if wanted is not None:
        if wanted not in found:
            raise InputError(f"{title} has no column {wanted!r} of {kind.__name__}s, only {found}")
        return wanted
    if len(found) > 1:
        raise InputError(
            f"{title} has several columns of {kind.__name__}s ({', '.join(found)}): name one, "
            f"{'image' if kind.__name__ == 'Image' else 'label'}={found[0]}"
        )
    return found[0] if found else None


# ---- texts ------------------------------------------------------------------------------------------------------


def is_rows(given: object) -> bool:
    """Whether an object is a ``datasets.Dataset`` of Hugging Face, a dictionary of its splits, or an object with the same interface."""
    if isinstance(given, Mapping):
        return bool(given) and all(is_rows(part) for part in given.values())
    return hasattr(given, "column_names") and hasattr(given, "features") and hasattr(given, "__getitem__")


def _one_split(rows: Any, title: str = "the dataset") -> Any:
    """The only split of a ``datasets.DatasetDict``. A dataset without splits is returned unchanged."""
    if not isinstance(rows, Mapping):
        return rows
    if len(rows) > 1:
        first = next(iter(rows))
        example = f"{title}[{first}]" if title.startswith("hf:") else f'dataset["{first}"]'
        raise InputError(f"{title} has the splits {', '.join(rows)}; choose one: {example}")
    return next(iter(rows.values()))


def texts_of_rows(
    rows: Any,
    *,
    column: str | None = None,
    target: str | None = None,
    title: str = "texts",
    settings: Mapping[str, object] | None = None,
) -> TextData:
    """The texts in a column of a ``datasets.Dataset``: by default ``text``, or the only column of strings. Class labels are replaced by their
    names."""
    rows = _one_split(rows, title).with_format(None)  # columns as lists, whatever format the dataset has
    have, kinds = rows.column_names, rows.features
    strings = [name for name in have if str(getattr(kinds[name], "dtype", "")) in ("string", "large_string")]
    chosen = column or ("text" if "text" in strings else strings[0] if len(strings) == 1 else "")
    if not chosen:
        raise InputError(
            f"{title} has the columns {', '.join(have[:12])}: say which has the texts, with text=COLUMN after hf:, or give "
            "dataset.select_columns([...])"
        )
    named = [name for name in have if getattr(kinds[name], "names", None)]
    truth = target or (named[0] if len(named) == 1 else "")
    check_columns(title, [chosen, truth], have)
    if chosen not in strings:
        raise InputError(
            f"the column {chosen!r} of {title} has no strings; those that have are: {', '.join(strings[:12]) or 'none'}"
        )
    labels = list(rows[truth]) if truth else None
    if labels is not None and (names := getattr(kinds[truth], "names", None)):
        labels = [None if label is None or label < 0 else names[label] for label in labels]
    texts = ["" if text is None else text for text in rows[chosen]]
    return TextData(texts, labels=labels, title=title, settings=settings)
