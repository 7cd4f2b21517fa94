"""Runs users' Python files, or imports their modules."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import linecache
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from ...runtime.errors import UsageError
from ...runtime.visible import encodable_name
from ..sides.kinds import PICKLES, Kind, kind_of_path
from ..support.user_code import format_user_error, report_user_errors


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
        require_source(Path(name))

    import torch

    torch.manual_seed(seed)
    return _import_module(name) if is_module else _run_file(Path(name))


def require_source(path: Path) -> None:
    """Raise `UsageError` unless there is a Python file at a path; its message says what there is instead."""
    if path.is_dir():
        raise UsageError(f"{path} is a folder; give the path of a model file (.py)")
    if not path.exists():
        raise UsageError(no_such_file(path))
    if path.suffix in PICKLES:
        raise UsageError(
            f"{path} doesn't describe its inputs, and reading it could run any code\n"
            "  what to do: if you trust it, write a model file: def model(): return "
            f"torch.jit.load({str(path)!r}), and def inputs(); a checkpoint without a network is loaded into one there"
        )
    if kind_of_path(path) is Kind.WEIGHTS:
        raise UsageError(
            f"{path} holds weights, but no network\n"
            "  what to do: write a model file: def model(), which makes the network and loads them, and def inputs()"
        )
    if path.suffix == ".onnx":
        raise UsageError(
            f"{path} is an ONNX file, and a torch module is needed here\n"
            "  what to do: give the model file (.py) that it was exported from; parity run, compare and inspect take "
            "ONNX files"
        )
    if path.suffix != ".py":
        raise UsageError(f"{path} isn't a Python file (.py). A model file defines model() and inputs()")


def no_such_file(path: Path, endings: Sequence[str] = (".py",)) -> str:
    """Return the message on a file that isn't there, with files of these endings that have a similar name."""
    if not path.parent.is_dir():
        return f"no such file: {path} (there is no folder {path.parent})"
    names: dict[str, list[str]] = {}  # by what is before the ending, which is alike in all
    for file in (file for ending in endings for file in path.parent.glob(f"*{ending}")):
        names.setdefault(file.stem, []).append(file.name)
    close = [name for stem in difflib.get_close_matches(path.stem, names, n=3, cutoff=0.66) for name in names[stem]]
    hint = f"; did you mean {' or '.join(str(path.with_name(name)) for name in close)}?" if close else ""
    return f"no such file: {path}{hint}"


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
