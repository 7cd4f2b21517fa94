"""Every operator that torch calls core, and every one that real models are made of, has a translation."""

from __future__ import annotations

import torch

from cellbridge.converter.capture.decompositions import decompositions
from cellbridge.converter.capture.numbers import ELEMENT
from cellbridge.converter.capture.tables.complex_table import COMPLEX
from cellbridge.converter.capture.tables.table import TABLE

NOT_TRANSLATED = {
    "aten._adaptive_avg_pool2d_backward.default": "of a backward pass: programs are differentiated by themselves",
    "aten.avg_pool2d_backward.default": "of a backward pass",
    "aten.convolution_backward.default": "of a backward pass",
    "aten._native_batch_norm_legit.default": "it changes its operands; its functional form comes in its place",
    "aten.atan2.out": "it writes to an operand",
    "aten.sym_numel.default": "a number, which capture knows as a size",
    "aten.sym_storage_offset.default": "a number, which nothing but checks takes",
    "aten._embedding_bag.default": "torch.export leaves embedding_bag whole",
    "aten.resize_.default": "it changes its operand; its functional form comes in its place",
}


def core() -> set[str]:
    packets = (getattr(torch.ops.aten, name) for name in dir(torch.ops.aten))
    overloads = [getattr(p, name) for p in packets if hasattr(p, "overloads") for name in p.overloads()]
    return {str(op) for op in overloads if torch.Tag.core in op.tags}


def test_core_operators_are_translated_or_taken_apart() -> None:
    known = set(TABLE) | set(COMPLEX) | {str(op) for op in decompositions()} | {str(op) for op in ELEMENT}
    missing = core() - known
    assert missing - set(NOT_TRANSLATED) == set()
    assert len(core()) > 150
