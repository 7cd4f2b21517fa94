"""The table: activations."""

from __future__ import annotations

from typing import Any

from .entry import Difference, Finding, LayerPair, argument
from .reading import MISSING, format_value, read_argument

ALONG_AXIS = ("Softmax", "LogSoftmax", "Softmin", "GLU")


def _approximate(pair: LayerPair) -> Any:
    value = read_argument(pair.cell, "approximate")
    return MISSING if value is MISSING else value in (True, "tanh")


def _fast_gelu(pair: LayerPair) -> Finding | None:
    approximate = read_argument(pair.module, "approximate")
    return Finding(
        "x * sigmoid(1.702 * x)",
        f"approximate={approximate!r}",
        f"nn.GELU(approximate={approximate == 'tanh'})",
    )


def _axis(pair: LayerPair) -> Any:
    axis = read_argument(pair.cell, "axis", "dim", "softmax.axis", "log_softmax.axis")
    return axis[0] if isinstance(axis, tuple) and len(axis) == 1 else axis


def _dim(pair: LayerPair) -> Any:
    """torch's axis, or its default choice if none is given."""
    dim = pair.module.dim
    if dim is None and pair.shape is not None:
        return 0 if len(pair.shape) in (0, 1, 3) else 1
    return MISSING if dim is None else dim


def _same_axis(pair: LayerPair, dim: int) -> Any:
    """`MISSING` if the Cell's axis is the same one, counted from the other end."""
    axis, rank = _axis(pair), len(pair.shape) if pair.shape else None
    other_end = axis is not MISSING and (axis < 0) != (dim < 0)
    return MISSING if other_end and (rank is None or axis % rank == dim % rank) else dim


def _random_slopes(pair: LayerPair) -> Finding:
    lower, upper = pair.module.lower, pair.module.upper
    return Finding(
        "slopes in eval mode=drawn",
        f"slopes in eval mode={format_value((lower + upper) / 2)}",
        f"nn.LeakyReLU(alpha={format_value((lower + upper) / 2)}) for inference",
    )


def _response(name: str, module_argument: str, convert: Any, rule: str = "") -> Difference:
    return argument(
        ("LRN",), name, module_argument, rule, of_module=lambda pair: read_argument(pair.module, module_argument),
        needed=lambda pair, value: convert(value, pair.module.size),
    )  # fmt: skip


ACTIVATION = (
    argument(
        ("GELU",), "approximate", rule="The Cell approximates with tanh by default (`True`); torch doesn't "
        "(`'none'`), and neither does `ops.gelu`.",
        of_cell=_approximate, needed=lambda pair, value: value == "tanh",
    ),
    Difference(("FastGelu",), "", "approximate", _fast_gelu, "An approximation without tanh, which torch lacks."),
    argument(("LeakyReLU",), "alpha", "negative_slope", "Another default: **0.2** here, 0.01 in torch."),
    argument(
        ALONG_AXIS, "axis", "dim", "-1 by default; torch chooses 0 or 1 by the number of dimensions, and warns.",
        of_cell=_axis, of_module=_dim, needed=_same_axis,
    ),
    argument(("ELU",), "alpha", of_cell=lambda pair: read_argument(pair.cell, "alpha", "elu.alpha")),
    argument(("CELU",), "alpha", of_cell=lambda pair: read_argument(pair.cell, "alpha", "celu.alpha")),
    argument(("Hardtanh",), "min_val"),
    argument(("Hardtanh",), "max_val"),
    argument(("SoftShrink",), "lambd"),
    argument(("HShrink",), "lambd"),
    argument(("Threshold",), "threshold"),
    argument(("Threshold",), "value"),
    argument(
        ("PReLU",), "channel", "num_parameters",
        "Another name. The slopes are the Parameter `a`, 0.25 by default on both sides.",
        of_cell=lambda pair: int(pair.cell.w.shape[0]), of_module=lambda pair: pair.module.num_parameters,
    ),
    argument(("RReLU",), "lower"),
    argument(("RReLU",), "upper"),
    Difference(
        ("RReLU",), "", "training", _random_slopes, "Slopes are random in eval mode too; torch uses their mean there."
    ),
    _response("depth_radius", "size", lambda value, size: value // 2, "The window is `2 * depth_radius + 1`."),
    _response("alpha", "alpha", lambda value, size: value / size, "torch divides alpha by the size of the window."),
    _response("beta", "beta", lambda value, size: value, "0.5 by default, in torch 0.75."),
    _response("bias", "k", lambda value, size: value, "Another name."),
)  # fmt: skip
