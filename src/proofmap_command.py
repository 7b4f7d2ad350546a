"""The command ``proofmap``: Ctrl-C is answered in one line from the first moment on, also while PyTorch is imported."""

from __future__ import annotations

import os
import signal


def _interrupted(*_: object) -> None:
    """Leave at once: nothing was written yet, and whatever is being imported may take an exception for its own."""
    os.write(2, b"\nInterrupted\n")
    os._exit(130)


def main() -> None:
    """Import the command line, and run it."""
    before = signal.signal(signal.SIGINT, _interrupted)
    from proofmap.cli import main as run

    signal.signal(signal.SIGINT, before)
    run()


if __name__ == "__main__":
    main()
