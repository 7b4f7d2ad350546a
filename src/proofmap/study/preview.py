"""A dry run: what a study would compute, and how long it would take. Nothing is written."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from proofmap.results.notes import distractor_words
from proofmap.study.opened import OpenStudy, open_study
from proofmap.study.planning.cost import Speed, measure_speed
from proofmap.study.planning.plan import Plan, make_plan
from proofmap.study.resume import existing_manifest, resolve_manifest
from proofmap.study.selection import chosen_images
from proofmap.study.store.database import FILE as DATABASE
from proofmap.study.store.database import Store
from proofmap.study.store.records import ImageRow
from proofmap.study.study import Study
from proofmap.study.survey import Survey

_LOOKED_AT = 16  # pictures read to estimate how many labels an image has


@dataclass(frozen=True)
class Preview:
    """A plan with the speed of this machine. ``sure`` is False if the selection may choose fewer images than planned."""

    plan: Plan
    speed: Speed
    sure: bool
    device: str
    distractors: str = ""
    """The source of the random images (distractors) that fills and methods draw from, in words."""


def preview(study: Study, out: Path, *, device: str | None = None, threads: int | None = None) -> Preview:
    """Plan a study for the run directory ``out``, which may or may not exist, and measure the speed of this machine."""
    existing = existing_manifest(out)
    threads, distractors = (threads, None) if existing is None else (existing.threads, existing.distractors)
    opened = open_study(study, device=device, threads=threads, distractors=distractors)
    classifier = opened.classifier
    manifest, new = resolve_manifest(out, opened, live=False)
    classifier.fix_batches(*manifest.batches)
    rows: list[ImageRow] = []
    done: dict[str, int] = {}
    if not new and (out / DATABASE).exists():
        with Store(out) as store:
            rows = chosen_images(store.images(), manifest.selection)
            done = _done(store, opened)
    selection = study.images
    survey = Survey(opened, selection)
    filtered = selection.correct or selection.min_second_probability is not None or survey.rule.kind == "true"
    order = survey.order()
    wanted = len(order) if selection.number is None else min(selection.number, len(order))
    images = max(len(rows), wanted)
    looked_at = rows or [row for row in survey.look(order[:_LOOKED_AT]) if row.labels]
    labels = sum(len(row.labels) for row in looked_at) / max(1, len(looked_at))
    known = [row.block for row in rows if row.block is not None]
    blocks = len(set(known)) + -(-(images - len(known)) // manifest.images_per_unit)
    waiting = {name: max(0, blocks - done.get(name, 0)) for name in opened.methods}
    plan = make_plan(opened, images, labels, blocks, waiting)
    speed = measure_speed(classifier, plan.expected.known, plan.at_once)
    sure = len(rows) >= wanted or not filtered
    methods = {name: method.record(opened.session) for name, method in opened.methods.items()}
    judging = opened.session.judging()
    metrics = {name: metric.full_record(judging) for name, metric in opened.metrics.items()}
    return Preview(plan, speed, sure, str(classifier.device), distractor_words(methods, metrics))


def _done(store: Store, opened: OpenStudy) -> dict[str, int]:
    """The number of blocks that each method has finished with every metric of the study."""
    metrics = list(opened.metrics)
    query = (
        "SELECT methods.name FROM done JOIN methods ON methods.id = method JOIN metrics ON metrics.id = metric "
        f"WHERE metrics.name IN ({', '.join('?' * len(metrics))}) GROUP BY method, block HAVING count(*) = ?"
    )
    return Counter(name for (name,) in store.rows(query, *metrics, len(metrics)))
