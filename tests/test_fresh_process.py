"""What only a process that has imported nothing yet can tell, in as few of them as will do: each takes seconds to import torch."""

from __future__ import annotations

import functools
import json
import os
import subprocess
import sys
from typing import Any

import pytest

from proofmap.plugins.identity import identity

PROGRAM = """
import json, sys
sys.modules["pytest"] = None
told = {}

import proofmap.models
told["hubs"] = sorted({"torchvision", "timm", "transformers"} & sys.modules.keys())

from proofmap.report.figures.theorem import theorem
from proofmap.report import figures
told["caption"] = theorem(d=32, gammas=(0.5,), trials=2, points=2).caption()
told["matplotlib"] = "matplotlib" in sys.modules

import proofmap.core.inputs
from proofmap.data import TensorData
told["frames"] = sorted({"pandas", "polars"} & sys.modules.keys())
from proofmap.testing import check_dataset
check_dataset(TensorData([[1.0], [2.0]], kind="rows"))
told["contract"] = "kept"

from functools import partial
from proofmap.plugins.identity import identity
told["digest"] = identity(partial(sorted, {"a", "b", "c", "d", "e"}), {"f": frozenset("abcde")})

print(json.dumps(told))
"""


def told(seed: str, program: str = PROGRAM) -> Any:
    """What the program prints in a process of its own, whose hashes of strings begin at a seed."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONHASHSEED": seed}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def fresh() -> dict[str, Any]:
    return told("1")


def test_importing_the_models_imports_no_hub(fresh: dict[str, Any]) -> None:
    assert fresh["hubs"] == []


def test_inputs_and_data_import_no_pandas(fresh: dict[str, Any]) -> None:
    assert fresh["frames"] == []


def test_records_of_figures_need_no_matplotlib(fresh: dict[str, Any]) -> None:
    assert fresh["caption"] and not fresh["matplotlib"]


def test_the_contracts_need_no_pytest(fresh: dict[str, Any]) -> None:
    assert fresh["contract"] == "kept"


def test_the_digest_of_code_is_the_same_in_every_process(fresh: dict[str, Any]) -> None:
    """Sets of strings are printed in an order that changes with the hash seed, which here is another one."""
    here = identity(functools.partial(sorted, {"a", "b", "c", "d", "e"}), {"f": frozenset("abcde")})
    assert fresh["digest"] == here


def test_the_help_imports_no_torch() -> None:
    program = """
import io, json, sys
from contextlib import redirect_stdout
sys.argv, printed = ["proofmap", "--help"], io.StringIO()
from proofmap.cli import main
try:
    with redirect_stdout(printed):
        main()
except SystemExit:
    pass
heavy = sorted({"torch", "numpy", "PIL", "matplotlib"} & sys.modules.keys())
print(json.dumps({"heavy": heavy, "help": printed.getvalue()}))
"""
    found = told("1", program)
    assert found["heavy"] == [] and "reproduce" in found["help"]
