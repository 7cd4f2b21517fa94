"""The faults of the ports, two for each pair: one in the code of the port, one in how it gets its weights.

What is written differently is a text that occurs once in the file of the family. The Cells are those of the reference.
"""

from __future__ import annotations

from fixtures.planted_faults.port_edits import PortFault

from . import language, sequences, vision

ALSO_RIGHT = language.ALSO_RIGHT | sequences.ALSO_RIGHT | vision.ALSO_RIGHT
"""By pair and fault, other Cells that are right: rows in another order are also code that reads them wrongly."""

FAULTS: dict[str, list[PortFault]] = {}
for _fault in [*language.FAULTS, *sequences.FAULTS, *vision.FAULTS]:
    FAULTS.setdefault(_fault.network, []).append(_fault)
