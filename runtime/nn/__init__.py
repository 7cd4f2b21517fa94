"""Cells: layers, containers, losses, optimizers, and the Cells that wrap them for training."""

from __future__ import annotations

from .cell import Cell
from .graph_cell import GraphCell
from .layer.container import CellDict, CellList, SequentialCell

__all__ = ["Cell", "CellDict", "CellList", "GraphCell", "SequentialCell"]
