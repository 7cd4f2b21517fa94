"""A process that runs one check of a file, which is code of the user's.

python -m cellbridge.parity.jobs.sweeping.check_process FILE.py::NAME

Exit code 0: the check holds. 1: it fails, and the message is printed. 2: it can't be run.
"""

from __future__ import annotations

import sys

from ....runtime.errors import CellbridgeError
from ....runtime.visible import visible_text
from ...inputs.generated_cases import run_check
from ...inputs.user_source import open_source
from ...report.layout import echo
from .finding import CHECK
from .result import CHECK_HOLDS

FAILS, CANT = 1, 2


def main() -> None:
    """Run the check, and exit."""
    file, _, name = sys.argv[1].partition(CHECK)
    try:
        failure = run_check(open_source(file, may_be_module=False), file, name)
    except CellbridgeError as error:
        echo(f"error: {error}")
        sys.exit(CANT)
    if failure is not None:
        echo(f"failed: {visible_text(str(failure)) or 'an assertion without a message'}")
        sys.exit(FAILS)
    echo(CHECK_HOLDS)  # code of a user's may end the process with exit code 0, too


if __name__ == "__main__":
    main()
