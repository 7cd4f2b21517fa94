"""What a module was converted to, judged on any inputs: the interpreter, ONNX Runtime, the torch modules made back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ...runtime.errors import UsageError
from ...runtime.ir.program import Program
from ..comparison.trial import judged
from ..dtypes import WORKING_DTYPES
from ..inputs.sizes import described, other_sizes, resized
from ..options import Options
from ..report.report import Report
from ..sides.frameworks import Framework
from ..sides.interpreter_side import InterpreterSide
from ..sides.names import INTERPRETER, ONNXRUNTIME
from ..sides.onnxruntime_side import ExportedSide
from ..sides.records import Capabilities, Side
from ..sides.torch_side import TorchSide
from ..support.progress import Progress
from .round_trip import FROM_IR, FROM_ONNX


@dataclass(frozen=True)
class Conversions:
    """What a module became, ready to be judged on any inputs.

    Attributes:
        module: the reference.
        program: what it was captured as; judged in the interpreter and in ONNX Runtime.
        back: torch modules made of the program, by the names of the sides that they are.
        opset: of the ONNX model.
        sides: names of those to judge; all of them if none is given.
    """

    module: torch.nn.Module
    program: Program
    back: Mapping[str, torch.nn.Module]
    opset: int | None
    sides: Sequence[str]
    options: Options
    progress: Progress

    def judged(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Report:
        """All of them, held against the module."""
        options, dtype = self.options, self.options.dtype
        real_args, real_kwargs = _as_reals((args, kwargs))
        made = [
            torch_side(name, network, real_args, real_kwargs, options, from_onnx=name == FROM_ONNX)
            for name, network in self.back.items()
        ]
        sides: list[Side] = [
            InterpreterSide(INTERPRETER, self.program, args, kwargs, working_dtype=dtype, seed=options.seed),
            ExportedSide(
                ONNXRUNTIME,
                self.program,
                args,
                kwargs,
                dtype=WORKING_DTYPES[dtype].onnxruntime,
                provider=options.provider,
                opset=self.opset,
            ),
            *made,
        ]
        reference = torch_side("torch", self.module, args, kwargs, options)
        return judged(reference, [s for s in sides if wanted(s.name, self.sides)], options, self.progress)

    def judge_at_other_sizes(
        self, report: Report, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic_shapes: Any
    ) -> None:
        """Where there are dynamic dimensions, judge at other sizes too, and add that to the report."""
        tensors = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        for sizes in other_sizes(self.program, tensors, dynamic_shapes):
            label = described(sizes)
            try:
                report.join_sizes(self.judged(*resized(self.program, args, kwargs, sizes)), label)
            except UsageError as error:
                report.notes.append(f"not compared at {label}: {error}".partition("\n")[0])


def wanted(side: str, sides: Sequence[str]) -> bool:
    """Whether a side is one of those to be judged: all are if none is named."""
    return not sides or side in sides


def require_sides(sides: Sequence[str], round_trip: bool, framework: Framework | None) -> None:
    """Raise `UsageError` if one of these sides isn't there to be judged."""
    there = [INTERPRETER, ONNXRUNTIME]
    there += [FROM_IR, FROM_ONNX] if round_trip else []
    there += [framework.name] if framework is not None else []
    if unknown := [side for side in sides if side not in there]:
        raise UsageError(f"there is no side {unknown[0]!r} to judge: there are {', '.join(there)}")


def torch_side(
    name: str,
    module: torch.nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    options: Options,
    *,
    from_onnx: bool = False,
) -> TorchSide:
    """The side of a module.

    One made of an ONNX model (`from_onnx`) is seen at its own boundary only, and not in double precision: a number that
    is an attribute, such as eps, has the digits of float32 there.
    """
    side = TorchSide(
        name,
        module,
        args,
        kwargs,
        train=options.train,
        loss=options.loss,
        working_dtype=options.dtype,
        seed=options.seed,
        watched=[""] if from_onnx else None,
    )
    if from_onnx:
        side.capabilities = Capabilities((("rounding", WORKING_DTYPES[options.dtype].onnxruntime),), cells=False)
    return side


def _as_reals(arguments: Any) -> Any:
    """Arguments as modules that are made of programs take them: complex tensors as pairs of reals."""
    return pytree.tree_map_only(
        torch.Tensor, lambda x: torch.view_as_real(x.resolve_conj()) if x.is_complex() else x, arguments
    )
