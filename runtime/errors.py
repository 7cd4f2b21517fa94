"""The exceptions that users see, and the exit code of the command line for each.

CellbridgeError
|-- UsageError              2   the command line, the model file or an argument is wrong
|   `-- UnknownOption           2   a function has no such keyword
|-- ConversionError         3   the model can't be converted
|   `-- UnsupportedOperators    3   it uses operators that have no mapping (all are listed)
|-- ShapeError              2   operands of an op don't fit together
|-- ProgramError            2   a program (built or loaded) breaks a rule of the IR
|-- TracingError            2   Python can't be traced to a program
|   |-- UnknownValue            2   it needs the elements of a symbolic tensor
|   |-- UnknownSize             2   it needs a symbolic size to be a number
|   `-- UnsupportedPython       2   it does something that a program can't: changes an object, calls hooks, ...
`-- ParityError             1   two networks are not the same (raised by `raise_if_failed`)
"""

from __future__ import annotations

from collections.abc import Iterable

from .visible import shorten_lines, visible_name, visible_text


class CellbridgeError(Exception):
    """Base of all errors raised on purpose; `exit_code` is what the command line returns."""

    exit_code = 2

    def __str__(self) -> str:
        """Return the message, safe to display: names from files in it may be long or hold control characters."""
        return visible_text(shorten_lines(super().__str__()))


class UsageError(CellbridgeError):
    """The command line, a model file or an argument is wrong."""


class UnknownOption(UsageError, TypeError):
    """A function is called with a keyword that it doesn't have; the message suggests a similar one."""


class ConversionError(CellbridgeError):
    """A model can't be converted."""

    exit_code = 3


class UnsupportedOperators(ConversionError):
    """A model uses operators that have no mapping.

    Attributes:
        operators: one `(operator, cell path, source line)` per use, in graph order.
    """

    def __init__(self, message: str, operators: list[tuple[str, str, str]]) -> None:
        super().__init__(message)
        self.operators = operators


def require_supported(unsupported: Iterable[tuple[str, str, str]], refused: str, instead: str = "") -> None:
    """Raise `UnsupportedOperators`, which lists each use once, if any operator is unsupported.

    Args:
        unsupported: as `UnsupportedOperators.operators`; a source line may be empty.
        refused: the first line of the message: what can't be done, with `{}` for the number of uses.
        instead: what to do.
    """
    unique = list(dict.fromkeys(unsupported))
    if unique:
        lines = [refused.format(f"{len(unique)} use{'s' if len(unique) > 1 else ''}")]
        lines += [
            f"  {name}\n      in Cell {cell or '(root)'}{f', {source}' if source else ''}"
            for name, cell, source in (map(visible_name, use) for use in unique)
        ]
        lines += [f"  what to do: {instead}"] if instead else []
        raise UnsupportedOperators("\n".join(lines), unique)


class ShapeError(CellbridgeError, ValueError):
    """The operands of an op have dtypes or shapes that don't fit together."""


class ProgramError(CellbridgeError):
    """A program breaks a rule of the IR, or a saved one can't be read."""


class TracingError(CellbridgeError):
    """Python can't be traced to a program: the message names the line and the Cell, and says what to write instead."""


class UnknownValue(TracingError, ValueError, TypeError):
    """Traced Python code needs the elements of a tensor, which are known only when the program runs.

    It needs them for a branch, a NumPy call or a Python number.
    """


class UnknownSize(TracingError, ValueError, TypeError):
    """Traced Python code needs a symbolic size as a number, which is known only when the program runs."""


class UnsupportedPython(TracingError, RuntimeError):
    """Traced Python code does something that a program can't do when it runs.

    It changes an object from outside the trace, draws random numbers with NumPy or Python's `random`, catches
    exceptions, yields, or calls hooks.
    """


class ParityError(CellbridgeError, AssertionError):
    """Two sides are not the same network; `report` has the comparisons, if there is one."""

    exit_code = 1
    report: object = None


class ConversionWarning(UserWarning):
    """A model was converted, but the program differs from it in the way that the message describes."""

    def __str__(self) -> str:
        """Return the message, safe to display."""
        return visible_text(super().__str__())
