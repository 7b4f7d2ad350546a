"""Contracts for authors of plug-ins: what every method, executor and dataset promises, as checks to run on your own.

All have the same form. ``check_method(MyMethod())`` runs every check and raises one AssertionError that names each
broken promise; ``check_method.checks`` are the single checks, for parametrised tests::

    import pytest
    from proofmap.testing import check_method


    @pytest.mark.parametrize("check", check_method.checks, ids=str)
    def test_my_method(check):
        check(MyMethod())

The checks need no pytest. The methods, executors and datasets of this package go through the same ones.
"""

from proofmap.testing.contract import Check, Contract
from proofmap.testing.datasets import check_dataset
from proofmap.testing.executors import check_executor
from proofmap.testing.fills import check_fill
from proofmap.testing.games import check_game
from proofmap.testing.methods import check_method

__all__ = ["check_method", "check_fill", "check_game", "check_executor", "check_dataset", "Contract", "Check"]
