"""Graph mode: Python that computes with Tensors becomes a program."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import lazily

if TYPE_CHECKING:
    from .traced import TracedProgram, trace

__all__ = ["TracedProgram", "trace"]

__getattr__ = lazily(__name__, {"TracedProgram": "traced", "trace": "traced"})
