"""The exception of all translations between torch, ONNX and programs."""

from __future__ import annotations


class Unsupported(Exception):
    """Raised by a translation for a use of the operator that it doesn't cover; the text says which."""
