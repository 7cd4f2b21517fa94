"""What a model that `to_onnx` wrote tells of its program, in the metadata of the model."""

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
    """What a model tells.

    Attributes:
        calls: of Cells, in order.
        kinds: by name, what each stored tensor is: "parameter", "frozen" or "buffer"; others are constants.
        transposed: names of tensors that are a parameter with its axes in another order: its name, and that order.
        arguments: structure of the arguments; None where it isn't told.
        result: structure of the result; likewise.
    """

    calls: list[CellCall]
    kinds: dict[str, str]
    transposed: dict[str, tuple[str, tuple[int, ...]]]
    arguments: Structure | None
    result: Structure | None


def written_by_us(model: onnx.ModelProto) -> Origin | None:
    """What a model that `to_onnx` wrote tells; None for a model of other origin.

    Raises:
        ConversionError: the metadata aren't what `to_onnx` writes.
    """
    text = next((entry.value for entry in model.metadata_props if entry.key == PROGRAM), None)
    if text is None:
        return None
    try:
        written = json.loads(text)
        calls = [_call(number, *row) for number, row in enumerate(written["calls"])]
        kinds = {str(name): kind for key, kind in KINDS.items() for name in written[key]}
        transposed = {
            str(name): (str(source), tuple(int(axis) for axis in order))
            for name, (source, order) in written.get("transposed", {}).items()
        }
        arguments, result = (
            Structure.from_json(written[key]) if key in written else None for key in ("arguments", "result")
        )
        if arguments is not None and not is_call(arguments):
            raise ValueError("the arguments aren't those of a call")
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError) as error:
        raise ConversionError(f"the model's metadata {PROGRAM!r} are damaged: {error}") from None
    if not calls:
        raise ConversionError(f"the model's metadata {PROGRAM!r} are damaged: they list no Cell")
    return Origin(calls, kinds, transposed, arguments, result)


def _call(number: int, path: Any, class_name: Any, index: Any, parent: Any) -> CellCall:
    root = number == 0 and path == "" and parent is None
    inner = isinstance(path, str) and isinstance(parent, int) and 0 <= parent < number
    if not (root or inner) or not isinstance(class_name, str) or not isinstance(index, int):
        raise ValueError(f"{[path, class_name, index, parent]} is no call of a Cell")
    return CellCall(path, class_name, index, parent)
