"""The errors of the parts of a quantized file, each alone, and the errors that the steps of their quantizers explain.

A part starts from the float network's values, rounded by the file's quantizers, and ends where values are rounded next.
What it is off by is compared with what the same part of the float network is off by when its weights and inputs are
rounded to the same steps on a shifted grid: `(round(x / step + shift) - shift) * step`. That keeps what makes
rounding errors add up (equal values have equal errors) or vanish (a value that the quantizer represents is exact), and
depends on the size of the steps alone, and on the range beyond which values saturate: a wrong zero point, scale or axis
isn't in it, nor is a kernel that computes something else.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import onnx

from ....runtime.compiled.isolated import IsolatedSession
from ....runtime.ir.types import is_floating
from ...sides.records import Array
from ...verdicts.judge import epsilon
from .cuts import Cut, Cuts, computed_name
from .float_form import FloatForm
from .quantizers import Quantizer
from .weights import RoundedWeight

SHIFTS = (-0.375, -0.125, 0.125, 0.375)
EXACT = 2.0**-12
"""Share of a step below which a rounding error is one of float32: the quantizer represents the value."""
ROUNDING = 64.0
"""Rounding errors of float32, of a tensor's size, that need no explanation by steps."""


@dataclass
class PartError:
    """The error of a tensor at the end of a part, over all samples.

    Attributes:
        count: number of elements.
        squares: sum of squared errors.
        shifted_squares: sum of squared errors for each shift of the grid.
        shifted_counts: number of elements for each shift.
        size: sum of squares of the float network's values.
    """

    count: int = 0
    squares: float = 0.0
    shifted_squares: Array = field(default_factory=lambda: np.zeros(len(SHIFTS)))
    shifted_counts: Array = field(default_factory=lambda: np.zeros(len(SHIFTS)))
    size: float = 0.0

    @property
    def error(self) -> float:
        """The root mean square of the error."""
        return (self.squares / self.count) ** 0.5 if self.count else 0.0

    @property
    def expected_error(self) -> float:
        """The root mean square of the error that the steps explain, and of rounding in float32."""
        squares = self.shifted_squares / np.maximum(self.shifted_counts, 1)
        return max(float(np.sqrt(squares.max())), self.rounding)

    @property
    def rounding(self) -> float:
        """The root mean square of an error that rounding in float32 explains."""
        return ROUNDING * epsilon("float32") * (self.size / self.count) ** 0.5 if self.count else 0.0


class Parts:
    """The parts of a quantized file, in ONNX Runtime.

    Attributes:
        cuts: where it is cut.
        errors: errors by the names of tensors of the float network.
    """

    def __init__(self, form: FloatForm, quantized: onnx.ModelProto, provider: str) -> None:
        """
        Args:
            form: the float network.
            quantized: the quantized model.
            provider: ONNX Runtime's provider.
        """
        self.form = form
        self.cuts = Cuts(form, quantized)
        self.errors = {name: PartError() for name in [cut.tensor for cut in self.cuts.cuts] + self.cuts.outputs}
        self._file = IsolatedSession(self.cuts.of_file(), provider)
        self._form = IsolatedSession(self.cuts.of_form(), provider, optimized=False)
        self._weights = {weight.tensor: weight for weight in form.weights if weight.tensor}
        self._rng = np.random.default_rng(0)

    def close(self) -> None:
        """End the processes."""
        for session in (self._file, self._form):
            session.close()

    def needed(self) -> list[str]:
        """Return the names of the float network's tensors whose values `add` takes."""
        return [cut.tensor for cut in self.cuts.cuts] + [tensor for tensor, _ in self.form.dynamic]

    def add(self, sample: Mapping[str, Array], numbers: Mapping[str, Array], draws: Iterable[int]) -> dict[str, Array]:
        """Run the parts on one more sample; return what the file computes for each cut, by the names of its codes.

        Args:
            sample: inputs by name.
            numbers: the float network's values on them.
            draws: the numbers of the shifts that are tried on it.
        """
        computed = self._run_file(sample, numbers)
        for cut in self.cuts.cuts:
            values = computed.get(computed_name(cut.codes))
            if values is not None and values.shape == numbers[cut.tensor].shape:
                result = values if cut.quantizer is None else cut.quantizer.numbers(values)
                self._add(cut.tensor, result, numbers, cut.bounds, None)
        for name in self.cuts.outputs:
            self._add(name, computed.get(name), numbers, (-np.inf, np.inf), None)
        shifts = {name: self._rng.permutation(SHIFTS) for name in self._inputs_of_form()}
        for draw in draws:
            self._explain(sample, numbers, {name: float(offsets[draw]) for name, offsets in shifts.items()}, draw)
        return {
            cut.codes: computed[computed_name(cut.codes)]
            for cut in self.cuts.cuts
            if computed_name(cut.codes) in computed
        }

    def _run_file(self, sample: Mapping[str, Array], numbers: Mapping[str, Array]) -> dict[str, Array]:
        """Run the file from the float network's values, as its quantizers round them."""
        fed = dict(sample)
        for cut in self.cuts.cuts:
            array = numbers[cut.tensor]
            fed[cut.codes] = array if cut.quantizer is None else cut.quantizer.codes_of(array)
        return tensors(self._file.run(_inputs_of(self._file, fed)))

    def _inputs_of_form(self) -> Iterable[str]:
        return [*(cut.fed for cut in self.cuts.cuts), *(codes for _, codes in self.form.dynamic), *self._weights]

    def _explain(
        self, sample: Mapping[str, Array], numbers: Mapping[str, Array], shifts: Mapping[str, float], draw: int
    ) -> None:
        """Run the float network's parts with values rounded on a shifted grid."""
        fed = dict(sample)
        for cut in self.cuts.cuts:
            fed[cut.fed] = self._rounded(cut, numbers[cut.tensor], shifts[cut.fed])
        for tensor, codes in self.form.dynamic:
            quantizer = dynamic_quantizer(numbers[tensor])
            fed[codes] = round_on_shifted_grid(numbers[tensor], quantizer, shifts[codes])
        for name, weight in self._weights.items():
            fed[name] = _shifted_weight(weight, shifts[name])
        results = tensors(self._form.run(_inputs_of(self._form, fed)))
        for cut in self.cuts.cuts:
            values = results.get(computed_name(cut.fed))
            if values is not None:
                self._add(cut.tensor, self._rounded(cut, values, -shifts[cut.fed]), numbers, cut.bounds, draw)
        for name in self.cuts.outputs:
            self._add(name, results.get(name), numbers, (-np.inf, np.inf), draw)

    def _rounded(self, cut: Cut, numbers: Array, shift: float) -> Array:
        return numbers if cut.quantizer is None else round_on_shifted_grid(numbers, cut.quantizer, shift)

    def _add(
        self, name: str, values: Array | None, numbers: Mapping[str, Array], bounds: tuple[float, float],
        draw: int | None,
    ) -> None:  # fmt: skip
        """Add the squared error of a tensor: of the file, or, with the number of a shift, of the float network."""
        if values is None or values.shape != numbers[name].shape or not is_floating(numbers[name].dtype):
            return
        wide = numbers[name].astype(np.float64)
        finite = np.isfinite(wide)  # of others, as in masks, only the network as a whole is compared
        wide, clipped = (np.clip(array[finite], *bounds) for array in (wide, values.astype(np.float64)))
        square = float(((clipped - wide) ** 2).sum())
        error = self.errors[name]
        if draw is None:
            error.count += wide.size
            error.size += float((wide**2).sum())
            error.squares += square
        else:
            error.shifted_squares[draw] += square
            error.shifted_counts[draw] += wide.size


def round_on_shifted_grid(numbers: Array, quantizer: Quantizer, shift: float) -> Array:
    """Return numbers rounded to a quantizer's steps, within its range, on a grid that is shifted by a part of a step.

    Args:
        numbers: float32 of any shape.
        quantizer: its steps.
        shift: the part of a step.
    """
    scale, zero = (quantizer.broadcast(part, numbers.shape) for part in (quantizer.scale, quantizer.zero_point))
    with np.errstate(divide="ignore", invalid="ignore"):
        codes = numbers.astype(np.float64) / scale
        rounded = np.round(codes + shift) - shift
    rounded = np.where(np.abs(codes - np.round(codes)) <= EXACT, np.round(codes), rounded)
    low, high = quantizer.codes
    rounded = np.clip(rounded, low - zero, high - zero)
    return np.asarray(np.nan_to_num(rounded * scale), np.float32)


def dynamic_quantizer(numbers: Array) -> Quantizer:
    """Return the quantizer of 8 bits of DynamicQuantizeLinear (ONNX, operator set 11) for a tensor."""
    low, high = min(float(numbers.min(initial=0.0)), 0.0), max(float(numbers.max(initial=0.0)), 0.0)
    scale = (high - low) / 255.0 or 1.0
    zero = np.clip(np.round(-low / scale), 0, 255)
    return Quantizer("dynamic", np.array(scale), np.array(float(zero)), np.dtype(np.uint8))


def _shifted_weight(weight: RoundedWeight, shift: float) -> Array:
    numbers = round_on_shifted_grid(weight.expected, weight.quantizer, shift)
    return numbers.swapaxes(-1, -2) if weight.swapped else numbers


def tensors(results: Mapping[str, Mapping[str, Array]]) -> dict[str, Array]:
    """Return outputs by name, without those that aren't tensors."""
    return {name: next(iter(parts.values())) for name, parts in results.items() if len(parts) == 1}


def _inputs_of(session: IsolatedSession, arrays: Mapping[str, Array]) -> dict[str, Array]:
    assert isinstance(session.model, onnx.ModelProto)
    stored = {tensor.name for tensor in session.model.graph.initializer}
    return {value.name: arrays[value.name] for value in session.model.graph.input if value.name not in stored}
