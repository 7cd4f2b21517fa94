"""The table: losses."""

from __future__ import annotations

from typing import Any

import numpy as np

from .entry import Difference, Finding, LayerPair, argument
from .reading import MISSING, format_value, read_argument, same

MARGINS = (
    "HingeEmbeddingLoss", "MarginRankingLoss", "CosineEmbeddingLoss", "TripletMarginLoss", "MultiMarginLoss",
    "TripletMarginWithDistanceLoss",
)  # fmt: skip
REDUCED = (
    "MSELoss", "L1Loss", "MAELoss", "SmoothL1Loss", "HuberLoss", "BCELoss", "BCEWithLogitsLoss", "KLDivLoss",
    "NLLLoss", "CrossEntropyLoss", "SoftmaxCrossEntropyWithLogits", "GaussianNLLLoss", "PoissonNLLLoss",
    "SoftMarginLoss", "MultilabelMarginLoss", "MultiLabelSoftMarginLoss", *MARGINS,
)  # fmt: skip
LOGITS = ("SoftmaxCrossEntropyWithLogits",)
CLASSES = ("CrossEntropyLoss", "NLLLoss")


def _reduction(pair: LayerPair) -> Any:
    reduction = read_argument(pair.cell, "reduction")
    if reduction is not MISSING:
        return reduction
    average, reduce = (
        read_argument(pair.cell, "average"),
        read_argument(pair.cell, "reduce"),
    )  # as MindSpore's LossBase stores it
    if MISSING in (average, reduce):
        return MISSING
    return "none" if not reduce else "mean" if average else "sum"


def _sparse(pair: LayerPair) -> Finding | None:
    """Find the wrong kind of labels, judging by those that the module got."""
    if len(pair.inputs) < 2:
        return None
    indices = np.issubdtype(pair.inputs[1].dtype, np.integer)
    if pair.cell.sparse is indices:
        return None
    labels = "class indices" if indices else "probabilities"
    return Finding(f"sparse={pair.cell.sparse}", f"labels={labels}", f"sparse={indices}")


def _only_cross_entropy(name: str, default: Any, rule: str) -> Difference:
    """Return an entry about an argument that CrossEntropyLoss has and SoftmaxCrossEntropyWithLogits lacks."""

    def find(pair: LayerPair) -> Finding | None:
        value = read_argument(pair.module, name)
        if value is None or same(value, default):
            return None
        text = format_value(value) if isinstance(value, float) else "..."
        return Finding(f"{name}={default}", f"{name}={format_value(value)}", f"nn.CrossEntropyLoss({name}={text})")

    return Difference(LOGITS, "", name, find, rule)


def _ignored_labels(pair: LayerPair) -> Finding | None:
    if len(pair.inputs) < 2 or pair.cell.sparse is not True:
        return None
    ignore_index = pair.module.ignore_index
    count = int((pair.inputs[1] == ignore_index).sum())
    if not count:
        return None
    return Finding(
        f"ignore_index=none (the mean is over all {pair.inputs[1].size} labels)",
        f"ignore_index={ignore_index} (the mean leaves {count} out)",
        f"nn.CrossEntropyLoss(ignore_index={ignore_index})",
    )


def _log_target(pair: LayerPair) -> Finding | None:
    if read_argument(pair.module, "log_target") is not True:
        return None
    return Finding("log_target=False (there is no other)", "log_target=True", "ops.exp(labels)")


def _weight(layers: tuple[str, ...], name: str) -> Difference:
    return argument(layers, name, write=lambda value: f"{name}={'None' if value is None else 'Tensor(...)'}")


LOSSES = (
    argument(
        REDUCED, "reduction", rule="'mean' as in torch, but **'none'** for SmoothL1Loss and "
        "SoftmaxCrossEntropyWithLogits.",
        of_cell=_reduction,
    ),
    Difference(
        LOGITS, "sparse", "labels", _sparse,
        "`sparse=False` takes one-hot labels in floating point, `sparse=True` class indices, int32 or int64; torch "
        "looks at the labels.",
    ),
    _only_cross_entropy("label_smoothing", 0.0, "nn.CrossEntropyLoss has it."),
    _only_cross_entropy("weight", None, "nn.CrossEntropyLoss has it."),
    Difference(
        LOGITS, "", "ignore_index", _ignored_labels,
        "A negative label counts as a loss of 0, and the mean is over all labels; nn.CrossEntropyLoss leaves it out.",
    ),
    argument(CLASSES, "ignore_index"),
    argument(("CrossEntropyLoss",), "label_smoothing"),
    _weight((*CLASSES, "BCELoss", "BCEWithLogitsLoss", "MultiLabelSoftMarginLoss", "MultiMarginLoss"), "weight"),
    _weight(("BCEWithLogitsLoss",), "pos_weight"),
    Difference(("KLDivLoss",), "", "log_target", _log_target, "Labels are probabilities, never their logarithms."),
    argument(("SmoothL1Loss",), "beta"),
    argument(("HuberLoss",), "delta"),
    argument(MARGINS, "margin"),
    argument(("TripletMarginLoss", "MultiMarginLoss"), "p"),
    argument(("TripletMarginLoss", "TripletMarginWithDistanceLoss"), "swap"),
    argument(("PoissonNLLLoss",), "log_input"),
    argument(("PoissonNLLLoss", "GaussianNLLLoss"), "full"),
    argument(("PoissonNLLLoss", "GaussianNLLLoss", "TripletMarginLoss"), "eps"),
)  # fmt: skip
