"""Model files: Python files in which users define the network to judge.

A file defines `model()` (or an `nn.Module` called `model`) and `inputs()` (or a value): a tuple of arguments or a dict
of keyword arguments; a generator function yields several of them. Optional are `loss(outputs)`, which returns a scalar,
`dynamic_shapes` as for `torch.export`, and `cell()`, the port of the model, with `cells` and `weights` as for
`parity.compare`; `recording`, the folder of a recording to compare with, and `names`, a map of its names;
`checkpoint`, safetensors files with the weights of a model that `model()` makes on the meta device;
`decode(module, tokens, state)` for `parity generate`, and `parallelize(module, mesh)` for `parity run --ranks`.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import inspect
import itertools
import linecache
import re
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ...runtime.errors import UsageError
from ...runtime.visible import encodable_name
from ..support.user_code import format_user_error, report_user_errors
from .generated_cases import source_of_case
from .torch_files import is_torch_file, load_torch_file

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
_CASE = re.compile(r"(.*\.py)\[(.*)\]", re.DOTALL)  # a file and the name of one of its cases


@dataclass(frozen=True)
class ModelFile:
    """The definitions of a model file.

    Attributes:
        module: the network.
        args: positional arguments of its call.
        kwargs: keyword arguments of its call.
        loss: maps the module's result to a scalar; None if the file has none.
        dynamic_shapes: as for `torch.export.export`; None if the file has none.
        name: name of the file, as the user gave it.
        cell: the port; None if the file has none.
        cells: paths of modules by paths of Cells of the port; None if the file has none.
        weights: as for `parity.compare`; None if the file has none.
        more_inputs: positional and keyword arguments of further calls, created one at a time.
        decode: how the network continues a sequence, for `parity generate`; None if the file has none.
        parallelize: makes the network one that runs on several processes; None if the file has none.
        recording: the recording that the network is compared with, and the map of its names; None if the file has none.
        splits_batch: whether each process gets a part of the batch; None where its class says so.
        checkpoint: safetensors files with the weights of what is on the meta device; None if the file has none.
        mapped: these files, mapped into memory, of which the module has its weights; None if it has its own.
        notes: remarks for the reader of a report.
        clip_gradients: how the parallel network's gradients are clipped; None for torch's `clip_grad_norm_`.
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
    decode: Callable[..., Any] | None = None
    parallelize: Callable[..., Any] | None = None
    splits_batch: bool | None = None
    recording: Path | None = None
    names: Path | None = None
    clip_gradients: Callable[..., Any] | None = None
    checkpoint: Path | None = None
    mapped: MappedWeights | None = None
    notes: tuple[str, ...] = ()


def load(target: str, seed: int = 0, *, on_meta: bool = False) -> ModelFile:
    """Run a model file and return its network and inputs.

    Args:
        target: `path/model.py`, `path/model.py:factory`, `path/cases.py[case]`, `package.module:factory`, or
            `path/program.pt2`.
        seed: seed of torch's random number generator.
        on_meta: leave a module whose weights are in files on the meta device.

    Raises:
        UsageError: the file doesn't exist, raises, or lacks a definition. The user's exception is the cause.
    """
    if is_torch_file(target):
        module, args, kwargs, dynamic_shapes = load_torch_file(target)
        return ModelFile(module, args, kwargs, None, dynamic_shapes, target)
    user_file, module = _open(target, seed)
    mapped = None if on_meta else user_file.map_checkpoint(module)
    every_input = user_file.inputs()
    args, kwargs = next(every_input)
    loss = user_file.loss()
    dynamic_shapes = user_file.optional("dynamic_shapes")
    if inspect.isfunction(dynamic_shapes):
        dynamic_shapes = user_file.call("dynamic_shapes", dynamic_shapes)
    cell = user_file.cell()
    cells, weights = user_file.pairs() if cell is not None else (None, None)
    decode, parallelize = user_file.function("decode"), user_file.function("parallelize")
    splits = user_file.optional("splits_batch")
    return ModelFile(
        module, args, kwargs, loss, dynamic_shapes, target, cell, cells, weights, every_input, decode, parallelize,
        splits if isinstance(splits, bool) else None, user_file.path("recording"), user_file.path("names"),
        user_file.function("clip_gradients"), user_file.path("checkpoint"), mapped,
        () if cell is not None else user_file.notes_on_pairs(),
    )  # fmt: skip


def load_candidate(target: str, seed: int = 0) -> Candidate:
    """Run a model file that is compared with another one, and return its network; it needs no inputs.

    Args:
        target: as for `load`.
        seed: seed of torch's random number generator; networks that are built alike get the same weights.

    Raises:
        UsageError: as for `load`.
    """
    if is_torch_file(target):
        return Candidate(load_torch_file(target)[0], None, None)
    user_file, module = _open(target, seed)
    user_file.map_checkpoint(module)
    return Candidate(module, *(user_file.pairs() if user_file.optional("cell") is None else (None, None)))


@dataclass(frozen=True)
class Candidate:
    """The definitions of a model file that is compared with another one.

    Attributes:
        module: the network.
        cells: paths in the reference by paths in this network; None if the file has none, or if they are its port's.
        weights: as for `parity.compare`; as for `cells`.
    """

    module: nn.Module
    cells: Mapping[str, str] | None
    weights: Mapping[Any, Any] | None


def _open(target: str, seed: int) -> tuple[_UserFile, nn.Module]:
    """Run a model file, and return it with its network."""
    if case := _CASE.fullmatch(target):
        source = source_of_case(open_source(case[1], seed), *case.groups())
        user_file = _UserFile(source, case[1])
        return user_file, user_file.model("model")
    head, _, factory = target.rpartition(":")
    if not head or not factory.isidentifier():
        head, factory = target, ""
    user_file = _UserFile(open_source(head, seed, may_be_module=bool(factory)), head)
    return user_file, user_file.model(factory or "model")


def open_source(name: str, seed: int = 0, *, may_be_module: bool = True) -> ModuleType:
    """Run a Python file, or import a module.

    Args:
        name: path of the file, or `package.module`.
        seed: seed of torch's random number generator.
        may_be_module: whether the name may be that of a module.

    Raises:
        UsageError: there is none, or it raises.
    """
    is_module = may_be_module and not name.endswith(".py") and all(part.isidentifier() for part in name.split("."))
    if not is_module:
        _require_file(Path(name))

    import torch

    torch.manual_seed(seed)
    return _import_module(name) if is_module else _run_file(Path(name))


class _UserFile:
    """A user's Python module, and its name in messages."""

    def __init__(self, source: ModuleType, label: str) -> None:
        self.source = source
        self.label = label

    def optional(self, name: str) -> Any:
        return getattr(self.source, name, None)

    def call(self, name: str, function: Callable[[], Any]) -> Any:
        self._require_callable(name, function)
        with report_user_errors(self.label, f"when {name}() was called"):
            return function()

    def _require_callable(self, name: str, function: Callable[..., Any], *parameters: str) -> None:
        """Raise `UsageError` unless a function can be called with arguments for exactly these parameters."""
        try:
            inspect.signature(function).bind(*parameters)
        except TypeError as error:
            given = f"as {name}({', '.join(parameters)})" if parameters else "without arguments"
            raise UsageError(
                f"{self.label}: `{name}` is called {given}, but it is {name}{inspect.signature(function)}.\n"
                f"Give other parameters default values, or write another function that passes them."
            ) from error
        except ValueError:  # no signature is known, as for some built-in functions
            pass

    def model(self, name: str) -> nn.Module:
        """Return the network: the attribute `name`, or its result if it is a function."""
        from torch import nn

        from ...converter.capture.wrappers import as_module
        from ..sides.jax_hints import model_file_hint

        if not hasattr(self.source, name):
            raise UsageError(self._no_model(name))
        value = as_module(getattr(self.source, name))
        if isinstance(value, nn.Module):
            return value
        hint = "" if inspect.isfunction(value) else model_file_hint(value)  # a function is to return the network
        if hint or not callable(value):
            raise UsageError(
                f"{self.label}: `{name}` must be an nn.Module or a function returning one, it is {_a(value)}{hint}"
            )
        result = as_module(self.call(name, value))
        if not isinstance(result, nn.Module):
            raise UsageError(
                f"{self.label}: {name}() must return an nn.Module, it returned {_a(result)}{_missing_return(result)}"
                f"{model_file_hint(result)}"
            )
        return result

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
        value = self.optional("cell")
        if value is None:
            return None
        from ..sides.jax_hints import model_file_hint

        port = _port(value)
        if port is not None:
            return port
        hint = "" if inspect.isfunction(value) else model_file_hint(value)  # a function is to return the port
        if hint or not callable(value):
            raise UsageError(
                f"{self.label}: `cell` must be a Cell, a network in JAX or a function returning one, it is "
                f"{_a(value)}{hint}"
            )
        result = self.call("cell", value)
        port = _port(result)
        if port is None:
            raise UsageError(
                f"{self.label}: cell() must return a Cell or a network in JAX, it returned "
                f"{_a(result)}{_missing_return(result)}{model_file_hint(result)}"
            )
        return port

    def pairs(self) -> tuple[Mapping[Any, Any] | None, Mapping[Any, Any] | None]:
        """Return `cells` and `weights`: of the port if the file defines one, else of its network as a candidate."""
        return self._mapping("cells"), self._mapping("weights")

    def notes_on_pairs(self) -> tuple[str, ...]:
        """Return a remark on `cells` and `weights` of a file without a port, which aren't used here."""
        given = [f"`{name}`" for name in ("cells", "weights") if isinstance(self.optional(name), Mapping)]
        if not given:
            return ()
        unused = f"{' and '.join(given)} pair the model with another one in parity compare"
        return (f"{unused}; they weren't used, since the file defines no `cell`",)

    def _mapping(self, name: str) -> Mapping[Any, Any] | None:
        value = self.optional(name)
        if inspect.isfunction(value):
            value = self.call(name, value)
        if value is not None and not isinstance(value, Mapping):
            raise UsageError(f"{self.label}: `{name}` must be a dict or a function returning one, it is {_a(value)}")
        return value

    def loss(self) -> Callable[[Any], Any] | None:
        """Return the loss, wrapped to report its errors; None if there is none."""
        function = self.optional("loss")
        if function is None:
            return None
        if not callable(function):
            raise UsageError(f"{self.label}: `loss` must be a function of the model's outputs, it is {_a(function)}")
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

    def _own(self) -> dict[str, str]:
        """Return the names that the file itself defines, with their kinds."""
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

    def _definitions(self) -> str:
        return ", ".join(f"{name} ({kind})" for name, kind in self._own().items()) or "no function and no class"

    def _no_model(self, name: str) -> str:
        from torch import nn

        own = self._own()
        factories = [other for other, kind in own.items() if kind == "function" and other not in OTHERS]
        modules = [other for other, kind in own.items() if kind == "nn.Module"]
        classes = [
            other for other, kind in own.items() if kind == "class" and issubclass(vars(self.source)[other], nn.Module)
        ]
        lines = [f"{self.label} defines no `{name}`. It defines {self._definitions()}."]
        if close := difflib.get_close_matches(name, factories + modules, n=1) or (factories + modules)[:1]:
            lines.append(f"Is it `{close[0]}`? Then give {self.label}:{close[0]}.")
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
    if path.suffix in (".pt", ".pth", ".ts", ".torchscript"):
        raise UsageError(
            f"{path} says nothing of its inputs, and reading it may run any code\n  what to do: if you trust it, write "
            f"a model file: def model(): return torch.jit.load({str(path)!r}), and def inputs(); a checkpoint without "
            "a network is loaded into one there"
        )
    if path.suffix != ".py":
        raise UsageError(f"{path} isn't a Python file (.py). A model file defines model() and inputs()")


def _run_file(path: Path) -> ModuleType:
    """Run the file as `python` does, with its folder first on `sys.path`, but without caching bytecode."""
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
        with report_user_errors(str(path), "while it was loaded"):
            encodable = encodable_name(str(full))  # torch accepts file names in UTF-8 only
            compiled = compile(code, encodable, "exec", dont_inherit=True)
            if encodable != str(full):  # no file has this name, but tracebacks and torch read its lines
                lines = importlib.util.decode_source(code).splitlines(keepends=True)
                linecache.cache[encodable] = (len(code), None, lines, encodable)
            exec(compiled, vars(module))
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _import_module(name: str) -> ModuleType:
    _first_on_path(Path.cwd())  # as for `python -m`
    try:
        spec = importlib.util.find_spec(name)
    except ModuleNotFoundError as error:
        raise UsageError(f"no module named {error.name!r} here or among the installed packages (for {name})") from error
    except Exception as error:  # a package on the way raised
        raise UsageError(format_user_error(name, "while it was loaded", error)) from error
    if spec is None:
        raise UsageError(
            f"no module named {name!r} here or among the installed packages; for a file, give its path: {name}.py"
        )
    with report_user_errors(name, "while it was loaded"):
        return importlib.import_module(name)


def _first_on_path(folder: Path) -> None:
    if sys.path[:1] != [str(folder)]:
        sys.path.insert(0, str(folder))


def _port(value: Any) -> Any:
    """Return a Cell, or the side of a network in JAX; None if a value is neither."""
    from ..sides.jax_side import as_jax_side
    from ..sides.known_frameworks import framework_of

    return value if framework_of(value) is not None else as_jax_side(value)


def _a(value: object) -> str:
    """Describe the type of a value."""
    if value is None:
        return "None"
    name = value.__name__ if isinstance(value, type) else type(value).__name__
    article = "an" if name[0] in "aeiouAEIOU" else "a"
    return f"the class {name}" if isinstance(value, type) else f"{article} {name}"


def _missing_return(value: object) -> str:
    return " (is a `return` missing?)" if value is None else ""
