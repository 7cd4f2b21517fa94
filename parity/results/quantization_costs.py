"""`QuantizationCosts`: what 8 or 4 bits cost a network, in the whole, by Cells, and with some Cells in float32."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from .comparison import json_value


@dataclass(frozen=True)
class Errors:
    """The errors of a quantized network against the float32 one, on some inputs.

    Attributes:
        outputs: the norm of the difference of all outputs, relative to their norm.
        top1: the share of rows of the first output whose largest element is at another place.
        loss: the relative change of the loss, of all samples together; None if there is no loss.
    """

    outputs: float
    top1: float
    loss: float | None


@dataclass(frozen=True)
class CellCost:
    """The cost of one Cell in 8 bits, all others in float32.

    Attributes:
        path: path of the Cell.
        errors: the errors of the network.
        weights: number of its weights.
    """

    path: str
    errors: Errors
    weights: int


@dataclass(frozen=True)
class Mixture:
    """A file in which some Cells are kept in float32.

    Attributes:
        kept: paths of these Cells.
        errors: the errors of the network.
        size: bytes of the file.
        seconds: time of a run of ONNX Runtime on one sample, the median of several.
    """

    kept: tuple[str, ...]
    errors: Errors
    size: int
    seconds: float


@dataclass(frozen=True)
class QuantizationCosts:
    """What was measured.

    Attributes:
        bits: of weights.
        samples: number of samples.
        float_size: bytes of the float32 file.
        float_seconds: time of a run of it on one sample.
        cells: what each Cell costs alone, the largest error first; empty if that wasn't measured.
        not_measured: paths of Cells that ONNX Runtime can't run alone in 8 bits.
        files: the file with all Cells in these bits, and those that were tried for a budget, the chosen one last.
        budget: the budget in words; empty for none.
    """

    bits: int
    samples: int
    float_size: int
    float_seconds: float
    cells: tuple[CellCost, ...]
    not_measured: tuple[str, ...]
    files: tuple[Mixture, ...]
    budget: str = ""

    @property
    def squares(self) -> float:
        """The sum of the squares of the errors of the outputs, of which each Cell has a share."""
        return sum(cell.errors.outputs**2 for cell in self.cells)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON values."""

        def values(item: Any) -> Any:
            if isinstance(item, dict):
                return {key: values(value) for key, value in item.items()}
            return [values(value) for value in item] if isinstance(item, (tuple, list)) else json_value(item)

        result: dict[str, Any] = values(asdict(self))
        return result
