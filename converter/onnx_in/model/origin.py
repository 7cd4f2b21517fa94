"""The metadata with which `to_onnx` describes the original program in a model."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import onnx

from ....runtime.errors import ConversionError
from ....runtime.ir.types import CellCall
from ....runtime.tree import Structure, is_call
from ...onnx_out.metadata import PROGRAM

KINDS = {"parameters": "parameter", "frozen": "frozen", "buffers": "buffer"}


@dataclass(frozen=True)
class Origin:
    """The description of the original program.

    Attributes:
        calls: the Cell calls, in order.
        kinds: the kind of each stored tensor by name: "parameter", "frozen" or "buffer"; others are constants.
        transposed: for each tensor that is a parameter with permuted axes: the parameter's name and the permutation.
        arguments: structure of the arguments; None if unknown.
        result: structure of the result; None if unknown.
    """

    calls: list[CellCall]
    kinds: dict[str, str]
    transposed: dict[str, tuple[str, tuple[int, ...]]]
    arguments: Structure | None
    result: Structure | None


def read_origin(model: onnx.ModelProto) -> Origin | None:
    """Read the description from a model that `to_onnx` wrote; None for any other model.

    Raises:
        ConversionError: the metadata is damaged: `to_onnx` can't have written it.
    """
    text = next((entry.value for entry in model.metadata_props if entry.key == PROGRAM), None)
    if text is None:
        return None
    try:
        data = json.loads(text)
        calls = [_call(number, *row) for number, row in enumerate(data["calls"])]
        kinds = {str(name): kind for key, kind in KINDS.items() for name in data[key]}
        transposed = {
            str(name): (str(source), tuple(int(axis) for axis in order))
            for name, (source, order) in data.get("transposed", {}).items()
        }
        arguments, result = (Structure.from_json(data[key]) if key in data else None for key in ("arguments", "result"))
        if arguments is not None and not is_call(arguments):
            raise ValueError("the arguments don't have the structure of a call")
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        raise ConversionError(f"the model's metadata {PROGRAM!r} is damaged: {error}") from None
    if not calls:
        raise ConversionError(f"the model's metadata {PROGRAM!r} is damaged: they list no Cell")
    return Origin(calls, kinds, transposed, arguments, result)


def _call(number: int, path: Any, class_name: Any, index: Any, parent: Any) -> CellCall:
    root = number == 0 and path == "" and parent is None
    inner = isinstance(path, str) and isinstance(parent, int) and 0 <= parent < number
    if not (root or inner) or not isinstance(class_name, str) or not isinstance(index, int):
        raise ValueError(f"{[path, class_name, index, parent]} isn't a call of a Cell")
    return CellCall(path, class_name, index, parent)
