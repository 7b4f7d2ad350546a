"""Run the core tests with the oldest versions that pyproject.toml allows, and with the newest versions that pip finds.

Each environment is created in a temporary folder and removed afterwards; the repository's own is not touched. The oldest
environment has Python 3.11 and the lower bound of every package in ``dependencies`` of pyproject.toml.
Both together need about 10 GB of disk for a while, and half an hour on two cores. Hosted CI runs the same command.

    python benchmarks/attacks/versions.py                                   # both, with python3.11 and python3.13
    python benchmarks/attacks/versions.py oldest --tests tests/core
    python benchmarks/attacks/versions.py newest --python python3.12
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
ORACLES = ("scipy", "scikit-learn", "scikit-image", "matplotlib", "pandas", "captum")
"""Packages that the core tests compare with. Captum is installed without its dependencies, because they include torchvision."""
PYTHONS = {"oldest": "python3.11", "newest": "python3.13"}
BOUNDS = {
    "scikit-image": "0.24",
    "scikit-learn": "1.5",
    "matplotlib": "3.8",
    "scipy": "1.13",
    "pandas": "2.2",
    "captum": "0.8",
}
TESTS = ("core", "plugins", "data", "methods", "metrics", "theory", "study")
OTHERS = ("tests/methods/test_adapters.py", "tests/study/test_ray_executor.py", "tests/test_set_up.py")
"""Tests of optional packages, and of the exact versions."""
WARNINGS = ("default::DeprecationWarning", "default::FutureWarning", "default:Guards may run slower")
"""Warnings of old libraries about newer ones, and the reverse, are not failures."""


def lower_bounds() -> dict[str, str]:
    """The packages in ``dependencies`` with their oldest allowed versions."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    found = [re.fullmatch(r"([\w-]+)>=([\d.]+)", line) for line in declared]
    return {match[1]: match[2] for match in found if match}


def wanted(which: str) -> list[str]:
    """Requirements for pip. A bound of 2.4 means 2.4.0; pip would read 2.4 as the newest 2.4."""
    if which == "newest":
        return [*lower_bounds(), *ORACLES, "pytest", "hypothesis"]
    bounds = {**lower_bounds(), **BOUNDS, "hypothesis": "6.112"}
    exact = [f"{name}=={version}{'.0' if version.count('.') < 2 else ''}" for name, version in bounds.items()]
    return [*exact, "pytest==8.3.0"]


def install(python: str, which: str, folder: Path) -> Path:
    subprocess.run([python, "-m", "venv", str(folder)], check=True)
    executable = folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    pip = [str(executable), "-m", "pip", "-q", "install"]
    packages = wanted(which)
    captum = [name for name in packages if name.startswith("captum")]
    subprocess.run([*pip, *(name for name in packages if name not in captum), "tqdm"], check=True)
    subprocess.run([*pip, "--no-deps", *captum], check=True)
    return executable


def run(python: Path, tests: list[str]) -> int:
    """Run tests with the sources of this repository; the exit code of pytest."""
    said = "import sys, torch, numpy; print(sys.version.split()[0], torch.__version__, numpy.__version__)"
    print(
        "Python, torch, numpy:", subprocess.check_output([python, "-c", said], text=True).strip(), flush=True
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "OMP_NUM_THREADS": "1"}
    options = [f"--ignore={path}" for path in OTHERS] + [part for text in WARNINGS for part in ("-W", text)]
    asked = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow", *options, *tests]
    return subprocess.run(asked, cwd=ROOT, env=environment).returncode


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("versions", nargs="*", metavar="{oldest,newest}", help="one or both (the default)")
    parser.add_argument("--python", help="the Python to use; by default python3.11 and python3.13")
    parser.add_argument("--tests", nargs="+", help="paths for pytest in place of the core tests")
    chosen = parser.parse_args()
    unknown = set(chosen.versions) - PYTHONS.keys()
    if unknown:
        parser.error(f"expected oldest or newest, got {' '.join(sorted(unknown))}")
    top = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").glob("test_*.py"))
    tests = chosen.tests or [
        *(f"tests/{name}" for name in TESTS),
        *(path for path in top if path not in OTHERS),
    ]
    failed = []
    for which in chosen.versions or PYTHONS:
        python = chosen.python or PYTHONS[which]
        if shutil.which(python) is None:
            sys.exit(f"{python} was not found; name another Python with --python")
        with tempfile.TemporaryDirectory(prefix=f"proofmap-{which}-") as folder:
            print(f"== {which}", flush=True)
            if run(install(python, which, Path(folder)), tests):
                failed.append(which)
    if failed:
        sys.exit(f"failed with the {' and the '.join(failed)} versions")


if __name__ == "__main__":
    main()
