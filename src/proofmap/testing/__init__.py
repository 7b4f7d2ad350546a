"""Contracts for authors of plug-ins: checks that every method, metric, fill, game, dataset, executor and kind of input must pass.

A contract is a list of promises, and there is one check for each. ``check_method(MyMethod())`` runs all checks and raises one
AssertionError that names each broken promise. ``check_method.checks`` has the single checks, for parametrised tests::

    import pytest
    from proofmap.testing import check_method


    @pytest.mark.parametrize("check", check_method.checks)
    def test_my_method(check):
        check(MyMethod())

The checks do not need pytest. The plug-ins of this package pass the same checks.
"""

from proofmap.testing.datasets import check_dataset
from proofmap.testing.executors import check_executor
from proofmap.testing.inputs import check_fill, check_inputs
from proofmap.testing.methods import check_method
from proofmap.testing.metrics import check_game, check_metric

__all__ = [
    "check_method",
    "check_fill",
    "check_game",
    "check_metric",
    "check_executor",
    "check_dataset",
    "check_inputs",
]
