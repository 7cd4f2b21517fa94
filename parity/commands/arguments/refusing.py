"""Refuses what the table of combinations says, before a command does anything."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import click
from click.core import ParameterSource

from ....runtime.errors import UsageError
from .combinations import CIRCUMSTANCES, COMBINATIONS, Excludes, Needs
from .declaring import GroupedOption

_GIVEN = (ParameterSource.COMMANDLINE, ParameterSource.DEFAULT_MAP)


@dataclass(frozen=True)
class _Conflict:
    """What a row of the table refuses.

    Attributes:
        message: the message.
        removable: options of pyproject.toml without which the rest of the command line can be obeyed.
        reason: why these have no effect, in words.
    """

    message: str
    removable: Sequence[str]
    reason: str


def refuse_combinations(ctx: click.Context) -> list[str]:
    """Refuse options that can't be combined, or lack another one.

    Options of pyproject.toml give way to what the command line says.

    Returns:
        A sentence for each option of pyproject.toml that has no effect.

    Raises:
        UsageError: options of the command line are in conflict.
    """
    sentences = []
    for row in rows_of(ctx.command):
        conflict = _needed(row, ctx) if isinstance(row, Needs) else _excluded(row, ctx)
        if conflict is None:
            continue
        if not conflict.removable:
            raise UsageError(conflict.message)
        for term in conflict.removable:
            _remove(option_of(ctx.command, term), ctx)
            sentences.append(f"{term} has no effect {conflict.reason}")
    return sentences


def rows_of(command: click.Command) -> list[Excludes | Needs]:
    """Return the rows that hold for a command, with those of their options that it has."""
    rows: list[Excludes | Needs] = []
    for row in COMBINATIONS:
        options, others = ([term for term in terms if has(command, term)] for terms in (row.options, row.others))
        if options and others:
            rows.append(type(row)(tuple(options), tuple(others), row.reason))
    return rows


def has(command: click.Command, term: str) -> bool:
    """Whether a command has an option, or a circumstance may be in it."""
    if term in CIRCUMSTANCES:
        return command.name in CIRCUMSTANCES[term].commands
    return any(term in [*parameter.opts, *parameter.secondary_opts] for parameter in command.params)


def option_of(command: click.Command, term: str) -> GroupedOption:
    """Return the option of a name."""
    return next(
        parameter
        for parameter in command.params
        if isinstance(parameter, GroupedOption) and term in [*parameter.opts, *parameter.secondary_opts]
    )


def _needed(row: Needs, ctx: click.Context) -> _Conflict | None:
    given_options = _given(row.options, ctx)
    if not given_options or _given(row.others, ctx):
        return None
    needed = _join([_with_value(term, ctx) for term in row.others], "or")
    message = f"{_join(given_options, 'and')} need{'s' if len(given_options) == 1 else ''} {needed}: {row.reason}"
    given_by_user = _on_command_line(given_options, ctx)
    removable = [] if given_by_user or any(map(_holds_for_some, row.others, [ctx] * len(row.others))) else given_options
    return _Conflict(message, removable, f"without {needed}: {row.reason}")


def _excluded(row: Excludes, ctx: click.Context) -> _Conflict | None:
    given_options = _given(row.options, ctx)
    if row.options == row.others:
        alike = len(given_options) > 1
        return _Conflict(f"{_join(given_options, 'and')} can't be combined: {row.reason}", [], "") if alike else None
    others = _given(row.others, ctx)
    if not given_options or not others:
        return None
    message = f"{_join(given_options, 'and')} can't be combined with {_join(others, 'and')}: {row.reason}"
    if _on_command_line(given_options, ctx) and not _on_command_line(others, ctx):
        return _Conflict(message, others, f"with {_join(given_options, 'and')}: {row.reason}")
    if _on_command_line(others, ctx) and not _on_command_line(given_options, ctx):
        return _Conflict(message, given_options, f"with {_join(others, 'and')}: {row.reason}")
    return _Conflict(message, [], "")


def _given(terms: Iterable[str], ctx: click.Context) -> list[str]:
    """Return the options among terms that the user or pyproject.toml gives, by their first names, and what holds."""
    names = []
    for term in terms:
        if term in CIRCUMSTANCES:
            if all(CIRCUMSTANCES[term].holds(ctx)):
                names.append(term)
            continue
        option = option_of(ctx.command, term)
        name = str(option.name)
        is_second = term in option.secondary_opts
        if ctx.get_parameter_source(name) in _GIVEN and (not option.is_flag or ctx.params[name] is not is_second):
            names.append(term if is_second else option.opts[0])
    return names


def _on_command_line(terms: Iterable[str], ctx: click.Context) -> bool:
    """Whether one of these terms, which are given, isn't from pyproject.toml."""
    return any(
        term in CIRCUMSTANCES
        or ctx.get_parameter_source(str(option_of(ctx.command, term).name)) is ParameterSource.COMMANDLINE
        for term in terms
    )


def _holds_for_some(term: str, ctx: click.Context) -> bool:
    """Whether a circumstance holds for some MODELs, and not for all."""
    return term in CIRCUMSTANCES and any(CIRCUMSTANCES[term].holds(ctx))


def _remove(option: GroupedOption, ctx: click.Context) -> None:
    ctx.params[str(option.name)] = option.unset
    ctx.set_parameter_source(str(option.name), ParameterSource.DEFAULT)


def _with_value(term: str, ctx: click.Context) -> str:
    """Return an option as it is written, with its value: `-o FILE`."""
    if term in CIRCUMSTANCES:
        return term
    option = option_of(ctx.command, term)
    return option.opts[0] if option.is_flag else f"{option.opts[0]} {option.metavar}"


def _join(words: Sequence[str], conjunction: str) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {conjunction} {words[-1]}"
