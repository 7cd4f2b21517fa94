"""Groups of options: what `-h` shows of them, and what commands get."""

from __future__ import annotations

import re
from dataclasses import dataclass

import click
import pytest
from click.testing import CliRunner

from cellbridge.parity.cli import COMMANDS, main
from cellbridge.parity.commands.arguments.declaring import ArgumentGroup, GroupedOption, option
from cellbridge.parity.commands.arguments.groups import Colors, ReportFiles, Selection, Timeout
from cellbridge.parity.commands.command import command
from cellbridge.parity.report.formats import FORMATS


def help_of(*words: str) -> str:
    result = CliRunner().invoke(main, [*words, "-h"], prog_name="parity", terminal_width=80)
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    return result.stdout


def headings(text: str) -> list[str]:
    return re.findall(r"^(\w[\w ]*):$", text, re.MULTILINE)


@pytest.mark.parametrize("name", ["", *main.commands])
def test_help_fits_into_80_columns_and_has_two_names(name: str) -> None:
    words = [name] if name else []
    text = help_of(*words)
    assert text == CliRunner().invoke(main, [*words, "--help"], prog_name="parity", terminal_width=80).stdout
    assert max(map(len, text.splitlines())) <= 80
    assert not re.search(r"\w-\n", text), "a word with a hyphen is broken"
    assert "Exit codes:" in text


def test_the_first_page_lists_every_command_under_a_title() -> None:
    text = help_of()
    assert headings(text) == [*COMMANDS, "Options"]
    assert {listed_command.name for commands in COMMANDS.values() for listed_command in commands} == {*main.commands}
    for name in main.commands:
        assert re.search(rf"^  {name} +\w.*[^.]\.$", text, re.MULTILINE), f"{name} is on more than one line"


@pytest.mark.parametrize("name", main.commands)
def test_options_are_listed_under_the_titles_of_their_groups(name: str) -> None:
    text = help_of(name)
    titles = headings(text)
    assert titles[-2:] == ["Limits", "Other"]
    assert len(titles) == len({*titles})
    for parameter in main.commands[name].params:
        if isinstance(parameter, click.Argument):
            continue
        assert isinstance(parameter, GroupedOption), f"{parameter.name} is declared in another way"
        assert parameter.help, parameter.name
        section = text.partition(f"\n{parameter.group.title}:\n")[2]
        assert re.match(rf"(?:(?!\n\w).)*\n  (?:-\w, )?{parameter.opts[-1]}\b", "\n" + section, re.DOTALL), (
            parameter.name
        )


def test_what_matters_first_is_listed_first() -> None:
    assert headings(help_of("run"))[:2] == ["Judge", "Inputs"]
    assert headings(help_of("export"))[0] == "Write"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("run a.py --train --eval", "--train and --eval can't be combined"),
        ("run a.py --no-probe --probe", "--probe and --no-probe can't be combined"),
        ("record a.py -o r --eval --train", "--train and --eval can't be combined"),
        ("sweep a.py -- --train --eval", "--train and --eval can't be combined"),
    ],
)
def test_an_option_and_its_opposite_are_refused(words: str, message: str) -> None:
    result = CliRunner().invoke(main, words.split())
    assert result.exit_code == 2
    assert message in result.stderr


def test_an_option_may_be_said_twice() -> None:
    with main.commands["run"].make_context("run", ["a.py", "--eval", "--eval"]) as context:
        assert context.params["train"] is False


def test_every_format_of_reports_has_an_option() -> None:
    assert {*ReportFiles().files} == {*FORMATS}
    options = {option.opts[0]: option for option in ReportFiles.options() if isinstance(option, click.Option)}
    assert {name: options[f"--{name}"].help for name in FORMATS} == {name: form.help for name, form in FORMATS.items()}


@dataclass(frozen=True)
class Colours(Selection):
    """A group with an inherited one."""

    title = "Colours"
    red: bool = option("--red/--blue", default=None, help="The colour.")
    shades: int = option("--shades", type=int, default=3, help="How many.")


def test_a_command_gets_groups() -> None:
    got: list[object] = []

    @command("paint")
    @click.argument("wall")
    def paint(wall: str, colours: Colours) -> None:
        """Paint."""
        got.extend([wall, colours])

    CliRunner().invoke(paint, ["north", "--blue", "--only", "a", "--only", "b"], catch_exceptions=False)
    CliRunner().invoke(paint, ["south"], catch_exceptions=False)
    assert got == ["north", Colours(only=("a", "b"), red=False), "south", Colours()]
    assert got[-1] == Colours(only=(), skip=(), red=None, shades=3)
    own = [option for option in paint.params if isinstance(option, GroupedOption)]
    names = [option.name for option in own if option.group not in (Colors, Timeout)]  # which every command has
    assert names == ["only", "skip", "red", "shades"]
    assert issubclass(Colours, ArgumentGroup)
