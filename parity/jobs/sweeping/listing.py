"""A process that lists the models of a file or package, which it runs.

python -m cellbridge.parity.jobs.sweeping.listing ANSWER SOURCE PATTERN
"""

from __future__ import annotations

import fnmatch
import inspect
import json
import sys
from pathlib import Path

from ....runtime.errors import CellbridgeError
from ...inputs.definitions import OTHERS
from ...inputs.generated_cases import CASES, CHECKS, case_names
from ...inputs.user_source import open_source
from .finding import CHECK


def _list(source: str, pattern: str) -> list[str]:
    """Return the cases of a file, or the functions and classes of a file or package that match a pattern."""
    module = open_source(source)
    if not pattern:
        named = [f"{source}[{name}]" for name in case_names(module, source)] if CASES in vars(module) else []
        checks = case_names(module, source, CHECKS) if CHECKS in vars(module) else []
        return named + [f"{source}{CHECK}{name}" for name in checks]
    from torch import nn

    return [
        f"{source}:{name}"
        for name, value in vars(module).items()
        if fnmatch.fnmatchcase(name, pattern) and not name.startswith("_") and name not in OTHERS
        and (inspect.isfunction(value) or isinstance(value, nn.Module) or inspect.isclass(value))
    ]  # fmt: skip


def main() -> None:
    """Write the list as JSON."""
    answer, source, pattern = sys.argv[1:]
    try:
        models = _list(source, pattern)
    except CellbridgeError as error:
        sys.exit(str(error))
    Path(answer).write_text(json.dumps(models), encoding="utf-8")


if __name__ == "__main__":
    main()
