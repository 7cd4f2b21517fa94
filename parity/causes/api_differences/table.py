"""All differences between the two APIs, by family, for reports and documentation."""

from __future__ import annotations

from .activation import ACTIVATION
from .convolution import CONVOLUTION, POOLING
from .entry import Difference
from .functions import FUNCTIONS, FunctionDifference
from .general import GENERAL
from .layers import LAYERS
from .losses import LOSSES
from .normalization import NORMALIZATION
from .notes import NOTES
from .optimizers import OPTIMIZERS
from .recurrent import SEQUENCES

__all__ = ["FUNCTIONS", "LAYER_TABLE", "NOTES", "OPTIMIZER_TABLE", "Difference", "FunctionDifference"]

LAYER_TABLE: dict[str, tuple[Difference, ...]] = {
    "Any layer": GENERAL,
    "Convolution": CONVOLUTION,
    "Pooling": POOLING,
    "Normalization": NORMALIZATION,
    "Activations": ACTIVATION,
    "Dense, embedding, dropout, shapes": LAYERS,
    "Recurrent layers and attention": SEQUENCES,
    "Losses": LOSSES,
}
"""Differences between modules and Cells, by family."""

OPTIMIZER_TABLE: tuple[Difference, ...] = OPTIMIZERS
"""Differences between optimizers."""
