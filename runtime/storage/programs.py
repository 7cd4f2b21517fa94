"""Saving and loading programs: one zip file with `program.json` and `tensors.safetensors`. Nothing is pickled."""

from __future__ import annotations

import json
import os
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import ProgramError, ShapeError, UsageError
from ..ir.dim_parser import parse
from ..ir.dims import Dim, SymbolicDim
from ..ir.program import Program
from ..ir.types import Buffer, CellCall, Constant, Node, ProgramParameter, Source, Type, Value, as_dtype, is_floating
from ..memory import check_memory
from ..programs.verify import verify
from ..tree import Structure
from .files import atomic_file
from .program_schema import check_schema
from .safetensors_bytes import from_bytes, to_bytes

Tensors = dict[str, np.ndarray[Any, Any]]

FORMAT = "cellbridge program"
VERSION = 1

_GRAPH = "program.json"
_TENSORS = "tensors.safetensors"
_PARAMETER, _BUFFER = "parameter:", "buffer:"  # prefixes of the names of tensors

# exceptions from reading damaged bytes (RuntimeError: encrypted, unknown compression, nested too deeply) ...
_UNREADABLE = (
    OSError, EOFError, KeyError, RuntimeError, ValueError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip
# ... and from JSON that `save` didn't write
_MALFORMED = (ArithmeticError, AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError)


def save(program: Program, path: str | os.PathLike[str], *, parameters: bool = True) -> None:
    """Write a program to `path`, atomically.

    Args:
        program: the program.
        path: the file.
        parameters: whether to write the values of parameters; without them, they are NaN once they are loaded.

    Raises:
        UsageError: the file can't be written, or JSON can't represent a constant argument or a dict's key.
    """
    tensors: Tensors = {}
    try:
        graph = json.dumps({"format": FORMAT, "version": VERSION} | _to_json(program, tensors, ""), indent=1)
    except TypeError as error:
        raise UsageError(
            f"can't save the program: {error}; constant arguments, constant results and keys must be None, bool, int, "
            "float or str (keys also tuples of these)"
        ) from error
    if not parameters:
        tensors = {name: array for name, array in tensors.items() if not name.startswith(_PARAMETER)}
    target = Path(path)
    try:
        with atomic_file(target) as file, zipfile.ZipFile(file, "w") as archive:
            archive.writestr(_GRAPH, graph)
            archive.writestr(_TENSORS, to_bytes(tensors))
    except UnicodeEncodeError as error:
        raise UsageError(f"can't save the program: a name in it isn't valid Unicode: {error}") from error
    except OSError as error:
        raise UsageError(f"can't write {target}: {error.strerror or error}") from error


def load(path: str | os.PathLike[str], *, parameters: bool = True) -> Program:
    """Read a program that `save` wrote; nothing in the file is executed.

    Args:
        path: the file.
        parameters: whether the file has the values of parameters; without them, they are NaN, which takes no memory.

    Raises:
        UsageError: there is no such file.
        ProgramError: the file isn't a saved program, is damaged, or breaks a rule of the IR.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            document = json.loads(_member(archive, _GRAPH))
            tensors, _ = from_bytes(_member(archive, _TENSORS))
    except FileNotFoundError as error:
        raise UsageError(f"there is no file {os.fspath(path)}") from error
    except RecursionError as error:
        raise ProgramError(f"{os.fspath(path)} is not a saved program: it is nested too deeply") from error
    except _UNREADABLE as error:
        raise ProgramError(f"{os.fspath(path)} is not a saved program, or it is damaged: {error}") from error
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise ProgramError(f"{os.fspath(path)} is not a saved program")
    if document.get("version") != VERSION:
        raise ProgramError(
            f"{os.fspath(path)} has version {document.get('version')} of the format, this cellbridge reads {VERSION}"
        )
    try:
        check_schema(document)
    except RecursionError as error:
        raise ProgramError(f"{os.fspath(path)} is damaged: it is nested too deeply") from error
    except ProgramError as error:
        raise ProgramError(f"{os.fspath(path)} is damaged: {error}") from error
    try:
        if not parameters:
            tensors |= {
                f"{_PARAMETER}{n}": unknown(_value_from_json(p["value"])) for n, p in document["parameters"].items()
            }
        program = _from_json(document, tensors)
        verify(program)
    except ProgramError:
        raise
    except ShapeError as error:
        raise ProgramError(f"{os.fspath(path)}: {error}") from error
    except RecursionError as error:
        raise ProgramError(f"{os.fspath(path)} is damaged: it is nested too deeply") from error
    except _MALFORMED as error:
        raise ProgramError(f"{os.fspath(path)} is damaged: {type(error).__name__}: {error}") from error
    return program


def _member(archive: zipfile.ZipFile, name: str) -> bytes:
    """Return the archive member `name`; it must be stored uncompressed, as `save` does, which bounds its size."""
    member = archive.getinfo(name)
    if member.compress_type != zipfile.ZIP_STORED or member.file_size != member.compress_size:
        raise ValueError(f"{name} is compressed, but saved programs aren't")
    assert archive.fp is not None, "it is open"
    if member.file_size > os.fstat(archive.fp.fileno()).st_size:
        raise ValueError(f"{name} claims to be larger than the file")
    return archive.read(member)


def _to_json(program: Program, tensors: Tensors, prefix: str) -> dict[str, Any]:
    """Return the program without its tensors, which are added to `tensors` under names that begin with `prefix`."""
    for kind, items in ((_PARAMETER, program.parameters), (_BUFFER, program.buffers)):
        tensors |= {f"{prefix}{kind}{name}": item.data for name, item in items.items()}
    tensors |= {f"{prefix}constant:{c.value.name}": c.data for c in program.constants}

    def attributes(number: int, node: Node) -> dict[str, Any]:
        return {
            name: {"program": _to_json(value, tensors, f"{prefix}{number}.{name}/")}
            if isinstance(value, Program)
            else _attribute_to_json(value)
            for name, value in node.attributes.items()
        }

    sources = list(dict.fromkeys(node.source for node in program.nodes if node.source is not None))
    numbers = {source: i for i, source in enumerate(sources)}
    return {
        "train": program.train,
        "inputs": [_value_to_json(value) for value in program.inputs],
        "outputs": [value.name for value in program.outputs],
        "parameters": {
            n: {"value": _value_to_json(p.value), "trainable": p.trainable, "aliases": list(p.aliases)}
            for n, p in program.parameters.items()
        },
        "buffers": {
            n: {"value": _value_to_json(b.value), "update": b.update.name if b.update else None}
            for n, b in program.buffers.items()
        },
        "constants": [_value_to_json(c.value) for c in program.constants],
        "calls": [[c.path, c.class_name, c.index, c.parent] for c in program.calls],
        "sources": [[s.file, s.line, s.text, s.operator] for s in sources],
        "nodes": [
            {
                "op": node.op,
                "inputs": [value.name if value is not None else None for value in node.inputs],
                "attributes": attributes(number, node),
                "outputs": [_value_to_json(value) for value in node.outputs],
                "cell": node.cell,
                "source": numbers[node.source] if node.source is not None else None,
            }
            for number, node in enumerate(program.nodes)
        ],
        "arguments": program.arguments.to_json(),
        "result": program.result.to_json(),
    }


def _from_json(document: dict[str, Any], tensors: Tensors, prefix: str = "") -> Program:
    values: dict[str, Value] = {}

    def new(item: list[Any]) -> Value:
        value = _value_from_json(item)
        if value.name in values:
            raise ProgramError(f"value {value.name!r} is assigned twice")
        values[value.name] = value
        return value

    inputs = tuple(new(item) for item in document["inputs"])
    parameters = {
        n: ProgramParameter(
            new(p["value"]), tensors[f"{prefix}{_PARAMETER}{n}"], bool(p["trainable"]), tuple(p["aliases"])
        )
        for n, p in document["parameters"].items()
    }
    buffer_values = {n: new(b["value"]) for n, b in document["buffers"].items()}
    constant_values = [new(item) for item in document["constants"]]
    sources = [Source(str(f), int(line), str(text), str(op)) for f, line, text, op in document["sources"]]
    nodes = []
    for number, item in enumerate(document["nodes"]):
        operands = tuple(None if name is None else values[name] for name in item["inputs"])
        attributes = {
            name: _from_json(value["program"], tensors, f"{prefix}{number}.{name}/")
            if isinstance(value, dict) and "program" in value
            else _attribute_from_json(value)
            for name, value in item["attributes"].items()
        }
        outputs = tuple(new(value) for value in item["outputs"])
        source = None if item["source"] is None else sources[item["source"]]
        nodes.append(Node(item["op"], operands, attributes, outputs, item["cell"], source))
    buffers: dict[str, Buffer] = {}
    for n, b in document["buffers"].items():
        update = None if b["update"] is None else values[b["update"]]
        buffers[n] = Buffer(buffer_values[n], tensors[f"{prefix}{_BUFFER}{n}"], update)
    return Program(
        inputs=inputs,
        outputs=tuple(values[name] for name in document["outputs"]),
        nodes=tuple(nodes),
        parameters=parameters,
        buffers=buffers,
        constants=tuple(Constant(value, tensors[f"{prefix}constant:{value.name}"]) for value in constant_values),
        calls=tuple(CellCall(path, class_name, index, parent) for path, class_name, index, parent in document["calls"]),
        arguments=Structure.from_json(document["arguments"]),
        result=Structure.from_json(document["result"]),
        train=bool(document["train"]),
    )


def unknown(value: Value) -> np.ndarray[Any, Any]:
    """Return an array in place of a value that isn't known, which takes no memory: NaN, or zeros of integers.

    Raises:
        ProgramError: the value has no fixed shape.
        ShapeError: it would be too large for the memory.
    """
    sizes = value.type.sizes
    if sizes is None:
        raise ProgramError(f"{value} isn't known, and has no fixed shape")
    check_memory(sizes, value.dtype)
    number = np.nan if is_floating(value.dtype) else 0
    return np.broadcast_to(np.asarray(number, value.dtype), sizes)


def _value_to_json(value: Value) -> list[Any]:
    return [value.name, value.dtype.name, [_dim_to_json(dim) for dim in value.shape]]


def _value_from_json(item: list[Any]) -> Value:
    name, dtype, shape = item
    return Value(str(name), Type(_dtype_from_json(dtype), tuple(_dim_from_json(dim) for dim in shape)))


def _dim_to_json(dim: Dim) -> int | str:
    return dim if isinstance(dim, int) else str(dim)


def _dim_from_json(dim: int | str) -> Dim:
    return parse(dim) if isinstance(dim, str) else int(dim)


def _dtype_from_json(name: str) -> np.dtype[Any]:
    """Return the numeric or bool dtype of that name; other NumPy dtypes (some of any size) are refused."""
    dtype = as_dtype(name)
    if dtype.name != name or not (dtype.kind in "biuf" or dtype.type.__module__ == "ml_dtypes"):
        raise ValueError(f"{name!r} isn't a dtype of tensors")
    return dtype


def _attribute_to_json(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_attribute_to_json(item) for item in value]
    if isinstance(value, np.dtype):
        return {"dtype": value.name}
    if isinstance(value, SymbolicDim):
        return {"dim": str(value)}
    if isinstance(value, float) and not np.isfinite(value):
        return {"float": str(value)}
    return value


def _attribute_from_json(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_attribute_from_json(item) for item in value)
    if isinstance(value, dict):
        ((kind, text),) = value.items()
        readers: dict[str, Callable[[str], Any]] = {"dtype": _dtype_from_json, "dim": parse, "float": float}
        return readers[kind](text)
    return value
