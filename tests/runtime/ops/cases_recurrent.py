"""Cases of the op table: recurrent layers."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from tests.runtime.ops.cases import OpCase

Array = np.ndarray[Any, Any]
_random = np.random.default_rng(13)
GATES = {"lstm": 4, "gru": 3, "rnn": 1}


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


def _written_out(op: str, reverse: bool, nonlinearity: str, previous: Any, operands: Any, cotangents: Any) -> Any:
    """Cotangents as the gradient ops give them, by autograd through the layer written out step by step."""
    x, weight_ih, weight_hh, bias_ih, bias_hh = operands[:5]
    first = (previous[-1] if reverse else previous[0]).detach().requires_grad_()
    c0, weight_hr = (operands[5].detach().requires_grad_(), operands[6]) if op == "lstm" else (None, None)
    weight_hr = None if weight_hr is None else weight_hr.detach().requires_grad_()
    from_input = torch.nn.functional.linear(x, weight_ih, bias_ih).detach().requires_grad_()
    from_state = torch.zeros_like(from_input, requires_grad=True)  # added to what comes from the state
    h, c, ys = first, c0, [first] * len(x)
    for t in reversed(range(len(x))) if reverse else range(len(x)):
        a, b = from_input[t], torch.nn.functional.linear(h, weight_hh, bias_hh) + from_state[t]
        if op == "lstm":
            i, f, g, o = (a + b).chunk(4, -1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
            h = h if weight_hr is None else h @ weight_hr.T
        elif op == "gru":
            (a_r, a_z, a_n), (b_r, b_z, b_n) = a.chunk(3, -1), b.chunk(3, -1)
            z = (a_z + b_z).sigmoid()
            h = (1 - z) * (a_n + (a_r + b_r).sigmoid() * b_n).tanh() + z * h
        else:
            h = getattr(torch, nonlinearity)(a + b)
        ys[t] = h
    results = [torch.stack(ys), h, *([c] if op == "lstm" else [])]
    leaves = [from_input, *([from_state] if op == "gru" else []), first, *(v for v in (c0, weight_hr) if v is not None)]
    pairs = [(result, g) for result, g in zip(results, cotangents, strict=True) if g is not None]
    return torch.autograd.grad([result for result, _ in pairs], leaves, [g for _, g in pairs])


def _gradient_case(
    op: str, name: str, inputs: tuple[Any, ...], reverse: bool, cotangents: str, nonlinearity: str = "tanh"
) -> OpCase:
    tensors = [None if a is None else torch.from_numpy(a) for a in inputs]
    ys, *last = torch_layer(op, reverse, nonlinearity)(*tensors)
    first = tensors[1]
    assert first is not None
    previous = (torch.cat([ys[1:], first[None]]) if reverse else torch.cat([first[None], ys[:-1]])).numpy()
    gs = tuple(
        _random.standard_normal(tuple(result.shape)) if wanted == "1" else None
        for result, wanted in zip((ys, *last), cotangents, strict=True)
    )
    if op == "lstm":
        x, _, c0, weight_ih, weight_hh, bias_ih, bias_hh, weight_hr = inputs

        def function(x: Any, previous: Any, c0: Any, *rest: Any) -> Any:
            *weights, weight_hr = rest[:5]
            return _written_out(op, reverse, "", previous, (x, *weights, c0, weight_hr), rest[6:])

        operands = (x, previous, c0, weight_ih, weight_hh, bias_ih, bias_hh, weight_hr, None, *gs)
    elif op == "gru":

        def function(x: Any, previous: Any, *rest: Any) -> Any:
            return _written_out(op, reverse, "", previous, (x, *rest[:4]), rest[5:])

        operands = (inputs[0], previous, *inputs[2:], None, *gs)
    else:
        x, _, *weights = tensors

        def function(ys: Any, weight_hh: Any, _: None, *gs: Any) -> Any:
            given = [w if w is None else w.to(ys.dtype) for w in (x, *weights)]
            return _written_out(op, reverse, nonlinearity, torch.from_numpy(previous).to(ys.dtype), given, gs)

        operands = (ys.numpy(), inputs[3], None, *gs)
    attributes = {"reverse": reverse, **({"nonlinearity": nonlinearity} if op == "rnn" else {})}
    return OpCase(f"{op}_gradient", operands, attributes, function, name, differentiable=False)


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
    _gradient_case("lstm", "plain", layer_inputs("lstm", 4, 2, 3, 4), False, "111"),
    _gradient_case("lstm", "reverse", layer_inputs("lstm", 4, 2, 3, 4), True, "100"),
    _gradient_case("lstm", "projection-last-states", layer_inputs("lstm", 3, 2, 3, 4, projection=2), False, "011"),
    _gradient_case("gru", "plain", layer_inputs("gru", 4, 2, 3, 4), False, "11"),
    _gradient_case("gru", "reverse-no-biases", layer_inputs("gru", 4, 2, 3, 4, biases=""), True, "10"),
    _gradient_case("rnn", "tanh", layer_inputs("rnn", 4, 2, 3, 4), False, "11", "tanh"),
    _gradient_case("rnn", "relu-reverse", layer_inputs("rnn", 4, 2, 3, 4), True, "01", "relu"),
]
