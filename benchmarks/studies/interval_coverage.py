"""Which interval of a mean covers the truth? Nine of them, on the shapes that scores have, over many simulated studies.

    python benchmarks/studies/interval_coverage.py [--studies 4000] [--real RUN] [--only near-equal] [--out intervals.json]

Prints three tables: the coverage and mean width of the product's interval for each shape and number of images; for each
interval the smallest and largest coverage over all shapes; and values that are equal or nearly equal, with the share of studies whose values are
all equal. Such a study has no interval (tables print "n equal values"), so coverage is over the other studies. ``--real`` adds shapes: each score of a
run directory, and each difference between its first two
methods, is a population of values per image, from which studies are drawn with replacement. Values of scores lie in [0, 1], and all
intervals are cut to that. Studies of n images are drawn with seed n. ``--out`` also writes every cell to a file.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import stats

import proofmap as pm
from proofmap.cli import run_script
from proofmap.core.files import output_file
from proofmap.results.statistics import NO_LIMITS, Limits, mean_intervals

Ends = tuple[np.ndarray, np.ndarray]
IMAGES = (2, 3, 5, 10, 20, 50, 200)
UNIT = (0.0, 1.0)
RESAMPLES = 500


def shapes() -> dict[str, tuple[Callable[..., np.ndarray], float, Limits]]:
    """How a study's values are drawn, their mean, and their limits."""

    def mass(share: float) -> Callable[..., np.ndarray]:
        return lambda rng, s: np.where(rng.random(s) < share, 1.0, rng.random(s))

    def half_zero(rng: np.random.Generator, s: tuple[int, int]) -> np.ndarray:
        return np.where(rng.random(s) < 0.5, 0.0, rng.beta(0.5, 0.5, s) - rng.beta(2, 2, s))

    return {
        "uniform": (lambda rng, s: rng.random(s), 0.5, UNIT),
        "near 0 and 1: beta(.5, .3)": (lambda rng, s: rng.beta(0.5, 0.3, s), 0.625, UNIT),
        "near 1: beta(8, 1.5)": (lambda rng, s: rng.beta(8, 1.5, s), 8 / 9.5, UNIT),
        "near 0: beta(.5, 2)": (lambda rng, s: rng.beta(0.5, 2, s), 0.2, UNIT),
        "most at 0: beta(.3, 3)": (lambda rng, s: rng.beta(0.3, 3, s), 1 / 11, UNIT),
        "40 % are 1, others uniform": (mass(0.4), 0.7, UNIT),
        "70 % are 1, others uniform": (mass(0.7), 0.85, UNIT),
        "normal": (lambda rng, s: rng.standard_normal(s), 0.0, NO_LIMITS),
        "exponential": (lambda rng, s: rng.exponential(1, s), 1.0, NO_LIMITS),
        "difference of beta(2, 2) and beta(.5, 2)": (
            lambda rng, s: rng.beta(2, 2, s) - rng.beta(0.5, 2, s),
            0.3,
            NO_LIMITS,
        ),
        "difference, half are 0": (half_zero, 0.0, NO_LIMITS),
    }


def near_equal() -> dict[str, tuple[Callable[..., np.ndarray], float, Limits]]:
    """Values that are the same but for noise, all of them or all but a rare few."""

    def piled(
        at: float, noise: float, rare: float, other: float
    ) -> tuple[Callable[..., np.ndarray], float, Limits]:
        def draw(rng: np.random.Generator, s: tuple[int, int]) -> np.ndarray:
            usual = np.clip(at + noise * rng.standard_normal(s), 0, 1)
            return np.where(rng.random(s) < rare, other, usual)

        # the mean of a normal variable that is cut at 1; none reaches 0
        d = (1 - at) / noise if noise else 0.0
        cut = noise * (stats.norm.pdf(d) - d * stats.norm.sf(d)) if noise else 0.0
        return draw, (1 - rare) * (at - cut) + rare * other, UNIT

    return {
        "1, noise .0001": piled(1, 1e-4, 0, 0),
        "1, noise .01": piled(1, 0.01, 0, 0),
        ".9, noise .03": piled(0.9, 0.03, 0, 0),
        "beta(19, 1)": (lambda rng, s: rng.beta(19, 1, s), 0.95, UNIT),
        "95 % are 1, others 0": piled(1, 0, 0.05, 0),
        "95 % are 1, noise .0001, others 0": piled(1, 1e-4, 0.05, 0),
        "95 % are 1, noise .01, others 0": piled(1, 0.01, 0.05, 0),
        "95 % are 1, noise .03, others 0": piled(1, 0.03, 0.05, 0),
        "95 % are 1, noise .1, others 0": piled(1, 0.1, 0.05, 0),
        "99 % are 1, noise .001, others 0": piled(1, 1e-3, 0.01, 0),
        "80 % are 1, noise .001, others 0": piled(1, 1e-3, 0.2, 0),
        "95 % are .3, noise .01, others 1": piled(0.3, 0.01, 0.05, 1),
    }


def real_shapes(run: Path) -> dict[str, tuple[Callable[..., np.ndarray], float, Limits]]:
    def of(values: torch.Tensor, limits: Limits) -> tuple[Callable[..., np.ndarray], float, Limits]:
        known = values[~values.isnan()].double().numpy()
        return lambda rng, s: rng.choice(known, s), float(known.mean()), limits

    first, second = pm.Run(run).evaluation().results[:2]
    scores = {
        f"measured: {score.name} of {result.name}": of(result.values[score.name], score.limits)
        for result in (first, second)
        for score in result.scores
    }
    differences = {
        f"measured: difference of {name}": of(first.values[name] - second.values[name], NO_LIMITS)
        for name in first.values
    }
    return scores | differences


# ---- intervals of studies (K, n) ----------------------------------------------------------------------------------


def moments(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean, standard error and skewness."""
    mean, away = x.mean(axis=1), x - x.mean(axis=1, keepdims=True)
    spread = away.std(axis=1)
    known = spread > 1e-12
    skewness = np.where(known, (away**3).mean(axis=1) / np.where(known, spread, 1) ** 3, 0)
    return mean, x.std(axis=1, ddof=1) / np.sqrt(x.shape[1]), skewness


def student(x: np.ndarray) -> Ends:
    mean, error, _ = moments(x)
    t = stats.t.ppf(0.975, x.shape[1] - 1)
    return mean - t * error, mean + t * error


def johnson(x: np.ndarray) -> Ends:
    """Student's, moved by Johnson's (1978) term for the skewness."""
    mean, error, skewness = moments(x)
    t = stats.t.ppf(0.975, x.shape[1] - 1)
    moved = mean + skewness * error / (6 * np.sqrt(x.shape[1])) * (1 + 2 * t**2)
    return moved - t * error, moved + t * error


def hall(x: np.ndarray) -> Ends:
    mean, error, skewness = moments(x)
    t = stats.t.ppf(0.975, x.shape[1] - 1)
    a = np.where(np.abs(skewness) < 1e-6, 1e-6, skewness) / np.sqrt(x.shape[1])
    low, high = (mean - error * 3 / a * (np.cbrt(1 + a * (q - a / 6)) - 1) for q in (t, -t))
    return low, high


def resamples(x: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Weights ``(R, n)`` of resamples, the same for all studies, and their means ``(K, R)``."""
    n = x.shape[1]
    weights = rng.multinomial(n, np.full(n, 1 / n), RESAMPLES) / n
    return weights, x @ weights.T


def percentile(x: np.ndarray, rng: np.random.Generator, tail: float = 0.025) -> Ends:
    low, high = np.quantile(resamples(x, rng)[1], [tail, 1 - tail], axis=1)
    return low, high


def expanded(x: np.ndarray, rng: np.random.Generator) -> Ends:
    """Percentiles farther out, as Student's quantile is beyond the normal one (Hesterberg 2015)."""
    n = x.shape[1]
    return percentile(x, rng, float(stats.norm.cdf(np.sqrt(n / (n - 1)) * stats.t.ppf(0.025, n - 1))))


def corrected(x: np.ndarray, rng: np.random.Generator) -> Ends:
    """BCa: percentiles corrected for bias and acceleration (Efron 1987)."""
    means = np.sort(resamples(x, rng)[1], axis=1)
    mean, _, skewness = moments(x)
    below = ((means < mean[:, None]).mean(axis=1) + (means <= mean[:, None]).mean(axis=1)) / 2
    bias = stats.norm.ppf(below.clip(1 / (RESAMPLES + 1), RESAMPLES / (RESAMPLES + 1)))
    a, ends = skewness / (6 * np.sqrt(x.shape[1])), []
    for tail in (0.025, 0.975):
        z = bias + stats.norm.ppf(tail)
        at = (stats.norm.cdf(bias + z / (1 - a * z)) * (RESAMPLES - 1)).round().astype(int)
        ends.append(means[np.arange(len(x)), at.clip(0, RESAMPLES - 1)])
    return ends[0], ends[1]


def bootstrap_t(x: np.ndarray, rng: np.random.Generator) -> Ends:
    """The studentised bootstrap; a resample of equal values has an infinite statistic."""
    weights, means = resamples(x, rng)
    mean, error, _ = moments(x)
    away = x - mean[:, None]
    spread = np.sqrt(np.maximum(away**2 @ weights.T - (away @ weights.T) ** 2, 0) / (x.shape[1] - 1))
    moved, equal = means - mean[:, None], spread <= 1e-7
    t = np.where(equal, np.sign(moved) * 1e9, moved / np.where(equal, 1, spread))
    t = np.sort(np.where(np.abs(moved) < 1e-12, 0, t), axis=1)
    return mean - t[:, round(0.975 * (RESAMPLES - 1))] * error, mean - t[
        :, round(0.025 * (RESAMPLES - 1))
    ] * error


def empirical_likelihood(x: np.ndarray) -> Ends:
    """Owen's (1988) means whose likelihood ratio is above the quantile of F(1, n - 1), by bisection."""
    n, limit = x.shape[1], stats.f.ppf(0.95, 1, x.shape[1] - 1)

    def ratio(mean: np.ndarray) -> np.ndarray:
        z = x - mean[:, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            low, high = (1 / n - 1) / z.max(axis=1), (1 / n - 1) / z.min(axis=1)
            for _ in range(25):
                middle = (low + high) / 2
                rising = (z / (1 + middle[:, None] * z)).sum(axis=1) > 0
                low, high = np.where(rising, middle, low), np.where(rising, high, middle)
            return 2 * np.log(np.maximum(1 + ((low + high) / 2)[:, None] * z, 1e-300)).sum(axis=1)

    ends = []
    for end in (x.min(axis=1), x.max(axis=1)):
        inner, outer = x.mean(axis=1), end
        for _ in range(14):
            middle = (inner + outer) / 2
            inside = ratio(middle) < limit
            inner, outer = np.where(inside, middle, inner), np.where(inside, outer, middle)
        ends.append(inner)
    return ends[0], ends[1]


def ours(x: np.ndarray, limits: Limits) -> Ends:
    low, high = mean_intervals(x.T, limits=limits).T
    return low, high


# ---- the tables ---------------------------------------------------------------------------------------------------


Shape = tuple[Callable[..., np.ndarray], float, Limits]


def unequal(x: np.ndarray) -> np.ndarray:
    """Which studies (K,) have values that are not all equal."""
    different: np.ndarray = np.ptp(x, axis=1) > 1e-6 * np.abs(x).max(axis=1)
    return different


def result_of(ends: Ends, truth: float, limits: Limits, some: np.ndarray) -> tuple[float, float]:
    """Coverage in %, and mean width, over ``some`` studies; a truth at the end itself is covered, whatever the last digit."""
    low, high = ends[0][some], ends[1][some]
    if not len(low):
        return math.nan, math.nan
    covered = float(((low <= truth + 1e-12) & (truth - 1e-12 <= high)).mean())
    return 100 * covered, float((high.clip(*limits) - low.clip(*limits)).mean())


def header(first: str, images: tuple[int, ...]) -> str:
    return f"| {first} | " + " | ".join(f"n = {n}" for n in images) + " |\n|---|" + "---|" * len(images)


def usual_tables(every: dict[str, Shape], studies: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    found: dict[str, dict[int, list[tuple[float, float]]]] = {}
    print(f"{studies} studies each: coverage in % (mean width)\n\n{header('values', IMAGES)}")
    for shape, (draw, truth, limits) in every.items():
        cells = []
        for n in IMAGES:
            rng = np.random.default_rng(n)
            x = draw(rng, (studies, n))
            intervals = {
                "Proofmap": ours(x, limits),
                "Student's t": student(x),
                "Johnson's t": johnson(x),
                "Hall's t": hall(x),
                "bootstrap, percentiles": percentile(x, rng),
                "bootstrap, expanded percentiles": expanded(x, rng),
                "bootstrap, BCa": corrected(x, rng),
                "bootstrap-t": bootstrap_t(x, rng),
                "empirical likelihood": empirical_likelihood(x[:500]),  # slow
            }
            for name, ends in intervals.items():
                found.setdefault(name, {}).setdefault(n, []).append(
                    result_of(ends, truth, limits, unequal(x[: len(ends[0])]))
                )
            covered, width = found["Proofmap"][n][-1]
            rows.append({"table": "coverage", "values": shape, "n": n, "coverage": round(covered, 2), "width": round(width, 4)})  # fmt: skip
            cells.append(f"{covered:.1f} ({width:.2f})")
        print(f"| {shape} | " + " | ".join(cells) + " |", flush=True)
    print(
        "\nSmallest and largest coverage over all shapes; in brackets the width, as the median ratio to Proofmap's\n"
    )
    print(header("interval", IMAGES))
    for name, by_n in found.items():
        cells = []
        for n in IMAGES:
            covered = [c for c, _ in by_n[n]]
            wide = np.median([w / o for (_, w), (_, o) in zip(by_n[n], found["Proofmap"][n], strict=True)])
            cells.append(f"{min(covered):.0f} to {max(covered):.0f} ({wide:.2f})")
            rows.append({"table": "other intervals", "interval": name, "n": n, "least": round(min(covered), 2), "most": round(max(covered), 2), "ratio of widths": round(float(wide), 4)})  # fmt: skip
        print(f"| {name} | " + " | ".join(cells) + " |")
    return rows


def near_equal_table(studies: int) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    print(
        f"\nNear-equal values, {studies} studies each: coverage in % (mean width), and the share of studies with equal values\n"
    )
    print(header("values", IMAGES))
    for shape, (draw, truth, limits) in near_equal().items():
        cells = []
        for n in IMAGES:
            x = draw(np.random.default_rng(n), (studies, n))
            some = unequal(x)
            covered, width = result_of(ours(x, limits), truth, limits, some)
            equal = 100 * float((~some).mean())
            cells.append(f"{covered:.1f} ({width:.3f})" + (f", {equal:.0f} equal" if equal >= 0.5 else ""))
            rows.append({"table": "near-equal values", "values": shape, "n": n, "coverage": round(covered, 2), "width": round(width, 5), "equal": round(equal, 2)})  # fmt: skip
        print(f"| {shape} | {' | '.join(cells)} |", flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--studies", type=int, default=4000)
    parser.add_argument("--real", type=Path, help="a run directory: each score is one more shape")
    parser.add_argument("--only", choices=["usual", "near-equal"], help="only these tables")
    parser.add_argument("--out", type=Path, help="a file for all cells")
    args = parser.parse_args()
    rows: list[dict[str, Any]] = []
    if args.only != "near-equal":
        rows += usual_tables(shapes() | (real_shapes(args.real) if args.real else {}), args.studies)
    if args.only != "usual":
        rows += near_equal_table(args.studies)
    if args.out:
        record = {
            "title": "Coverage of intervals",
            "asked": "In how many simulated studies does an interval contain the true mean?",
            "command": "python benchmarks/studies/interval_coverage.py --out intervals.json",
            "studies": args.studies,
            "seed": "the number of images",
            "environment": {
                "numpy": np.__version__,
                "python": platform.python_version(),
                "proofmap": pm.__version__,
            },
            "rows": rows,
        }
        output_file(args.out).write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    run_script(main)
