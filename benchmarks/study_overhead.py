"""What a study costs beside its work, and how soon a finished one knows that nothing is left to do.

    python benchmarks/study_overhead.py [--model efficientnet-lite0] [--units 10000]

First whole studies (survey, store, maps on disk) and the same blocks through ``judge_blocks`` with all
images in memory, alternating in one run: learned masks of a real net, then curves of a small one on 32 x 32 pictures.
Then a study of many cheap units is finished, and opened again. CPU time is the surer number where others use the
machine; overhead in it includes what runs beside the work in other threads.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import nn

import proofmap as pm
from proofmap.data import load_blocks, load_dataset
from proofmap.data.given import Subjects
from proofmap.loop import judge_blocks
from proofmap.session import Session
from proofmap.study import Study, run_study


def small_net() -> nn.Sequential:
    torch.manual_seed(0)
    layers: list[nn.Module] = []
    for wide_in, wide, stride in ((3, 16, 1), (16, 32, 2), (32, 64, 2), (64, 64, 1)):
        layers += [nn.Conv2d(wide_in, wide, 3, stride, 1), nn.BatchNorm2d(wide), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 10)).eval()


def pictures(folder: Path, n: int, side: int) -> Path:
    folder.mkdir()
    for k, pixels in enumerate(np.random.default_rng(0).integers(0, 256, (n, side, side, 3), dtype=np.uint8)):
        Image.fromarray(pixels).save(folder / f"{k:05d}.png", compress_level=1)
    return folder


def plain_loop(f: pm.Classifier, study: Study) -> Callable[[], None]:
    """The same blocks without a study: images and labels are there already."""
    (block,) = load_blocks(load_dataset(str(study.data[0])), f, block_size=10**6)
    labels = f.top(block.images, int(str(study.labels)[3:]))
    session, metrics = Session(f), study.named_metrics()
    methods = study.named_methods()
    for method in methods.values():
        session.prepare(method)
    for metric in metrics.values():
        metric.prepare(session)
    subjects = Subjects(block.images, labels)
    size = study.images_per_unit or len(labels)

    def loop() -> None:
        for start in range(0, len(labels), size):
            blocks = [subjects[start : start + size]]
            for _ in judge_blocks(session, methods, metrics, blocks, keep_maps=size):
                pass

    return loop


def whole(study: Study, out: Path, f: pm.Classifier) -> None:
    assert run_study(study, out, classifier=f).complete


def seconds(run: Callable[[], object]) -> tuple[float, float]:
    wall, processor = time.perf_counter(), time.process_time()
    run()
    return time.perf_counter() - wall, time.process_time() - processor


def overhead(title: str, f: pm.Classifier, study: Study, folder: Path, rounds: int) -> None:
    loop = plain_loop(f, study)
    times: dict[str, list[tuple[float, float]]] = {"loop": [], "study": []}
    for number in range(rounds + 1):
        out = folder / f"run-{number}"
        for name, run in (("loop", loop), ("study", lambda out=out: whole(study, out, f))):
            times[name].append(seconds(run))
    told = []
    for kind, what in enumerate(("wall", "CPU")):
        by_name = {name: [both[kind] for both in some[1:]] for name, some in times.items()}
        ratio = statistics.median(s / p for p, s in zip(by_name["loop"], by_name["study"], strict=True))
        told.append(
            f"{what} {statistics.median(by_name['study']):.2f} s against {statistics.median(by_name['loop']):.2f} s "
            f"({100 * (ratio - 1):+.1f} %)"
        )
    print(f"{title}: {'; '.join(told)}")


def resume(units: int, folder: Path) -> None:
    images = units // 10
    f = pm.Classifier(nn.Sequential(nn.Flatten(), nn.Linear(48, 4)), size=4, batch_size=64)
    study = Study(
        data=str(pictures(folder / "photos", images, 4)),
        methods=[f"random:seed_offset={k}" for k in range(10)],
        metrics=[{"metric": "insertion", "points": 2}],
        labels="top2",
        images_per_unit=1,
    )
    finish, _ = seconds(lambda: run_study(study, folder / "run", classifier=f))
    again, processor = zip(
        *(seconds(lambda: run_study(study, folder / "run", classifier=f)) for _ in range(3)), strict=True
    )
    print(
        f"{units} units of next to no work: finished in {finish:.1f} s ({1000 * finish / units:.1f} ms each); "
        f"opened again, nothing to do after {min(again):.2f} s ({min(processor):.2f} s CPU)"
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--model", default="efficientnet-lite0")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--images", type=int, default=4)
    parser.add_argument("--small-images", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--units", type=int, default=10_000)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args(arguments)
    torch.set_num_threads(args.threads)
    print(
        f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores, {torch.get_num_threads()} threads"
    )
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        f = pm.load_classifier(args.model)
        masks = Study(
            data=str(pictures(folder / "large", args.images, 256)),
            methods=[f"learned-mask:steps={args.steps},fill=gray"],
            metrics=["insertion:points=8"],
            labels="top2",
            images_per_unit=2,
        )
        (folder / "masks").mkdir()
        overhead(f"learned masks, {args.model}", f, masks, folder / "masks", args.rounds)
        small = pm.Classifier(small_net(), size=32)
        curves = Study(
            data=str(pictures(folder / "small", args.small_images, 32)),
            methods=["gradient", "random"],
            labels="top10",
            images_per_unit=16,
        )
        (folder / "curves").mkdir()
        overhead("curves, 32 x 32 pictures", small, curves, folder / "curves", args.rounds)
        (folder / "many").mkdir()
        resume(args.units, folder / "many")


if __name__ == "__main__":
    main()
