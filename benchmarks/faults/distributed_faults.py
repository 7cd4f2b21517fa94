"""Faults of parallel networks: a model file with something written differently, run on two processes and on one."""

from __future__ import annotations

import functools
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cellbridge.parity.inputs.model_file import load
from cellbridge.parity.jobs.parallel.check import check_parallel

from .cases import SOUND, Case
from .distributed_edits import EDITS
from .distributed_run import RANKS
from .pairs import Pair
from .source_edits import Edit, edited_text

Array = np.ndarray[Any, Any]


def cases() -> list[Case]:
    """Return one case for each fault."""
    return [_case(one, "ranks") for one in EDITS if one.cells]


def sound_cases() -> list[Case]:
    """Return one case for each file that is written differently and right."""
    return [_case(one, SOUND) for one in EDITS if not one.cells]


def _case(one: Edit, kind: str) -> Case:
    name = f"{one.network}/{one.label}" if kind != SOUND else f"ranks {one.network}/{one.label}"
    cells, pair = tuple(one.cells.split()), functools.partial(_pair, one)
    each_is_right = one.label == "the same dropout"
    return Case(name, one.network, kind, cells, one.label, (), one.words, pair, same_in_float64=each_is_right)


def _pair(one: Edit) -> Pair:
    folder = tempfile.mkdtemp(prefix="ranks-")
    file = Path(folder) / f"{one.network}.py"
    file.write_text(edited_text(f"{__package__}.distributed", one.network, one.changes), encoding="utf-8")

    def check() -> Any:
        return check_parallel(load(str(file), 0), RANKS, options={"train": one.train})

    draws = any("drop" in new for _, new in one.changes)
    return Pair(
        str(file), str(file), train=one.train, command=check,
        cleanup=functools.partial(shutil.rmtree, folder),
        options={"difference": _difference, "rounding": float("inf") if draws else 1e-9},
    )  # fmt: skip


def _difference(pair: Pair) -> float:
    """The largest relative difference of outputs, parameters and gradients in float64 between two processes and one."""
    with tempfile.TemporaryDirectory() as folder:
        mode = "train" if pair.train else "eval"
        command = [sys.executable, "-m", f"{__package__}.distributed_run", pair.candidate, folder, mode]
        subprocess.run(command, check=True, capture_output=True, timeout=60)
        alone = dict(np.load(Path(folder) / "alone.npz"))
        parts = [dict(np.load(Path(folder) / f"{rank}.npz")) for rank in range(RANKS)]
    return max(_distance(alone[name], [part[name] for part in parts]) for name in alone if name in parts[0])


def _distance(expected: Array, values: Sequence[Array]) -> float:
    """The largest relative difference of a value that each process has, or that they have parts of."""
    if values[0].shape != expected.shape:
        axes = [axis for axis in range(expected.ndim) if values[0].shape[axis] != expected.shape[axis]]
        values = [np.concatenate(values, axes[0])]
        if values[0].shape != expected.shape:
            return float("inf")
    size = max(float(np.abs(expected).max()), 1e-6)
    return max(float(np.abs(value - expected).max()) for value in values) / size
