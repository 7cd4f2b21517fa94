"""The smallest set of differences between two programs of a Cell that explains what the candidate computed."""

from __future__ import annotations

from collections.abc import Sequence

from .budget import BudgetSpentError
from .cell_program import CellProgram
from .differences import Comparison, Difference
from .evidence import Agreement, Evidence
from .mixtures import mixture
from .rebuilding import INVALID


def smallest_set(
    comparison: Comparison, cell: CellProgram, evidence: Evidence, differences: Sequence[Difference]
) -> tuple[list[Difference], Agreement] | None:
    """Return the smallest set of these differences found with which the Cell agrees; None if all together don't."""
    agreement = agreement_with(comparison, cell, evidence, differences)
    if agreement is None or not differences:
        return None
    for difference in differences:
        if (alone := agreement_with(comparison, cell, evidence, [difference])) is not None:
            return [difference], alone
    adopted = list(differences)
    for difference in differences:
        rest = [d for d in adopted if d is not difference]
        if (with_rest := agreement_with(comparison, cell, evidence, rest)) is not None:
            adopted, agreement = rest, with_rest
    # neighbours may change nothing together: a batch norm that is folded into a convolution is three differences
    size = 2
    while size < len(adopted):
        for start in range(len(adopted) - size + 1):
            rest = adopted[:start] + adopted[start + size :]
            if (with_rest := agreement_with(comparison, cell, evidence, rest)) is not None:
                adopted, agreement = rest, with_rest
                break
        else:
            size += 1
    return adopted, agreement


def agreement_with(
    comparison: Comparison, cell: CellProgram, evidence: Evidence, adopted: Sequence[Difference]
) -> Agreement | None:
    """Return the agreement of the reference's Cell with these differences; None if it doesn't agree."""
    try:
        agreement = evidence.judge(cell, mixture(comparison, adopted))
    except (*INVALID, BudgetSpentError):  # what was found until then is still proved
        return None
    return agreement if agreement.holds else None
