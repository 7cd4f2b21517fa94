"""Graphs of function calls, which a Cell walks to compute its result: data, never run as source text."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from inspect import Parameter as SignatureParameter
from inspect import Signature
from typing import Any, NamedTuple

from torch import nn

Path = tuple[str, ...]


class ForwardParameter(NamedTuple):
    """A parameter of `forward`.

    Attributes:
        name: an identifier.
        key: its keyword in the program, which may be any text.
        default: a tuple with its default; empty if it has none.
    """

    name: str
    key: str
    default: tuple[Any, ...] = ()


class Step(NamedTuple):
    """One call; operands, keywords and the result are indices in a list of values.

    Attributes:
        function: the function.
        operands: indices of the positional arguments.
        keywords: names and indices of the keyword arguments.
        result: index of the result.
        unneeded: indices of values that no later step needs.
    """

    function: Callable[..., Any]
    operands: tuple[int, ...]
    keywords: tuple[tuple[str, int], ...]
    result: int
    unneeded: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Graph:
    """The steps of one call of a module.

    Its values are in a list: the module, the arguments, the constants, and then the results of the steps.

    Attributes:
        parameters: the parameters of `forward`, without `self`.
        constants: constant arguments of steps.
        steps: the steps in order.
        result: index of the result.
        names: identifiers of the values in `code`, by index.
    """

    parameters: tuple[ForwardParameter, ...]
    constants: tuple[Any, ...]
    steps: tuple[Step, ...]
    result: int
    names: tuple[str, ...]

    def __deepcopy__(self, memo: dict[int, Any]) -> Graph:
        return self  # it is immutable

    def run(self, module: nn.Module, arguments: Sequence[Any]) -> Any:
        """Compute the result, with the parameters, buffers and modules that `module` holds."""
        values = [module, *arguments, *self.constants, *([None] * len(self.steps))]
        for function, operands, keywords, index, unneeded in self.steps:
            if keywords:
                values[index] = function(*[values[i] for i in operands], **{name: values[i] for name, i in keywords})
            else:
                values[index] = function(*[values[i] for i in operands])
            for i in unneeded:
                values[i] = None
        return values[self.result]

    def arguments(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Sequence[Any]:
        """The arguments of a call in the order of the parameters; `TypeError` if they don't fit."""
        if not kwargs and len(args) == len(self.parameters):
            return args
        if len(args) > len(self.parameters):
            raise TypeError(f"forward() takes {len(self.parameters)} arguments, given {len(args)}")
        positional, remaining = list(args), dict(kwargs)
        for name, key, default in self.parameters[len(args) :]:
            if key in remaining:
                positional.append(remaining.pop(key))
            elif name in remaining:
                positional.append(remaining.pop(name))
            elif default:
                positional.append(default[0])
            else:
                raise TypeError(f"forward() needs the argument {key!r}")
        if remaining:
            raise TypeError(f"forward() got unknown or repeated arguments: {', '.join(map(repr, remaining))}")
        return positional

    @cached_property
    def signature(self) -> Signature:
        """The signature of `forward`, with `self`."""
        kind, nothing = SignatureParameter.POSITIONAL_OR_KEYWORD, SignatureParameter.empty
        parameters = [SignatureParameter("self", kind)]
        for name, _, default in self.parameters:
            parameters.append(SignatureParameter(name, kind, default=default[0] if default else nothing))
        return Signature(parameters)

    @cached_property
    def key(self) -> Any:
        """A key that is equal for graphs with the same steps; names of values don't matter."""
        steps = tuple((step.function, step.operands, step.keywords, step.result) for step in self.steps)
        return _key(self.parameters), _key(self.constants), steps, self.result


def _key(constant: Any) -> Any:
    """A key that distinguishes constants strictly: 1 is neither True nor 1.0, and 0.0 isn't -0.0."""
    if isinstance(constant, (tuple, list)):
        return (type(constant), *map(_key, constant))
    if isinstance(constant, dict):
        return (dict, *((_key(name), _key(item)) for name, item in constant.items()))
    if isinstance(constant, slice):
        return slice, _key(constant.start), _key(constant.stop), _key(constant.step)
    if isinstance(constant, (float, complex)):
        return type(constant), repr(constant)
    return type(constant), constant


# ---- functions of steps ----


def get_state(module: Any, path: Path) -> Any:
    """A parameter or buffer of a module or a submodule."""
    *modules, name = path
    for part in modules:
        module = module._modules[part]
    tensor = module._parameters.get(name)
    if tensor is None:
        tensor = module._buffers.get(name)
    return getattr(module, name) if tensor is None else tensor  # torch.nn.utils.parametrize and prune move it


def call(module: Any, path: Path, /, *args: Any, **kwargs: Any) -> Any:
    """Call a submodule of a module."""
    for part in path:
        module = module._modules[part]
    return module(*args, **kwargs)


def call_elsewhere(module: Any, name: str, /, *args: Any, **kwargs: Any) -> Any:
    """Call a module that isn't a submodule of the caller."""
    return module._cell.elsewhere[name](*args, **kwargs)


def body(module: Any, name: str) -> Any:
    """The sub-program of a branch or a loop, as a module."""
    return module._cell.bodies[name]


def make_tuple(*items: Any) -> tuple[Any, ...]:
    """A tuple of values."""
    return items


def make_list(*items: Any) -> list[Any]:
    """A list of values."""
    return list(items)


def make_dict(keys: Sequence[Any], *items: Any) -> dict[Any, Any]:
    """A dict of values."""
    return dict(zip(keys, items, strict=True))
