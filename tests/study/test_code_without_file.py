"""A run whose method is defined in a notebook goes on in the process that defined it; one of a file goes on everywhere."""

from __future__ import annotations

from pathlib import Path

import pytest

import proofmap as pm
from proofmap.core.errors import InputError
from tests.plugins.test_identity import NOTEBOOK, notebook
from tests.study.processes import Processes
from tests.study.studies import toy_study


def test_a_run_of_code_without_a_file_goes_on_in_this_process_and_no_other(
    tmp_path: Path, processes: Processes
) -> None:
    bright = notebook(NOTEBOOK)["bright"]
    run = tmp_path / "run"
    pm.run_study(toy_study(tmp_path, 2, methods=[bright], metrics=["insertion"]), run)
    assert pm.run_study(toy_study(tmp_path, 4, methods=[bright], metrics=["insertion"]), run).units == 1
    elsewhere = toy_study(tmp_path, 4, methods=[notebook(NOTEBOOK)["bright"]], metrics=["insertion"])
    with pytest.raises(
        InputError,
        match=r"(?s)'bright' of .*the method is code without a file .* cannot be continued in anot",
    ):
        pm.run_study(elsewhere, run)
    (tmp_path / "mine.py").write_text(NOTEBOOK)
    from_file = toy_study(tmp_path, 2, methods=[f"{tmp_path / 'mine.py'}:bright"], metrics=["insertion"])
    answer = processes.run(from_file, tmp_path / "other")
    assert answer is not None and answer["units"] and not answer["failed"]
    assert pm.run_study(from_file, tmp_path / "other").units == 0, "a file is known in every process"
