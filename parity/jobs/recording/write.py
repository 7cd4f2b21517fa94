"""`record`: a torch module recorded in its working dtype and in float64, as it runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol, Unpack

import torch

from ....converter.capture.wrappers import unwrap_arguments
from ....converter.exclusive import one_at_a_time
from ....recorder import PROGRAM, Recorder
from ....runtime.errors import CellbridgeError, UsageError
from ....runtime.ir.types import CellCall, is_floating
from ....runtime.memory import size_in_words
from ....runtime.storage.programs import save
from ...checking.recordings.sharing import other_names
from ...inputs.arguments import as_arguments
from ...options import OptionKeywords, Options, from_keywords
from ...results.notes import warnings_as_notes
from ...sides.opening import require_module
from ...sides.records import INPUT, INPUT_GRADIENT, Array, Key, Records, value_key
from ...sides.reported_cells import require_finite
from ...sides.run import ReferenceRun, Run, Wanted
from ...sides.side import ParameterInfo
from ...sides.torch_program import capture_program
from ...sides.torch_side import TorchSide
from ...support.files import require_new_folder
from ...support.progress import NoProgress, Progress
from ..training.batches import example_batches, first_batches
from ..training.torch_steps import Batch
from ..training.training_config import TrainingConfig
from .training_run import TrainingRun


@one_at_a_time
@unwrap_arguments
def record(
    module: torch.nn.Module,
    args: Any,
    path: str | PathLike[str],
    kwargs: Mapping[str, Any] | None = None,
    *,
    budget: int | None = None,
    float64: bool = True,
    training: TrainingConfig | None = None,
    more_inputs: Iterable[Batch] = (),
    progress: Progress | None = None,
    **options: Unpack[OptionKeywords],
) -> Size:
    """Run a module forward and backward, and write what crosses the boundaries of its Cells to a folder.

    Values are written as they come, so that memory needs to hold one Cell's. The module is left as it was.

    Args:
        module: the module.
        args: its positional inputs.
        path: a folder that isn't there yet, or is empty.
        kwargs: its keyword inputs.
        budget: the most bytes to write; what doesn't fit is summarized.
        float64: record a run in float64 too, which other sides are judged by, and the network as a program, which their
            causes are proved with.
        training: record steps of training, in train mode unless `train` says otherwise; None for one call. The loss is
            `loss`, or the mean of the squares of all outputs. The batches are the inputs, and others derived from them
            as `check_training` does. Loss scales and several batches per step aren't for recordings.
        more_inputs: inputs of further batches, as many as the steps need.
        progress: receives the stages.
        **options: fields of `Options`: `grads`, `train`, `dtype`, `seed`, `loss`, `model`; `only` and `skip` say which
            Cells are recorded.

    Returns:
        How much was written.

    Raises:
        UsageError: it isn't a torch module, the inputs don't fit it, the folder can't be written, or there is nothing
            to train.
    """
    require_module(module, "is recorded")
    require_new_folder(path)
    chosen, stages = from_keywords(Options, record, options), progress or NoProgress()
    if not any(chosen.selects(path) for path, _ in module.named_modules()):
        raise UsageError("no Cell is left by `only` and `skip`: parity inspect MODEL shows their paths")
    args, keywords = as_arguments(args, kwargs)
    if training is not None and chosen.train is None:
        chosen = replace(chosen, train=True)
    _require_recordable(training)
    steps = 1 if training is None else training.steps
    inputs, _ = first_batches((args, keywords), (as_arguments(*batch) for batch in more_inputs), steps)
    batches = example_batches(inputs, steps, chosen.seed)
    dtypes = list(dict.fromkeys([*(["float64"] if float64 else []), chosen.dtype]))
    one_call = TorchSide.of_options("torch", module, args, keywords, chosen)
    aliases = other_names(module)
    stages.stage("record", len(dtypes) * steps)
    settings = {"model": chosen.model or type(module).__name__, "framework": "torch", "dtype": chosen.dtype}
    mode = "train" if chosen.train else "eval"
    with _as_usage_errors(path), Recorder(path, mode=mode, seed=chosen.seed, budget=budget, **settings) as recorder:
        first: list[Records] = []  # of each step, in the first run
        for dtype in dtypes:
            trained = None if training is None else TrainingRun(module, dtype, batches, chosen, training)
            with recorder.run(dtype):
                for step in range(steps):
                    side = one_call if trained is None else trained.side(step)
                    record_parameters(recorder, (trained or side).parameters(), chosen, aliases)
                    records = record_run(recorder, side, dtype, chosen, first[step] if dtype != dtypes[0] else None)
                    require_finite(records, dtype)
                    first.append(replace(records, gradients=replace(records.gradients, parameters={})))
                    if trained is not None:
                        trained.update(records)
                        recorder.step()
                    stages.advance()
                if trained is not None:
                    record_parameters(recorder, trained.parameters(), chosen, aliases)
    lacking = ""
    if float64:
        stages.stage("program", None)
        lacking = _write_program(Path(path) / PROGRAM, module, args, keywords, chosen)
    summarized = sum("summary" in entry for entry in recorder.tensors)
    return Size(len(recorder.tensors), summarized, recorder.written, lacking)


class Writer(Protocol):
    """What writes values as they come: a `Recorder`, or what keeps less of them; see its methods."""

    def add_call(self, path: str, index: int, class_name: str, parent: int | None) -> int:
        """Add a call, and return its number."""

    def add_tensor(self, path: str, index: int, role: str, slot: str, tensor: Any) -> None:
        """Add a tensor of a call."""

    def add_absent(self, path: str, index: int, slot: str, shape: tuple[int, ...]) -> None:
        """Add that no gradient has arrived at an input."""

    def mark_untracked(self, path: str, index: int, role: str, slot: str) -> None:
        """Mark a tensor as one of which no gradient is computed."""

    def parameter(self, name: str, value: Any = None, *, gradient: Any = None) -> None:
        """Add a parameter or its gradient."""

    def buffer(self, name: str, value: Any = None, *, update: Any = None) -> None:
        """Add a buffer or its update."""


@dataclass(frozen=True)
class Size:
    """The size of a recording: the number of tensors, how many of them are only summarized, and bytes.

    Attributes:
        without_program: why the network's program, with which causes are found, couldn't be written; empty if it was.
    """

    tensors: int
    summarized: int
    written: int
    without_program: str = ""

    @property
    def in_words(self) -> str:
        """The size in words."""
        rest = f", {self.summarized} of them summarized" if self.summarized else ""
        return f"{self.tensors} tensors{rest}, {size_in_words(self.written)}"


def _write_program(path: Path, module: torch.nn.Module, args: Any, kwargs: dict[str, Any], options: Options) -> str:
    """Write the network as a program without its parameters; return why that is impossible, or an empty text."""
    try:
        with warnings_as_notes():
            program = capture_program(module, args, kwargs, None, options.dtype, options.train, copy=False)
            save(program, path, parameters=False)
    except CellbridgeError as error:
        return f"{error}".partition("\n")[0]
    return ""


def record_run(recorder: Writer, side: TorchSide, dtype: str, options: Options, first: Records | None) -> Records:
    """Record one run; the first one's gradients of the outputs and random numbers are used again."""

    waiting: dict[Key, tuple[int, ...]] = {}  # inputs that no gradient has reached, and their shapes

    def write(key: Key, array: Array) -> bool:
        array.flags.writeable = False
        if key.kind == INPUT and is_floating(array.dtype):
            waiting[key] = array.shape
        elif key.kind == INPUT_GRADIENT:
            waiting.pop(value_key(key), None)
        if options.selects(key.path):
            recorder.add_tensor(key.path, key.call, key.kind, key.slot, array)
        return bool(key.path)  # the outputs of the network itself are needed again

    cotangents = None if first is None else first.gradients.cotangents
    settled = ReferenceRun(cotangents=cotangents)
    if first is not None:
        settled = replace(settled, slots=first.slots, draws=first.draws)
    run = Run(dtype, Wanted(options.grads, passes=write), settled)
    records = side.run(run)
    record_calls(recorder, records.calls)
    for key, shape in waiting.items() if options.grads else ():
        if options.selects(key.path) and key not in records.boundaries.untracked:
            recorder.add_absent(key.path, key.call, key.slot, shape)
    for key in sorted(records.boundaries.untracked) if options.grads else ():
        recorder.mark_untracked(key.path, key.call, key.kind, key.slot)
    for name, gradient in records.gradients.parameters.items():
        if gradient is not None and _selects(options, name):
            recorder.parameter(name, gradient=gradient)
    for name, array in records.state.buffers.items():
        if _selects(options, name):
            recorder.buffer(name, array)
    for name, array in records.state.updates.items():
        if _selects(options, name):
            recorder.buffer(name, update=array)
    return records


def record_calls(recorder: Writer, calls: Iterable[CellCall]) -> None:
    """Record the calls of a run, parents before children."""
    numbers: list[int] = []
    for call in calls:
        parent = None if call.parent is None else numbers[call.parent]
        numbers.append(recorder.add_call(call.path, call.index, call.class_name, parent))


def record_parameters(
    recorder: Writer,
    parameters: Mapping[str, ParameterInfo],
    options: Options,
    aliases: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Record the values of parameters, of shared ones by all of their names; see `other_names`."""
    for name, info in parameters.items():
        if _selects(options, name):
            info.data.flags.writeable = False  # so that the recorder sees that it is the same array
            for each in (name, *(alias for alias, first in aliases.items() if first == name)):
                recorder.parameter(each, info.data)


def _selects(options: Options, name: str) -> bool:
    """Whether the parameter or buffer of a name is of a Cell that is recorded."""
    return options.selects(name.rpartition(".")[0])


def _require_recordable(training: TrainingConfig | None) -> None:
    if training is not None and (training.loss_scale is not None or training.accumulate > 1):
        raise UsageError("training is recorded without a loss scale, and with one batch per step: leave out the rest")


@contextmanager
def _as_usage_errors(path: str | PathLike[str]) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UsageError(
            f"can't write the recording {path}: {error.strerror or error}\n"
            "  what was written before stays readable, as an incomplete recording"
        ) from error
