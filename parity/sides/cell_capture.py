"""A single Cell of a torch module as a program, where the module as a whole can't be captured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ...converter.capture.export_errors import eager_error
from ...converter.dtypes import torch_dtype
from ...converter.seed import manual_seed
from ...converter.structure.program_names import named_buffers, named_modules, named_parameters
from ...runtime.errors import ConversionError
from ...runtime.ir.program import Program
from ...runtime.ir.types import CellCall, Node, as_dtype
from .abilities import RunsModule
from .interpreter_side import InterpreterSide
from .precision import in_dtype
from .run import Arguments, Run
from .torch_program import capture_program


def cell_in_interpreter(
    side: RunsModule, path: str, index: int, calls: Sequence[CellCall], run: Run
) -> InterpreterSide:
    """Return one call of a Cell as a program that calls nothing else, with the names of the whole network.

    Args:
        side: the side of the module.
        path: path of the Cell.
        index: number of the call of this Cell.
        calls: all calls of the reference, in order of entry.
        run: the run, which has the module's arguments.

    Raises:
        ConversionError: the Cell can't be captured, isn't called, or runs in no mode of its own.
    """
    modules = {name: module for name, _, module in named_modules(side.module)}
    if path not in modules or not path or run.call.before or run.call.other_mode or run.call.second is not None:
        raise ConversionError(f"{path or 'the root'} can't be captured alone")
    module = modules[path]
    args, kwargs = _arguments_of_call(side, module, index, run)
    program = capture_program(module, args, kwargs, None, side.working_dtype, side.train)
    program = _renamed(program, _names(side.module, module))
    program = program.replace(calls=_calls_in_network(program.calls, path, index, calls), nodes=_moved(program))
    return InterpreterSide(side.name, program, args, kwargs, working_dtype=side.working_dtype, seed=side.seed)


def _arguments_of_call(side: RunsModule, module: torch.nn.Module, index: int, run: Run) -> tuple[tuple[Any, ...], Any]:
    """Run the whole network once, and return a copy of the arguments of a call of one of its modules."""
    calls: list[Arguments] = []

    def remember(_: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        calls.append(pytree.tree_map_only(torch.Tensor, lambda x: x.detach().clone(), (args, kwargs)))

    args, kwargs = run.call.arguments or (side.args, side.kwargs)
    dtype = torch_dtype(as_dtype(side.working_dtype))
    manual_seed(side.seed)
    copies: Any = pytree.tree_map_only(torch.Tensor, lambda x: x.detach().clone(), (args, dict(kwargs)))
    handle = module.register_forward_pre_hook(remember, with_kwargs=True)
    try:
        with in_dtype(side.module, dtype, through=dtype, train=side.train), torch.no_grad():
            side.module(*copies[0], **copies[1])
    except Exception as error:  # raised by the model's code, perhaps after the call
        if index >= len(calls):
            raise eager_error(error, side.module, *copies) from error
    finally:
        handle.remove()
    if index >= len(calls):
        raise ConversionError("the Cell isn't called on these inputs")
    positional, named = calls[index]
    return positional, dict(named)


def _names(network: torch.nn.Module, module: torch.nn.Module) -> dict[str, str]:
    """Return the names that the parameters and buffers of a module have in the network."""
    names: dict[str, str] = {}
    for named in (named_parameters, named_buffers):
        in_network = {id(tensor): name for name, tensor in named(network)}
        names |= {name: in_network[id(tensor)] for name, tensor in named(module)}
    return names


def _renamed(program: Program, names: Mapping[str, str]) -> Program:
    return program.replace(
        parameters={names.get(name, name): replace(p, aliases=()) for name, p in program.parameters.items()},
        buffers={names.get(name, name): buffer for name, buffer in program.buffers.items()},
    )


def _calls_in_network(
    cell_calls: Sequence[CellCall], path: str, index: int, calls: Sequence[CellCall]
) -> tuple[CellCall, ...]:
    """Return the calls of a program of one Cell as the network numbers them, below a root that computes nothing."""
    number = next((n for n, call in enumerate(calls) if (call.path, call.index) == (path, index)), None)
    before: dict[str, int] = {}
    for call in calls[:number]:
        before[call.path] = before.get(call.path, 0) + 1
    root = CellCall("", "", 0, None)
    moved = []
    for call in cell_calls:
        name = f"{path}.{call.path}" if call.path else path
        parent = 0 if call.parent is None else call.parent + 1
        moved.append(CellCall(name, call.class_name, call.index + before.get(name, 0), parent))
    return (root, *moved)


def _moved(program: Program) -> tuple[Node, ...]:
    """Return the nodes with the numbers of their calls after a root was added."""
    return tuple(
        replace(
            node,
            cell=node.cell + 1,
            attributes={**node.attributes, "call": node.attributes["call"] + 1}
            if node.op == "boundary"
            else node.attributes,
        )
        for node in program.nodes
    )
