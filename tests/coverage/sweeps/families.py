"""Every case of every family, for `parity sweep`:

parity sweep tests/coverage/sweeps/families.py -o families.db --workers 2 -- --round-trip
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[3]))

from tests.coverage import torchvision_operators

torchvision_operators.declare()

from tests.coverage.families import CASES  # noqa: E402
from tests.coverage.family_cases.case import Case  # noqa: E402


def cases() -> Iterator[tuple[str, Callable[[], tuple[torch.nn.Module, Any]]]]:
    """Yield the name of each case, and a function that makes its model and inputs."""
    for case in CASES:
        yield case.name, functools.partial(_made, case)


def _made(case: Case) -> tuple[torch.nn.Module, Any]:
    torch.manual_seed(0)
    module, args, kwargs = case.build()
    if not kwargs:
        return module, args
    return module, {**inspect.signature(module.forward).bind(*args).arguments, **kwargs} if args else kwargs
