"""Running one side of a pair by itself: for the tools that people write, and to prove what the cases claim."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import onnxruntime
import torch
from torch import nn
from torch.utils import _pytree as pytree

from cellbridge.runtime import Tensor as CellTensor
from cellbridge.runtime import nn as cells

from .pairs import Pair

Arrays = Sequence["np.ndarray[Any, Any]"]
SEED = 3


def uncompiled(module: nn.Module) -> nn.Module:
    """The module inside what `torch.compile` returns, or the module itself."""
    inner = getattr(module, "_orig_mod", module)
    return inner if isinstance(inner, nn.Module) else module


def run_module(module: nn.Module, args: tuple[Any, ...], train: bool) -> Any:
    """Run a module on its arguments from a fixed seed; the module keeps its mode and its buffers."""
    module = uncompiled(module)
    modes = {inner: inner.training for inner in module.modules()}
    buffers = {name: buffer.clone() for name, buffer in module.named_buffers()}
    try:
        module.train(train)
        with torch.random.fork_rng(), torch.no_grad():
            torch.manual_seed(SEED)
            return module(*args)
    finally:
        for inner, mode in modes.items():
            inner.training = mode
        for name, buffer in module.named_buffers():
            buffer.copy_(buffers[name])


def outputs_of(pair: Pair, side: Any) -> Arrays:
    """The final outputs of one side, in float32."""
    if isinstance(side, nn.Module):
        return arrays_in(run_module(side, pair.args, pair.train))
    if isinstance(side, str):
        return run_file(side, pair.args)
    if "outputs" in pair.options:
        return list(pair.options["outputs"](side, pair.args, "float32"))
    port = pair.options["with_weights"](side)
    return arrays_in(run_cell(port, pair.args, pair.train))


def run_file(path: str, inputs: Sequence[Any]) -> Arrays:
    """The outputs of an ONNX file in ONNX Runtime, as people run it."""
    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = 1
    settings.log_severity_level = 4
    session = onnxruntime.InferenceSession(path, settings, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_inputs()]
    arrays = [np.asarray(value) for value in inputs]
    return list(session.run(None, dict(zip(names, arrays, strict=True))))


def run_cell(cell: cells.Cell, args: tuple[Any, ...], train: bool) -> Any:
    """Run a Cell on torch tensors."""
    cell.set_train(train)
    result = cell(*pytree.tree_map_only(torch.Tensor, lambda t: CellTensor(t.numpy()), args))
    cell.set_train(False)
    return result


def arrays_in(result: Any) -> Arrays:
    """The arrays in a result, in order."""
    leaves = pytree.tree_leaves(result)
    return [
        leaf.detach().numpy() if isinstance(leaf, torch.Tensor) else np.asarray(leaf.asnumpy())
        for leaf in leaves
        if isinstance(leaf, torch.Tensor) or hasattr(leaf, "asnumpy")
    ]


def double_arguments(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Copies of arguments with everything that is floating-point in float64."""

    def convert(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.detach().double().requires_grad_(True) if tensor.is_floating_point() else tensor.clone()

    result: tuple[Any, ...] = pytree.tree_map_only(torch.Tensor, convert, args)
    return result


def all_values(module: nn.Module, args: tuple[Any, ...], train: bool) -> dict[str, torch.Tensor | None]:
    """Outputs, gradients and buffers of a module in float64, by what they are; None for a gradient that is missing."""
    double = copy.deepcopy(uncompiled(module)).double().train(train)
    arguments = double_arguments(args)
    with torch.random.fork_rng():
        torch.manual_seed(SEED)
        result = double(*arguments)
        outputs = [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]
        torch.manual_seed(SEED + 1)
        cotangents = [torch.randn(output.shape, dtype=torch.float64) for output in outputs]
    loss = torch.stack([(o.double() * g).sum() for o, g in zip(outputs, cotangents, strict=True)]).sum()
    if loss.requires_grad:
        loss.backward()
    values: dict[str, torch.Tensor | None] = {f"output {n}": o.detach() for n, o in enumerate(outputs)}
    for number, leaf in enumerate(pytree.tree_leaves(arguments)):
        if isinstance(leaf, torch.Tensor) and leaf.requires_grad:
            values[f"input gradient {number}"] = leaf.grad
    values |= {
        f"gradient {name}": parameter.grad for name, parameter in double.named_parameters(remove_duplicate=False)
    }
    values |= {f"buffer {name}": buffer.detach() for name, buffer in double.named_buffers()}
    return values


def difference(there: torch.Tensor | None, here: torch.Tensor | None, least: float) -> float:
    """The largest difference, relative to the largest element; infinite where only one has a value or shapes differ.

    Args:
        there: a value of the reference.
        here: the same of the candidate.
        least: the size of a value that is zero but for rounding, as the gradient of a key's bias is.
    """
    if there is None or here is None:
        return 0.0 if there is here else float("inf")
    if there.shape != here.shape:
        return float("inf")
    size, distance = max(largest(there), least), largest(there.double() - here.double())
    return distance / size if size else (float("inf") if distance else 0.0)


def largest(value: torch.Tensor | None) -> float:
    """The largest absolute element of a tensor; 0 without any."""
    return float(value.detach().double().abs().max()) if value is not None and value.numel() else 0.0
