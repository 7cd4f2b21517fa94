"""How far a quantized network is from the float32 one, in the whole and by Cells, printed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from ...runtime.errors import UsageError
from ...runtime.visible import visible_name
from ..report.globs import list_names
from ..report.layout import echo, paragraph, print_lines
from ..support.progress import ProgressDisplay
from .arguments.export import Precision

if TYPE_CHECKING:
    from ..jobs.deployment.calibration import Calibration
    from ..results.quantization_costs import CellCost, Errors, QuantizationCosts

FLOAT, QUANTIZED = "float32.onnx", "quantized.onnx"


def measure_errors(
    folder: Path, calibration: Calibration, loss: Any, precision: Precision, bits: int
) -> QuantizationCosts:
    """Measure and print how far the quantized file is from the float32 one, and what each Cell costs.

    Args:
        folder: the folder with both files.
        calibration: the inputs.
        loss: the loss of the model file; None if it has none.
        precision: the budget, for which the quantized file is replaced by one that keeps Cells in float32, and whether
            the costs of Cells are asked for.
        bits: of weights.

    Raises:
        UsageError: the budget is about a loss that isn't there, or can't be kept.
    """
    budget, sensitivity = precision.budget, precision.sensitivity
    if budget is not None and budget.what == "loss" and loss is None:
        raise UsageError("--budget loss needs loss(outputs) in the model file")
    from ...runtime.lowering.external_data import model_size
    from ..jobs.deployment.errors import Outputs, seconds_of_run
    from ..jobs.deployment.sensitivity import Sensitivity
    from ..results.quantization_costs import Mixture, QuantizationCosts

    cells: Sequence[CellCost] = []
    alone: Sequence[str] = []
    with ProgressDisplay() as progress:
        progress.stage("errors", None)
        outputs = Outputs.of(folder / FLOAT, calibration, loss)
        together = outputs.errors(folder / QUANTIZED)
        seconds = [seconds_of_run(folder / name, calibration[0]) for name in (FLOAT, QUANTIZED)]
        sizes = [model_size(folder / name) for name in (FLOAT, QUANTIZED)]
        files = [Mixture((), together, sizes[1], seconds[1])]
        exceeded = budget is not None and not budget.holds(together)
        if sensitivity or exceeded:
            measured = Sensitivity(folder / FLOAT, folder, calibration, outputs)
            cells = measured.costs(progress)
            alone = sorted(measured.nodes.keys() - {cell.path for cell in cells})
            if budget is not None and exceeded:
                mixtures = measured.within(budget, cells, folder / QUANTIZED, progress)
                files += [mixture for mixture in mixtures if mixture.kept]
    words = budget.words if budget else ""
    costs = QuantizationCosts(
        bits, len(calibration), sizes[0], seconds[0], tuple(cells), tuple(alone), tuple(files), words
    )
    _print(costs, of_cells=sensitivity)
    return costs


def _print(costs: QuantizationCosts, *, of_cells: bool) -> None:
    """Print the costs; those of each Cell if they were asked for."""
    on = f"on {costs.samples} samples" if costs.samples > 1 else "on one sample"
    if of_cells:
        _print_cells(costs, on)
        if costs.not_measured:
            names = list_names([visible_name(path or "(root)") for path in costs.not_measured])
            _say(f"not measured, because ONNX Runtime refuses the file with one of them alone in 8 bits: {names}\n")
    _say(f"{on[0].upper()}{on[1:]}, in float32: {costs.float_size / 1e6:.3g} MB, {costs.float_seconds * 1e3:.3g} ms")
    for file in costs.files:
        some = f"with {len(file.kept)} of {len(costs.cells)} Cells in float32"
        what = some if file.kept else f"with all Cells in {costs.bits} bits"
        _say(f"{what}: {file.size / 1e6:.3g} MB, {file.seconds * 1e3:.3g} ms, {_in_words(file.errors)}")
    if len(costs.files) > 1:
        kept = ", ".join(visible_name(path or "(root)") for path in costs.files[-1].kept)
        _say(f"kept in float32, for the budget of {costs.budget}: {kept}")
    echo("")


def _in_words(errors: Errors) -> str:
    loss = "" if errors.loss is None else f", the loss changes by {errors.loss:+.2%}"
    return (
        f"the outputs differ from float32's by {errors.outputs:.2%} of their norm, the largest of a row is another in "
        f"{errors.top1:.2%}{loss}"
    )


def _print_cells(costs: QuantizationCosts, on: str) -> None:
    """Print a line for each Cell that costs something."""
    echo(f"{'Cell':<42}{'outputs':>9}{'share':>8}{'loss':>9}{'weights':>11}")
    for cell in costs.cells:
        if not cell.errors.outputs:
            continue
        loss = "" if cell.errors.loss is None else f"{cell.errors.loss:+.2%}"
        name = visible_name(cell.path or "(root)")[-41:]
        share = cell.errors.outputs**2 / costs.squares
        echo(f"{name:<42}{cell.errors.outputs:>9.2%}{share:>8.1%}{loss:>9}{cell.weights:>11,}")
    _say(
        f"Errors with one Cell in 8 bits, relative to the norm of the outputs, {on}, and shares of their squares. "
        f"These add up to {costs.squares**0.5:.2%}, if the errors are independent."
    )
    echo("")


def _say(text: str) -> None:
    console = Console()
    print_lines(paragraph(text, console.width), console)
