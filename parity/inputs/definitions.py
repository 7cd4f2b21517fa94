"""What a model file defines: its network, inputs, loss, port and the rest, each checked when it is asked for."""

from __future__ import annotations

import difflib
import inspect
import itertools
from collections.abc import Callable, Generator, Iterator, Mapping
from os import PathLike
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ...runtime.errors import UsageError
from ..sides.kinds import Kind
from ..support.user_code import report_user_errors

if TYPE_CHECKING:
    from torch import nn

    from ...converter.mapped_weights import MappedWeights

OTHERS = (
    "inputs",
    "loss",
    "dynamic_shapes",
    "cell",
    "cells",
    "weights",
    "decode",
    "parallelize",
    "splits_batch",
    "clip_gradients",
    "recording",
    "names",
    "checkpoint",
)
"""Names that a model file may define besides its model."""
_NO_MORE = object()


class Definitions:
    """The definitions of a user's Python module, and its name in messages."""

    def __init__(self, source: ModuleType, label: str) -> None:
        self.source = source
        self.label = label

    def optional(self, name: str) -> Any:
        """Return what the file defines under a name; None if there is nothing."""
        return getattr(self.source, name, None)

    def call(self, name: str, function: Callable[[], Any]) -> Any:
        """Return the result of a function without parameters, and report what it raises under its name."""
        self._require_callable(name, function)
        with report_user_errors(self.label, f"when {name}() was called"):
            return function()

    def _require_callable(self, name: str, function: Callable[..., Any], *parameters: str) -> None:
        """Raise `UsageError` unless a function can be called with arguments for exactly these parameters."""
        try:
            inspect.signature(function).bind(*parameters)
        except TypeError as error:
            own = inspect.signature(function)
            if inspect.isclass(function):
                made = f"{function.__name__}(...)"
                maker = "model" if name == function.__name__ else name
                raise UsageError(
                    f"{self.label}: `{name}` is the class {function.__name__}, which needs arguments: "
                    f"{function.__name__}{own}\n"
                    f"  what to do: write a function that makes the network: def {maker}(): return {made}"
                ) from error
            call = f"as {name}({', '.join(parameters)})" if parameters else "without arguments"
            if parameters:
                what = "give other parameters default values, or write another function that passes them"
            else:
                what = (
                    "give its parameters default values; if it is the network itself, write a torch.nn.Module whose "
                    "forward calls it"
                )
            raise UsageError(
                f"{self.label}: `{name}` is called {call}, but it is {name}{own}\n  what to do: {what}"
            ) from error
        except ValueError:  # no signature is known, as for some built-in functions
            pass

    def model(self, name: str) -> nn.Module:
        """Return the network: the attribute `name`, or its result if it is a function."""
        self._require_model(name)
        module: nn.Module = self._network(name, _module, "an nn.Module")
        return module

    def candidate(self, name: str) -> Any:
        """Return the network of a candidate, as `model` does; it may be a port, as `cell` returns it."""
        self._require_model(name)
        return self._network(name, _module_or_port, "an nn.Module, a Cell or a network in JAX")

    def _require_model(self, name: str) -> None:
        if not hasattr(self.source, name):
            raise UsageError(self._no_model(name))

    def _network(self, name: str, accept: Callable[[Any], Any], needed: str) -> Any:
        """Return the network that a name means, or that the function of this name returns.

        Args:
            name: the name.
            accept: returns the network that a value is, or None if it is none that is needed.
            needed: what is needed, in words.
        """
        value = self.optional(name)
        network = accept(value)
        if network is not None:
            return network
        hint = "" if inspect.isfunction(value) else _hint(value)  # a function is to return the network
        if hint or not callable(value):
            raise UsageError(
                f"{self.label}: `{name}` must be {needed}, or a function returning one; it is {_a(value)}{hint}"
            )
        result = self.call(name, value)
        network = accept(result)
        if network is None:
            raise UsageError(
                f"{self.label}: {name}() must return {needed}; it returned {_a(result)}{_missing_return(result)}"
                f"{_hint(result)}"
            )
        return network

    def inputs(self) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
        """Yield positional and keyword arguments of the network's calls, at least once."""
        if not hasattr(self.source, "inputs"):
            raise UsageError(
                f"{self.label} defines no `inputs`. It defines {self._definitions()}.\n"
                f"Write `def inputs():` and return the model's arguments: a tuple, or a dict of keyword arguments."
            )
        value: Any = self.source.inputs
        what = "`inputs` must be"
        if callable(value):
            value, what = self.call("inputs", value), "inputs() must return"
        if not isinstance(value, Generator):
            yield self._arguments(value, what)
            return
        for number in itertools.count(1):
            with report_user_errors(self.label, f"when inputs() was to yield number {number}"):
                item = next(value, _NO_MORE)
            if item is _NO_MORE:
                break
            yield self._arguments(item, "inputs() must yield")
        if number == 1:
            raise UsageError(f"{self.label}: inputs() yields nothing: yield the model's arguments at least once")

    def _arguments(self, value: Any, what: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return positional and keyword arguments of one call; `what` begins the error message about other values."""
        from torch import Tensor

        match value:
            case Tensor():
                return (value,), {}
            case tuple() | list():
                return tuple(value), {}
            case Mapping() if all(isinstance(key, str) for key in value):
                return (), dict(value)
        raise UsageError(
            f"{self.label}: {what} a tuple of arguments or a dict of keyword arguments, "
            f"not {_a(value)}{_missing_return(value)}"
        )

    def cell(self) -> Any:
        """Return the port: the attribute `cell`, or its result if it is a function; None if there is none."""
        return None if self.optional("cell") is None else self._network("cell", _port, "a Cell or a network in JAX")

    def pairs(self) -> tuple[Mapping[Any, Any] | None, Mapping[Any, Any] | None]:
        """Return `cells` and `weights`: of the port if the file defines one, else of its network as a candidate."""
        return self._mapping("cells"), self._mapping("weights")

    def notes_on_pairs(self) -> tuple[str, ...]:
        """Return a remark on `cells` and `weights` of a file without a port, which aren't used here."""
        pairings = [f"`{name}`" for name in ("cells", "weights") if isinstance(self.optional(name), Mapping)]
        if not pairings:
            return ()
        unused = f"{' and '.join(pairings)} pair the model with another one in parity compare"
        return (f"{unused}; they weren't used, since the file defines no `cell`",)

    def _mapping(self, name: str) -> Mapping[Any, Any] | None:
        value = self.optional(name)
        if inspect.isfunction(value):
            value = self.call(name, value)
        if value is not None and not isinstance(value, Mapping):
            raise UsageError(f"{self.label}: `{name}` must be a dict or a function returning one; it is {_a(value)}")
        return value

    def loss(self) -> Callable[[Any], Any] | None:
        """Return the loss, wrapped to report its errors; None if there is none."""
        function = self.optional("loss")
        if function is None:
            return None
        if not callable(function):
            raise UsageError(f"{self.label}: `loss` must be a function of the model's outputs; it is {_a(function)}")
        self._require_callable("loss", function, "outputs")

        def loss(outputs: Any) -> Any:
            with report_user_errors(self.label, "when loss(outputs) was called"):
                return function(outputs)

        return loss

    def function(self, name: str) -> Callable[..., Any] | None:
        """Return a function that one command needs; None if there is none of that name."""
        function = self.optional(name)
        return function if inspect.isfunction(function) else None  # it may mean something else in this file

    def path(self, name: str) -> Path | None:
        """Return a path that the file names, relative to its own folder; None if there is none of that name."""
        value = self.optional(name)
        return Path(self.label).parent / value if isinstance(value, (str, PathLike)) else None

    def map_checkpoint(self, module: nn.Module) -> MappedWeights | None:
        """Give a module that is on the meta device its weights, if the file says where they are."""
        path = self.path("checkpoint")
        if path is None:
            return None
        from ...converter.mapped_weights import map_weights

        return map_weights(module, path)

    def _kinds(self) -> dict[str, str]:
        """Return the names that the file itself defines, with their kinds."""
        definitions: dict[str, str] = {}
        for name, value in vars(self.source).items():
            if name.startswith("_") or inspect.ismodule(value):
                continue
            if inspect.isclass(value) or inspect.isfunction(value):
                if value.__module__ == self.source.__name__:
                    definitions[name] = "function" if inspect.isfunction(value) else "class"
            elif _module(value) is not None:
                definitions[name] = "nn.Module"
        return definitions

    def _definitions(self) -> str:
        return ", ".join(f"{name} ({kind})" for name, kind in self._kinds().items()) or "no function and no class"

    def _no_model(self, name: str) -> str:
        from torch import nn

        definitions = self._kinds()
        factories = [other for other, kind in definitions.items() if kind == "function" and other not in OTHERS]
        modules = [other for other, kind in definitions.items() if kind == "nn.Module"]
        classes = [
            other
            for other, kind in definitions.items()
            if kind == "class" and issubclass(vars(self.source)[other], nn.Module)
        ]
        lines = [f"{self.label} defines no `{name}`. It defines {self._definitions()}."]
        if close := difflib.get_close_matches(name, factories + modules, n=1) or (factories + modules)[:1]:
            lines.append(f"Is it `{close[0]}`? Then give {self.label}:{close[0]}.")
        elif len(classes) == 1:
            lines.append(f"`{classes[0]}` is an nn.Module: add\n    def model():\n        return {classes[0]}()")
        else:
            lines.append("Write `def model():` and return the nn.Module.")
        return "\n".join(lines)


def _module(value: Any) -> Any:
    """Return a torch module, or that of a program of `torch.export`; None if a value is neither."""
    from ...converter.capture.wrappers import as_module
    from ..sides.opening import kind_of

    network = as_module(value)
    return network if kind_of(network) is Kind.MODULE else None


def _module_or_port(value: Any) -> Any:
    module = _module(value)
    return _port(value) if module is None else module


def _port(value: Any) -> Any:
    """Return a Cell, or the side of a network in JAX; None if a value is neither."""
    from ..sides.jax_side import as_jax_side
    from ..sides.known_frameworks import framework_of

    return value if framework_of(value) is not None else as_jax_side(value)


def _hint(value: Any) -> str:
    """What to do with a port that is given where a torch module is needed, as the end of a message."""
    from ..sides.jax_hints import model_file_hint
    from ..sides.opening import kind_of

    if kind_of(value) is not Kind.CELL:
        return model_file_hint(value)
    return (
        ", which is a Cell\n  what to do: a Cell is the port of a torch module: parity compare MODULE.py PORT.py "
        "compares the two, or `cell` in the module's own file"
    )


def _a(value: object) -> str:
    """Describe the type of a value."""
    if value is None:
        return "None"
    name = value.__name__ if isinstance(value, type) else type(value).__name__
    article = "an" if name[0] in "aeiouAEIOU" else "a"
    return f"the class {name}" if isinstance(value, type) else f"{article} {name}"


def _missing_return(value: object) -> str:
    return " (is a `return` missing?)" if value is None else ""
