"""`Diagnosis`: finds the causes of failing Cells, each proved by running the reference's Cell with it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial

from ..results.cause import Cause
from ..results.cell_graph import CellGraph
from ..results.hunk import Hunk
from .added_layouts import cause_of_layout
from .budget import FEWER_CAUSES, BudgetSpentError
from .catalogue.attributes import written
from .catalogue.hypothesis import Entry
from .catalogue.relations import relations
from .catalogue.table import BESIDE_PARAMETERS, ENTRIES, MASKS, NAMED, OF_CANDIDATE, SETTINGS, SETTINGS_OF_CANDIDATE
from .cell_graphs import cell_graph
from .cell_program import CellProgram, Network
from .changes import Change, changes, source_in_reference
from .descriptions import MAX_OPS, describe, from_candidate, in_places
from .differences import Comparison, Difference
from .evidence import Agreement, Evidence
from .fixed_values import of_several_tables
from .hunks import CANDIDATE, REFERENCE, Side, hunk_of, hunk_of_change, hunk_of_keys
from .mixtures import leaves_unused
from .operators import OperatorChange, operator_changes
from .rebuilding import INVALID
from .smallest_set import agreement_with, smallest_set
from .written_alike import comparisons
from .written_numbers import estimated, is_written, names_of_numbers

PAIRS = 0.25
"""The share of the work that a search for two causes together may take in a Cell."""
MAX_STRUCTURAL = 3
"""The most changes of nodes, operands and shapes that are a cause together; more are another way to write a Cell."""


@dataclass(frozen=True)
class Diagnosis:
    """Looks for the causes of failing Cells.

    Attributes:
        evidence: what the candidate computed, and what may be computed to explain it.
        reference: the reference as a program.
        candidate: the candidate as a program; None if it can't be captured.
        failing: the first call in which each Cell fails, with its number, once its causes were looked for.
        hunks: the lines that compute what differs in that call.
        changed: the reference's Cells with a change of the catalogue that was proved, by path.
        exchanged: the failing Cells of which only the exchange of most of the program is proved, which is no cause.
        explained: for the Cells whose causes were proved, by path, the two programs and those of their differences.
        explaining: the entries of the catalogue that explained a Cell, each with the side whose program was changed.
    """

    evidence: Evidence
    reference: Network
    candidate: Network | None
    failing: dict[str, tuple[int, CellProgram]] = field(default_factory=dict)
    hunks: dict[str, Hunk] = field(default_factory=dict)
    changed: dict[str, CellProgram] = field(default_factory=dict)
    exchanged: set[str] = field(default_factory=set)
    explained: dict[str, tuple[Comparison, list[Difference]]] = field(default_factory=dict)
    explaining: dict[tuple[Entry, Side], None] = field(default_factory=dict)
    _candidate_call: dict[int, CellProgram | None] = field(default_factory=dict, init=False)
    """The candidate's program of the last call that was asked for, by its number: to cut it out may run the network."""

    def causes(self, path: str, class_name: str) -> list[Cause]:
        """Return the causes that explain what the candidate computed in a Cell; none if nothing is proved."""
        for number, cell, evidence in self._failing_calls(path):
            self.failing.setdefault(path, (number, cell))
            causes = self._from_difference(cell, evidence, number, class_name)
            named: list[Cause] = []
            if not causes or any(cause.kind == "structure" for cause in causes):
                with suppress(BudgetSpentError):
                    named = self._as_in_other_cells(cell, evidence, number)
                    named = named or self._from_catalogue(cell, evidence, NAMED)
                    named = named or self._of_candidate(evidence, number, OF_CANDIDATE)
                if not named and self._is_rewritten(causes, path):
                    with evidence.budget.part(FEWER_CAUSES) as part, suppress(BudgetSpentError):
                        named = self._from_catalogue(cell, replace(evidence, budget=part), SETTINGS)
                if not named and (path in self.exchanged or self._is_rewritten(causes, path)):
                    with evidence.budget.part(FEWER_CAUSES) as part, suppress(BudgetSpentError):
                        within = replace(evidence, budget=part)
                        named = self._from_catalogue(cell, within, MASKS)
                        of_reference: Entry = partial(written, names_of_numbers(cell.program))
                        named = named or self._of_candidate(within, number, (of_reference, *SETTINGS_OF_CANDIDATE))
            if named and len({cause.source for cause in causes}) == 1:
                named = [replace(cause, source=cause.source or causes[0].source) for cause in named]
            causes = named or causes
            if not causes:
                with suppress(BudgetSpentError):  # which the budget notes
                    causes = self._from_catalogue(cell, evidence)
                if not causes:
                    with evidence.budget.part(PAIRS) as part, suppress(BudgetSpentError):
                        causes = self._from_pairs(cell, replace(evidence, budget=part))
            elif len(causes) > 1:
                with evidence.budget.part(FEWER_CAUSES) as part, suppress(BudgetSpentError):
                    causes = self._from_catalogue(cell, replace(evidence, budget=part)) or causes
            if causes:
                return causes
        return []

    def _as_in_other_cells(self, cell: CellProgram, evidence: Evidence, number: int) -> list[Cause]:
        """Return a cause of a kind that explained another Cell: a mistake in a class is in all Cells of that class.

        Raises:
            BudgetSpentError: nothing may be computed any more.
        """
        for entry, side in list(self.explaining):
            if side == REFERENCE:
                causes = self._from_catalogue(cell, evidence, [entry])
            else:
                causes = self._of_candidate(evidence, number, [entry])
            if causes:
                return causes
        return []

    def _is_rewritten(self, causes: Sequence[Cause], path: str) -> bool:
        """Whether the causes are nodes in place of others, or too many to be listed: there may be better words."""
        differences = self.explained[path][1] if causes and path in self.explained else []
        sizes = [(len(d.nodes), len(d.other_nodes)) for d in differences if d.kind == "nodes"]
        return any(all(size) or sum(size) > MAX_OPS for size in sizes)

    def graph(self, path: str) -> CellGraph | None:
        """Return the graph of a Cell whose causes were looked for, with marks at those that were proved; else None."""
        if path in self.explained:
            comparison, differences = self.explained[path]
            return cell_graph(comparison.reference, comparison, differences)
        return cell_graph(self.failing[path][1]) if path in self.failing else None

    def _failing_calls(self, path: str) -> Iterator[tuple[int, CellProgram, Evidence]]:
        """Yield number and program of each call of a Cell in which the candidate fails, and what proves a cause.

        Where a value leaves the Cell by another way than its outputs, as keys and values do in a cache, the program
        doesn't know all gradients: outputs are the evidence then.
        """
        for number in self.reference.calls_of(path):
            try:
                cell = self.reference.cut(number)
                evidence = next((e for e in self._evidences if e.of_reference.judge(cell).holds), None)
                if evidence is None:  # the program isn't the module: nothing can be proved with it
                    continue
                agreement = evidence.judge(cell)
                if agreement.holds:  # this call doesn't fail
                    continue
            except INVALID:
                continue
            if path not in self.hunks:
                self.hunks[path] = hunk_of_keys((cell, self.candidate_call(number)), agreement.failing)
            yield number, cell, evidence

    @property
    def _evidences(self) -> tuple[Evidence, ...]:
        """What was recorded, with all of the reference's parameters, and the outputs of it alone."""
        stored = {name: p.data for name, p in self.reference.program.parameters.items()}
        evidence = replace(self.evidence, reference_parameters=stored | {**self.evidence.reference_parameters})
        return (evidence, replace(evidence, grads=False)) if evidence.grads else (evidence,)

    def candidate_call(self, number: int) -> CellProgram | None:
        """Return the candidate's program of the call that has a number in the reference; None if it has none."""
        if number not in self._candidate_call:
            self._candidate_call.clear()
            self._candidate_call[number] = self._cut_candidate(number)
        return self._candidate_call[number]

    def _cut_candidate(self, number: int) -> CellProgram | None:
        if self.candidate is None:
            return None
        call = self.reference.program.calls[number]
        calls = self.candidate.program.calls
        numbers = [n for n in self.candidate.calls_of(call.path) if calls[n].index == call.index]
        try:
            return self.candidate.cut(numbers[0]) if numbers else None
        except INVALID:
            return None

    def _hunk_of_change(self, changed: Comparison, of: Side) -> Hunk:
        """Return the lines of both sides where the program of one was changed to compute what the other does."""
        number, cell = self.failing[changed.reference.path]
        candidate = self.candidate_call(number)
        comparison = None if candidate is None else Comparison.of(cell, candidate)
        return hunk_of_change(changed.differences, changed, comparison, of)

    def is_reference(self, path: str) -> bool:
        """Whether the reference's program of a Cell gives what the reference recorded, in each call."""
        evidence = self.evidence.of_reference
        try:
            return all(evidence.judge(self.reference.cut(n)).holds for n in self.reference.calls_of(path))
        except INVALID:
            return False

    def _from_difference(self, cell: CellProgram, evidence: Evidence, number: int, class_name: str) -> list[Cause]:
        """Return the smallest set of differences between the two programs that explains the candidate's values."""
        candidate = self.candidate_call(number)
        if candidate is None:
            return []
        first: list[Cause] = []
        explained = None
        with suppress(*INVALID):
            for comparison in comparisons(cell, candidate):
                causes = self._from_comparison(comparison, evidence, class_name)
                if len(causes) == 1 and not self._says_too_little(cell.path):
                    return causes
                first = first or causes
                explained = explained or self.explained.get(cell.path)
        if explained is not None:
            self.explained[cell.path] = explained
        return first

    def _says_too_little(self, path: str) -> bool:
        """Whether the cause that was proved names one of several tables, or what isn't computed in addition alone."""
        comparison, differences = self.explained[path]
        if any(of_several_tables(comparison, d) for d in differences):
            return True
        added = [d for d in differences if d.kind == "nodes" and not d.nodes and not comparison.read_elsewhere(d)]
        return bool(added) and leaves_unused(comparison, differences)

    def _from_comparison(self, comparison: Comparison, evidence: Evidence, class_name: str) -> list[Cause]:
        """Return the same for two programs of the Cell."""
        cell = comparison.reference
        several = list(operator_changes(comparison))
        for change in several:
            if (agreement := agreement_with(comparison, cell, evidence, change.differences)) is not None:
                if change.is_one_node and (single := self._single(comparison, cell, evidence, change, class_name)):
                    return single
                self.explained[cell.path] = comparison, change.differences
                return [_proved(change, comparison, agreement)]
        if len(several) > 1:
            all_of_them = [d for change in several for d in change.differences]
            if (agreement := agreement_with(comparison, cell, evidence, all_of_them)) is not None:
                self.explained[cell.path] = comparison, all_of_them
                return [replace(_proved(change, comparison, agreement), together=len(several)) for change in several]
        needed = smallest_set(comparison, cell, evidence, comparison.differences)
        if needed is None:
            return []
        adopted, agreement = needed
        together = changes(adopted, comparison)
        structural = [change for change in together if any(map(comparison.is_structural, change.differences))]
        if len(structural) > MAX_STRUCTURAL or comparison.is_another_program(adopted):
            self.exchanged.add(cell.path)
            return []
        return self._described(together, adopted, agreement, comparison, class_name)

    def _single(
        self, comparison: Comparison, cell: CellProgram, evidence: Evidence, change: OperatorChange, class_name: str
    ) -> list[Cause]:
        """Return the one setting of an operator that explains the candidate's values; none if it takes several."""
        needed = smallest_set(comparison, cell, evidence, change.differences)
        together = changes(needed[0], comparison) if needed is not None else []
        if needed is None or len(together) != 1 or len(needed[0]) == len(change.differences):
            return []
        return self._described(together, *needed, comparison, class_name)

    def _described(
        self,
        together: Sequence[Change],
        adopted: list[Difference],
        agreement: Agreement,
        comparison: Comparison,
        class_name: str,
    ) -> list[Cause]:
        """Return the causes that some differences are together."""
        self.explained[comparison.reference.path] = comparison, adopted
        arrays = {name: p.data for name, p in self.reference.program.parameters.items()}
        return [
            replace(
                describe(change, comparison, class_name, arrays), hunk=hunk_of(change.differences, comparison),
                error=agreement.relative, gradients=agreement.gradients, together=len(together),
            )
            for change in together
        ]  # fmt: skip

    def _from_pairs(self, cell: CellProgram, evidence: Evidence) -> list[Cause]:
        """Return what the parameters are and a change of the catalogue that explain the candidate's values together.

        Raises:
            BudgetSpentError: nothing may be computed any more.
        """
        for relation in relations(cell, evidence):
            changed = replace(cell, program=relation.program)
            if catalogue_causes := self._from_catalogue(changed, evidence, BESIDE_PARAMETERS):
                causes = [*relation.causes, *catalogue_causes]
                proof = catalogue_causes[0]
                return [
                    replace(cause, error=proof.error, gradients=proof.gradients, together=len(causes))
                    for cause in causes
                ]
        return []

    def _from_catalogue(self, cell: CellProgram, evidence: Evidence, entries: Sequence[Entry] = ENTRIES) -> list[Cause]:
        """Return the first change of the catalogue, or of some entries of it, that explains the candidate's values.

        Raises:
            BudgetSpentError: nothing may be computed any more.
        """
        for entry in entries:
            for hypothesis in entry(cell, evidence):
                if not self._can_stand_in_candidate(cell, hypothesis.cause):
                    continue
                try:
                    program = hypothesis.make()
                    agreement = evidence.without(hypothesis.elsewhere).judge(cell, program)
                except INVALID:
                    continue
                if agreement.holds:
                    self.explaining[entry, REFERENCE] = None
                    changed = self.changed[cell.path] = replace(cell, program=program)
                    cause = in_places(hypothesis.cause, hypothesis.places)
                    if (comparison := Comparison.of(cell, changed)) is not None:
                        self.explained[cell.path] = comparison, comparison.differences
                        cause = replace(cause, hunk=self._hunk_of_change(comparison, REFERENCE))
                    return [replace(cause, error=agreement.relative, gradients=agreement.gradients)]
        return []

    def _can_stand_in_candidate(self, cell: CellProgram, cause: Cause) -> bool:
        """Whether the number that a cause says stands in the candidate may stand there, or in what merged its weights.

        A batch norm's eps that was folded into a convolution stands in the code that folded it.
        """
        if _can_stand_in(self.candidate, cause):
            return True
        candidate = self.candidate_call(self.failing[cell.path][0])
        own, others = (set[str]() if c is None else set(c.program.parameters) for c in (cell, candidate))
        return bool(own - others and others - own)

    def _of_candidate(self, evidence: Evidence, number: int, entries: Sequence[Entry]) -> list[Cause]:
        """Return the change that makes the candidate's Cell compute what the reference does.

        The operator may be the candidate's alone: one side may have written out what is one operator in the other.

        Raises:
            BudgetSpentError: nothing may be computed any more.
        """
        candidate = self.candidate_call(number)
        if candidate is None:
            return []
        of_reference = evidence.of_reference
        for entry in entries:
            for hypothesis in entry(candidate, of_reference):
                if not _can_stand_in(self.reference, hypothesis.cause):
                    continue
                with suppress(*INVALID):
                    program = hypothesis.make()
                    agreement = of_reference.judge(candidate, program)
                    if agreement.holds:
                        self.explaining[entry, CANDIDATE] = None
                        changed = Comparison.of(candidate, replace(candidate, program=program))
                        layout = None if changed is None else cause_of_layout(changed)
                        cause = layout or in_places(from_candidate(hypothesis.cause), hypothesis.places)
                        line = None if changed is None else source_in_reference(changed.differences, changed)
                        own = (node.source for node in candidate.program.nodes if node.op == hypothesis.cause.op)
                        line = line or next(own, None)
                        cause = replace(cause, source="" if line is None else str(line), in_candidate=True)
                        if changed is not None:
                            cause = replace(cause, hunk=self._hunk_of_change(changed, CANDIDATE))
                        return [replace(cause, error=agreement.relative, gradients=agreement.gradients)]
        return []


def _can_stand_in(network: Network | None, cause: Cause) -> bool:
    """Whether the number that a cause says stands in a side stands there, or may: in a side without a program."""
    number = estimated(cause)
    return number is None or network is None or is_written(number, network.numbers)


def _proved(change: OperatorChange, comparison: Comparison, agreement: Agreement) -> Cause:
    """Return the cause of a change of operators with its place and its proof."""
    hunk = hunk_of(change.differences, comparison)
    return replace(change.cause, hunk=hunk, error=agreement.relative, gradients=agreement.gradients)
