"""`Tensor`: an array that keeps track of how it was computed while a gradient is asked for.

While Python is traced (`graph.trace`), the data of a tensor may be symbolic: a value of the program under construction.
Its operators and methods (`x + y`, `x.sum(0)`) are the functions of `runtime.functional`, attached there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from .. import checks
from ..current_trace import current
from ..eager import tape
from ..ir.types import in_native_order, is_floating
from ..ops.registry import Op, evaluate, get
from ..precision import dtype_for, overridden_dtype, taken, taking_in
from ..tracing import SymbolicTensor
from .dtype import bool_, float32, int64, to_dtype
from .elements import AS_STACK, Array, Data, Elements, plain, unknown_elements
from .initial_values import as_shape, initial_values
from .placeholder import Open


class Tensor(Elements):
    """An n-dimensional array on which gradients can be computed.

    Args:
        input_data: a tensor, array, number, or (nested) list or tuple. Python integers become int64, Python floats
            float32; arrays keep their dtype and are copied.
        dtype: the dtype wanted; that of the data if not given.
        shape: with `init`, the shape. With `dtype` alone, that of a placeholder without elements, for
            `Cell.set_inputs` and `jit(input_signature=)`: None stands for a size that is open, and in place of the
            shape for one of any number of axes. As an attribute it has -1 there, and is (-2,).
        init: an initializer (`common.initializer`) that fills `shape`.

    Raises:
        TypeError: `input_data` can't be a tensor, or `shape` a shape.
        ValueError: a placeholder has no dtype, or is used where elements are needed.
    """

    _tape: tape.Tape | None = None
    _number: int = 0
    _is_leaf = False  # an argument or Parameter that is differentiated: its hooks act once its gradient is complete

    def __init__(self, input_data: Any = None, dtype: Any = None, shape: Any = None, init: Any = None) -> None:
        if init is not None:
            input_data = initialized(init, shape, float32 if dtype is None else to_dtype(dtype))
        elif input_data is None and dtype is not None:
            self._data = Open.of(shape, to_dtype(dtype))
            return
        elif input_data is None and shape is not None:
            raise ValueError(f"For 'Tensor', a placeholder of shape {shape} needs a 'dtype' too, but got None")
        self._data = as_data(input_data, dtype)

    # ---- what it holds ----

    def copy(self) -> Tensor:
        """A new tensor with the same elements."""
        copied: Tensor = get("cast")(self, dtype=self.dtype)
        return copied

    def value(self) -> Tensor:
        """The tensor, as a plain one: of a Parameter, its value; gradients flow through."""
        return wrapped(self._data, self._tape, self._number if self._tape is not None else None)

    def init_data(self, *_: Any, **__: Any) -> Self:
        """The tensor itself: its elements are there from the beginning."""
        return self

    @staticmethod
    def from_numpy(array: Array) -> Tensor:
        """A tensor with the elements of an array, copied; `TypeError` if it isn't one."""
        return Tensor(checks.of_type(array, "array", np.ndarray, of="from_numpy"))

    def assign_value(self, value: Tensor) -> Tensor:
        """Take over the elements of `value`."""
        self._rebind(value)
        return self

    def __reduce__(self) -> Any:
        return Tensor, (self._elements("pickling", "pickle it outside of what is traced"),)

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        data = self._data
        copied = memo[id(self)] = wrapped(data if isinstance(data, SymbolicTensor) else data.copy())
        return copied

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Refuse a function of torch, which would say by itself that its argument must be Tensor, not Tensor."""
        raise TypeError(
            f"torch's {getattr(func, '__name__', func)} was given a Tensor of cellbridge.runtime: use what runtime.ops "
            "or runtime.nn has for it, or give what it holds, torch.from_numpy(x.asnumpy())"
        )

    # ---- tracking ----

    def apply(self, op: Op, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
        """Compute `op` at once, and record it if an operand is tracked; see `Op.__call__`."""
        return apply(op, inputs, attributes)

    def number_on(self, recording: tape.Tape) -> int | None:
        """The number under which this value is tracked on the tape; None if it isn't."""
        return self._number if self._tape is recording else None

    def _rebind(self, value: Tensor) -> None:
        """Become `value`: its elements, and what is known of how they were computed."""
        trace = current()
        if trace is not None:
            trace.guard.writes(self)
        self._data, self._tape, self._number = value._data, value._tape, value._number

    if TYPE_CHECKING:  # operators and methods are attached by runtime.functional

        def __getattr__(self, name: str) -> Any: ...
        def __getitem__(self, index: Any) -> Any: ...
        def __setitem__(self, index: Any, value: Any) -> None: ...


def as_data(value: Any, dtype: Any = None) -> Data:
    """The array for what a tensor can be made of; see `Tensor`."""
    wanted = None if dtype is None else to_dtype(dtype)
    if isinstance(value, Tensor):
        if isinstance(value._data, Open):
            value._data.refuse("a tensor made of another one")
        return value._data if wanted is None else value._data.astype(wanted, copy=False)
    if isinstance(value, (np.ndarray, np.generic)):
        array = in_native_order(np.array(value, dtype=wanted))
    elif isinstance(value, (bool, int, float, list, tuple)):
        items = plain(value, "a tensor made of a list", AS_STACK)
        try:
            array = np.array(items)
        except ValueError as error:
            raise TypeError(f"nested lists must have equal lengths to make a tensor: {error}") from None
        if wanted is not None:
            array = array.astype(wanted)
        if wanted is None and not _holds_arrays(value):
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


def initialized(init: Any, shape: Any, dtype: np.dtype[Any]) -> Tensor:
    """What `initializer` gives: a tensor filled as `init` says, or `init` itself if it is a tensor of that shape."""
    if not isinstance(init, Tensor):
        return wrapped(initial_values(init, shape, dtype))
    if shape is not None and init.shape != as_shape(shape):
        raise ValueError(
            f"For 'initializer', the tensor 'init' must have the shape asked for, {as_shape(shape)}, but got "
            f"{init.shape}"
        )
    return init


def wrapped(array: Data, recording: tape.Tape | None = None, number: int | None = None) -> Tensor:
    """A tensor around an array, without a copy; tracked under `number` if that is given."""
    tensor = Tensor.__new__(Tensor)
    tensor._data = array
    if number is not None:
        tensor._tape, tensor._number = recording, number
    return tensor


def is_known(x: Any) -> bool:
    """Whether `x` is a tensor whose elements are known: they aren't while it is symbolic."""
    return isinstance(x, Tensor) and not isinstance(x._data, SymbolicTensor)


def created(op: Op, **attributes: Any) -> Tensor:
    """The tensor that an op without operands makes."""
    made = op(**attributes)
    return made if isinstance(made, Tensor) else wrapped(np.array(made))


def full_like(tensor: Tensor, value: float) -> Tensor:
    """`value` everywhere, in the shape and dtype of `tensor`."""
    return created(get("full"), shape=tuple(tensor.shape), value=value, dtype=tensor.dtype)


def zeros_like(tensor: Tensor) -> Tensor:
    """Zeros of the shape and dtype of `tensor`."""
    return full_like(tensor, 0)


def apply(op: Op, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
    """Run the kernel of `op`; record it on the current tape if an operand is tracked there."""
    trace = current()
    if trace is not None:
        inputs = trace.imported(inputs)
    if taking_in():
        inputs = tuple(map(_taken, inputs))
    wanted = dtype_for(op.name, inputs)
    if wanted is not None and op.name not in _AS_GIVEN:
        inputs = tuple(_in_dtype(x, wanted) for x in inputs)
    arrays = [x._data if isinstance(x, Tensor) else x for x in inputs]
    dtype = next((x.dtype for x in arrays if isinstance(x, (np.ndarray, SymbolicTensor))), None)
    arrays = [
        x if x is None or isinstance(x, (np.ndarray, SymbolicTensor)) else np.asarray(x, getattr(x, "dtype", dtype))
        for x in arrays
    ]
    outputs: tuple[Data, ...]
    if trace is not None and trace.records(op, arrays, attributes):
        outputs = trace.record(op, arrays, attributes)
    else:
        left = next((x for x in arrays if isinstance(x, SymbolicTensor)), None)
        if left is not None:
            raise unknown_elements(left, f"op {op.name}", "")
        with np.errstate(all="ignore"):
            outputs = evaluate(op, arrays, attributes)
    recording = tape.current()
    results: list[Tensor] | None = None
    if recording is not None and op.name != "stop_gradient":
        operands = tuple(x.number_on(recording) if isinstance(x, Tensor) else None for x in inputs)
        if any(number is not None for number in operands):
            results = _record(recording, op, arrays, attributes, outputs, operands)
    if results is None:
        results = [wrapped(array) for array in outputs]
    return results[0] if len(results) == 1 else tuple(results)


_AS_GIVEN = frozenset({"boundary", "cast", "cond", "loop", "own_gradient", "stop_gradient"})
"""Ops whose operands keep their dtype whatever the dtype of computation."""


def _taken(x: Any) -> Any:
    if not isinstance(x, (Tensor, np.ndarray)) or overridden_dtype(x.dtype) == x.dtype:
        return x
    return wrapped(taken(x._data)) if isinstance(x, Tensor) else taken(x)


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

    wanted = [number is not None for number in operands]

    def pull(output_cotangents: list[Any]) -> tuple[Any, ...]:
        now = tape.current()
        given = [None if x is None else wrapped(x, now, n) for x, n in zip(arrays, operands, strict=True)]
        if op.name == "cast" and whole:  # an integer that is differentiated: its gradient is an integer too
            return (get("cast")(output_cotangents[0], dtype=given[0].dtype),)  # type: ignore[union-attr]
        results = [wrapped(x, now, n) for x, n in zip(outputs, numbers, strict=True)]
        return op.apply_vjp(output_cotangents, results, given, attributes, wanted)

    if any(number is not None for number in numbers):
        recording.append(tape.Entry(operands, numbers, pull))
    return [wrapped(array, recording, number) for array, number in zip(outputs, numbers, strict=True)]


def identity_entry(tensors: tuple[Any, ...], pull: tape.Pull, always: bool = False) -> tuple[Any, ...]:
    """Record on the current tape a step that changes nothing going forward and is `pull` going backward.

    Args:
        tensors: what passes through; entries that aren't tensors, or aren't tracked, pass as they are.
        pull: from the gradients of all `tensors` (None where there is none) to those that take their place.
        always: whether `pull` runs even if no gradient arrives.

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
    return tuple(x if n is None else wrapped(x._data, recording, n) for x, n in zip(tensors, numbers, strict=True))
