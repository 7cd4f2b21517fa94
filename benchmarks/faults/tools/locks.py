"""cellbridge, where the reference is what a file holds of it: `parity lock` and `parity check`."""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path
from typing import Any

from torch import nn

from cellbridge.parity.jobs.locks.check import check_snapshot
from cellbridge.parity.jobs.locks.contents import Snapshot
from cellbridge.parity.jobs.locks.lock_file import Lock, read_lock, write_lock
from cellbridge.parity.jobs.locks.snapshot import take_snapshot
from cellbridge.parity.options import Options
from cellbridge.recorder import library_versions
from cellbridge.runtime.errors import CellbridgeError
from fixtures.planted_faults.pairs import Pair

from .cellbridge_tool import MAX_SAID, finding_of
from .finding import Finding

MODEL = "network"


def judge(pair: Pair) -> Finding | None:
    """Check the candidate by the reference's lock; None unless two torch modules are compared."""
    modules = isinstance(pair.reference, nn.Module) and isinstance(pair.candidate, nn.Module)
    if not modules or pair.scripts is not None or pair.command is not None:
        return None
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            file = Path(folder) / "parity.lock"
            write_lock(Lock(library_versions(), [_snapshot(pair, pair.reference)]), file)
            lock = read_lock(file)
            now = _snapshot(pair, pair.candidate)
            return finding_of(check_snapshot(lock.snapshots[0], now, lock.versions, library_versions(), {}))
        except CellbridgeError as error:
            return Finding(False, error=f"usage error: {error}"[:MAX_SAID])
        except (RuntimeError, IndexError, ValueError) as error:
            return Finding(True, None, said=f"raises: {error}"[:MAX_SAID])


def _snapshot(pair: Pair, module: Any) -> Snapshot:
    return take_snapshot(module, pair.args, {}, Options(train=pair.train, model=MODEL))
