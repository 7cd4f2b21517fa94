"""The names of the sides in options and reports."""

from __future__ import annotations

INTERPRETER, ONNXRUNTIME, COMPILED = "interpreter", "onnxruntime", "compiled"
CELL, MINDSPORE = "cell", "mindspore"

CONVERSIONS = (INTERPRETER, ONNXRUNTIME)
"""Sides that every module is converted to."""
PORTS = (CELL, MINDSPORE)
"""Frameworks in which a port may be written."""
