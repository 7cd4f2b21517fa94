"""`to_cell_checkpoint`: the weights of a program under the names that they have in its Cell source."""

from __future__ import annotations

import os

from ...runtime.ir.program import Program, require_program
from ...runtime.train.serialization import save_checkpoint
from .bodies import Bodies
from .layers.network import Network
from .renaming import with_names_of_cells


def to_cell_checkpoint(program: Program, path: str | os.PathLike[str]) -> None:
    """Write the weights for the network that `to_cell_source` writes, whole or not at all.

    `load_checkpoint` reads the file, in MindSpore, too, if it ends in ".safetensors" (and `format="safetensors"`).

    Args:
        program: what the source was written from.
        path: the file, ending in ".ckpt" (which is added if it isn't there) or ".safetensors".

    Raises:
        UsageError: it isn't a program.
        OSError: the file can't be written.
        ProgramError: the nodes of one call of a Cell don't stand together in the program.
    """
    require_program(program)
    arrays = Bodies(
        Network(with_names_of_cells(program), "cellbridge")
    ).arrays()  # the same names whatever the target is
    ending = "safetensors" if os.fspath(path).endswith(".safetensors") else "ckpt"
    save_checkpoint(arrays, path, format=ending)
