"""The interface of every side: a network that can be run natively and recorded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from .records import Array, Records
from .run import Run


@dataclass(frozen=True)
class ParameterInfo:
    """A parameter or buffer of a side, before the run."""

    data: Array
    trainable: bool


@dataclass(frozen=True)
class OwnNumbers:
    """The numbers of a side.

    Attributes:
        own_precision: whether its outputs have the network's own floating-point dtypes; else it was converted to one
            dtype as a whole.
        perturbations: number of ways in which they can be perturbed (`Numbers.perturbed`).
        quantized: whether it rounds to the codes of quantizers, and can be run from given codes (`Numbers.same_codes`).
    """

    own_precision: bool = True
    perturbations: int = 1
    quantized: bool = False


@dataclass(frozen=True)
class OwnCalls:
    """The calls that can be made of a side.

    Attributes:
        live: whether it runs the user's own code: it takes inputs of other sizes, and has both modes.
        keeps_state: whether it keeps its state from one call to the next (`Call.second`, `Call.before`).
        recorded: whether its runs were recorded elsewhere: it can't be run again.
    """

    live: bool = False
    keeps_state: bool = False
    recorded: bool = False


@dataclass(frozen=True)
class Capabilities:
    """The capabilities of a side.

    Attributes:
        checks: ("meaning", "float64") if it runs in float64, and ("rounding", dtype) if it runs in a dtype whose
            rounding is judged.
        gradients: whether it runs backward.
        cells: where it can be observed and fed: at the boundaries of its own Cells, at places that were found by the
            values there, or at its outputs alone.
        is_port: whether it is a port, whose conventions differ from torch's.
        numbers: what is known of its numbers.
        calls: the calls that can be made.
    """

    checks: tuple[tuple[str, str], ...]
    gradients: bool = True
    cells: Literal["own", "found", "none"] = "own"
    is_port: bool = False
    numbers: OwnNumbers = field(default_factory=OwnNumbers)
    calls: OwnCalls = field(default_factory=OwnCalls)

    @property
    def has_cells(self) -> bool:
        """Whether it can be observed and fed at Cell boundaries."""
        return self.cells != "none"


def native_checks(working_dtype: str) -> tuple[tuple[str, str], ...]:
    """Checks of a side that runs in every dtype; in float64 there is no truth to judge rounding by."""
    rounding = () if working_dtype == "float64" else (("rounding", working_dtype),)
    return (("meaning", "float64"), *rounding)


class Side(Protocol):
    """A network that can be run and recorded."""

    @property
    def name(self) -> str:
        """What it is called in reports."""

    @property
    def capabilities(self) -> Capabilities:
        """What can be asked of it."""

    def run(self, run: Run) -> Records:
        """Run once and return the records; the network is left unchanged."""

    def parameters(self) -> Mapping[str, ParameterInfo]:
        """Parameters by qualified name."""
