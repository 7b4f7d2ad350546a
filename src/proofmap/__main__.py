"""``python -m proofmap``."""

from proofmap.cli import main

main()
