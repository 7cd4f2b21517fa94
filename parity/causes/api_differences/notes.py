"""Differences that aren't visible in two layers, for the documentation only."""

from __future__ import annotations

NOTES = (
    ("A Cell starts in eval mode, a module in train mode", "`net.set_train()` before training; `parity` sets both."),
    (
        "Lists of Cells are not registered",
        "`nn.CellList`, `nn.SequentialCell`: a Python list holds Cells without their Parameters, as in torch.",
    ),
    (
        "Initial values",
        "Dense and convolutions are drawn alike; Embedding from N(0, 0.01), in torch from N(0, 1). "
        "`parity` carries torch's values over.",
    ),
    (
        "`ops.max(x)` of all gives (value, 0)",
        "torch.max(x) gives the value. `ops.ArgMaxWithValue()` gives (index, value), in this order.",
    ),
    (
        "Indices are int32",
        "`ops.topk`, `ops.sort`; in torch int64. A port may return int32 where its module returns int64; any other "
        "dtype of an output is a difference.",
    ),
    ("`ops.clip_by_global_norm`", "divides by max(norm, clip_norm); torch's `clip_grad_norm_` adds 1e-6 to the norm."),
    (
        "`x.transpose`",
        "takes the order of all axes; with two axes of a tensor with more, it exchanges them, as in torch.",
    ),
    (
        "Gradients of frozen Parameters",
        "are zeros, not None, if they are requested by name; an optimizer that has these Parameters still decays them.",
    ),
    (
        "What is differentiated",
        "`grad(f)` is the gradient of the sum of all outputs; give `has_aux=True` for outputs that aren't the loss.",
    ),
)
"""(subject, explanation)."""
