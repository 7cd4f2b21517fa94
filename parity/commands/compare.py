"""`parity compare`."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ...runtime.errors import UsageError
from ..inputs.user_source import require_source
from ..options import OptionKeywords
from ..sides.kinds import Kind, file_of, kind_of_path
from ..support.progress import ProgressDisplay
from .arguments.declaring import ArgumentGroup, option
from .arguments.groups import CauseSearch, Inputs, Judging, Provider, ReportsOnFailures
from .command import command
from .conversion import compare_with_model_file
from .outcome import finish, require_outputs
from .targets import require_onnx_file

if TYPE_CHECKING:
    from ..report.report import Report


@dataclass(frozen=True)
class Weights(ArgumentGroup):
    """Where the candidate's weights come from."""

    title = "Weights"
    load_weights: bool = option(
        "--load-weights",
        is_flag=True,
        help=(
            "Load REFERENCE's weights into CANDIDATE for the comparison. Which tensor belongs where is found "
            "from the structure of both networks, and from what they compute."
        ),
    )
    map_file: str | None = option("--map", metavar="FILE", help="Load them as this TOML file says (docs/weights.md).")
    written_map: str | None = option(
        "--write-map",
        metavar="FILE",
        help="Write what --load-weights finds to a new file, to be read, kept and edited.",
    )

    @property
    def source(self) -> bool | str:
        """Where the weights come from, as `parity.compare` takes it."""
        return self.load_weights if self.map_file is None else self.map_file


@command("compare")
@click.argument("reference")
@click.argument("candidate")
def compare(
    reference: str,
    candidate: str,
    judging: Judging,
    weights: Weights,
    inputs: Inputs,
    where: Provider,
    reports: ReportsOnFailures,
    limits: CauseSearch,
) -> None:
    """Compare two networks that should compute the same.

    CANDIDATE is compared with REFERENCE: outputs and gradients. Both are ONNX files, or both are model files, as for
    parity run, or an ONNX file is compared with a model file.

    Where everything agrees, both are compared on inputs derived from the given ones, too: large and small, masked, of
    other sizes, in another mode (--no-probe leaves them out).

    A model file is compared Cell by Cell, on all inputs of REFERENCE; CANDIDATE needs no inputs(), may return a Cell or
    a network in JAX, and may define cells and weights, which pair Cells and parameters of other names. Networks keep
    their own weights, unless --load-weights or --map brings REFERENCE's into CANDIDATE; both files are run with the
    same seed. An ONNX file, whoever wrote it, is compared at several sizes of dynamic dimensions. Cells that it
    computes together are judged in the Cell around them.

    Inputs of two ONNX files are generated from the declared types, at several sizes of dynamic dimensions or with the
    shapes of --shape, or read from --inputs. Arrays of --inputs are probed with --probe only. Cells are compared one by
    one if both files have the same Cells (for example, if parity export wrote both); otherwise the models are compared
    as a whole. If a file can't be read as a program, the results of ONNX Runtime on both files are compared. A
    CANDIDATE that fixes an axis which REFERENCE leaves open fails, unless --shape gives the sizes. A quantized file is
    compared with a float file in steps of its quantizers (docs/quantized.md).
    """
    inputs_read = {"REFERENCE": file_of(reference), "CANDIDATE": file_of(candidate), "--inputs": inputs.inputs}
    inputs_read["--map"] = weights.map_file
    require_outputs(reports.files_by_option | {"--write-map": weights.written_map}, inputs_read, reports.repro)
    options = judging.keywords(inputs.seed, where.provider, limits.diagnose_seconds)
    options["model"] = candidate
    kinds = [_kind_of(reference, reference), _kind_of(candidate, reference)]
    if kinds[0] is Kind.MODEL_FILE:
        report = _compare_with_model_file(reference, candidate, reports.verbose, options, weights)
    elif kinds[1] is Kind.MODEL_FILE:
        raise UsageError(
            f"an ONNX file is compared with a model file, given {reference} and {candidate}\n"
            f"  what to do: exchange them: {shlex.join(['parity', 'compare', candidate, reference])}"
        )
    else:
        from ..checking.onnx_files.compare import compare_onnx

        with ProgressDisplay() as progress:
            report = compare_onnx(
                reference, candidate, inputs=inputs.inputs, shapes=inputs.shapes, progress=progress, **options
            )
    finish(report, reports.verbose, reports.files, reports.repro)


def _compare_with_model_file(
    reference: str, candidate: str, verbose: bool, options: OptionKeywords, weights: Weights
) -> Report:
    """Return the report on a model file or an ONNX file compared with a model file."""
    if weights.source is not False and kind_of_path(candidate) is not Kind.MODEL_FILE:
        raise UsageError(
            f"weights are loaded into the network of a model file, given {candidate}, which has its own\n"
            "  what to do: compare the port's model file, and then the ONNX file without --load-weights or --map"
        )
    return compare_with_model_file(reference, candidate, verbose, options, weights.source, weights.written_map)


def _kind_of(target: str, reference: str) -> Kind:
    """Return what REFERENCE or CANDIDATE is, which must be there and be compared by this command."""
    kind = kind_of_path(target)
    if kind is Kind.RECORDING:
        if target == reference:
            raise UsageError(f"{target} is a folder, and REFERENCE is a model file or an ONNX file")
        raise UsageError(
            f"{target} is a folder, and CANDIDATE is a model file or an ONNX file\n"
            f"  what to do: if it is a recording: {shlex.join(['parity', 'run', reference, '--against', target])}"
        )
    if kind is Kind.ONNX_FILE:
        require_onnx_file(target)
    elif kind is Kind.WEIGHTS:
        require_source(Path(target))
    return kind
