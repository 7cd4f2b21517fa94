"""Training parity: a torch module and its port or another one, each trained by its own script from the same weights.

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

from ....converter.capture.wrappers import unwrap_arguments
from ....converter.exclusive import one_at_a_time
from ....runtime.errors import UsageError
from ....runtime.programs.call import as_array
from ...correspondence.cells import pair_up
from ...options import Options
from ...report.training_report import TrainingReport
from ...sides.kinds import Kind
from ...sides.known_frameworks import framework_of
from ...sides.opening import in_words, kind_of, require_module
from ...weights.mapping import carry
from .quantities import LOSS, TrainingRecord
from .script_proofs import ScriptProofs
from .scripts import CellTraining, ScriptSide, TorchTraining, TrainingScript
from .torch_candidate import TorchCandidate
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
    """Train a module and its port, or another module, and compare parameters, buffers and losses after each step.

    Both networks are left unchanged. The second gets the weights of the first, and replays its random draws (dropout),
    in order.

    Args:
        module: the reference.
        cell: its port, or another torch module, whose parameters are paired by name.
        train_module: `train_module(network, batches)` trains the network and yields after each step; a number that it
            yields is compared as the loss. It is called several times, also with everything in float64.
        train_cell: the same function for the second network.
        data: the batches: arrays or torch tensors, in tuples, lists or dicts. Each script gets them as tensors of its
            framework, the floating-point ones in the dtype to train in.
        dtype: working dtype.
        seed: seed of torch's random numbers.
        cells: pairs of Cells and modules; see `parity.compare`.
        weights: for a port, how weights are carried over; see `parity.compare`.

    Returns:
        The report.

    Raises:
        UsageError: `cell` is neither a Cell nor a module, `train_module` makes no step, or the parameters can't be
            matched unambiguously.
    """
    require_module(module, "is the reference")
    working = Options(dtype=dtype).dtype
    batches = [pytree.tree_map_only(torch.Tensor, as_array, batch) for batch in data]
    reference = TorchTraining(module, train_module, batches, working, seed)
    side: ScriptSide
    if kind_of(cell) is Kind.MODULE:
        if weights is not None:
            raise UsageError("`weights` is for a Cell: the parameters of two torch modules are paired by name")
        side = TorchCandidate(module, cell, train_cell, batches, working, seed, cells)
    else:
        framework = framework_of(cell)
        if framework is None:
            raise UsageError(f"the other network must be a Cell or a torch module, given {in_words(cell)}")
        port_weights = carry(module, cell, pair_up(module, cell, cells), weights, getattr(torch, working))
        side = CellTraining(framework, cell, train_cell, batches, port_weights, working)
    truth = reference.run("float64")
    if not truth.steps:
        raise UsageError("train_module yielded nothing: it must yield after each step")
    report = TrainingReport(type(module).__name__, [side.name], working, len(truth.steps))

    @functools.cache
    def noise(_check: str, in_dtype: str) -> TrainingNoise:
        def run(dtype: str, jitter: int | None, units: float) -> TrainingRecord:
            return reference.run(dtype, truth.draws, jitter, units)

        return TrainingNoise(run, truth, in_dtype, run(in_dtype, None, 0.5))

    proofs = ScriptProofs(reference, side, truth.draws, cells, weights)
    first = judge_training_side(report, side, truth, noise, lambda run: _problems(side, truth, run), proofs)
    if first is not None and (names := side.not_compared(truth.start, first.start)):
        report.notes.append(f"not compared, since the {side.noun} has no counterpart: {', '.join(sorted(names))}")
    return report


def _problems(side: ScriptSide, truth: TrainingRecord, run: TrainingRecord) -> Iterator[str]:
    """Yield the differences other than in numbers."""
    yield from side.mismatches()
    for name, trained in truth.trained.items():
        if run.trained.get(name, trained) != trained:
            candidate, reference = ("frozen", "trained") if trained else ("trained", "frozen")
            yield f"{name}: {candidate} in the {side.noun}, {reference} in torch"
    counts = {
        "made {} steps": (len(run.steps), len(truth.steps)),
        "drew random numbers {} times": (len(run.draws), len(truth.draws)),
    }
    for what, (count, reference_count) in counts.items():
        if count != reference_count:
            yield f"the {side.noun} {what.format(count)}, torch {reference_count}"
    if (LOSS in truth.steps[0]) != all(LOSS in step for step in run.steps):
        yield f"only {'torch' if LOSS in truth.steps[0] else f'the {side.noun}'} yielded a loss"
