"""A case of the table of differences."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np


def zeros(*shape: int) -> np.ndarray[Any, Any]:
    return np.zeros(shape, np.float32)


@dataclass(frozen=True)
class Case:
    """A wrong port with its expected lines, and a right one without any.

    Attributes:
        module: the torch module.
        wrong: its wrong port.
        lines: all lines reported on the wrong port.
        right: the right port of `module`; or a module and its right port, where there is none of this one.
        inputs: of the module.
    """

    module: Any
    wrong: Any
    lines: tuple[str, ...]
    right: Any
    inputs: tuple[Any, ...] = field(default=())

    @property
    def right_pair(self) -> tuple[Any, Any]:
        return self.right if isinstance(self.right, tuple) else (self.module, self.right)


def case(module: Any, wrong: Any, line: str, right: Any, *inputs: Any) -> Case:
    return Case(module, wrong, (line,), right, inputs)
