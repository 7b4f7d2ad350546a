"""Dataset strings, which say what kind a dataset has, where it is, and which part of it to use:

photos/                             a folder of images, or one with a sub-folder per label
photos/labels.csv                   a table of files and labels; also .npy and .npz files of NumPy
scans.npy                           for a net of volumes: volumes or videos, also .npz and .safetensors
beats.ts, beats.npz, beep.wav       series of a .ts, .npz or WAV file; beats.csv with a net of series, or series:beats.csv
reviews.csv?column=review           texts of a column of a CSV, JSONL or Parquet file; notes.txt: the lines of a file
customers.csv?target=churned        rows of a table with the column of true labels; also customers.parquet
KIND:PLACE                          data in a known layout, such as cifar10:data/ or hf:ORG/NAME
KIND:PLACE[SPLIT]                   ... one part of it: imagenette:data/imagenette[train]
KIND:PLACE[SPLIT]?KEY=VALUE&...     ... with settings: imagenette-corner:data/imagenette[val]?seed=3
samples                             the photographs inside scikit-image

:func:`proofmap.data.list_datasets` lists the kinds with their splits and settings. If the whole text after KIND: is an existing path, it is used
as a path, brackets included.
"""

from __future__ import annotations

import inspect
import os
import re
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from proofmap.core.errors import InputError
from proofmap.core.inputs.frames import PARQUET
from proofmap.core.inputs.pictures import SUFFIXES
from proofmap.core.text import did_you_mean
from proofmap.data import (  # noqa: F401 - each registers the kinds that it reads
    arrays,
    huggingface,
    imagenet_folders,
    series_files,
    table_rows,
    tables,
    texts,
)
from proofmap.data.dataset import READERS, Dataset
from proofmap.data.photos import SAMPLE, no_such_place, photographs

_WITH_KIND = re.compile(r"(?P<kind>[a-z][a-z0-9-]+):(?P<rest>.+)", re.DOTALL)  # two letters: C: is a drive
_PARTS = re.compile(
    r"(?P<place>[^?]*?)(?:\[(?P<split>[^\]?]*(?:\[[^\]]*\])?)\])?(?:\?(?P<options>.*))?", re.DOTALL
)
_BY_SUFFIX = {
    ".csv": "csv",
    ".tsv": "csv",
    ".npy": "npz",
    ".npz": "npz",
    ".ts": "series",
    ".wav": "series",
    ".safetensors": "npz",
    **dict.fromkeys(PARQUET, "table"),
    ".txt": "text",
    ".jsonl": "text",
    ".ndjson": "text",
}
_READ_FOR = {"rows": "table", "series": "series", "text": "text", "tokens": "text"}
"""The kind of data that a CSV file holds for a net that takes these inputs."""
_CSV, _ARRAYS = (".csv", ".tsv"), (".npy", ".npz", ".safetensors")
_COLUMN_OPTIONS = {"column": "--text-column", "target": "--target"}  # on the command line


def _options(kind: str) -> dict[str, type]:
    """The settings of a kind of dataset, each with its type. They are the keyword arguments of the function that opens such datasets."""
    parameters = inspect.signature(READERS[kind][1]).parameters.values()
    settings = [one for one in parameters if one.kind is inspect.Parameter.KEYWORD_ONLY]
    return {one.name: int if one.annotation in (int, "int") else str for one in settings}


def is_dataset(text: str) -> bool:
    """Whether a text has the form KIND:PLACE, with a known kind, and is not itself a path that exists.

    >>> is_dataset("cifar10:data/cifar-10-batches-py[train]"), is_dataset("photos/")
    (True, False)
    """
    match = None if os.path.exists(text) else _WITH_KIND.fullmatch(text)
    return match is not None and match["kind"] in READERS


def names_data_file(text: str) -> bool:
    """Whether a text names a file of rows, series, texts or arrays, and not photos: ``customers.csv?target=churned``, ``notes.txt``.

    >>> names_data_file("customers.csv?target=churned"), names_data_file("photos/cat.png")
    (True, False)
    """
    return _suffix(text) in _BY_SUFFIX


def read_for(data: str | Path | Sequence[str | Path], inputs: str) -> str | Path | Sequence[str | Path]:
    """The data in the form for a net that takes ``inputs``. For a net of rows, series or texts, a CSV file without a kind before it is marked as
    a file of these, and for a net of volumes a file of arrays; for other nets the data is returned unchanged.

    >>> read_for("beats.csv?target=label", "series"), read_for("photos.csv", "pictures")
    ('series:beats.csv?target=label', 'photos.csv')
    >>> read_for("scan.npy", "volumes"), read_for("series:beats.csv", "series"), read_for("photos/", "rows")
    ('npz:scan.npy?layout=volumes', 'series:beats.csv', 'photos/')
    """
    places = [data] if isinstance(data, (str, Path)) else list(data)
    text = str(places[0]) if len(places) == 1 else ""
    if is_dataset(text):
        return data
    if inputs == "volumes" and Path(text).suffix.lower() in _ARRAYS:
        return f"npz:{text}?layout=volumes"
    return f"{_READ_FOR[inputs]}:{text}" if inputs in _READ_FOR and _suffix(text) in _CSV else data


def _suffix(text: str) -> str:
    return Path(text.partition("?")[0]).suffix.lower()


def load_dataset(spec: str | Path, **options: str | int) -> Dataset:
    """Open the dataset that a string names; see :mod:`proofmap.data.specs` for its form.

    ``options`` are settings of the string (``split="train"``, ``seed=3``), given as arguments, which count where both are given.

    >>> load_dataset("imagenet-corner:data")
    Traceback (most recent call last):
        ...
    proofmap.core.errors.InputError: there is no kind of dataset 'imagenet-corner'. Did you mean 'imagenette-corner'...
    """
    kind, place, written = _parse(str(spec))
    known = _options(kind)
    arguments: dict[str, object] = {}
    for key, value in {**written, **options}.items():
        if key not in known:
            if key in _COLUMN_OPTIONS:
                raise InputError(
                    f"{_COLUMN_OPTIONS[key]} ({key}={value}) names a column of a table or of a file of texts; {place or kind} "
                    f"{'is a folder of pictures and ' if kind == 'folder' else ''}has no columns. Leave it out, or name a CSV, JSONL or Parquet file, or a saved dataset of Hugging Face as hf:FOLDER"
                )
            hint = f"it has {', '.join(known)}" if known else "it has none"
            raise InputError(f"{kind} has no setting {key!r}; {hint}. Write it as {READERS[kind][0].form}")
        try:
            arguments[key] = known[key](value)
        except ValueError:
            raise InputError(f"{kind} needs a whole number as {key}, not {value!r}") from None
    return READERS[kind][1](*([place] if place else []), **arguments)


def rebuild_dataset(settings: Mapping[str, object]) -> Dataset:
    """Open the dataset that has these :meth:`~proofmap.data.Dataset.settings`."""
    arguments = dict(settings)
    kind = str(arguments.pop("dataset", None))
    if kind not in READERS:
        raise _unknown(kind)
    return READERS[kind][1](**arguments)


def open_data(data: str | Path | Sequence[str | Path]) -> Dataset:
    """The dataset that ``data`` names: one dataset string, or photos and folders of photos."""
    places = [data] if isinstance(data, (str, Path)) else list(data)
    if not places:
        raise InputError("no data was named; write a folder, photos, or one of 'proofmap list datasets'")
    first = str(places[0])
    if os.path.exists(first):
        is_photo = os.path.isfile(first) and Path(first).suffix.lower() not in _BY_SUFFIX
    else:
        is_photo = first.startswith(SAMPLE) or (
            Path(first).suffix.lower() in SUFFIXES and not is_dataset(first)
        )
    return photographs(places) if len(places) > 1 or is_photo else load_dataset(first)


def _parse(spec: str) -> tuple[str, str, dict[str, str]]:
    """Kind, place and settings of a dataset string."""
    text = spec.strip()
    if text == "samples":
        return "samples", "", {}
    if not text:
        raise InputError(
            "no dataset was named; write a folder, or one of the forms of 'proofmap list datasets'"
        )
    match = None if os.path.exists(text) else _WITH_KIND.fullmatch(text)
    kind, rest = (match["kind"], match["rest"]) if match else ("", text)
    if kind and kind not in READERS:
        raise _unknown(kind)
    place, options = _split_options(rest, text)
    if kind == "samples":
        raise InputError("samples takes no path or settings: write only samples")
    if not kind:
        if not os.path.exists(place):
            raise InputError(
                f"{no_such_place(place, {*SUFFIXES, *_BY_SUFFIX})} Other datasets are written KIND:PLACE, with one of "
                f"the kinds {', '.join(READERS)}"
            )
        kind = "folder" if os.path.isdir(place) else _BY_SUFFIX.get(Path(place).suffix.lower(), "")
        if not kind:
            raise InputError(
                f"{place} is not a dataset: expected a folder, or a .csv, .jsonl, .txt, .parquet, .ts, .wav, .npy, .npz or .safetensors file"
            )
        if kind in ("csv", "table") and "column" in options:
            kind = "text"
        if kind == "csv" and ("target" in options or "name" in options):  # a table of files has no setting
            kind = "table"
        if kind == "npz" and _holds_series(place):
            kind = "series"
    return kind, place, options


def _split_options(rest: str, spec: str) -> tuple[str, dict[str, str]]:
    if os.path.exists(rest):
        return rest, {}
    match = _PARTS.fullmatch(rest)
    if match is None or not match["place"]:
        raise InputError(f"the dataset {spec!r} cannot be read; write KIND:PLACE[SPLIT]?KEY=VALUE")
    options: dict[str, str] = {} if match["split"] is None else {"split": match["split"]}
    for pair in (match["options"] or "").split("&"):
        key, equals, value = pair.partition("=")
        if pair and not (key and equals and value):
            raise InputError(f"the setting {pair!r} of the dataset {spec!r} must be written KEY=VALUE")
        if pair:
            options[key] = value
    return match["place"], options


def _unknown(kind: str) -> InputError:
    hint = did_you_mean(kind, READERS)
    return InputError(f"there is no kind of dataset {kind!r}.{hint} Known are: {', '.join(sorted(READERS))}")


for _kind in [
    "folder",
    "csv",
    "table",
    "text",
    "series",
    "voc",
    "npz",
    "imagenette",
    "imagenette-corner",
    "imagenet",
    "imagenet-real",
    "cifar10",
    "cifar100",
    "hf",
    "photos",
    "samples",
]:
    READERS[_kind] = READERS.pop(_kind)  # as they are listed


def _holds_series(path: str | Path) -> bool:
    """Whether an .npz file has an array ``series``."""
    try:
        with zipfile.ZipFile(path) as archive:
            return "series.npy" in archive.namelist()
    except (OSError, zipfile.BadZipFile):
        return False
