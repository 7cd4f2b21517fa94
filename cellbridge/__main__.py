"""`python -m cellbridge`: the same as the command `parity`.

`cellbridge` is a namespace package of three rooms; this is its only file besides them.
"""

from __future__ import annotations

from cellbridge.parity.cli import main

if __name__ == "__main__":
    main(prog_name="parity")
