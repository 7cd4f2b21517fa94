"""Recognition of known layers by their ops: one table, filled family by family."""

from __future__ import annotations

from . import activation, convolution, normalization, pooling, recurrent, simple
from .table import LAYERS, known_layer

__all__ = ["LAYERS", "activation", "convolution", "known_layer", "normalization", "pooling", "recurrent", "simple"]
