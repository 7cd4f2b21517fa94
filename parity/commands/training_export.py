"""`parity export --training-step`: a step of training as an ONNX file, with the JSON file that describes it."""

from __future__ import annotations

import inspect
from pathlib import Path

from ..jobs.training.training_config import TrainingConfig
from ..report.layout import echo
from .arguments.export import Export
from .conversion import check_model_file_training, loaded
from .outcome import require_parity

CHECKED_STEPS = 2
"""Number of steps that `parity export --training-step` compares with torch's before it writes."""


def export_training(request: Export) -> None:
    """Write a training step of a model file, and the JSON file that describes it, if it trains as torch does.

    Raises:
        UsageError: the file can't be written, or the model, its loss or its dynamic shapes are wrong.
        ConversionError: it can't be converted.
    """
    path, is_checked = request.target.path, not request.checking.no_check
    if is_checked:
        report = check_model_file_training(
            request.model, request.inputs.seed, request.reports.verbose, request.training.config(CHECKED_STEPS), {},
            request.inputs.dynamic,
        )  # fmt: skip
        require_parity(report, request.reports.verbose, path, request.reports.html)
    _write_step(request)
    beside = [
        Path(path).with_suffix(suffix) for suffix in (".json", ".safetensors")[: 1 + request.training.separate_state]
    ]
    echo(f"wrote {path} and {' and '.join(map(str, beside))}" + ("" if is_checked else ", unchecked"))


def _write_step(request: Export) -> None:
    from torch.utils import _pytree as pytree

    from ...converter import training_step_to_onnx
    from ...runtime import tree
    from ...runtime.ir.types import is_floating
    from ...runtime.lowering import opsets
    from ...runtime.programs.call import as_array
    from ...runtime.train_step.arguments import training_step
    from ..inputs.sizes import open_axes
    from ..jobs.training.loss_network import loss_program

    model, inputs = request.model, request.inputs
    with loaded(model, inputs.seed, request.reports.verbose, inputs.dynamic) as (user_file, _):
        program = loss_program(
            user_file.module,
            user_file.args,
            user_file.kwargs,
            loss=user_file.loss,
            dynamic_shapes=user_file.dynamic_shapes,
        )
    leaves = [x for x in pytree.tree_leaves((user_file.args, user_file.kwargs)) if tree.is_tensor(x)]
    arguments = inspect.signature(user_file.module.forward).bind(*user_file.args, **user_file.kwargs).arguments
    path_of = {
        id(leaf): ".".join([name, *(str(getattr(key, "key", getattr(key, "idx", key))) for key in path)])
        for name, value in arguments.items()
        for path, leaf in pytree.tree_flatten_with_path(value)[0]
    }
    step = training_step(program, None, **TrainingConfig(**request.training.config(None)).step_arguments())
    names = tuple(path_of[id(leaf)] for leaf in leaves)
    # a module in another dtype is trained in float32
    typed_arrays = zip(map(as_array, leaves), program.inputs, strict=True)
    batch = tuple(array.astype(value.dtype) if is_floating(array.dtype) else array for array, value in typed_arrays)
    model_proto = training_step_to_onnx(
        step, batch, request.target.path, names=names, dynamic_shapes=open_axes(program), opset=request.target.opset,
        separate_state=request.training.separate_state,
    )  # fmt: skip
    echo(f"the ONNX model is of {opsets.describe(model_proto)}")
