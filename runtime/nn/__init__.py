"""Cells: layers, containers, losses, optimizers, and the Cells that wrap them for training."""

from __future__ import annotations

from .cell import Cell

__all__ = ["Cell"]
