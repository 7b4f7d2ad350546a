"""Who judges the judge: metrics are put to tests whose answer is known, on a person's own net and data."""

from proofmap.validation.validating import TESTS, expected_passes, validate

__all__ = ["TESTS", "expected_passes", "validate"]
