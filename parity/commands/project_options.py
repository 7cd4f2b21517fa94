"""Options from `[tool.parity]` in pyproject.toml, by the names that they have on the command line."""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from ...runtime.errors import UsageError

PROJECT_FILE = "pyproject.toml"


def project_options(group: click.Group) -> dict[str, dict[str, Any]]:
    """Return the defaults of each command's options, from the pyproject.toml of this folder or the nearest one above.

    `[tool.parity]` has options of all commands that know them, `[tool.parity.run]` those of one.

    Raises:
        UsageError: the file isn't TOML, or an option doesn't exist or has a value of another type.
    """
    file = next((f for f in (p / PROJECT_FILE for p in (Path.cwd(), *Path.cwd().parents)) if f.is_file()), None)
    if file is None:
        return {}
    try:
        data = tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, OSError) as error:
        raise UsageError(f"{file}: {error}") from error
    tool = data.get("tool", {})
    table = tool.get("parity", {}) if isinstance(tool, dict) else {}
    if not isinstance(table, dict):
        raise UsageError(f"{file}: [tool.parity] must be a table of options")
    shared = {name: value for name, value in table.items() if not isinstance(value, dict)}
    own = {name: value for name, value in table.items() if isinstance(value, dict)}
    known = {option for command in group.commands.values() for option in _options(command)}
    _require_known(file, "tool.parity", shared, known)
    _require_known(file, "tool.parity", own, set(group.commands), "command")
    defaults: dict[str, dict[str, Any]] = {}
    for name, command in group.commands.items():
        options = _options(command)
        _require_known(file, f"tool.parity.{name}", own.get(name, {}), set(options))
        values = {**{key: value for key, value in shared.items() if key in options}, **own.get(name, {})}
        defaults[name] = {
            str(options[key].name): _value(file, key, value, options[key]) for key, value in values.items()
        }
    return defaults


def _options(command: click.Command) -> dict[str, click.Option]:
    """Return the options of a command by their long names, without dashes at the start."""
    found = [parameter for parameter in command.params if isinstance(parameter, click.Option)]
    return {
        name[2:]: option for option in found for name in [*option.opts, *option.secondary_opts] if name.startswith("--")
    }


def _require_known(file: Path, table: str, given: Mapping[str, Any], known: set[str], what: str = "option") -> None:
    for name in given:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(sorted(known))}"
            raise UsageError(f"{file}: [{table}] has no {what} {name}: {hint}")


def _value(file: Path, name: str, value: Any, option: click.Option) -> Any:
    """Return a value as click takes it: a list for an option that may be repeated, else a flag, a number or a text."""
    if option.multiple:
        values = value if isinstance(value, list) else [value]
        if all(isinstance(one, (str, int, float)) for one in values):
            return [str(one) for one in values]
        raise UsageError(f"{file}: {name} needs a list of texts, given {value!r}")
    if option.is_flag != isinstance(value, bool):
        needed = "true or false" if option.is_flag else "a value, not a flag"
        raise UsageError(f"{file}: {name} needs {needed}, given {value!r}")
    if f"--{name}" in option.secondary_opts:  # eval = true, of --train/--eval
        return not value
    if not isinstance(value, (str, int, float)):
        raise UsageError(f"{file}: {name} needs a text or a number, given {value!r}")
    return value
