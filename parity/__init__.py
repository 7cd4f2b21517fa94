"""Runs the sides of a network, judges them Cell by Cell and reports; with command line and pytest plugin.

    check                   compare a torch module with its conversions: a Report
    compare                 compare two networks: torch modules, programs, ONNX files, Cells: a Report
    check_training          compare training steps of a module and its conversions: a TrainingReport
    jax_side                a network in JAX, as a candidate for `compare` and `assert_parity`
    check_checkpoint        derive what became of the tensors of a checkpoint in another: a CheckpointReport
    record                  run a torch module, and write what crosses the boundaries of its Cells to a folder
    judge                   judge such a recording by another one, without running either network: a Report
    compare_training        compare two scripts that train a module and its port: a TrainingReport
    assert_parity           `compare` for tests: raises an AssertionError with the failing Cells
    assert_checkpoint       `check_checkpoint` for tests
    assert_training_parity  `check_training` and `compare_training` for tests
    explain_optimizer       the differences between a torch optimizer and its port
    ProgressDisplay         shows how far a run is, on a terminal or in a notebook

Importing this package is cheap: torch and ONNX Runtime load with the first function that needs them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..runtime.lazy import lazy_getattr

if TYPE_CHECKING:
    from .assertions import assert_checkpoint, assert_parity, assert_training_parity
    from .causes.api_differences import explain_optimizer
    from .checking.checkpoints import check_checkpoint
    from .checking.engine import check, compare
    from .checking.recordings.judge import judge
    from .jobs.recording.write import record
    from .jobs.training.check import check_training
    from .jobs.training.compare import compare_training
    from .report.checkpoint_report import CheckpointReport
    from .report.report import Report
    from .report.training_report import TrainingReport
    from .results.cell_report import CellReport
    from .results.comparison import Comparison
    from .sides.jax_side import jax_side
    from .support.progress import ProgressDisplay

__all__ = [
    "CellReport",
    "CheckpointReport",
    "Comparison",
    "ProgressDisplay",
    "Report",
    "TrainingReport",
    "assert_checkpoint",
    "assert_parity",
    "assert_training_parity",
    "check",
    "check_checkpoint",
    "check_training",
    "compare",
    "compare_training",
    "explain_optimizer",
    "jax_side",
    "judge",
    "record",
]

__getattr__ = lazy_getattr(
    __name__,
    {
        "CellReport": "results.cell_report",
        "CheckpointReport": "report.checkpoint_report",
        "Comparison": "results.comparison",
        "ProgressDisplay": "support.progress",
        "Report": "report.report",
        "TrainingReport": "report.training_report",
        "assert_checkpoint": "assertions",
        "assert_parity": "assertions",
        "assert_training_parity": "assertions",
        "check": "checking.engine",
        "check_checkpoint": "checking.checkpoints",
        "check_training": "jobs.training.check",
        "compare": "checking.engine",
        "compare_training": "jobs.training.compare",
        "explain_optimizer": "causes.api_differences",
        "jax_side": "sides.jax_side",
        "judge": "checking.recordings.judge",
        "record": "jobs.recording.write",
    },
)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
