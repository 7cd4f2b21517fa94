"""The exceptions people see, and the exit code that the command line gives for each.

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
|   `-- UnsupportedPython       2   it does what a program can't: changes an object, catches exceptions, calls hooks
`-- ParityError             1   two networks are not the same (raised by `raise_if_failed`)
"""

from __future__ import annotations

from collections.abc import Iterable

from .visible import visible_name, visible_text

MAX_LINE_LENGTH = 4000  # characters


def _shortened(line: str) -> str:
    """A line of a message; of a long one the beginning, and how long it is."""
    return line if len(line) <= MAX_LINE_LENGTH else f"{line[:MAX_LINE_LENGTH]}... ({len(line)} characters)"


class CellbridgeError(Exception):
    """Base of all errors raised on purpose; `exit_code` is what the command line returns."""

    exit_code = 2

    def __str__(self) -> str:
        """The message, fit to be shown: it names what stands in files, which may be long."""
        return visible_text("\n".join(map(_shortened, super().__str__().split("\n"))))


class UsageError(CellbridgeError):
    """What the user gave (command line, model file, argument) is wrong."""


class UnknownOption(UsageError, TypeError):
    """A function is called with a keyword that it hasn't; the message has the one that is close to it."""


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
    """Raise `UnsupportedOperators`, which lists each use once, if there are any.

    Args:
        unsupported: as `UnsupportedOperators.operators`; a source line may be empty.
        refused: what can't be done for it, with `{}` for the number of uses.
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
    """SymbolicTensor Python needs the elements of a tensor, which are known only when the program runs.

    For a branch, a NumPy call, a Python number.
    """


class UnknownSize(TracingError, ValueError, TypeError):
    """SymbolicTensor Python needs a symbolic size to be a number, which is known only when the program runs."""


class UnsupportedPython(TracingError, RuntimeError):
    """SymbolicTensor Python does what a program can't do when it runs.

    It changes an object that was there before, draws with NumPy or Python's `random`, catches exceptions, yields, or
    calls hooks.
    """


class ParityError(CellbridgeError, AssertionError):
    """Two sides are not the same network."""

    exit_code = 1


class ConversionWarning(UserWarning):
    """A model was converted, but the program isn't the same in something that the text names."""

    def __str__(self) -> str:
        """The text, fit to be shown."""
        return visible_text(super().__str__())
