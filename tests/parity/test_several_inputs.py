"""`inputs()` that yields several."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from torch import nn

from cellbridge import parity
from cellbridge.parity.cli import main
from cellbridge.parity.model_file import load
from cellbridge.parity.results import NOT_REACHED
from cellbridge.runtime.errors import UsageError

MODEL = """
    import torch
    from torch import nn

    class Odd(nn.Module):
        def forward(self, x):
            return x * 2 if torch.compiler.is_compiling() or x.max() < 5 else x * 3

    def model():
        return nn.Sequential(nn.Identity(), Odd())

    def inputs():
        for largest in (1.0, LARGEST, 1.0):
            yield (torch.linspace(-1, largest, 8).reshape(2, 4),)
"""


class Switch(nn.Module):
    """Wrong by its derivative where a number is large."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2 if torch.compiler.is_compiling() or x.max() < 5 else x * 3


def on(*largest: float) -> list[tuple[torch.Tensor]]:
    return [(torch.linspace(-1, high, 8).reshape(2, 4),) for high in largest]


def test_the_verdict_is_over_all_inputs_and_the_worst_is_named() -> None:
    first, *others = on(1, 9, 2)
    module = nn.Sequential(nn.Identity(), Switch())
    report = parity.check(module, first, more_inputs=((x, {}) for x in others))
    assert not report.ok
    assert report.inputs == 3
    written = report.to_dict()
    assert (written["inputs"], written["worst_input"]) == (3, 2)
    failures = report.cells["1"].failures
    assert {c.input for c in failures} == {2}
    text = " ".join(str(report).split())
    assert "compared on 3 inputs; the worst is number 2 (" in text
    assert "isolated, on input 2" in text
    assert parity.check(module, first).ok


def test_a_report_doesnt_grow_with_the_number_of_inputs() -> None:
    first, *others = on(1, 2, 3, 4)
    module = nn.Linear(4, 4)
    one, many = parity.check(module, first), parity.check(module, first, more_inputs=[(x, {}) for x in others])
    assert many.ok
    assert len(many.cells[""].comparisons) == len(one.cells[""].comparisons)
    worst = {c.place: c.ratio for c in one.cells[""].comparisons}
    assert all(c.ratio >= worst[c.place] for c in many.cells[""].comparisons)


def test_inputs_are_made_one_after_the_other() -> None:
    alive: list[int] = []

    def more() -> object:
        for number, x in enumerate(on(2, 3, 4)):
            alive.append(number)
            yield x, {}
            if number == 0:
                raise UsageError("the next one is made later")

    with pytest.raises(UsageError, match="made later"):
        parity.check(nn.Linear(4, 4), on(1)[0], more_inputs=more())  # type: ignore[arg-type]
    assert alive == [0]


def test_a_cell_that_one_of_the_inputs_reaches_is_reached() -> None:
    report = parity.check(nn.Linear(4, 4), on(1)[0])
    other = parity.check(nn.Linear(4, 4), on(2)[0])
    report.cells[""].presence, report.cells[""].comparisons = NOT_REACHED, []
    report.join_input(other)
    assert report.cells[""].status == "pass"


def test_an_input_that_the_conversion_doesnt_take_is_named() -> None:
    with pytest.raises(UsageError, match="input number 2 of the model can't be judged"):
        parity.check(nn.Linear(4, 4), (torch.ones(2, 4),), more_inputs=[((torch.ones(3, 5),), {})])


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("yield from ()", "inputs\\(\\) yields nothing"),
        ("yield 3", "inputs\\(\\) must yield a tuple of arguments or a dict of keyword arguments, not an int"),
        ("raise ValueError('no')\n    yield", "raised ValueError when inputs\\(\\) was to yield number 1"),
    ],
)
def test_what_a_generator_does_wrong_is_one_message(tmp_path: Path, body: str, message: str) -> None:
    file = tmp_path / "wrong_inputs.py"
    file.write_text(f"import torch\nmodel = torch.nn.Linear(4, 4)\ndef inputs():\n    {body}\n")
    with pytest.raises(UsageError, match=message):
        load(str(file))


def test_a_model_file_yields_several(tmp_path: Path) -> None:
    file = tmp_path / "several.py"
    file.write_text(textwrap.dedent(MODEL).replace("LARGEST", "9.0"))
    done = CliRunner().invoke(main, ["run", str(file), "--json", str(tmp_path / "report.json")])
    assert done.exit_code == 1, done.output
    assert "compared on 3 inputs; the worst is number 2" in " ".join(done.output.split())
    assert json.loads((tmp_path / "report.json").read_text())["worst_input"] == 2
    file.write_text(textwrap.dedent(MODEL).replace("LARGEST", "2.0"))
    assert CliRunner().invoke(main, ["run", str(file)]).exit_code == 0
