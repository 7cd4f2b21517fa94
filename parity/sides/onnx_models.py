"""An ONNX model, which is given as such or by the path of its file."""

from __future__ import annotations

from os import PathLike

import onnx

from ...converter.onnx_in.importing import read_model

OnnxModel = onnx.ModelProto | str | PathLike[str]
"""A model, or the path of its file."""


def graph_model(model: OnnxModel) -> onnx.ModelProto:
    """Return a model, of a file without its external data; raises as `read_model`."""
    return model if isinstance(model, onnx.ModelProto) else read_model(model)


def whole_model(model: OnnxModel) -> onnx.ModelProto:
    """Return a model with all its data; raise `OSError` or `ValueError` if onnx can't read that."""
    return model if isinstance(model, onnx.ModelProto) else onnx.load(model)


def copy_of(model: OnnxModel) -> onnx.ModelProto | None:
    """Return a copy of a model with all its data; None if it can't be held in one message."""
    copy = onnx.ModelProto()
    try:
        copy.CopyFrom(whole_model(model))
    except (OSError, ValueError):  # external data that onnx can't read
        return None
    return None if copy.ByteSize() > onnx.checker.MAXIMUM_PROTOBUF else copy


def output_names(model: OnnxModel) -> list[str]:
    """The names of a model's outputs, in order."""
    return [value.name for value in graph_model(model).graph.output]
