"""A torch module and a network in JAX, paired by the names of their Cells or by what they compute."""

from __future__ import annotations

import tempfile
from collections.abc import Collection
from dataclasses import replace
from os import PathLike
from pathlib import Path

import torch
from torch.utils import _pytree as pytree

from ...runtime.errors import CellbridgeError, UsageError
from ...runtime.programs.call import as_array
from ..options import OptionKeywords
from ..pairing.modules.answers import Returned, answers_between, returned
from ..report.report import Report
from ..results.modes import mode_notes
from ..sides.jax_side import NAME, JaxSide
from ..sides.run import FORWARD, Run
from ..support.user_code import report_user_errors
from .by_values import ENOUGH, Candidate, by_names_note, compare_by_values, share_of_cells
from .plan import Plan
from .recordings.against import compare_with_recording
from .recordings.habits import names_by_place, parameter_by_habit


def compare_network_in_jax(plan: Plan, names: str | PathLike[str] | None, options: OptionKeywords) -> Report:
    """Compare a module with a network in JAX; see `parity.compare`.

    Where the user says nothing of names, and names pair fewer than half of the Cells, the network's program is aligned
    with the module by the values that it computes. Otherwise the network is recorded at its own modules.

    Args:
        plan: the module, and the network as a side.
        names: TOML file of names; None if the user says nothing of them.
        options: the options as they were given.

    Raises:
        UsageError: JAX isn't installed, the network raises, or has nothing in common with the module.
    """
    try:
        from ..sides.jax.network import JaxNetwork, array_leaves
    except ImportError as error:
        raise UsageError("comparing with a network in JAX needs jax: pip install 'cellbridge[jax]'") from error

    network = JaxNetwork(plan.candidate, plan.args, plan.kwargs, working_dtype=plan.options.dtype)

    def compared() -> Report:
        if names is not None or not plan.may_pair_by_values or share_of_names(plan.reference, network.side) >= ENOUGH:
            return _by_names(plan, network.side, names, options)

        def at_results(computed: Collection[str]) -> JaxNetwork:
            return replace(network, has_parameters=False, computed=computed)

        candidate = Candidate(network, at_results, is_probed=False)
        try:
            report = compare_by_values(plan, candidate)
        except CellbridgeError as error:
            report = _by_names(plan, network.side, names, options)
            report.notes.append(by_names_note(error))
            return report
        report.notes += mode_notes(plan.reference, plan.options.train)
        return report

    truth = returned(plan.reference_side("torch", cell_paths=[""]).run(Run("float64", FORWARD)))
    own = Returned(*network.result())
    answers = None if truth is None else answers_between(truth, own, plan.options, is_port=True)
    if answers is None:
        return compared()
    network = replace(network, side=replace(network.side, returns=answers.selecting(array_leaves)))
    with answers.applied_to_reference(plan.reference):
        report = compared()
    answers.note_in(report)
    return report


def share_of_names(module: torch.nn.Module, side: JaxSide) -> float:
    """Return which share of the module's Cells with parameters has a partner by name; 1 without any."""
    from ..sides.jax.cells import as_function, has_modules, parameter_names

    there = names_by_place(name for name, _ in parameter_names(as_function(side)[0]))
    return share_of_cells(
        module,
        lambda path, names: (has_modules(side) or not path) and any(parameter_by_habit(name, there) for name in names),
    )


def _by_names(plan: Plan, side: JaxSide, names: str | PathLike[str] | None, options: OptionKeywords) -> Report:
    """Compare a module with a network in JAX, Cell by Cell, in float64 and in float32, with gradients.

    The network runs once in each dtype, and each of the module's Cells on the inputs that its counterpart had.
    """
    from ..sides.jax.recording import record_jax

    arrays, keywords = pytree.tree_map_only(torch.Tensor, as_array, (plan.args, plan.kwargs))
    if side.inputs is not None:
        with report_user_errors("jax_side", "when inputs() was called"):
            arrays, keywords = side.inputs(*arrays, **keywords), {}
    seed = options.get("seed", 0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / NAME
        again = Path(folder) / "perturbed"

        def record(path: Path, *, perturbed: bool = False) -> list[str]:
            with report_user_errors("jax_side", "when the network was run"):
                return record_jax(
                    side, path, tuple(arrays), keywords, seed, options.get("grads", True), perturbed=perturbed
                )

        def perturbed() -> Path:
            record(again, perturbed=True)
            return again

        notes = record(path)
        report = compare_with_recording(
            plan.reference,
            path,
            plan.args,
            plan.kwargs,
            names=names,
            perturbed=perturbed,
            progress=plan.progress,
            **options,
        )
        report.notes += notes
        return report
