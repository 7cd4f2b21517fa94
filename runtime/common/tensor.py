"""`Tensor`: an array that records its computation while a gradient is being computed.

While Python is traced (`graph.trace`), the data of a tensor may be symbolic: a value of the program under construction.
Its operators and methods (`x + y`, `x.sum(0)`) are functions of `runtime.functional`, which attaches them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from .. import checks
from ..current_trace import current
from ..ir.types import in_native_order, is_floating
from ..ops.registry import Op, evaluate, get
from ..precision import cast_external, casts_external, dtype_for, effective_dtype
from ..tracing import SymbolicTensor
from . import tape
from .dtype import bool_, float32, int64, to_dtype
from .elements import AS_STACK, Array, Data, Elements, to_arrays, unknown_elements_error
from .initial_values import as_shape, initial_values
from .placeholder import Placeholder


class Tensor(Elements):
    """An n-dimensional array that supports gradients.

    Args:
        input_data: a tensor, array, number, or (nested) list or tuple. Python integers become int64, Python floats
            float32; arrays keep their dtype and are copied.
        dtype: the dtype; by default the dtype of the data.
        shape: with `init`, the shape. With `dtype` alone, the shape of a placeholder without elements, for
            `Cell.set_inputs` and `jit(input_signature=)`: a size None is open, and a shape None leaves the number of
            axes open. The attribute `shape` then has -1 for open sizes, and is (-2,) for an open number of axes.
        init: an initializer (`common.initializer`) that fills `shape`.

    Raises:
        TypeError: `input_data` can't be a tensor, or `shape` a shape.
        ValueError: a placeholder has no dtype, or an operation needs its elements.
    """

    _tape: tape.Tape | None = None
    _number: int = 0
    _is_leaf = False  # a differentiated argument or Parameter: its hooks run when its gradient is complete

    def __init__(self, input_data: Any = None, dtype: Any = None, shape: Any = None, init: Any = None) -> None:
        if init is not None:
            input_data = initialize(init, shape, float32 if dtype is None else to_dtype(dtype))
        elif input_data is None and dtype is not None:
            self._data = Placeholder.of(shape, to_dtype(dtype))
            return
        elif input_data is None and shape is not None:
            raise ValueError(f"For 'Tensor', a placeholder of shape {shape} needs a 'dtype' too, but got None")
        self._data = as_data(input_data, dtype)

    # ---- value ----

    def copy(self) -> Tensor:
        """Return a new tensor with the same elements."""
        copied: Tensor = get("cast")(self, dtype=self.dtype)
        return copied

    def value(self) -> Tensor:
        """Return the value, for example of a Parameter, as a plain tensor; gradients flow through it."""
        return from_array(self._data, self._tape, self._number if self._tape is not None else None)

    def init_data(self, *_: Any, **__: Any) -> Self:
        """Return the tensor itself: its elements are always initialized."""
        return self

    @staticmethod
    def from_numpy(array: Array) -> Tensor:
        """Return a tensor with a copy of an array's elements; `TypeError` if `array` isn't an array."""
        return Tensor(checks.of_type(array, "array", np.ndarray, of="from_numpy"))

    def assign_value(self, value: Tensor) -> Tensor:
        """Assign the elements of `value` to the tensor, and return it."""
        self._rebind(value)
        return self

    def __reduce__(self) -> Any:
        return Tensor, (self._elements("pickling", "pickle it outside of the traced code"),)

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        data = self._data
        copied = memo[id(self)] = from_array(data if isinstance(data, SymbolicTensor) else data.copy())
        return copied

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Raise an error for torch functions; torch's own message would be "must be Tensor, not Tensor"."""
        raise TypeError(
            f"torch's {getattr(func, '__name__', func)} was given a Tensor of cellbridge.runtime: use the equivalent "
            "in runtime.ops or runtime.nn, or convert the Tensor, torch.from_numpy(x.asnumpy())"
        )

    # ---- tracking ----

    def apply(self, op: Op, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
        """Compute `op`, and record it if an operand is tracked; see `Op.__call__`."""
        return apply(op, inputs, attributes)

    def number_on(self, recording: tape.Tape) -> int | None:
        """Return the number of this value on the tape; None if it isn't tracked there."""
        return self._number if self._tape is recording else None

    def _rebind(self, value: Tensor) -> None:
        """Assign the elements and the tape entry of `value` to the tensor."""
        trace = current()
        if trace is not None:
            trace.guard.on_tensor_write(self)
        self._data, self._tape, self._number = value._data, value._tape, value._number

    if TYPE_CHECKING:  # operators and methods are attached by runtime.functional

        def __getattr__(self, name: str) -> Any: ...
        def __getitem__(self, index: Any) -> Any: ...
        def __setitem__(self, index: Any, value: Any) -> None: ...


def as_data(value: Any, dtype: Any = None) -> Data:
    """Convert an argument of `Tensor` to an array."""
    target_dtype = None if dtype is None else to_dtype(dtype)
    if isinstance(value, Tensor):
        if isinstance(value._data, Placeholder):
            value._data.refuse("a tensor made of another one")
        return value._data if target_dtype is None else value._data.astype(target_dtype, copy=False)
    if isinstance(value, (np.ndarray, np.generic)):
        array = in_native_order(np.array(value, dtype=target_dtype))
    elif isinstance(value, (bool, int, float, list, tuple)):
        items = to_arrays(value, "a tensor made of a list", AS_STACK)
        try:
            array = np.array(items)
        except ValueError as error:
            raise TypeError(f"nested lists must have equal lengths to make a tensor: {error}") from None
        if target_dtype is not None:
            array = array.astype(target_dtype)
        if target_dtype is None and not _holds_arrays(value):
            array = array.astype({"f": float32, "i": int64, "u": int64}.get(array.dtype.kind, array.dtype), copy=False)
    else:
        raise TypeError(
            f"a tensor is made of a tensor, array, number, list or tuple, but got {type(value).__name__}: {value!r}"
        )
    if not is_floating(array.dtype) and array.dtype.kind not in "iub":
        raise TypeError(f"a tensor holds numbers or bools, but got dtype {array.dtype} from {value!r}")
    return array


def _holds_arrays(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(_holds_arrays(item) for item in value)
    return isinstance(value, (Tensor, np.ndarray, np.generic))


def initialize(init: Any, shape: Any, dtype: np.dtype[Any]) -> Tensor:
    """Return a tensor filled by `init`, or `init` itself if it is a tensor of that shape; see `initializer`."""
    if not isinstance(init, Tensor):
        return from_array(initial_values(init, shape, dtype))
    if shape is not None and init.shape != as_shape(shape):
        raise ValueError(
            f"For 'initializer', the tensor 'init' must have the shape 'shape', {as_shape(shape)}, but got {init.shape}"
        )
    return init


def from_array(array: Data, recording: tape.Tape | None = None, number: int | None = None) -> Tensor:
    """Return a tensor that holds an array or symbolic data without a copy, tracked on the tape if it has a number."""
    tensor = Tensor.__new__(Tensor)
    tensor._data = array
    if number is not None:
        tensor._tape, tensor._number = recording, number
    return tensor


def is_known(x: Any) -> bool:
    """Whether `x` is a tensor with known elements, not a symbolic one."""
    return isinstance(x, Tensor) and not isinstance(x._data, SymbolicTensor)


def create(op: Op, **attributes: Any) -> Tensor:
    """Return the result of an op without operands as a tensor."""
    result = op(**attributes)
    return result if isinstance(result, Tensor) else from_array(np.array(result))


def full_like(tensor: Tensor, value: float) -> Tensor:
    """Return a tensor filled with `value`, with the shape and dtype of `tensor`."""
    return create(get("full"), shape=tuple(tensor.shape), value=value, dtype=tensor.dtype)


def zeros_like(tensor: Tensor) -> Tensor:
    """Return zeros with the shape and dtype of `tensor`."""
    return full_like(tensor, 0)


def apply(op: Op, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
    """Run the kernel of `op`; record it on the current tape if an operand is tracked there."""
    trace = current()
    if trace is not None:
        inputs = trace.import_values(inputs)
    if casts_external():
        inputs = tuple(map(_cast_external, inputs))
    target_dtype = dtype_for(op.traits, inputs)
    if target_dtype is not None:
        inputs = tuple(_in_dtype(x, target_dtype) for x in inputs)
    arrays = [x._data if isinstance(x, Tensor) else x for x in inputs]
    dtype = next((x.dtype for x in arrays if isinstance(x, (np.ndarray, SymbolicTensor))), None)
    arrays = [
        x if x is None or isinstance(x, (np.ndarray, SymbolicTensor)) else np.asarray(x, getattr(x, "dtype", dtype))
        for x in arrays
    ]
    outputs: tuple[Data, ...]
    if trace is not None and trace.should_record(op, arrays, attributes):
        outputs = trace.record(op, arrays, attributes)
    else:
        symbolic = next((x for x in arrays if isinstance(x, SymbolicTensor)), None)
        if symbolic is not None:
            raise unknown_elements_error(symbolic, f"op {op.name}", "")
        with np.errstate(all="ignore"):
            outputs = evaluate(op, arrays, attributes)
    recording = tape.current()
    results: list[Tensor] | None = None
    if recording is not None and op.name != "stop_gradient":
        operands = tuple(x.number_on(recording) if isinstance(x, Tensor) else None for x in inputs)
        if any(number is not None for number in operands):
            results = _record(recording, op, arrays, attributes, outputs, operands)
    if results is None:
        results = [from_array(array) for array in outputs]
    return results[0] if len(results) == 1 else tuple(results)


def _cast_external(x: Any) -> Any:
    if not isinstance(x, (Tensor, np.ndarray)) or effective_dtype(x.dtype) == x.dtype:
        return x
    return from_array(cast_external(x._data)) if isinstance(x, Tensor) else cast_external(x)


def _in_dtype(x: Any, dtype: np.dtype[Any]) -> Any:
    floating = isinstance(x, (Tensor, np.ndarray)) and is_floating(x.dtype) and x.dtype != dtype
    return get("cast")(x, dtype=dtype) if floating else x


def _record(
    recording: tape.Tape,
    op: Op,
    arrays: list[Data | None],
    attributes: dict[str, Any],
    outputs: tuple[Data, ...],
    operands: tuple[int | None, ...],
) -> list[Tensor]:
    whole = all(n is None or x is None or not is_floating(x.dtype) for n, x in zip(operands, arrays, strict=True))
    numbers = tuple(
        recording.number() if is_floating(array.dtype) or (whole and array.dtype != bool_) else None
        for array in outputs
    )

    mask = [number is not None for number in operands]

    def pull(output_cotangents: list[Any]) -> tuple[Any, ...]:
        now = tape.current()
        inputs = [None if x is None else from_array(x, now, n) for x, n in zip(arrays, operands, strict=True)]
        results = [from_array(x, now, n) for x, n in zip(outputs, numbers, strict=True)]
        return op.apply_vjp(output_cotangents, results, inputs, attributes, mask)

    if any(number is not None for number in numbers):
        recording.append(tape.Entry(operands, numbers, pull))
    return [from_array(array, recording, number) for array, number in zip(outputs, numbers, strict=True)]


def identity_entry(tensors: tuple[Any, ...], pull: tape.Pull, always: bool = False) -> tuple[Any, ...]:
    """Record an entry on the current tape that passes values through unchanged, and runs `pull` in the backward pass.

    Args:
        tensors: the values that pass through; values that aren't tracked tensors pass unchanged.
        pull: maps the gradients of all `tensors` (None where there is none) to new ones.
        always: whether `pull` runs even if there is no gradient.

    Returns:
        `tensors`, the tracked ones with new numbers; without a tape, `tensors`.
    """
    recording = tape.current()
    if recording is None:
        return tensors
    operands = tuple(x.number_on(recording) if isinstance(x, Tensor) else None for x in tensors)
    if not always and all(n is None for n in operands):
        return tensors
    numbers = tuple(None if n is None else recording.number() for n in operands)
    recording.append(tape.Entry(operands, numbers, pull, always))
    return tuple(x if n is None else from_array(x._data, recording, n) for x, n in zip(tensors, numbers, strict=True))
