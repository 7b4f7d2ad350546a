"""The figure of the page *On the paper's own nets*: each cell that the paper prints against ours, with its 95 % interval.

    python -m docs.own_nets_pictures            # writes docs/pictures/own-nets.png

Above: the paper's tables of CIFAR-10 on ResNet-164 and of ImageNet on ResNet-50 (Keras' weights). Below: earlier metrics on ImageNet, and Table 1, on ResNet-50. The saliency metric
is left out: its cells are logarithms. Cells are those of the records that are named below.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from proofmap.cli import run_script
from proofmap.report.figures.drawing import COLOURS

HERE = Path(__file__).parent
RECORDS, PICTURE = HERE / "results" / "recorded", HERE / "pictures" / "own-nets.png"
CIFAR, IMAGENET, METRICS = ("cifar10-tv-resnet164",), ("imagenet-resnet50",), ("imagenet-metrics-resnet50",)
TABLE_1 = ("imagenette-resnet50", "imagenette-resnet50-others", "imagenette-resnet50-search")
KINDS = {  # of a panel: the beginning of a score's name, its name in the legend, and whether its marks are full
    "CIFAR-10's table, ResNet-164": (
        ("completeness", "completeness", True),
        ("soundness", "soundness", True),
    ),
    "ImageNet's table, ResNet-50": (
        ("completeness", "completeness", True),
        ("soundness", "soundness", True),
    ),
    "ImageNet, earlier metrics, ResNet-50": (
        ("insertion, blur", "insertion, blur", True),
        ("insertion, gray", "insertion, gray", True),
        ("deletion", "deletion", True),
    ),
    "Table 1, ResNet-50": (
        ("completeness, printed", "completeness", True),
        ("soundness, printed", "soundness, e2 = .001 (as printed)", True),
        ("soundness, released", "soundness, e2 = .1 (released code)", False),
        ("insertion", "insertion", True),
        ("deletion", "deletion", True),
    ),
}


def cells(records: tuple[str, ...]) -> list[dict[str, Any]]:
    """The numbers of some records for which the paper has one, too."""
    read = (json.loads((RECORDS / f"{name}.json").read_text(encoding="utf-8")) for name in records)
    return [cell for record in read for cell in record["numbers"] if "than" not in cell and cell.get("paper")]


def main() -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    drawn, axes = plt.subplots(2, 2, figsize=(10.0, 10.0), constrained_layout=True)
    panels = zip(axes.flat, KINDS.items(), (CIFAR, IMAGENET, METRICS, TABLE_1), strict=True)
    for axis, (title, kinds), records in panels:
        found = cells(records)
        axis.plot((0, 1), (0, 1), color="#999999", linewidth=0.8, zorder=0)
        for place, (begins, name, full) in enumerate(kinds):
            chosen = [cell for cell in found if cell["score"].startswith(begins)]
            colour = COLOURS[place if full or place < 2 else 1]
            y = [cell["value"] for cell in chosen]
            spread = [
                [cell["value"] - cell["low"] for cell in chosen],
                [cell["high"] - cell["value"] for cell in chosen],
            ]
            axis.errorbar(
                [cell["paper"] for cell in chosen],
                y,
                spread,
                fmt="o",
                markersize=6,
                color=colour,
                markerfacecolor=colour if full else "white",
                elinewidth=0.8,
                label=name,
            )
        axis.set(xlim=(0, 1.02), ylim=(0, 1.02), aspect="equal", title=title, xlabel="the paper's cell")
        axis.legend(frameon=False, fontsize=8, loc="upper left")
    for axis in axes[:, 0]:
        axis.set_ylabel("ours, with its 95 % interval")
    drawn.savefig(PICTURE, dpi=130, metadata={"Software": None})


if __name__ == "__main__":
    run_script(main)
