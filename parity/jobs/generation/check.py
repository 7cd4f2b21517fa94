"""`check_generation`: a sequence computed with a cache, in chunks and with padding, against one call on the whole.

The reference is one call on the whole sequence, in float64. Each other way must compute the same function, in float64,
and may differ by ten times the reference's own rounding error in the working dtype.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ....converter.exclusive import one_at_a_time
from ....runtime.errors import UsageError
from ....runtime.programs.call import as_array
from ...report.report import Report
from ...results.cell_report import CellReport
from ...results.comparison import Comparison
from ...sides.names import INTERPRETER, ONNXRUNTIME
from ...sides.opening import require_module
from ...sides.records import Array
from ...support.progress import NoProgress, Progress
from ...verdicts.judge import Tolerance
from .choices import Likelihoods, likelihoods
from .decoder import Decode, Decoder, cast, greedy, in_chunks
from .modes import Mode, padded_mode, step_modes
from .placing import Placing, judge_values
from .recorded import RECORDED, LogProbabilities
from .states import tensors
from .step_program import StepProgram, step_program

REFERENCE = "uncached"


@one_at_a_time
def check_generation(
    module: torch.nn.Module,
    prompt: torch.Tensor,
    *,
    decode: Decode | None = None,
    tokens: int = 64,
    recorded: LogProbabilities | None = None,
    dtype: str = "float32",
    seed: int = 0,
    model: str = "",
    progress: Progress | None = None,
) -> GenerationReport:
    """Judge whether a model computes the same step by step, with its state, as on the whole sequence.

    Args:
        module: the model; see `Decoder`.
        prompt: tokens, [batch, length], which are continued by the likeliest ones; or, for a model of numbers, a whole
            sequence [batch, length, ...].
        decode: how the model is called step by step; None for models in the manner of transformers.
        tokens: number of tokens to generate.
        recorded: log-probabilities of another engine, which are judged too, on its tokens.
        dtype: working dtype.
        seed: seed of torch's random numbers and of the sizes of chunks.
        model: name for the report.
        progress: receives the stages.

    Returns:
        The report. Its sides are the ways to compute the sequence.

    Raises:
        UsageError: the model doesn't take the sequence, or has no way to decode.
    """
    require_module(module, "continues a sequence")
    label = model or type(module).__name__
    decoder = Decoder(module, decode, label, seed)
    check = _Check(decoder, dtype, label, progress or NoProgress())
    return check.report(prompt, tokens, recorded)


@dataclass
class _Check:
    decoder: Decoder
    dtype: str
    label: str
    progress: Progress

    def report(self, prompt: torch.Tensor, count: int, recorded: LogProbabilities | None) -> GenerationReport:
        """Compare all ways to compute the sequence."""
        decoder = self.decoder
        has_tokens = not prompt.is_floating_point()
        self.progress.stage("generate", None)
        if recorded is not None:
            sequence, length = recorded.tokens, min(prompt.shape[1], recorded.tokens.shape[1] - 1)
        elif has_tokens:
            with decoder.running("float64", self.dtype):
                sequence = greedy(decoder, prompt, count)
            length = prompt.shape[1]
        else:
            sequence, length = prompt, max(1, prompt.shape[1] // 2)
        modes = list(step_modes(sequence, length, decoder.seed))
        wholes = [sequence]
        notes: list[str] = []
        if has_tokens and decoder.takes_mask and length > 1:
            wholes.append(sequence[:, length // 2 :])
            modes.append(padded_mode(sequence, wholes[1], length))
        else:
            why = "the prompt has one token" if length == 1 else "it takes no mask"
            notes += [f"not computed in a batch with padding, since {why}"] if has_tokens else []
        self.progress.stage("compare", 1 + len(modes))
        self.truth, self.working = self._rows(wholes, "float64"), self._rows(wholes, self.dtype)
        self.progress.advance()
        sides = [mode.name for mode in modes] + ([RECORDED] if recorded is not None else [])
        all_comparisons: list[tuple[str, Comparison]] = []
        cells = {"": CellReport("", type(decoder.module).__name__)}
        rates = []
        states = self._states(sequence)
        placing = Placing(decoder, self.dtype, wholes, self.truth, self._run)
        for mode in modes:
            comparisons, logits, last = self._compare(mode)
            all_comparisons += [("", comparison) for comparison in comparisons]
            if mode.mask is None:
                all_comparisons += [("", comparison) for comparison in self._compare_states(mode, states, last)]
            all_comparisons += placing.comparisons(mode, comparisons, cells)
            if has_tokens:
                bar = max((comparison.bar for comparison in comparisons if comparison.check == "rounding"), default=0.0)
                pairs = [(self.truth[row], self.working[row]) for row, _ in mode.rows]
                truth, working = zip(*pairs, strict=True)
                rates.append(likelihoods(mode.name, truth, working, logits, bar))
            self.progress.advance()
        program = step_program(decoder, sequence, length, self.dtype)
        if isinstance(program, str):
            notes.append(program)
        else:
            all_comparisons += [("", comparison) for comparison in self._compare_program(program, length)]
            sides += [INTERPRETER] if program.refusal else [INTERPRETER, ONNXRUNTIME]
            notes += [program.refusal] if program.refusal else []
        if recorded is not None:
            all_comparisons += [
                ("", comparison) for comparison in recorded.compare(self.truth, self.working, Tolerance(self.dtype))
            ]
        for path, comparison in all_comparisons:
            cells[path].comparisons.append(comparison)
        report = GenerationReport(
            model=self.label, reference=REFERENCE, sides=sides, dtype=self.dtype, train=False, grads=False,
            seed=decoder.seed, cells=cells,
            notes=notes + [line for rate in rates for line in rate.lines],
        )  # fmt: skip
        report.likelihoods = rates
        return report

    def _rows(self, wholes: list[torch.Tensor], dtype: str) -> list[Array]:
        """Return the outputs of the reference, [length, ...] for each sequence, from one call for each tensor."""
        rows: list[Array] = []
        with self.decoder.running(dtype, self.dtype):
            for tokens in wholes:
                outputs = as_array(self.decoder.whole(cast(tokens, dtype, self.dtype)))
                if outputs.shape[:2] != tuple(tokens.shape[:2]):
                    raise UsageError(
                        f"{self.label}: the model must return outputs for each position: needed the shape "
                        f"{[*tokens.shape[:2], '...']}, given {list(outputs.shape)}"
                    )
                rows += list(outputs)
        return rows

    def _run(self, mode: Mode, dtype: str) -> tuple[list[Array], object]:
        """Return the outputs of a mode for each sequence, without padding, and its last state."""
        with self.decoder.running(dtype, self.dtype):
            tokens = cast(mode.tokens, dtype, self.dtype)
            outputs, state = in_chunks(self.decoder, tokens, mode.sizes, mode.mask)
        array = as_array(outputs)
        return [array[number, padding:] for number, (_, padding) in enumerate(mode.rows)], state

    def _compare(self, mode: Mode) -> tuple[list[Comparison], list[Array], dict[str, object]]:
        """Return the comparisons of a mode's outputs, its outputs in the working dtype, and its last states."""
        comparisons: list[Comparison] = []
        states: dict[str, object] = {}
        logits: list[Array] = []
        for check, dtype in (("meaning", "float64"), ("rounding", self.dtype)):
            logits, states[check] = self._run(mode, dtype)
            for number, (row, _) in enumerate(mode.rows):
                fields = judge_values(self.dtype, check, logits[number], self.truth[row], self.working[row])
                comparisons.append(
                    Comparison(mode.name, check, "end to end", "output", "logits", 0, input=number + 1, **fields)
                )
        return comparisons, logits, states

    def _states(self, sequence: torch.Tensor) -> dict[str, object]:
        """Return the state after the whole sequence in one step, for each check."""
        states: dict[str, object] = {}
        for check, dtype in (("meaning", "float64"), ("rounding", self.dtype)):
            with self.decoder.running(dtype, self.dtype):
                _, states[check] = in_chunks(self.decoder, cast(sequence, dtype, self.dtype), [sequence.shape[1]])
        return states

    def _compare_states(self, mode: Mode, states: dict[str, object], last: dict[str, object]) -> Iterator[Comparison]:
        """Yield the comparisons of a mode's last state with the state after one step."""
        truth, working = (_arrays(states[check]) for check in ("meaning", "rounding"))
        for check, state in last.items():
            for name, value in _arrays(state).items():
                if name in truth and name in working:
                    fields = judge_values(self.dtype, check, value, truth[name], working[name])
                    yield Comparison(mode.name, check, "end to end", "output", f"state{name}", 0, **fields)

    def _compare_program(self, program: StepProgram, prompt: int) -> Iterator[Comparison]:
        """Yield the comparisons of what the program of a step computes, with its state as inputs and outputs."""
        runs = [
            (INTERPRETER, "meaning", "float64"),
            (INTERPRETER, "rounding", self.dtype),
            (ONNXRUNTIME, "rounding", ""),
        ]
        for side, check, dtype in runs:
            outputs = program.in_interpreter(dtype) if dtype else program.in_onnxruntime()
            for number, logits in enumerate(outputs if outputs is not None else ()):
                fields = judge_values(
                    self.dtype, check, logits, self.truth[number][prompt:], self.working[number][prompt:]
                )
                yield Comparison(side, check, "end to end", "output", "logits", 0, input=number + 1, **fields)


def _arrays(state: object) -> dict[str, Array]:
    """Return the floating-point tensors of a state, by their places in it, as arrays."""
    return {name: as_array(tensor) for name, tensor in tensors(state).items()}


class GenerationReport(Report):
    """The verdict on a model that continues sequences; each side is a way to compute them.

    Attributes:
        likelihoods: how far the probabilities of each side are from the reference's.
    """

    likelihoods: Sequence[Likelihoods] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the report as JSON values, with the likelihoods."""
        return super().to_dict() | {"likelihoods": [likelihood.to_dict() for likelihood in self.likelihoods]}
