"""How each op is written: one table, filled family by family."""

from __future__ import annotations

from . import arithmetic, networks, shapes
from .table import FORMS, Operation

__all__ = ["FORMS", "Operation", "arithmetic", "networks", "shapes"]
