"""The ways back to torch: the modules that a program becomes, directly and by way of ONNX."""

from __future__ import annotations

from dataclasses import replace

import torch

from ...converter.onnx_in.importing import from_onnx
from ...converter.onnx_out.export import to_onnx
from ...converter.torch_out.export import to_torch
from ...runtime.ir.program import Program
from ...runtime.lowering.nodes import has_operator
from ...runtime.lowering.precomputed import Precomputed
from ...runtime.ops import get
from ...runtime.ops.random import RANDOM_OPS

FROM_IR, FROM_ONNX = "torch from IR", "torch from ONNX"


def ways_back(program: Program) -> dict[str, torch.nn.Module]:
    """The torch modules, by the names of the sides that they are.

    There is no way by ONNX in train mode or for a program that updates buffers, as an ONNX model updates none; for one
    that draws random numbers, which an ONNX model draws anew, or has a
    backward written by hand, which it lacks; nor for one in which ONNX holds what was computed of
    parameters, for want of an operator: these have no gradients there.

    Raises:
        UnsupportedOperators: an op has no form in torch or in ONNX, or an operator none in the IR.
    """
    made = {FROM_IR: to_torch(program)}
    fixed = Precomputed(program)
    lost = any(
        node.op in RANDOM_OPS or node.op == "own_gradient" or get(node.op).onnx_rule is None for node in program.nodes
    )
    held = any(node.outputs[0] in fixed and not has_operator(node) for node in program.nodes)
    if not (program.train or program.updates or lost or held):
        made[FROM_ONNX] = to_torch(through_onnx(program))
    return made


def through_onnx(program: Program) -> Program:
    """What a program is after it was written to ONNX and read again.

    What ONNX doesn't say is as it was: how the program is called, which parameters are trained, what they are called
    where they are shared, and those that nothing uses.
    """
    read = from_onnx(to_onnx(program, optimize=False))
    parameters = {
        name: replace(read.parameters[name], trainable=before.trainable, aliases=before.aliases)
        if name in read.parameters
        else before
        for name, before in program.parameters.items()
    }
    # in the order as it was, by which the modules of a shared parameter are told apart
    return read.replace(
        parameters=parameters | read.parameters | parameters, arguments=program.arguments, result=program.result
    )
