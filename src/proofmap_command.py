"""The command ``proofmap``: Ctrl-C ends it with one line from the start, also while PyTorch is imported."""

from __future__ import annotations

import os
import signal
import sys


def _interrupted(*_: object) -> None:
    """End at once: nothing was written yet, and a module that is being imported may catch an exception."""
    os.write(2, b"\nInterrupted\n")
    os._exit(130)


def _check_working_folder() -> None:
    """End with a message if the current folder was deleted: importing PyTorch fails there."""
    try:
        os.getcwd()
    except OSError as error:
        print(
            f"error: the current folder cannot be used ({error.strerror}); it was deleted or moved. Change to another one (cd) and try again",
            file=sys.stderr,
        )
        sys.exit(2)


def main() -> None:
    """Import the command that the arguments name, and run it."""
    _check_working_folder()
    before = signal.signal(signal.SIGINT, _interrupted)
    from proofmap.cli import app_for
    from proofmap.cli import main as run

    app = app_for(sys.argv[1:])
    signal.signal(signal.SIGINT, before)
    run(app)


if __name__ == "__main__":
    main()
