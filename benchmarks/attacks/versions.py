"""Run the core tests with the oldest versions that pyproject.toml allows, and with the newest that can be had.

Each environment is made anew in a temporary folder and removed afterwards; the repository's own is not touched. The oldest
takes a Python 3.11 and every lower bound of ``dependencies`` as it stands in pyproject.toml. The newest takes whatever pip finds.
Together they need some 10 GB for a while, and half an hour on two cores.

    python benchmarks/attacks/versions.py                         # both, with python3.11 and python3.13
    python benchmarks/attacks/versions.py --only oldest --tests tests/core
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
ORACLES = ("scipy", "scikit-learn", "scikit-image", "matplotlib", "captum")
"""What the core tests compare with. Captum is installed without its dependencies: it would bring torchvision."""
BOUNDS = {
    "scikit-image": "0.24",
    "scikit-learn": "1.5",
    "matplotlib": "3.8",
    "scipy": "1.13",
    "captum": "0.8",
}
TESTS = ("core", "plugins", "data", "methods", "metrics", "theory", "study")
OTHERS = ("tests/methods/test_adapters.py", "tests/study/test_ray_executor.py", "tests/test_set_up.py")
"""Tests of optional packages, and of the exact versions."""
WARNINGS = ("default::DeprecationWarning", "default::FutureWarning", "default:Guards may run slower")
"""What old libraries say of newer ones, and the other way round, is no failure of ours."""


def lower_bounds() -> dict[str, str]:
    """The packages of ``dependencies`` with the oldest version that each may have."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    found = [re.fullmatch(r"([\w-]+)>=([\d.]+)", line) for line in declared]
    return {match[1]: match[2] for match in found if match}


def wanted(which: str) -> list[str]:
    """What pip is asked for; 2.4 alone means 2.4.0, where pip would take the newest 2.4."""
    if which == "newest":
        return [*lower_bounds(), *ORACLES, "pytest", "hypothesis"]
    bounds = {**lower_bounds(), **BOUNDS, "hypothesis": "6.112"}
    exact = [f"{name}=={version}{'.0' if version.count('.') < 2 else ''}" for name, version in bounds.items()]
    return [*exact, "pytest==8.3.0"]


def install(python: str, which: str, folder: Path) -> Path:
    subprocess.run([python, "-m", "venv", str(folder)], check=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "-q", "install"]
    packages = wanted(which)
    captum = [name for name in packages if name.startswith("captum")]
    subprocess.run([*pip, *(name for name in packages if name not in captum), "tqdm"], check=True)
    subprocess.run([*pip, "--no-deps", *captum], check=True)
    return folder / "bin" / "python"


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
    parser.add_argument("--only", choices=("oldest", "newest"), help="one environment alone")
    parser.add_argument("--oldest-python", default="python3.11")
    parser.add_argument("--newest-python", default="python3.13")
    parser.add_argument("--tests", nargs="+", help="paths for pytest in place of the core tests")
    chosen = parser.parse_args()
    beside = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests").glob("test_*.py"))
    tests = chosen.tests or [*(f"tests/{name}" for name in TESTS), *(p for p in beside if p not in OTHERS)]
    failed = []
    for which in ("oldest", "newest"):
        if chosen.only not in (None, which):
            continue
        python = getattr(chosen, f"{which}_python")
        if shutil.which(python) is None:
            sys.exit(f"there is no {python}; name another with --{which}-python")
        with tempfile.TemporaryDirectory(prefix=f"proofmap-{which}-") as folder:
            print(f"== {which}", flush=True)
            if run(install(python, which, Path(folder)), tests):
                failed.append(which)
    if failed:
        sys.exit(f"failed with the {' and the '.join(failed)} versions")


if __name__ == "__main__":
    main()
