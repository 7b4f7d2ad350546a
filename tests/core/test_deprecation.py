"""Deprecated names work, warn once at the caller's line, and cannot outlive their last version."""

from __future__ import annotations

import warnings

import pytest

from proofmap.core import deprecation
from proofmap.core.deprecation import deprecated, warn_deprecated


@pytest.fixture(autouse=True)
def version(monkeypatch: pytest.MonkeyPatch) -> None:
    """Version 0.2.0, in which nothing has warned yet."""
    monkeypatch.setattr(deprecation, "_warned", set())
    monkeypatch.setattr(deprecation, "__version__", "0.2.0")


def test_a_deprecated_function_works_and_warns_once_where_it_is_called() -> None:
    @deprecated(since="0.2", removed_in="0.4", use="area()")
    def auc(value: float, *, scale: float = 1) -> float:
        """The docstring stays."""
        return value * scale

    with pytest.warns(FutureWarning) as caught:
        assert [auc(2, scale=3), auc(2)] == [6, 2]
    (warning,) = caught
    assert warning.filename == __file__
    assert str(warning.message).endswith(
        "auc() is deprecated since version 0.2 and will be removed in version 0.4. Use area() instead."
    )
    assert auc.__doc__ == "The docstring stays."


def test_a_function_without_a_replacement_names_none() -> None:
    with pytest.warns(FutureWarning, match=r"removed in version 1\.0\.$"):
        warn_deprecated("proofmap.old", since="0.2", removed_in="1.0")


def test_an_argument_warns_at_the_line_of_the_caller() -> None:
    def evaluate(*, anyway: bool = False) -> None:
        if anyway:
            warn_deprecated("evaluate(anyway=...)", since="0.2", removed_in="0.4", use="allow_mismatch")

    with pytest.warns(FutureWarning, match=r"^evaluate\(anyway=\.\.\.\) is deprecated") as caught:
        evaluate(anyway=True)
    assert caught[0].filename == __file__


def test_every_use_raises_if_warnings_are_errors() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(2):
            with pytest.raises(FutureWarning):
                warn_deprecated("proofmap.old", since="0.2", removed_in="0.4")


@pytest.mark.parametrize("removed_in", ["0.2", "0.2.0", "0.1.9"])
def test_a_function_cannot_outlive_the_version_that_removes_it(removed_in: str) -> None:
    with pytest.raises(
        ValueError, match=rf"old was to be removed in {removed_in}; this is 0\.2\.0: delete it"
    ):

        @deprecated(since="0.1", removed_in=removed_in)
        def old() -> None: ...


def test_versions_are_compared_as_numbers() -> None:
    @deprecated(since="0.9", removed_in="0.10")
    def old() -> None: ...

    with pytest.raises(ValueError, match=r"removed_in must be later than since, 0\.10; it is 0\.9"):
        deprecated(since="0.10", removed_in="0.9")
    with pytest.raises(ValueError, match=r"a version has the form 0\.2 or 0\.2\.1, not 'next'"):
        deprecated(since="0.2", removed_in="next")


def test_the_fill_that_had_the_name_of_a_metric_still_answers_to_it() -> None:
    from proofmap import fills

    with pytest.warns(FutureWarning, match=r"Use proofmap\.fills\.DeletedWords instead"):
        assert fills.Deletion is fills.DeletedWords and fills.make_fill("delete") == fills.DeletedWords()
    with pytest.raises(AttributeError, match="no attribute 'Deleted'"):
        fills.Deleted  # noqa: B018
