"""What a model that `to_onnx` wrote tells of its program, in the metadata of the model."""

from __future__ import annotations

import json
from typing import Any

import onnx

from ...runtime.errors import ConversionError
from ...runtime.ir.types import CellCall
from ..onnx_out.metadata import PROGRAM

KINDS = {"parameters": "parameter", "frozen": "frozen", "buffers": "buffer"}


def written_by_us(model: onnx.ModelProto) -> tuple[list[CellCall] | None, dict[str, str] | None]:
    """The calls of Cells, and by name what each stored tensor is; None for a model of other origin.

    Raises:
        ConversionError: the metadata aren't what `to_onnx` writes.
    """
    text = next((entry.value for entry in model.metadata_props if entry.key == PROGRAM), None)
    if text is None:
        return None, None
    try:
        written = json.loads(text)
        calls = [_call(number, *row) for number, row in enumerate(written["calls"])]
        kinds = {str(name): kind for key, kind in KINDS.items() for name in written[key]}
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise ConversionError(f"the model's metadata {PROGRAM!r} are damaged: {error}") from None
    if not calls:
        raise ConversionError(f"the model's metadata {PROGRAM!r} are damaged: they list no Cell")
    return calls, kinds


def _call(number: int, path: Any, class_name: Any, index: Any, parent: Any) -> CellCall:
    root = number == 0 and path == "" and parent is None
    inner = isinstance(path, str) and isinstance(parent, int) and 0 <= parent < number
    if not (root or inner) or not isinstance(class_name, str) or not isinstance(index, int):
        raise ValueError(f"{[path, class_name, index, parent]} is no call of a Cell")
    return CellCall(path, class_name, index, parent)
