"""The table of methods on its page has every method, and the package that a page shows is one."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from proofmap.methods import METHODS
from tests.docs.pages import DOCS, ROOT, blocks

PAGE = DOCS / "methods" / "index.md"


def test_the_page_has_a_row_for_every_method() -> None:
    from docs.made_pages import METHODS_PLACE, method_table

    text = PAGE.read_text(encoding="utf-8")
    assert len(METHODS_PLACE.findall(text)) == 1
    header, _, *rows = method_table().splitlines()
    named = [row.split("`")[1] for row in rows if "`" in row]
    assert sorted(named) == sorted(METHODS)
    assert all(row.count("|") == header.count("|") for row in rows)
    (gradient,) = [row for row in rows if row.startswith("| `gradient-x-input` ")]
    assert gradient.endswith("| 1 per label | one per label ± | gradients | Shrikumar et al. 2017 |")


@pytest.mark.slow
def test_the_package_on_the_page_adds_its_method_where_it_is_installed(tmp_path: Path) -> None:
    shown = list(blocks(DOCS / "extend.md"))
    (project,) = [tomllib.loads(b.code)["project"] for b in shown if b.language == "toml"]
    (module,) = [b for b in shown if b.title == "bright_maps.py"]
    (tmp_path / module.title).write_text(module.code)
    about = tmp_path / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    about.mkdir()  # what pip writes
    name = f"Name: {project['name']}\nVersion: {project['version']}\n"
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\n{name}")
    groups = project["entry-points"].items()
    lines = [f"[{group}]\n" + "".join(f"{k} = {v}\n" for k, v in points.items()) for group, points in groups]
    (about / "entry_points.txt").write_text("".join(lines))

    program = (
        "import sys\n"
        "from proofmap.methods import make_method\n"
        "from proofmap.testing import check_method\n"
        "check_method(make_method('bright-maps:power=2'))\n"
        "from proofmap.cli import make_app\n"
        "make_app()(['list', 'methods', 'bright-maps'])\n"
    )
    paths = os.pathsep.join([str(ROOT / "src"), str(tmp_path)])
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "bright pixels, from a package of its own" in done.stdout
