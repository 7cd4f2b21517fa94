"""`python -m cellbridge.parity`: the same as the command `parity`."""

from __future__ import annotations

from .cli import main
from .support.process import end_process


def run() -> None:
    """Run the command, and end the process with its exit code."""
    try:
        main(prog_name="parity")
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            end_process(end.code or 0)
        raise


if __name__ == "__main__":
    run()
