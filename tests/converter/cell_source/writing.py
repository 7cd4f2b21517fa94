"""Programs written as Cell source, executed, and held against the module that they were captured from."""

from __future__ import annotations

import sys
import tempfile
import types
from pathlib import Path
from typing import Any

from torch import nn

from cellbridge.converter import from_torch, to_cell_checkpoint, to_cell_source
from cellbridge.parity import Report, assert_parity
from cellbridge.runtime import Program, load_checkpoint, load_param_into_net
from cellbridge.runtime.nn import Cell


def executed(source: str) -> Any:
    """The network whose class comes last in the source."""
    module = types.ModuleType("written_cells")
    sys.modules[module.__name__] = module
    exec(compile(source, "written_cells.py", "exec"), vars(module))
    classes = [v for v in vars(module).values() if isinstance(v, type) and v.__module__ == module.__name__]
    return classes[-1]()


def network_of(program: Program) -> Cell:
    """The written network with the weights of the checkpoint, which names all of its Parameters and no others."""
    network: Cell = executed(to_cell_source(program))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.ckpt"
        to_cell_checkpoint(program, path)
        if list(network.get_parameters()):
            assert load_param_into_net(network, load_checkpoint(path)) == ([], [])
    return network


def assert_port(
    module: nn.Module, *args: Any, train: bool = False, dynamic_shapes: Any = None, **options: Any
) -> tuple[Cell, Report]:
    """Parity of the module and of the network written from its program, gradients included.

    Without probes: a program, and so what is written from it, has one mode and the sizes that it was captured with.
    """
    kwargs = options.pop("kwargs", {})
    program = from_torch(module, args, kwargs, train=train, dynamic_shapes=dynamic_shapes)
    network = network_of(program)
    return network, assert_parity(module, network, args, kwargs, grads=True, train=train, probe=False, **options)
