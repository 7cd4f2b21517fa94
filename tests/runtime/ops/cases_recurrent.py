"""Cases of the op table: recurrent layers."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from cellbridge.runtime import ops
from tests.runtime.ops.cases import OpCase

Array = np.ndarray[Any, Any]
_random = np.random.default_rng(13)
GATES = {"lstm": 4, "gru": 3, "rnn": 1}
LAYERS = tuple(GATES)


def attributes_of(op: str, reverse: bool) -> dict[str, Any]:
    """Attributes of a layer or of its gradient."""
    return {"reverse": reverse, **({"nonlinearity": "tanh"} if op.startswith("rnn") else {})}


def layer_inputs(
    op: str,
    time: int,
    batch: int,
    features: int,
    hidden: int,
    *,
    biases: str = "ih hh",
    projection: int = 0,
    lengths: tuple[int, ...] = (),
    seed: int = 0,
) -> tuple[Array | None, ...]:
    """Operands of `lstm`, `gru` or `rnn`, with weights so small that gradients don't explode."""
    gates, outputs = GATES[op] * hidden, projection or hidden
    rng = np.random.default_rng(seed)

    def normal(*shape: int) -> Array:
        return rng.standard_normal(shape) * 0.6

    states = (normal(batch, outputs), normal(batch, hidden)) if op == "lstm" else (normal(batch, outputs),)
    weights = (normal(gates, features), normal(gates, outputs) / np.sqrt(hidden))
    present = tuple(normal(gates) if name in biases.split() else None for name in ("ih", "hh"))
    projections = (normal(projection, hidden) if projection else None,) if op == "lstm" else ()
    ends = (np.array(lengths),) if lengths else ()
    return normal(time, batch, features), *states, *weights, *present, *projections, *ends


def torch_layer(op: str, reverse: bool, nonlinearity: str = "tanh") -> Any:
    """The same layer by ATen's fused operators, which walk forward only: time is flipped for the other direction."""

    def layer(x: torch.Tensor, *operands: torch.Tensor | None) -> tuple[torch.Tensor, ...]:
        count = 2 if op == "lstm" else 1
        last = operands[-1]
        if last is not None and not last.is_floating_point():
            return one_by_one(x, last, *operands[:-1])
        states = [state.unsqueeze(0) for state in operands[:count] if state is not None]
        weight_ih, weight_hh, bias_ih, bias_hh, *projection = operands[count:]
        assert weight_ih is not None
        zero = torch.zeros(len(weight_ih), dtype=x.dtype)
        parameters = [weight_ih, weight_hh, zero if bias_ih is None else bias_ih, zero if bias_hh is None else bias_hh]
        parameters += [p for p in projection if p is not None]
        function = {"lstm": torch.lstm, "gru": torch.gru}.get(op) or getattr(torch, f"rnn_{nonlinearity}")
        hx = states if op == "lstm" else states[0]
        ys, *last = function(x.flip(0) if reverse else x, hx, parameters, True, 1, 0.0, False, False, False)
        return ys.flip(0) if reverse else ys, *(state.squeeze(0) for state in last)

    def one_by_one(x: torch.Tensor, lengths: torch.Tensor, *operands: Any) -> tuple[torch.Tensor, ...]:
        """Each sequence by itself, up to its end."""
        count = 2 if op == "lstm" else 1
        results = []
        for i, length in enumerate(lengths.tolist()):
            states = [state[i : i + 1] for state in operands[:count]]
            ys, *last = layer(x[:length, i : i + 1], *states, *operands[count:])
            results.append([torch.nn.functional.pad(ys, (0, 0, 0, 0, 0, len(x) - length)), *last])
        ys, *last = zip(*results, strict=True)
        return torch.cat(ys, 1), *(torch.cat(state) for state in last)

    return layer


def _case(op: str, name: str, inputs: tuple[Array | None, ...], reverse: bool = False, **attributes: Any) -> OpCase:
    function = torch_layer(op, reverse, **attributes)
    return OpCase(op, inputs, {"reverse": reverse, **attributes}, function, name)


def _gates_case(op: str, name: str, inputs: tuple[Array | None, ...], reverse: bool = False) -> OpCase:
    """Of what the layer hands out more, torch tells nothing: the gradients that are made of it do."""
    function = torch_layer(op, reverse)
    return OpCase(f"{op}_with_gates", inputs, {"reverse": reverse}, function, name, differentiable=False)


def _written_out(op: str, reverse: bool, nonlinearity: str, operands: Any, cotangents: Any) -> Any:
    """Cotangents as the gradient ops give them, by autograd through the layer written out step by step."""
    count = 2 if op == "lstm" else 1
    x, states, (weight_ih, weight_hh, bias_ih, bias_hh) = (
        operands[0],
        operands[1 : 1 + count],
        operands[1 + count :][:4],
    )
    lengths = operands[-1] if operands[-1] is not None and not operands[-1].is_floating_point() else None
    projection = operands[7].T if op == "lstm" and operands[7] is not None else None
    states = [state.requires_grad_() for state in states]
    from_input = torch.nn.functional.linear(x, weight_ih, bias_ih).requires_grad_()
    from_state = torch.zeros_like(from_input, requires_grad=True)  # added to what comes from the state
    projected = torch.zeros((*x.shape[:2], states[0].shape[1]), dtype=x.dtype, requires_grad=True)
    ys, h, c = [projected[0]] * len(x), states[0], states[-1]
    for t in reversed(range(len(x))) if reverse else range(len(x)):
        a, b = from_input[t], torch.nn.functional.linear(h, weight_hh, bias_hh) + from_state[t]
        after = c
        if op == "lstm":
            i, f, g, o = (a + b).chunk(4, -1)
            after = f.sigmoid() * c + i.sigmoid() * g.tanh()
            y = o.sigmoid() * after.tanh()
            y = y if projection is None else y @ projection + projected[t]
        elif op == "gru":
            (a_r, a_z, a_n), (b_r, b_z, b_n) = a.chunk(3, -1), b.chunk(3, -1)
            z = (a_z + b_z).sigmoid()
            y = (1 - z) * (a_n + (a_r + b_r).sigmoid() * b_n).tanh() + z * h
        else:
            y = getattr(torch, nonlinearity)(a + b)
        within = torch.ones(x.shape[1], 1, dtype=torch.bool) if lengths is None else (t < lengths)[:, None]
        ys[t], h, c = y * within, torch.where(within, y, h), torch.where(within, after, c)
    results = [torch.stack(ys), h, *([c] if op == "lstm" else [])]
    leaves = [from_input, *([from_state] if op == "gru" else []), *states, *([] if projection is None else [projected])]
    pairs = [(result, g) for result, g in zip(results, cotangents, strict=True) if g is not None]
    return torch.autograd.grad([y for y, _ in pairs], leaves, [g for _, g in pairs])


def _gradient_case(
    op: str, name: str, inputs: tuple[Any, ...], reverse: bool, cotangents: str, nonlinearity: str = "tanh"
) -> OpCase:
    """The gradient of a layer with these operands; which of the outputs have cotangents is told by ones and zeros."""
    attributes = {"reverse": reverse, **({"nonlinearity": nonlinearity} if op == "rnn" else {})}
    count = 3 if op == "lstm" else 2
    results = ops.get(op if op == "rnn" else f"{op}_with_gates")(*inputs, **attributes)
    gs = tuple(
        _random.standard_normal(y.shape) if flag == "1" else None
        for y, flag in zip(results[:count], cotangents, strict=True)
    )
    lengths = inputs[-1] if inputs[-1] is not None and inputs[-1].dtype.kind == "i" else None
    optional = (inputs[7], lengths) if op == "lstm" else (lengths,)
    weight_hh = inputs[4 if op == "lstm" else 3]
    given = (results[0], weight_hh) if op == "rnn" else (weight_hh, *results[count:])

    def function(*operands: Any) -> Any:
        dtype = operands[0].dtype
        layer = [
            None if a is None else torch.from_numpy(a).to(dtype if a.dtype.kind == "f" else torch.int64) for a in inputs
        ]
        return _written_out(op, reverse, nonlinearity, layer, operands[-len(gs) :])

    return OpCase(f"{op}_gradient", (*given, *optional, *gs), attributes, function, name, differentiable=False)


CASES: list[OpCase] = [
    _case("lstm", "plain", layer_inputs("lstm", 5, 2, 3, 4)),
    _case("lstm", "reverse", layer_inputs("lstm", 4, 3, 2, 3), reverse=True),
    _case("lstm", "one-step", layer_inputs("lstm", 1, 2, 3, 2)),
    _case("lstm", "no-biases", layer_inputs("lstm", 3, 2, 3, 2, biases="")),
    _case("lstm", "one-bias", layer_inputs("lstm", 3, 2, 3, 2, biases="hh")),
    _case("lstm", "projection", layer_inputs("lstm", 4, 2, 3, 5, projection=2)),
    _case("lstm", "projection-reverse", layer_inputs("lstm", 4, 1, 3, 5, projection=2), reverse=True),
    _case("gru", "plain", layer_inputs("gru", 5, 2, 3, 4)),
    _case("gru", "reverse", layer_inputs("gru", 4, 3, 2, 3), reverse=True),
    _case("gru", "no-biases", layer_inputs("gru", 3, 2, 3, 2, biases="")),
    _case("gru", "one-bias", layer_inputs("gru", 3, 2, 3, 2, biases="ih")),
    _case("rnn", "tanh", layer_inputs("rnn", 5, 2, 3, 4), nonlinearity="tanh"),
    _case("rnn", "tanh-reverse", layer_inputs("rnn", 4, 1, 2, 3), reverse=True, nonlinearity="tanh"),
    _case("rnn", "relu", layer_inputs("rnn", 5, 2, 3, 4), nonlinearity="relu"),
    _case(
        "rnn", "relu-reverse-no-biases", layer_inputs("rnn", 3, 2, 3, 2, biases=""), reverse=True, nonlinearity="relu"
    ),
    _case("lstm", "lengths", layer_inputs("lstm", 5, 3, 2, 3, lengths=(2, 5, 1))),
    _case("lstm", "lengths-reverse", layer_inputs("lstm", 5, 3, 2, 3, lengths=(2, 5, 1)), reverse=True),
    _case("lstm", "lengths-projection", layer_inputs("lstm", 4, 2, 2, 4, projection=2, lengths=(4, 2)), reverse=True),
    _case("gru", "lengths", layer_inputs("gru", 5, 3, 2, 3, lengths=(2, 5, 1))),
    _case("gru", "lengths-reverse", layer_inputs("gru", 5, 3, 2, 3, lengths=(2, 5, 1)), reverse=True),
    _case("rnn", "lengths", layer_inputs("rnn", 5, 3, 2, 3, lengths=(2, 5, 1)), nonlinearity="relu"),
    _case(
        "rnn", "lengths-reverse", layer_inputs("rnn", 5, 3, 2, 3, lengths=(2, 5, 1)), reverse=True, nonlinearity="tanh"
    ),
    _gates_case("lstm", "plain", layer_inputs("lstm", 5, 2, 3, 4)),
    _gates_case("lstm", "one-bias-reverse", layer_inputs("lstm", 3, 2, 3, 2, biases="hh"), reverse=True),
    _gates_case("lstm", "projection", layer_inputs("lstm", 4, 2, 3, 5, biases="", projection=2)),
    _gates_case("lstm", "lengths", layer_inputs("lstm", 5, 3, 2, 3, lengths=(2, 5, 1))),
    _gates_case("gru", "plain", layer_inputs("gru", 5, 2, 3, 4)),
    _gates_case("gru", "no-biases-reverse", layer_inputs("gru", 3, 2, 3, 2, biases=""), reverse=True),
    _gates_case("gru", "lengths", layer_inputs("gru", 5, 3, 2, 3, biases="hh", lengths=(2, 5, 1))),
    _gradient_case("lstm", "plain", layer_inputs("lstm", 4, 2, 3, 4), False, "111"),
    _gradient_case("lstm", "reverse", layer_inputs("lstm", 4, 2, 3, 4), True, "100"),
    _gradient_case("lstm", "projection-last-states", layer_inputs("lstm", 3, 2, 3, 4, projection=2), False, "011"),
    _gradient_case("lstm", "lengths", layer_inputs("lstm", 5, 3, 2, 4, lengths=(2, 5, 1)), False, "111"),
    _gradient_case(
        "lstm", "lengths-projection", layer_inputs("lstm", 4, 2, 3, 4, projection=2, lengths=(4, 2)), True, "110"
    ),
    _gradient_case("gru", "plain", layer_inputs("gru", 4, 2, 3, 4), False, "11"),
    _gradient_case("gru", "reverse-no-biases", layer_inputs("gru", 4, 2, 3, 4, biases=""), True, "10"),
    _gradient_case("gru", "lengths", layer_inputs("gru", 5, 3, 2, 4, lengths=(2, 5, 1)), True, "11"),
    _gradient_case("rnn", "tanh", layer_inputs("rnn", 4, 2, 3, 4), False, "11", "tanh"),
    _gradient_case("rnn", "relu-reverse", layer_inputs("rnn", 4, 2, 3, 4), True, "01", "relu"),
    _gradient_case("rnn", "lengths", layer_inputs("rnn", 5, 3, 2, 4, lengths=(2, 5, 1)), False, "11", "relu"),
]
