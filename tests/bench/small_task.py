"""The benchmark's tasks with a smaller one: four pictures of ``smoke``, and two fills."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import torch

from proofmap.bench import nets, task
from proofmap.bench.record import Record
from proofmap.data.dataset import random_choice
from proofmap.data.specs import open_data

PACKAGE = Path(task.__file__).parent


def write_tasks(place: Path, name: str = "mini") -> Path:
    """The folder of a copy of the tasks, where the small one has this name."""
    shutil.copytree(PACKAGE / "tasks", place / "tasks")
    shutil.copy(PACKAGE / "nets.py", place / "nets.py")
    text = (place / "tasks" / "smoke.toml").read_text()
    text = (
        text.replace("number = 10", "number = 4").replace('"gray", "blur"', '"gray"').replace('"noise", ', "")
    )
    digest = Record.images_digest(first_images(4))
    lines = [f'digest = "{digest}"' if line.startswith("digest") else line for line in text.splitlines()]
    (place / "tasks" / f"{name}.toml").write_text("\n".join(lines))
    return place / "tasks"


def first_images(number: int) -> list[dict[str, Any]]:
    """Names and digests of the first pictures of the task smoke, as its rule chooses them, by a loop of its own."""
    classifier, data = nets.smoke(), open_data(f"npz:{PACKAGE / 'tasks' / 'smoke.npz'}")
    found: list[dict[str, Any]] = []
    for i in random_choice(data.names, len(data), seed=1):
        image = torch.from_numpy(np.array(data.read(i))).permute(2, 0, 1)[None].float() / 255
        second = classifier.probabilities(image).sort(dim=1, descending=True).values[0, 1]
        if second >= 0.1:
            found.append({"name": data.names[i], "digest": data.digest(i)})
        if len(found) == number:
            break
    return found
