"""`parity compare`."""

from __future__ import annotations

from pathlib import Path

import click

from ...runtime.errors import UsageError
from ..inputs.torch_files import is_torch_file
from ..options import OptionKeywords
from ..support.progress import TerminalProgress
from .command import EXIT_CODES, Command, JudgingOptions, judging_options
from .conversion import compare_model_files, compare_with_onnx
from .outcome import file_of, finish, require_file, require_outputs


@click.command(cls=Command, epilog=EXIT_CODES)
@click.argument("reference")
@click.argument("candidate")
@click.option("-v", "--verbose", is_flag=True, help="Show every Cell and every failing check; tracebacks too.")
@click.option("--seed", default=0, show_default=True, help="Seed of the random inputs and cotangents.")
@judging_options
def compare(
    reference: str,
    candidate: str,
    seed: int,
    verbose: bool,
    judging: JudgingOptions,
) -> None:
    """Compare two networks that should compute the same: CANDIDATE with REFERENCE, outputs and gradients.

    Both are ONNX files, or both are model files, as for parity run, or an ONNX file is compared with a model file.

    Where everything agrees, both are compared on inputs derived from the given ones, too: large and small, masked,
    of other sizes, in another mode (--no-probe leaves them out).

    A model file is compared Cell by Cell, on all inputs of REFERENCE; CANDIDATE needs no inputs(), and may define cells
    and weights, which pair Cells and parameters of other names. Networks keep their own weights; both files are run
    with the same seed. An ONNX file, whoever wrote it, is compared at several sizes of dynamic dimensions. Cells
    that it computes together are judged in the Cell around them.

    Inputs of two ONNX files are generated from the declared types, at several sizes of dynamic dimensions or with the
    shapes of --shape, or read from --inputs. Arrays of --inputs are probed with --probe only. Cells are compared one
    by one if both files have the same Cells (for example, if parity export wrote both); otherwise the models are
    compared as a whole. If a file can't be read as a program, the results of ONNX Runtime on both files are compared.
    A CANDIDATE that fixes an axis which REFERENCE leaves open fails, unless --shape gives the sizes.
    A quantized file is compared with a float file in steps of its quantizers (docs/quantized.md).
    """
    inputs_read = {"REFERENCE": file_of(reference), "CANDIDATE": file_of(candidate), "--inputs": judging.inputs}
    require_outputs({f"--{name}": path for name, path in judging.files.items()}, inputs_read, judging.repro)
    options: OptionKeywords = {**judging.options, "model": candidate, "seed": seed}
    of_modules = _is_model_file(candidate)
    if of_modules and not _is_model_file(reference):
        raise UsageError(
            f"an ONNX file is compared with a model file, given {reference} and {candidate}\n"
            f"  what to do: exchange them: parity compare {candidate} {reference}"
        )
    if _is_model_file(reference):
        if judging.inputs_option is not None:
            raise UsageError(
                f"{judging.inputs_option} is for ONNX files: the model file {reference} defines inputs() itself"
            )
        if not of_modules:
            require_file(candidate)
        compare_with = compare_model_files if of_modules else compare_with_onnx
        finish(compare_with(reference, candidate, verbose, options), verbose, judging.files, judging.repro)
    for file in (reference, candidate):
        require_file(file)
    from ..onnx_files.compare import compare_onnx

    with TerminalProgress() as progress:
        report = compare_onnx(
            reference, candidate, inputs=judging.inputs, shapes=judging.shapes, progress=progress, **options
        )
    finish(report, verbose, judging.files, judging.repro)


def _is_model_file(target: str) -> bool:
    """Whether the target is path/model.py, path/model.py:factory, package.module:factory or path/program.pt2."""
    return (
        Path(file_of(target)).suffix == ".py"
        or is_torch_file(target)
        or (file_of(target) != target and not Path(target).exists())
    )
