"""The experiment ``desk``: the paper's worked example, computed from the numbers that the paper prints."""

from __future__ import annotations

from proofmap.report.figures.desk import desk as desk_figure
from proofmap.reproduce.findings import Claim, Findings, Job, PaperTable
from proofmap.results.tables import number
from proofmap.theory.desk import DESK


def run(job: Job) -> Findings:
    """Compute the worst-case completeness and soundness of three methods, and compare them with the paper's values."""
    tolerance, paper = job.settings["tolerance"], job.settings["paper"]
    rows, records, off = [], [], []
    for case in DESK.cases:
        printed = paper[case.method]
        found = {"completeness": case.completeness(), "soundness": case.soundness()}
        off += [abs(found[score] - printed[score]) for score in found]
        rows.append(
            (case.method, *(f"{number(found[s])} (paper {number(float(printed[s]))})" for s in found))
        )
        records += [
            {"method": case.method, "score": score, "value": value, "paper": printed[score]}
            for score, value in found.items()
        ]
    table = PaperTable(
        f"{DESK.photo}, {DESK.net}: the worst of {len(DESK.labels)} labels, e1 = e2 = 0",
        ("method", "completeness", "soundness"),
        rows,
        records,
    )
    claim = Claim(
        f"every score is within {tolerance} of the paper's, which is what inputs of two decimals allow",
        max(off) <= tolerance,
        f"the largest difference is {max(off):.3f}",
    )
    return Findings(
        (table,), (claim,), (desk_figure(),), ("from printed numbers, so there is no sample and no interval",)
    )
