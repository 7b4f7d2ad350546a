"""Which of belief-mask and belief-order should be the default for rows and series? The nets of ProofBench's tasks, and two nets trained here.

    python benchmarks/studies/default_method.py

Prints a table: completeness / soundness at the paper's thresholds and at those of the released code, and the seconds for one input, without judging.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import torch
from torch import nn

import proofmap as pm
from proofmap.bench import nets
from proofmap.cli import run_script
from proofmap.core.inputs import Rows
from proofmap.data.series_files import series_file
from proofmap.data.table_rows import table_file
from proofmap.methods.method import make_method

TASKS = Path(nets.__file__).parent / "tasks"


def trained(data: Any) -> tuple[pm.Classifier, torch.Tensor]:
    """A net with one hidden layer, trained on 70 % of a table of scikit-learn, and the other rows."""
    torch.manual_seed(0)
    order = torch.randperm(len(data.data))
    x, y = torch.tensor(data.data, dtype=torch.float32)[order], torch.tensor(data.target)[order]
    k = int(0.7 * len(x))
    mean, std = x[:k].mean(dim=0), x[:k].std(dim=0) + 1e-3
    net = nn.Sequential(nn.Linear(x.shape[1], 64), nn.ReLU(), nn.Linear(64, int(y.max()) + 1))
    optimiser = torch.optim.Adam(net.parameters(), 1e-2, weight_decay=1e-4)
    for _ in range(200):
        loss = nn.functional.cross_entropy(net((x[:k] - mean) / std), y[:k], label_smoothing=0.02)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    inputs = Rows(columns=x.shape[1], mean=tuple(mean.tolist()), std=tuple(std.tolist()))
    return pm.Classifier(net.eval(), inputs=inputs), x[k:]


def line(name: str, net: pm.Classifier, x: torch.Tensor, fill: str, method: str) -> str:
    metrics = [
        f"{m}:fill={fill},thresholds={t}"
        for t in ("paper", "released")
        for m in ("completeness", "soundness")
    ]
    found = pm.evaluate(net, x, methods=[method], metrics=metrics, labels="all")
    labels = torch.arange(len(net.names)).expand(len(x), -1)
    begun = time.perf_counter()
    make_method(method)(net, x, labels)
    seconds = (time.perf_counter() - begun) / len(x)
    cells = [f"{s.value:.2f} [{s.low:.2f}, {s.high:.2f}]" for s in found.results[0].scores]
    pairs = " | ".join(" / ".join(cells[k : k + 2]) for k in (0, 2))
    return f"| {name}, {len(x)} | {net.inputs.count} | `{fill}` | `{method}` | {pairs} | {seconds:.2f} |"


def main() -> None:
    from sklearn.datasets import load_digits, load_wine

    series, table = series_file(TASKS / "series.npz"), table_file(TASKS / "table.csv", target="diagnosis")
    beats = torch.stack([torch.as_tensor(series.read(k)) for k in range(len(series))])
    tumours = nets.table()
    judged = [
        ("ProofBench series", nets.series(), beats[:20], "noise"),
        ("ProofBench table", tumours, tumours.inputs.encode(table.frame[:20]), "near-rows"),
        *(
            (name, net, x[:12], "near-rows")
            for name, (net, x) in (("wine", trained(load_wine())), ("digits", trained(load_digits())))
        ),
    ]
    print("| data, inputs | positions | judged with | method | paper's thresholds | thresholds .1 | s |")
    print("|---|---|---|---|---|---|---|")
    for name, net, x, other in judged:
        for fill in ("gray", other):
            for method in ("belief-mask", "belief-order"):
                print(line(name, net, x, fill, method), flush=True)


if __name__ == "__main__":
    run_script(main)
