"""`Correspondence`: which Cells and parameters of another side are which of the reference's, and how that was found.

Each way of pairing (`parity/pairing`, names of recordings) ends in one, and a report shows nothing else of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

ROOT, NAME, GIVEN, HABIT = "root", "name", "given", "habit"
"""How a Cell was found without a look at what is computed: as the whole network, by its path, as the user says, or by
the names that another framework has for it by habit."""
VALUES, FOLLOWING, NODE_PATHS = "values", "values that follow", "paths of nodes"
"""How a Cell was found by what is computed: by the values at its boundaries; where these are wrong, by those that
follow, or by what a file says."""


@dataclass(frozen=True, slots=True)
class CarriedWeight:
    """The source of the value of a Cell's Parameter.

    Attributes:
        parameter: path of the Parameter.
        source: names of the module's parameters, and how their layout was changed.
        how: "layer", "name", "shape", "habit", "given", "values", "absent there" or "own value".
        layout: how it is made of them, where it was found by what both networks compute: "joined", "a part",
            "transposed", "in another order" or "in another shape", or several; or "merged"; else empty.
    """

    parameter: str
    source: str
    how: str
    layout: str = ""

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values."""
        return {"parameter": self.parameter, "source": self.source, "how": self.how, "layout": self.layout}


@dataclass(frozen=True, slots=True)
class PairedCell:
    """A module and the Cell that is its port, or a module or Cell without a counterpart.

    Attributes:
        module: path of the module.
        module_class: class of the module; empty for a Cell that is the port of no module.
        cell: path of the Cell.
        cell_class: class of the Cell; empty for a module without a port.
        how: how the pair was found: "root", "name", "position", "class and order", "habit" or "given"; or by what is
            computed: "values", "values that follow" (after a wrong one) or "paths of nodes" (in a file).
        apart: why the two can't be compared (they are called differently); their computation is then judged in the
            Cells around them. Empty if they can be compared.
        is_part: whether the module is a part of what the Cell computes, which has no Cell of its own for it.
        layout: how the candidate has the module's tensors, if not as they are: "another layout", "joined", "split"
            or "merged" (in the weights of others).
    """

    module: str = ""
    module_class: str = ""
    cell: str = ""
    cell_class: str = ""
    how: str = ""
    apart: str = ""
    is_part: bool = False
    layout: str = ""

    @property
    def is_by_values(self) -> bool:
        """Whether the pair was found by what both networks compute."""
        return self.how in (VALUES, FOLLOWING, NODE_PATHS)

    @property
    def is_by_path(self) -> bool:
        """Whether both have the same path, by which they were found, or are the whole networks."""
        return self.how in (ROOT, NAME) and self.module == self.cell and not self.apart

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values, with null for a missing module or Cell."""
        return {
            "module": self.module if self.module_class else None,
            "module_class": self.module_class or None,
            "cell": self.cell if self.cell_class else None,
            "cell_class": self.cell_class or None,
            "how": self.how,
            "apart": self.apart,
            "is_part": self.is_part,
            "layout": self.layout,
        }


@dataclass(frozen=True)
class Correspondence:
    """How the parts of another side correspond to those of the reference.

    Attributes:
        cells: pairs of Cells, and Cells without a partner; empty where all are paired by their paths.
        parameters: parameters of the other side that are made of the reference's, with these.
    """

    cells: Sequence[PairedCell] = ()
    parameters: Sequence[CarriedWeight] = ()

    @classmethod
    def by_names(cls, cells: Sequence[PairedCell], parameters: Sequence[CarriedWeight] = ()) -> Correspondence:
        """Return that of two sides that are paired by names: without Cells if all of these have the same paths."""
        return cls(() if all(pair.is_by_path for pair in cells) else tuple(cells), tuple(parameters))

    @property
    def unpaired(self) -> list[str]:
        """Paths of the modules that aren't compared with a Cell: they have no port, or it is called differently."""
        return [pair.module for pair in self.cells if pair.module_class and (pair.apart or not pair.cell_class)]

    @property
    def lone_cells(self) -> list[str]:
        """The Cells that are the port of no module, as `path (class)`."""
        return [f"{pair.cell} ({pair.cell_class})" for pair in self.cells if not pair.module_class]

    def pair_of(self, path: str) -> PairedCell | None:
        """The Cell of the other side that a module is compared with; None if that isn't a matter of pairing."""
        return next(
            (p for p in self.cells if p.module == path and p.module_class and p.cell_class and not p.apart), None
        )

    def joined(self, other: Correspondence) -> Correspondence:
        """Return this one with that of another side."""
        return Correspondence((*self.cells, *other.cells), (*self.parameters, *other.parameters))
