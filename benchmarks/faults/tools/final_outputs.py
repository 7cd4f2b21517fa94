"""The usual check of an export: `numpy.testing.assert_allclose` on the final outputs.

The tolerances are those of torch's own tutorial on exporting to ONNX: rtol=1e-3, atol=1e-5.
"""

from __future__ import annotations

import numpy as np

from fixtures.planted_faults.pairs import Pair
from fixtures.planted_faults.running import Arrays, outputs_of

from .finding import Finding

RTOL, ATOL = 1e-3, 1e-5


def judge(pair: Pair) -> Finding | None:
    """Compare the final outputs in float32; None for training and for what isn't a comparison of two networks."""
    if pair.scripts is not None or pair.command is not None:
        return None
    try:
        candidate_outputs = outputs_of(pair, pair.candidate)
    except (RuntimeError, IndexError, ValueError) as error:
        return Finding(True, said=f"raises: {error}"[:200])
    return Finding(not close(outputs_of(pair, pair.reference), candidate_outputs, RTOL, ATOL))


def close(reference: Arrays, candidate: Arrays, rtol: float, atol: float) -> bool:
    """Whether `assert_allclose` passes for all arrays."""
    if len(reference) != len(candidate):
        return False
    try:
        for a, b in zip(reference, candidate, strict=True):
            np.testing.assert_allclose(b, a, rtol=rtol, atol=atol)
    except AssertionError:
        return False
    return True
