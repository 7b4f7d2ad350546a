"""What ``make`` installs can be installed on the machines that the README names."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path

from packaging.specifiers import SpecifierSet

OLDEST = "3.11.2"
"""Debian's Python 3.11."""


def test_every_pinned_version_is_one_for_the_oldest_python() -> None:
    text = (Path(__file__).parents[1] / "constraints.txt").read_text(encoding="utf-8")
    pinned = re.findall(r"^([\w.-]+)==(\S+)$", text, re.MULTILINE)
    checked, refused = 0, {}
    for name, version in pinned:
        try:
            told = metadata(name)
        except PackageNotFoundError:  # for another system
            continue
        if told["Version"].partition("+")[0] == version:
            checked += 1
            wanted = told.get("Requires-Python")
            if wanted and OLDEST not in SpecifierSet(wanted):
                refused[name] = wanted
    assert not refused and checked > len(pinned) / 2 > 50
