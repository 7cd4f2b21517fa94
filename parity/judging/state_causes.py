"""The cause of a Cell that fails after another call: what is kept from that call, which is undone as a proof."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from ...runtime.errors import CellbridgeError
from ...runtime.visible import visible_name
from ..causes.budget import Budget, BudgetSpentError
from ..causes.evidence import Agreement, Evidence
from ..report.report import Report
from ..results.cause import Cause
from ..results.comparison import FAIL
from ..sides.abilities import HasSettings, settings_of
from ..sides.kept_state import StateName
from ..sides.records import Records
from ..sides.run import Run
from ..sides.side import Side
from .noise import Noise
from .setting_causes import causes_of_settings

MAX_NAMES = 8
"""The largest number of names that are tried one by one."""

Kept = Mapping[StateName, int | float | None]
Names = list[StateName]


def add_state_causes(
    report: Report, reference: Side, side: Side, truth: Records, records: Records, noise: Noise, budget: Budget
) -> None:
    """Name what Cells that fail after other calls keep from these, if they agree without it.

    Args:
        report: the report, whose failing Cells get their `causes`.
        reference: the reference.
        side: the side that fails.
        truth: the reference's records in float64, of the last call.
        records: the side's.
        noise: the reference's rounding error; its run has the calls before.
        budget: what may be computed.
    """
    run = replace(noise.run, dtype="float64")
    evidence = Evidence(
        truth, records, lambda key: noise.error(key, "meaning"), noise.run.dtype, run.wanted.grads, budget=budget
    )
    search = _Search(reference, side, run, evidence)
    for path, cell in report.cells.items():
        failures = [c for c in cell.failures if c.side == side.name and c.status == FAIL]
        by_itself = any(c.feeding == "isolated" or c.kind == "call" for c in failures)
        if by_itself or (run.feed is None and not path and failures):
            try:
                cell.causes += search.attributes(path) or search.state(path)
            except BudgetSpentError:  # which the budget notes
                return


@dataclass
class _Search:
    """Both sides, run again without what earlier calls have left."""

    reference: Side
    side: Side
    run: Run
    evidence: Evidence

    @cached_property
    def _kept(self) -> tuple[Kept, Kept]:
        """What the reference keeps, and what the side does."""
        run = self._forgetting(())
        return self.reference.run(run).state.kept, self.side.run(run).state.kept

    def _forgetting(self, kept: Iterable[StateName]) -> Run:
        """The run, before whose last call this state is put back."""
        return replace(self.run, call=replace(self.run.call, forget=frozenset(kept)))

    def attributes(self, path: str) -> list[Cause]:
        """Return the attributes of a Cell with which the reference keeps what the candidate does."""
        if not isinstance(self.reference, HasSettings):
            return []
        return causes_of_settings(path, self.reference, settings_of(self.side, path), self.evidence, self.run)

    def state(self, path: str) -> list[Cause]:
        """Return what is kept that makes a Cell fail; nothing if the sides differ without it, too."""
        reference_kept, candidate_kept = (_of_cell(kept, path) for kept in self._kept)
        for names in _choices(candidate_kept, reference_kept):
            agreement = self._agreement(path, [], names)
            if agreement.holds:
                words = f"{_listed(names, path)} from one call to the next"
                summary = f"the candidate keeps {words}, the reference {_contrast(names, reference_kept)}"
                return [self._cause(summary, f"don't keep {words}", agreement, names)]
        for names in _choices(reference_kept, candidate_kept):
            agreement = self._agreement(path, names, [])
            if agreement.holds:
                words = f"{_listed(names, path)} from one call to the next"
                summary = f"the reference keeps {words}, the candidate {_contrast(names, candidate_kept)}"
                return [self._cause(summary, f"keep {words}", agreement, names)]
        for names in _choices({name: reference_kept[name] for name in reference_kept if name in candidate_kept}, {}):
            agreement = self._agreement(path, names, names)
            if agreement.holds:
                summary = f"a call leaves another {_listed(names, path)} in the candidate than in the reference"
                return [self._cause(summary, "", agreement, names)]
        return []

    def _agreement(self, path: str, reference_names: Names, candidate_names: Names) -> Agreement:
        """Return how the sides agree in a Cell if names of each are put back to what they were before all calls.

        End to end, the outputs of the root are compared.

        Raises:
            BudgetSpentError: nothing may be computed any more.
        """
        path = path if self.run.feed is not None else ""
        for _ in (*reference_names[:1], *candidate_names[:1]):
            self.evidence.spend_run()
        try:
            evidence = self.evidence.of_reference
            if reference_names:
                truth = self.reference.run(self._forgetting(reference_names))
                evidence = replace(evidence, truth=truth, candidate=truth)
            records = self.evidence.candidate
            if candidate_names:
                records = self.side.run(self._forgetting(candidate_names))
            return evidence.judge_records(path, records)
        except CellbridgeError:  # it doesn't run without them
            return Agreement(0.0, 0.0, 0, frozenset(), gradients=False)

    def _cause(self, summary: str, fix: str, agreement: Agreement, names: Names) -> Cause:
        reference_kept, candidate_kept = self._kept
        return Cause(
            "state",
            summary,
            fix,
            agreement.relative,
            agreement.gradients,
            attribute=names[0].name if len(names) == 1 else "",
            reference_value=reference_kept.get(names[0]),
            candidate_value=candidate_kept.get(names[0]),
            calls=len(self.run.call.before) or 1,
        )


def _of_cell(kept: Kept, path: str) -> Kept:
    """What is kept in a Cell and the Cells inside; if it is nothing, everything that is kept."""
    inside = f"{path}." if path else ""
    own = {name: value for name, value in kept.items() if name.path == path or name.path.startswith(inside)}
    return own or kept


def _choices(kept: Kept, elsewhere: Kept) -> Iterator[Names]:
    """Yield the names that are tried: each alone, first those that the other side doesn't keep; then all."""
    names = sorted(kept, key=lambda name: name in elsewhere)
    if len(names) <= MAX_NAMES:
        yield from ([name] for name in names)
    if len(names) > 1:
        yield names


def _contrast(names: Names, elsewhere: Kept) -> str:
    """What the other side does with names that one side keeps."""
    return "keeps something else there" if any(name in elsewhere for name in names) else "doesn't"


def _listed(names: Names, path: str) -> str:
    shown = [visible_name(f"{'self' if name.path == path else name.path}.{name.name}") for name in names]
    return ", ".join(shown[:3]) + (f" and {len(shown) - 3} more" if len(shown) > 3 else "")
