"""Cases of inverses, determinants and factors of matrices."""

from __future__ import annotations

import numpy as np
import torch

from tests.runtime.ops.cases import OpCase

_RNG = np.random.default_rng(7)
_WITHOUT_ONNX = "standard ONNX has no operator for it"
_MATRIX = np.array([[2.0, 0.5, -1.0], [0.25, -3.0, 1.5], [1.0, 0.75, 4.0]])
_BATCH = _MATRIX + 0.1 * _RNG.standard_normal((2, 1, 3, 3))
_POSITIVE = _BATCH @ np.swapaxes(_BATCH, -1, -2) + np.eye(3)
_RIGHT = _RNG.standard_normal((3, 2))


CASES = [
    OpCase("inverse", (_MATRIX,), {}, torch.linalg.inv, skip_onnx=_WITHOUT_ONNX),
    OpCase("inverse", (_BATCH,), {}, torch.linalg.inv, "batch", skip_onnx=_WITHOUT_ONNX),
    OpCase("solve", (_MATRIX, _RIGHT), {}, torch.linalg.solve, skip_onnx=_WITHOUT_ONNX),
    OpCase("solve", (_BATCH, _RIGHT), {}, torch.linalg.solve, "batch", skip_onnx=_WITHOUT_ONNX),
    OpCase("determinant", (_BATCH,), {}, torch.linalg.det, skip_onnx=_WITHOUT_ONNX),
    OpCase("log_determinant", (_BATCH,), {}, torch.linalg.slogdet, skip_onnx=_WITHOUT_ONNX),
    OpCase("cholesky", (_POSITIVE,), {}, torch.linalg.cholesky, skip_onnx=_WITHOUT_ONNX),
]
