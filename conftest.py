"""Examples of one file: ``pytest --doctest-modules src/proofmap/methods/cams.py``."""

from importlib import import_module
from pathlib import Path

SOURCE = Path(__file__).parent / "src"


def pytest_collect_file(file_path: Path) -> None:
    """Import the package of a module by its name first. Otherwise pytest imports the package on the way to the module, then runs the module
    a second time, and what it registers is there already."""
    if file_path.suffix == ".py" and SOURCE in file_path.parents[1:]:
        import_module(".".join(file_path.parent.relative_to(SOURCE).parts))
