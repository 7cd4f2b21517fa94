"""A model file, judged: its network with its conversions and its port, or with the recording that it names.

What judges is imported when it is needed: one of the two is, and `--help` needs none.
"""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Literal, TypedDict, Unpack

from ...runtime.errors import UsageError
from ..inputs.model_file import ModelFile
from ..options import OptionKeywords
from ..report.report import Report
from ..support.progress import Progress


class ConversionKeywords(TypedDict, total=False):
    """Keyword-only parameters of `parity.check` for the conversions."""

    save_onnx: Path | None
    opset: int | None
    external_data: bool | Literal["auto"]
    round_trip: bool
    sides: Sequence[str]


def judge_model_file(
    user_file: ModelFile, progress: Progress | None, options: OptionKeywords, **more: Unpack[ConversionKeywords]
) -> Report:
    """Return the report on a model file that was loaded.

    Raises:
        UsageError: as for `check`, or the file names a recording, and something for an ONNX file is asked for.
    """
    if user_file.recording is not None and "opset" not in more:  # it isn't exported
        if more.get("round_trip") or more.get("save_onnx") is not None:
            raise UsageError(
                f"{user_file.name} names a recording, with which it is compared: leave out what is for ONNX"
            )
        return judge_by_recording(user_file, user_file.recording, user_file.names, progress, options)
    from .engine import check

    report = check(
        user_file.module,
        user_file.args,
        user_file.kwargs,
        dynamic_shapes=user_file.dynamic_shapes,
        cell=user_file.cell,
        cells=user_file.cells,
        weights=user_file.weights,
        more_inputs=user_file.more_inputs,
        progress=progress,
        **more,
        **(options | {"loss": user_file.loss, "model": user_file.name}),
    )
    report.notes += user_file.notes
    return report


def judge_by_recording(
    user_file: ModelFile,
    recording: str | PathLike[str],
    names: str | PathLike[str] | None,
    progress: Progress | None,
    options: OptionKeywords,
) -> Report:
    """Return the report on a model file compared with a recording, on its first inputs."""
    from .recordings.against import compare_with_recording

    return compare_with_recording(
        user_file.module,
        recording,
        user_file.args,
        user_file.kwargs,
        names=names,
        progress=progress,
        **(options | {"model": user_file.name}),
    )
