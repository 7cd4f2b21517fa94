"""A process that runs mutants, one after the other, and says which one begins and which one breaks a promise."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import sys
import tempfile
import traceback
import warnings
from pathlib import Path
from typing import Any

from cellbridge.runtime.errors import CellbridgeError
from tests.fuzz import targets
from tests.limits import limited

SECONDS = 5.0  # of a processor, for each mutant
MEMORY = 2**30  # bytes, for each mutant


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("seed", "start", "stop"):
        parser.add_argument(name, type=int)
    parser.add_argument("target", nargs="?")
    given = parser.parse_args()
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # what a library prints is no answer
    warnings.simplefilter("ignore")
    for name in [given.target] if given.target else targets.ALL:
        _warm(name)
    for number in range(given.start, given.stop):
        answers.write(json.dumps({"begins": number}) + "\n")
        if (failure := run(given.seed, number, given.target)) is not None:
            answers.write(json.dumps({"fails": number, **failure}) + "\n")
    answers.write(json.dumps({"done": True}) + "\n")


def _warm(name: str) -> None:
    """Load what a target needs, outside of the limits."""
    if name in targets.ALL:
        for number in range(3):
            with tempfile.TemporaryDirectory() as folder, contextlib.suppress(Exception):
                targets.ALL[name][0](random.Random(f"warm {number}"), Path(folder))


def run(seed: int, number: int, target: str | None = None) -> dict[str, Any] | None:
    """Run one mutant; what is wrong, or None."""
    source = random.Random(f"{seed}:{number}")
    name = target or targets.choose_target(source, seed, number)
    function = targets.planted_faults if name == "planted" else targets.ALL[name][0]
    with tempfile.TemporaryDirectory() as folder:
        try:
            with limited(1 if name == "planted" else SECONDS, MEMORY, processor=True):
                function(source, Path(folder))
        except CellbridgeError as error:
            if not str(error) or len(str(error)) > 20_000:
                return {"target": name, "what": "message", "detail": f"a message of {len(str(error))} characters"}
        except MemoryError as error:
            return _failure(name, "MemoryError", error)
        except BaseException as error:  # noqa: BLE001 (whatever it is, it is what is looked for)
            return _failure(name, type(error).__name__, error)
        with contextlib.suppress(FileNotFoundError):
            os.unlink("OWNED")
            return {"target": name, "what": "executed", "detail": "a name of the file was run"}
    return None


def _failure(target: str, what: str, error: BaseException) -> dict[str, Any]:
    return {"target": target, "what": what, "detail": "".join(traceback.format_exception(error)[-6:])}


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.setrecursionlimit(1000)
    main()
