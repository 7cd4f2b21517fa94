"""ONNX operators whose result has a shape that values of their operands decide, written with ops."""

from __future__ import annotations

from . import creating, images, reducing, resizing, selecting, shaping, signals, texts
from .registry import Recipe, get_recipe, recipe

__all__ = [
    "Recipe",
    "creating",
    "get_recipe",
    "images",
    "recipe",
    "reducing",
    "resizing",
    "selecting",
    "shaping",
    "signals",
    "texts",
]
