"""Modules that compute what a program of `torch.export` computes."""

from __future__ import annotations

import copy
import inspect
from typing import Any

import torch
from torch import fx
from torch.utils import _pytree as pytree
from torch.utils._sympy.numbers import int_oo

from ..structure.program_names import NAMES, ProgramNames
from ..warning import warn

_GUARDS = "_guards_fn"
"""The child of an exported program's module that compares sizes of inputs with those of the export."""
_NOT_RESTORED = (AssertionError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
"""What torch raises where it can't restore the modules of a program."""


def module_of_program(program: torch.export.ExportedProgram) -> torch.nn.Module:
    """The module of an exported program, with the Cells of the module that was exported, where torch can restore them.

    Parameters and buffers are the program's.

    Warns:
        ConversionWarning: torch can't restore them; the module is one Cell.
    """
    try:
        module = torch.export.unflatten(program)
    except _NOT_RESTORED as error:
        reason = str(error).strip().partition("\n")[0] or type(error).__name__
        warn(f"the Cells of the exported program can't be restored, and it is judged as one Cell: {reason}")
        return without_guards(program.module(check_guards=False))
    module.check_input_constraints = False
    module.input_placeholders = []  # their tensors without data can't be copied
    _name_arguments(module, program)
    classes = {path: _class_name(part) for path, part in module.named_modules()}
    vars(module)[NAMES] = ProgramNames(classes={path: name for path, name in classes.items() if name})
    return module


def _name_arguments(module: Any, program: torch.export.ExportedProgram) -> None:
    """Let `forward` take its arguments by the names that they had, and not as `*args, **kwargs`."""
    called = program.module_call_graph[0].signature
    positional, keywords = program.call_spec.in_spec.children()
    names = list(getattr(called, "forward_arg_names", None) or ())
    others = [name for name in keywords.context if name not in names]
    if len(names) < positional.num_children:
        return  # forward had *args
    kinds = inspect.Parameter
    parameters = [kinds(name, kinds.POSITIONAL_OR_KEYWORD) for name in names]
    parameters += [kinds(name, kinds.KEYWORD_ONLY) for name in others]
    signature = inspect.Signature(parameters)
    base, first = type(module), names[: positional.num_children]

    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        values = signature.bind(*args, **kwargs).arguments
        arguments = [values[name] for name in first]
        return base.forward(self, *arguments, **{name: values[name] for name in keywords.context})

    vars(forward)["__signature__"] = signature.replace(parameters=[kinds("self", kinds.POSITIONAL_ONLY), *parameters])
    module.__class__ = type(base.__name__, (base,), {"forward": forward})


def sizes_of_inputs(program: torch.export.ExportedProgram) -> Any:
    """The axes of a program's inputs that may vary, as `dynamic_shapes` of `torch.export.export`; None if none may.

    Warns:
        ConversionWarning: a size depends on others; then all are as in the example inputs.
    """
    ranges = {str(symbol): limits for symbol, limits in program.range_constraints.items()}
    shapes: list[dict[int, Any] | None] = []
    names = program.graph_signature.user_inputs
    nodes = {node.name: node for node in program.graph.find_nodes(op="placeholder")}
    for name in names:
        value = nodes[name].meta["val"] if isinstance(name, str) and name in nodes else None
        sizes: tuple[Any, ...] = tuple(value.shape) if isinstance(value, torch.Tensor) else ()
        varying = {axis: str(size) for axis, size in enumerate(sizes) if isinstance(size, torch.SymInt)}
        if unknown := [size for size in varying.values() if size not in ranges]:
            warn(
                f"the size {unknown[0]} of {name} depends on others: the program is judged at the sizes of its example"
            )
            return None
        shapes.append({axis: _dim(size, ranges[size]) for axis, size in varying.items()} or None)
    if not any(shapes):
        return None
    in_spec = program.call_spec.in_spec
    args, kwargs = pytree.tree_unflatten(shapes, in_spec)
    positional = list(getattr(program.module_call_graph[0].signature, "forward_arg_names", None) or ())
    return (*args, *kwargs.values()) if not positional else dict(zip(positional, args, strict=False)) | kwargs


def _dim(name: str, limits: Any) -> Any:
    upper = {} if limits.upper == int_oo else {"max": int(limits.upper)}
    return torch.export.Dim(name, min=int(limits.lower), **upper)


def _class_name(part: Any) -> str:
    """The name of the class of which a part of the program was an instance; "" where it isn't known."""
    qualified = vars(part).get("_ty")
    return qualified.rpartition(".")[2] if isinstance(qualified, str) else ""


def is_exported(module: torch.nn.Module) -> bool:
    """Whether a module is what `ExportedProgram.module()` returns, or a copy of it; it refuses to change its mode."""
    refuses = {"train", "eval"} <= vars(module).keys()
    return isinstance(module, fx.GraphModule) and (refuses or _GUARDS in module._modules)


def without_guards(module: Any) -> torch.nn.Module:
    """A module of the same graph, parameters and buffers that has a mode, though it computes the same in both.

    It doesn't compare the sizes of its inputs with those of the export.
    """
    graph: fx.Graph = copy.deepcopy(module.graph)
    for node in graph.find_nodes(op="call_module", target=_GUARDS):
        graph.erase_node(node)
    plain = fx.GraphModule(module, graph, class_name=type(module).__name__)
    plain.training = module.training
    return plain
