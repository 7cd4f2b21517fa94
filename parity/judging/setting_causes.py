"""The cause of a failing Cell found by giving the reference's module the candidate's attributes, and running it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from ...runtime.errors import CellbridgeError
from ...runtime.visible import visible_name
from ..causes.evidence import Agreement, Evidence
from ..results.cause import Cause
from ..sides.abilities import HasSettings
from ..sides.run import Run

MAX_SETTINGS = 4
"""The largest number of attributes that are tried."""
NOT_TRIED = frozenset({"class", "training"})


def causes_of_settings(
    path: str, reference: HasSettings, candidate: Mapping[str, Any], evidence: Evidence, run: Run
) -> list[Cause]:
    """Return the attributes with which the reference's module computes what the candidate does; none if there are none.

    Args:
        path: path of the failing Cell.
        reference: the reference.
        candidate: attributes of the candidate's module.
        evidence: what the candidate computed.
        run: the settings of the reference's isolated run in float64.
    """
    settings = reference.settings(path)
    names = [name for name in settings if name in candidate and settings[name] != candidate[name]]
    if not names or len(names) > MAX_SETTINGS or NOT_TRIED & {*names} or evidence.of_reference_holds(path):
        return []
    for chosen in _subsets(names):
        agreement = agreement_with(path, reference, {name: candidate[name] for name in chosen}, evidence, run)
        if agreement.holds:
            return [
                replace(
                    _cause(name, settings, candidate),
                    error=agreement.relative,
                    gradients=agreement.gradients,
                    together=len(chosen),
                )
                for name in chosen
            ]
    return []


def agreement_with(
    path: str, reference: HasSettings, values: Mapping[str, Any], evidence: Evidence, run: Run
) -> Agreement:
    """Return how the reference's module with other values of attributes agrees with the candidate.

    Raises:
        BudgetSpentError: nothing may be computed any more.
    """
    evidence.spend_run()
    try:
        with reference.with_settings(path, values):
            return evidence.judge_records(path, reference.run(run))
    except CellbridgeError:  # it doesn't run with these
        return Agreement(0.0, 0.0, 0, frozenset(), gradients=False)


def _subsets(names: list[str]) -> Iterator[list[str]]:
    """Each name alone, then all."""
    yield from ([name] for name in names)
    if len(names) > 1:
        yield names


def _cause(name: str, reference: Mapping[str, Any], candidate: Mapping[str, Any]) -> Cause:
    reference_text, candidate_text = (visible_name(str(side[name])) for side in (reference, candidate))
    return Cause(
        "attribute",
        f"{visible_name(name)} is {candidate_text} in the candidate, {reference_text} in the reference",
        f"{visible_name(reference['class'])}(..., {visible_name(name)}={reference_text})",
        attribute=name,
        reference_value=reference[name],
        candidate_value=candidate[name],
    )
