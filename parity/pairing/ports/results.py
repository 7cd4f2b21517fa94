"""A module and its port that return other tensors: which of them are the same answer, so that these are compared."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

from ....converter.capture.replaced_method import replaced_method
from ...options import Options
from ...sides.cell_arguments import output_tensors, result_structure
from ...sides.cell_side import CellSide
from ...sides.run import FORWARD, ReferenceRun, Run
from ...sides.torch_side import TorchSide
from ..modules.answers import Answers, Returned, answers_between, returned


@contextlib.contextmanager
def common_results(reference: TorchSide, side: CellSide, options: Options) -> Iterator[Answers | None]:
    """Within the context, a module and its port return the results that both have; yields which these are.

    None, and nothing changes, if both return the same, or no tensor of one is an answer of the other. Both run once.

    Args:
        reference: the module.
        side: the port, with the module's weights.
        options: options of the run.
    """
    ((_, dtype), *_) = side.capabilities.checks
    truth = reference.run(Run("float64", FORWARD))
    own: list[Returned] = []

    def keep(result: Any) -> Any:
        is_tensor = side.framework.is_tensor
        arrays = [side.framework.array(tensor) for tensor in output_tensors(result, is_tensor)[1]]
        own.append(Returned(result_structure(result, is_tensor), arrays))
        return result

    with replaced_method(side.cell, "construct", _changing_result(side.cell, keep)):
        side.run(Run(dtype, FORWARD, ReferenceRun.of(truth)))
    expected = returned(truth)
    answers = answers_between(expected, own[-1], options, is_port=True) if own and expected is not None else None
    if answers is None:
        yield None
        return
    select = answers.selecting(lambda result: output_tensors(result, side.framework.is_tensor)[1])
    with (
        answers.applied_to_reference(reference.module),
        replaced_method(side.cell, "construct", _changing_result(side.cell, select)),
    ):
        yield answers


def _changing_result(cell: Any, change: Callable[[Any], Any]) -> Callable[..., Any]:
    """Return a Cell's `construct` that returns something else, made of its result."""
    construct = cell.construct

    @functools.wraps(construct)
    def changed(*args: Any, **kwargs: Any) -> Any:
        return change(construct(*args, **kwargs))

    return changed
