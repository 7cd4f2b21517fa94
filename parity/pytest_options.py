"""The settings of the pytest plugin: `--parity-train` and so on, or `parity_train` in pytest's ini file."""

from __future__ import annotations

import argparse
from typing import Any

import pytest

from ..runtime.errors import UsageError
from .dtypes import WORKING_DTYPES
from .options import Options
from .results.coverage import HALF, require_share
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
    "probe": (
        "bool",
        True,
        {
            "action": argparse.BooleanOptionalAction,
            "help": "compare on further inputs, derived from the given ones, too (default: yes)",
        },
    ),
    "min_coverage": (
        "string",
        None,
        {
            "metavar": "NUMBER",
            "help": "least share of the parameters, from 0 to 1, whose gradients must be compared with those of a port "
            f"or a recording (default: {HALF})",
        },
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
    "html": (
        "string",
        None,
        {
            "metavar": "DIR",
            "help": "write an HTML page on each comparison that fails to this folder, and index.html on all",
        },
    ),
}
"""By name: type and default of the ini setting, and arguments of the command line option."""


def add_options(parser: pytest.Parser) -> None:
    """Declare the options and ini settings."""
    group = parser.getgroup("parity", "parity of the Cells of parity_*.py files")
    for name, (kind, default, option) in _OPTIONS.items():
        group.addoption(f"--parity-{name.replace('_', '-')}", dest=f"parity_{name}", default=None, **option)
        parser.addini(f"parity_{name}", f"as --parity-{name.replace('_', '-')}", type=kind, default=default)  # type: ignore[arg-type]


def settings_of(config: pytest.Config) -> dict[str, Any]:
    """Return the keywords of `parity.check`, from the command line, else from the ini file.

    Two are none of them: `html`, the absolute path of the folder for HTML pages, None if there is none; and
    `min_coverage`, the least share of parameters that a port's gradients must be compared for.

    Raises:
        pytest.UsageError: a setting is wrong.
    """
    settings: dict[str, Any] = {}
    for name in _OPTIONS:
        command_line = config.getoption(f"parity_{name}")
        settings[name] = config.getini(f"parity_{name}") if command_line is None else command_line
    settings |= {name: _number(name, settings[name]) for name in ("rtol", "atol")}
    settings["train"] = settings["train"] or None
    sides = list(settings.pop("side"))
    html = settings.pop("html")
    minimum = _number("min_coverage", settings.pop("min_coverage"))
    least = HALF if minimum is None else minimum
    if unknown := [side for side in sides if side not in SIDES]:
        raise pytest.UsageError(f"parity_side: there is no side {unknown[0]!r}; there are {', '.join(SIDES)}")
    try:
        require_share(least, "parity_min_coverage")
        options = Options(**settings)
    except UsageError as error:
        raise pytest.UsageError(f"settings of parity: {error}") from error
    return settings | {
        "dtype": options.dtype,
        "only": list(options.only),
        "skip": list(options.skip),
        "sides": sides,
        "min_coverage": least,
        "html": str(config.invocation_params.dir / html) if html else None,
    }


def _number(name: str, text: str | None) -> float | None:
    if not text:
        return None
    try:
        return float(text)
    except ValueError as error:
        raise pytest.UsageError(f"parity_{name} must be a number, given {text!r}") from error
