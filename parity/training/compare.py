"""Training parity: a torch module and its port, each trained by its own script from the same weights and data.

After every step, every parameter and buffer is judged as `judge` describes: in float64 both sides agree up to the
rounding of double precision; in the working dtype the port's error against the float64 truth is at most a few times
torch's own, which is measured.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ...converter.capture.wrappers import unwrap_arguments
from ...converter.exclusive import one_at_a_time
from ...runtime.errors import UsageError
from ...runtime.programs.call import as_array
from ..options import Options
from ..pairing.cells import pair_up
from ..report.training_report import TrainingReport
from ..sides.known_frameworks import framework_of
from ..weights.mapping import Weights, carry
from .quantities import LOSS, TrainingRecord
from .script_proofs import ScriptProofs
from .scripts import CellTraining, TorchTraining, TrainingScript
from .trial import TrainingNoise, judge_training_side


@one_at_a_time
@unwrap_arguments
def compare_training(
    module: torch.nn.Module,
    cell: Any,
    train_module: TrainingScript,
    train_cell: TrainingScript,
    data: Iterable[Any],
    *,
    dtype: str = "float32",
    seed: int = 0,
    cells: Mapping[str, str] | None = None,
    weights: Mapping[Any, Any] | None = None,
) -> TrainingReport:
    """Train a module and its port, and compare parameters, buffers and losses after each step.

    Both networks are left unchanged. The port replays torch's random draws (dropout), in order.

    Args:
        module: the reference.
        cell: its port.
        train_module: `train_module(network, batches)` trains the network and yields after each step; a number that it
            yields is compared as the loss. It is called several times, also with everything in float64.
        train_cell: the same function for the Cell.
        data: the batches: arrays or torch tensors, in tuples, lists or dicts. Each script gets them as tensors of its
            framework, the floating-point ones in the dtype to train in.
        dtype: working dtype.
        seed: seed of torch's random numbers.
        cells: pairs of Cells and modules; see `parity.compare`.
        weights: how weights are carried over; see `parity.compare`.

    Returns:
        The report.

    Raises:
        UsageError: `cell` isn't a Cell, `train_module` makes no step, or the parameters can't be matched unambiguously.
    """
    framework = framework_of(cell)
    if framework is None:
        raise UsageError(f"the port must be a Cell, given {type(cell).__name__}")
    working = Options(dtype=dtype).dtype
    port_weights = carry(module, cell, pair_up(module, cell, cells), weights, getattr(torch, working))
    batches = [pytree.tree_map_only(torch.Tensor, as_array, batch) for batch in data]
    reference = TorchTraining(module, train_module, batches, working, seed)
    port = CellTraining(framework, cell, train_cell, batches, port_weights, working)
    truth = reference.run("float64")
    if not truth.steps:
        raise UsageError("train_module yielded nothing: it must yield after each step")
    report = TrainingReport(type(module).__name__, [port.name], working, len(truth.steps))

    @functools.cache
    def noise(_check: str, in_dtype: str) -> TrainingNoise:
        def run(dtype: str, jitter: int | None, units: float) -> TrainingRecord:
            return reference.run(dtype, truth.draws, jitter, units)

        return TrainingNoise(run, truth, in_dtype, run(in_dtype, None, 0.5))

    proofs = ScriptProofs(reference, cell, truth.draws, cells, weights)
    first = judge_training_side(report, port, truth, noise, lambda run: _problems(port_weights, truth, run), proofs)
    if first is not None:
        report.notes += _notes(port_weights, truth, first)
    return report


def _problems(weights: Weights, truth: TrainingRecord, run: TrainingRecord) -> Iterator[str]:
    """Yield the differences other than in numbers."""
    for mismatch in weights.mismatches:
        yield f"{mismatch.name}: {mismatch.reason}"
    for name, trained in truth.trained.items():
        if run.trained.get(name, trained) != trained:
            here, there = ("frozen", "trained") if trained else ("trained", "frozen")
            yield f"{name}: {here} in the port, {there} in torch"
    counts = {
        "made {} steps": (len(run.steps), len(truth.steps)),
        "drew random numbers {} times": (len(run.draws), len(truth.draws)),
    }
    for what, (ours, theirs) in counts.items():
        if ours != theirs:
            yield f"the port {what.format(ours)}, torch {theirs}"
    if (LOSS in truth.steps[0]) != all(LOSS in step for step in run.steps):
        yield f"only {'torch' if LOSS in truth.steps[0] else 'the port'} yielded a loss"


def _notes(weights: Weights, truth: TrainingRecord, run: TrainingRecord) -> Iterator[str]:
    """Yield notes on what couldn't be compared."""
    there = {quantity.name for quantity in truth.start.keys() - run.start.keys()}
    there -= weights.ignored | {mismatch.name for mismatch in weights.mismatches}
    if there:
        yield f"not compared, since no Parameter of the port is computed from it: {', '.join(sorted(there))}"
