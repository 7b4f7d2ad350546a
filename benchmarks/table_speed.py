"""Time of methods on a table with a random forest, in one run: belief-order, SHAP's TreeExplainer and KernelExplainer.

python benchmarks/table_speed.py [--rows 1000] [--trees 200] [--kernel-rows 20] [--threads 2]

Rows have 30 columns and 2 labels, and are judged by all default metrics. Rows are those of scikit-learn's breast cancer data with noise of a twentieth of
the standard deviation. KernelExplainer explains row by row, so it is timed on fewer rows. Wall time depends on other work on the machine; processor time less.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import torch
from sklearn.datasets import load_breast_cancer
from sklearn.ensemble import RandomForestClassifier

import proofmap as pm


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--trees", type=int, default=200)
    parser.add_argument("--kernel-rows", type=int, default=20)
    parser.add_argument("--threads", type=int, default=2)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    x, y = load_breast_cancer(return_X_y=True)
    model = RandomForestClassifier(args.trees, random_state=0, n_jobs=args.threads).fit(x, y)
    net = pm.Classifier(model, data=x)
    random = np.random.default_rng(0)
    drawn = x[random.integers(len(x), size=args.rows)] + x.std(axis=0) * random.normal(
        0, 0.05, (args.rows, x.shape[1])
    )
    rows = torch.tensor(drawn, dtype=torch.float32)
    passes = [0, 0]
    predict = net.net.call

    def counted(table: np.ndarray) -> np.ndarray:
        passes[0], passes[1] = passes[0] + 1, passes[1] + len(table)
        return predict(table)

    net.net.call = counted
    per_row = {}
    print(f"{args.rows} rows, {args.trees} trees, {args.threads} threads, torch {torch.__version__}")
    for method, number in (
        ("shap:TreeExplainer", args.rows),
        ("belief-order", args.rows),
        ("shap:KernelExplainer", args.kernel_rows),
    ):
        passes[:] = [0, 0]
        wall, used = time.perf_counter(), time.process_time()
        pm.evaluate(net, rows[:number], methods=[method], labels="all")
        wall, used = time.perf_counter() - wall, time.process_time() - used
        per_row[method] = used / number
        print(
            f"{method}: {number} rows, {wall:.1f} s wall, {used:.1f} s processor, {passes[1]} rows through the model in {passes[0]} calls"
        )
    for method in ("shap:TreeExplainer", "shap:KernelExplainer"):
        print(
            f"processor time per row, {method} / belief-order: {per_row[method] / per_row['belief-order']:.2f}"
        )


if __name__ == "__main__":
    main()
