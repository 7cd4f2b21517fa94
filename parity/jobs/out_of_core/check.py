"""`check_out_of_core`: compares a network with its conversions, part by part, within so much memory."""

from __future__ import annotations

import gc
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Unpack

import torch
from torch.utils import _pytree as pytree

from ....converter.capture.containers import open_containers
from ....converter.capture.export_errors import require_ready
from ....converter.capture.wrappers import unwrap_arguments
from ....converter.exclusive import one_at_a_time
from ....converter.mapped_weights import MappedWeights, require_values
from ....runtime.errors import UsageError
from ....runtime.ir.program import Program
from ....runtime.memory import size_in_words
from ....runtime.programs.call import as_array
from ...checking.conversions import Conversions
from ...checking.engine import check
from ...checking.several_inputs import Arguments, judge_all_inputs
from ...inputs.affordable import memory_of_records, peak_memory
from ...options import OptionKeywords, Options, from_keywords
from ...report.report import Report
from ...results.cell_report import CellReport, is_inside
from ...results.comparison import NOT_REACHED, PASS, SKIPPED
from ...results.modes import mode_notes
from ...results.notes import warnings_as_notes
from ...sides.opening import require_module
from ...sides.records import Array
from ...sides.reported_cells import can_run
from ...sides.torch_program import capture_program
from ...support.process import give_back_freed_memory
from ...support.process import peak_memory as peak_of_process
from ...support.progress import NoProgress, Progress
from .boundaries import NetworkCall, PartCall, run_in_parts
from .containers import Around, loss_of, without_parts
from .division import BASE, Part, divide, is_larger, require_base
from .repeated import RepeatedPrograms


@one_at_a_time
@unwrap_arguments
def check_out_of_core(
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    *,
    memory: int,
    weights: MappedWeights | None = None,
    more_inputs: Iterable[Arguments] = (),
    progress: Progress | None = None,
    **options: Unpack[OptionKeywords],
) -> Report:
    """Convert a module and compare it with its conversions as `check` does, in parts that fit into memory.

    The module runs once, forward and backward, in its own dtype; what its parts receive and return, and the gradients
    that arrive at them, are kept on disk. Then each part is converted and judged on these values, one after another,
    and what is around the parts is judged as a module of its own. Parts that are equal but for their weights are
    converted once.

    Args:
        module: the reference.
        args: positional inputs.
        kwargs: keyword inputs.
        memory: the bytes that the process may take, with the module's own parameters unless they are in files.
        weights: the files that the module's parameters were mapped from by `map_weights`, if they were.
        more_inputs: further positional and keyword inputs, as for `check`.
        progress: receives the stages of the run.
        **options: fields of `Options`.

    Returns:
        The report. Its Cells are judged alone; what errors add up to over parts isn't compared.

    Raises:
        UsageError: a Cell takes more memory than is allowed, or as for `check`.
        ConversionError: a part can't be converted.
    """
    chosen = from_keywords(Options, check_out_of_core, options)
    require_module(module, "is compared in parts")
    require_ready(module)
    stages = progress or NoProgress()
    if not chosen.model:
        chosen = replace(chosen, model=type(module).__name__)
    require_values(module)
    require_base(memory)
    # parameters that aren't in files are in memory all the time
    held = 0 if weights is not None else sum(t.nbytes for t in (*module.parameters(), *module.buffers()))
    rest = memory - held
    if not is_larger(module, rest, grads=chosen.grads):
        report = check(module, args, kwargs, more_inputs=more_inputs, progress=progress, **options)
        report.notes += _notes(weights, memory)
        return report
    parts = divide(module, rest, grads=chosen.grads, selects=chosen.selects)
    run = _Run(module, parts, chosen, rest, weights, stages)
    open_containers((args, kwargs))
    whole = judge_all_inputs((args, dict(kwargs or {})), more_inputs, run.judge, chosen, stages)
    whole.notes += [
        *mode_notes(module, chosen.train),
        f"judged in {len(parts)} parts, each on the values that it has in the network: what rounding adds up to over "
        "parts isn't compared",
        *_notes(weights, memory),
    ]
    return whole


def _notes(weights: MappedWeights | None, memory: int) -> list[str]:
    """Return what is to be said about the weights and the memory."""
    peak = peak_of_process()
    note = f"the process had {size_in_words(peak)} in memory at most; {size_in_words(memory)} were allowed"
    if peak > memory:
        note += ": more than that, which it may have had before the judgement began"
    return [*([] if weights is None else weights.notes), note]


@dataclass(eq=False)
class _Run:
    """The judgement of all parts of a network, on one input after another."""

    network: torch.nn.Module
    parts: Sequence[Part]
    options: Options
    memory: int
    weights: MappedWeights | None
    progress: Progress
    notes: list[str] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self.programs = RepeatedPrograms(self.options)

    def judge(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Report:
        """Return the report on all parts and what is around them."""
        with tempfile.TemporaryDirectory() as name:
            self.progress.stage("torch", len(self.parts) * (1 + self.options.grads))
            call = run_in_parts(
                self.network, args, kwargs, self.parts, self.options, Path(name), self.weights, self.progress.advance
            )
            self.progress.stage("parts", len(self.parts))
            reports: list[Report] = []
            for part in self.parts:
                reports += self._of_part(part, call)
                self.progress.advance()
                if self.options.fail_fast and reports and reports[-1].failed:
                    break
            else:
                reports += self._of_containers(args, kwargs, call)
        return self._joined(reports)

    def _of_part(self, part: Part, call: NetworkCall) -> Iterator[Report]:
        """Yield the report on the calls of a part, if it is called and selected."""
        calls = call.of(part.path)
        paths = [f"{part.path}.{name}" if name else part.path for name, _ in part.module.named_modules()]
        if not calls or not any(map(self.options.selects, paths)):
            return
        report: Report | None = None
        for part_call in calls:
            call_report = self._of_call(part, part_call)
            self._give_memory_back()
            if report is None:
                report = call_report
            else:
                report.join_input(call_report)
        assert report is not None
        report.inputs = 1
        del report.cells[""]  # the place that holds the part
        yield report

    def _give_memory_back(self) -> None:
        """Free what the judgement of a part leaves: cycles of objects, pages of weights, freed memory."""
        gc.collect()
        if self.weights is not None:
            self.weights.release()
        give_back_freed_memory()

    def _of_call(self, part: Part, call: PartCall) -> Report:
        around = Around(part.path, part.module)
        program, moved = self._program(part, around, call)
        report = self._judge(around, program, call)
        if moved and report.failed:  # it may be for decisions that depend on weights
            program, _ = self._program(part, around, call, anew=True)
            report = self._judge(around, program, call)
        return report

    def _program(self, part: Part, around: Around, call: PartCall, *, anew: bool = False) -> tuple[Program, bool]:
        """Return the program of a part, and whether it is that of an equal part."""
        with warnings_as_notes() as notes:
            program, moved = self.programs.program(part, around, call, anew=anew)
        self.notes += [note for note in notes if note not in self.notes]
        args, kwargs = call.inputs()
        arrays = [as_array(leaf) for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        needed = part.size + BASE + _memory_of_values(program, arrays, grads=self.options.grads)
        if needed > self.memory:
            raise UsageError(
                f"judging the Cell {part.path} on these inputs takes about {size_in_words(needed)} of memory, "
                f"{size_in_words(needed - part.size - BASE)} of it for values that it computes; "
                f"{size_in_words(self.memory)} are allowed\n"
                "  what to do: use smaller inputs, or allow more with --memory"
            )
        return program, moved

    def _judge(self, around: Around, program: Program, call: PartCall) -> Report:
        args, kwargs = call.inputs()
        options = replace(self.options, loss=loss_of(call.cotangents()) if self.options.grads else None)
        return Conversions(around, program, args, {}, None, (), options, NoProgress()).judge_inputs(args, kwargs)

    def _of_containers(self, args: tuple[Any, ...], kwargs: dict[str, Any], call: NetworkCall) -> Iterator[Report]:
        """Yield the report on what is around the parts, unless none of it is selected."""
        paths = [path for path, _ in self.network.named_modules() if not self._is_in_a_part(path)]
        if not any(map(self.options.selects, paths)):
            return
        received = [gradient for part_call in call.calls for gradient in part_call.passed_back()]
        loss = loss_of([*call.cotangents, *received]) if self.options.grads else None
        options = replace(self.options, loss=loss)
        inputs = (args, kwargs, [part_call.outputs() for part_call in call.calls])
        with without_parts(self.network, self.parts, call):
            with warnings_as_notes() as notes:
                program = capture_program(self.network, inputs, {}, None, options.dtype, options.train)
            self.notes += [note for note in notes if note not in self.notes]
            conversions = Conversions(self.network, program, inputs, {}, None, (), options, NoProgress())
            report = conversions.judge_inputs(inputs, {})
        report.cells = {path: cell for path, cell in report.cells.items() if not self._is_in_a_part(path)}
        yield report

    def _is_in_a_part(self, path: str) -> bool:
        return any(path == part.path or is_inside(path, part.path) for part in self.parts)

    def _joined(self, reports: Sequence[Report]) -> Report:
        """Return one report on the network, with its Cells in order.

        That the root passes, on the results of its parts, isn't a verdict on the network end to end.
        """
        if not reports:
            chosen = [f"--only {glob}" for glob in self.options.only] + [f"--skip {glob}" for glob in self.options.skip]
            raise UsageError(f"no Cell is left by {' '.join(chosen)}: parity inspect MODEL shows their paths")
        cells = {path: cell for report in reports for path, cell in report.cells.items()}
        if "" in cells:
            cells[""].comparisons = [c for c in cells[""].comparisons if c.feeding == "isolated" or c.status != PASS]
        ordered: dict[str, CellReport] = {}
        for path, module in self.network.named_modules():
            if path in cells:
                ordered[path] = cells[path]
            elif can_run(module):
                presence = NOT_REACHED if self.options.selects(path) else SKIPPED
                ordered[path] = CellReport(path, type(module).__name__, 0, presence=presence)
        notes = dict.fromkeys(note for report in reports for note in report.notes)
        first = reports[0]
        return replace(
            first,
            cells=ordered,
            notes=[*self.notes, *notes],
            structure=[difference for report in reports for difference in report.structure],
            probes=list(dict.fromkeys(probe for report in reports for probe in report.probes)),
            error_shares=[],
            reproducible=[path for report in reports for path in report.reproducible],
        )


def _memory_of_values(program: Program, inputs: Sequence[Array], *, grads: bool) -> int:
    """Return the bytes that values computed while a program is judged take, without its parameters."""
    inputs = [array.astype(value.dtype) for array, value in zip(inputs, program.inputs, strict=True)]
    peak, _ = peak_memory(program.without_data(), inputs)
    sizes = [p.data.size for p in program.parameters.values()] + [b.data.size for b in program.buffers.values()]
    stored = sum(sizes) * 8
    return max(0, peak - stored) + memory_of_records(program, inputs, grads=grads)
