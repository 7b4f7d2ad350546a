"""Code that was edited is other code: a study never adds its numbers to those of the code before."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import proofmap as pm
from proofmap.core.errors import InputError
from proofmap.core.version import package_digest, source_version
from proofmap.fills import Gray
from proofmap.methods.controls import Random
from proofmap.metrics import make_metric
from proofmap.metrics.proof_scores import Soundness
from proofmap.models import load_classifier
from proofmap.plugins.identity import provenance
from proofmap.plugins.python_file import is_installed, source_files, source_of
from tests.sessions import bound
from tests.study.studies import toy_study
from tests.toys import conv_classifier, pixels

FILES = {
    "mine.py": """
from typing import ClassVar
import torch
from torch import nn
from helpers import scaled
from proofmap.fills import Fill
from proofmap.methods import Method

SIGN = 1.0

def helper(x):
    return SIGN * x.mean(dim=1, keepdim=True)

def bright(classifier, images, labels):
    from late import shift
    return scaled(helper(images)).expand(-1, labels.shape[1], -1, -1) + shift

class Brightness(Method):
    name: ClassVar[str] = "edited-brightness"
    description: ClassVar[str] = "bright pixels"
    factor: ClassVar[float] = 3.0
    label_free = True

    def maps(self, session, images, labels):
        return self.inner(images)

    def inner(self, images):
        return self.factor * helper(images)

class White(Fill):
    name: ClassVar[str] = "edited-white"
    description: ClassVar[str] = "white"

    def backgrounds(self, session, images, keys):
        return torch.ones_like(images)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(12, 3)
        nn.init.eye_(self.layer.weight)
        nn.init.zeros_(self.layer.bias)

    def forward(self, x):
        return self.readout(self.layer(x.flatten(1)))

    def readout(self, x):
        return helper(x[:, None])[:, 0] * torch.arange(3)

def net():
    return Net(), {"size": 2}
""",
    "helpers.py": "from deep.inside import POWER\n\ndef scaled(x):\n    return x ** POWER\n",
    "late.py": "shift = 0.0\n",
    "deep/__init__.py": "",
    "deep/inside.py": "from . import constants\n\nPOWER = constants.POWER\n",
    "deep/constants.py": "POWER = 2.0\n",
    "unrelated.py": "NUMBER = 1\n",
}
EDITS = {
    "a constant of the module": ("mine.py", "SIGN = 1.0", "SIGN = -10.0"),
    "a helper": ("mine.py", "SIGN * x.mean", "-SIGN * x.mean"),
    "a class attribute": ("mine.py", "factor: ClassVar[float] = 3.0", "factor: ClassVar[float] = -30.0"),
    "a method of the class": ("mine.py", "self.factor * helper", "-self.factor * helper"),
    "a module beside it": ("helpers.py", "x ** POWER", "-(x ** POWER)"),
    "a module below it": ("deep/constants.py", "2.0", "-20.0"),
    "a module imported in a function": ("late.py", "0.0", "-10.0"),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


USES: dict[str, Callable[[Path], object]] = {
    "a function": lambda file: pm.make_method(f"{file}:bright").settings()["code"],
    "a class": lambda file: provenance(pm.make_method(f"{file}:Brightness"))["code"],
    "a class inside another method": lambda file: provenance(pm.make_method(f"top-label:{file}:Brightness"))[
        "code"
    ],
    "a fill of a metric": lambda file: bound(
        make_metric({"metric": "insertion", "fill": f"{file}:White"}), conv_classifier(8)
    ).record()["code"],
    "a net": lambda file: load_classifier(f"{file}:net").fingerprint(),
}


@pytest.mark.parametrize("use", USES)
def test_what_a_file_gives_is_known_by_the_whole_file_and_what_it_imports(folder: Path, use: str) -> None:
    digest = USES[use]
    first = digest(folder / "mine.py")
    seen = {first}
    for name, old, new in EDITS.values():
        edit(folder / name, old, new)
        seen.add(digest(folder / "mine.py"))
        edit(folder / name, new, old)
    assert len(seen) == len(EDITS) + 1
    edit(folder / "unrelated.py", "1", "2000")
    edit(folder / "mine.py", "SIGN = 1.0", "SIGN = 1.0  # not -1")
    assert digest(folder / "mine.py") == first, "comments and files that are not imported do not count"


@pytest.mark.parametrize("use", USES)
def test_a_project_may_be_moved(folder: Path, use: str) -> None:
    digest = USES[use]
    first = digest(folder / "mine.py")
    shutil.copytree(folder, folder / "elsewhere" / "project")
    assert digest(folder / "elsewhere" / "project" / "mine.py") == first


def test_an_edited_module_beside_a_file_runs_again(folder: Path) -> None:
    f, images = conv_classifier(8), conv_classifier(8).blank(1) + 0.25
    labels = f.top(images, 1)

    def value() -> float:
        return pm.make_method(f"{folder / 'mine.py'}:bright")(f, images, labels).flatten()[0].item()

    sys.path.insert(0, str(folder))  # for the import inside the function
    try:
        first = value()
        edit(folder / "helpers.py", "x ** POWER", "-(x ** POWER)")
        assert value() == pytest.approx(-first)
    finally:
        sys.path.remove(str(folder))
        sys.modules.pop("late", None)


def test_modules_of_one_name_in_two_folders_are_two(tmp_path: Path) -> None:
    found = []
    for k in (1, 2):
        (tmp_path / str(k)).mkdir()
        (tmp_path / str(k) / "twin_helper.py").write_text(f"K = {k}\n")
        (tmp_path / str(k) / "mine.py").write_text(
            "from twin_helper import K\ndef f(classifier, images, labels, k=K):\n    return images * k\n"
        )
        method = pm.make_method(f"{tmp_path / str(k) / 'mine.py'}:f")
        found.append(method.function.__defaults__)  # type: ignore[attr-defined]
    assert found == [(1,), (2,)]


def test_installed_packages_count_by_their_version() -> None:
    import PIL.Image

    assert source_of(PIL.Image.__name__) == f"PIL {PIL.__version__}"
    assert is_installed(Path(str(PIL.Image.__file__)))
    assert source_of("torch") == source_of("proofmap.study") == ""


def test_relative_imports_and_packages_are_followed(folder: Path) -> None:
    (folder / "deep" / "user.py").write_text("from deep.inside import POWER\nimport unrelated\n")
    names = [path.name for path in source_files(folder / "deep" / "user.py")]
    assert names == ["user.py", "__init__.py", "constants.py", "inside.py", "unrelated.py"]


# ---- revisions and versions -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind, name", [(Random, "method random"), (Soundness, "metric soundness")])
def test_another_revision_of_a_plug_in_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type, name: str
) -> None:
    study = toy_study(tmp_path, 3, methods=["random"], metrics=["soundness"])
    pm.run_study(study, tmp_path / "run")
    monkeypatch.setattr(kind, "revision", 2)
    with pytest.raises(InputError, match=rf'revisions: nothing there, {{"{name}": 2}} now'):
        pm.run_study(study, tmp_path / "run")


def test_the_revision_of_a_fill_inside_a_metric_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    before = bound(Soundness(), conv_classifier(8)).record()
    assert "revisions" not in before, "the first is not stated"
    monkeypatch.setattr(Gray, "revision", 3)
    after = bound(Soundness(), conv_classifier(8)).record()
    assert after == {**before, "revisions": {"fill gray": 3}}


def test_a_version_counts_the_code_that_makes_numbers(tmp_path: Path) -> None:
    package = Path(str(pm.__file__)).parent
    shutil.copytree(
        package, tmp_path / "p", ignore=lambda _, names: [n for n in names if "." in n and n[-3:] != ".py"]
    )
    first = package_digest(tmp_path / "p")
    assert source_version() == f"{pm.__version__}+src.{first}", "the package itself"
    edit(tmp_path / "p" / "report" / "html.py", "def ", "def not_")
    assert package_digest(tmp_path / "p") == first
    digests = [first]
    for name in ("metrics/scores.py", "judging.py", "checking.py", "study/survey.py"):
        with open(tmp_path / "p" / name, "a") as file:
            file.write("NUMBER = 1\n")
        digests.append(package_digest(tmp_path / "p"))
    assert len(set(digests)) == 5


def test_an_evaluation_in_memory_names_the_source_that_made_it() -> None:
    found = pm.evaluate(conv_classifier(), pixels(1, 8), methods=["random"], metrics=["insertion:points=4"])
    assert found.settings["proofmap"] == source_version()
