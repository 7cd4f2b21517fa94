"""How a tensor that should be made of others differs from what they give."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .....runtime.errors import UsageError
from ...arrangements import Array
from ...assembly import Assembly
from ..derivation import Derivation
from ..moments import EXACT
from .finding import counted, listed, numbers_listed

LIKE = 0.5
"""The least correlation with the expected values of a tensor that was made of them."""
MOST_DIFFERING = 0.5
"""The largest share of elements that differ where the others say what the tensor is."""


@dataclass(frozen=True)
class Difference:
    """How a tensor differs, with the words of a finding; see `Finding`."""

    kind: str
    text: str
    evidence: str
    advice: str


def differences(derivation: Derivation, name: str) -> Difference | None:
    """Return how a tensor that comes from nowhere differs from what it is likely to be made of; None if it is far."""
    target = derivation.after[name]
    same = [s for s in derivation.before.values() if _has_the_elements(s.whole.sums, target.whole.sums)]
    if same and same[0].tensor.size == target.tensor.size:
        source = same[0].tensor
        is_reshaped = np.array_equal(source.read().reshape(target.tensor.shape), target.tensor.read())
        how = "in an order that no exchange of axes gives"
        if is_reshaped:
            how = "read in the file's order with another shape, where axes should be exchanged"
        return Difference(
            "reshaped" if is_reshaped else "order",
            f"has the elements of {listed([source.name])}, {how}",
            f"shapes {list(source.shape)} and {list(target.tensor.shape)}; the sums of all powers are equal",
            "exchange the axes (transpose, permute) before the shape is changed",
        )
    candidates = [derivation.expected(name), *(Assembly((n,)) for n in derivation.unused)]
    actual = target.tensor.read().astype(np.float64)
    for assembly in candidates:
        expected = None if assembly is None else _assembled(derivation, assembly)
        if assembly is not None and expected is not None and expected.shape == actual.shape and actual.size > 1:
            result = _difference(expected.astype(np.float64), actual, listed(assembly.names), is_float=target.error > 0)
            if result is not None:
                return result
    return None


def _has_the_elements(sums: Array, others: Array) -> bool:
    return bool(np.allclose(sums, others, rtol=EXACT, atol=0)) and bool(sums[0, 1] > 0)


def _assembled(derivation: Derivation, assembly: Assembly) -> Array | None:
    try:
        return assembly.assemble({name: derivation.before[name].tensor.read() for name in assembly.names})
    except UsageError:  # the other layer has other shapes
        return None


def _difference(expected: Array, actual: Array, sources: str, *, is_float: bool) -> Difference | None:
    finite = np.isfinite(actual) & np.isfinite(expected)
    differing = ~(expected == actual) & finite
    share = differing.mean()
    if 0 < share <= MOST_DIFFERING:
        rows = np.flatnonzero(differing.reshape(len(differing), -1).any(axis=1))
        place = np.argwhere(differing)[0].tolist()
        first = tuple(place)
        return Difference(
            "elements",
            f"differs from {sources} in {int(differing.sum())} of {counted(actual.size, 'element')}",
            f"in slices {numbers_listed(rows.tolist())} along axis 0; first at {place}: {expected[first]:.6g} was "
            f"expected, and it is {actual[first]:.6g}",
            "look at what was written there after the conversion",
        )
    a, b = expected[finite], actual[finite]
    size = float(np.linalg.norm(a) * np.linalg.norm(b))
    cosine = float(a @ b) / size if size else 0.0
    if abs(cosine) < LIKE:
        return None
    if not is_float:
        return Difference(
            "quantized",
            f"is {sources} in whole numbers",
            f"the cosine of both is {cosine:.4f}; the scales are elsewhere in the checkpoint",
            "compare a file whose layout is known, which is unpacked to the values that it stands for",
        )
    error = float(np.linalg.norm(a - b) / np.linalg.norm(a))
    rank = _rank(expected - actual)
    low = f"; the difference has the rank {rank}, as an adapter gives" if rank else ""
    return Difference(
        "adapter" if rank else "near",
        f"is near {sources}, and not the same: it differs by {error:.2g} of its size",
        f"the cosine of both is {cosine:.4f}{low}",
        "give the adapter's file, too"
        if rank
        else "look for a step that changes values: training, an average, a factor",
    )


def _rank(update: Array) -> int:
    """Return the rank of a matrix if it is small, and 0 otherwise."""
    if update.ndim != 2 or min(update.shape) < 8:
        return 0
    values = np.linalg.svd(update, compute_uv=False)
    rank = int((values > 1e-4 * values[0]).sum())
    return rank if rank <= min(update.shape) // 4 else 0
