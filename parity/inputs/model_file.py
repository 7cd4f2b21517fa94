"""Model files: what a user writes to have a network judged.

A file defines `model()` (or an `nn.Module` called `model`) and `inputs()` (or a value): a tuple of arguments or a dict
of keyword arguments; a generator function yields several of them. Optional are `loss(outputs)`, a scalar,
`dynamic_shapes`, as `torch.export` takes them, and `cell()`, the port of the model, with `cells` and `weights` as
`parity.compare` takes them.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import inspect
import itertools
import linecache
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ...runtime.errors import UsageError
from ...runtime.visible import encodable_name
from ..support.user_code import errors_shown, raised

if TYPE_CHECKING:
    from torch import nn

OTHERS = ("inputs", "loss", "dynamic_shapes", "cell", "cells", "weights")
"""What a model file may define besides its model."""
_NO_MORE = object()


@dataclass(frozen=True)
class ModelFile:
    """What a model file defines.

    Attributes:
        module: the network, as the file made it.
        args: positional arguments of its call.
        kwargs: keyword arguments of its call.
        loss: from the module's result to a scalar; None if the file has none.
        dynamic_shapes: as for `torch.export.export`; None if the file has none.
        name: what the user called it.
        cell: the port; None if the file has none.
        cells: paths of modules by paths of Cells; None if the file has none.
        weights: as for `parity.compare`; None if the file has none.
        more_inputs: the arguments of further calls, positional and by keyword, made one after the other.
    """

    module: nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    loss: Callable[[Any], Any] | None
    dynamic_shapes: Any
    name: str
    cell: Any = None
    cells: Mapping[str, str] | None = None
    weights: Mapping[Any, Any] | None = None
    more_inputs: Iterable[tuple[tuple[Any, ...], dict[str, Any]]] = ()


def load(target: str, seed: int = 0) -> ModelFile:
    """Run a model file and take from it the network and its inputs.

    Args:
        target: `path/model.py`, `path/model.py:factory` or `package.module:factory`.
        seed: torch's random number generator starts from it.

    Raises:
        UsageError: the file isn't there, raises, or doesn't define what is needed. The user's exception is the cause.
    """
    head, _, factory = target.rpartition(":")
    if not head or not factory.isidentifier():
        head, factory = target, ""
    is_module = bool(factory) and not head.endswith(".py") and all(part.isidentifier() for part in head.split("."))
    if not is_module:
        _require_file(Path(head))

    import torch

    torch.manual_seed(seed)
    source = _imported(head) if is_module else _executed(Path(head))
    user_file = _UserFile(source, head)
    module = user_file.model(factory or "model")
    every_input = user_file.inputs()
    args, kwargs = next(every_input)
    loss = user_file.loss()
    dynamic_shapes = user_file.optional("dynamic_shapes")
    if inspect.isfunction(dynamic_shapes):
        dynamic_shapes = user_file.call("dynamic_shapes", dynamic_shapes)
    cell = user_file.cell()
    cells, weights = (user_file.mapping(name, cell) for name in ("cells", "weights"))
    return ModelFile(module, args, kwargs, loss, dynamic_shapes, target, cell, cells, weights, every_input)


class _UserFile:
    """A module that a user wrote, and how the messages about it call it."""

    def __init__(self, source: ModuleType, shown: str) -> None:
        self.source = source
        self.shown = shown

    def optional(self, name: str) -> Any:
        return getattr(self.source, name, None)

    def call(self, name: str, function: Callable[[], Any]) -> Any:
        self._require_callable(name, function)
        with errors_shown(self.shown, f"when {name}() was called"):
            return function()

    def _require_callable(self, name: str, function: Callable[..., Any], *parameters: str) -> None:
        """`UsageError` unless a function can be called with arguments for these parameters, and no others."""
        try:
            inspect.signature(function).bind(*parameters)
        except TypeError as error:
            given = f"as {name}({', '.join(parameters)})" if parameters else "without arguments"
            raise UsageError(
                f"{self.shown}: `{name}` is called {given}, but it is {name}{inspect.signature(function)}.\n"
                f"Give other parameters default values, or write another function that passes them."
            ) from error
        except ValueError:  # no signature is known, as for some built-in functions
            pass

    def model(self, name: str) -> nn.Module:
        """The network: `name` itself, or what it returns."""
        from torch import nn

        if not hasattr(self.source, name):
            raise UsageError(self._no_model(name))
        found = getattr(self.source, name)
        if isinstance(found, nn.Module):
            return found
        if not callable(found):
            raise UsageError(
                f"{self.shown}: `{name}` must be an nn.Module or a function returning one, it is {_a(found)}"
            )
        made = self.call(name, found)
        if not isinstance(made, nn.Module):
            raise UsageError(
                f"{self.shown}: {name}() must return an nn.Module, it returned {_a(made)}{_forgotten(made)}"
            )
        return made

    def inputs(self) -> Iterator[tuple[tuple[Any, ...], dict[str, Any]]]:
        """Positional and keyword arguments of the network's calls: of at least one."""
        if not hasattr(self.source, "inputs"):
            raise UsageError(
                f"{self.shown} defines no `inputs`. It defines {self._defined()}.\n"
                f"Write `def inputs():` and return the model's arguments: a tuple, or a dict of keyword arguments."
            )
        found: Any = self.source.inputs
        what = "`inputs` must be"
        if callable(found):
            found, what = self.call("inputs", found), "inputs() must return"
        if not isinstance(found, Generator):
            yield self._arguments(found, what)
            return
        for number in itertools.count(1):
            with errors_shown(self.shown, f"when inputs() was to yield number {number}"):
                yielded = next(found, _NO_MORE)
            if yielded is _NO_MORE:
                break
            yield self._arguments(yielded, "inputs() must yield")
        if number == 1:
            raise UsageError(f"{self.shown}: inputs() yields nothing: yield the model's arguments at least once")

    def _arguments(self, found: Any, what: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Positional and keyword arguments of one call; `what` begins the sentence about anything else."""
        from torch import Tensor

        match found:
            case Tensor():
                return (found,), {}
            case tuple() | list():
                return tuple(found), {}
            case Mapping() if all(isinstance(key, str) for key in found):
                return (), dict(found)
        raise UsageError(
            f"{self.shown}: {what} a tuple of arguments or a dict of keyword arguments, "
            f"not {_a(found)}{_forgotten(found)}"
        )

    def cell(self) -> Any:
        """The port: `cell` itself, or what it returns; None if there is none."""
        found = self.optional("cell")
        if found is None:
            return None
        from ..sides.known_frameworks import framework_of

        if framework_of(found) is not None:
            return found
        if not callable(found):
            raise UsageError(f"{self.shown}: `cell` must be a Cell or a function returning one, it is {_a(found)}")
        made = self.call("cell", found)
        if framework_of(made) is None:
            raise UsageError(f"{self.shown}: cell() must return a Cell, it returned {_a(made)}{_forgotten(made)}")
        return made

    def mapping(self, name: str, cell: Any) -> Mapping[Any, Any] | None:
        """A dict that goes with the port; None if there is none."""
        found = self.optional(name)
        if found is None or (cell is None and not isinstance(found, Mapping)):
            return None
        if inspect.isfunction(found):
            found = self.call(name, found)
        if not isinstance(found, Mapping):
            raise UsageError(f"{self.shown}: `{name}` must be a dict or a function returning one, it is {_a(found)}")
        if cell is None:
            raise UsageError(f"{self.shown}: `{name}` goes with a port, and the file defines no `cell`")
        return found

    def loss(self) -> Callable[[Any], Any] | None:
        """The loss, its errors shown; None if there is none."""
        found = self.optional("loss")
        if found is None:
            return None
        if not callable(found):
            raise UsageError(f"{self.shown}: `loss` must be a function of the model's outputs, it is {_a(found)}")
        self._require_callable("loss", found, "outputs")

        def loss(outputs: Any) -> Any:
            with errors_shown(self.shown, "when loss(outputs) was called"):
                return found(outputs)

        return loss

    def _own(self) -> dict[str, str]:
        """Names that the file itself defines, and what they are."""
        from torch import nn

        own: dict[str, str] = {}
        for name, value in vars(self.source).items():
            if name.startswith("_") or inspect.ismodule(value):
                continue
            if inspect.isclass(value) or inspect.isfunction(value):
                if value.__module__ == self.source.__name__:
                    own[name] = "function" if inspect.isfunction(value) else "class"
            elif isinstance(value, nn.Module):
                own[name] = "nn.Module"
        return own

    def _defined(self) -> str:
        return ", ".join(f"{name} ({kind})" for name, kind in self._own().items()) or "no function and no class"

    def _no_model(self, name: str) -> str:
        from torch import nn

        own = self._own()
        factories = [other for other, kind in own.items() if kind == "function" and other not in OTHERS]
        modules = [other for other, kind in own.items() if kind == "nn.Module"]
        classes = [
            other for other, kind in own.items() if kind == "class" and issubclass(vars(self.source)[other], nn.Module)
        ]
        lines = [f"{self.shown} defines no `{name}`. It defines {self._defined()}."]
        if close := difflib.get_close_matches(name, factories + modules, n=1) or (factories + modules)[:1]:
            lines.append(f"Is it `{close[0]}`? Then give {self.shown}:{close[0]}.")
        elif len(classes) == 1:
            lines.append(f"`{classes[0]}` is an nn.Module: add\n    def model():\n        return {classes[0]}()")
        else:
            lines.append("Write `def model():` and return the nn.Module.")
        return "\n".join(lines)


def _require_file(path: Path) -> None:
    if path.is_dir():
        raise UsageError(f"{path} is a folder; give the path of a model file (.py)")
    if not path.exists():
        if not path.parent.is_dir():
            raise UsageError(f"no such file: {path} (there is no folder {path.parent})")
        there = [file.name for file in path.parent.glob("*.py")]
        close = difflib.get_close_matches(path.name, there, n=3) or difflib.get_close_matches(
            f"{path.name}.py", there, n=3
        )
        hint = f"; did you mean {' or '.join(str(path.with_name(name)) for name in close)}?" if close else ""
        raise UsageError(f"no such file: {path}{hint}")
    if path.suffix != ".py":
        raise UsageError(f"{path} is no Python file (.py). A model file defines model() and inputs()")


def _executed(path: Path) -> ModuleType:
    """The file run as `python` runs one: its folder comes first on `sys.path`, and no bytecode is cached."""
    try:
        code = path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} can't be read: {error.strerror}") from error
    full = path.resolve()
    name = encodable_name(full.stem)
    name = name if name not in sys.modules else f"_model_file_{abs(hash(full))}_{name}"
    spec = importlib.util.spec_from_file_location(name, full)
    assert spec is not None  # the suffix is .py
    module = importlib.util.module_from_spec(spec)
    _first_on_path(full.parent)
    sys.modules[name] = module
    try:
        with errors_shown(str(path), "while it was loaded"):
            encodable = encodable_name(str(full))  # torch takes names of files in UTF-8 alone
            compiled = compile(code, encodable, "exec", dont_inherit=True)
            if encodable != str(full):  # where there is no file: tracebacks and torch read its lines all the same
                lines = importlib.util.decode_source(code).splitlines(keepends=True)
                linecache.cache[encodable] = (len(code), None, lines, encodable)
            exec(compiled, vars(module))
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _imported(name: str) -> ModuleType:
    _first_on_path(Path.cwd())  # as for `python -m`
    try:
        found = importlib.util.find_spec(name)
    except ModuleNotFoundError as error:
        raise UsageError(f"no module named {error.name!r} here or among the installed packages (for {name})") from error
    except Exception as error:  # a package on the way raised
        raise UsageError(raised(name, "while it was loaded", error)) from error
    if found is None:
        raise UsageError(
            f"no module named {name!r} here or among the installed packages; for a file, give its path: {name}.py"
        )
    with errors_shown(name, "while it was loaded"):
        return importlib.import_module(name)


def _first_on_path(folder: Path) -> None:
    if sys.path[:1] != [str(folder)]:
        sys.path.insert(0, str(folder))


def _a(value: object) -> str:
    """The type of a value, in words."""
    if value is None:
        return "None"
    name = value.__name__ if isinstance(value, type) else type(value).__name__
    article = "an" if name[0] in "aeiouAEIOU" else "a"
    return f"the class {name}" if isinstance(value, type) else f"{article} {name}"


def _forgotten(value: object) -> str:
    return " (is a `return` missing?)" if value is None else ""
