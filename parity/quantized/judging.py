"""The verdict on a quantized file's quantizers, in their own steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import onnx

from ...converter.onnx_in.model.cells import CellPaths
from ...converter.onnx_in.model.origin import read_origin
from ...runtime.compiled.session import SessionError
from ..results.comparison import FAIL, PASS, Comparison
from ..sides.records import Array
from .float_form import FloatForm
from .quantized_tensors import Quantized
from .quantizers import HALF
from .runs import Apart, measured
from .weights import Rounded

CHECK = "quantization"
MIN_QUANTIZERS = 6  # quantizers of which one can stand apart
OCTAVES = 1.5
"""How far a quantizer's range may be from what its values need, in powers of two, beyond the others'."""
SPREADS = 8.0  # ... or in median deviations of the others
BEYOND = 1.0 / 16.0
"""Share of the values of given inputs that may lie beyond a quantizer's range."""
BOUNDED = frozenset({"Sigmoid", "Softmax", "Tanh", "HardSigmoid", "LogSoftmax", "Clip"})
"""Operators whose results have a range of their own, whatever values there are."""

Found = list[tuple[str, Comparison]]


class Cells:
    """The Cells of a float network's tensors."""

    def __init__(self, model: onnx.ModelProto) -> None:
        origin = read_origin(model)
        self._paths = CellPaths(model.graph.name, origin.calls if origin else None)
        self._makers = {name: node for node in model.graph.node for name in node.output}
        self._takers: dict[str, list[onnx.NodeProto]] = {}
        for node in model.graph.node:
            for name in node.input:
                self._takers.setdefault(name, []).append(node)

    def of_node(self, node: onnx.NodeProto) -> str:
        """The Cell of a node."""
        return self._paths.path(self._paths.call_of(node, 0))

    def taking(self, tensor: str) -> str:
        """The Cell of the first node that computes with a tensor."""
        for _ in range(len(self._makers)):
            takers = self._takers.get(tensor, [])
            if not takers:
                return ""
            if takers[0].op_type not in ("Identity", "Transpose"):
                return self.of_node(takers[0])
            tensor = takers[0].output[0]
        return ""

    def making(self, tensor: str) -> str:
        """The Cell that makes a tensor; of an input, the one that takes it."""
        node = self._makers.get(tensor)
        return self.taking(tensor) if node is None or node.op_type == "Identity" else self.of_node(node)


def judged_weights(form: FloatForm, side: str, cells: Cells) -> Found:
    """Each stored weight against the tensor that it is a rounding of; and the scales of biases."""
    found = []
    for weight in form.weights:
        path = cells.taking(weight.tensor or f"{weight.stored}, as numbers")
        found.append((path, _weight(weight, side)))
    for wrong in form.wrong_scales:
        reason = (
            f"its scale is {wrong.scale:.3g}, those of its input ({wrong.quantizer}) and its weight make "
            f"{wrong.product:.3g}: one of the three is wrong"
        )
        comparison = Comparison(side, CHECK, "isolated", "parameter", wrong.bias, 0, FAIL, reason)
        found.append((cells.of_node(wrong.node), comparison))
    return found


def _weight(weight: Rounded, side: str) -> Comparison:
    quantizer = weight.quantizer
    name = weight.tensor or weight.stored
    if not weight.tensor:
        reason = "no tensor of the float file has its shape"
        return Comparison(side, CHECK, "isolated", "parameter", name, 0, FAIL, reason, shape=weight.numbers.shape)
    off = np.abs(weight.numbers - weight.wanted)
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
        reference_value=float(weight.wanted[index]) if weight.steps.size else None,
        candidate_value=float(weight.numbers[index]) if weight.steps.size else None,
        truth=float(weight.wanted[index]) if weight.steps.size else None,
    )


def judged_ranges(
    form: FloatForm,
    side: str,
    cells: Cells,
    quantized: onnx.ModelProto,
    samples: Sequence[Mapping[str, Array]],
    given: bool,
    provider: str,
) -> tuple[Found, list[str]]:
    """Each quantizer of values between weights: how many steps they are off, and whether it has the range they need.

    Args:
        form: the float network.
        side: name of the quantized file.
        cells: of the float network.
        quantized: the file.
        samples: inputs by name.
        given: whether they are the user's.
        provider: of ONNX Runtime.

    Returns:
        Comparisons by Cell, and notes.
    """
    try:
        apart = measured(form, quantized, samples, provider)
    except SessionError as error:
        reason = str(error).partition("\n")[0]
        return [], [f"the steps that values between weights are off couldn't be measured: {reason}"]
    wrong = _stands_apart(form.quantized, apart)
    found: Found = []
    for each in form.quantized:
        one = apart.get(each.codes)
        if one is None or not one.count:
            continue
        reason = wrong.get(each.codes, "")
        share = one.beyond / one.count
        if given and not reason and share > BEYOND:
            reason = (
                f"{share:.0%} of its values lie beyond the range of its quantizer, {_range(each)}: they need "
                f"{one.low:.3g} to {one.high:.3g}"
            )
        path = cells.making(each.tensor)
        found += [(path, comparison) for comparison in _steps(each, one, side, reason)]
    notes = []
    clipping = [each for each in form.quantized if _share(apart.get(each.codes)) > BEYOND]
    if clipping and not given:
        notes.append(
            f"generated inputs make values that the quantizers clip ({len(clipping)} of {len(apart)} tensors, "
            f"{clipping[0].name} first): give inputs such as the file was calibrated with, --inputs"
        )
    return found, notes


def _share(one: Apart | None) -> float:
    return one.beyond / one.count if one is not None and one.count else 0.0


def _range(each: Quantized) -> str:
    low, high = each.quantizer.range()
    return f"{low:.3g} to {high:.3g}"


def _stands_apart(quantized: Sequence[Quantized], apart: Mapping[str, Apart]) -> dict[str, str]:
    """What is wrong with quantizers whose range is another than their values need, more than that of the others."""
    ratios = dict(_ratios(quantized, apart))
    if len(ratios) < MIN_QUANTIZERS:
        return {}
    logs = np.array(list(ratios.values()))
    middle = float(np.median(logs))
    allowed = max(OCTAVES, SPREADS * float(np.median(np.abs(logs - middle))))
    found = {}
    for each in quantized:
        ratio = ratios.get(each.codes, middle) - middle
        one = apart.get(each.codes)
        too_small = ratio > allowed and one is not None and one.beyond > 0
        if one is not None and (too_small or (ratio < -allowed and each.made_by not in BOUNDED)):
            how = f"{2.0**ratio:.2g} times as small" if ratio > 0 else f"{2.0**-ratio:.2g} times as large"
            found[each.codes] = (
                f"its scale is {how} as the values need, as the file's other scales are: it represents {_range(each)}, "
                f"the values lie between {one.low:.3g} and {one.high:.3g}"
            )
    return found


def _ratios(quantized: Sequence[Quantized], apart: Mapping[str, Apart]) -> Iterator[tuple[str, float]]:
    """The logarithm of the range that values need by that of the quantizer; quantizers alike have one together."""
    alike: dict[tuple[float, float], list[Quantized]] = {}
    for each in quantized:
        if each.quantizer.scale.size == 1 and each.codes in apart and apart[each.codes].count:
            alike.setdefault(each.quantizer.range(), []).append(each)
    for (low, high), group in alike.items():
        ends = [apart[each.codes] for each in group]
        needed = max(max(one.high for one in ends), 0.0) - min(min(one.low for one in ends), 0.0)
        if needed > 0 and high > low:
            for each in group:
                yield each.codes, float(np.log2(needed / (high - low)))


def _steps(each: Quantized, one: Apart, side: str, reason: str) -> Iterator[Comparison]:
    """Of the Cell alone, with the verdict on the range; and end to end, where steps add up."""
    quantizer = each.quantizer
    yield Comparison(
        side,
        CHECK,
        "isolated",
        "quantizer",
        each.name,
        0,
        FAIL if reason else PASS,
        reason,
        dtype=quantizer.dtype.name,
        error=one.isolated * quantizer.step,
        bar=quantizer.step,
        ratio=one.isolated,
    )
    yield Comparison(
        side,
        CHECK,
        "end to end",
        "quantizer",
        each.name,
        0,
        PASS,
        dtype=quantizer.dtype.name,
        error=abs(one.values[0] - one.values[1]),
        bar=quantizer.step,
        ratio=one.end_to_end,
        index=one.index,
        reference_value=one.values[0],
        candidate_value=one.values[1],
        truth=one.values[0],
    )
