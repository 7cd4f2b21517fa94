"""Graph mode: tracing turns Python code on Tensors into a program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import lazy_getattr

if TYPE_CHECKING:
    from .cache import CacheInfo
    from .compiling import Jitted, jit
    from .traced import TracedProgram, trace

__all__ = ["CacheInfo", "Jitted", "TracedProgram", "jit", "trace"]

__getattr__ = lazy_getattr(
    __name__,
    {"CacheInfo": "cache", "Jitted": "compiling", "TracedProgram": "traced", "jit": "compiling", "trace": "traced"},
)
