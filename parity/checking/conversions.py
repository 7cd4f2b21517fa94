"""The conversions of a module, judged on any inputs: interpreter, ONNX Runtime, and modules converted back to torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch.utils import _pytree as pytree

from ...runtime.errors import UsageError
from ...runtime.ir.program import Program
from ...runtime.providers import find
from ..inputs.sizes import format_sizes, other_sizes, resize
from ..judging.judging import judge_sides
from ..options import Options
from ..report.report import Report
from ..sides.exported_side import ExportedSide
from ..sides.interpreter_side import InterpreterSide
from ..sides.names import INTERPRETER, ONNXRUNTIME
from ..sides.side import Side
from ..sides.torch_side import TorchSide
from ..support.progress import Progress
from .other_sizes import judge_at
from .round_trip import FROM_IR, FROM_ONNX, WAYS_BACK


@dataclass(frozen=True)
class Conversions:
    """The conversions of a module, to be judged on any inputs.

    Attributes:
        module: the reference.
        program: the captured program, judged in the interpreter and in ONNX Runtime.
        given: the positional inputs that it was captured on, if it is for their sizes alone; else None.
        back: torch modules made from the program, by side name.
        opset: opset of the ONNX model.
        sides: names of the sides to judge; all if empty.
    """

    module: torch.nn.Module
    program: Program
    given: tuple[Any, ...] | None
    back: Mapping[str, torch.nn.Module]
    opset: int | None
    sides: Sequence[str]
    options: Options
    progress: Progress

    def judge_inputs(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Report:
        """Compare all conversions with the module."""
        options, dtype = self.options, self.options.dtype
        real_args, real_kwargs = _as_reals((args, kwargs))
        back_sides = [
            WAYS_BACK[name].of_options(name, network, real_args, real_kwargs, options)
            for name, network in self.back.items()
        ]
        constants = frozenset(each.value.name for each in self.program.constants)
        interpreter = InterpreterSide(
            INTERPRETER, self.program, args, kwargs, working_dtype=dtype, seed=options.seed, rounded=constants
        )
        sides: list[Side] = [
            interpreter,
            ExportedSide(
                ONNXRUNTIME,
                self.program,
                args,
                kwargs,
                working_dtype=dtype,
                provider=options.provider,
                opset=self.opset or find(options.provider).newest_opset,
            ),
            *back_sides,
        ]
        program = self.program if args is self.given else None
        reference = TorchSide.of_options("torch", self.module, args, kwargs, options, program=program)
        # code that asks `torch.compiler.is_compiling()` may round its numbers on one of the two sides only
        rounded: list[Side] = [] if dtype == "float64" else [reference, interpreter]
        selected = [side for side in sides if is_selected(side.name, self.sides)]
        return judge_sides(reference, selected, options, self.progress, rounded)

    def judge_at_other_sizes(
        self, report: Report, args: tuple[Any, ...], kwargs: dict[str, Any], dynamic_shapes: Any
    ) -> None:
        """If there are dynamic dimensions, judge at other sizes too, and add the results to the report."""
        tensors = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        for sizes in other_sizes(self.program, tensors, dynamic_shapes):
            resized = resize(self.program, args, kwargs, sizes)
            judge_at(report, format_sizes(sizes), partial(self.judge_inputs, *resized))


def is_selected(side: str, sides: Sequence[str]) -> bool:
    """Whether a side is to be judged; all are if `sides` is empty."""
    return not sides or side in sides


def require_sides(sides: Sequence[str], round_trip: bool, port: str | None) -> None:
    """Raise `UsageError` if one of these sides doesn't exist."""
    available = [INTERPRETER, ONNXRUNTIME]
    available += [FROM_IR, FROM_ONNX] if round_trip else []
    available += [port] if port is not None else []
    if unknown := [side for side in sides if side not in available]:
        raise UsageError(f"there is no side {unknown[0]!r} to judge: there are {', '.join(available)}")


def sides_without_onnx(sides: Sequence[str], round_trip: bool, port: str | None) -> list[str]:
    """Return those of the sides to judge, all if there are none, that need no ONNX model; none if one was asked for."""
    without = [INTERPRETER, *([FROM_IR] if round_trip else []), *([port] if port is not None else [])]
    return [side for side in sides or without if side in without] if set(sides) <= set(without) else []


def _as_reals(arguments: Any) -> Any:
    """Return the arguments as modules made from programs take them: complex tensors as pairs of reals."""
    return pytree.tree_map_only(
        torch.Tensor, lambda x: torch.view_as_real(x.resolve_conj()) if x.is_complex() else x, arguments
    )
