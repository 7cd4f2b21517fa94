"""`record`: a torch module recorded in its working dtype and in float64, as it runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from os import PathLike
from typing import Any, Unpack

import torch

from ...converter.exclusive import one_at_a_time
from ...recorder import Recorder
from ...runtime.errors import UsageError
from ...runtime.memory import size_in_words
from ..comparison.cells import require_finite
from ..inputs.arguments import as_arguments
from ..options import OptionKeywords, Options, from_keywords
from ..sides.records import Array, Key, Records, Run
from ..sides.torch_side import TorchSide
from ..support.files import require_new_folder
from ..support.progress import NoProgress, Progress


@one_at_a_time
def record(
    module: torch.nn.Module,
    args: Any,
    path: str | PathLike[str],
    kwargs: Mapping[str, Any] | None = None,
    *,
    budget: int | None = None,
    float64: bool = True,
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
        float64: record a run in float64 too, which other sides are judged by.
        progress: receives the stages.
        **options: fields of `Options`: `grads`, `train`, `dtype`, `seed`, `loss`, `model`; `only` and `skip` say which
            Cells are recorded.

    Returns:
        How much was written.

    Raises:
        UsageError: the inputs don't fit the module, or the folder can't be written.
    """
    require_new_folder(path)
    chosen, stages = from_keywords(Options, record, options), progress or NoProgress()
    if not any(chosen.selects(path) for path, _ in module.named_modules()):
        raise UsageError("no Cell is left by `only` and `skip`; see the paths with: parity inspect")
    args, keywords = as_arguments(args, kwargs)
    side = TorchSide.of_options("torch", module, args, keywords, chosen)
    dtypes = list(dict.fromkeys([*(["float64"] if float64 else []), chosen.dtype]))
    stages.stage("record", len(dtypes))
    settings = {"model": chosen.model or type(module).__name__, "framework": "torch", "dtype": chosen.dtype}
    mode = "train" if chosen.train else "eval"
    with _as_usage_errors(path), Recorder(path, mode=mode, seed=chosen.seed, budget=budget, **settings) as recorder:
        first: Records | None = None
        for dtype in dtypes:
            with recorder.run(dtype):
                records = _record_run(recorder, side, dtype, chosen, first)
            first = first or records
            require_finite(records, dtype)
            stages.advance()
    summarized = sum("summary" in entry for entry in recorder.tensors)
    return Size(len(recorder.tensors), summarized, recorder.written)


@dataclass(frozen=True)
class Size:
    """The size of a recording: the number of tensors, how many of them are only summarized, and bytes."""

    tensors: int
    summarized: int
    written: int

    @property
    def in_words(self) -> str:
        """The size in words."""
        rest = f", {self.summarized} of them summarized" if self.summarized else ""
        return f"{self.tensors} tensors{rest}, {size_in_words(self.written)}"


def _record_run(recorder: Recorder, side: TorchSide, dtype: str, options: Options, first: Records | None) -> Records:
    """Record one run; the first one's gradients of the outputs and random numbers are used again."""

    def is_selected(name: str) -> bool:
        return options.selects(name.rpartition(".")[0])

    for name, info in side.parameters().items():
        if is_selected(name):
            recorder.parameter(name, info.data)

    def write(key: Key, array: Array) -> bool:
        array.flags.writeable = False
        if options.selects(key.path):
            recorder.add_tensor(key.path, key.call, key.kind, key.slot, array)
        return bool(key.path)  # the outputs of the network itself are needed again

    cotangents = None if first is None else first.cotangents
    draws = {} if first is None else first.draws
    slots = {} if first is None else first.slots
    run = Run(dtype, options.grads, cotangents, draws, slots=slots, passes=write)
    records = side.run(run)
    for call in records.calls:
        recorder.add_call(call.path, call.index, call.class_name, call.parent)
    for name, gradient in records.parameter_gradients.items():
        if gradient is not None and is_selected(name):
            recorder.parameter(name, gradient=gradient)
    for name, array in records.buffers.items():
        if is_selected(name):
            recorder.buffer(name, array)
    for name, array in records.updates.items():
        if is_selected(name):
            recorder.buffer(name, update=array)
    return records


@contextmanager
def _as_usage_errors(path: str | PathLike[str]) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UsageError(
            f"can't write the recording {path}: {error.strerror or error}\n"
            "  what was written before stays readable, as an incomplete recording"
        ) from error
