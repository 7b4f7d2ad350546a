"""Studies of texts: stopped and resumed, on Ray's workers, audited, compared, and as a report, as studies of pictures are."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

import proofmap as pm
from proofmap.report.runs import write_run_report
from proofmap.results.audit import audit
from proofmap.study import Run, Study, run_study
from proofmap.study.ray_executor import RayExecutor
from tests.review_net import NET
from tests.study.forked_ray import ForkedRay
from tests.study.studies import Stop, facts

TEXTS = ("A good film", "Bad and long", "Good songs but a bad plot and a bad end", "Good, good fun")


def text_study(folder: Path, **changes: Any) -> Study:
    """Two methods on four texts of different lengths, two to a block."""
    (folder / "net.py").write_text(NET, encoding="utf-8")
    (folder / "texts.txt").write_text("\n".join(TEXTS), encoding="utf-8")
    settings: dict[str, Any] = {
        "model": f"{folder / 'net.py'}:make",
        "data": str(folder / "texts.txt"),
        "labels": "all",
        "methods": ("occlusion", "random"),
        "images_per_unit": 2,
        "metrics": ("completeness", "soundness"),
    }
    return Study(**{**settings, **changes})


def test_a_stopped_study_of_texts_goes_on_where_it_stopped(tmp_path: Path) -> None:
    study = text_study(tmp_path)
    run_study(study, tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        run_study(study, tmp_path / "run", watchers=[Stop(2)])
    assert len(facts(tmp_path / "run")["per_image"]) < len(facts(tmp_path / "whole")["per_image"])
    run_study(study, tmp_path / "run")
    assert facts(tmp_path / "run") == facts(tmp_path / "whole")


def test_workers_of_ray_judge_texts_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, one_thread: None
) -> None:
    stand_in = ForkedRay(pytest.importorskip("ray.cloudpickle"))
    monkeypatch.setitem(sys.modules, "ray", stand_in)  # type: ignore[arg-type]
    study = text_study(tmp_path)
    run_study(study, tmp_path / "here")
    run_study(study, tmp_path / "there", executor=RayExecutor(workers=1))
    assert facts(tmp_path / "there") == facts(tmp_path / "here")


def test_runs_of_texts_are_audited_compared_and_reported(tmp_path: Path) -> None:
    run_study(text_study(tmp_path), tmp_path / "one")
    run_study(text_study(tmp_path, seed=1), tmp_path / "two")
    with Run(tmp_path / "one") as first, Run(tmp_path / "two") as second:
        one, two = first.evaluation(), second.evaluation()
        page = write_run_report(first, tmp_path / "report.html").read_text(encoding="utf-8")
    assert one.image_names == ("text-0", "text-1", "text-2", "text-3")
    found = audit(one, min_completeness=0.1, min_soundness=0.1, method="occlusion")
    assert "occlusion" in str(found)
    compared = str(pm.compare({"one": one, "two": two}, allow_mismatch=True))
    assert "random" in compared and "completeness" in compared
    assert "occlusion" in page and "songs" in page  # a word of the third text
