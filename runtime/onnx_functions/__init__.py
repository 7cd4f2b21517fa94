"""ONNX operators whose result has a shape that values of their operands decide, written with ops."""

from __future__ import annotations

from . import broadcasting, creating, images, reducing, resizing, selecting, shaping, signals, texts
from .registry import Recipe, get_recipe, recipe

__all__ = [
    "Recipe",
    "broadcasting",
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
