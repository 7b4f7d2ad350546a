"""A dry run: what a study would compute, and how long it would take. Nothing is written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from proofmap.methods.controls import map_sources
from proofmap.results.notes import distractor_words
from proofmap.study.manifest import Manifest
from proofmap.study.opened import open_study
from proofmap.study.planning import Plan, make_plan, measure_speed, units_left
from proofmap.study.resume import resolve_manifest
from proofmap.study.store import SCORES, ImageRow, Store
from proofmap.study.study import Study
from proofmap.study.survey import Survey

_LOOKED_AT = 16  # pictures read to estimate how many labels an image has


def preview(study: Study, out: Path, *, device: str | None = None, threads: int | None = None) -> Plan:
    """Plan a study for the run directory ``out``, which may or may not exist, and measure the speed of this machine."""
    existing = Manifest.find(out)
    threads, distractors = (threads, None) if existing is None else (existing.threads, existing.distractors)
    opened = open_study(study, device=device, threads=threads, distractors=distractors)
    classifier = opened.classifier
    manifest, new = resolve_manifest(out, opened, live=False)
    classifier.fix_batches(*manifest.batches)
    rows: list[ImageRow] = []
    left: Mapping[str, int] = dict.fromkeys(opened.methods, len(manifest.blocks))
    if not new and (out / SCORES).exists():
        with Store(out) as store:
            rows, taken = manifest.selection.chosen(store.images()), map_sources(opened.methods)
            units = units_left(store, rows, manifest.blocks, [*opened.methods], [*opened.metrics], taken)
            left = Counter(unit.method for unit in units)
    selection = study.images
    survey = Survey(opened, selection)
    filtered = selection.correct or selection.min_second_probability is not None or survey.rule.kind == "true"
    order = survey.order()
    wanted = len(order) if selection.number is None else min(selection.number, len(order))
    images = max(len(rows), wanted)
    looked_at = rows or [row for row in survey.look(order[:_LOOKED_AT]) if row.labels]
    labels = sum(len(row.labels) for row in looked_at) / max(1, len(looked_at))
    more = -(-(images - max(manifest.chosen, default=0)) // manifest.images_per_unit)
    waiting = {name: left[name] + more for name in opened.methods}
    plan = make_plan(opened, images, labels, len(manifest.blocks) + more, waiting)
    speed = measure_speed(classifier, plan.expected.known, plan.at_once)
    sure = len(rows) >= wanted or not filtered
    methods = (method.record(opened.session) for method in opened.methods.values())
    judging = opened.session.judging()
    words = distractor_words(methods, (metric.full_record(judging) for metric in opened.metrics.values()))
    return replace(plan, speed=speed, sure=sure, device=str(classifier.device), distractors=words)
