"""Files of torch that hold a network: programs of `torch.export` (`.pt2`)."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...runtime.errors import UsageError
from ..sides.kinds import PROGRAMS

if TYPE_CHECKING:
    from torch import nn


def is_torch_file(target: str) -> bool:
    """Whether a target on the command line is a program that torch has written, and no Python file."""
    return Path(target).suffix.lower() in PROGRAMS


def load_torch_file(path: str) -> tuple[nn.Module, tuple[Any, ...], dict[str, Any], Any]:
    """Return the network of a file, its example inputs by position and by name, and their `dynamic_shapes`.

    Nothing in the file is run.

    Raises:
        UsageError: there is no such file, it can't be read, or it holds no example inputs.
    """
    from ...converter.exported.archive import read_archive
    from ...converter.exported.modules import module_of_program, sizes_of_inputs

    if not Path(path).is_file():
        raise UsageError(f"no such file: {path}")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", category=FutureWarning, module="torch|copyreg")  # of its own code
        program = read_archive(path)
        if not program.example_inputs:
            raise UsageError(
                f"{path} holds a program without example inputs\n"
                f"  what to do: write a model file: def model(): return torch.export.load({path!r}), and def inputs()"
            )
        module = module_of_program(program)
    args, kwargs = program.example_inputs
    return module, tuple(args), dict(kwargs), sizes_of_inputs(program)
