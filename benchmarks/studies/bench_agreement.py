"""How often the rule *as a whole* of ``bench submit`` refuses honest records, and records whose scores were raised.

A record that was made on one kind of device is compared with computations on this one. All its images are computed several times here, each time
with other roundings (:mod:`proofmap.bench.agreement`). Then checks are drawn: 12 random images, three random computations of each. The record is taken as it is, or
with a score raised on every image, within the limits of the score.

    python -m benchmarks.studies.bench_agreement RECORD.json --computations 8 --checks 400
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from proofmap.bench import Record, Task, agreement
from proofmap.cli import run_script
from proofmap.core.files import output_file
from proofmap.study.session import open_session

FORGED = {
    "as it is": ((), 0.0, 0.0),
    "soundness + .05": (("soundness",), 0.05, 0.0),
    "soundness + .1": (("soundness",), 0.1, 0.0),
    "completeness + .1": (("completeness",), 0.1, 0.0),
    "both + .05": (("completeness", "soundness"), 0.05, 0.0),
    "soundness + .1, under noise of .3": (("soundness",), 0.1, 0.3),
}


def computations(record: Record, data: Path, times: int) -> list[dict[str, Tensor]]:
    """Values of all images of the record, by computation."""
    study = Task.named(record.task).study(record.method["spec"], record.name, data)
    return agreement.computed_again(open_session(study), record, range(len(record.images)), times=times)


def forged(
    record: Record, kinds: tuple[str, ...], by: float, noise: float, generator: torch.Generator
) -> dict[str, Tensor]:
    """The record's values, where those of some kinds of score are raised."""
    found = {}
    for score, about in record.metrics.items():
        values = record.column(score)
        if about["kind"] in kinds:
            signs = torch.randint(2, (len(values),), generator=generator) * 2 - 1
            low, high = about["limits"]
            values = (values + by + noise * signs).clamp(low, high)
        found[score] = values
    return found


def share_refused(
    stated: Mapping[str, Tensor], here: list[dict[str, Tensor]], checks: int, generator: torch.Generator
) -> float:
    n, refused = len(next(iter(stated.values()))), 0
    for _ in range(checks):
        images = torch.randperm(n, generator=generator)[: agreement.NUMBER]
        chosen = torch.randperm(len(here), generator=generator)[: agreement.COMPUTATIONS].tolist()
        some = [{score: here[k][score][images] for score in stated} for k in chosen]
        refused += agreement.compare_as_a_whole(
            {score: values[images] for score, values in stated.items()}, some
        ).refused
    return refused / checks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("record", type=Path)
    parser.add_argument("--data", type=Path, default=Path("data"))
    parser.add_argument("--computations", type=int, default=8)
    parser.add_argument("--checks", type=int, default=400)
    parser.add_argument("--kept", type=Path, help="a file that keeps the computations")
    args = parser.parse_args()
    record = Record.read(args.record)
    if args.kept is not None and args.kept.exists():
        kept = json.loads(args.kept.read_text())
        here = [{score: torch.tensor(values) for score, values in one.items()} for one in kept]
    else:
        here = computations(record, args.data, args.computations)
        if args.kept is not None:
            output_file(args.kept).write_text(
                json.dumps([{score: v.tolist() for score, v in one.items()} for one in here])
            )
    agreement.EXCHANGES = 2_000
    generator = torch.Generator().manual_seed(0)
    print(
        f"{record.name} on {record.task}: {len(record.images)} images, {len(here)} computations here, {args.checks} checks"
    )
    apart = agreement.furthest({score: record.column(score) for score in record.metrics}, here[0])
    print(f"  largest difference of a value of the record: {apart:.3f}")
    for name, (kinds, by, noise) in FORGED.items():
        stated = forged(record, kinds, by, noise, generator)
        print(
            f"  {name}: refused in {100 * share_refused(stated, here, args.checks, generator):.1f} %",
            flush=True,
        )


if __name__ == "__main__":
    run_script(main)
