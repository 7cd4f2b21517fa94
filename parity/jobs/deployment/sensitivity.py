"""What each Cell costs in 8 bits, and which Cells to keep in float32 so that a budget of errors holds."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ....converter.onnx_in.importing import read_model
from ....runtime.compiled.session import SessionError
from ....runtime.errors import ConversionError, UsageError
from ....runtime.lowering.external_data import model_size, move_model
from ...checking.quantized.tensor_cells import TensorCells
from ...results.quantization_costs import CellCost, Errors, Mixture
from ...support.progress import Progress
from .calibration import Calibration
from .errors import Outputs, seconds_of_run
from .quantizing import quantizable_operators, quantize


@dataclass
class Sensitivity:
    """Measures a network in which Cells are quantized alone, or all but some.

    Attributes:
        source: the float32 file.
        folder: where files are written.
        calibration: inputs from which ranges are taken, and on which errors are measured.
        outputs: what the float32 file computes on them.
        nodes: names of the nodes that are quantized, by path of the Cell.
        weights: number of weights, by path of the Cell.
    """

    source: Path
    folder: Path
    calibration: Calibration
    outputs: Outputs
    nodes: dict[str, list[str]] = field(init=False)
    weights: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        model = read_model(self.source)
        cells, operators = TensorCells(model), quantizable_operators()
        sizes = {tensor.name: int(np.prod(tensor.dims)) for tensor in model.graph.initializer}
        self.nodes, self.weights = {}, {}
        for node in model.graph.node:
            if node.op_type in operators:
                path = cells.of_node(node)
                self.nodes.setdefault(path, []).append(node.name)
                self.weights[path] = self.weights.get(path, 0) + sum(sizes.get(name, 0) for name in node.input)

    def costs(self, progress: Progress) -> list[CellCost]:
        """Quantize one Cell after the other, and return what each costs, the largest error first.

        Left out are Cells that can't be quantized alone: ONNX Runtime refuses some files of its own quantizer.
        """
        progress.stage("sensitivity", len(self.nodes))
        costs = []
        for path in self.nodes:
            with contextlib.suppress(SessionError, ConversionError):
                target = self._quantize([path], "one cell.onnx")
                costs.append(CellCost(path, self.outputs.errors(target), self.weights[path]))
            progress.advance()
        return sorted(costs, key=lambda cost: -cost.errors.outputs)

    def within(self, budget: Budget, costs: Sequence[CellCost], target: Path, progress: Progress) -> list[Mixture]:
        """Write the smallest file within a budget that is found, and return the files that were tried, it last.

        Cells are kept in float32 in the order of their squared error per weight. Errors shrink with each, so the number
        of them is found by bisection.

        Args:
            budget: the largest error.
            costs: the costs of the Cells.
            target: the file to write.
            progress: receives the stage.

        Raises:
            UsageError: not even a single Cell can be quantized.
        """
        progress.stage("budget", None)
        order = [
            cost.path for cost in sorted(costs, key=lambda cost: -(budget.of(cost.errors) ** 2) / (cost.weights + 1))
        ]
        mixtures: dict[int, Mixture] = {}

        def try_keeping(count: int) -> bool:
            try:
                file = self._quantize([path for path in self.nodes if path not in order[:count]], "mixed.onnx")
                errors = self.outputs.errors(file)
            except (SessionError, ConversionError):
                return False
            seconds = seconds_of_run(file, self.calibration[0])
            mixtures[count] = Mixture(tuple(order[:count]), errors, model_size(file), seconds)
            return budget.holds(errors)

        low, high = 0, len(order)  # with all kept, nothing is quantized
        while low < high:
            middle = (low + high) // 2
            if try_keeping(middle):
                high = middle
            else:
                low = middle + 1
        rest = [path for path in self.nodes if path not in order[:low]]
        if low == len(order) or not _has_quantizers(best := self._quantize(rest, target.name)):
            raise UsageError(f"the budget of {budget.words} doesn't hold with any Cell in 8 bits: give a larger one")
        if best != target:
            target.unlink(missing_ok=True)
            move_model(best, target)
        return [mixtures[count] for count in sorted(mixtures, key=lambda count: (count == low, count))]

    def _quantize(self, paths: Collection[str], name: str) -> Path:
        """Quantize these Cells alone."""
        target = self.folder / name
        names = [name for path in paths for name in self.nodes[path]]
        quantize(self.source, target, self.calibration, names, self.folder / "ranges.json")
        return target


def _has_quantizers(path: Path) -> bool:
    """Whether anything is quantized in a file: an activation alone isn't."""
    return any(node.op_type in ("QuantizeLinear", "DequantizeLinear") for node in read_model(path).graph.node)


@dataclass(frozen=True)
class Budget:
    """The largest error that is accepted.

    Attributes:
        what: "outputs", "loss" or "top1".
        largest: the error, as a share.
    """

    what: str
    largest: float

    @property
    def words(self) -> str:
        """The budget, as it is written."""
        return f"{self.what} {self.largest * 100:.3g}%"

    def holds(self, errors: Errors) -> bool:
        """Whether the error is no larger."""
        return self.of(errors) <= self.largest

    def of(self, errors: Errors) -> float:
        """Return the error that the budget is about."""
        if self.what == "loss":
            assert errors.loss is not None, "there is a loss if the budget is about it"
            return abs(errors.loss)
        return errors.top1 if self.what == "top1" else errors.outputs
