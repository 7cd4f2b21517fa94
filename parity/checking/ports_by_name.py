"""The comparison of a torch module with its port."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from ..correspondence.cells import Pairing
from ..correspondence.layouts import Layout
from ..judging.trial import Trial
from ..pairing.ports.alignment import Alignment, align
from ..pairing.ports.results import common_results
from ..report.report import Report
from ..results.comparison import FAIL, Comparison
from ..results.correspondence import CarriedWeight, Correspondence, PairedCell
from ..results.modes import mode_notes
from ..results.structure import OTHER_PARTS, StructureDifference
from ..sides.cell_side import CellSide
from ..sides.frameworks import Framework
from ..sides.records import Key
from ..sides.reported_cells import owner
from ..sides.torch_side import TorchSide
from ..weights.mapping import Weights
from .plan import Plan
from .port_explanations import explain_failures, notes_on_passing

Sides = Callable[[Pairing, Mapping[Key, Layout]], tuple[TorchSide, CellSide]]
"""Makes both sides, with the pairs that are compared and the layouts of tensors that differ in the Cells."""


def compare_port(plan: Plan, framework: Framework, pairing: Pairing, port_weights: Weights) -> Report:
    """Compare a module with its port, whose Cells and Parameters are paired by names; see `parity.compare`."""
    module, cell, options = plan.reference, plan.candidate, plan.options

    def sides(of: Pairing, layouts: Mapping[Key, Layout]) -> tuple[TorchSide, CellSide]:
        reference = plan.reference_side(
            "torch",
            cell_paths=of.cell_of,
            ignored=port_weights.ignored | port_weights.unseen,
            rounded=port_weights.unmatched_buffers(),
            shared=port_weights.copied | port_weights.ties.names,
            ties=port_weights.ties,
        )
        side = CellSide(
            framework, cell, module, plan.args, plan.kwargs, of, port_weights, layouts,
            train=options.train, working_dtype=options.dtype,
        )  # fmt: skip
        return reference, side

    plan.progress.stage("align", None)
    with common_results(*sides(pairing, {}), options) as answers:
        report = _judged(plan, sides, pairing, port_weights)
    if answers is not None:
        answers.note_in(report)
    return report


def _judged(plan: Plan, sides: Sides, pairing: Pairing, port_weights: Weights) -> Report:
    """Align both sides, and compare them."""
    module, cell, options = plan.reference, plan.candidate, plan.options
    alignment = align(sides, pairing)
    plain, side = sides(alignment.pairing, alignment.layouts)
    reference = replace(plain, joined=alignment.joined)
    trial = Trial(reference, [side], options, plan.progress, rounded=[reference, side])
    report = trial.report()
    report.correspondence = _correspondence(alignment.pairing, port_weights)
    for pair in pairing.pairs:
        if pair.module in report.cells:
            place = "" if pair.cell == pair.module else f" at {pair.cell}"
            report.cells[pair.module].counterpart = pair.cell_class + place
    for path, comparison in [*trial.selected(_mismatches(side.name, port_weights)), *trial.judge(side)]:
        report.cells[path].comparisons.append(comparison)
    report.structure += [
        StructureDifference(OTHER_PARTS, name, owner(name, report.cells), text)
        for name, text in port_weights.differences
    ]
    trial.add_causes(report, side)
    report.probing_seconds = trial.probing_seconds
    report.notes += mode_notes(module, options.train) + trial.notes + _notes(port_weights, side, alignment)
    explain_failures(report, module, cell, alignment.pairing, port_weights, trial.truth)
    if options.probe:
        report.notes += notes_on_passing(report, module, cell, alignment.pairing, port_weights, trial.truth)
    return report


def _correspondence(pairing: Pairing, weights: Weights) -> Correspondence:
    """Return the pairs, and the modules and Cells without a partner."""
    cells = [PairedCell(p.module, p.module_class, p.cell, p.cell_class, p.how) for p in pairing.pairs]
    cells += [
        PairedCell(p.module, p.module_class, p.cell, p.cell_class, p.how, why) for p, why in pairing.apart.items()
    ]
    cells += [PairedCell(module=path, module_class=name) for path, name in pairing.lone_modules.items()]
    cells += [PairedCell(cell=path, cell_class=name) for path, name in pairing.lone_cells.items()]
    return Correspondence(cells, [CarriedWeight(entry.path, entry.source, entry.how) for entry in weights.entries])


def _mismatches(side: str, weights: Weights) -> list[tuple[str, Comparison]]:
    """Return a failure for each parameter without a counterpart."""
    return [
        (m.module, Comparison(side, "meaning", "isolated", "parameter", m.name, 0, FAIL, m.reason, shape=m.shape))
        for m in weights.mismatches
    ]


def _notes(weights: Weights, side: CellSide, alignment: Alignment) -> list[str]:
    notes = []
    for path in dict.fromkeys(key.path for key in alignment.layouts):
        shapes = next(f"{list(x.source)} for {list(x.target)}" for k, x in alignment.layouts.items() if k.path == path)
        notes.append(f"{path} has tensors in another layout in the Cell, {shapes}; they are compared in torch's layout")
    if "meaning" not in side.framework.checks:
        notes.append(f"{side.name} was judged by rounding only: it has no kernels in float64 for many operators")
    if side.train and not side.framework.replays:
        notes.append(f"random draws of {side.name} can't be replayed: give Dropout p=0 on both sides in train mode")
    if weights.unseen:
        names = ", ".join(sorted(weights.unseen))
        notes.append(f"not compared: the gradients of {names}; their function does more than move elements")
    return notes
