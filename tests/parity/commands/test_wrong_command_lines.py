"""What a wrong command line, or something that is no network, gets: one message in one spelling."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
import torch
from click.testing import CliRunner
from torch import nn

from cellbridge import parity
from cellbridge.parity.cli import main
from cellbridge.runtime.errors import UsageError


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (["run", "--trian", "x.py"], "error: no such option: --trian; did you mean --train?\n  parity run -h shows"),
        (["run", "--qqqq", "x.py"], "error: no such option: --qqqq\n  parity run -h shows"),
        (["rnu", "x.py"], "error: no such command 'rnu'; did you mean run?\n  parity -h shows"),
        (["run"], "error: missing argument 'MODEL...'\n  parity run -h shows"),
        (["run", "x.py", "--dtype", "float8"], "error: invalid value for '--dtype': 'float8' is not one of"),
        (["compare", "a", "b", "c"], "error: unexpected argument: c\n  parity compare -h shows"),
        (["sweep", "nothere/"], "error: no such folder: nothere/"),
    ],
)
def test_wrong_command_lines(line: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As all other errors: `error:`, what was wrong, and what to do; exit code 2, and no file."""
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, line, prog_name="parity")
    assert result.exit_code == 2
    assert result.output.startswith(message)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (
            "model = torch.nn.Linear",
            "is the class Linear, which needs arguments: .*what to do: write .*def model.*: return Linear",
        ),
        ("model = lambda x: x", "it is model.x.\n.*if it is the network itself, write a torch.nn.Module"),
        ("def model(width): return torch.nn.Linear(width, 1)", "give its parameters default values"),
    ],
)
def test_models_that_are_called_wrongly(source: str, words: str, tmp_path: Path) -> None:
    """The message says what `model` is, and what to write."""
    (tmp_path / "network.py").write_text(f"import torch\n{source}\ninputs = (torch.randn(2, 3),)\n")
    result = CliRunner().invoke(main, ["run", str(tmp_path / "network.py")])
    assert result.exit_code == 2
    with pytest.raises(UsageError, match=f"(?s){words}"):
        raise UsageError(result.output)


def test_inputs_with_nan_are_named(tmp_path: Path) -> None:
    """The network isn't blamed for what it is given."""
    (tmp_path / "network.py").write_text(
        "import torch\nmodel = torch.nn.Linear(3, 2)\ninputs = (torch.full((2, 3), float('nan')),)\n"
    )
    result = CliRunner().invoke(main, ["run", str(tmp_path / "network.py")])
    assert result.exit_code == 2
    assert "the inputs contain NaN (input)" in result.output


@pytest.mark.parametrize(
    ("network", "words"),
    [
        (nn.Linear, r"given the class Linear\n  what to do: give an instance, Linear\(\.\.\.\)"),
        (lambda x: x, r"given function\n  what to do: give a torch\.nn\.Module whose forward calls it"),
    ],
)
def test_what_is_no_module(network: Callable[..., Any], words: str) -> None:
    """In Python, too."""
    with pytest.raises(UsageError, match=words):
        parity.check(network, (torch.randn(2, 3),))


def test_parity_alone_shows_its_help() -> None:
    result = CliRunner().invoke(main, [])
    assert "To begin with:" in result.output
    assert result.exit_code == 2


def test_colors_where_the_command_is_wrong_itself() -> None:
    result = CliRunner().invoke(main, ["--color", "never", "nosuch"], color=True)
    assert result.output.startswith("error: no such option: --color\n")


def test_check_takes_a_tensor_alone() -> None:
    """As `compare` does."""
    assert parity.check(nn.Linear(3, 2), torch.randn(2, 3)).ok


@pytest.mark.parametrize("wrong", ["nothere.py", "--nosuch"])  # after and before the options are parsed
@pytest.mark.parametrize(
    ("options", "variables", "is_colored"),
    [
        ([], {}, False),
        (["--color", "always"], {}, True),
        (["--color", "always"], {"NO_COLOR": "1"}, True),
        (["--color", "never"], {"FORCE_COLOR": "1"}, False),
        (["--color", "auto"], {"FORCE_COLOR": "1"}, True),
        ([], {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
    ],
)
def test_colors(
    options: list[str], variables: dict[str, str], is_colored: bool, wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Errors obey --color, NO_COLOR and FORCE_COLOR, in this order; the variables are as before afterwards."""
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    result = CliRunner().invoke(main, ["run", wrong, *options], color=True if is_colored else None)
    assert ("\x1b[31m" in result.output) == is_colored
    assert "error: " in click.unstyle(result.output)
    assert {name: os.environ[name] for name in ("NO_COLOR", "FORCE_COLOR") if name in os.environ} == variables
