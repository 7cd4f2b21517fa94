"""`CauseSearch`: what failed in a trial, kept to find out which side is wrong, and why."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from ..causes.budget import Budget
from ..causes.cell_program import Network
from ..causes.program_in_torch import program_in_torch
from ..report.report import Report
from ..results.comparison import FAIL, Comparison
from ..sides.abilities import HasProgram, RunsInOnnxRuntime, RunsProgram
from ..sides.records import Array, Key, Records
from ..sides.run import Run
from ..sides.side import Side
from .boundaries import OUTPUTS, boundary_of
from .causes import add_causes, add_roundings
from .comparer import Comparer
from .noise import Noise
from .odd_one_out import Implementations, find_odd_one_out
from .precision_causes import add_precision_causes
from .runtime_causes import add_runtime_causes
from .state_causes import add_state_causes


@dataclass
class CauseSearch:
    """The records of what failed.

    Attributes:
        reference: the reference.
        truth: its records in float64.
        noise: its rounding error, by feeding and dtype.
        working_dtype: the dtype that rounding is judged in.
        judged: the sides that were run, in order.
        failing_records: by side, the records of an isolated run in float64 that failed.
        failing_outputs: by side and feeding, the outputs that failed, each with the largest error that passes.
    """

    reference: Side
    truth: Records
    noise: Callable[[str, str], Noise]
    working_dtype: str
    judged: list[Side] = field(default_factory=list)
    failing_records: dict[str, Records] = field(default_factory=dict)
    failing_outputs: dict[tuple[str, str], dict[Key, tuple[Array, float]]] = field(default_factory=dict)

    def keep_outputs(self, comparer: Comparer, records: Records, comparisons: Iterable[tuple[str, Comparison]]) -> None:
        """Keep the outputs that fail, to compare them with those of other sides."""
        kept = self.failing_outputs.setdefault((comparer.side, comparer.feeding), {})
        for path, c in comparisons:
            if c.status == FAIL and c.kind in OUTPUTS and c.index is not None:
                key = boundary_of(path, c, records.values)
                if key is not None:
                    kept[key] = (records.values[key], c.bar)

    def forget(self, side: Side) -> None:
        """Forget what failed in a side, which is judged again."""
        self.failing_records.pop(side.name, None)
        for name, feeding in list(self.failing_outputs):
            if name == side.name:
                del self.failing_outputs[name, feeding]

    def is_needed(self, side: Side) -> bool:
        """Whether a side failed in something of which the cause can be found."""
        outputs = any(kept for (name, _), kept in self.failing_outputs.items() if name == side.name)
        return side.name in self.failing_records or (outputs and isinstance(side, (RunsInOnnxRuntime, HasProgram)))

    def run(
        self, report: Report, side: Side, budget: Budget, on_probe: tuple[Records, Records, Noise] | None = None
    ) -> None:
        """Look for the causes, and add them to the report.

        Args:
            report: the report.
            side: the side that failed.
            budget: what may be computed.
            on_probe: truth, records and noise of a probe, or of a second call, that failed where the first call on the
                given inputs doesn't.
        """
        if side.name in self.failing_records:
            noise = self.noise("isolated", self.working_dtype)
            add_causes(
                report,
                self.reference,
                side,
                self.truth,
                self.failing_records.pop(side.name),
                noise,
                budget,
                grads=report.grads,
            )
        elif on_probe is not None and (on_probe[2].run.call.before or on_probe[2].run.call.second):
            add_state_causes(report, self.reference, side, *on_probe, budget)
        elif on_probe is not None:
            add_causes(report, self.reference, side, *on_probe, budget, grads=on_probe[2].run.wanted.grads)
        else:
            add_precision_causes(report, self.reference, side)
        if isinstance(side, RunsInOnnxRuntime) and not side.capabilities.numbers.quantized:
            ((_, dtype),) = side.capabilities.checks

            def run_of(feeding: str) -> Run:
                return replace(self.noise(feeding, dtype).run, dtype=dtype).want(grads=False)

            add_runtime_causes(report, side, self.truth, run_of, budget)
        if isinstance(side, RunsInOnnxRuntime):
            add_roundings(report, self.reference, side, self.noise("isolated", self.working_dtype))

    def find_odd_one_out(self, report: Report) -> None:
        """Name the implementation that is wrong, if the interpreter and ONNX Runtime have run a program."""
        interpreter = next((side for side in self.judged if isinstance(side, RunsProgram)), None)
        runtime = next((side for side in self.judged if isinstance(side, RunsInOnnxRuntime)), None)
        if interpreter is None or runtime is None or not any(self.failing_outputs.values()):
            return
        run = replace(self.noise("isolated", self.working_dtype).run, dtype="float64").want(grads=False)
        network = Network.of(interpreter.in_interpreter(), run)
        sides = Implementations(self.reference.name, interpreter.name, runtime.name)
        find_odd_one_out(report, sides, self.failing_outputs, lambda path: program_in_torch(network, path))
