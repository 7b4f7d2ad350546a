"""Examples of one file: ``pytest --doctest-modules src/proofmap/methods/cams.py``."""

from importlib import import_module
from pathlib import Path


def pytest_collect_file(file_path: Path) -> None:
    """Import the package of a module by its name first. Otherwise pytest imports the package on the way to the module, then runs the module
    a second time, and what it registers is there already."""
    parts = file_path.relative_to(Path(__file__).parent).parent.parts
    if file_path.suffix == ".py" and parts:
        import_module(".".join(parts))
