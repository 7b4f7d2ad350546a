"""The experiments without images: ``theory``, theorem 5.1 on a grid of synthetic inputs and on real linear classifiers; and ``desk``, the
paper's worked example, computed from the numbers that the paper prints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch

from proofmap.metrics.scores import completeness, soundness
from proofmap.report.figures.theorem import TheoremFigure
from proofmap.reproduce.findings import Claim, Findings, Job, PaperTable
from proofmap.results.tables import cells_of, number
from proofmap.theory.linear import MADE, REAL, LinearInput
from proofmap.theory.theorem import Cell, Curve


def run(job: Job) -> Findings:
    """Compute failure rates for each synthetic input and delta, and curves for some synthetic inputs and the available real ones."""
    if job.recipe.experiment == "desk":
        return _run_desk(job)
    settings = job.settings
    cells = Cell.grid(**settings["grid"], seed=job.seed, progress=job.progress)
    curves = list(curves_of(job))
    return Findings(
        tables=(_cells_table(cells), _curves_table(curves)),
        claims=_claims(cells, curves),
        figures=(TheoremFigure(tuple(curves)),),
        notes=tuple(job.left_out()),
    )


def curves_of(job: Job) -> Iterator[Curve]:
    """Compute the curves that a recipe names, except those whose inputs are not available."""
    with job.progress.task("curves of theorem 5.1", len(job.settings["curves"])) as task:
        for wanted in job.settings["curves"]:
            made = dict(wanted)
            name, trials, points = made.pop("inputs"), made.pop("trials"), made.pop("points")
            task.advance(1, name)
            if name in job.missing:
                continue
            if name in MADE:
                inputs = [LinearInput.made(name, **made, seed=job.seed)]
                title = f"{name}, d {made['d']}, margin {number(float(made['gamma']))}"
            else:
                inputs, title = REAL[name](**made), name
            yield Curve.simulated(title, inputs, points=points, trials=trials, seed=job.seed)


def _cells_table(cells: Sequence[Cell]) -> PaperTable:
    records = [
        {
            "inputs": c.inputs,
            "d": c.d,
            "margin": c.gamma,
            "bound": c.bound,
            "delta": c.delta,
            "L1": c.first.length,
            **c.first.one.record("one_fails_at_L1"),
            **c.first.incomplete.record("incomplete_at_L1"),
            "L2": c.second.length,
            **c.second.unsound.record("unsound_at_L2"),
            "sharp_L": c.sharp.length,
            **c.sharp.unsound.record("unsound_at_sharp_L"),
            "needed_L": c.needed,
            "greedy_reach": c.greedy_reach,
        }
        for c in cells
    ]
    shown = cells_of(
        cells,
        ("inputs", lambda c: c.inputs),
        ("d", lambda c: str(c.d)),
        ("margin", lambda c: number(c.gamma)),
        ("B", lambda c: f"{c.bound:.1f}"),
        ("delta", lambda c: f"{c.delta:g}"),
        ("L1", lambda c: _length(c.first.length, c.d)),
        ("one fails", lambda c: str(c.first.one)),
        ("L2", lambda c: _length(c.second.length, c.d)),
        ("unsound", lambda c: str(c.second.unsound)),
        ("sharp L", lambda c: _length(c.sharp.length, c.d)),
        ("unsound", lambda c: str(c.sharp.unsound)),
        ("needed", lambda c: str(c.needed)),
    )
    title = f"Failure rates at the theorem's lengths, {cells[0].first.one.trials} shuffles each"
    return PaperTable(title, *shown, records)


def _curves_table(curves: Sequence[Curve]) -> PaperTable:
    quarters = [
        (found, point)
        for found in curves
        for point in found.points[_quarter(found) :: _quarter(found) + 1][:4]
    ]
    shown = cells_of(
        quarters,
        ("inputs", lambda at: at[0].title),
        ("n", lambda at: str(at[0].inputs)),
        ("d", lambda at: "-".join(str(d) for d in sorted(set(at[0].d)))),
        ("margin", lambda at: " to ".join(dict.fromkeys(number(m) for m in at[0].margin))),
        ("L / d", lambda at: number(at[1].share)),
        ("complete", lambda at: number(at[1].complete.value)),
        ("at least", lambda at: number(at[1].complete_bound)),
        ("sound", lambda at: number(at[1].sound.value)),
        ("at least", lambda at: number(at[1].sound_bound)),
        ("greedy, sound", lambda at: number(at[1].greedy_sound.value)),
    )
    records = [
        {
            "inputs": found.title,
            "n": found.inputs,
            "share": p.share,
            **p.complete.record("complete"),
            "complete_at_least": p.complete_bound,
            **p.sound.record("sound"),
            "sound_at_least": p.sound_bound,
            "greedy_sound": p.greedy_sound.value,
        }
        for found in curves
        for p in found.points
    ]
    title = "Probabilities at a quarter, half, three quarters and all of the coordinates"
    return PaperTable(title, *shown, records)


def _quarter(found: Curve) -> int:
    """The index of the point at a quarter of the coordinates."""
    return len(found.points) // 4 - 1


def _claims(cells: Sequence[Cell], curves: Sequence[Curve]) -> tuple[Claim, ...]:
    complete, sound = [c for c in cells if c.complete], [c for c in cells if c.sound]
    short = [c for c in cells if c.second.length < c.d]
    above = [
        p
        for found in curves
        for p in found.points
        if p.sound.high < p.sound_bound or p.complete.high < p.complete_bound
    ]
    reach = min(c.greedy_reach / c.d for c in cells)
    worst = max(c.second.unsound.high / c.delta for c in cells)
    worst_sharp = max(c.sharp.unsound.high / c.delta for c in cells)
    return (
        Claim(
            "completeness: at L1 a fixed interval proves the label but for a share delta of the orders",
            len(complete) == len(cells),
            f"{len(complete)} of {len(cells)} cells, upper ends of 95 % intervals",
        ),
        Claim(
            "soundness: at L2 no interval proves the other label but for a share delta of the orders",
            len(sound) == len(cells),
            f"{len(sound)} of {len(cells)} cells, L2 below d in {len(short)}; the largest upper end is {number(worst)} delta "
            f"({number(worst_sharp)} delta at sharp L)",
        ),
        Claim(
            "the bounds lie below the simulated probabilities at every length of the curves",
            not above,
            f"{len(above)} of {sum(len(found.points) for found in curves)} points contradict them",
        ),
        Claim(
            "the greedy certifier is complete and not sound",
            reach > 0,
            f"in every cell it proves the other label with any share of the coordinates up to {number(reach)}",
        ),
    )


def _length(length: int, d: int) -> str:
    return str(length) if length < d else f"{length} (all)"


def _run_desk(job: Job) -> Findings:
    """Compute the worst-case completeness and soundness of three methods, and compare them with the paper's values."""
    settings, paper = job.settings, job.settings["paper"]
    f = torch.tensor(settings["f"], dtype=torch.float64)
    rows, records, off = [], [], []
    for method, areas in settings["areas"].items():
        auc = torch.tensor(areas, dtype=torch.float64)
        cells = [method]
        for score, of in (("completeness", completeness), ("soundness", soundness)):
            value, printed = float(of(auc, f, 0.0).min()), paper[method][score]
            off.append(abs(value - printed))
            cells.append(f"{number(value)} (paper {number(float(printed))})")
            records.append({"method": method, "score": score, "value": value, "paper": printed})
        rows.append(cells)
    title = (
        f"an ImageNet photo of a desk with a computer, ResNet-50: the worst of {len(f)} labels, e1 = e2 = 0"
    )
    claim = Claim(
        f"every score is within {settings['tolerance']} of the paper's, which is what inputs of two decimals allow",
        max(off) <= settings["tolerance"],
        f"the largest difference is {max(off):.3f}",
    )
    table = PaperTable(title, ("method", "completeness", "soundness"), rows, records)
    return Findings(
        (table,), (claim,), notes=("from printed numbers, so there is no sample and no interval",)
    )
