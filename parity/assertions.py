"""Parity as an assertion, for tests: `assert_parity` and `assert_training_parity`."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterable, Mapping
from os import PathLike
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, overload

from ..runtime.errors import ParityError
from .jobs.training.training_config import TrainingConfigKeywords
from .options import OptionKeywords
from .report.report import Report
from .report.training_report import TrainingReport
from .results.coverage import HALF, require_share

if TYPE_CHECKING:
    import torch

    from .checking.several_inputs import Arguments
    from .jobs.training.loss_network import Loss
    from .jobs.training.scripts import TrainingScript
    from .jobs.training.torch_steps import Batch
    from .report.checkpoint_report import CheckpointReport
    from .support.progress import Progress


class UnpairedWarning(UserWarning):
    """Parity holds, and some modules, Cells or parameters were not compared one by one."""


class ReferenceWrongWarning(UserWarning):
    """Nothing fails, but in some Cells the reference's own gradients are wrong, so that nothing is known of them."""


class CompareKeywords(OptionKeywords, total=False):
    """Keyword-only parameters of `parity.compare`."""

    cells: Mapping[str, str] | None
    weights: Mapping[Any, Any] | None
    names: str | PathLike[str] | None
    load_weights: bool | str | PathLike[str]
    write_map: str | PathLike[str] | None
    more_inputs: Iterable[Arguments]
    progress: Progress | None


class TrainingKeywords(TrainingConfigKeywords, total=False):
    """Keyword-only parameters of `parity.check_training`."""

    loss: Loss | None
    dynamic_shapes: Any
    more_inputs: Iterable[Batch]
    dtype: str
    rtol: float | None
    atol: float | None
    seed: int
    provider: str
    model: str
    progress: Progress | None


class PortTrainingKeywords(TypedDict, total=False):
    """Keyword-only parameters of `parity.compare_training`."""

    dtype: str
    seed: int
    cells: Mapping[str, str] | None
    weights: Mapping[Any, Any] | None


def assert_parity(
    reference: Any,
    candidate: Any,
    args: Any,
    kwargs: Mapping[str, Any] | None = None,
    *,
    min_coverage: float = HALF,
    **options: Unpack[CompareKeywords],
) -> Report:
    """Compare two sides and fail the test unless they compute the same.

    Args:
        reference: a torch module or a program.
        candidate: a torch module, a program, an ONNX file or model, or a Cell that is the port of a torch module.
        args: positional inputs, as the reference takes them.
        kwargs: keyword inputs.
        min_coverage: the least share of the reference's parameters, from 0 to 1, whose gradients must be compared with
            those of a module, a Cell, a network in JAX or a recording with gradients. Parameters that aren't trained,
            get no gradient or are left out (`only`, `skip`) don't count, and none do with `grads=False`.
        **options: options of `parity.compare`: `grads`, `train`, `dtype`, `rtol`, `atol`, `seed`, `cells`, `weights`,
            `more_inputs`, `progress`, ...

    Returns:
        The report, if nothing fails.

    Raises:
        ParityError: an `AssertionError` with the failing Cells in detail, or with the coverage if it is too low.
        UsageError: `min_coverage` isn't a share.

    Warns:
        ReferenceWrongWarning: nothing fails, but gradients of the reference aren't the derivative of its own forward
            pass, by an error of torch.
        UnpairedWarning: parity holds, but the sides are divided into Cells or parameters differently: what has no
            partner was judged in the Cells around. With `strict=True` that is a failure.
    """
    __tracebackhide__ = True
    from .checking.engine import compare

    require_share(min_coverage, "min_coverage")
    report = compare(reference, candidate, args, kwargs, **options)
    report.raise_if_failed()
    for coverage in report.coverage.values():
        if problem := coverage.shortfall(min_coverage, f"min_coverage={min_coverage:g}"):
            error = ParityError(f"{report.sentence}\n{problem}")
            error.report = report
            raise error
    if wrong := report.reference_wrong:
        cells = ", ".join(path or "(root)" for path in wrong)
        message = f"the reference's own gradients are wrong in {cells}, and those of the candidate are right there"
        warnings.warn(message, ReferenceWrongWarning, stacklevel=2)
    alone = [f"module {path}" for path in report.correspondence.unpaired] + [
        f"Cell {cell}" for cell in report.correspondence.lone_cells
    ]
    alone += [difference.text for difference in report.structure]
    if alone:
        warnings.warn(
            f"without a partner, and therefore judged in the Cells around them: {', '.join(alone)}",
            UnpairedWarning,
            stacklevel=2,
        )
    return report


@overload
def assert_training_parity(
    module: Any, args: Any, kwargs: Mapping[str, Any] | None = None, **options: Unpack[TrainingKeywords]
) -> TrainingReport: ...


@overload
def assert_training_parity(
    module: Any,
    cell: Any,
    train_module: TrainingScript,
    train_cell: TrainingScript,
    data: Iterable[Any],
    **options: Unpack[PortTrainingKeywords],
) -> TrainingReport: ...


def assert_training_parity(module: Any, *arguments: Any, **options: Any) -> TrainingReport:
    """Train a network in several ways, and fail the test unless the results agree after every step.

    With a module alone, it is trained by torch, by the interpreter and compiled:

        assert_training_parity(module, (x,), optimizer="adamw", steps=3, loss_scale="dynamic")

    With its port, or another torch module, each of the two is trained by its own script, a function that takes the
    network and the batches, and yields after each step:

        assert_training_parity(module, cell, train_module, train_cell, data)

    Args:
        module: a torch module.
        *given: example inputs: a tuple or a single tensor, or a dict of keyword inputs, or both; or else the port, both
            scripts, and the batches.
        **options: options of `parity.check_training`: `loss`, `dtype`, `steps`, `optimizer`, `lr`, `weight_decay`,
            `loss_scale`, `clip_norm`, `accumulate`, `frozen`, ...; or else of `parity.compare_training`: `dtype`,
            `seed`, `cells`, `weights`.

    Returns:
        The report, if the training runs agree.

    Raises:
        ParityError: an `AssertionError` with the first differences.
    """
    __tracebackhide__ = True
    from .sides.kinds import NETWORKS
    from .sides.opening import kind_of

    if "train_module" in options or len(arguments) > 2 or (arguments and kind_of(arguments[0]) in NETWORKS):
        from .jobs.training.compare import compare_training
        from .options import require_known

        require_known(compare_training, options, list(inspect.signature(compare_training).parameters))
        report = compare_training(module, *arguments, **options)
    else:
        from .jobs.training.check import check_training

        report = check_training(module, *arguments, **options)
    report.raise_if_failed()
    return report


def assert_checkpoint(
    before: str | PathLike[str],
    after: str | PathLike[str],
    others: Iterable[str | PathLike[str]] = (),
    *,
    map: str | PathLike[str] | None = None,
    model: str | torch.nn.Module | None = None,
) -> CheckpointReport:
    """Assert that nothing is wrong in a checkpoint that was converted from another.

    Args:
        before: the file or folder of the checkpoint that was converted.
        after: the file or folder of what it was converted to.
        others: further checkpoints that it is made of: adapters, or models that were averaged.
        map: a map file that says what its tensors are made of: then they must be that, and what it says is meant.
        model: a module, or the model file of one, that is to load `after`: it must get all its parameters from there.

    Returns:
        The report, if nothing is wrong.

    Raises:
        ParityError: an `AssertionError` with what is wrong.
        UsageError: a checkpoint can't be read, or the map doesn't fit `before`.
    """
    __tracebackhide__ = True
    from .checking.checkpoints import check_checkpoint

    report = check_checkpoint(before, after, others, map=map, model=model)
    report.raise_if_failed()
    return report
