"""The tensors of a model, within it or in a file beside it, and the files themselves: written whole or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
import onnx

from ..errors import ConversionError, UsageError
from ..files import whole_files
from .deferred import Deferred, array_of

Array = np.ndarray[Any, Any]
Tensors = Mapping[str, Array | Deferred]

MODEL_LIMIT = 2**31 - 2**24  # bytes of tensors in one file: a protobuf message ends at 2 GiB, the nodes need some of it
INLINE_LIMIT = 1024  # smaller tensors stay in the model: shapes and axes are read from them
ALIGNMENT = 4096  # of tensors in the file beside it, so that they can be mapped into memory


def add_initializers(model: onnx.ModelProto, initializers: Tensors) -> None:
    """Put all tensors into the model; `ConversionError` if they exceed what a model can hold."""
    size = size_of(initializers)
    if size > MODEL_LIMIT:
        raise ConversionError(
            f"the tensors take {size / 2**30:.1f} GiB, an ONNX model holds less than 2 GiB: "
            "let them be written to a file beside it (give a path, and leave external_data as it is)"
        )
    for name, tensor in initializers.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(array_of(tensor), name))


def write(
    model: onnx.ModelProto,
    initializers: Tensors,
    path: str | PathLike[str],
    external: bool | Literal["auto"] = "auto",
    beside: Mapping[Path, bytes] | None = None,
) -> None:
    """Add the tensors and write the model to `path`, with large tensors in `<path>.data`, one at a time.

    Args:
        model: the model without tensors; they are added.
        initializers: the tensors by name.
        path: the file to write.
        external: whether to write `<path>.data`; `"auto"`: if one file can't hold the tensors.
        beside: other files to write along with it, and what they hold.

    Raises:
        UsageError: a file can't be written.
    """
    target = Path(path)
    data = target.with_name(target.name + ".data")
    if external == "auto":
        external = size_of(initializers) > MODEL_LIMIT
    large = {name for name, tensor in initializers.items() if external and tensor.nbytes >= INLINE_LIMIT}
    others = beside or {}
    try:
        with whole_files([*([data] if large else []), *others, target]) as files:
            for file, content in zip(files[-1 - len(others) : -1], others.values(), strict=True):
                file.write(content)
            add_initializers(model, {name: tensor for name, tensor in initializers.items() if name not in large})
            for name, tensor in initializers.items():
                if name in large:
                    model.graph.initializer.append(_written(files[0], data.name, name, array_of(tensor)))
            files[-1].write(model.SerializeToString())
    except OSError as error:
        raise UsageError(f"can't write {target}: {error.strerror or error}") from error


def size_of(initializers: Tensors) -> int:
    """Bytes of all tensors."""
    return sum(tensor.nbytes for tensor in initializers.values())


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
