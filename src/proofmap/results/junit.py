"""An audit as JUnit XML, the format that GitLab, GitHub and Jenkins read: one test per bar."""

from __future__ import annotations

import re
from collections.abc import Mapping
from xml.etree import ElementTree

from proofmap.core.text import one_line
from proofmap.results.audit import AuditLine, AuditResult
from proofmap.results.drops import DropLine

SUITE = "proofmap audit"
_NOT_XML = re.compile("[^\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")  # of what fits in one line


def junit(result: AuditResult, *, run: str = "", also: Mapping[str, str] | None = None) -> str:
    """One ``testcase`` per bar, per score that is compared with another run, and per control; a control must miss a bar.

    Args:
        run: what was audited; test reports group by it.
        also: other demands on the run, and why each is not met (empty if it is).
    """
    cases = [_of_line(line) for line in result.lines] + [_of_drop(line) for line in result.drops]
    for control in dict.fromkeys(line.method for line in result.controls):
        reached = control in result.too_good
        cases.append((control, "misses a bar, as a control", "reaches every bar" if reached else "", ""))
    cases += [("the run", what, why, "") for what, why in (also or {}).items()]
    failed = sum(bool(reason) for _, _, reason, _ in cases)
    counts = {"tests": str(len(cases)), "failures": str(failed), "errors": "0", "skipped": "0"}
    suites = ElementTree.Element("testsuites", {"name": SUITE, **counts})
    suite = ElementTree.SubElement(suites, "testsuite", {"name": _text(f"{SUITE} {run}".strip()), **counts})
    for method, what, reason, found in cases:
        about = {"classname": _text(f"{run}.{method}" if run else method), "name": _text(what), "time": "0"}
        case = ElementTree.SubElement(suite, "testcase", about)
        if reason:
            failure = ElementTree.SubElement(case, "failure", {"message": _text(reason), "type": "bar"})
            failure.text = _text(" ".join(part for part in (method, what, reason, found) if part))
        elif found:
            ElementTree.SubElement(case, "system-out").text = _text(found)
    ElementTree.SubElement(suite, "system-out").text = "\n".join(map(_text, (*result.notes, result.rule)))
    ElementTree.indent(suites, " ")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ElementTree.tostring(suites, encoding="unicode")}\n'


def _of_line(line: AuditLine) -> tuple[str, str, str, str]:
    found = f"(mean {line.value:.4f}, 95 % interval {line.low:.4f} to {line.high:.4f}, n = {line.n})"
    return line.method, f"{line.metric} {line.what}", line.reason, found


def _of_drop(line: DropLine) -> tuple[str, str, str, str]:
    found = (
        f"(mean {line.value:.4f}, before {line.value_against:.4f}, difference {line.difference:+.4f}, "
        f"95 % interval {line.low:+.4f} to {line.high:+.4f}, n = {line.n})"
    )
    return line.method, f"{line.metric} against the other run: {line.bar}", line.reason, found


def _text(text: str) -> str:
    """The text in one line of characters that XML can hold."""
    return _NOT_XML.sub("?", one_line(text))
