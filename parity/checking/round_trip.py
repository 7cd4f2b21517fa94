"""Conversions back to torch: the modules that a program becomes, directly and by way of ONNX."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

import torch

from ...converter.onnx_in.importing import from_onnx
from ...converter.onnx_out.export import to_onnx
from ...converter.torch_out.export import to_torch
from ...runtime.ir.program import Program
from ...runtime.lowering.nodes import has_operator
from ...runtime.lowering.precomputed import Precomputed
from ...runtime.ops.registry import get
from ..dtypes import WORKING_DTYPES
from ..sides.side import Capabilities, OwnCalls
from ..sides.torch_side import TorchSide

FROM_IR, FROM_ONNX = "torch from IR", "torch from ONNX"


@dataclass(frozen=True, eq=False, repr=False)
class ModuleFromProgram(TorchSide):
    """A torch module made from a program, whose sizes and mode it has."""

    @property
    def capabilities(self) -> Capabilities:
        """Those of a module that takes no other sizes and has one mode."""
        return replace(super().capabilities, calls=OwnCalls(keeps_state=True))


@dataclass(frozen=True, eq=False, repr=False)
class ModuleFromOnnx(TorchSide):
    """A torch module made from an ONNX model, which is compared at its outputs and by rounding alone.

    Its attributes, such as eps, have float32 precision.
    """

    cell_paths: Collection[str] | None = ("",)

    @property
    def capabilities(self) -> Capabilities:
        """Those of a model without Cells."""
        return Capabilities((("rounding", WORKING_DTYPES[self.working_dtype].onnxruntime),), cells="none")


WAYS_BACK: dict[str, type[TorchSide]] = {FROM_IR: ModuleFromProgram, FROM_ONNX: ModuleFromOnnx}


def ways_back(program: Program) -> dict[str, torch.nn.Module]:
    """Return the torch modules by side name.

    There is none by way of ONNX in train mode, or for a program that updates buffers, draws random numbers or has a
    custom backward, which an ONNX model doesn't keep; nor for one in which a result computed from parameters
    replaces an operator that ONNX lacks, since these parameters have no gradients there.

    Raises:
        UnsupportedOperators: an op can't be expressed in torch or ONNX, or an operator can't be expressed in the IR.
    """
    networks = {FROM_IR: to_torch(program)}
    precomputed = Precomputed(program)
    lacks_onnx_form = any(
        get(node.op).traits.draws or node.op == "own_gradient" or get(node.op).onnx_rule is None
        for node in program.nodes
    )
    is_precomputed = any(node.outputs[0] in precomputed and not has_operator(node) for node in program.nodes)
    if not (program.train or program.updates or lacks_onnx_form or is_precomputed):
        networks[FROM_ONNX] = to_torch(through_onnx(program))
    return networks


def through_onnx(program: Program) -> Program:
    """Return the program after exporting it to ONNX and importing it again.

    It keeps what ONNX can't express: how the program is called, which parameters are trained, the names of shared
    parameters, and unused parameters.
    """
    result = from_onnx(to_onnx(program, optimize=False))
    parameters = {
        name: replace(result.parameters[name], trainable=before.trainable, aliases=before.aliases)
        if name in result.parameters
        else before
        for name, before in program.parameters.items()
    }
    # in the original order, which distinguishes the modules of a shared parameter
    return result.replace(
        parameters=parameters | result.parameters | parameters, arguments=program.arguments, result=program.result
    )
