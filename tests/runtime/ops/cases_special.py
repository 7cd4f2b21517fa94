"""Cases of the special functions."""

from __future__ import annotations

import numpy as np
import torch

from tests.runtime.ops.cases import OpCase

_WITHOUT_ONNX = "no combination of standard ONNX operators is accurate"
_SHARES = np.array([[-0.99, -0.5, -0.1, 0.0], [1e-3, 0.3, 0.7, 0.95]])
_POSITIVE = np.array([[0.1, 0.5, 1.0, 1.5], [2.5, 7.25, 12.0, 40.0]])
_NEGATIVE = np.array([-0.25, -1.5, -4.75])


def _zeta_two(x: torch.Tensor) -> torch.Tensor:
    return torch.special.zeta(torch.tensor(2, dtype=x.dtype), x)


CASES = [
    OpCase("erfinv", (_SHARES,), {}, torch.erfinv, skip_onnx=_WITHOUT_ONNX),
    OpCase("lgamma", (_POSITIVE,), {}, torch.lgamma, skip_onnx=_WITHOUT_ONNX),
    OpCase("lgamma", (_NEGATIVE,), {}, torch.lgamma, "negative", skip_onnx=_WITHOUT_ONNX),
    # torch's trigamma is right to nine digits only: zeta, and differences, judge it and the gradient of digamma
    OpCase("polygamma", (_POSITIVE,), {"order": 0}, torch.digamma, "digamma", False, _WITHOUT_ONNX),
    OpCase("polygamma", (_NEGATIVE,), {"order": 0}, torch.digamma, "digamma_negative", False, _WITHOUT_ONNX),
    OpCase("polygamma", (_POSITIVE,), {"order": 0}, None, "digamma_gradient", skip_onnx=_WITHOUT_ONNX),
    OpCase("polygamma", (_NEGATIVE,), {"order": 0}, None, "digamma_gradient_negative", skip_onnx=_WITHOUT_ONNX),
    OpCase("polygamma", (_POSITIVE,), {"order": 1}, _zeta_two, "trigamma", skip_onnx=_WITHOUT_ONNX),
    OpCase("polygamma", (_POSITIVE,), {"order": 3}, lambda x: torch.polygamma(3, x), "third", skip_onnx=_WITHOUT_ONNX),
]
