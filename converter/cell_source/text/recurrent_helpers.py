"""Helper functions of a generated source that run recurrent ops step by step if the module isn't a known layer."""

from __future__ import annotations

RECURRENT = {
    "each_step": '''def each_step(step, x, states, lengths, reverse):
    """step(x[t], *states) for each t; a sequence that is over gives 0 and keeps its states."""
    times = range(x.shape[0])
    outputs = []
    for t in reversed(times) if reverse else times:
        new = step(x[t], *states)
        output = new[0]
        if lengths is not None:
            running = (lengths > t).expand_dims(-1)
            new = [ops.where(running, after, before) for after, before in zip(new, states)]
            output = ops.where(running, output, ops.zeros_like(output))
        outputs.append(output)
        states = new
    return (ops.stack(outputs[::-1] if reverse else outputs), *states)''',
    "gru": '''def gru(x, h, weight_ih, weight_hh, bias_ih=None, bias_hh=None, lengths=None, reverse=False):
    """One direction of a GRU over x (time, batch, features): all outputs and the last state."""

    def step(x, h):
        a_r, a_z, a_n = ops.chunk(ops.dense(x, weight_ih, bias_ih), 3, axis=-1)
        b_r, b_z, b_n = ops.chunk(ops.dense(h, weight_hh, bias_hh), 3, axis=-1)
        z = ops.sigmoid(a_z + b_z)
        return [(1 - z) * ops.tanh(a_n + ops.sigmoid(a_r + b_r) * b_n) + z * h]

    return each_step(step, x, [h], lengths, reverse)''',
    "lstm": '''def lstm(
    x, h, c, weight_ih, weight_hh, bias_ih=None, bias_hh=None, weight_hr=None, lengths=None, reverse=False
):
    """One direction of an LSTM over x (time, batch, features): all outputs and the last states."""

    def step(x, h, c):
        gates = ops.dense(x, weight_ih, bias_ih) + ops.dense(h, weight_hh, bias_hh)
        i, f, g, o = ops.chunk(gates, 4, axis=-1)
        c = ops.sigmoid(f) * c + ops.sigmoid(i) * ops.tanh(g)
        h = ops.sigmoid(o) * ops.tanh(c)
        return [h if weight_hr is None else ops.dense(h, weight_hr), c]

    return each_step(step, x, [h, c], lengths, reverse)''',
    "rnn": '''def rnn(
    x, h, weight_ih, weight_hh, bias_ih=None, bias_hh=None, lengths=None, reverse=False, relu=False
):
    """One direction of an Elman RNN over x (time, batch, features): all outputs and the last state."""

    def step(x, h):
        total = ops.dense(x, weight_ih, bias_ih) + ops.dense(h, weight_hh, bias_hh)
        return [ops.relu(total) if relu else ops.tanh(total)]

    return each_step(step, x, [h], lengths, reverse)''',
}
