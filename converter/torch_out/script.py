"""`function_text`: a program as the text of a function in plain torch, which needs torch alone."""

from __future__ import annotations

import ast
import inspect
import re
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

import torch

from ...runtime.errors import ConversionError
from ...runtime.ir.program import Program
from ..structure.naming import identifier
from . import walk
from .calls import control, functions, matrices, recurrence
from .code import GraphText, function_name
from .export import to_torch
from .modules import OWN
from .walk import Graph, Step

HELPERS = {module.__name__: module for module in (control, functions, matrices, recurrence)}
"""The modules with the functions that stand in a text where torch has no single one."""

NAME = re.compile("[a-uw-z][0-9]+")
"""A name of a parameter."""


@dataclass(frozen=True)
class FunctionText:
    """A program as text.

    Attributes:
        text: the function.
        helpers: the definitions that the function needs, in an order in which they can stand before it.
        imports: the imports that the helpers need.
        tensors: the tensors that the function takes after the program's inputs, by the names of its parameters: the
            program's buffers and constants.
    """

    text: str
    helpers: tuple[str, ...]
    imports: tuple[str, ...]
    tensors: dict[str, torch.Tensor]


def function_text(program: Program, name: str) -> FunctionText:
    """Return a program as the text of a function with this name. The text is never run here.

    Args:
        program: a program of one Cell call without boundaries. The names of its inputs, parameters, buffers and
            constants become the names of the function's parameters: each must be a letter other than `v` and a number,
            such as `x0`, so that no name of a network becomes code. Results are called `v0`, `v1`, ...
        name: the name of the function.

    Raises:
        UnsupportedOperators: torch can't express an op.
        ConversionError: the program has branches or loops, or needs code of cellbridge, or has another name.
    """
    if name != identifier(name):
        raise ConversionError(f"{name!r} can't be the name of a function")
    module = to_torch(program)
    graph: Graph = vars(module)[OWN].graph
    if vars(module)[OWN].bodies:
        raise ConversionError("branches and loops have no form as one function")
    text = _FunctionText(graph)
    tensors = dict([*module.named_parameters(), *module.named_buffers()])
    state = {path: tensors[path].detach() for path in dict.fromkeys(text.state.values())}
    parameters = [*(parameter.name for parameter in graph.parameters), *state]
    if bad := [parameter for parameter in parameters if not NAME.fullmatch(parameter)]:
        raise ConversionError(f"{bad[0]!r} can't be the name of a parameter")
    lines = [f"def {name}({', '.join(parameters)}):", *(f"    {line}" for line in text.lines())]
    helpers, imports = _helpers(graph)
    return FunctionText("\n".join(lines), helpers, imports, state)


class _FunctionText(GraphText):
    """The text of a graph, with the tensors of the module as parameters and made-up names of results."""

    def __init__(self, graph: Graph) -> None:
        reads = {step.result: step for step in graph.steps if step.function is walk.get_state}
        super().__init__(graph)
        self.state = {index: ".".join(self._constant_value(step.operands[1])) for index, step in reads.items()}
        names, number = list(graph.names), 0
        for step in graph.steps:
            names[step.result] = self.state.get(step.result, f"v{number}")
            number += step.result not in self.state
        self.graph = replace(graph, names=tuple(names))

    def lines(self) -> list[str]:
        """The lines of the body."""
        lines = self.method().rstrip().split("\n")
        return [line.removeprefix("    ") for line in lines[1:]]

    def _module_path(self, step: Step) -> str:
        return self.state[step.result]

    def _function_name(self, function: Any) -> str:
        if function.__module__ in HELPERS:
            return str(function.__name__)
        name = function_name(function)  # F.linear and others come from a module that isn't public
        public = name.replace("torch._C._nn.", "torch.nn.functional.")
        return public if public.rpartition(".")[2] in vars(torch.nn.functional) else name


def _helpers(graph: Graph) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the definitions of the helpers that a graph needs, with those that they need, and their imports."""
    texts: dict[str, str] = {}
    imports: dict[str, None] = {}
    for step in graph.steps:
        module = HELPERS.get(getattr(step.function, "__module__", ""))
        if module is not None:
            _collect(module, str(step.function.__name__), texts, imports)
    return tuple(texts.values()), tuple(imports)


def _collect(module: ModuleType, name: str, texts: dict[str, str], imports: dict[str, None]) -> None:
    """Add the definition of a name of a module, after those of the names in it.

    Raises:
        ConversionError: it needs code of cellbridge.
    """
    source = inspect.getsource(module)
    tree = ast.parse(source)
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and name in _bound(node):
            if node.level:
                raise ConversionError(f"{name} is code of cellbridge, which a text for torch alone can't need")
            if node.module != "__future__":
                imports[f"from {node.module} import {name}"] = None
        elif isinstance(node, ast.Import) and name in _bound(node):
            imports[ast.unparse(node)] = None
        elif name in _bound(node) and name not in texts:
            texts[name] = ""  # so that a recursive function ends
            for inner in ast.walk(node):
                if isinstance(inner, ast.Name) and inner.id != name:
                    _collect(module, inner.id, texts, imports)
            del texts[name]
            texts[name] = ast.get_source_segment(source, node) or ""


def _bound(node: ast.stmt) -> list[str]:
    """The names that a statement defines."""
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return [node.name]
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return [(alias.asname or alias.name).partition(".")[0] for alias in node.names]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [target.id for target in targets if isinstance(target, ast.Name)]
