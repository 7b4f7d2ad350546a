"""A record is a row of the leaderboard: a JSON file with the values of every image, and everything that the values depend on.

| entry | what it is |
|---|---|
| ``bench``, ``task``, ``task_digest`` | the version of the benchmark, the task, and the digest of its settings |
| ``method`` | name, spec, settings as the run recorded them, and the files of the user's that it comes from |
| ``net`` | the digest of the net's weights |
| ``images`` | name, digest, judged labels and their probabilities f, in the order of the values |
| ``metrics`` | each score's kind, direction, limits and settings |
| ``values`` | by score, one value for each image; null where an image does not count |
| ``passes`` | passes of the net that the method takes for one image |
| ``seconds`` | time for all images, judging included |
| ``machine`` | versions and device |
| ``check`` | who recomputed what, added by ``submit`` |
| ``digest`` | of all entries but ``check`` |
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from proofmap.core.errors import InputError
from proofmap.core.files import check_ends, digest_of, file_name, parse_json, write_text
from proofmap.results.statistics import Doubles

_DIGITS = 6
_SHARE = 0.1


@dataclass(frozen=True, kw_only=True)
class Record:
    """The contents of a record. The docstring of the module describes the entries."""

    bench: str
    task: str
    task_digest: str
    method: Mapping[str, Any]
    net: str
    images: Sequence[Mapping[str, Any]]
    metrics: Mapping[str, Mapping[str, Any]]
    values: Mapping[str, Sequence[float | None]]
    passes: int
    seconds: float
    machine: Mapping[str, Any]
    check: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def read(cls, path: str | Path) -> Record:
        """Read the record in a file. Raises if the file is not a record, or was edited after it was written."""
        path = Path(path)
        try:
            check_ends(path)
            content = parse_json(path.read_text(encoding="utf-8"))
            digest = content.pop("digest")
            record = cls(**content)
            record._check_form()
        except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
            reason: object = error.strerror if isinstance(error, OSError) else error
            if isinstance(error, KeyError):
                reason = f"it has no {error}"
            raise InputError(
                f"{path} is not a record of proofmap bench run: {reason}. Name the .json file that it wrote"
            ) from None
        if record.digest != digest:
            raise InputError(
                f"{path} was edited after it was written: its digest is not that of its contents. Run the task again, and submit the "
                "record as it is"
            )
        return record

    def _check_form(self) -> None:
        """Raise a ValueError if entries have wrong types or do not fit one another."""
        method = {"name": str, "spec": str, "settings": dict, "label_free": bool, "files": dict}
        for key, kind in method.items():
            if not isinstance(self.method[key], kind):
                raise ValueError(f"{key} of its method is no {kind.__name__}")
        if not all(isinstance(text, str) for text in self.method["files"].values()):
            raise ValueError("the files of its method are no texts")
        if not all(isinstance(self.machine[key], str) for key in ("device", "device_name")):
            raise ValueError("the device of its machine is no text")
        if not isinstance(self.passes, int) or not isinstance(self.seconds, int | float):
            raise ValueError("its passes or seconds are no number")
        if self.passes < 0 or not self.seconds >= 0:
            raise ValueError("its passes or seconds are negative")
        if not self.images or not self.values or {*self.values} != {*self.metrics}:
            raise ValueError("it has no images or values, or values without a metric")
        for name, column in self.values.items():
            if len(column) != len(self.images):
                raise ValueError(f"{name} has {len(column)} values for {len(self.images)} images")
            numbers = [value for value in column if value is not None]
            if not all(isinstance(value, int | float) and math.isfinite(value) for value in numbers):
                raise ValueError(f"{name} has a value that is not a number")

    @property
    def name(self) -> str:
        return str(self.method["name"])

    @property
    def digest(self) -> str:
        """A digest of all entries except ``check``."""
        content = {key: value for key, value in vars(self).items() if key != "check"}
        return digest_of(json.dumps(content, sort_keys=True))

    @staticmethod
    def images_digest(images: Sequence[Mapping[str, Any]]) -> str:
        """A digest of the names and contents of images, in their order."""
        return digest_of(json.dumps([[image["name"], image["digest"]] for image in images]))

    def text(self) -> str:
        """The record as JSON text, with the values of each score on one line."""
        content = {**vars(self), "digest": self.digest}
        parts = [f' "{key}": {_json(key, value)}' for key, value in content.items()]
        return "{\n" + ",\n".join(parts) + "\n}\n"

    @property
    def fewest_checked(self) -> int:
        """The number of images that are computed again before the record is added: a tenth, at least one."""
        return max(1, math.ceil(_SHARE * len(self.images)))

    @property
    def file(self) -> str:
        """The name of the record's file."""
        return f"{file_name(self.name)}.json"

    def write(self, path: Path) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, self.text())
        return path

    def array(self, score: str) -> Doubles:
        """The values ``(N,)`` of a score; NaN where an image does not count."""
        return np.array([math.nan if value is None else float(value) for value in self.values[score]])

    def settings_named(self, key: str) -> set[str]:
        """All texts under this key in the settings of the method, however deep."""
        return _values_of(key, self.method["settings"])


def _values_of(key: str, settings: Any) -> set[str]:
    """All texts under this key in nested settings.

    >>> sorted(_values_of("fill", {"fills": [{"fill": "gray"}, {"fill": "images", "size": 256}]}))
    ['gray', 'images']
    """
    if isinstance(settings, Mapping):
        own = settings.get(key)
        found = {own} if isinstance(own, str) else set()
        return found.union(*(_values_of(key, value) for value in settings.values()))
    several = settings if isinstance(settings, list | tuple) else ()
    return set().union(*(_values_of(key, value) for value in several))


def rounded(values: Sequence[float]) -> list[float | None]:
    """Values rounded for a record: six decimals, None for NaN.

    >>> rounded([0.12345678, float("nan")])
    [0.123457, None]
    """
    return [None if math.isnan(value) else round(value, _DIGITS) for value in values]


def _json(key: str, value: Any) -> str:
    if key in ("images", "values", "metrics"):
        entries = value.items() if isinstance(value, Mapping) else enumerate(value)
        lines = [
            (f'"{name}": ' if isinstance(value, Mapping) else "") + json.dumps(one) for name, one in entries
        ]
        opening, closing = "{}" if isinstance(value, Mapping) else "[]"
        return opening + "\n  " + ",\n  ".join(lines) + "\n " + closing
    return json.dumps(value, sort_keys=True)
