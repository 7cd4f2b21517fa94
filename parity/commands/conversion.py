"""What a model file becomes on the command line: a report on it, or its program."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..dynamic_axes import with_dynamic_axes
from ..model_file import load
from ..notes import warnings_as_notes
from ..progress import TerminalProgress
from ..report.layout import echo
from .command import quiet

if TYPE_CHECKING:
    from ...runtime.ir.program import Program
    from ..results import Report


def checked(model: str, seed: int, verbose: bool, dynamic: Sequence[str] = (), **options: Any) -> Report:
    """The report on a model file; torch is loaded here, so that `--help` is quick."""
    with TerminalProgress() as progress:
        progress.stage("load", None)
        user_file = with_dynamic_axes(load(model, seed), dynamic)
        from ..engine import check

        with quiet(verbose):
            return check(
                user_file.module,
                user_file.args,
                user_file.kwargs,
                loss=user_file.loss,
                dynamic_shapes=user_file.dynamic_shapes,
                cell=user_file.cell,
                cells=user_file.cells,
                weights=user_file.weights,
                more_inputs=user_file.more_inputs,
                model=user_file.name,
                seed=seed,
                progress=progress,
                **options,
            )


def compared(reference: str, onnx_file: str, seed: int, verbose: bool, **options: Any) -> Report:
    """The report on an ONNX file held against a model file."""
    with TerminalProgress() as progress:
        progress.stage("load", None)
        user_file = load(reference, seed)
        from ..engine import compare

        with quiet(verbose):
            return compare(
                user_file.module,
                onnx_file,
                user_file.args,
                user_file.kwargs,
                more_inputs=user_file.more_inputs,
                loss=user_file.loss,
                seed=seed,
                progress=progress,
                **options,
            )


def converted(model: str, seed: int, verbose: bool, dynamic: Sequence[str] = (), dtype: str | None = None) -> Program:
    """The program of a model file, captured on the first of its inputs, in the dtypes that it has or in `dtype`.

    What differs in it is told on stderr.
    """
    with TerminalProgress() as progress:
        progress.stage("load", None)
        user_file = with_dynamic_axes(load(model, seed), dynamic)
        from ...converter import from_torch

        progress.stage("capture", None)
        arguments = user_file.module, user_file.args, user_file.kwargs
        with quiet(verbose), warnings_as_notes() as notes:
            if dtype is None:
                program = from_torch(*arguments, dynamic_shapes=user_file.dynamic_shapes)
            else:
                from ..engine import captured
                from ..options import Options

                program = captured(*arguments, user_file.dynamic_shapes, Options(dtype=dtype))
    for note in notes:
        echo(f"note: {note}", err=True)
    return program
