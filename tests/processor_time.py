"""What each test and each file of tests cost, in processor time and by the clock: `--processor-time=FILE` writes the table.

Processor time is nearly the same on a machine that is busy with something else. It is that of the test's process and of the
children that it waited for, from the start of its set-up to the end of its tear-down. A fixture that several tests share counts
for the first of them.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

LEAST = 0.1
"""Seconds that make a test worth a row of its own."""
STARTED = pytest.StashKey[tuple[float, float]]()


def spent() -> float:
    """Seconds of processor time of this process and, except on Windows, of its children that have ended."""
    children = os.times()
    return time.process_time() + children.children_user + children.children_system


class ProcessorTime:
    """Measures each test where it runs, and writes the table where the reports arrive."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.tests: dict[str, tuple[float, float]] = {}
        self.collecting: list[float] = []

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        item.stash[STARTED] = spent(), time.monotonic()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if report.when == "teardown":
            used, at = item.stash[STARTED]
            report.user_properties.append(("cost", (spent() - used, time.monotonic() - at)))
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, value in report.user_properties:
            if name == "cost":
                self.tests[report.nodeid] = tuple(value)

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        used = spent()
        if hasattr(self.config, "workeroutput"):
            self.config.workeroutput["collecting"] = used
        else:
            self.collecting.append(used)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any, error: object) -> None:
        self.collecting.append(getattr(node, "workeroutput", {}).get("collecting", 0.0))

    def pytest_sessionfinish(self) -> None:
        if not hasattr(self.config, "workeroutput"):
            file = Path(self.config.getoption("--processor-time"))
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(self.table())

    def table(self) -> str:
        """Files and tests, the most expensive first."""
        files: dict[str, list[str]] = defaultdict(list)
        for test in self.tests:
            files[test.partition("::")[0]].append(test)
        by_file = {f"{name} ({len(tests)})": self.sum_of(tests) for name, tests in files.items()}
        by_test = {name: cost for name, cost in self.tests.items() if max(cost) >= LEAST}
        starts = ", ".join(f"{seconds:.1f}" for seconds in self.collecting)
        return "\n".join(
            [
                "seconds of processor time, seconds by the clock",
                _row(f"{len(self.tests)} tests", self.sum_of(list(self.tests))),
                f"processor time to start and collect, by process: {starts}",
                *("", "by file", *_rows(by_file)),
                *("", f"by test, from {LEAST} s", *_rows(by_test), ""),
            ]
        )

    def sum_of(self, tests: list[str]) -> tuple[float, float]:
        return sum(self.tests[test][0] for test in tests), sum(self.tests[test][1] for test in tests)


def _rows(costs: dict[str, tuple[float, float]]) -> list[str]:
    return [_row(name, cost) for name, cost in sorted(costs.items(), key=lambda pair: -pair[1][0])]


def _row(name: str, cost: tuple[float, float]) -> str:
    return f"{cost[0]:8.2f} {cost[1]:8.2f}  {name}"
