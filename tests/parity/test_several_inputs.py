"""`inputs()` that yields several."""

from __future__ import annotations

import itertools
import json
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from torch import nn

from cellbridge import converter, parity
from cellbridge.parity.cli import main
from cellbridge.parity.inputs.model_file import load
from cellbridge.parity.jobs.training.batches import example_batches
from cellbridge.parity.results.comparison import NOT_REACHED
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
    single, many = parity.check(module, first), parity.check(module, first, more_inputs=[(x, {}) for x in others])
    assert many.ok
    assert len(many.cells[""].comparisons) == len(single.cells[""].comparisons)
    worst = {(c.side, c.check, c.feeding, c.kind, c.tensor): c.ratio for c in single.cells[""].comparisons}
    for c in many.cells[""].comparisons:
        assert c.ratio >= worst[c.side, c.check, c.feeding, c.kind, c.tensor]


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
    report_of_second = parity.check(nn.Linear(4, 4), on(2)[0])
    report.cells[""].presence, report.cells[""].comparisons = NOT_REACHED, []
    report.join_input(report_of_second)
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


def test_compare_judges_all_inputs() -> None:
    first, *others = on(1, 9, 2)
    report = parity.compare(nn.Tanh(), nn.Hardtanh(), first, more_inputs=((x, {}) for x in others), grads=False)
    assert (report.inputs, report.to_dict()["worst_input"]) == (3, 1)
    module = nn.Sequential(Switch())
    program = converter.from_torch(module, first)
    assert parity.compare(module, program, first).ok
    report = parity.compare(module, program, first, more_inputs=[(x, {}) for x in others])
    assert not report.ok
    assert report.to_dict()["worst_input"] == 2


# --- training --------------------------------------------------------------------------------------------------------


class Takes(nn.Module):
    """Called by keyword, with a flag."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.head = nn.Linear(4, 2)

    def forward(self, x: torch.Tensor, mask: torch.Tensor, twice: bool = False) -> torch.Tensor:
        y = self.head(x) * mask[:, None]
        return y * 2 if twice else y


def keywords(seed: int, rows: int = 3) -> dict[str, object]:
    generator = torch.Generator().manual_seed(seed)
    return {"x": torch.randn(rows, 4, generator=generator), "mask": torch.rand(rows, generator=generator)}


def losses(report: parity.TrainingReport) -> list[float]:
    losses_by_call = {c.call: c.truth for c in report.comparisons if c.kind == "loss" and c.side == "interpreter"}
    assert None not in losses_by_call.values()
    return [float(losses_by_call[call] or 0.0) for call in sorted(losses_by_call)]


@pytest.mark.slow
def test_batches_of_a_training_are_all_inputs() -> None:
    backwards = dict(reversed(keywords(2).items()))
    more = [((), backwards), ((), keywords(3))]
    report = parity.check_training(Takes(), (), keywords(1), more_inputs=more, steps=3, lr=0.0)
    assert report.ok, str(report)
    alone = [losses(parity.check_training(Takes(), (), keywords(n), steps=1, lr=0.0))[0] for n in (1, 2, 3)]
    assert losses(report) == pytest.approx(alone)
    assert any("trained on all 3 inputs" in note for note in report.notes)


def test_batches_beyond_the_inputs_are_made_of_them_in_turn() -> None:
    given = [((torch.full((2,), 1.0),), {}), ((torch.full((2,), 100.0),), {})]
    batches = [float(args[0][0]) for args, _ in example_batches(given, 5, seed=0)]
    assert batches[:2] == [1.0, 100.0]
    assert 0.5 <= batches[2] < 1
    assert 50 <= batches[3] < 100
    assert 0.5 <= batches[4] < 1


def test_inputs_that_no_step_takes_are_noted() -> None:
    def endless() -> Iterator[tuple[tuple[()], dict[str, object]]]:
        for seed in itertools.count(2):
            yield (), keywords(seed)

    report = parity.check_training(Takes(), (), keywords(1), more_inputs=endless(), steps=2)
    assert report.ok
    assert any("only the first 2 inputs were trained on" in note for note in report.notes)


def test_batches_of_other_sizes_where_axes_may_vary() -> None:
    rows = torch.export.Dim("rows")
    more = [((), keywords(2, rows=5))]
    dynamic = {"x": {0: rows}, "mask": {0: rows}}
    assert parity.check_training(Takes(), (), keywords(1), more_inputs=more, steps=2, dynamic_shapes=dynamic).ok


@pytest.mark.parametrize(
    ("keyword_arguments", "message"),
    [
        ({"x": torch.ones(3, 4)}, r"needed .*'mask'.*, as in the first input; given \['kwargs'\]\['x'\]$"),
        (keywords(2, rows=5), "needed size 3, given 5; `dynamic_shapes` leaves a size open"),
        (keywords(2) | {"x": torch.ones(3, 4, dtype=torch.int64)}, r"needed float32\[3, 4\], given int64"),
        (keywords(2) | {"twice": True}, r"given .*'twice'"),
    ],
)
def test_an_input_that_cannot_be_trained_on_is_named(keyword_arguments: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match="input number 2 of the model can't be trained on: ") as caught:
        parity.check_training(Takes(), (), keywords(1), more_inputs=[((), keyword_arguments)], steps=2)
    assert re.search(message, str(caught.value)), str(caught.value)


def test_another_flag_is_no_batch_of_the_same_training() -> None:
    first, second = keywords(1) | {"twice": True}, keywords(2) | {"twice": False}
    with pytest.raises(UsageError, match=r"'twice'\] is False, and True in the first input"):
        parity.check_training(Takes(), (), first, more_inputs=[((), second)], steps=2)


# --- commands --------------------------------------------------------------------------------------------------------


def test_a_model_file_trains_on_all_that_it_yields(tmp_path: Path) -> None:
    file = tmp_path / "several.py"
    file.write_text(
        "import torch\nmodel = torch.nn.Linear(4, 2)\n"
        "def inputs():\n    for n in range(1, 4):\n        yield (torch.full((2, 4), float(n)),)\n"
    )
    for steps, note in (("3", "trained on all 3 inputs"), ("2", "only the first 2 inputs were trained on")):
        done = CliRunner().invoke(main, ["run", str(file), "--train-steps", steps])
        assert done.exit_code == 0, done.output
        assert note in " ".join(done.output.split())


@pytest.mark.slow
def test_an_onnx_file_is_compared_with_a_model_file_on_all_inputs(tmp_path: Path) -> None:
    file, onnx_file = tmp_path / "several.py", tmp_path / "several.onnx"
    text = textwrap.dedent(MODEL).replace("return nn.Sequential(nn.Identity(), Odd())", "return Odd()")
    file.write_text(text.replace("LARGEST", "2.0"))
    assert CliRunner().invoke(main, ["export", str(file), "-o", str(onnx_file), "--no-probe"]).exit_code == 0
    done = CliRunner().invoke(main, ["compare", str(file), str(onnx_file), "--no-probe"])
    assert done.exit_code == 0, done.output
    file.write_text(text.replace("LARGEST", "9.0"))
    done = CliRunner().invoke(
        main, ["compare", f"{file}:model", str(onnx_file), "--no-probe", "--json", str(tmp_path / "r.json")]
    )
    assert done.exit_code == 1, done.output
    assert "compared on 3 inputs; the worst is number 2" in " ".join(done.output.split())
    assert json.loads((tmp_path / "r.json").read_text())["worst_input"] == 2


def test_what_is_converted_is_the_call_with_the_first_inputs(tmp_path: Path) -> None:
    file = tmp_path / "several.py"
    file.write_text(
        "import torch\nmodel = torch.nn.Linear(4, 2)\n"
        "def inputs():\n    yield (torch.ones(7, 4),)\n    raise ValueError('no other is made')\n"
    )
    done = CliRunner().invoke(main, ["inspect", "--ir", str(file)])
    assert done.exit_code == 0, done.output
    assert "float32[7, 4]" in done.output
    done = CliRunner().invoke(main, ["export", str(file), "-o", str(tmp_path / "x.onnx")])
    assert done.exit_code == 2, "it is judged on all of them"
    assert "raised ValueError when inputs() was to yield number 2" in done.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["MODEL", "none.onnx"], "no such file: none.onnx"),
        (["MODEL", "MODEL", "--shape", "x=1,2"], "--shape needs an ONNX file"),
        (
            ["MODEL", "some.onnx", "--shape", "x=1,2"],
            "--shape needs an ONNX file",
        ),
        (["some.onnx", "MODEL"], "exchange them: parity compare"),
    ],
)
def test_compare_says_which_files_it_takes(tmp_path: Path, arguments: list[str], message: str) -> None:
    file = tmp_path / "several.py"
    file.write_text("import torch\nmodel, inputs = torch.nn.Tanh(), (torch.ones(2, 2),)\n")
    (tmp_path / "some.onnx").touch()
    paths = {"MODEL": str(file), "some.onnx": str(tmp_path / "some.onnx")}
    done = CliRunner().invoke(main, ["compare", *(paths.get(a, a) for a in arguments)])
    assert done.exit_code == 2
    assert message in " ".join(done.output.split())
