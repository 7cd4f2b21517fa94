"""Recurrent layers LSTM, GRU and RNN, with several stacked layers in one direction or both."""

from __future__ import annotations

import math
import warnings
from typing import Any

from ... import checks
from ...common.dtype import float32
from ...common.initializer import Uniform, initializer
from ...common.parameter import Parameter, ParameterTuple
from ...functional.arguments import require_integers
from ...functional.dropout import dropout as drop
from ...functional.operands import require_floating
from ...ops import creation, elementwise, shaping
from ...ops.recurrent_stack import Weights, run_layers
from ...tensor_like import TensorLike
from ..cell import Cell

GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}


class _Recurrent(Cell):
    """The base class of the recurrent layers.

    Attributes:
        w_ih_list: Parameters `weight_ih_l0`..., by layer and direction, (gates * hidden_size, features).
        w_hh_list: `weight_hh_l0`..., (gates * hidden_size, hidden_size).
        b_ih_list: `bias_ih_l0`..., (gates * hidden_size,); empty without bias.
        b_hh_list: `bias_hh_l0`..., likewise.
    """

    def __init__(
        self, kind: str, input_size: int, hidden_size: int, num_layers: int, has_bias: bool, batch_first: bool,
        dropout: float, bidirectional: bool, dtype: Any,
    ) -> None:  # fmt: skip
        super().__init__()
        of = self.cls_name
        self.input_size = checks.positive_int(input_size, "input_size", of=of)
        self.hidden_size = checks.positive_int(hidden_size, "hidden_size", of=of)
        self.num_layers = checks.positive_int(num_layers, "num_layers", of=of)
        self.has_bias = checks.of_type(has_bias, "has_bias", bool, of=of)
        self.batch_first = checks.of_type(batch_first, "batch_first", bool, of=of)
        self.dropout = checks.in_range(dropout, "dropout", "[0, 1)", of=of)
        self.bidirectional = checks.of_type(bidirectional, "bidirectional", bool, of=of)
        if dropout > 0 and num_layers == 1:
            warnings.warn(f"{of}: dropout {dropout} acts between layers, but there is only one", stacklevel=3)
        self._kind = kind
        rows, directions = GATES[kind] * hidden_size, ("", "_reverse")[: 2 if bidirectional else 1]
        bound = 1 / math.sqrt(hidden_size)

        def parameters(stem: str, shape: Any) -> ParameterTuple:
            return ParameterTuple(
                Parameter(initializer(Uniform(bound), shape(layer), dtype), name=f"{stem}_l{layer}{direction}")
                for layer in range(num_layers)
                for direction in directions
            )

        self.w_ih_list = parameters(
            "weight_ih", lambda layer: (rows, hidden_size * len(directions) if layer else input_size)
        )
        self.w_hh_list = parameters("weight_hh", lambda layer: (rows, hidden_size))
        self.b_ih_list = parameters("bias_ih", lambda layer: (rows,)) if has_bias else ParameterTuple(())
        self.b_hh_list = parameters("bias_hh", lambda layer: (rows,)) if has_bias else ParameterTuple(())

    def construct(self, x: Any, hx: Any = None, seq_length: Any = None) -> Any:
        """Return the outputs of all steps and the last state; see the class for the shapes."""
        of = self.cls_name
        if require_floating(x, "x", of=of).ndim != 3:
            raise ValueError(f"For '{of}', 'x' must have 3 dimensions, but got shape {tuple(x.shape)}")
        batch = x.shape[0] if self.batch_first else x.shape[1]
        states = self._initial_states(x, hx, batch)
        if seq_length is not None:
            require_integers(seq_length, "seq_length", of=of)
            if tuple(seq_length.shape) != (batch,):
                raise ValueError(
                    f"For '{of}', 'seq_length' must have one length for each of {batch} sequences, but got shape "
                    f"{tuple(seq_length.shape)}"
                )
        steps = shaping.transpose(x, permutation=(1, 0, 2)) if self.batch_first else x
        between = (lambda y: drop(y, self.dropout)) if self.training and self.dropout else None
        y, *last = run_layers(self._kind, steps, states, self._layers(x.dtype), lengths=seq_length, between=between)
        y = shaping.transpose(y, permutation=(1, 0, 2)) if self.batch_first else y
        # Results have the dtype of x even if the Cell computes in half precision.
        y, *last = (elementwise.cast(value, dtype=x.dtype) if value.dtype != x.dtype else value for value in (y, *last))
        return y, tuple(last) if self._kind == "lstm" else last[0]

    def _layers(self, dtype: Any) -> list[list[Weights]]:
        """The weights by layer and direction."""

        def cast(parameter: Parameter) -> Any:
            return parameter if parameter.dtype == dtype else elementwise.cast(parameter, dtype=dtype)

        directions = 2 if self.bidirectional else 1
        lists = (self.w_ih_list, self.w_hh_list, self.b_ih_list, self.b_hh_list)
        weights = [Weights(*(cast(some[i]) if some else None for some in lists)) for i in range(len(self.w_ih_list))]
        return [weights[i : i + directions] for i in range(0, len(weights), directions)]

    def _initial_states(self, x: Any, hx: Any, batch: Any) -> tuple[Any, ...]:
        """Check and return the states `hx`; zeros if it is None."""
        of, count = self.cls_name, 2 if self._kind == "lstm" else 1
        shape = (len(self.w_ih_list), batch, self.hidden_size)
        if hx is None:
            return (zeros_for(x, shape),) * count
        if count == 2 and not (isinstance(hx, tuple) and len(hx) == 2):
            raise TypeError(f"For '{of}', 'hx' must be a tuple of two Tensors, but got {type(hx).__name__}")
        states = hx if count == 2 else (hx,)
        for state in states:
            if not isinstance(state, TensorLike) or state.dtype != x.dtype:
                raise TypeError(f"For '{of}', 'hx' must have the type of 'x', {x.dtype}, but got {state!r}")
            if tuple(state.shape) != shape:
                raise ValueError(f"For '{of}', 'hx' must have the shape {shape}, but got {tuple(state.shape)}")
        return states

    def extend_repr(self) -> str:
        """The main arguments."""
        names = ("input_size", "hidden_size", "num_layers", "has_bias", "batch_first", "dropout", "bidirectional")
        return ", ".join(f"{name}={getattr(self, name)}" for name in names)


def zeros_for(x: Any, shape: tuple[Any, ...]) -> Any:
    """Zeros of the dtype of `x`."""
    return creation.full_like(x, 0.0, shape=shape)


class LSTM(_Recurrent):
    """Long short-term memory (Hochreiter and Schmidhuber 1997), with several layers, in one direction or both.

        i, f, o = sigmoid(a), g = tanh(a), a = weight_ih x + bias_ih + weight_hh h + bias_hh, in order i, f, g, o
        c' = f * c + i * g,  h' = o * tanh(c')

    Parameters have torch's names and shapes. They are ordered by kind: all weight_ih, then all weight_hh, bias_ih and
    bias_hh.

    Args:
        input_size: number of features of the input.
        hidden_size: number of features of the state.
        num_layers: number of stacked layers.
        has_bias: whether there are biases.
        batch_first: whether the batch is the first axis of input and output; it is never that of the states.
        dropout: probability in [0, 1) of dropping an element of the outputs between layers, in training.
        bidirectional: whether each layer runs in both directions; their outputs are concatenated.
        dtype: dtype of the Parameters, whose initial values are uniform in +-`1 / sqrt(hidden_size)`.

    Inputs:
        x: (time, batch, input_size); with `batch_first`, (batch, time, input_size).
        hx: tuple of hidden and cell state, each (num_layers * directions, batch, hidden_size), of the dtype of x;
            zeros by default.
        seq_length: number of steps of each sequence, integers (batch,), all steps by default; beyond it, outputs are 0
            and states don't change.

    Outputs:
        The outputs (time, batch, directions * hidden_size), or batch first, and the tuple of the last hidden and cell
        state, in the shape of `hx`.

    Raises:
        TypeError: an argument has the wrong type; in a call, `hx` is not a tuple of two Tensors of the dtype of x, or
            `seq_length` is not an integer Tensor.
        ValueError: an argument is out of range; in a call, a shape is wrong.
    """

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, has_bias: bool = True, batch_first: bool = False,
        dropout: float = 0.0, bidirectional: bool = False, dtype: Any = float32,
    ) -> None:  # fmt: skip
        super().__init__(
            "lstm", input_size, hidden_size, num_layers, has_bias, batch_first, dropout, bidirectional, dtype
        )


class GRU(_Recurrent):
    """Gated recurrent units (Cho et al. 2014), with several layers, in one direction or both.

        a = weight_ih x + bias_ih and b = weight_hh h + bias_hh, each in order r, z, n
        r = sigmoid(a_r + b_r), z = sigmoid(a_z + b_z), n = tanh(a_n + r * b_n),  h' = (1 - z) * n + z * h

    Arguments, inputs, outputs and errors are those of `LSTM`, except that the state is one tensor.
    """

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, has_bias: bool = True, batch_first: bool = False,
        dropout: float = 0.0, bidirectional: bool = False, dtype: Any = float32,
    ) -> None:  # fmt: skip
        super().__init__(
            "gru", input_size, hidden_size, num_layers, has_bias, batch_first, dropout, bidirectional, dtype
        )


class RNN(_Recurrent):
    """Elman networks (Elman 1990), with several layers, in one direction or both.

        h' = f(weight_ih x + bias_ih + weight_hh h + bias_hh)

    Arguments, inputs, outputs and errors are those of `LSTM`, except that the state is one tensor. The keyword argument
    `nonlinearity` chooses f: "tanh" or "relu".
    """

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, has_bias: bool = True, batch_first: bool = False,
        dropout: float = 0.0, bidirectional: bool = False, dtype: Any = float32, *, nonlinearity: str = "tanh",
    ) -> None:  # fmt: skip
        checks.one_of(nonlinearity, "nonlinearity", ("tanh", "relu"), of="RNN")
        super().__init__(
            f"rnn_{nonlinearity}", input_size, hidden_size, num_layers, has_bias, batch_first, dropout, bidirectional,
            dtype,
        )  # fmt: skip
        self.nonlinearity = nonlinearity
