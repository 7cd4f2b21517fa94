"""`is_imported`: whether a program was read from an ONNX file."""

from __future__ import annotations

from ...runtime.ir.program import Program


def is_imported(program: Program) -> bool:
    """Whether a program was read from an ONNX file: its nodes come from no line of Python."""
    sources = [node.source for node in program.nodes if node.source is not None]
    return bool(sources) and not any(source.file for source in sources)
