"""Parameter groups: what an optimizer was given, as one entry per Parameter."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from ... import checks
from ...common.parameter import Parameter

KEYS = ("params", "lr", "weight_decay", "grad_centralization", "order_params")


@dataclass(frozen=True)
class Member:
    """A Parameter and what its group says.

    Attributes:
        parameter: the Parameter.
        group: number of its group.
        own: `lr`, `weight_decay` and `grad_centralization`, as far as the group gives them.
    """

    parameter: Parameter
    group: int
    own: dict[str, Any]


def members(parameters: Any, *, of: str) -> tuple[list[Member], bool]:
    """The Parameters that an optimizer is to update, in order, and whether they came in groups.

    Args:
        parameters: an iterable of Parameters, or of groups: dicts with Parameters under `params`, and optionally `lr`,
            `weight_decay` and `grad_centralization` for them. A dict with `order_params` alone gives the order of all.
        of: name of the optimizer, for messages.

    Raises:
        TypeError: `parameters`, an element or a setting is of another type.
        ValueError: there are no Parameters, one is listed twice, two groups hold Parameters of one name, or
            `order_params` aren't those of the groups.
        KeyError: a group has another key, or no `params`.
        RuntimeError: a Parameter is in two groups.
    """
    listed = _listed(parameters, "parameters", of)
    if not any(isinstance(item, dict) for item in listed):
        _check_parameters(listed, of)
        seen: set[int] = set()
        for parameter in listed:
            if id(parameter) in seen:
                raise ValueError(f"For '{of}', Parameter '{parameter.name}' already exists: it is listed twice")
            seen.add(id(parameter))
        return [Member(parameter, 0, {}) for parameter in listed], False
    found: list[Member] = []
    order: list[Parameter] | None = None
    for number, group in enumerate(listed):
        _check_group(group, of)
        if "order_params" in group:
            order = _listed(group["order_params"], "order_params", of)
            continue
        own = {key: value for key, value in group.items() if key != "params"}
        for parameter in _check_parameters(_listed(group["params"], "params", of), of):
            for other in (member.parameter for member in found if member.parameter.name == parameter.name):
                kind = RuntimeError if other is parameter else ValueError
                raise kind(f"For '{of}', Parameter '{parameter.name}' already exists in a group")
            found.append(Member(parameter, number, own))
    if not found:
        raise ValueError(f"For '{of}', the groups must hold parameters, but they are empty")
    return (found if order is None else _ordered(found, order, of)), True


def _listed(given: Any, name: str, of: str) -> list[Any]:
    if given is None:
        raise ValueError(f"For '{of}', '{name}' must not be None: needed a list of Parameters or groups")
    if isinstance(given, (Parameter, dict)) or not isinstance(given, Iterable):
        raise TypeError(f"For '{of}', '{name}' must be a list of Parameters, but got {type(given).__name__}")
    listed = list(given)
    if not listed:
        raise ValueError(f"For '{of}', '{name}' must not be an empty list: there are no Parameters to update")
    return listed


def _check_parameters(listed: list[Any], of: str) -> list[Parameter]:
    for i, item in enumerate(listed):
        if not isinstance(item, Parameter):
            raise TypeError(
                f"For '{of}', the parameters must all be Parameters, or all be groups (dicts), but got "
                f"{type(item).__name__} at index {i}"
            )
    return listed


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


def _ordered(found: list[Member], order: list[Parameter], of: str) -> list[Member]:
    by_identity = {id(member.parameter): member for member in found}
    if len(order) != len(found) or {id(parameter) for parameter in order} != by_identity.keys():
        raise ValueError(
            f"For '{of}', 'order_params' must be the parameters of all groups, "
            f"{[member.parameter.name for member in found]}, but got {[getattr(p, 'name', p) for p in order]}"
        )
    return [by_identity[id(parameter)] for parameter in order]
