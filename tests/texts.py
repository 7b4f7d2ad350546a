"""Random texts for property tests."""

from __future__ import annotations

from hypothesis import strategies as st

ANY = st.characters(exclude_categories=["Cs"])
"""Every character that a file can hold. Hypothesis takes seconds to find the same ones for its own default, `st.text()`."""
