"""The optimizers of ONNX Runtime that change a result: those that must be left out for it to be right."""

from __future__ import annotations

import re

from .experiment import Experiment, Settings

RULES = (
    "EliminateIdentity",
    "EliminateSlice",
    "EliminateDropout",
    "UnsqueezeElimination",
    "ExpandElimination",
    "CastElimination",
    "CastChainElimination",
    "PreShapeNodeElimination",
    "NoopElimination",
    "DivMulFusion",
    "FuseReluClip",
    "GemmSumFusion",
    "GemmTransposeFusion",
    "NotWhereFusion",
    "ConvAddFusion",
    "ConvMulFusion",
    "ConvBNFusion",
    "Pad_Fusion",
    "MatMul_BatchNormalization_Fusion",
    "LabelEncoderFusion",
    "ClipQuantRewrite",
    "ReluQuantRewrite",
)
"""The rules of the rule-based optimizers, which the log doesn't name one by one.

Source: `GenerateRewriteRules` of onnxruntime/core/optimizer/graph_transformer_utils.cc, ONNX Runtime 1.31.
"""

_MODIFIED = re.compile(r"GraphTransformer (\w+) modified: 1")
_RULE_BASED = re.compile(r"Level\d_RuleBasedTransformer")


def optimizers_in(log: str) -> list[str]:
    """Return the names of the optimizers that have changed the graph, from ONNX Runtime's log."""
    return list(dict.fromkeys(_MODIFIED.findall(log)))


def responsible(experiment: Experiment, names: list[str]) -> list[str]:
    """Return the fewest optimizers found without which the result is right; none if it stays wrong without all.

    Each is left out alone first. If several must be left out together, as where one does what another would have done,
    those that needn't be are put back one by one.

    Raises:
        BudgetSpentError: the time for the search is over.
    """
    names = _with_rules(names)

    def suffices(left_out: list[str]) -> bool:
        return experiment.is_right(Settings(disabled=tuple(left_out)))

    for name in names:
        if suffices([name]):
            return [name]
    if not names or not suffices(names):
        return []
    needed = names
    for name in names:
        rest = [other for other in needed if other != name]
        if suffices(rest):
            needed = rest
    return needed


def _with_rules(names: list[str]) -> list[str]:
    """Return the names with the rules of the rule-based optimizers in place of these."""
    rules = list(RULES) if any(map(_RULE_BASED.fullmatch, names)) else []
    others = [name for name in names if not _RULE_BASED.fullmatch(name)]
    return others + rules
