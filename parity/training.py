"""Training parity: a torch module and its port, each trained by its own script from the same weights and data.

After every step, every parameter and buffer is judged as `judge` says: in float64 both are the same up to the rounding
of double precision; in the working dtype the port strays from the float64 truth at most a few times as far as torch
itself does, which is measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ..runtime.calling import as_array
from ..runtime.errors import UsageError
from .judge import Tolerance, error, judge
from .noise import MOST_SAMPLES
from .options import Options
from .pairing import pair_up
from .porting import framework_of
from .results import PASS, Comparison
from .sides.training import LOSS, CellTraining, Loop, TorchTraining, Training
from .training_causes import causes
from .training_report import TrainingReport
from .weights.mapping import Weights, carry


def compare_training(
    module: torch.nn.Module,
    cell: Any,
    train_module: Loop,
    train_cell: Loop,
    data: Iterable[Any],
    *,
    dtype: str = "float32",
    seed: int = 0,
    cells: Mapping[str, str] | None = None,
    weights: Mapping[Any, Any] | None = None,
) -> TrainingReport:
    """Train a module and its port, and compare parameters, buffers and losses after each step.

    Both networks are left as they were. What torch draws at random (dropout) is drawn in the port too, in order.

    Args:
        module: the reference.
        cell: its port.
        train_module: `train_module(network, batches)` trains the network and yields after each step; what it yields is
            compared as the loss if it is a number. It is called several times, also with everything in float64.
        train_cell: the same for the Cell.
        data: the batches: arrays or torch tensors, in tuples, lists or dicts. Each script gets them as tensors of its
            framework, the floating-point ones in the dtype that it is to train in.
        dtype: working dtype.
        seed: of torch's random numbers.
        cells: which Cell is the port of which module; see `parity.compare`.
        weights: how weights are carried over; see `parity.compare`.

    Returns:
        The report.

    Raises:
        UsageError: `cell` isn't a Cell, `train_module` makes no step, or it isn't clear which Parameter of the Cell is
            which of the module.
    """
    framework = framework_of(cell)
    if framework is None:
        raise UsageError(f"training is compared with that of a Cell, given {type(cell).__name__}")
    working = Options(dtype=dtype).dtype
    carried = carry(module, cell, pair_up(module, cell, cells), weights, getattr(torch, working))
    batches = [pytree.tree_map_only(torch.Tensor, as_array, batch) for batch in data]
    reference = TorchTraining(module, train_module, batches, working, seed)
    port = CellTraining(framework, cell, train_cell, batches, carried, working)
    truth = reference.run("float64")
    if not truth.steps:
        raise UsageError("train_module yielded nothing: it must yield after each step")
    report = TrainingReport(type(module).__name__, framework.name, working, len(truth.steps))
    for check in framework.checks:
        if check == "rounding" and working == "float64":
            continue  # there is no truth beyond it
        if report.failures:
            report.notes.append(f"rounding in {working} was not judged: what is computed differs already")
            break
        run = port.run("float64" if check == "meaning" else working, truth.draws)
        noise = _Noise(reference, truth, "float32" if working == "float64" else working)
        report.comparisons += _compare(report.side, check, truth, run, noise)
        if check == framework.checks[0]:
            report.problems += _problems(carried, truth, run)
            report.notes += _notes(carried, truth, run)
            report.causes += causes(truth, run, report.failures)
    return report


class _Noise:
    """How far torch itself is from its float64 training, over several runs in the working dtype."""

    def __init__(self, reference: TorchTraining, truth: Training, dtype: str) -> None:
        self.reference = reference
        self.truth = truth
        self.dtype = dtype
        self.samples = 0
        self.errors: dict[tuple[int, str], float] = {}
        self.first = self._sample(None)

    def sample(self) -> bool:
        """Make one more run, jittered; False if enough have been made."""
        if self.samples >= MOST_SAMPLES:
            return False
        self._sample(self.samples)
        return True

    def _sample(self, jitter: int | None) -> Training:
        run = self.reference.run(self.dtype, self.truth.draws, jitter)
        for step, (found, true) in enumerate(zip(run.steps, self.truth.steps, strict=True), 1):
            for name, array in found.items():
                self.errors[step, name] = max(self.errors.get((step, name), 0.0), error(array, true[name])[0])
        self.samples += 1
        return run


def _compare(side: str, check: str, truth: Training, run: Training, noise: _Noise) -> list[Comparison]:
    """Every tensor after every step. Before rounding is called too large, the reference's is measured again."""
    while True:
        found = list(_comparisons(side, check, truth, run, noise))
        if check == "meaning" or all(c.status == PASS for c in found) or not noise.sample():
            return found


def _comparisons(side: str, check: str, truth: Training, run: Training, noise: _Noise) -> Iterator[Comparison]:
    steps = zip(truth.steps, run.steps, noise.first.steps, strict=False)
    for number, (true, found, reference) in enumerate(steps, 1):
        for name in [name for name in true if name in found]:
            kind = "loss" if name == LOSS else "parameter" if name in truth.trained else "buffer"
            noisy = noise.errors[number, name]
            fields = judge(check, found[name], true[name], reference[name], noisy, Tolerance(noise.dtype))
            yield Comparison(side, check, "end to end", kind, name, number, **fields)


def _problems(weights: Weights, truth: Training, run: Training) -> Iterator[str]:
    """What differs in more than numbers."""
    for misfit in weights.misfits:
        yield f"{misfit.name}: {misfit.reason}"
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


def _notes(weights: Weights, truth: Training, run: Training) -> Iterator[str]:
    """What could not be compared."""
    there = set(truth.start) - set(run.start) - weights.ignored - {m.name for m in weights.misfits}
    if there:
        yield f"not compared, as no Parameter of the port is made of it: {', '.join(sorted(there))}"
