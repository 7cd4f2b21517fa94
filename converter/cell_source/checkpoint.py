"""`to_cell_checkpoint`: writes the weights of a program under their names in its Cell source."""

from __future__ import annotations

import os

from ...runtime.ir.program import Program, require_program
from ...runtime.programs.subprograms import inline_functions
from ...runtime.train.serialization import save_checkpoint
from .bodies import Bodies
from .layers.network import CellNetwork
from .renaming import rename_for_cells


def to_cell_checkpoint(program: Program, path: str | os.PathLike[str]) -> None:
    """Write the weights for the network that `to_cell_source` generates. The file is written atomically.

    `load_checkpoint` reads the file; in MindSpore, too, if it ends in ".safetensors" (with `format="safetensors"`).

    Args:
        program: the program of the source.
        path: the file, ending in ".ckpt" (which is added if it isn't there) or ".safetensors".

    Raises:
        UsageError: it isn't a program.
        OSError: the file can't be written.
        ProgramError: the nodes of one Cell call aren't contiguous in the program.
    """
    require_program(program)
    arrays = Bodies(
        CellNetwork(rename_for_cells(inline_functions(program)), "cellbridge")
    ).arrays()  # the names don't depend on the target
    ending = "safetensors" if os.fspath(path).endswith(".safetensors") else "ckpt"
    save_checkpoint(arrays, path, format=ending)
