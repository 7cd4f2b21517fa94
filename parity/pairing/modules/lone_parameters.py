"""Parameters that only one of two torch modules has."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import numpy as np
import torch

from ....converter.structure.program_names import named_parameters
from ...report.report import Report
from ...results.comparison import FAIL, Comparison
from ...results.structure import LONE_PARAMETER, StructureDifference
from ...sides.reported_cells import owner
from ...sides.run import Run, Wanted
from ...sides.side import Side

NO_COUNTERPART = "the reference has one, and the candidate no such parameter"

Parameters = dict[str, torch.nn.Parameter]


@dataclass(frozen=True)
class LoneParameters:
    """The parameters of each side that the other doesn't have, by qualified name.

    They don't fail as long as the Cell around them computes the same and something may take their place: the weights
    of three layers that of one, for example. A parameter that the reference trains, with nothing in the candidate that
    is trained instead, does fail: the candidate learns less.
    """

    of_reference: Parameters
    of_candidate: Parameters

    @classmethod
    def of(
        cls, reference: torch.nn.Module, candidate: torch.nn.Module, rearranged: Collection[str] = ()
    ) -> LoneParameters:
        """Return those of two modules; `rearranged` are names with a counterpart of another name or layout."""
        of_reference, of_candidate = (
            {name: parameter for name, parameter in named_parameters(module) if name not in rearranged}
            for module in (reference, candidate)
        )
        return cls(_without(of_reference, of_candidate), _without(of_candidate, of_reference))

    @property
    def names(self) -> set[str]:
        """The names on both sides."""
        return {*self.of_reference, *self.of_candidate}

    def judge(self, report: Report, side: str, reference: Side) -> None:
        """Add a difference or a failure to the report for each of them.

        Args:
            report: the report on all that both sides have.
            side: name of the candidate.
            reference: the reference, to see which of these parameters it trains.
        """
        if not self.names:
            return
        trained = {owner(name, report.cells) for name, p in self.of_candidate.items() if p.requires_grad}
        wrong = {p for p, cell in report.cells.items() if any(c.feeding == "isolated" for c in cell.failures)}
        needed = self._needed(report, trained, reference)
        for name, parameter in {**self.of_reference, **self.of_candidate}.items():
            around = owner(name, report.cells)
            side_with, side_without = ("reference", side) if name in self.of_reference else (side, "reference")
            reason = f"only the {side_with} has this parameter"
            if name in needed:
                reason += f", and trains it; the {side_without} trains nothing in its place"
            if around in wrong or name in needed:
                shape = tuple(parameter.shape)
                comparisons = [Comparison(side, "meaning", "isolated", "parameter", name, 0, FAIL, reason, shape=shape)]
                if name in needed:
                    kind = "parameter gradient"
                    comparisons.append(replace(comparisons[0], feeding="end to end", kind=kind, reason=NO_COUNTERPART))
                report.cells[around].comparisons += comparisons
                continue
            text = f"only the {side_with} has the parameter {name}; {around or '(root)'} computes the same without it"
            if parameter.requires_grad and report.grads:
                text += ", and its gradient was not compared"
            report.structure.append(StructureDifference(LONE_PARAMETER, name, around, text))

    def _needed(self, report: Report, trained: set[str], reference: Side) -> set[str]:
        """The reference's parameters that get a gradient in Cells where the candidate trains no lone parameter."""
        alone = [
            name
            for name, parameter in self.of_reference.items()
            if parameter.requires_grad and report.grads and owner(name, report.cells) not in trained
        ]
        if not alone:
            return set()
        gradients = reference.run(Run("float64", Wanted(inner=False))).gradients.parameters
        return {name for name in alone if (gradient := gradients.get(name)) is not None and np.any(gradient)}


def _without(parameters: Parameters, others: Parameters) -> Parameters:
    return {name: parameter for name, parameter in parameters.items() if name not in others}
