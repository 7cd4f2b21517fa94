"""ONNX operators whose output shapes depend on the values of their operands, composed of ops."""

from __future__ import annotations

from . import broadcasting, creating, images, reducing, resizing, selecting, shaping, signals, tfidf
from .registry import OnnxFunction, get_onnx_function, onnx_function

__all__ = [
    "OnnxFunction",
    "broadcasting",
    "creating",
    "get_onnx_function",
    "images",
    "onnx_function",
    "reducing",
    "resizing",
    "selecting",
    "shaping",
    "signals",
    "tfidf",
]
