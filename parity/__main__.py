"""`python -m cellbridge.parity`: the same as the command `parity`."""

from __future__ import annotations

from .cli import main

if __name__ == "__main__":
    main(prog_name="parity")
