"""The table: normalization layers."""

from __future__ import annotations

from typing import Any

from .entry import Difference, Finding, LayerPair, argument
from .reading import MISSING, format_value, is_mindspore, read_argument

BATCH_NORMS = ("BatchNorm2d", "BatchNorm1d", "BatchNorm3d", "SyncBatchNorm")
INSTANCE_NORMS = ("InstanceNorm2d", "InstanceNorm1d", "InstanceNorm3d")


def _momentum(pair: LayerPair) -> Any:
    value = read_argument(pair.cell, "momentum", "bn2d.momentum")
    # MindSpore's batch norms store the weight of the new statistic
    is_new_weight = is_mindspore(pair.cell) and "BatchNorm" in pair.name
    return 1 - value if is_new_weight and value is not MISSING else value


def _old_weight(pair: LayerPair, new_weight: Any) -> Any:
    """The Cell's equivalent of torch's momentum; `MISSING` without moving statistics, or if they are plain means."""
    if new_weight is None or read_argument(pair.module, "running_mean") is None:
        return MISSING
    return 1 - new_weight


def _cumulative(pair: LayerPair) -> Finding | None:
    if read_argument(pair.module, "momentum") is not None or read_argument(pair.module, "running_mean") is None:
        return None
    return Finding(
        f"momentum={format_value(_momentum(pair))}",
        "momentum=None (the mean over all batches)",
        "the same number on both sides: Cells have moving statistics only",
    )


def _statistics(pair: LayerPair) -> Finding | None:
    use_batch_statistics = read_argument(pair.cell, "use_batch_statistics", "bn2d.use_batch_statistics")
    tracks = read_argument(pair.module, "running_mean") is not None
    if use_batch_statistics is MISSING or use_batch_statistics is (None if tracks else True):
        return None
    return Finding(
        f"use_batch_statistics={use_batch_statistics}",
        f"track_running_stats={tracks}",
        f"use_batch_statistics={None if tracks else True}",
    )


def _instance_statistics(pair: LayerPair) -> Finding | None:
    if read_argument(pair.module, "running_mean") is None:
        return None
    return Finding(
        "use of moving statistics=never",
        "track_running_stats=True (they are used in eval mode)",
        "ops.batch_norm with them, for inference",
    )


def _affine(pair: LayerPair) -> Finding | None:
    """Find gamma and beta that are trained here and absent there."""
    trained = read_flag(pair.cell, "gamma", "bn2d.gamma")
    if read_argument(pair.module, "weight") is not None or trained is not True:
        return None
    absent = "elementwise_affine=False" if hasattr(pair.module, "elementwise_affine") else "affine=False"
    write = "gamma.requires_grad = False, beta.requires_grad = False" if pair.name == "LayerNorm" else "affine=False"
    return Finding("gamma.requires_grad=True", absent, write)


def read_flag(cell: Any, *names: str) -> Any:
    """Whether the first existing Parameter of these names is trained."""
    return read_argument(cell, *(f"{name}.requires_grad" for name in names))


def _normalized_axes(pair: LayerPair) -> Finding | None:
    shape, begin = read_argument(pair.cell, "normalized_shape"), read_argument(pair.cell, "begin_norm_axis")
    params = read_argument(pair.cell, "begin_params_axis")
    needed = tuple(pair.module.normalized_shape)
    if MISSING in (shape, begin, params):
        return None
    count, rank = len(needed), len(pair.shape) if pair.shape else None
    right = {-count} if rank is None else {-count, rank - count}
    write = [] if shape == needed else [f"normalized_shape={format_shape(needed)}"]
    for name, value in (("begin_norm_axis", begin), ("begin_params_axis", params)):
        if value not in right and not (rank is None and value >= 0):
            write.append(f"{name}={-count}")
    if not write:
        return None
    axes = f", begin_norm_axis={begin}, begin_params_axis={params}" if len(write) > (shape != needed) else ""
    return Finding(
        f"normalized_shape={format_shape(shape)}{axes}", f"normalized_shape={format_shape(needed)}", ", ".join(write)
    )


def format_shape(shape: tuple[int, ...]) -> str:
    """Format a shape as code, with all its sizes."""
    return f"({shape[0]},)" if len(shape) == 1 else str(shape)


def _layer_norm_bias(pair: LayerPair) -> Finding | None:
    if read_argument(pair.module, "weight") is None or read_argument(pair.module, "bias") is not None:
        return None
    if read_flag(pair.cell, "beta") is not True:
        return None
    return Finding("beta.requires_grad=True", "bias=False", "beta.requires_grad = False")


NORMALIZATION = (
    argument(
        BATCH_NORMS, "momentum",
        rule="Counted from the other end: the weight of the old statistic here (0.9), of the new one in torch (0.1). "
        "Write `momentum=1 - momentum`.",
        of_cell=_momentum, needed=_old_weight, meaning=("the old statistic's weight", "the new one's"),
    ),
    Difference(
        (*BATCH_NORMS, *INSTANCE_NORMS), "momentum", "momentum", _cumulative,
        "torch's `momentum=None` averages over all batches; Cells can't.",
    ),
    argument(BATCH_NORMS, "eps", of_cell=lambda pair: read_argument(pair.cell, "eps", "bn2d.eps")),
    Difference(
        BATCH_NORMS, "use_batch_statistics", "track_running_stats", _statistics,
        "`use_batch_statistics=None`, by training, is torch's default; `True` is `track_running_stats=False`.",
    ),
    argument(
        BATCH_NORMS, "num_features", of_cell=lambda pair: read_argument(pair.cell, "num_features", "bn2d.num_features")
    ),
    argument(
        ("LayerNorm",), "epsilon", "eps", "Another name, and another default: **1e-7** here, 1e-5 in torch."
    ),
    Difference(
        ("LayerNorm",), "normalized_shape, begin_norm_axis, begin_params_axis", "normalized_shape", _normalized_axes,
        "A tuple, even for one size. For more than the last axis, `begin_norm_axis` and `begin_params_axis` must be "
        "`-len(normalized_shape)`: by default only the last axis is normalized.",
    ),
    Difference(("LayerNorm",), "beta.requires_grad", "bias", _layer_norm_bias, "LayerNorm always has a beta."),
    argument(("GroupNorm", *INSTANCE_NORMS), "eps"),
    argument(("GroupNorm",), "num_groups"),
    argument(("GroupNorm",), "num_channels"),
    argument(
        INSTANCE_NORMS, "momentum",
        rule="Counted from the other end, although the default is 0.1 on both sides; without effect unless torch's "
        "layer has `track_running_stats=True`.",
        needed=_old_weight, meaning=("the old statistic's weight", "the new one's"),
    ),
    Difference(
        INSTANCE_NORMS, "use of moving statistics", "track_running_stats", _instance_statistics,
        "Moving statistics are kept in training, but an instance is always normalized by its own.",
    ),
    argument(INSTANCE_NORMS, "num_features"),
    Difference(
        (*BATCH_NORMS, *INSTANCE_NORMS, "GroupNorm", "LayerNorm"), "affine", "affine, elementwise_affine", _affine,
        "gamma and beta are always there; `affine=False` freezes them. InstanceNorm layers have `affine=True` by "
        "default, torch's don't. LayerNorm has no such argument: freeze them.",
    ),
)  # fmt: skip
