"""What the pages show works: their Python runs, their commands exist, their files can be read."""

from __future__ import annotations

import ast
import functools
import importlib
import importlib.util
import json
import re
import shlex
import sys
import tomllib
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import typer
from PIL import Image
from torch import Tensor
from typer.testing import CliRunner

import proofmap as pm
from docs import names
from proofmap.bench import task
from proofmap.cli import make_app
from proofmap.core.inputs import KINDS
from proofmap.core.labels import LabelRule
from proofmap.fills import FILLS
from proofmap.methods import METHODS, make_method
from proofmap.metrics import GAMES, METRICS, make_metric
from proofmap.models import registry
from proofmap.plugins.specs import is_python_file, split_specs
from proofmap.reproduce.recipe import Recipe
from proofmap.study import Study
from tests.bench.small_task import write_tasks
from tests.docs.pages import (
    DOCS,
    PAGES,
    ROOT,
    CodeBlock,
    blocks,
    commands,
    few_distractors,
    few_draws,
    few_passes,
    tiny_model,
    write_photos,
)


def _name(page: Path) -> str:
    return str(page.relative_to(ROOT))


README = ROOT / "README.md"  # what it runs has a test of its own
RUN = [
    pytest.param(page, marks=[pytest.mark.slow] if page.name == "proofbench.md" else [], id=_name(page))
    for page in PAGES
    if page != README and any(block.runs and block.language == "python" for block in blocks(page))
]


@pytest.fixture
def small_world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with tiny photos, where the usual net is a tiny one; what a page registers is forgotten after it."""
    write_photos(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(registry._OWN, registry.DEFAULT_MODEL, tiny_model())
    few_distractors(monkeypatch)
    few_passes(monkeypatch)
    few_draws(monkeypatch)
    monkeypatch.syspath_prepend(tmp_path)
    for known in (METHODS, METRICS, FILLS, GAMES, KINDS):
        monkeypatch.setattr(known, "_known", {name: known[name] for name in known})
    return tmp_path


@pytest.mark.parametrize("page", RUN)
def test_a_page_can_be_followed_from_top_to_bottom(
    page: Path, small_world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if page.name == "proofbench.md":
        tasks = write_tasks(small_world / "bench", "smoke")
        monkeypatch.setattr(task, "_folder", lambda: tasks)
    module = ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", module)  # dataclasses look their module up
    for block in blocks(page):
        if block.title:
            (small_world / block.title).parent.mkdir(parents=True, exist_ok=True)
            (small_world / block.title).write_text(block.code, encoding="utf-8")
        elif not block.runs or (block.needs and importlib.util.find_spec(block.needs) is None):
            continue
        elif block.language == "python":
            _run_python(page, block, vars(module))
        else:
            for line in commands(block):
                _run_command(line)


def test_the_python_of_the_readme_gives_the_maps_and_numbers_of_its_command(small_world: Path) -> None:
    assert "proofmap explain sample:rocket" in README.read_text(encoding="utf-8")
    (block,) = [block for block in blocks(README) if block.runs]
    _run_python(README, block, {})
    _run_command("proofmap explain sample:rocket -q")
    for file in ("maps.safetensors", "pairs.csv"):
        assert (small_world / "out" / file).read_bytes() == (small_world / "proofs" / file).read_bytes(), file
    python, command = (
        np.asarray(Image.open(sheet).convert("RGB"))
        for out in ("out", "proofs")
        for sheet in (small_world / out).glob("rocket.belief-mask*.png")
    )
    drawn = (
        3 * len(python) // 4
    )  # below are notes: the command knows the photo, and says how much of it the net sees
    assert len(command) > len(python) and np.array_equal(python[:drawn], command[:drawn])


def _run_python(page: Path, block: CodeBlock, namespace: dict[str, Any]) -> None:
    source = "\n" * (block.line - 1) + block.code  # so that an error names the page's own line
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what other packages warn of is not the page's doing
        exec(compile(source, str(page), "exec"), namespace)


def _run_command(line: str) -> None:
    program, *words = shlex.split(line)
    assert program == "proofmap", line
    result = CliRunner().invoke(make_app(), words)
    assert result.exit_code == 0, f"{line}\n{result.output}{result.exception or ''}"


SHOWN = [
    pytest.param(line, id=f"{_name(page)}: {line[:60]}")
    for page in PAGES
    for block in blocks(page)
    if block.language in ("sh", "yaml")
    for line in (part.removeprefix("- run: ") for part in commands(block))
    if line.startswith("proofmap ")
]


@functools.cache
def command_line() -> Any:
    return typer.main.get_command(make_app())


@pytest.mark.parametrize("line", SHOWN)
def test_every_command_shown_exists_with_its_options(line: str) -> None:
    _, name, *words = shlex.split(line.partition(" >> ")[0], comments=True)
    command = command_line().commands[name]
    given = command.make_context(name, list(words)).params
    named = given.get("methods") or given.get("method") or "random"
    for each in named if isinstance(named, (list, tuple)) else [named]:
        for method in split_specs(each):
            if not is_python_file(method):  # files are there when the page's story is run
                make_method(method)
    for metric in split_specs(given["metrics"]) if given.get("metrics") else []:
        make_metric(metric)
    if given.get("labels"):
        LabelRule.parse(given["labels"], ["tabby", "tiger cat", "Egyptian cat"])


STUDIES = [
    pytest.param(block, id=f"{_name(page)}: {block.title}")
    for page in PAGES
    for block in blocks(page)
    if block.language == "toml" and block.title
]


@pytest.mark.parametrize("block", STUDIES)
def test_every_study_file_shown_is_one(block: CodeBlock) -> None:
    study = Study.from_table(tomllib.loads(block.code))
    assert study.named_methods() and study.named_metrics()


@pytest.mark.slow
@pytest.mark.parametrize("notebook", sorted((DOCS / "notebooks").glob("*.ipynb")), ids=_name)
def test_a_notebook_can_be_run_from_top_to_bottom(
    notebook: Path, small_world: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = json.loads(notebook.read_text(encoding="utf-8"))
    for package in content["metadata"]["proofmap"]["needs"]:
        pytest.importorskip(package, reason="the notebook needs it")
    module = ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", module)
    for number, cell in enumerate(content["cells"]):
        if cell["cell_type"] == "code":
            assert cell["outputs"] == [] and cell["execution_count"] is None, (
                "notebooks are kept without outputs"
            )
            block = CodeBlock("python", "", "".join(cell["source"]), "", 1)
            _run_python(notebook.with_suffix(f".cell-{number}"), block, vars(module))
    if notebook.stem == "own-net":
        _the_text_of_the_notebook_is_true(**vars(module))


def _the_text_of_the_notebook_is_true(
    accuracy: Tensor, on_it: Tensor, proof: Any, learned: Any, labels: Tensor, **others: Any
) -> None:
    assert accuracy > 0.9 and on_it.mean() > 0.5, "the map of the right label lies on the drawing"
    for found, least, most in ((proof, 0.0, 0.1), (learned, 0.01, 1.0)):
        wrong = found.result.pairs["soundness"][found.labels != labels[:2, None]]
        assert least <= wrong.mean() <= most
    assert learned.result.insertion.auc[learned.labels != labels[:2, None]].max() < 0.2


def test_the_page_about_python_has_every_name() -> None:
    """Each name of ``import proofmap as pm`` has a heading or a sentence, and code that uses it."""
    page = DOCS / "reference" / "python.md"
    code = "\n".join(block.code for block in blocks(page))
    used = {*re.findall(r"\bpm\.(\w+)", code)}
    assert {*pm.__all__} - used == set()
    titles = " ".join(re.findall(r"^### (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE))
    assert {*pm.__all__} - {*re.findall(r"\w+", titles)} == {"__version__"}
    linked = names.linked(page.read_text(encoding="utf-8"))
    assert "\n[`load_classifier`](names/proofmap.md#proofmap.load_classifier) loads a net" in linked
    assert linked.count("](names/proofmap.md#") > 30 and "pm.[" not in linked


def test_examples_import_public_names_only() -> None:
    """Those of ``__all__`` in a public module, registered plug-ins, and others that the reference describes."""
    public = {module: {*importlib.import_module(module).__all__} for module in names.MODULES}
    others = set()
    for page in PAGES:
        for block in (b for b in blocks(page) if b.language == "python"):
            for node in ast.walk(ast.parse(block.code)):
                if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "proofmap":
                    assert node.module is not None
                    imported = {f"{node.module}.{name.name}" for name in node.names}
                    if not imported <= public.keys():  # a module itself may be imported, too
                        some = {name.name for name in node.names} - public.get(node.module, set())
                        others |= {f"{node.module}.{name}" for name in some}
    unpromised = ("proofmap.theory.", "proofmap.methods.maskers.trained.")
    assert [name for name in sorted(others - names.beyond()) if not name.startswith(unpromised)] == []


def test_every_public_name_is_described_with_an_example_that_runs() -> None:
    """Examples of docstrings and of pages are run by other tests; those that make a plug-in by its name are run here."""
    described = names.pages()
    assert len({*names.public().values()}) > 100
    for path, one in names.public().items():
        assert f'<a id="{one.path}"></a>' in described[f"reference/names/{one.page}.md"], path
        assert len(names.summary(names.docstring(one))) > 3, f"{path} has no docstring"
        assert names.has_doctest(one) or names.example(one), f"{path} has no example"
        code = names.making(one.value)
        if code and not hasattr(one.value, "example"):  # other libraries may not be there
            exec(code, {})
    for members in names.plugins().values():
        assert all(
            f'<a id="{one.path}"></a>' in described["reference/names/plug-ins.md"] for _, one in members
        )
    assert ":class:" not in "".join(described.values())


def test_pictures_are_small_made_here_and_used() -> None:
    text = "".join(p.read_text(encoding="utf-8") for p in [*DOCS.rglob("*.md"), ROOT / "README.md"])
    makers = "".join(p.read_text(encoding="utf-8") for p in DOCS.glob("*.py"))
    for picture in (DOCS / "pictures").iterdir():
        assert picture.stat().st_size < 200_000, picture.name
        assert picture.name in text, f"no page shows {picture.name}"
        made = picture.name in makers or picture.stem.startswith(tuple(Recipe.names()))
        assert made, f"nothing here makes {picture.name}"
