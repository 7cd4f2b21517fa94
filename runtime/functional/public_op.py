"""The three forms of an operator: function, Tensor method and operator object.

A function of this package is declared once, with the names of its other forms:

    @public_op(method="relu", primitive="ReLU")
    def relu(input): ...

defines `ops.relu(x)`, `x.relu()` and `ops.ReLU()(x)`. The constructor of an operator object takes some arguments:
`primitive=Primitive("Softmax", made_with=("axis",))` gives `ops.Softmax(axis=-1)(x)`.

`tensor_method` declares methods that only Tensors have, or that have other arguments there; `operator_object` declares
classes of operator objects with their own state.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..registration import register_as

Function = Callable[..., Any]


@dataclass(frozen=True)
class Primitive:
    """An operator object.

    Attributes:
        name: its class name, e.g. `ReduceSum`.
        made_with: parameters of the function that the constructor takes; a mapping renames them
            (`{"keep_dims": "keepdims"}`).
        defaults: defaults that differ from the function's, by the function's parameter names.
        called_with: the order of the other parameters in a call of the object, if it isn't the function's.
        arrange: converts the function's result to that of the object, if they differ.
        without_effect: additional parameters of the constructor that have no effect (`use_locking`), with their
            defaults.
    """

    name: str
    made_with: Iterable[str] | Mapping[str, str] = ()
    defaults: Mapping[str, Any] | None = None
    called_with: tuple[str, ...] | None = None
    arrange: Callable[[Any], Any] | None = None
    without_effect: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Spelling:
    """An operator: its function and the names of its other forms."""

    function: Function
    methods: tuple[str, ...]
    primitives: tuple[Primitive, ...]
    aliases: tuple[str, ...]


SPELLINGS: dict[str, Spelling] = {}
"""All operators by the name of their function."""


def public_op(
    *,
    method: str | tuple[str, ...] = (),
    primitive: str | Primitive | tuple[str | Primitive, ...] = (),
    alias: str | tuple[str, ...] = (),
) -> Callable[[Function], Function]:
    """Declare a function as an operator, with its other forms; `ValueError` if a name is taken."""

    def declare(function: Function) -> Function:
        name = function.__name__
        if name in SPELLINGS:
            raise ValueError(f"an operator named {name!r} is already declared")
        primitives = tuple(Primitive(p) if isinstance(p, str) else p for p in _several(primitive))
        SPELLINGS[name] = Spelling(function, _several(method), primitives, _several(alias))
        return function

    return declare


METHODS: dict[str, Any] = {}
"""Functions and properties that only Tensors have, by name."""

OBJECTS: dict[str, type] = {}
"""Operator objects that are classes of their own, by name."""


def tensor_method(*names: str) -> Callable[[Any], Any]:
    """Declare a function, whose first parameter is the tensor, or a property as a Tensor's; `ValueError` if taken."""
    return register_as(METHODS, names)


def operator_object(cls: type) -> type:
    """Declare a class as an operator object, offered under its name; `ValueError` if that is taken."""
    if cls.__name__ in OBJECTS:
        raise ValueError(f"an operator object named {cls.__name__!r} is already declared")
    OBJECTS[cls.__name__] = cls
    return cls


def argument_aliases(**others: str) -> Callable[[Function], Function]:
    """Add aliases for keyword arguments: `argument_aliases(dim="axis")` accepts `dim` for `axis`."""

    def decorate(function: Function) -> Function:
        @functools.wraps(function)
        def renaming(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **{others.get(name, name): value for name, value in kwargs.items()})

        renaming.__dict__["other_names"] = others
        return renaming

    return decorate


def _several(names: Any) -> tuple[Any, ...]:
    return names if isinstance(names, tuple) else (names,)


def public_names() -> dict[str, Any]:
    """Functions, their aliases and the classes of operator objects, by name; `ValueError` if one is taken twice."""
    found: dict[str, Any] = {}

    def add(name: str, value: Any) -> None:
        if name in found:
            raise ValueError(f"the name {name!r} is declared twice among the operators")
        found[name] = value

    for name, spelling in SPELLINGS.items():
        if not name.startswith("_"):  # such a function exists only for its operator object
            add(name, spelling.function)
        for alias in spelling.aliases:
            add(alias, spelling.function)
        for primitive in spelling.primitives:
            add(primitive.name, operator_class(spelling.function, primitive))
    for name, cls in OBJECTS.items():
        add(name, cls)
    return found


def attach_methods(tensor: type) -> None:
    """Make the functions that name a method into methods of the tensor class; `ValueError` if one is taken."""
    spelled_methods = [(name, spelling.function) for spelling in SPELLINGS.values() for name in spelling.methods]
    for name, method in [*spelled_methods, *METHODS.items()]:
        if any(name in cls.__dict__ for cls in tensor.__mro__[:-1]):  # object has comparisons, too
            raise ValueError(f"Tensor.{name} is declared twice")
        setattr(tensor, name, method)
        if name in _WITH_REFLECTION:
            setattr(tensor, f"__r{name[2:]}", _reflect(method))


_ARITHMETIC = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul")
_BITWISE = ("and", "or", "xor", "lshift", "rshift")
_WITH_REFLECTION = frozenset(f"__{name}__" for name in (*_ARITHMETIC, *_BITWISE))


def _reflect(function: Function) -> Function:
    """Swap the two operands of a function, for `number - tensor`."""

    def reflected(self: Any, other: Any) -> Any:
        return function(other, self)

    return reflected


class OperatorObject:
    """The base class of operator objects such as `ops.ReLU()`."""

    _function: Function
    _primitive: Primitive
    _making: inspect.Signature
    _renamed: dict[str, str]
    _variadic: bool

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        cls = type(self)
        try:
            bound = cls._making.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{cls.__name__}{cls._making}: {error}") from None
        self._given = {cls._renamed[name]: value for name, value in bound.arguments.items() if name in cls._renamed}
        self.__dict__.update(bound.arguments)

    @property
    def name(self) -> str:
        """Name of the operator."""
        return type(self).__name__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the operator."""
        cls = type(self)
        given = dict(cls._primitive.defaults or {}) | self._given | kwargs
        if cls._primitive.called_with is None and (cls._variadic or not (given or cls._renamed)):
            result = cls._function(*args, **given)
        else:
            names = cls._calling_names()
            if len(args) > len(names):
                raise TypeError(f"{cls.__name__} takes at most {len(names)} operands {tuple(names)}, given {len(args)}")
            result = cls._function(**(given | dict(zip(names, args, strict=False))))
        return result if cls._primitive.arrange is None else cls._primitive.arrange(result)

    @classmethod
    def _calling_names(cls) -> list[str]:
        if cls._primitive.called_with is not None:
            return list(cls._primitive.called_with)
        fixed = set(cls._renamed.values())
        return [name for name in inspect.signature(cls._function).parameters if name not in fixed]

    def __repr__(self) -> str:
        dtype_name = ", ".join(f"{name}={value!r}" for name, value in self._given.items())
        return f"{type(self).__name__}({dtype_name})"


def operator_class(function: Function, primitive: Primitive) -> type[OperatorObject]:
    """The class of operator objects that `primitive` describes."""
    made_with = primitive.made_with
    renamed = dict(made_with) if isinstance(made_with, Mapping) else {name: name for name in made_with}
    parameters = inspect.signature(function).parameters
    defaults = primitive.defaults or {}
    making = inspect.Signature(
        [
            inspect.Parameter(
                name,
                inspect.Parameter.POSITIONAL_OR_KEYWORD,
                default=defaults.get(own, parameters[own].default),
            )
            for name, own in renamed.items()
        ]
        + [
            inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default)
            for name, default in (primitive.without_effect or {}).items()
        ]
    )
    body = {
        "_function": staticmethod(function),
        "_primitive": primitive,
        "_making": making,
        "_renamed": renamed,
        "_variadic": any(p.kind is p.VAR_POSITIONAL for p in parameters.values()),
        "__doc__": f"Operator object of `{function.__name__}`.\n\n{inspect.getdoc(function) or ''}",
        "__module__": "cellbridge.runtime.ops",
    }
    return type(primitive.name, (OperatorObject,), body)
