"""Decisions by values of tensors that have no effect in a correct run: checks and guards against overflow."""

from __future__ import annotations

import ast
import functools
import linecache
import re
import sys
from types import FrameType

import torch

from ..warning import warn

# the guard in the layers of transformers, with nothing else in the branch, and no other branch
_GUARD = re.compile(
    r"""(?P<indent>[ ]*)
    if[ ](?:(?P<negated>not)[ ]torch\.isfinite|torch\.isinf)\((?P<x>\w+)\)\.(?(negated)all|any)\(\):\n
    (?P=indent)[ ]+ (?P<bound>\w+)[ ]=[ ]torch\.finfo\((?P=x)\.dtype\)\.max[ ]-[ ]1000\n
    (?P=indent)[ ]+ (?P=x)[ ]=[ ]torch\.clamp\((?P=x),[ ]min=-(?P=bound),[ ]max=(?P=bound)\)\n
    (?:[ ]*\n)*+ (?!(?P=indent)[ ]) (?!(?P=indent)el(?:se|if)\b)""",
    re.VERBOSE,
)


class KnownDecisions:
    """Within the context, the truth value of a tensor is known in these statements; elsewhere torch decides.

    - `assert` and `if ...: raise` check values: the check is assumed to pass, and isn't captured. This includes
      checks in torch's own functions (of a negative variance in `gaussian_nll_loss`).
    - `if not torch.isfinite(x).all(): x = torch.clamp(x, ...)` always clamps. The bound is the largest number of the
      dtype minus 1000. For dtypes with the exponent range of float32 or more, that rounds to the largest number
      itself, so finite values and their gradients don't change. In float16 they would, and torch decides.
    """

    def __init__(self) -> None:
        self.checks: dict[str, None] = {}  # lines of the checks that were assumed to pass

    def __enter__(self) -> None:
        # replaces the method: torch's own functions run without torch function modes
        setattr(torch.Tensor, "__bool__", lambda x: self._truth(x, sys._getframe(1)))  # noqa: B010 (mypy)

    def __exit__(self, *exception: object) -> None:
        del torch.Tensor.__bool__

    def _truth(self, x: torch.Tensor, frame: FrameType) -> bool:
        """The truth value of a tensor that the code in a frame asks for."""
        clamps = _says_to_clamp(frame)
        if clamps is not None:
            return clamps
        passes = _checks("".join(linecache.getlines(frame.f_code.co_filename))).get(frame.f_lineno)
        if passes is not None:
            self.checks[_line(frame)] = None
            return passes
        return torch._C.TensorBase.__bool__(x)

    def warn(self) -> None:
        """Issue a `ConversionWarning` for the checks that aren't captured."""
        if self.checks:
            warn("the program doesn't check the values that the model's code checks:\n  " + "\n  ".join(self.checks))


def _line(frame: FrameType) -> str:
    file = frame.f_code.co_filename
    return f"{file}:{frame.f_lineno}: {linecache.getline(file, frame.f_lineno).strip()}"


def _says_to_clamp(frame: FrameType) -> bool | None:
    """The truth value for which the guard running in the frame clamps; None if it runs no guard."""
    lines = linecache.getlines(frame.f_code.co_filename)[frame.f_lineno - 1 :]
    guard = _GUARD.match("".join(lines))
    if guard is None:
        return None
    largest = torch.finfo(frame.f_locals[guard["x"]].dtype).max
    return not guard["negated"] if largest - 1000 == largest else None


@functools.cache
def _checks(code: str) -> dict[int, bool]:
    """The truth values of tensors for which the checks in Python source pass, by line."""
    try:
        module = ast.parse(code)
    except SyntaxError:  # for example a notebook cell with IPython commands
        return {}
    decisions: dict[int, bool] = {}
    for statement in ast.walk(module):
        if isinstance(statement, ast.Assert):
            test, passes = statement.test, _truth(statement.test, True)
        elif isinstance(statement, ast.If) and not statement.orelse and isinstance(statement.body[0], ast.Raise):
            test, passes = statement.test, _truth(statement.test, False)
        else:
            continue
        if passes is not None:
            decisions.update(dict.fromkeys(range(test.lineno, (test.end_lineno or test.lineno) + 1), passes))
    return decisions


def _truth(test: ast.expr, expected: bool) -> bool | None:
    """The truth value that every tensor needs for the test to be `expected`; None if they differ."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _truth(test.operand, not expected)
    if isinstance(test, ast.BoolOp):
        truths = {_truth(operand, expected) for operand in test.values}
        return truths.pop() if len(truths) == 1 else None
    inside = (node for node in ast.walk(test) if node is not test)
    mixed = any(isinstance(n, (ast.BoolOp, ast.IfExp)) or isinstance(getattr(n, "op", None), ast.Not) for n in inside)
    return None if mixed or isinstance(test, ast.IfExp) else expected
