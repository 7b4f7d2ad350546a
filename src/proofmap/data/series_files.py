"""Series in files: the .ts format of aeon and sktime, CSV, NumPy, and sound as WAV files."""

from __future__ import annotations

import csv
import io
import os
import wave
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from proofmap.core.errors import InputError
from proofmap.core.files import suggest_path
from proofmap.core.inputs import Series
from proofmap.data.tables import text_of
from proofmap.data.tensors import TensorData

_MISSING = ("", "?", "nan")


@dataclass(frozen=True)
class _Read:
    """Series ``(N, C, T)``, the label of each as written ("" if unknown), and names if the file has any."""

    values: NDArray[np.float32]
    labels: Sequence[str] = ()
    names: Sequence[str] | None = None


class SeriesFile(TensorData):
    """Series of a file, held in memory; ``rate`` is the number of time steps per second of sound, otherwise None."""

    def __init__(
        self, read: _Read, *, title: str, settings: dict[str, object], rate: float | None = None
    ) -> None:
        known = sorted({label for label in read.labels if label})
        places = {label: k for k, label in enumerate(known)}
        labels = [places.get(label, -1) for label in read.labels] if known else None
        super().__init__(
            read.values, labels, kind=Series.kind, names=read.names, label_names=known, title=title
        )
        self._settings, self.rate = settings, rate


def series_file(path: str | Path, *, target: str = "") -> SeriesFile:
    """The series of a file, by its suffix.

    - ``.ts``: as aeon and sktime write it; labels follow the last colon.
    - ``.csv``, ``.tsv``: one series of one channel in each row, a time step in each column; ``target`` is the column of labels.
    - ``.npz``: ``series`` ``(N, C, T)`` or ``(N, T)``, and ``labels``, integers or text.
    - ``.wav``, or a folder of them: sound from -1 to 1; in a folder with sub-folders these are the labels.

    All series must have the same length. Missing values are refused.
    """
    place = Path(os.path.abspath(path))
    if not place.exists():
        raise InputError(f"there is no file {path}.{suggest_path(path)}")
    suffix = place.suffix.lower()
    rate = None
    if place.is_dir() or suffix == ".wav":
        read, rate = _sounds(place)
    elif suffix == ".ts":
        read = _ts(place)
    elif suffix in (".csv", ".tsv"):
        read = _csv(place, target)
    elif suffix == ".npz":
        read = _npz(place)
    else:
        raise InputError(
            f"{path} is not a file of series: expected .ts, .csv, .npz, .wav, or a folder of .wav files"
        )
    if target and suffix not in (".csv", ".tsv"):
        raise InputError(
            f"target names a column of a CSV file, but {path} is not a CSV file; leave target out"
        )
    return SeriesFile(
        read,
        title=place.name,
        settings={"dataset": "series", "path": str(place), "target": target},
        rate=rate,
    )


def _ts(path: Path) -> _Read:
    lines = [line.strip() for line in text_of(path).splitlines()]
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
    return _Read(_together(found, path), labels)


def _csv(path: Path, target: str) -> _Read:
    text = text_of(path)
    rows = [
        row for row in csv.reader(io.StringIO(text), delimiter="\t" if path.suffix == ".tsv" else ",") if row
    ]
    if len(rows) < 2:
        raise InputError(f"{path} has no series below its first row, which names the columns")
    header, *rest = rows
    at = header.index(target) if target in header else None
    if target and at is None:
        raise InputError(
            f"target is {target!r}, but {path} has no such column; it has {', '.join(header[:8])}"
        )
    found, labels = [], []
    for number, row in enumerate(rest, 2):
        if len(row) != len(header):
            raise InputError(
                f"line {number} of {path} has {len(row)} fields, but {len(header)} columns are named"
            )
        labels.append("" if at is None else row[at].strip())
        found.append([_numbers([v for k, v in enumerate(row) if k != at], f"line {number} of {path}")])
    return _Read(_together(found, path), labels)


def _npz(path: Path) -> _Read:
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays: dict[str, NDArray[Any]] = {name: file[name] for name in file.files}
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read: {error}") from None
    if "series" not in arrays or arrays["series"].ndim not in (2, 3):
        raise InputError(
            f"{path} needs an array series (N, C, T) or (N, T); it has {', '.join(arrays) or 'none'}"
        )
    values = arrays["series"]
    labels = [str(label) for label in arrays.get("labels", np.array([])).tolist()]
    return _Read((values if values.ndim == 3 else values[:, None]).astype(np.float32), labels)


def _sounds(place: Path) -> tuple[_Read, float]:
    files = [place] if place.is_file() else sorted(place.rglob("*.wav"))
    if not files:
        raise InputError(f"the folder {place} has no .wav files")
    read = [_wav(file) for file in files]
    rates = {rate for _, rate in read}
    if len(rates) > 1:
        raise InputError(
            f"{place} has sound of different sampling rates ({', '.join(map(str, sorted(rates)))} per second)"
        )
    names = [file.name if place.is_file() else str(file.relative_to(place)) for file in files]
    labels = [file.parent.name if file.parent != place and not place.is_file() else "" for file in files]
    return _Read(_together([values.tolist() for values, _ in read], place, names), labels, names), float(
        rates.pop()
    )


def _wav(path: Path) -> tuple[NDArray[np.float32], int]:
    """The samples ``(C, T)`` of a WAV file with whole-number samples, from -1 to 1, and the sampling rate."""
    try:
        with wave.open(str(path), "rb") as file:
            channels, width, rate, count = file.getparams()[:4]
            content = file.readframes(count)
    except (
        OSError,
        EOFError,
        wave.Error,
        RuntimeError,
    ) as error:  # RuntimeError: a part is longer than the file
        reason = str(error) or "it is cut off or damaged"
        raise InputError(f"{path} cannot be read as a WAV file of whole numbers: {reason}") from None
    if width == 1:  # unsigned
        samples = (np.frombuffer(content, np.uint8).astype(np.float32) - 128) / 128
    elif width == 3:
        low = np.frombuffer(content, np.uint8).reshape(-1, 3).astype(np.int32)
        joined = low[:, 0] | (low[:, 1] << 8) | (low[:, 2] << 16)
        samples = (np.where(joined >= 2**23, joined - 2**24, joined) / 2.0**23).astype(np.float32)
    else:
        samples = (np.frombuffer(content, f"<i{width}") / 2.0 ** (8 * width - 1)).astype(np.float32)
    return np.ascontiguousarray(samples.reshape(-1, channels).T), rate


def _numbers(fields: Sequence[str], where: str) -> list[float]:
    missing = next((k for k, field in enumerate(fields) if field.strip().lower() in _MISSING), None)
    if missing is not None:
        raise InputError(f"{where} has no value at time step {missing}; fill in missing values first")
    try:
        return [float(field) for field in fields]
    except ValueError as error:
        raise InputError(f"{where} is not a series of numbers: {error}") from None


def _together(
    found: Sequence[Sequence[Sequence[float]]], path: Path, names: Sequence[str] = ()
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
