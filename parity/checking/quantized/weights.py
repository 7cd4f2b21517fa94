"""The weights of a quantized file, with the tensors of the float file that they are roundings of."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

from ....converter.onnx_in.model import protos
from ...sides.records import Array
from .quantizers import HALF, Quantizer

SUFFIXES = ("_quantized", "_Q4", "_Q8")  # that onnxruntime.quantization adds to names of stored codes
SLACK = 1e-3  # tolerance on half a step
CLIPPED = 1.0 / 64.0  # share of the elements that a quantizer may have clipped


@dataclass(frozen=True)
class RoundedWeight:
    """A stored weight compared with a tensor of the float file.

    Attributes:
        stored: its name in the quantized file.
        quantizer: its quantizer.
        node: name of the node that uses it.
        tensor: name of the tensor of the float file; empty if there is none of that shape.
        swapped: whether its last two axes are exchanged.
        steps: error of each element in steps, in the order of the quantized file.
        numbers: the numbers that its codes represent.
        expected: the numbers of the float file, in the same order.
        clipped: number of elements with an error that are saturated.
    """

    stored: str
    quantizer: Quantizer
    node: str
    tensor: str
    swapped: bool
    steps: Array
    numbers: Array
    expected: Array
    clipped: int = 0

    @property
    def largest(self) -> float:
        """The largest error in steps."""
        return float(self.steps.max(initial=0.0))

    @property
    def right(self) -> bool:
        """Whether it is a rounding to the nearest step, except for clipped elements.

        Of a tensor, a few may be. Of blocks, any may be at the end that their symmetric range lacks (8, where codes
        stand for -8 to 7), by one step at most.
        """
        off = int((self.steps > HALF + SLACK).sum())
        if self.quantizer.block:
            return off == self.clipped and self.largest <= 1 + SLACK
        return off == self.clipped <= CLIPPED * self.steps.size


class FloatTensors:
    """The stored tensors of a float file.

    Attributes:
        protos: initializers by name.
        constants: values of Constant nodes, by output name.
    """

    def __init__(self, graph: onnx.GraphProto, folder: Path | None) -> None:
        self.protos = {tensor.name: tensor for tensor in graph.initializer}
        nodes = [node for node in graph.node if node.op_type == "Constant" and not node.domain]
        self.constants = {
            node.output[0]: attribute.t for node in nodes for attribute in node.attribute if attribute.name == "value"
        }
        self.folder = folder
        self._arrays: dict[str, Array] = {}
        self._by_shape: dict[tuple[int, ...], list[str]] = {}
        for name, tensor in {**self.constants, **self.protos}.items():
            self._by_shape.setdefault(tuple(sorted(tensor.dims)), []).append(name)

    def array(self, name: str) -> Array:
        """Return the elements of a tensor."""
        if name not in self._arrays:
            tensor = self.protos.get(name) or self.constants[name]
            self._arrays[name] = protos.array_of(tensor, self.folder, f"initializer {name!r}")
        return self._arrays[name]

    def match_weight(self, stored: str, codes: Array, quantizer: Quantizer, node: str) -> RoundedWeight:
        """Compare a stored weight with the tensor that it is a rounding of, else with the one of its name."""
        best: RoundedWeight | None = None
        for name, swapped, expected in self._candidates(stored, codes.shape):
            steps = quantizer.steps_between(codes, expected.astype(np.float64))
            clipped = int(((steps > HALF + SLACK) & quantizer.is_saturated(codes)).sum())
            match = RoundedWeight(
                stored, quantizer, node, name, swapped, steps, quantizer.numbers(codes), expected, clipped
            )  # fmt: skip
            if match.right:
                return match
            if best is None or (name == original_name(stored) == best.tensor and match.largest < best.largest):
                best = match
        numbers = quantizer.numbers(codes)
        return best or RoundedWeight(stored, quantizer, node, "", False, np.zeros(0), numbers, np.zeros(0))

    def _candidates(self, stored: str, shape: tuple[int, ...]) -> Iterator[tuple[str, bool, Array]]:
        """Yield tensors of that shape, with or without the last two axes exchanged; that of the same name first."""
        names = self._by_shape.get(tuple(sorted(shape)), [])
        for name in sorted(names, key=lambda name: name != original_name(stored)):
            array = self.array(name)
            if array.dtype.kind != "f" and array.dtype.name not in ("bfloat16",):
                continue
            if array.shape == shape:
                yield name, False, array
            if array.ndim >= 2 and array.swapaxes(-1, -2).shape == shape:
                yield name, True, array.swapaxes(-1, -2)


def original_name(stored: str) -> str:
    """The name of the tensor that was quantized."""
    suffix = next((suffix for suffix in SUFFIXES if stored.endswith(suffix)), "")
    return stored.removesuffix(suffix)
