"""Commands that write: a run that is killed and continued, its audit and comparison, recipes."""

from __future__ import annotations

import contextlib
import io
import os
import re
import runpy
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from PIL import Image

import proofmap as pm
from tests.golden import nets, record

ROOT = Path(__file__).parents[2]
DEADLY = '''
import os, signal, sys
sys.path.insert(0, {root!r})
import proofmap as pm
from tests.golden import nets

DEADLINE = {folder!r} + "/deadline"
NET = nets.conv_net()


def mortal(images):
    """The net. It kills its process at the pass that a file names."""
    if os.path.exists(DEADLINE):
        with open(DEADLINE) as file:
            left = int(file.read()) - 1
        with open(DEADLINE, "w") as file:
            file.write(str(left))
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
    return NET(images)


def net():
    return pm.Classifier(mortal, size=(8, 10), mean=nets.MEAN, std=nets.STD, batch_size=64)


def study():
    return pm.Study(
        model={folder!r} + "/nets.py:net",
        data=[{folder!r} + "/photos"],
        methods=["occlusion:window=3", "learned-mask:steps=4,scale=2,fill=noise", "random"],
        metrics=["completeness:points=8", "soundness:points=8", "insertion:points=8"],
        labels="top2",
        maps="float32",
        images_per_unit=2,
    )


if __name__ == "__main__":
    pm.run_study(study(), {folder!r} + "/run", device="cpu")
'''


def printed(*arguments: str) -> tuple[object, str, str]:
    """The exit code of a command, and what it prints on a terminal of 100 columns and to stderr."""
    import proofmap_command

    out, err, handler = io.StringIO(), io.StringIO(), signal.getsignal(signal.SIGINT)
    code: object = 0
    with (
        mock.patch.object(sys, "argv", ["proofmap", *arguments]),
        mock.patch.dict(os.environ, {"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb"}),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            proofmap_command.main()
        except SystemExit as stop:
            code = stop.code or 0
        finally:
            signal.signal(signal.SIGINT, handler)
    return code, out.getvalue(), err.getvalue()


def killed_and_resumed(folder: Path) -> Any:
    """A run of six photos by three methods that is killed in the middle, and continued in this process."""
    photos = (255 * nets.photos(6, seed=21)).round().byte().permute(0, 2, 3, 1).numpy()
    for k, photo in enumerate(photos):
        (folder / "photos" / str(k % 2)).mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.ascontiguousarray(photo)).save(folder / "photos" / str(k % 2) / f"{k}.png")
    script, out = folder / "nets.py", folder / "run"
    script.write_text(DEADLY.format(root=str(ROOT), folder=str(folder)), encoding="utf-8")
    (folder / "deadline").write_text("60")
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    child = subprocess.run(
        [sys.executable, str(script)],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert child.returncode == -signal.SIGKILL, child.stderr
    (folder / "deadline").unlink()
    study = runpy.run_path(str(script))["study"]()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        continued = pm.run_study(study, out, device="cpu")
    assert 0 < continued.units < 9, f"{continued.units} units of 9 were left"
    refused = text_of(lambda: pm.run_study(replace(study, seed=1), out, device="cpu"))
    with pm.Run(out) as run:
        found = run.evaluation(pictured=6)
    return {
        "units again": pm.run_study(study, out, device="cpu").units,
        "another seed": refused.replace(str(folder), "FOLDER"),
        "images": [Path(name).name for name in found.image_names],
        "run": record.of(found),
    }


def text_of(mistake: Callable[[], object]) -> str:
    """The message of the error that the mistake raises, without the names of all that there is, which come and go."""
    try:
        mistake()
    except pm.ProofmapError as error:
        return without_lists(f"{type(error).__name__}: {error}")
    return "no error"


def without_lists(text: str) -> str:
    return re.split(r" (?:Known are|Its settings are): ", text)[0]


def recipes(folder: Path) -> Any:
    """The recipes that need no data and no net: what they print, without times, places and figures."""
    found = {}
    for name, options in (("desk", ()),):
        code, out, _ = printed("reproduce", name, "--out", str(folder / name), "--quiet", *options)
        lines = [line.strip() for line in out.splitlines() if line.strip()]
        kept = [line for line in lines if not re.search(r" end to end|^written to|^Open ", line)]
        found[name] = [code, *(" ".join(line.split()) for line in kept)]
    return found
