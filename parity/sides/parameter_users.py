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
