"""Read series from files: the .ts format of aeon and sktime, CSV, NumPy, and sound in WAV files."""

from __future__ import annotations

import io
import os
import wave
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from proofmap.core.errors import InputError
from proofmap.core.files import check_ends, suggest_path
from proofmap.core.inputs import Series
from proofmap.core.inputs.frames import Column
from proofmap.data.arrays import TensorData, arrays_in
from proofmap.data.dataset import numbered, reader
from proofmap.data.tables import table_rows

_MISSING = ("", "?", "nan")
_TIMES = ("time", "t", "timestamp", "date", "datetime", "seconds")
_TABLES = (".csv", ".tsv")


_Read = tuple[NDArray[np.float32], Sequence[str], Sequence[str] | None]
"""The content of a file: series ``(N, C, T)``, the label of each series as written ("" if unknown), and the names of the series if the file
has them."""


@reader(
    "series",
    "series:FILE?target=COLUMN",
    "series of a .ts file, a CSV file (a series in each row), a .npz file (series and labels), a WAV file or a folder of them",
)
def series_file(path: str | Path, *, target: str = "") -> TensorData:
    """The series in a file. The file's suffix says how it is read:

    - ``.ts``: the format of aeon and sktime; labels follow the last colon.
    - ``.csv``, ``.tsv``: one series of one channel in each row, a time step in each column; ``target`` is the column of labels. If the first
      column is called time, t, timestamp or date, the file is one series: a time step in each row, a channel in each other column.
    - ``.npz``: an array ``series`` ``(N, C, T)`` or ``(N, T)``, and an array ``labels`` of integers or text.
    - ``.wav``: sound with values from -1 to 1.
    - a folder of WAV files, or of CSV files with a column of times. If a folder has sub-folders, their names are the labels.

    All series must have the same length. Missing values are refused.
    """
    place = Path(os.path.abspath(path))
    if not place.exists():
        raise InputError(f"there is no file {path}.{suggest_path(path)}")
    if target and not place.is_dir() and place.suffix.lower() not in _TABLES:
        raise InputError(
            f"target names a column of a CSV file, but {path} is not a CSV file; leave target out"
        )
    check_ends(place)
    try:
        read = _folder(place, target) if place.is_dir() else _read(place.read_bytes(), str(path), target)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from None
    return _data(read, place.name, {"dataset": "series", "path": str(place), "target": target})


def _data(read: _Read, title: str, settings: dict[str, object]) -> TensorData:
    values, written, names = read
    known, labels = numbered([label or None for label in written])
    given = labels if known else None
    data = TensorData(values, given, kind=Series.kind, names=names, label_names=known, title=title)
    data._settings = settings
    return data


def _read(content: bytes, name: str, target: str) -> _Read:
    """The series in the content of a file called ``name``, whose suffix says how it is read."""
    suffix = Path(name).suffix.lower()
    if suffix == ".wav":
        return _wav(io.BytesIO(content), name)[0][None], [""], [Path(name).name]
    if suffix == ".npz":
        return _npz(content, name)
    if suffix not in (".ts", *_TABLES):
        raise InputError(
            f"{name} is not a file of series: expected .ts, .csv, .npz, .wav, or a folder of .wav files"
        )
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{name} cannot be read as text in UTF-8: {error}") from None
    if suffix == ".ts":
        return _ts(text, name)
    header, rows = table_rows(text, "\t" if suffix == ".tsv" else ",", name)
    read = _sensors if header[0].strip().lower() in _TIMES else _csv
    return read(header, rows, name, target)


def _ts(text: str, path: str) -> _Read:
    lines = [line.strip() for line in text.splitlines()]
    header = [line.lower().split() for line in lines if line.startswith("@")]
    labelled = any(words[0] == "@classlabel" and words[1:2] == ["true"] for words in header)
    if any(words[0] == "@timestamps" and words[1:2] == ["true"] for words in header):
        raise InputError(f"{path} has time stamps; only .ts files with evenly spaced values are read")
    starts = [k for k, line in enumerate(lines) if line.lower() == "@data"]
    if not starts:
        raise InputError(f"{path} has no line @data, so it is not a .ts file")
    found, labels = [], []
    for number, line in enumerate(lines[starts[0] + 1 :], starts[0] + 2):
        if not line or line.startswith("#"):
            continue
        *channels, label = line.split(":") if labelled else [*line.split(":"), ""]
        found.append([_numbers(channel.split(","), f"line {number} of {path}") for channel in channels])
        labels.append(label.strip())
    return _together(found, path), labels, None


def _place_of(target: str, header: list[str], path: str) -> int | None:
    """The index of the column of labels; None if there is none."""
    if target and target not in header:
        raise InputError(
            f"target is {target!r}, but {path} has no such column; it has {', '.join(header[:8])}"
        )
    return header.index(target) if target else None


def _sensors(header: list[str], rows: list[tuple[int, list[str]]], path: str, target: str) -> _Read:
    """One series: the first column has the times, and every other one is a channel."""
    at = _place_of(target, header, path)
    labels = {row[at].strip() for _, row in rows} if at is not None else {""}
    if len(labels) > 1:
        raise InputError(
            f"{path} is one series, as its first column is {header[0]!r}, but the column {target!r} has {len(labels)} labels; write a file for each "
            "series, or a series in each row"
        )
    channels = [
        _numbers([row[k] for _, row in rows], f"the column {name!r} of {path}")
        for k, name in enumerate(header)
        if k not in (0, at)
    ]
    if not rows or not channels:
        raise InputError(
            f"{path} needs rows below its first one, and a column of values beside {header[0]!r}"
        )
    return np.array(channels, dtype=np.float32)[None], [*labels], [Path(path).name]


def _csv(header: list[str], rows: list[tuple[int, list[str]]], path: str, target: str) -> _Read:
    Column.check_header([name for name in header if name != target], path)
    at = _place_of(target, header, path)
    found, labels = [], []
    for number, row in rows:
        labels.append("" if at is None else row[at].strip())
        found.append([_numbers([v for k, v in enumerate(row) if k != at], f"line {number} of {path}")])
    if not found:
        raise InputError(f"{path} has no series below its first row, which names the columns")
    return _together(found, path), labels, None


def _npz(content: bytes, path: str) -> _Read:
    arrays = arrays_in(io.BytesIO(content), path)
    values = arrays.get("series", np.zeros(0))
    if values.ndim not in (2, 3) or values.dtype.kind not in "fiub":
        raise InputError(
            f"{path} needs an array series (N, C, T) or (N, T) of numbers; it has {', '.join(arrays) or 'none'}"
        )
    labels = [str(label) for label in arrays.get("labels", np.array([])).tolist()]
    return (values if values.ndim == 3 else values[:, None]).astype(np.float32), labels, None


def _folder(folder: Path, target: str) -> _Read:
    """The series in the files of a folder, one in each: sounds, or the values of sensors."""
    files = sorted(folder.rglob("*.wav"))
    if not files:
        return _sensor_files(folder, target)
    read = [_wav(file, str(file)) for file in files]
    rates = {rate for _, rate in read}
    if len(rates) > 1:
        raise InputError(
            f"{folder} has sound of different sampling rates ({', '.join(map(str, sorted(rates)))} per second)"
        )
    return _one_in_each(folder, files, [values for values, _ in read])


def _sensor_files(folder: Path, target: str) -> _Read:
    files = sorted(file for end in _TABLES for file in folder.rglob(f"*{end}"))
    read = [_read(file.read_bytes(), str(file), target) for file in files]
    several = next((file for file, (values, _, _) in zip(files, read, strict=True) if len(values) > 1), None)
    if several is not None or not read:
        what = (
            f"{several.name}, which has several series; name that file"
            if several
            else "no .wav or .csv files"
        )
        raise InputError(f"the folder {folder} has {what}")
    found = _one_in_each(folder, files, [values[0] for values, _, _ in read])
    return found[0], [own or label for (_, (own,), _), label in zip(read, found[1], strict=True)], found[2]


def _one_in_each(folder: Path, files: Sequence[Path], series: Sequence[NDArray[np.float32]]) -> _Read:
    """Series that are each in a file of a folder; names of sub-folders are labels."""
    names = [str(file.relative_to(folder)) for file in files]
    labels = [file.parent.name if file.parent != folder else "" for file in files]
    return _together([values.tolist() for values in series], str(folder), names), labels, names


def _wav(content: Path | io.BytesIO, path: str) -> tuple[NDArray[np.float32], int]:
    """The samples ``(C, T)`` of a WAV file with whole-number samples, from -1 to 1, and the sampling rate."""
    try:
        with wave.open(content if isinstance(content, io.BytesIO) else str(content), "rb") as file:
            channels, width, rate, count = file.getparams()[:4]
            read = file.readframes(count)
    except (OSError, EOFError, wave.Error, RuntimeError) as error:
        # RuntimeError: a part is longer than the file
        reason = str(error) or "it is cut off or damaged"
        raise InputError(f"{path} cannot be read as a WAV file of whole numbers: {reason}") from None
    raw = np.frombuffer(read, np.uint8).reshape(-1, width)
    wide = np.zeros((len(raw), 4), np.uint8)
    wide[:, 4 - width :] = raw ^ 128 if width == 1 else raw  # samples of 8 bits have no sign
    samples = (wide.view("<i4") / 2.0**31).astype(np.float32)
    return np.ascontiguousarray(samples.reshape(-1, channels).T), rate


def _numbers(fields: Sequence[str], where: str) -> list[float]:
    missing = next((k for k, field in enumerate(fields) if field.strip().lower() in _MISSING), None)
    if missing is not None:
        raise InputError(f"{where} has no value at time step {missing}; fill in missing values first")
    try:
        return [float(field) for field in fields]
    except ValueError as error:
        raise InputError(
            f"{where} is not a series of numbers: {error}; name a column of labels with --target COLUMN, or ?target=COLUMN after the file"
        ) from None


def _together(
    found: Sequence[Sequence[Sequence[float]]], path: str, names: Sequence[str] = ()
) -> NDArray[np.float32]:
    shapes = [tuple(len(channel) for channel in series) for series in found]
    if not shapes:
        raise InputError(f"{path} has no series")
    odd = next((k for k, shape in enumerate(shapes) if shape != shapes[0] or len(set(shape)) > 1), None)
    if odd is not None:
        name = names[odd] if names else f"series {odd}"
        raise InputError(
            f"{name} of {path} has channels of {', '.join(map(str, shapes[odd]))} time steps, but series 0 has "
            f"{', '.join(map(str, shapes[0]))}; cut or pad the series to one length"
        )
    return np.array(found, dtype=np.float32)
