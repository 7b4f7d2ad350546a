"""Are methods complete and sound on series and sound? Small nets trained here on data of aeon, and the trained net of silero-vad.

    python benchmarks/studies/series.py --out series.json [--series 24] [--data GunPoint BasicMotions ItalyPowerDemand] [--sounds FOLDER] [--print]

The nets are three convolutions and a mean over time, trained on the training file of a dataset inside the wheel of aeon, and judged on series of its test file. ``--sounds``
judges silero-vad (speech or not, weights inside its wheel) on half-second pieces of the WAV files in a folder, such as those of the tests in the source
archive of pocketsphinx. Neither package is imported. Positions are segments. The file is written after every dataset, and one that is in it is not judged again.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import wave
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import proofmap as pm
from proofmap.cli import run_script
from proofmap.core.files import output_file
from proofmap.core.inputs import Series
from proofmap.data.series_files import series_file

SEGMENTS = {"GunPoint": 30, "BasicMotions": 25, "ItalyPowerDemand": 24, "speech": 32}
FILLS = ("gray", "noise", "images", "time-shift", "time-reversal")
DRAWS = 5
FORWARD = ("belief-order", "occlusion", "kernel-shap:samples=400", "random")
GRADIENTS = ("belief-mask", "integrated-gradients", "gradient-x-input")
PIECE, CHUNK, CONTEXT, RATE = 8192, 512, 64, 16000


def home_of(package: str) -> Path:
    found = importlib.util.find_spec(package)
    if found is None or found.origin is None:
        raise SystemExit(f"this needs the package {package}: pip install --no-deps {package}")
    return Path(found.origin).parent


def trained(name: str, seed: int = 0) -> tuple[pm.Classifier, Tensor, Tensor, float]:
    """A net, series ``(N, C, T)`` of the test file in random order and their labels, and the net's accuracy on the whole file."""
    folder = home_of("aeon") / "datasets" / "data" / name
    train, test = (series_file(folder / f"{name}_{part}.ts") for part in ("TRAIN", "TEST"))
    (x, y), (other, truth) = (values(data) for data in (train, test))
    mean, std = x.mean(dim=(0, 2)), x.std(dim=(0, 2))
    torch.manual_seed(seed)
    channels, labels = x.shape[1], int(y.max()) + 1
    net = nn.Sequential(
        nn.Conv1d(channels, 32, 9, padding=4), nn.ReLU(), nn.Conv1d(32, 32, 5, padding=2), nn.ReLU(),
        nn.Conv1d(32, 32, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool1d(4), nn.Flatten(), nn.Linear(128, labels),
    )  # fmt: skip
    optimiser = torch.optim.Adam(net.parameters(), 2e-3, weight_decay=1e-4)
    scaled = (x - mean[:, None]) / std[:, None]
    for _ in range(300):
        some = torch.randperm(len(x))[:32]
        loss = nn.functional.cross_entropy(
            net(scaled[some] + 0.1 * torch.randn_like(scaled[some])), y[some], label_smoothing=0.02
        )
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    inputs = Series(
        length=x.shape[2], mean=tuple(mean.tolist()), std=tuple(std.tolist()), segments=SEGMENTS[name]
    )
    classifier = pm.Classifier(net.eval(), inputs=inputs, names=list(train.label_names), batch_size=512)
    accuracy = float((classifier.probabilities(other).argmax(dim=1) == truth).float().mean())
    order = torch.randperm(len(other), generator=torch.Generator().manual_seed(seed))
    return classifier, other[order], truth[order], accuracy


def values(data: Any) -> tuple[Tensor, Tensor]:
    items = [torch.from_numpy(data.read(k)) for k in range(len(data))]
    return torch.stack(items), torch.tensor([data.truth(k) for k in range(len(data))])


class Speech(nn.Module):
    """silero-vad on pieces ``(N, 1, 8192)`` of sound at 16 kHz: the mean over 16 chunks of the probability of speech, as two labels.

    Each chunk is given with the 64 samples before it and the state after the chunk before, from zero.
    """

    def __init__(self) -> None:
        super().__init__()
        self.net = torch.jit.load(str(home_of("silero_vad") / "data" / "silero_vad.jit"))

    def forward(self, x: Tensor) -> Tensor:
        sound = nn.functional.pad(x[:, 0], (CONTEXT, 0))
        state, found = x.new_zeros(2, len(x), 128), []
        for start in range(0, PIECE, CHUNK):
            p, state = self.net._model(sound[:, start : start + CHUNK + CONTEXT], state)
            found.append(p[:, 0])
        speech = torch.stack(found).mean(dim=0).clamp(1e-6, 1 - 1e-6)
        return torch.stack([1 - speech, speech], dim=1)


def speech(folder: Path, number: int) -> tuple[pm.Classifier, Tensor]:
    """The net, and pieces of the sounds: as many of those with p >= .5 as of others, if there are enough."""
    pieces = []
    for file in sorted(folder.rglob("*.wav")):
        try:
            with wave.open(str(file)) as sound:
                if (sound.getframerate(), sound.getsampwidth(), sound.getnchannels()) != (RATE, 2, 1):
                    continue
                samples = np.frombuffer(sound.readframes(sound.getnframes()), dtype="<i2")
        except (wave.Error, EOFError, RuntimeError):  # made for tests of readers
            continue
        pieces += [samples[a : a + PIECE] for a in range(0, len(samples) - PIECE + 1, PIECE)]
    if not pieces:
        raise pm.InputError(
            f"{folder} has no sounds; name a folder with WAV files of 16 bits, 16 kHz and one channel"
        )
    x = torch.from_numpy(np.stack(pieces).astype(np.float32) / 2**15)[:, None]
    inputs = Series(
        length=PIECE,
        mean=(0.0,),
        std=(1.0,),
        rate=float(RATE),
        segments=SEGMENTS["speech"],
    )
    classifier = pm.Classifier(
        Speech(), inputs=inputs, names=["no speech", "speech"], outputs="probabilities", batch_size=64
    )
    p = classifier.probabilities(x)[:, 1]
    order = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))
    said, silent = order[p[order] >= 0.5], order[p[order] < 0.5]
    few = min(number // 2, len(silent))
    return classifier, x[torch.cat([said[: number - few], silent[:few]])]


def metrics() -> list[str]:
    return [
        f"{metric}:fill={fill},draws={DRAWS},thresholds={thresholds}"
        for fill in FILLS
        for thresholds in ("paper", "released")
        for metric in ("completeness", "soundness")
    ]


def judged(
    name: str, classifier: pm.Classifier, x: Tensor, methods: tuple[str, ...], pool: Tensor
) -> dict[str, Any]:
    judge = pm.Judge(
        classifier, methods=list(methods), labels="all", metrics=metrics(), keep_maps=0, distractors=pool
    )
    judge.update(x)
    found = judge.compute()
    return {
        "dataset": name,
        "segments": classifier.inputs.count,
        "n": len(x),
        "labels": len(classifier.names),
        "scores": [
            {"method": result.name, "metric": metric, **score.numbers(n=False)}
            for result in found.results
            for metric, score in zip(metrics(), result.scores, strict=True)
        ],
    }


def number(value: float) -> str:
    return f"{value:.2f}".removeprefix("0")


def cell(entry: dict[str, Any], method: str, fill: str, thresholds: str, *, interval: bool) -> str:
    found = []
    for metric in ("completeness", "soundness"):
        name = f"{metric}:fill={fill},draws={DRAWS},thresholds={thresholds}"
        score = next((s for s in entry["scores"] if (s["method"], s["metric"]) == (method, name)), None)
        if score is None:
            return "–"
        ends = f" [{number(score['low'])}, {number(score['high'])}]" if interval else ""
        found.append(number(score["value"]) + ends)
    return " / ".join(found)


def printed(record: dict[str, Any]) -> None:
    for thresholds in ("paper", "released"):
        print(
            f"\n{thresholds}\n\n| method | "
            + " | ".join(e["dataset"] for e in record["rows"])
            + " |\n|---" * 1
            + "|---" * len(record["rows"])
            + "|"
        )
        for method in (*GRADIENTS[:1], *FORWARD[:1], *GRADIENTS[1:], *FORWARD[1:]):
            cells = [cell(e, method, "gray", thresholds, interval=True) for e in record["rows"]]
            print(f"| {method} | {' | '.join(cells)} |")
    print("\n| data, method | " + " | ".join(FILLS) + " |\n|---" + "|---" * len(FILLS) + "|")
    for entry in record["rows"]:
        for method in (GRADIENTS[0], FORWARD[0], "kernel-shap:samples=400"):
            cells = [cell(entry, method, fill, "released", interval=False) for fill in FILLS]
            if cells[0] != "–":
                print(f"| {entry['dataset']}, {method} | {' | '.join(cells)} |")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--series", type=int, default=24)
    parser.add_argument("--data", nargs="*", default=["GunPoint", "BasicMotions", "ItalyPowerDemand"])
    parser.add_argument("--sounds", type=Path)
    parser.add_argument(
        "--print", action="store_true", help="print the tables of the file, and judge nothing"
    )
    args = parser.parse_args()
    if args.print and not args.out.is_file():
        parser.error(f"there is no file {args.out} to print")
    record: dict[str, Any] = json.loads(args.out.read_text()) if args.out.exists() else {"rows": []}
    if args.print:
        printed(record)
        return
    record |= {
        "title": "Completeness and soundness of methods on series and sound",
        "command": f"python benchmarks/studies/series.py --series {args.series} --out series.json --sounds FOLDER",
        "seed": 0,
        "environment": {"torch": torch.__version__, "proofmap": pm.__version__},
    }
    done = {entry["dataset"] for entry in record["rows"]}
    for name in (*args.data, *(["speech"] if args.sounds else [])):
        if name in done:
            continue
        if name == "speech":
            classifier, x = speech(args.sounds, args.series)
            entry = judged(name, classifier, x, FORWARD, x)
        else:
            classifier, x, _, accuracy = trained(name)
            few = x[: args.series]
            entry = {**judged(name, classifier, few, (*GRADIENTS, *FORWARD), x), "accuracy": accuracy}
        record["rows"].append(entry)
        output_file(args.out).write_text(json.dumps(record, indent=1) + "\n")
        print(name, entry.get("accuracy", ""), flush=True)


if __name__ == "__main__":
    run_script(main)
