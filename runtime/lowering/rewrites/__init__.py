"""Rewrites of programs for ONNX Runtime: ops without a (correct) kernel are expressed by other ops."""

from __future__ import annotations

from .float64_conv_as_matmul import float64_conv_as_matmul
from .int64_sum_as_matmul import int64_sum_as_matmul
from .rewrite import Rule, rewrite
from .upcast_half_precision import upcast_half_precision

ON_CPU: tuple[Rule, ...] = (upcast_half_precision, int64_sum_as_matmul, float64_conv_as_matmul)
"""The rewrites that a program needs to run on the CPU, in this order."""

__all__ = ["ON_CPU", "Rule", "rewrite", "upcast_half_precision"]
