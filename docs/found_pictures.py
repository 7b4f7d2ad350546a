"""The small charts of the page *What we found*, from records: ``python -m docs.found_pictures``. They follow the reader's light or dark page."""

from __future__ import annotations

import json
from html import escape
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
PICTURES = Path(__file__).parent / "pictures"
NETS = {
    "lite0": "photos, EfficientNet-Lite0",
    "resnet50": "photos, ResNet-50",
    "resnet56": "CIFAR-10, ResNet-56",
    "vit": "CIFAR-10, ViT",
    "table": "table",
    "text": "text",
}
"""The nets of the study of metrics, by their names in its record."""
NAMES = ("found-belief.svg", "found-tv.svg", "found-cheating.svg", "found-table1.svg", "found-deletion.svg")
STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#333}.back{fill:#e6e7ea}.a{fill:#4477aa}.b{fill:#00735c}.c{fill:#b84a00}"
    "@media(prefers-color-scheme:dark){text{fill:#ddd}.back{fill:#3d424c}.a{fill:#7aa6d6}.b{fill:#35b494}.c{fill:#ef8a4a}}"
)

GRID = (
    ".n{font-size:11px}.p{fill:#8fd0b9}.w{fill:#d8ecc0}.r{fill:#f2a477}"
    "@media(prefers-color-scheme:dark){.p{fill:#14705a}.w{fill:#4c5e2b}.r{fill:#9c4a16}}"
)


def record(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((RESULTS / "recorded" / f"{name}.json").read_text(encoding="utf-8"))
    return found


def value(name: str, method: str, score: str, key: str = "value") -> float:
    """A number of a record of the paper's tables."""
    (found,) = [
        n[key]
        for n in record(name)["numbers"]
        if n.get("method") == method and n.get("score") == score and "low" in n and "than" not in n
    ]
    return float(found)


def bars(scores: tuple[str, str], rows: list[tuple[Any, ...]]) -> str:
    """Two bars from 0 to 1 for each row, with their values."""
    parts = []
    for at, (score, kind) in enumerate(zip(scores, "ab", strict=True)):
        parts.append(f'<rect class="{kind}" x="{112 + 110 * at}" y="4" width="10" height="10"/>')
        parts.append(f'<text x="{127 + 110 * at}" y="14">{escape(score)}</text>')
    for at, (label, *values) in enumerate(rows):
        top = 26 + 40 * at
        parts.append(f'<text x="104" y="{top + 19}" text-anchor="end">{escape(label)}</text>')
        for line, (number, kind) in enumerate(zip(values, "ab", strict=True)):
            y = top + 15 * line
            parts.append(f'<rect class="back" x="112" y="{y}" width="180" height="11"/>')
            parts.append(f'<rect class="{kind}" x="112" y="{y}" width="{180 * number:.1f}" height="11"/>')
            shown = f"{number:.2f}".lstrip("0")
            parts.append(f'<text x="298" y="{y + 10}">{shown}</text>')
    return drawing(26 + 40 * len(rows), parts)


def shares(counts: list[tuple[str, int]]) -> str:
    """One bar whose parts are counts, with a line for each below it."""
    whole, x, parts = sum(count for _, count in counts), 0.0, []
    kinds = ("b", "back", "c")
    for at, ((label, count), kind) in enumerate(zip(counts, kinds, strict=True)):
        width = 330 * count / whole
        parts.append(f'<rect class="{kind}" x="{x:.1f}" y="8" width="{width:.1f}" height="28"/>')
        parts.append(f'<rect class="{kind}" x="0" y="{52 + 26 * at}" width="12" height="12"/>')
        parts.append(f'<text x="20" y="{63 + 26 * at}">{count} {escape(label)}</text>')
        x += width
    return drawing(52 + 26 * len(counts), parts)


def grid(validated: dict[str, Any]) -> str:
    """Which metrics pass which test: a cell for each metric, test and net, with the share of pairs in the right order."""
    nets = [name for name in NETS if name in validated]
    tests, wide, left, top = ("ladder", "blind spots", "code"), 30, 196, 42
    lines = {
        (net, line["of"], line["test"]): line
        for net in nets
        for line in validated[net]["lines"]
        if line["test"] in tests and line["step"] == "all" and "low" in line
    }
    means = {
        metric: [line["value"] for (_, of, _), line in lines.items() if of == metric]
        for metric in dict.fromkeys(of for _, of, _ in lines)
    }
    metrics = sorted(means, key=lambda metric: -sum(means[metric]) / len(means[metric]))
    parts = []
    for k, test in enumerate(tests):
        x = left + k * (len(nets) * wide + 12)
        parts.append(f'<text x="{x}" y="14">{test}</text>')
        parts += [
            f'<text class="n" x="{x + wide * j + 13}" y="34" text-anchor="middle">{j + 1}</text>'
            for j in range(len(nets))
        ]
        for i, metric in enumerate(metrics):
            y = top + 18 * i
            if k == 0:
                parts.append(f'<text x="{left - 8}" y="{y + 13}" text-anchor="end">{escape(metric)}</text>')
            for j, net in enumerate(nets):
                line = lines.get((net, metric, test))
                if line is not None:
                    at = f'x="{x + wide * j}" y="{y}"'
                    shown = "1.0" if line["value"] > 0.995 else f"{line['value']:.2f}".lstrip("0")
                    parts.append(f'<rect class="{_verdict(line)}" {at} width="28" height="17"/>')
                    parts.append(
                        f'<text class="n" x="{x + wide * j + 14}" y="{y + 13}" text-anchor="middle">{shown}</text>'
                    )
    width, height = left + 3 * (len(nets) * wide + 12), top + 18 * len(metrics) + 4
    box = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {box}><style>{STYLE}{GRID}</style>{"".join(parts)}</svg>\n'
    )


def _verdict(line: dict[str, Any]) -> str:
    if line["high"] < 0.5:
        return "r"
    if line["low"] <= 0.5:
        return "back"
    return "p" if line["value"] >= 0.8 else "w"


def drawing(height: int, parts: list[str]) -> str:
    box = f'viewBox="0 0 330 {height}" width="330" height="{height}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {box}><style>{STYLE}</style>{"".join(parts)}</svg>\n'


def charts() -> dict[str, str]:
    """The charts by file name."""
    both = ("complete", "sound")
    held = {row["method"]: row["scores"] for row in record("belief-masks-held")["rows"]}
    belief = [
        (label, *(held[method][f"{score}, gray"]["value"] for score in ("completeness", "soundness")))
        for label, method in (
            ("600 passes", "belief-mask:preset=thorough"),
            ("200 passes", "belief-mask"),
            ("Grad-CAM", "grad-cam"),
        )
    ]
    tv = [
        (label, value("cifar10-tv", row, "completeness, gray"), value("cifar10-tv", row, "soundness, gray"))
        for label, row in (("no TV", "TV 0"), ("TV .01", "TV .01"), ("TV .1", "TV .1"))
    ]
    cheating = [
        (
            label,
            *(
                value("imagenette-best-effort", row, s)
                for s in ("soundness, released", "best-effort, printed")
            ),
        )
        for label, row in (("own maps", "Ours"), ("one for all", "Ours (cheating)"))
    ]
    table = [
        (label, *(value(name, "Ours", score, key) for score in ("completeness, printed", f"soundness, {at}")))
        for label, name, at, key in (
            ("the paper", "imagenette-full", "released", "paper"),
            ("ResNet-50, .001", "imagenette-resnet50", "printed", "value"),
            ("ResNet-50, .1", "imagenette-resnet50", "released", "value"),
            ("Lite0, .1", "imagenette-full", "released", "value"),
        )
    ]
    deletion = [r for r in record("photos-differences")["rows"] if r["score"] == "deletion (gray)"]
    better, worse = sum(r["high"] < 0 for r in deletion), sum(r["low"] > 0 for r in deletion)
    parts = [
        ("better than noise", better),
        ("undecided", len(deletion) - better - worse),
        ("worse than noise", worse),
    ]
    drawn = bars(both, belief), bars(both, tv), bars(("sound", "best effort"), cheating), bars(both, table), shares(parts)  # fmt: skip
    return {
        **dict(zip(NAMES, drawn, strict=True)),
        "found-metrics.svg": grid(json.loads((RESULTS / "validation.json").read_text(encoding="utf-8"))),
    }


if __name__ == "__main__":
    for name, text in charts().items():
        (PICTURES / name).write_text(text, encoding="utf-8")
