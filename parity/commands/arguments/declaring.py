"""Declares options: a group is a frozen dataclass with an option for each field, and a command takes groups.

@dataclass(frozen=True)
class Reports(ArgumentGroup):
    title = "Reports"
    html: str | None = option("--html", metavar="FILE", help="Write the report as an HTML page.")

@command("run")
def run(reports: Reports) -> None: ...
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import field, fields
from typing import Any, ClassVar, get_type_hints

import click
from click.core import ParameterSource

_DECLARATION = "option"  # in the metadata of a field


class GroupedOption(click.Option):
    """An option of a group.

    Attributes:
        group: the group, whose title it has in `--help`.
        unset: its value if it isn't given.
    """

    def __init__(self, *args: Any, group: type[ArgumentGroup], unset: Any, **attributes: Any) -> None:
        super().__init__(*args, **attributes)
        self.group = group
        self.unset = unset

    def get_help_extra(self, ctx: click.Context) -> Any:
        """Leave out the range of a number, which an error says."""
        return {name: value for name, value in super().get_help_extra(ctx).items() if name != "range"}

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        """Let `--train/--eval` keep what was given, so that both can be refused; click takes the last."""
        if not self.secondary_opts:
            super().add_to_parser(parser, ctx)
            return
        for names, value in ((self.opts, True), (self.secondary_opts, False)):
            parser.add_option(obj=self, opts=names, dest=self.name, action="append_const", const=value)

    def consume_value(self, ctx: click.Context, opts: Mapping[str, Any]) -> tuple[Any, ParameterSource]:
        """Refuse `--train --eval`."""
        value, source = super().consume_value(ctx, opts)
        if self.secondary_opts and source is ParameterSource.COMMANDLINE:
            if len({*value}) > 1:
                raise click.UsageError(f"{self.opts[0]} and {self.secondary_opts[0]} can't be combined.", ctx)
            value = value[0]
        return value, source


class ArgumentGroup:
    """Options that belong together.

    A subclass is a frozen dataclass whose fields are made by `option`. The options of its bases come first, from left
    to right, and then its own.

    Attributes:
        title: the heading in `--help`; groups may share one.
        note: a paragraph below the heading.
    """

    title: ClassVar[str]
    note: ClassVar[str] = ""

    @classmethod
    def options(cls) -> list[click.Parameter]:
        """Return new options for a command."""
        inherited = [option for base in cls.__bases__ if issubclass(base, ArgumentGroup) for option in base.options()]
        own_fields = {f.name: f for f in fields(cls) if f.name in vars(cls)} if cls is not ArgumentGroup else {}  # type: ignore[arg-type]
        return inherited + [
            GroupedOption(
                [name, *field.metadata[_DECLARATION][0]],
                group=cls,
                unset=field.default,
                **field.metadata[_DECLARATION][1],
            )
            for name, field in own_fields.items()
        ]


def option(*names: str, **attributes: Any) -> Any:
    """Declare a field of a group, with the names and arguments of `click.option`."""
    nothing = () if attributes.get("multiple") else False if attributes.get("is_flag") else None
    return field(default=attributes.get("default", nothing), metadata={_DECLARATION: (names, attributes)}, kw_only=True)


def take_groups(function: Callable[..., Any]) -> tuple[Callable[..., Any], list[click.Parameter]]:
    """Return a function of single options, which calls a function of groups, and these options.

    Args:
        function: the function of a command; parameters that are annotated with a group are filled by it.
    """
    groups = {
        name: kind
        for name, kind in get_type_hints(function).items()
        if isinstance(kind, type) and issubclass(kind, ArgumentGroup)
    }

    @functools.wraps(function)
    def of_options(*args: Any, **values: Any) -> Any:
        filled = {
            name: kind(**{field.name: values.pop(field.name) for field in fields(kind)})  # type: ignore[arg-type]
            for name, kind in groups.items()
        }
        return function(*args, **filled, **values)

    return of_options, [option for kind in groups.values() for option in kind.options()]
