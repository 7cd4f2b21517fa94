"""The tensors that a file quantizes, and biases with wrong scales."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from onnx import NodeProto

from .quantizers import Quantizer
from .weights import original_name

NOT_ROUNDED = ", not rounded"


@dataclass(frozen=True)
class QuantizedTensor:
    """A tensor of the float network that the file rounds to the steps of a quantizer.

    Attributes:
        tensor: its name in the float network.
        codes: the name of its codes in the file.
        quantizer: its quantizer.
        producer_op: operator that computes it; empty for an input.
        bounds: range outside which the following activation clips.
    """

    tensor: str
    codes: str
    quantizer: Quantizer
    producer_op: str
    bounds: tuple[float, float] = (-np.inf, np.inf)

    @property
    def name(self) -> str:
        """Its name without quantizers."""
        return quantized_name(self.tensor)


def quantized_name(tensor: str) -> str:
    """Return the name of a tensor without what quantizers add to it."""
    return original_name(tensor.removesuffix(NOT_ROUNDED)).removesuffix("_QuantizeLinear_Input")


@dataclass(frozen=True)
class WrongScale:
    """A bias whose scale isn't the product of the scales of input and weight, as integer kernels assume."""

    node: NodeProto
    bias: str
    scale: float
    product: float
    quantizer: str
