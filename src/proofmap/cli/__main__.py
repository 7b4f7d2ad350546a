"""``python -m proofmap.cli``."""

from proofmap.cli import main

main()
