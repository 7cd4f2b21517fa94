"""The exception that translations between torch, ONNX and programs raise."""

from __future__ import annotations


class Unsupported(Exception):
    """Raised by a translation for a use of an operator that it doesn't cover; the message says which use."""
