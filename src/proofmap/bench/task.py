"""A task is a TOML file of this package. It states the data, net, labels and fills, and how many passes a method may take. For example:

title = "Photos on which the net hesitates"
kind = "pictures"                # what is judged, in the plural
budget = 5000                    # passes of the net that a method may take for one image, all its labels together

[data]
source = "where the data comes from, and under which licence"
digest = "..."                   # of the names and contents of the images that are judged

[net]                            # optional: for a net that another package brings
digest = "..."                   # of its weights

[[needs]]                        # as in recipes: what must be there
path = "imagenet_val"            # below the folder of --data
what = "..."

[fills]
learned = ["gray", "blur"]       # methods may learn on these
unseen = ["noise", "images"]     # maps are judged on these as well; a method that learns on one is marked

[study]                          # as in a study file; {data} is the folder of --data, {tasks} the folder of this file

Every task is judged by :data:`METRICS`, once with each fill.

An installed package adds a task by an entry point in the group ``proofmap.tasks``, which names the path of such a file::

    [project.entry-points."proofmap.tasks"]
    my-task = "my_package:TASK"     # TASK = Path(__file__).parent / "my-task.toml"
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import entry_points
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from proofmap.core.errors import InputError
from proofmap.core.files import digest_of
from proofmap.core.text import check_known
from proofmap.reproduce.recipe import Need, placed

if TYPE_CHECKING:
    from proofmap.study import Study

VERSION = "proofbench-1"
METRICS = (
    "completeness",
    "soundness",
    "best-effort",
    "steadiness",
    "peak-soundness",
    "reach",
    "insertion",
    "deletion",
)


@dataclass(frozen=True, kw_only=True)
class Task:
    """One task. ``settings`` are the settings of its study, without the method."""

    name: str
    title: str
    kind: str
    budget: int
    source: str
    data_digest: str
    net_digest: str
    """A digest of the net's weights, or empty if the task does not state one."""
    needs: tuple[Need, ...]
    learned: tuple[str, ...]
    unseen: tuple[str, ...]
    settings: Mapping[str, Any]
    folder: str
    """The folder of its file."""

    @classmethod
    def named(cls, name: str) -> Task:
        """The task with this name, of this package or of another one that is installed."""
        known = _own_files()
        if name not in known:  # to look for other packages takes long
            known = _files()
            check_known("task", name, known)
        file = known[name]
        try:
            table = tomllib.loads(file.read_text(encoding="utf-8"))
            return cls(
                name=name,
                folder=str(file.parent),
                title=table["title"],
                kind=table["kind"],
                budget=table["budget"],
                source=table["data"]["source"],
                data_digest=table["data"]["digest"],
                net_digest=table.get("net", {}).get("digest", ""),
                needs=tuple(Need(**need) for need in table.get("needs", ())),
                learned=tuple(table["fills"]["learned"]),
                unseen=tuple(table["fills"]["unseen"]),
                settings=table["study"],
            )
        except (OSError, ValueError) as error:
            raise InputError(f"the task {name} cannot be read from {file}: {error}") from None
        except KeyError as error:
            raise InputError(f"the task {name} does not state {error}") from None

    @staticmethod
    def names() -> list[str]:
        """The names of all tasks, the smallest first."""
        return sorted(_files(), key=lambda name: (name != "smoke", name))

    @property
    def fills(self) -> tuple[str, ...]:
        return (*self.learned, *self.unseen)

    @property
    def digest(self) -> str:
        """A digest of everything that the values of the task depend on."""
        stated = [VERSION, self.budget, self.data_digest, self.learned, self.unseen, METRICS, self.settings]
        stated += [self.net_digest] if self.net_digest else []
        return digest_of(json.dumps(stated, sort_keys=True))

    def missing(self, data: Path) -> list[Need]:
        return [need for need in self.needs if not need.is_there(data)]

    def check_needs(self, data: Path) -> None:
        """Raise if something that the task needs is missing. The message says what to supply."""
        missing = self.missing(data)
        if missing:
            raise Need.error(f"the task {self.name}", missing, data)

    def study(
        self, spec: str, name: str, data: Path, images: Sequence[str] = (), *, maps: bool = False
    ) -> Study:
        """The study that judges one method on the task. If ``images`` has names, only on these images of the task."""
        from proofmap.study import Study

        table = placed(dict(self.settings), {"tasks": self.folder, "data": str(data)})
        if images:
            table["images"] = {**table.get("images", {}), "names": list(images), "number": None}
        method = {"method": spec, "name": name}
        return Study.from_table(
            {
                **table,
                "methods": [method],
                "metrics": METRICS,
                "fills": self.fills,
                "maps": "float16" if maps else "none",
            }
        )


def _files() -> dict[str, Path]:
    """The files of all tasks by name. Another package cannot replace a task of this one."""
    installed = {point.name: Path(point.load()) for point in entry_points(group="proofmap.tasks")}
    return installed | _own_files()


def _own_files() -> dict[str, Path]:
    return {file.stem: file for file in _folder().glob("*.toml")}


def _folder() -> Path:
    return Path(str(files("proofmap") / "bench" / "tasks"))
