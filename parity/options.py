"""`Options`: what a run compares and how."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..runtime.errors import UsageError

DTYPES = ("float32", "float64", "float16", "bfloat16")


@dataclass(frozen=True)
class Options:
    """What a run compares and how.

    Attributes:
        grads: compare gradients too.
        train: run in train mode, with random draws replayed and buffer updates compared.
        dtype: working dtype, "float32", "float64", "float16" or "bfloat16".
        rtol: replaces the computed bars, with `atol`.
        atol: replaces the computed bars, with `rtol`.
        only: globs of Cell paths; others are skipped.
        skip: globs of Cell paths to skip.
        fail_fast: stop after the first comparison of a side that fails.
        provider: of ONNX Runtime, "cpu" or "cuda".
        seed: of cotangents and of torch's random numbers.
        loss: makes a scalar of the module's outputs, whose gradients are the cotangents.
        model: what to call it in the report.
    """

    grads: bool = True
    train: bool = False
    dtype: str = "float32"
    rtol: float | None = None
    atol: float | None = None
    only: Sequence[str] = ()
    skip: Sequence[str] = ()
    fail_fast: bool = False
    provider: str = "cpu"
    seed: int = 0
    loss: Callable[[Any], Any] | None = None
    model: str = ""

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise UsageError(f"dtype must be one of {', '.join(DTYPES)}, given {self.dtype!r}")

    def selects(self, path: str) -> bool:
        """Whether the Cell at `path` is to be judged."""
        wanted = not self.only or any(fnmatch.fnmatchcase(path, glob) for glob in self.only)
        return wanted and not any(fnmatch.fnmatchcase(path, glob) for glob in self.skip)
