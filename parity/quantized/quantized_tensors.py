"""What a file quantizes: the tensors that it rounds, and biases whose scale its integer kernels take for another."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from onnx import NodeProto

from .quantizers import Quantizer
from .weights import original

NOT_ROUNDED = ", not rounded"


@dataclass(frozen=True)
class Quantized:
    """A tensor of the float network that the file rounds to the steps of a quantizer.

    Attributes:
        tensor: its name in the float network.
        codes: the name of the codes in the file; `quantizer` says what they stand for.
        quantizer: its quantizer.
        made_by: operator that makes it; empty for an input.
        bounds: numbers beyond these are clipped by the activation that follows.
    """

    tensor: str
    codes: str
    quantizer: Quantizer
    made_by: str
    bounds: tuple[float, float] = (-np.inf, np.inf)

    @property
    def name(self) -> str:
        """What to call it: what it is called without quantizers."""
        return original(self.tensor.removesuffix(NOT_ROUNDED)).removesuffix("_QuantizeLinear_Input")


@dataclass(frozen=True)
class WrongScale:
    """A bias whose scale isn't the product of the scales of input and weight, which integer kernels take it for."""

    node: NodeProto
    bias: str
    scale: float
    product: float
    quantizer: str
