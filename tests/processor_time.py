"""Processor time by test and by file: what the suite costs, also on a machine that is busy with something else.

The time of a test is that of its process and of the children that it waited for, from the start of its set-up to the end of its
tear-down. A fixture that several tests share counts for the first of them. `--processor-time FILE` writes the table.
"""

from __future__ import annotations

import resource
import time
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

STARTED = pytest.StashKey[float]()


def spent() -> float:
    """Seconds of processor time of this process and of its children that have ended."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


class ProcessorTime:
    """Measures each test where it runs, and writes the table where the reports arrive."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.tests: dict[str, float] = {}
        self.collecting: list[float] = []

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        item.stash[STARTED] = spent()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if report.when == "teardown":
            report.user_properties.append(("processor", spent() - item.stash[STARTED]))
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for name, value in report.user_properties:
            if name == "processor":
                self.tests[report.nodeid] = value

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
        """Files and tests, the most expensive first, in seconds."""
        files: dict[str, list[float]] = defaultdict(list)
        for test, seconds in self.tests.items():
            files[test.partition("::")[0]].append(seconds)
        total = sum(self.tests.values())
        starts = ", ".join(f"{seconds:.1f}" for seconds in self.collecting)
        lines = [f"{total:8.1f}  {len(self.tests)} tests; start and collection of each process: {starts}", "", "by file"]
        for name, times in sorted(files.items(), key=lambda pair: -sum(pair[1])):
            lines.append(f"{sum(times):8.2f}  {name} ({len(times)})")
        lines += ["", "by test"]
        for name, seconds in sorted(self.tests.items(), key=lambda pair: -pair[1]):
            if seconds >= 0.1:
                lines.append(f"{seconds:8.2f}  {name}")
        return "\n".join(lines) + "\n"
