"""`parity compare`."""

from __future__ import annotations

from pathlib import Path

import click

from ...runtime.errors import UsageError
from ..options import OptionKeywords
from ..support.progress import TerminalProgress
from .command import EXIT_CODES, Command, JudgingOptions, judging_options
from .conversion import compare_with_onnx
from .outcome import file_of, finish, require_outputs


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
    """Compare two ONNX files that should compute the same: CANDIDATE with REFERENCE, outputs and gradients.

    Or REFERENCE is a model file, as for parity run: then the ONNX file, whoever wrote it, is compared with the torch
    model Cell by Cell, on all inputs of the model file and at several sizes of dynamic dimensions. Cells that the file
    computes together are judged in the Cell around them.

    Inputs of ONNX files are generated from the declared types, at several sizes of dynamic dimensions or with the
    shapes of --shape, or read from --inputs. Cells are compared one by one if both files have the same Cells (for
    example, if parity export wrote both); otherwise the models are compared as a whole. If a file can't be read as a
    program, the results of ONNX Runtime on both files are compared. A quantized file is compared with a float file in
    steps of its quantizers (docs/quantized.md).
    """
    inputs_read = {"REFERENCE": file_of(reference), "CANDIDATE": candidate, "--inputs": judging.inputs}
    require_outputs({f"--{name}": path for name, path in judging.files.items()}, inputs_read, judging.repro)
    options: OptionKeywords = {**judging.options, "model": candidate, "seed": seed}
    if _is_model_file(candidate):
        raise UsageError(
            f"CANDIDATE must be an ONNX file, given {candidate}\n"
            "  what to do: judge a model file with parity run; an ONNX file against it with parity compare MODEL.py "
            "MODEL.onnx; two modules in Python, with parity.compare(reference, candidate, args) or assert_parity"
        )
    if _is_model_file(reference):
        if judging.inputs_option is not None:
            raise UsageError(
                f"{judging.inputs_option} is for ONNX files: the model file {reference} defines inputs() itself"
            )
        if not Path(candidate).is_file():  # checked before torch and the model are loaded
            raise UsageError(f"no such file: {candidate}")
        finish(compare_with_onnx(reference, candidate, verbose, options), verbose, judging.files, judging.repro)
    from ..onnx_files.compare import compare_onnx

    with TerminalProgress() as progress:
        report = compare_onnx(
            reference, candidate, inputs=judging.inputs, shapes=judging.shapes, progress=progress, **options
        )
    finish(report, verbose, judging.files, judging.repro)


def _is_model_file(target: str) -> bool:
    """Whether the target is path/model.py, path/model.py:factory or package.module:factory."""
    return Path(file_of(target)).suffix == ".py" or (file_of(target) != target and not Path(target).exists())
