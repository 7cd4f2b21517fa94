"""How the pytest plugin compares: `--parity-train` and so on, or `parity_train` in pytest's ini file."""

from __future__ import annotations

from typing import Any

import pytest

from ..runtime.errors import UsageError
from .dtypes import WORKING_DTYPES
from .options import Options
from .sides.names import CONVERSIONS, PORTS

SIDES = (*CONVERSIONS, *PORTS)

_OPTIONS: dict[str, tuple[str, Any, dict[str, Any]]] = {
    "train": (
        "bool",
        False,
        {"action": "store_true", "help": "compare in train mode: batch statistics, dropout, buffer updates"},
    ),
    "dtype": (
        "string",
        "float32",
        {"metavar": "|".join(WORKING_DTYPES), "help": "the dtype that rounding is judged in"},
    ),
    "rtol": ("string", None, {"metavar": "NUMBER", "help": "relative tolerance, instead of the computed bar"}),
    "atol": ("string", None, {"metavar": "NUMBER", "help": "absolute tolerance, instead of the computed bar"}),
    "only": (
        "args",
        (),
        {"action": "append", "metavar": "GLOB", "help": "judge only Cells whose path matches; may be repeated"},
    ),
    "skip": (
        "args",
        (),
        {"action": "append", "metavar": "GLOB", "help": "leave out Cells whose path matches; may be repeated"},
    ),
    "side": (
        "args",
        (),
        {
            "action": "append",
            "metavar": "SIDE",
            "help": f"judge only this side: {', '.join(SIDES)}; may be repeated",
        },
    ),
}
"""By name: the type and default of the ini setting, and what the option on the command line is made with."""


def add_options(parser: pytest.Parser) -> None:
    """Declare them."""
    group = parser.getgroup("parity", "parity of the Cells of parity_*.py files")
    for name, (kind, default, option) in _OPTIONS.items():
        group.addoption(f"--parity-{name}", dest=f"parity_{name}", default=None, **option)
        parser.addini(f"parity_{name}", f"as --parity-{name}", type=kind, default=default)  # type: ignore[arg-type]


def settings_of(config: pytest.Config) -> dict[str, Any]:
    """Keywords of `parity.check`, from the command line, else from the ini file.

    Raises:
        pytest.UsageError: a setting is wrong.
    """
    given: dict[str, Any] = {}
    for name in _OPTIONS:
        on_the_line = config.getoption(f"parity_{name}")
        given[name] = config.getini(f"parity_{name}") if on_the_line is None else on_the_line
    given |= {name: _number(name, given[name]) for name in ("rtol", "atol")}
    sides = list(given.pop("side"))
    if unknown := [side for side in sides if side not in SIDES]:
        raise pytest.UsageError(f"parity_side: there is no side {unknown[0]!r}; there are {', '.join(SIDES)}")
    try:
        chosen = Options(**given)
    except UsageError as error:
        raise pytest.UsageError(f"of the settings of parity, {error}") from error
    return given | {"dtype": chosen.dtype, "only": list(chosen.only), "skip": list(chosen.skip), "sides": sides}


def _number(name: str, text: str | None) -> float | None:
    if not text:
        return None
    try:
        return float(text)
    except ValueError as error:
        raise pytest.UsageError(f"parity_{name} must be a number, given {text!r}") from error
