"""The tensors of a model, within it or in a file beside it, and the file itself: written whole or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import IO, Any

import numpy as np
import onnx

from ...runtime.errors import ConversionError, UsageError
from ...runtime.files import whole_file
from .deferred import Deferred, array_of

Array = np.ndarray[Any, Any]

MODEL_LIMIT = 2**31 - 2**24  # bytes of tensors in one file: a protobuf message ends at 2 GiB, the nodes need some of it
INLINE_LIMIT = 1024  # smaller tensors stay in the model: shapes and axes are read from them
ALIGNMENT = 4096  # of tensors in the file beside it, so that they can be mapped into memory


def add_initializers(model: onnx.ModelProto, initializers: Mapping[str, Array | Deferred]) -> None:
    """Put all tensors into the model; `ConversionError` if they exceed what a model can hold."""
    size = sum(array.nbytes for array in initializers.values())
    if size > MODEL_LIMIT:
        raise ConversionError(
            f"the tensors take {size / 2**30:.1f} GiB, an ONNX model holds less than 2 GiB: "
            "give a path, so that they can be written to a file beside it"
        )
    for name, array in initializers.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(array_of(array), name))


def write(model: onnx.ModelProto, initializers: Mapping[str, Array | Deferred], path: str | PathLike[str]) -> None:
    """Add the tensors and write the model to `path`, with large tensors in `<path>.data` if it can't hold them.

    Raises:
        UsageError: the file can't be written.
    """
    target = Path(path)
    try:
        if sum(array.nbytes for array in initializers.values()) > MODEL_LIMIT:
            small = {name: array for name, array in initializers.items() if array.nbytes < INLINE_LIMIT}
            add_initializers(model, small)
            data = target.with_name(target.name + ".data")
            with whole_file(data) as file:
                for name, array in initializers.items():
                    if name not in small:
                        model.graph.initializer.append(_written(file, data.name, name, array_of(array)))
        else:
            add_initializers(model, initializers)
        with whole_file(target) as file:
            file.write(model.SerializeToString())
    except OSError as error:
        raise UsageError(f"can't write {target}: {error.strerror or error}") from error


def _written(file: IO[bytes], location: str, name: str, array: Array) -> onnx.TensorProto:
    """Write the array to `file`; the tensor that refers to it."""
    file.write(b"\0" * (-file.tell() % ALIGNMENT))
    tensor = onnx.TensorProto(
        name=name,
        dims=array.shape,
        data_type=onnx.helper.np_dtype_to_tensor_dtype(array.dtype),
        data_location=onnx.TensorProto.EXTERNAL,
    )
    for key, text in (("location", location), ("offset", str(file.tell())), ("length", str(array.nbytes))):
        tensor.external_data.add(key=key, value=text)
    file.write(np.ascontiguousarray(array).view(np.uint8).data)
    return tensor
