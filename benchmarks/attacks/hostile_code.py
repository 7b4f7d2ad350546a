"""Judge methods and metrics of a user's own that do what none should, and see what is said and whether anything is lost.

    python -m benchmarks.attacks.hostile_code                     # every case
    python -m benchmarks.attacks.hostile_code wanders mute        # some

Each case is a run of the command line in a process of its own, with ``gradient`` beside the hostile code. For each, the exit code and what was
said are printed. Wrong are: a traceback, a process that a signal ended, no message where one is due, results of ``gradient`` that are lost
or differ from those of a run without hostile code, and files in another folder. Exit code 1 if a case is wrong.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

import torch

from proofmap import cli
from tests.study.studies import facts, net_file, photos

METHODS = {
    "wanders": "os.chdir(ELSEWHERE); return bright(images, labels)",
    "shouts": "raise ValueError('a' * 10**6)",
    "cuts": "raise ValueError('half of \\ud83d a pair')",
    "mute": "raise Mute",
    "colours": "raise ValueError('\\x1b[2Jgone\\r\\n\\x07')",
    "leaves": "sys.exit(0)",
    "dives": "return dives(classifier, images, labels)",
    "hungers": "raise MemoryError",
    "nothing": "return None",
    "text": "return 'maps'",
    "misshapen": "return images[:, :, :3, :3, None]",
    "ragged": "return [[1.0], [1.0, 2.0]]",
    "objects": "return np.full((*labels.shape, 8, 8), {}, dtype=object)",
    "nan": "return bright(images, labels) * float('nan')",
    "unordered": "return images[:, :1].expand(-1, labels.shape[1], -1, -1) * torch.arange(1.0, 1 + labels.shape[1]).view(1, -1, 1, 1)",
    "scribbles": "images.zero_(); labels.zero_(); return bright(images, labels)",
    "switches": "torch.set_grad_enabled(False); torch.manual_seed(0); return bright(images, labels)",
    "widens": "torch.set_default_dtype(torch.float64); return bright(images, labels)",
    "threads": "torch.set_num_threads(2); return bright(images, labels)",
    "trains": "[p.detach().add_(1) for p in classifier.net.parameters()]; return bright(images, labels)",
}
"""The body of a method ``(classifier, images, labels)``, by its name."""
SILENT = ("wanders", "scribbles", "switches", "widens", "threads")
"""Cases that give maps, and do no harm."""
CHANGES_NET = ("trains",)
"""Cases after which nothing more may be computed: what ``gradient`` has is kept, and its other images are refused."""
HEAD = """
import os, sys
import numpy as np
import torch

ELSEWHERE = {elsewhere!r}

class Mute(Exception):
    def __str__(self):
        raise ValueError("no text")

def bright(images, labels):
    return images[:, :1] * (1 + labels[:, :, None, None])
"""


def code(elsewhere: Path) -> str:
    """The file with all methods."""
    made = [f"def {name}(classifier, images, labels):\n    {body}\n" for name, body in METHODS.items()]
    return HEAD.format(elsewhere=str(elsewhere)) + "\n\n" + "\n\n".join(made)


def judged(folder: Path, methods: str, out: str) -> tuple[int, str]:
    """Evaluate the methods in a process of their own, in this folder: its exit code, negative for a signal, and what it printed."""
    with (folder / f"{out}.txt").open("w+b") as printed:
        child = os.fork()
        if not child:
            os.chdir(folder)
            os.dup2(printed.fileno(), 1)
            os.dup2(printed.fileno(), 2)
            asked = ["--model", "net.py:make", "--data", "photos", "--labels", "top3", "--methods", methods]
            settings = ["--images-per-unit", "2", "--no-pictures", "--threads", "1", "--out", out]
            sys.argv = ["proofmap", "evaluate", *asked, *settings]
            code: Any = 1
            try:
                cli.main()
                code = 0
            except SystemExit as stop:
                code = stop.code or 0
            except BaseException:
                traceback.print_exc()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code if isinstance(code, int) else 1)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        printed.seek(0)
        return status, printed.read().decode(errors="backslashreplace")


def of_gradient(folder: Path) -> list[Any]:
    """Every value of ``gradient`` in a run."""
    found = facts(folder)
    return [row for table in ("per_image", "per_label") for row in found[table] if "gradient" in row]


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("cases", nargs="*", help="every one by default")
    chosen = parser.parse_args().cases or list(METHODS)
    if unknown := set(chosen) - METHODS.keys():
        parser.error(f"no case is named {', '.join(sorted(unknown))}; there are {', '.join(METHODS)}")
    torch.set_num_threads(1)
    wrong = []
    with tempfile.TemporaryDirectory(prefix="proofmap-attack-") as place:
        folder, elsewhere = Path(place, "work"), Path(place, "elsewhere")
        folder.mkdir()
        elsewhere.mkdir()
        (folder / "own.py").write_text(code(elsewhere), encoding="utf-8")
        photos(folder / "photos", 4)
        net_file(folder)
        assert judged(folder, "gradient", "alone")[0] == 0, (folder / "alone.txt").read_text()
        whole = of_gradient(folder / "alone")
        assert whole, "gradient has values"
        for name in chosen:
            status, told = judged(folder, f"gradient,own.py:{name}", name)
            reasons = [reason for _, _, reason in facts(folder / name)["failures"]]
            kept = of_gradient(folder / name)
            faults = {
                "a traceback": "Traceback" in told,
                f"exit code {status}": status != (0 if name in SILENT else 3),
                "control characters": re.search(r"[\x07\x1b]", told) is not None,
                "results differ": any(row not in whole for row in kept),
                "results are lost": len(kept) < len(whole) and name not in CHANGES_NET,
                "files elsewhere": any(elsewhere.iterdir()),
            }
            found = [fault for fault, is_there in faults.items() if is_there]
            wrong += [name] if found else []
            said = reasons[0] if reasons else "no failure"
            print(
                f"{name:<10} {'WRONG: ' + ', '.join(found) if found else 'nothing lost'}\n{'':<10} {said[:300]!a}",
                flush=True,
            )
    if wrong:
        sys.exit(f"wrong: {', '.join(wrong)}")


if __name__ == "__main__":
    main()
