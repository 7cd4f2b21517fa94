"""Rewrites of programs for ONNX Runtime: ops without a (correct) kernel are expressed by other ops."""

from __future__ import annotations

from .float64_conv_as_matmul import float64_conv_as_matmul
from .int64_sum_as_matmul import int64_sum_as_matmul
from .rewrite import Rule, rewrite
from .upcast_half_precision import upcast_bfloat16, upcast_half_precision

ON_CPU: tuple[Rule, ...] = (upcast_half_precision, int64_sum_as_matmul, float64_conv_as_matmul)
"""The rewrites that a program needs to run on the CPU, in this order."""

MIXED_ON_CPU: tuple[Rule, ...] = (upcast_bfloat16, float64_conv_as_matmul)
"""The rewrites that parts in bfloat16 and float64 of a program need to run on the CPU.

What is in float16 runs as it is: ONNX Runtime computes it in float32 where it has no kernel."""

__all__ = ["MIXED_ON_CPU", "ON_CPU", "Rule", "rewrite", "upcast_half_precision"]
