"""The Cells of a program that use its parameters."""

from __future__ import annotations

from ...runtime.ir.program import Program


def parameter_users_of(program: Program) -> dict[str, str]:
    """The path of the Cell that uses a parameter, for parameters that only one Cell uses."""
    return {name: next(iter(paths)) for name, paths in _users(program).items() if len(paths) == 1}


def shared_parameters_of(program: Program) -> set[str]:
    """Names of the parameters that several Cells use."""
    return {name for name, paths in _users(program).items() if len(paths) > 1}


def _users(program: Program) -> dict[str, set[str]]:
    """The paths of the Cells that use each parameter."""
    names = {parameter.value: name for name, parameter in program.parameters.items()}
    users: dict[str, set[str]] = {}
    for node in program.nodes:
        call = program.calls[node.cell]
        if node.op == "boundary" and node.attributes["kind"] == "input" and call.parent is not None:
            call = program.calls[call.parent]  # the caller passes the parameter
        for value in names.keys() & {value for value in node.inputs if value is not None}:
            users.setdefault(names[value], set()).add(call.path)
    return users
