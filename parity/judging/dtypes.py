"""The dtypes of outputs, which a comparison in float64 can't see."""

from __future__ import annotations

from ..results.comparison import FAIL, Comparison
from ..sides.records import OUTPUT, Records
from ..sides.run import Run
from ..sides.side import Side


def compare_dtypes(side: Side, run: Run, reference: Records) -> list[tuple[str, Comparison]]:
    """Return a failure for each output with another floating-point dtype than the reference's, by Cell path.

    A run in float64 hides dtypes, since values that the network casts to float32 stay in float64.

    Args:
        side: a side whose network is in float64.
        run: a run end to end in the working dtype.
        reference: the reference's records of that run.
    """
    failures: list[tuple[str, Comparison]] = []
    for key, value in side.run(run).values.items():
        needed = reference.values.get(key, value).dtype
        if key.kind == OUTPUT and value.dtype != needed:
            reason = f"dtype {value.dtype.name}, needed {needed.name}, where the rest is {run.dtype}"
            fields = {"status": FAIL, "reason": reason, "dtype": value.dtype.name, "shape": value.shape}
            compared = Comparison(side.name, "meaning", "end to end", OUTPUT, key.slot, key.call, **fields)
            failures.append((key.path, compared))
    return failures
