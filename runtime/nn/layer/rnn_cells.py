"""Single steps of recurrent layers."""

from __future__ import annotations

import math
from typing import Any

from ... import checks
from ...common.dtype import float32
from ...common.initializer import Uniform, initializer
from ...common.parameter import Parameter
from ...functional.operands import as_tensor, require_one_dtype
from ...ops.recurrent_stack import Weights, run_step
from ..cell import Cell


class _RecurrentCell(Cell):
    """The base class of the recurrent cells. The Parameters have torch's names and shapes.

    Attributes:
        weight_ih: Parameter (gates * hidden_size, input_size).
        weight_hh: Parameter (gates * hidden_size, hidden_size).
        bias_ih: Parameter (gates * hidden_size,), or None.
        bias_hh: Parameter (gates * hidden_size,), or None.
    """

    def __init__(self, gates: int, input_size: int, hidden_size: int, has_bias: bool, dtype: Any) -> None:
        super().__init__()
        of = self.cls_name
        self.input_size = checks.positive_int(input_size, "input_size", of=of)
        self.hidden_size = checks.positive_int(hidden_size, "hidden_size", of=of)
        self.has_bias = checks.of_type(has_bias, "has_bias", bool, of=of)

        def parameter(name: str, *shape: int) -> Parameter:
            return Parameter(initializer(Uniform(1 / math.sqrt(hidden_size)), shape, dtype), name=name)

        rows = gates * hidden_size
        self.weight_ih = parameter("weight_ih", rows, input_size)
        self.weight_hh = parameter("weight_hh", rows, hidden_size)
        self.bias_ih = parameter("bias_ih", rows) if has_bias else None
        self.bias_hh = parameter("bias_hh", rows) if has_bias else None

    def _step(self, kind: str, x: Any, *states: Any) -> tuple[Any, ...]:
        of = self.cls_name
        x, old_states = as_tensor(x, "x", of=of), [as_tensor(state, "hx", of=of) for state in states]
        require_one_dtype(x, *old_states, self.weight_ih, of=of)
        if x.ndim != 2:
            raise ValueError(f"For '{of}', 'x' must have 2 dimensions, but got shape {tuple(x.shape)}")
        weights = Weights(self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh)
        return run_step(kind, x, old_states, weights)

    def extend_repr(self) -> str:
        """The main arguments."""
        return f"input_size={self.input_size}, hidden_size={self.hidden_size}, has_bias={self.has_bias}"


class LSTMCell(_RecurrentCell):
    """One step of long short-term memory; see `LSTM` for the formula.

    Args:
        input_size: number of features of the input.
        hidden_size: number of features of the state.
        has_bias: whether there are biases.
        dtype: dtype of the Parameters, whose initial values are uniform in +-`1 / sqrt(hidden_size)`.

    Inputs:
        x: (batch, input_size), of the dtype of the weights.
        hx: tuple of hidden and cell state, each (batch, hidden_size).

    Outputs:
        The tuple of the new hidden and cell state.

    Raises:
        TypeError: an argument has the wrong type; in a call, `hx` is not a tuple of two Tensors, or a dtype differs.
        ValueError: a size isn't positive; in a call, a shape is wrong.
    """

    def __init__(self, input_size: int, hidden_size: int, has_bias: bool = True, dtype: Any = float32) -> None:
        super().__init__(4, input_size, hidden_size, has_bias, dtype)

    def construct(self, x: Any, hx: Any) -> tuple[Any, Any]:
        """Return the new hidden and cell state, each (batch, hidden_size)."""
        if not (isinstance(hx, tuple) and len(hx) == 2):
            raise TypeError(f"For 'LSTMCell', 'hx' must be a tuple of two Tensors, but got {type(hx).__name__}")
        hidden, cell = self._step("lstm", x, *hx)
        return hidden, cell


class GRUCell(_RecurrentCell):
    """One step of a gated recurrent unit; see `GRU` for the formula. Arguments and errors are those of `LSTMCell`."""

    def __init__(self, input_size: int, hidden_size: int, has_bias: bool = True, dtype: Any = float32) -> None:
        super().__init__(3, input_size, hidden_size, has_bias, dtype)

    def construct(self, x: Any, hx: Any) -> Any:
        """Return the new state (batch, hidden_size)."""
        return self._step("gru", x, hx)[0]


class RNNCell(_RecurrentCell):
    """One step of an Elman network; see `RNN` for the formula.

    Arguments and errors are those of `LSTMCell`, with `nonlinearity`, "tanh" or "relu", after `has_bias`.
    """

    def __init__(
        self, input_size: int, hidden_size: int, has_bias: bool = True, nonlinearity: str = "tanh", dtype: Any = float32
    ) -> None:
        super().__init__(1, input_size, hidden_size, has_bias, dtype)
        checks.of_type(nonlinearity, "nonlinearity", str, of="RNNCell")
        self.nonlinearity = checks.one_of(nonlinearity, "nonlinearity", ("tanh", "relu"), of="RNNCell")

    def construct(self, x: Any, hx: Any) -> Any:
        """Return the new state (batch, hidden_size)."""
        return self._step(f"rnn_{self.nonlinearity}", x, hx)[0]
