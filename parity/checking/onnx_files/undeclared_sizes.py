"""Sizes that neither of two ONNX files declares, where both fix each axis: whether they agree there, too.

A file frozen at one length may compute the same there alone, such as a sum divided by 7 in place of a mean. That is no
failure, since nobody may give it another length, and is worth knowing. Both files are opened along one size, and run in
ONNX Runtime; most fixed files can't be run at another size, of which nothing is said.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from onnx import ModelProto, TensorProto

from ....runtime.compiled.isolated import IsolatedSession
from ....runtime.compiled.session import SessionError
from ....runtime.errors import CellbridgeError
from ....runtime.ir.types import Type, Value
from ...inputs.onnx_inputs import generate
from ...report.report import Report
from ...sides.records import Array

MOST = 2
"""Number of sizes that are tried."""
MORE = 2
"""Elements that an axis has more than declared."""
LARGEST = 4096
"""Longer axes aren't made longer."""
EQUAL = 1e-2
"""The largest difference of equal results, relative to the largest element: far above rounding."""
MAX_SECONDS = 10.0  # to load a file, and to run it


def compare_beyond(
    report: Report, models: tuple[ModelProto, ModelProto], values: Sequence[Value], others: Sequence[str], seed: int
) -> None:
    """Add to the report how two files that hold at their fixed sizes compare at others.

    Args:
        report: the report on the files.
        models: the reference and the candidate, with all weights.
        values: the inputs of the reference.
        others: names of the candidate's inputs, in the same order.
        seed: seed of the inputs.
    """
    sizes = {dim for value in values for dim in value.shape if isinstance(dim, int) and 2 <= dim <= LARGEST}
    for size in sorted(sizes, reverse=True)[:MOST]:
        larger = [Value(value.name, Type(value.dtype, _larger(value.shape, size))) for value in values]
        try:
            arrays = generate(larger, seed, {})
            results = [
                _run(_opened(model, size), dict(zip(names, arrays, strict=True)))
                for model, names in zip(models, ([value.name for value in values], others), strict=True)
            ]
        except (SessionError, CellbridgeError):  # the size is frozen inside, too
            continue
        where = f"at {size + MORE} in place of {size}, which neither file declares,"
        if len(results[0]) == len(results[1]) and all(map(_agree, *results)):
            report.notes.append(f"{where} the results of both in ONNX Runtime agree, too")
        else:
            report.notes.append(f"{where} the results of both in ONNX Runtime differ")
            report.conditions.remarks.append(f"and not at {size + MORE} in place of {size}")


def _larger(shape: Sequence[object], size: int) -> tuple[int, ...]:
    return tuple(dim + MORE if dim == size else dim for dim in shape if isinstance(dim, int))


def _opened(model: ModelProto, size: int) -> ModelProto:
    """Return the model with inputs of any length in place of a size, and without sizes of what it computes."""
    opened = ModelProto()
    opened.CopyFrom(model)
    del opened.graph.value_info[:]
    for declared in opened.graph.input:
        for dim in declared.type.tensor_type.shape.dim:
            if dim.dim_value == size:
                dim.dim_param = f"any{size}"
    for declared in opened.graph.output:
        declared.type.tensor_type.ClearField("shape")
    return opened


def _run(model: ModelProto, inputs: Mapping[str, Array]) -> list[Array]:
    session = IsolatedSession(model, seconds=MAX_SECONDS)
    try:
        return [array for parts in session.run(inputs).values() for array in parts.values()]
    finally:
        session.close()


def _agree(array: Array, other: Array) -> bool:
    if array.shape != other.shape:
        return False
    if array.dtype.kind not in "fc":
        return bool(np.array_equal(array, other))
    largest = float(np.abs(array).max(initial=0.0))
    return bool(np.allclose(array, other, rtol=0, atol=EQUAL * largest, equal_nan=True))


def holds_its_weights(model: ModelProto) -> bool:
    """Whether a model has no weights in other files."""
    return all(tensor.data_location != TensorProto.EXTERNAL for tensor in model.graph.initializer)
