"""Values that no weight should have, and values that were rounded more than their dtype asks for."""

from __future__ import annotations

from collections.abc import Iterator

from ..derivation import Derivation
from .finding import LOOK, NOTE, WRONG, Finding, counted, listed


def numbers(derivation: Derivation) -> Iterator[Finding]:
    """Yield tensors with NaN or infinities, and those that were rounded to a coarser dtype on the way."""
    for name, of_tensor in derivation.after.items():
        if of_tensor.not_finite:
            origin = derivation.origins.get(name)
            were_there = origin is not None and any(derivation.before[s].not_finite for s in origin.sources)
            yield Finding(
                LOOK if were_there else WRONG,
                "not finite",
                (name,),
                f"{listed([name])} has {counted(of_tensor.not_finite, 'element')} of NaN or infinity",
                "they are in the first checkpoint, too" if were_there else "the first checkpoint has none there",
                "look at the step that wrote them: a division by zero, or numbers too large for float16",
            )
    yield from _rounded(derivation)


def _rounded(derivation: Derivation) -> Iterator[Finding]:
    through: dict[str, list[str]] = {}
    for name, origin in derivation.origins.items():
        if origin.agreement.through:
            through.setdefault(origin.agreement.through, []).append(name)
    for dtype, names in through.items():
        is_all = len(names) > len(derivation.origins) / 2
        yield Finding(
            NOTE if is_all else LOOK,
            "rounded",
            tuple(names),
            f"the numbers of {listed(names)} were rounded to {dtype}, and are stored in a finer dtype",
            f"each number is the first checkpoint's, rounded to {dtype}",
            f"convert from the original if the digits matter; or store {dtype}, which needs less room",
        )
