"""The three forms of an operator: function, Tensor method and operator object.

A function of this package is declared once, with the names of its other forms:

    @public_op(method="relu", primitive="ReLU")
    def relu(input): ...

defines `ops.relu(x)`, `x.relu()` and `ops.ReLU()(x)`. The constructor of an operator object takes some arguments:
`primitive=Primitive("Softmax", init_args=("axis",))` gives `ops.Softmax(axis=-1)(x)`.

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
        init_args: parameters of the function that the constructor takes; a mapping renames them
            (`{"keep_dims": "keepdims"}`).
        defaults: defaults that differ from the function's, by the function's parameter names.
        call_args: the order of the other parameters in a call of the object, if it differs from the function's.
        arrange: converts the function's result to that of the object, if they differ.
        ignored_args: additional parameters of the constructor that have no effect (`use_locking`), with their
            defaults.
    """

    name: str
    init_args: Iterable[str] | Mapping[str, str] = ()
    defaults: Mapping[str, Any] | None = None
    call_args: tuple[str, ...] | None = None
    arrange: Callable[[Any], Any] | None = None
    ignored_args: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class PublicOp:
    """An operator: its function and the names of its other forms."""

    function: Function
    methods: tuple[str, ...]
    primitives: tuple[Primitive, ...]
    aliases: tuple[str, ...]


PUBLIC_OPS: dict[str, PublicOp] = {}
"""All operators, by the name of their function."""


def public_op(
    *,
    method: str | tuple[str, ...] = (),
    primitive: str | Primitive | tuple[str | Primitive, ...] = (),
    alias: str | tuple[str, ...] = (),
) -> Callable[[Function], Function]:
    """Declare a function as an operator, with its other forms; `ValueError` if its name is already declared."""

    def declare(function: Function) -> Function:
        name = function.__name__
        if name in PUBLIC_OPS:
            raise ValueError(f"an operator named {name!r} is already declared")
        primitives = tuple(Primitive(p) if isinstance(p, str) else p for p in _as_tuple(primitive))
        PUBLIC_OPS[name] = PublicOp(function, _as_tuple(method), primitives, _as_tuple(alias))
        return function

    return declare


METHODS: dict[str, Any] = {}
"""Methods and properties that only Tensors have, by name."""

OBJECTS: dict[str, type] = {}
"""Operator objects that are declared as classes, by name."""


def tensor_method(*names: str) -> Callable[[Any], Any]:
    """Declare a function (its first parameter is the tensor) or a property of Tensors; `ValueError` for a used name."""
    return register_as(METHODS, names)


def operator_object(cls: type) -> type:
    """Declare a class as an operator object under its name; `ValueError` if the name is already declared."""
    if cls.__name__ in OBJECTS:
        raise ValueError(f"an operator object named {cls.__name__!r} is already declared")
    OBJECTS[cls.__name__] = cls
    return cls


def argument_aliases(**others: str) -> Callable[[Function], Function]:
    """Add aliases for keyword arguments: `argument_aliases(dim="axis")` accepts `dim` for `axis`."""

    def decorate(function: Function) -> Function:
        @functools.wraps(function)
        def rename_arguments(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **{others.get(name, name): value for name, value in kwargs.items()})

        rename_arguments.__dict__["other_names"] = others
        return rename_arguments

    return decorate


def _as_tuple(names: Any) -> tuple[Any, ...]:
    return names if isinstance(names, tuple) else (names,)


def public_names() -> dict[str, Any]:
    """Return functions, their aliases and operator objects, by name; `ValueError` if a name is declared twice."""
    values: dict[str, Any] = {}

    def add(name: str, value: Any) -> None:
        if name in values:
            raise ValueError(f"the name {name!r} is declared twice among the operators")
        values[name] = value

    for name, op in PUBLIC_OPS.items():
        if not name.startswith("_"):  # a private function exists only for its operator object
            add(name, op.function)
        for alias in op.aliases:
            add(alias, op.function)
        for primitive in op.primitives:
            add(primitive.name, operator_class(op.function, primitive))
    for name, cls in OBJECTS.items():
        add(name, cls)
    return values


def attach_methods(tensor: type) -> None:
    """Attach all declared methods and properties to the tensor class; `ValueError` if a name is declared twice."""
    op_methods = [(name, op.function) for op in PUBLIC_OPS.values() for name in op.methods]
    for name, method in [*op_methods, *METHODS.items()]:
        if any(name in cls.__dict__ for cls in tensor.__mro__[:-1]):  # `object`, the last class, has `__eq__` too
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
        keywords = dict(cls._primitive.defaults or {}) | self._given | kwargs
        if cls._primitive.call_args is None and (cls._variadic or not (keywords or cls._renamed)):
            result = cls._function(*args, **keywords)
        else:
            names = cls._calling_names()
            if len(args) > len(names):
                raise TypeError(
                    f"{cls.__name__} takes at most {len(names)} operands, {tuple(names)}, but got {len(args)}"
                )
            result = cls._function(**(keywords | dict(zip(names, args, strict=False))))
        return result if cls._primitive.arrange is None else cls._primitive.arrange(result)

    @classmethod
    def _calling_names(cls) -> list[str]:
        if cls._primitive.call_args is not None:
            return list(cls._primitive.call_args)
        fixed = set(cls._renamed.values())
        return [name for name in inspect.signature(cls._function).parameters if name not in fixed]

    def __repr__(self) -> str:
        arguments = ", ".join(f"{name}={value!r}" for name, value in self._given.items())
        return f"{type(self).__name__}({arguments})"


def operator_class(function: Function, primitive: Primitive) -> type[OperatorObject]:
    """Return the class of operator objects that `primitive` describes."""
    init_args = primitive.init_args
    renamed = dict(init_args) if isinstance(init_args, Mapping) else {name: name for name in init_args}
    parameters = inspect.signature(function).parameters
    defaults = primitive.defaults or {}
    making = inspect.Signature(
        [
            inspect.Parameter(
                name,
                inspect.Parameter.POSITIONAL_OR_KEYWORD,
                default=defaults.get(parameter, parameters[parameter].default),
            )
            for name, parameter in renamed.items()
        ]
        + [
            inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default)
            for name, default in (primitive.ignored_args or {}).items()
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
        "__signature__": making,  # for `help` and `inspect.signature`
    }
    return type(primitive.name, (OperatorObject,), body)
