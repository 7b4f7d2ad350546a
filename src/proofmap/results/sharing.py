"""Removes the folders of this machine from results, so that they can be shared."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import PurePosixPath, PureWindowsPath

from proofmap.core.files import distinct_names
from proofmap.results.evaluation import Evaluation
from proofmap.results.records import MethodResult

_SCHEME = r"[A-Za-z][\w+.-]{1,20}://"  # two letters at least: C: is a drive; bounded, so that long words take linear time
_START = rf"(?:{_SCHEME}(?:/(?=/))?)?(?:~|[A-Za-z]:)?[/\\]"  # also file:/// and sqlite:///
_QUOTED = re.compile(rf"(['\"])({_START}[^'\"\n]*)\1")
_ADDRESS = "|".join(
    (
        rf"(?!file:){_SCHEME}[^\s/'\"<>,;|][^\s'\"<>,;|]*",
        r"(?<![\w./\\-])/api(?:/[a-z]+)*(?![\w/-]|\.\w)",
        r"(?<=url: )/[^\s'\"]*",  # as requests writes it
    )
)
_BARE = re.compile(
    rf"(?P<address>{_ADDRESS})|(?<![\w./\\<-]){_START}[^\s/\\'\"():;,<>|]+(?:[/\\][^\s/\\'\"():;,<>|]+)*[/\\]?"
)
_ABSOLUTE = re.compile(rf"{_START}.*[^/\\]", re.DOTALL)


def without_folders(text: str) -> str:
    """The text with every absolute path in it cut to its last part.

    Relative paths, addresses (``https://...``) and addresses of Proofmap's server (``/api/...``) stay as they are.

    >>> without_folders(
    ...     "evaluate --data '/home/anna/my photos' --model /home/anna/net.py:make --out runs/first"
    ... )
    "evaluate --data 'my photos' --model net.py:make --out runs/first"
    """
    text = _QUOTED.sub(lambda found: f"{found[1]}{_last_part(found[2])}{found[1]}", text)
    return _BARE.sub(lambda found: found["address"] or _last_part(found[0]), text)


def _last_part(path: str) -> str:
    kind = PureWindowsPath if "\\" in path else PurePosixPath
    return kind(path).name


def shared_names(names: Sequence[str]) -> list[str]:
    """The names without their folders. Names that become equal are made distinct."""
    return distinct_names([without_folders(name) for name in names])


def shared_settings(settings: Mapping[str, object]) -> dict[str, object]:
    """The settings with folders removed from all texts. Other values stay as they are."""
    return {key: _shared_value(value) for key, value in settings.items()}


def _shared_value(value: object) -> object:
    if isinstance(value, str):
        return without_folders(value)
    if isinstance(value, Mapping):
        return shared_settings(value)
    if isinstance(value, (list, tuple)):
        return type(value)(map(_shared_value, value))
    return value


def shared(evaluation: Evaluation) -> Evaluation:
    """The evaluation with folders removed from the names of methods and images and from settings. No number changes."""
    images = evaluation.image_names
    if any(_ABSOLUTE.match(name) for name in images):
        images = tuple(distinct_names([_last_part(n) if _ABSOLUTE.match(n) else n for n in images]))
    names = shared_names([result.name for result in evaluation.results])
    return evaluation.replaced(
        results=tuple(_shared_result(r, n, images) for r, n in zip(evaluation.results, names, strict=True)),
        image_names=images,
        settings=shared_settings(evaluation.settings),
    )


def _shared_result(result: MethodResult, name: str, images: Sequence[str]) -> MethodResult:
    curves = vars(result)["insertion"]  # arrays, or curves that were read
    return result.replaced(
        name=name,
        settings=shared_settings(result.settings),
        scores=tuple(replace(s, settings=shared_settings(s.settings)) for s in result.scores),
        insertion=type(curves)(**{**vars(curves), "settings": shared_settings(curves.settings)}),
        image_names=images,
    )
