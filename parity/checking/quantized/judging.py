"""The verdict on a quantized file's weights and quantizers, in steps."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import onnx

from ....runtime.compiled.session import SessionError
from ...results.comparison import FAIL, PASS, Comparison
from ...sides.records import Array
from .float_form import FloatForm
from .outliers import Coarse, Outlier, channel_sizes, coarse_notes, is_coarse, outlier, outlier_notes
from .parts import PartError
from .quantized_tensors import QuantizedTensor, quantized_name
from .quantizers import HALF
from .runs import Deviation, measure
from .tensor_cells import TensorCells
from .weights import RoundedWeight

CHECK = "quantization"
MIN_QUANTIZERS = 6  # smallest number of quantizers among which an outlier is detected
OCTAVES = 1.5
"""Allowed deviation, in powers of two, of a quantizer's range from the needed one, relative to the others."""
SPREADS = 8.0  # ... or in median deviations of the others
SATURATION = 16.0
"""What values of the user's inputs that lie beyond a quantizer's range may cost, as a multiple of rounding."""
ALLOWED_RATIO = 3.0
"""Allowed error of a part, as a multiple of the error that the steps of its quantizers explain; see `_allowed`."""
BOUNDED = frozenset({"Sigmoid", "Softmax", "Tanh", "HardSigmoid", "LogSoftmax", "Clip"})
"""Operators whose results have a fixed range, whatever the inputs."""

CellComparisons = list[tuple[str, Comparison]]


def judge_weights(form: FloatForm, side: str, cells: TensorCells) -> CellComparisons:
    """Compare each stored weight with the tensor that it is a rounding of, and check the scales of biases."""
    result = []
    for weight in form.weights:
        path = cells.cell_using(weight.tensor or f"{weight.stored}, as numbers")
        result.append((path, _weight(weight, side)))
    for wrong in form.wrong_scales:
        reason = (
            f"its scale is {wrong.scale:.3g}, but the product of the scales of its input ({wrong.quantizer}) and its "
            f"weight is {wrong.product:.3g}: one of the three is wrong"
        )
        comparison = Comparison(side, CHECK, "isolated", "parameter", wrong.bias, 0, FAIL, reason)
        result.append((cells.of_node(wrong.node), comparison))
    return result


def _weight(weight: RoundedWeight, side: str) -> Comparison:
    quantizer = weight.quantizer
    name = weight.tensor or weight.stored
    if not weight.tensor:
        reason = "no tensor of the float file has its shape"
        return Comparison(side, CHECK, "isolated", "parameter", name, 0, FAIL, reason, shape=weight.numbers.shape)
    off = np.abs(weight.numbers - weight.expected)
    index = tuple(int(i) for i in np.unravel_index(int(np.argmax(weight.steps)), weight.steps.shape))
    reason = ""
    if not weight.right:
        count = int((weight.steps > HALF).sum())
        reason = (
            f"not a rounding of it: {count} of {weight.steps.size} elements are off by more than half a step, by up "
            f"to {weight.largest:.3g} steps of {quantizer.steps}"
        )
    return Comparison(
        side,
        CHECK,
        "isolated",
        "parameter",
        name,
        0,
        FAIL if reason else PASS,
        reason,
        dtype=quantizer.dtype.name,
        shape=weight.steps.shape,
        error=float(off.max(initial=0.0)),
        bar=HALF * quantizer.step,
        ratio=weight.largest,
        allowed=HALF,
        index=index if weight.steps.size else None,
        reference_value=float(weight.expected[index]) if weight.steps.size else None,
        candidate_value=float(weight.numbers[index]) if weight.steps.size else None,
        truth=float(weight.expected[index]) if weight.steps.size else None,
    )


def judge_ranges(
    form: FloatForm,
    side: str,
    cells: TensorCells,
    quantized: onnx.ModelProto,
    samples: Sequence[Mapping[str, Array]],
    inputs_given: bool,
    provider: str,
) -> tuple[CellComparisons, list[str]]:
    """Judge each quantizer of intermediate values: their error in steps, and whether its range fits.

    Args:
        form: the float network.
        side: name of the quantized file.
        cells: TensorCells of the float network.
        quantized: the quantized model.
        samples: inputs by name.
        inputs_given: whether the inputs are the user's.
        provider: ONNX Runtime's provider.

    Returns:
        Comparisons by Cell, and notes.
    """
    try:
        deviations, parts = measure(form, quantized, samples, provider)
    except SessionError as error:
        reason = str(error).partition("\n")[0]
        return [], [f"the errors of intermediate values, in steps, couldn't be measured: {reason}"]
    wrong = _wrong_ranges(form.quantized, deviations)
    result: CellComparisons = []
    for tensor in form.quantized:
        deviation = deviations.get(tensor.codes)
        if deviation is None or not deviation.count:
            continue
        reason = wrong.get(tensor.codes, "")
        if inputs_given and not reason and deviation.saturation > SATURATION:
            reason = (
                f"{deviation.beyond / deviation.count:.0%} of its values lie beyond the range of its quantizer, "
                f"{_range(tensor)}: they need {deviation.low:.3g} to {deviation.high:.3g}, which costs "
                f"{deviation.saturation:.0f} times what rounding does"
            )
        path = cells.cell_computing(tensor.tensor)
        result += [(path, comparison) for comparison in _steps(tensor, deviation, side, reason)]
    for name, part in parts.items():
        if not max(part.error, part.expected_error) <= part.rounding:  # NaN is an error, too
            result.append((cells.cell_computing(name), _part(name, part, side)))
    notes = _saturation_note(form, deviations, inputs_given)
    notes += coarse_notes(_coarse(form, deviations, cells))
    return result, notes + outlier_notes(_of_weights(form, cells), _of_values(form, deviations, cells))


def _saturation_note(form: FloatForm, deviations: Mapping[str, Deviation], inputs_given: bool) -> list[str]:
    """Return a note on values beyond the ranges of their quantizers, if they cost more than rounding does."""
    worst = {
        tensor.codes: deviations[tensor.codes].saturation for tensor in form.quantized if tensor.codes in deviations
    }
    costly = [
        tensor for tensor in form.quantized if worst.get(tensor.codes, 0.0) > (1.0 if inputs_given else SATURATION)
    ]
    if not costly:
        return []
    most = max(costly, key=lambda tensor: worst[tensor.codes])
    of = f"{len(costly)} of {len(worst)} tensors, {most.name} most, which costs {worst[most.codes]:.3g} times what"
    advice = (
        "calibrate with inputs like these"
        if inputs_given
        else "give inputs like those of the calibration with --inputs"
    )
    return [
        f"the quantizers clip values of the {'' if inputs_given else 'generated '}inputs ({of} rounding does): {advice}"
    ]


def _part(tensor: str, part: PartError, side: str) -> Comparison:
    """Compare the error of a part with what the steps of its quantizers explain."""
    allowed = _allowed(part.count)
    ratio = part.error / part.expected_error if part.expected_error else math.inf
    reason = ""
    if not ratio <= allowed:
        reason = (
            f"off by {part.error:.3g} (root mean square), {ratio:.3g} times what rounding to the steps of its "
            f"quantizers makes: the file computes something else from the same codes"
        )
    return Comparison(
        side,
        CHECK,
        "isolated",
        "quantization error",
        quantized_name(tensor),
        0,
        FAIL if reason else PASS,
        reason,
        error=part.error,
        bar=allowed * part.expected_error,
        ratio=ratio,
        allowed=allowed,
    )


def _allowed(count: int) -> float:
    """Return the allowed ratio for a tensor: larger for few elements, whose errors differ by chance."""
    return ALLOWED_RATIO * (1.0 + 8.0 / count)


def _coarse(form: FloatForm, deviations: Mapping[str, Deviation], cells: TensorCells) -> Iterator[Coarse]:
    """Yield the tensors whose quantizers are coarse."""
    for tensor in form.quantized:
        deviation, step = deviations.get(tensor.codes), tensor.quantizer.step
        if deviation is not None and is_coarse(deviation.typical, step):
            yield Coarse(
                cells.cell_computing(tensor.tensor), tensor.name, deviation.typical, step, *tensor.quantizer.range()
            )


def _of_weights(form: FloatForm, cells: TensorCells) -> Iterator[tuple[str, str, Outlier]]:
    """Yield the outlier channels of stored weights with one scale."""
    for weight in form.weights:
        if weight.quantizer.scale.size == 1 and weight.tensor:
            channel = outlier(channel_sizes(weight.expected), weight.quantizer.step)
            if channel is not None:
                yield cells.cell_using(weight.tensor), weight.tensor, channel


def _of_values(
    form: FloatForm, deviations: Mapping[str, Deviation], cells: TensorCells
) -> Iterator[tuple[str, str, Outlier]]:
    """Yield the outlier channels of intermediate values with one scale."""
    for tensor in form.quantized:
        deviation = deviations.get(tensor.codes)
        channel = (
            outlier(deviation.channels, tensor.quantizer.step) if deviation is not None and deviation.channels else None
        )
        if channel is not None:
            yield cells.cell_computing(tensor.tensor), tensor.name, channel


def _range(tensor: QuantizedTensor) -> str:
    low, high = tensor.quantizer.range()
    return f"{low:.3g} to {high:.3g}"


def _wrong_ranges(quantized: Sequence[QuantizedTensor], deviations: Mapping[str, Deviation]) -> dict[str, str]:
    """Return the faults of quantizers whose range fits their values worse than the others' ranges do."""
    ratios = dict(_ratios(quantized, deviations))
    if len(ratios) < MIN_QUANTIZERS:
        return {}
    logs = np.array(list(ratios.values()))
    middle = float(np.median(logs))
    allowed = max(OCTAVES, SPREADS * float(np.median(np.abs(logs - middle))))
    result = {}
    for tensor in quantized:
        ratio = ratios.get(tensor.codes, middle) - middle
        deviation = deviations.get(tensor.codes)
        too_small = ratio > allowed and deviation is not None and deviation.beyond > 0
        if deviation is not None and (too_small or (ratio < -allowed and tensor.producer_op not in BOUNDED)):
            how = f"{2.0**ratio:.2g} times as small" if ratio > 0 else f"{2.0**-ratio:.2g} times as large"
            result[tensor.codes] = (
                f"its scale is {how} as the values need, compared with the file's other scales: it represents "
                f"{_range(tensor)}, and the values lie between {deviation.low:.3g} and {deviation.high:.3g}"
            )
    return result


def _ratios(quantized: Sequence[QuantizedTensor], deviations: Mapping[str, Deviation]) -> Iterator[tuple[str, float]]:
    """Yield log2 of the ratio of needed range to quantizer's range; equal quantizers share one ratio."""
    alike: dict[tuple[float, float], list[QuantizedTensor]] = {}
    for tensor in quantized:
        if tensor.quantizer.scale.size == 1 and tensor.codes in deviations and deviations[tensor.codes].count:
            alike.setdefault(tensor.quantizer.range(), []).append(tensor)
    for (low, high), group in alike.items():
        ends = [deviations[tensor.codes] for tensor in group]
        needed = max(max(deviation.high for deviation in ends), 0.0) - min(
            min(deviation.low for deviation in ends), 0.0
        )
        if needed > 0 and high > low:
            for tensor in group:
                yield tensor.codes, float(np.log2(needed / (high - low)))


def _steps(tensor: QuantizedTensor, deviation: Deviation, side: str, reason: str) -> Iterator[Comparison]:
    """Yield the comparison of the isolated Cell, with the verdict on the range, and that end to end."""
    quantizer = tensor.quantizer
    yield Comparison(
        side,
        CHECK,
        "isolated",
        "quantizer",
        tensor.name,
        0,
        FAIL if reason else PASS,
        reason,
        dtype=quantizer.dtype.name,
        error=deviation.isolated * quantizer.step,
        bar=quantizer.step,
        ratio=deviation.isolated,
    )
    yield Comparison(
        side,
        CHECK,
        "end to end",
        "quantizer",
        tensor.name,
        0,
        PASS,
        dtype=quantizer.dtype.name,
        error=abs(deviation.values[0] - deviation.values[1]),
        bar=quantizer.step,
        ratio=deviation.end_to_end,
        index=deviation.index,
        reference_value=deviation.values[0],
        candidate_value=deviation.values[1],
        truth=deviation.values[0],
    )
