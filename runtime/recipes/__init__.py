"""ONNX operators whose result has a shape that values of their operands decide, written with ops."""

from __future__ import annotations

from . import creating, reducing, resizing, selecting, shaping
from .registry import Recipe, get_recipe, recipe

__all__ = ["Recipe", "creating", "get_recipe", "recipe", "reducing", "resizing", "selecting", "shaping"]
