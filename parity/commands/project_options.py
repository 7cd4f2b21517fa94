"""Options from `[tool.parity]` in pyproject.toml, by the names that they have on the command line.

The file comes with a project, which may be somebody else's. It may say how that is judged; it may not write, run or
connect to anything.
"""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from ...runtime.errors import UsageError
from ...runtime.visible import visible_name, visible_text
from ..jobs.sweeping.run_options import PROJECT_OPTIONS, RunOptions
from ..report.layout import echo
from .project_file import read_project_file

PROJECT = f"{__name__}.project"  # in the meta of a context

JUDGING = frozenset({
    "train", "eval", "dtype", "seed", "provider", "inputs", "shape",  # what is computed
    "no-grad", "probe", "no-probe", "rtol", "atol", "only", "skip", "strict",  # what is compared, and how
    "fail-fast", "diagnose-seconds", "timeout", "verbose",
})  # fmt: skip
"""The options that the file may set. Others write files, start processes, or say what a command does."""
PATHS = frozenset({"inputs"})
"""Those of them that are paths, which must be of the file's folder."""
LONGEST = 1000
"""The most characters of a value."""


@dataclass(frozen=True)
class Project:
    """What a pyproject.toml says.

    Attributes:
        file: the file.
        options: the options of each command, by the names and with the values that the file has.
    """

    file: Path
    options: Mapping[str, Mapping[str, Any]]


def load_project_options(group: click.Group, context: click.Context) -> None:
    """Let the options of pyproject.toml be the defaults of the command that runs.

    `[tool.parity]` has options of all commands that know them, `[tool.parity.run]` those of one. In a process of a
    sweep they are those that the sweep has read.

    Raises:
        UsageError: the file can't be read, or an option doesn't exist, has a value of another type, or isn't one that a
            project may set.
    """
    # taken away, so that it isn't that of a `parity` which the model itself starts
    of_sweep = os.environ.pop(PROJECT_OPTIONS, None)
    content = read_project_file(Path.cwd()) if of_sweep is None else _of_sweep(Path(of_sweep))
    if content is None:
        return
    file, data = content
    project = Project(file, _options_by_command(file, data, group))
    context.default_map = {
        name: {
            str(options[key].name): _value(file, key, value, options[key])
            for key, value in project.options[name].items()
        }
        for name, options in ((name, _options(command)) for name, command in group.commands.items())
    }
    context.meta[PROJECT] = project


def _of_sweep(options: Path) -> tuple[Path, dict[str, Any]] | None:
    """Return a pyproject.toml, and the options of `parity run` that it had when a sweep began; None without one.

    Args:
        options: the file that `RunOptions.environment` has written.

    Raises:
        UsageError: it is something else.
    """
    try:
        content = json.loads(options.read_text(encoding="utf-8"))
        of_run = content["run"]
        file = None if content["file"] is None else Path(content["file"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{PROJECT_OPTIONS} doesn't name a file of options that parity sweep has written") from error
    return None if file is None else (file, {"tool": {"parity": {"run": of_run}}})


def run_options(context: click.Context, words: Sequence[str]) -> RunOptions:
    """Return the options of `parity run` that `words` and pyproject.toml give."""
    project = context.meta.get(PROJECT)
    return RunOptions(words) if project is None else RunOptions(words, project.options["run"], str(project.file))


def project_file(context: click.Context) -> str | None:
    """Return the name of the file that gave the command its defaults, from the current folder; None without one."""
    project = context.meta.get(PROJECT)
    return None if project is None else visible_name(os.path.relpath(project.file))


def say_options(context: click.Context, without_effect: Sequence[str]) -> None:
    """Print on stderr which options the command takes from the file, and sentences on others of the file."""
    words: list[str] = []
    for option in context.command.params:
        name = str(option.name)
        if context.get_parameter_source(name) is ParameterSource.DEFAULT_MAP and isinstance(option, click.Option):
            words += _in_words(option, context.lookup_default(name))
    if words:
        echo(f"from {project_file(context)}: {' '.join(words)}", err=True)
    for sentence in without_effect:
        echo(f"from {project_file(context)}: {sentence}", err=True)


def _in_words(option: click.Option, value: Any) -> list[str]:
    """Return an option and its value as they are printed."""
    if option.is_flag:
        return [(option.opts if value else option.secondary_opts)[-1]]
    values = value if option.multiple else [value]
    return [f"{option.opts[-1]}={visible_text(str(item))}" for item in values]


def _options_by_command(file: Path, data: Mapping[str, Any], group: click.Group) -> dict[str, dict[str, Any]]:
    """Return the options of each command, by the names and with the values that the file has."""
    tool = data.get("tool", {})
    table = tool.get("parity", {}) if isinstance(tool, dict) else {}
    if not isinstance(table, dict):
        raise UsageError(f"{visible_name(str(file))}: [tool.parity] must be a table of options")
    shared = {name: value for name, value in table.items() if not isinstance(value, dict)}
    by_command = {name: value for name, value in table.items() if isinstance(value, dict)}
    names = {option for command in group.commands.values() for option in _options(command)}
    _require_known(file, "tool.parity", shared, names)
    _require_known(file, "tool.parity", by_command, set(group.commands), "command")
    known: dict[str, dict[str, Any]] = {}
    for name, command in group.commands.items():
        options = _options(command)
        _require_known(file, f"tool.parity.{name}", by_command.get(name, {}), set(options))
        known[name] = {**{key: value for key, value in shared.items() if key in options}, **by_command.get(name, {})}
    return known


def _options(command: click.Command) -> dict[str, click.Option]:
    """Return the options of a command by their long names, without dashes at the start."""
    options = [parameter for parameter in command.params if isinstance(parameter, click.Option)]
    return {
        name[2:]: option
        for option in options
        for name in [*option.opts, *option.secondary_opts]
        if name.startswith("--")
    }


def _require_known(file: Path, table: str, values: Mapping[str, Any], names: set[str], what: str = "option") -> None:
    """Raise `UsageError` for a name that isn't known, or that of an option which a project may not set."""
    allowed = names & JUDGING if what == "option" else names
    for name in values:
        where = f"{visible_name(str(file))}: [{table}]"
        if name not in names:
            close = difflib.get_close_matches(name[:LONGEST], allowed, n=1)
            hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(sorted(allowed)) or 'none'}"
            raise UsageError(f"{where} has no {what} {visible_name(name)[:LONGEST]}: {hint}")
        if name not in allowed:
            raise UsageError(
                f"{where} sets {name}, which a project can't: it may say how something is judged, and not what is "
                f"written, run or connected to\n"
                f"  what to do: take {name} out of the file, and give --{name} on the command line if it is meant"
            )


def _value(file: Path, name: str, value: Any, option: click.Option) -> Any:
    """Return a value as click takes it: a list for an option that may be repeated, else a flag, a number or a text."""
    where = f"{visible_name(str(file))}: {name}"
    if option.multiple:
        values = value if isinstance(value, list) else [value]
        if all(isinstance(item, (str, int, float)) and not isinstance(item, bool) for item in values):
            return [_text(where, item, option) for item in values]
        raise UsageError(f"{where} needs a list of strings, given {_shown(value)}")
    if option.is_flag != isinstance(value, bool):
        needed = "true or false" if option.is_flag else "a value, not a flag"
        raise UsageError(f"{where} needs {needed}, given {_shown(value)}")
    if f"--{name}" in option.secondary_opts:  # eval = true, of --train/--eval
        return not value
    if isinstance(value, bool):
        return value
    if not isinstance(value, (str, int, float)):
        raise UsageError(f"{where} needs a string or a number, given {_shown(value)}")
    text = _text(where, value, option)
    return _inside(file, name, text) if name in PATHS else text


def _text(where: str, value: object, option: click.Option) -> str:
    """Return a value as the text that the option takes on the command line."""
    text = str(value)
    if len(text) > LONGEST:
        raise UsageError(f"{where} has {len(text)} characters, at most {LONGEST} are taken")
    try:
        option.type.convert(text, option, None)
    except click.BadParameter as error:
        raise UsageError(f"{where}: {visible_text(error.message)}") from error
    return text


def _shown(value: object) -> str:
    """Return a value in a few words."""
    if isinstance(value, (list, dict)):
        return "a list" if isinstance(value, list) else "a table"
    return visible_text(repr(value))[:60]


def _inside(file: Path, name: str, path: str) -> str:
    """Return the path of a file in the folder of pyproject.toml, or below it."""
    folder = file.parent.resolve()
    try:
        full = (folder / path).resolve()
    except (OSError, ValueError, RuntimeError) as error:
        raise UsageError(f"{visible_name(str(file))}: {name} isn't a path: {error}") from error
    if not full.is_relative_to(folder):
        raise UsageError(
            f"{visible_name(str(file))}: {name} must be a file of its folder, given {visible_name(path)}\n"
            f"  what to do: give --{name} on the command line"
        )
    return str(full)
