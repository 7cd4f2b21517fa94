"""Cells that use parameters, in a program and in torch: those that several hold, and those that another one holds."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from ...converter.structure.program_names import named_modules, named_parameters
from ...runtime.ir.program import Program


def parameter_users_of(program: Program) -> dict[str, str]:
    """The path of the Cell that uses a parameter, for parameters that only one Cell uses."""
    return {name: next(iter(paths)) for name, paths in _users(program).items() if len(paths) == 1}


def shared_parameters_of(program: Program) -> set[str]:
    """Names of the parameters that several Cells use."""
    return {name for name, paths in _users(program).items() if len(paths) > 1}


def _users(program: Program) -> dict[str, set[str]]:
    """The paths of the Cells that use each parameter, looked for once: a program is run many times."""
    users: dict[str, set[str]] | None = program.__dict__.get("_parameter_users")
    if users is None:
        users = program.__dict__["_parameter_users"] = _look_for_users(program)
    return users


def _look_for_users(program: Program) -> dict[str, set[str]]:
    names = {parameter.value: name for name, parameter in program.parameters.items()}
    users: dict[str, set[str]] = {}
    for node in program.nodes:
        call = program.calls[node.cell]
        if node.op == "boundary" and node.attributes["kind"] == "input" and call.parent is not None:
            call = program.calls[call.parent]  # the caller passes the parameter
        for value in node.inputs:
            if value is not None and value in names:
                users.setdefault(names[value], set()).add(call.path)
    return users


def shared_parameters(
    module: torch.nn.Module, cell_paths: Collection[str] | None, also: Collection[str]
) -> dict[torch.nn.Module, dict[str, str]]:
    """For modules that share parameters with others, the qualified names of these parameters by attribute.

    Args:
        module: the network.
        cell_paths: paths of the modules that are Cells; None for all.
        also: names of parameters that count as shared although a single module holds them.
    """
    names = {p: name for name, p in named_parameters(module)}
    holders: dict[torch.nn.Parameter, list[tuple[torch.nn.Module, str]]] = {}
    for path, _, owner in named_modules(module):
        if cell_paths is not None and path not in cell_paths:
            continue
        for attribute, parameter in owner._parameters.items():
            if parameter is not None and not isinstance(
                owner, torch.nn.RNNBase
            ):  # RNNs keep their own list of parameters
                holders.setdefault(parameter, []).append((owner, attribute))
    shared: dict[torch.nn.Module, dict[str, str]] = {}
    for parameter, places in holders.items():
        if (len(places) > 1 or names[parameter] in also) and parameter.requires_grad:
            for owner, attribute in places:
                shared.setdefault(owner, {})[attribute] = names[parameter]
    return shared


class ParameterUses(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A mode that collects the parameters that a Cell uses which doesn't hold them, such as the words of a tied head.

    Args:
        names: qualified names of the parameters.
        running: returns the path of the running Cell.
    """

    def __init__(self, names: Mapping[torch.nn.Parameter, str], running: Callable[[], str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.names = names
        self.running = running
        self.elsewhere: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        for leaf in pytree.tree_leaves((args, kwargs)):
            name = self.names.get(leaf) if isinstance(leaf, torch.nn.Parameter) else None
            if name is not None and name.rpartition(".")[0] != self.running():
                self.elsewhere.add(name)
        return func(*args, **kwargs or {})
