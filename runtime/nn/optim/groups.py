"""Parameter groups: flattens the Parameters of an optimizer to one entry per Parameter."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ... import checks
from ...common.parameter import Parameter

KEYS = ("params", "lr", "weight_decay", "grad_centralization", "order_params")


@dataclass(frozen=True)
class GroupMember:
    """A Parameter with the settings of its group.

    Attributes:
        parameter: the Parameter.
        group: the number of its group.
        settings: the `lr`, `weight_decay` and `grad_centralization` that the group sets.
    """

    parameter: Parameter
    group: int
    settings: dict[str, Any]


def group_members(parameters: Any, *, of: str) -> tuple[list[GroupMember], bool]:
    """Return the Parameters that an optimizer updates, in order, and whether they are in groups.

    Args:
        parameters: an iterable of Parameters, or of groups: dicts with Parameters under `params`, and optionally `lr`,
            `weight_decay` and `grad_centralization` for them. A dict with only `order_params` sets the order of all.
        of: the name of the optimizer, for messages.

    Raises:
        TypeError: `parameters`, an element or a setting has a wrong type.
        ValueError: there are no Parameters, one is listed twice, two groups have Parameters of the same name, or
            `order_params` differs from the Parameters of the groups.
        KeyError: a group has another key, or no `params`.
        RuntimeError: a Parameter is in two groups.
    """
    items = _as_list(parameters, "parameters", of)
    if not any(isinstance(item, dict) for item in items):
        _check_parameters(items, of)
        visited: set[int] = set()
        for parameter in items:
            if id(parameter) in visited:
                raise ValueError(f"For '{of}', Parameter '{parameter.name}' already exists: it is listed twice")
            visited.add(id(parameter))
        return [GroupMember(parameter, 0, {}) for parameter in items], False
    result: list[GroupMember] = []
    order: list[Parameter] | None = None
    for number, group in enumerate(items):
        _check_group(group, of)
        if "order_params" in group:
            order = _as_list(group["order_params"], "order_params", of)
            continue
        settings = {key: value for key, value in group.items() if key != "params"}
        for parameter in _check_parameters(_as_list(group["params"], "params", of), of):
            for other in (member.parameter for member in result if member.parameter.name == parameter.name):
                kind = RuntimeError if other is parameter else ValueError
                raise kind(f"For '{of}', Parameter '{parameter.name}' already exists in a group")
            result.append(GroupMember(parameter, number, settings))
    if not result:
        raise ValueError(f"For '{of}', the groups must hold parameters, but they are empty")
    return (result if order is None else _reorder(result, order, of)), True


def _as_list(value: Any, name: str, of: str) -> list[Any]:
    if value is None:
        raise ValueError(f"For '{of}', '{name}' must not be None: needed a list of Parameters or groups")
    if isinstance(value, (Parameter, dict)) or not isinstance(value, Iterable):
        raise TypeError(f"For '{of}', '{name}' must be a list of Parameters, but got {type(value).__name__}")
    result = list(value)
    if not result:
        raise ValueError(f"For '{of}', '{name}' must not be an empty list: there are no Parameters to update")
    return result


def _check_parameters(items: list[Any], of: str) -> list[Parameter]:
    for i, item in enumerate(items):
        if not isinstance(item, Parameter):
            raise TypeError(
                f"For '{of}', the parameters must all be Parameters, or all be groups (dicts), but got "
                f"{type(item).__name__} at index {i}"
            )
    return items


def _check_group(group: Any, of: str) -> None:
    if not isinstance(group, dict):
        raise TypeError(
            f"For '{of}', the parameters must all be groups (dicts), or all be Parameters, but got "
            f"{type(group).__name__} among groups"
        )
    unknown = [key for key in group if key not in KEYS]
    if unknown:
        raise KeyError(f"For '{of}', the keys of a group must be among {list(KEYS)}, but got {unknown}")
    if "order_params" in group and len(group) > 1:
        raise ValueError(f"For '{of}', 'order_params' must be the only key of its group, but got {list(group)}")
    if "order_params" not in group and "params" not in group:
        raise KeyError(f"For '{of}', a group must have the key 'params', but got {list(group)}")
    if "grad_centralization" in group:
        checks.of_type(group["grad_centralization"], "grad_centralization", bool, of=of)


def _reorder(members: list[GroupMember], order: list[Parameter], of: str) -> list[GroupMember]:
    by_identity = {id(member.parameter): member for member in members}
    if len(order) != len(members) or {id(parameter) for parameter in order} != by_identity.keys():
        raise ValueError(
            f"For '{of}', 'order_params' must be the parameters of all groups, "
            f"{[member.parameter.name for member in members]}, but got {[getattr(p, 'name', p) for p in order]}"
        )
    return [by_identity[id(parameter)] for parameter in order]
