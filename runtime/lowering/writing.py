"""Writing a model atomically, with its tensors inside it or in an external data file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
import onnx

from ..errors import ConversionError, UsageError
from ..storage.files import is_device
from ..visible import encodable_name
from .deferred import DeferredTensor, array_of
from .external_data import data_file, place_model, set_data_file

Array = np.ndarray[Any, Any]
Tensors = Mapping[str, Array | DeferredTensor]

MODEL_LIMIT = 2**31 - 2**24  # bytes of tensors in one file: a protobuf message is below 2 GiB, and the nodes need room
MOST_FROM_FILES = 2**28  # of tensors that are read from files: one file of model and tensors is written from memory
INLINE_LIMIT = 1024  # smaller tensors stay in the model: tools read shapes and axes from them
ALIGNMENT = 4096  # of tensors in the data file, so that they can be mapped into memory


def add_initializers(model: onnx.ModelProto, initializers: Tensors) -> None:
    """Put all tensors into the model; `ConversionError` if they are too large for one file."""
    size = size_of(initializers)
    if size > MODEL_LIMIT:
        raise ConversionError(
            f"the tensors take {size / 2**30:.1f} GiB, and an ONNX model holds less than 2 GiB: write them to a file "
            "beside it (pass a path, and keep the default of external_data)"
        )
    for name, tensor in initializers.items():
        model.graph.initializer.append(onnx.numpy_helper.from_array(array_of(tensor), name))


def add_references(model: onnx.ModelProto, initializers: Tensors) -> dict[str, Array]:
    """Put small tensors into the model, and for each large one a reference; return the large ones by name.

    A session takes them beside the model (`Session`): they may exceed the limit of a file, and aren't copied into one.
    """
    large: dict[str, Array] = {}
    for name, tensor in initializers.items():
        if tensor.nbytes < INLINE_LIMIT:
            model.graph.initializer.append(onnx.numpy_helper.from_array(array_of(tensor), name))
            continue
        large[name] = np.asarray(array_of(tensor), order="C")
        model.graph.initializer.append(_reference(name, large[name], location="memory"))
    return large


def write(
    model: onnx.ModelProto,
    initializers: Tensors,
    path: str | PathLike[str],
    external: bool | Literal["auto"] = "auto",
    beside: Mapping[Path, bytes] | None = None,
) -> None:
    """Add the tensors, one at a time, and write the model to `path`; on request, large tensors go to a data file.

    Args:
        model: the model without tensors, which are added to it.
        initializers: the tensors by name.
        path: the file to write.
        external: whether to write `<path>.data` (see `external_data`); `"auto"`: if one file can't hold the tensors, or
            they are read from files and take more than 256 MB.
        beside: other files to write along with the model, and their contents.

    Raises:
        UsageError: a file can't be written.
    """
    target = Path(path)
    if external == "auto":
        in_files = any(isinstance(tensor, DeferredTensor) and tensor.in_file for tensor in initializers.values())
        external = size_of(initializers) > (MOST_FROM_FILES if in_files else MODEL_LIMIT)
    large = {name for name, tensor in initializers.items() if external and tensor.nbytes >= INLINE_LIMIT}
    if is_device(target) and (large or beside):
        raise UsageError(f"can't write {target}: it isn't a regular file, and other files belong beside the model")
    if large and encodable_name(target.name) != target.name:
        raise UsageError(f"can't write {target}: the name isn't UTF-8, and the model must name the file beside it")
    try:
        with place_model(target) as inside:
            for other, content in (beside or {}).items():
                inside.with_name(other.name).write_bytes(content)
            add_initializers(model, {name: tensor for name, tensor in initializers.items() if name not in large})
            if large:
                with inside.with_name(f"{inside.name}.data").open("wb") as data:
                    for name in (name for name in initializers if name in large):
                        tensor = _write_tensor(data, Path(data.name).name, name, array_of(initializers[name]))
                        model.graph.initializer.append(tensor)
            inside.write_bytes(model.SerializeToString())
    except OSError as error:
        raise UsageError(f"can't write {target}: {error.strerror or error}") from error
    if large and (placed := data_file(Path(os.path.realpath(target)))) is not None:
        set_data_file(model, placed.name)


def size_of(initializers: Tensors) -> int:
    """Return the size of all tensors in bytes."""
    return sum(tensor.nbytes for tensor in initializers.values())


def _write_tensor(file: IO[bytes], location: str, name: str, array: Array) -> onnx.TensorProto:
    """Write the array to `file`, and return the tensor that refers to it."""
    file.write(b"\0" * (-file.tell() % ALIGNMENT))
    tensor = _reference(name, array, location=location, offset=str(file.tell()), length=str(array.nbytes))
    file.write(np.ascontiguousarray(array).view(np.uint8).data)
    return tensor


def _reference(name: str, array: Array, **fields: str) -> onnx.TensorProto:
    """Return a tensor whose data is at another place."""
    tensor = onnx.TensorProto(
        name=name,
        dims=array.shape,
        data_type=onnx.helper.np_dtype_to_tensor_dtype(array.dtype),
        data_location=onnx.TensorProto.EXTERNAL,
    )
    for key, text in fields.items():
        tensor.external_data.add(key=key, value=text)
    return tensor
