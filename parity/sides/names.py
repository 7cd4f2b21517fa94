"""What the sides are called, wherever people name them."""

from __future__ import annotations

INTERPRETER, ONNXRUNTIME, COMPILED = "interpreter", "onnxruntime", "compiled"
CELL, MINDSPORE = "cell", "mindspore"

CONVERSIONS = (INTERPRETER, ONNXRUNTIME)
"""What every module is converted to."""
PORTS = (CELL, MINDSPORE)
"""Frameworks in which a port may be written."""
