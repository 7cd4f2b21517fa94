"""The table of options that can't be combined or need another one: each row is refused, and nothing else is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from cellbridge.parity.cli import main
from cellbridge.parity.commands.arguments import refusing
from cellbridge.parity.commands.arguments.combinations import CIRCUMSTANCES, COMBINATIONS, Excludes, Needs
from cellbridge.parity.commands.arguments.refusing import has, option_of, refuse_combinations, rows_of
from cellbridge.runtime.errors import UsageError

Row = Excludes | Needs

VALUES = {
    "--accumulate": "2",
    "--atol": "0.1",
    "--budget": "loss 1%",
    "--case-memory": "1GB",
    "--case-seconds": "9",
    "--clip-norm": "1",
    "--diagnose-seconds": "9",
    "--loss-scale": "dynamic",
    "--lr": "0.1",
    "--memory": "1GB",
    "--optimizer": "sgd",
    "--ranks": "2",
    "--rerun": "all",
    "--rtol": "0.1",
    "--shape": "x=1,2",
    "--steps": "2",
    "--train-steps": "2",
    "--weight-decay": "0.1",
    "--workers": "2",
}
"""Values of options that take more than any text."""


def words_of(command: click.Command, term: str) -> list[str]:
    """Return an option with a value."""
    if term == "--diagnose-seconds 0":
        return term.split()
    if term in CIRCUMSTANCES:
        return []
    return [term] if option_of(command, term).is_flag else [term, VALUES.get(term, "a.file")]


def command_line(command: click.Command, terms: Sequence[str], unmet: Sequence[str] = ()) -> list[str]:
    """Return the words of a command with options, and with what these need besides `unmet`."""
    needed = [
        *terms,
        *(option.opts[0] for option in command.params if isinstance(option, click.Option) and option.required),
    ]
    for row in [row for row in rows_of(command) if isinstance(row, Needs)] * 2:
        is_met = any(term in needed for term in row.others) or set(row.others) <= set(unmet)
        if not is_met and ("parity export" in row.options or any(term in needed for term in row.options)):
            needed.append(row.others[0])
    is_onnx = "an ONNX file" in needed or "a model file" in unmet
    models = ["a.onnx", "b.onnx"] if is_onnx else ["a.py", "b.py"]
    if command.name not in ("compare", "judge", "checkpoint") and "several MODELs" not in needed:
        del models[1]
    return [*models, *(word for term in needed for word in words_of(command, term))]


def pairs() -> Iterator[tuple[str, Row, str, str]]:
    """Yield each command, row, and pair of its options."""
    for name, command in main.commands.items():
        for row in rows_of(command):
            others = [" or ".join(row.others)] if isinstance(row, Needs) else row.others
            yield from (
                (name, row, option, partner) for option in row.options for partner in others if option != partner
            )


PAIRS = list(pairs())


def test_the_table_is_walked() -> None:
    assert len(PAIRS) > 100


@pytest.mark.parametrize(("name", "row", "option", "partner"), PAIRS, ids=[f"{a} {b}, {c}" for a, _, b, c in PAIRS])
def test_each_row_is_refused_with_its_reason(
    name: str, row: Row, option: str, partner: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    command = main.commands[name]
    if isinstance(row, Needs):
        words = command_line(command, [option], row.others)
    else:
        words = command_line(command, [option, partner])
        for alone in (option, partner):
            assert row.reason not in refusal(name, command_line(command, [alone]))
    result = CliRunner().invoke(main, [name, *words])
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("error: ") or partner == "--verbose"  # with which the traceback stands before it
    assert row.reason in result.stderr
    for term in (option, *([] if isinstance(row, Needs) else [partner])):
        shown = term if term in CIRCUMSTANCES or term in option_of(command, term).secondary_opts else None
        assert (shown or option_of(command, term).opts[0]) in result.stderr
    assert refusal(name, words) in result.stderr
    assert list(tmp_path.iterdir()) == []


def refusal(name: str, words: Sequence[str]) -> str:
    """Return the message of a refused command line; empty if it is obeyed."""
    with main.commands[name].make_context(name, list(words)) as context:
        try:
            refuse_combinations(context)
        except UsageError as error:
            return str(error)
    return ""


def unknown_terms(table: Sequence[Row]) -> list[str]:
    """Return what rows name that no command has for which the row holds."""
    commands = main.commands.values()
    return [
        term
        for row in table
        for term in (*row.options, *row.others)
        if not any(
            has(command, term) and any(has(command, other_term) for other_term in rest)
            for command in commands
            for rest in ([row.others] if term in row.options else [row.options])
        )
    ]


def test_every_option_of_the_table_exists() -> None:
    assert unknown_terms(COMBINATIONS) == []


def test_an_option_that_is_gone_is_found() -> None:
    rows = [Excludes(("--html",), ("--gone",), "a reason"), Needs(("--repro",), ("--against",), "a reason")]
    assert unknown_terms(rows) == ["--html", "--gone"]


def test_a_planted_row_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    assert refusal("run", ["a.py", "--strict", "--fail-fast"]) == ""
    monkeypatch.setattr(refusing, "COMBINATIONS", (Excludes(("--strict",), ("--fail-fast",), "planted"),))
    assert refusal("run", ["a.py", "--strict", "--fail-fast"]) == "--strict can't be combined with --fail-fast: planted"
    assert refusal("run", ["a.py", "--strict", "--html", "x"]) == ""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("export a.py", "parity export needs -o FILE or --bundle FOLDER: it writes a file or a folder"),
        (
            "export a.py -o b --fp16 --int8 --int4",
            "--fp16, --int8 and --int4 can't be combined: each chooses the number format of the file",
        ),
        (
            "run a.py --lr 1 --optimizer sgd",
            "--optimizer and --lr need --train-steps N: otherwise nothing is trained",
        ),
        ("run a.py --shape x=1", "--shape needs an ONNX file: a model file defines inputs() itself"),
        (
            "run a.onnx --eval",
            "--eval needs a model file: there is no torch module in an ONNX file",
        ),
        (
            "run a.py --train-steps 2 --no-probe --only x",
            "--train-steps can't be combined with --only and --no-probe: whole steps of training are compared",
        ),
    ],
)
def test_messages_are_sentences(words: str, message: str) -> None:
    name, *rest = words.split()
    assert refusal(name, rest) == message


# --- options of pyproject.toml ------------------------------------------------------------------------------------


def options_of_file(name: str, words: Sequence[str], **file: object) -> tuple[list[str], dict[str, object]]:
    """Return the sentences on options of pyproject.toml without effect, and the values that the command gets."""
    with main.commands[name].make_context(name, list(words), default_map=file) as context:
        return refuse_combinations(context), context.params


def test_options_of_the_file_give_way_to_the_command_line() -> None:
    sentences, values = options_of_file("run", ["a.py", "--train-steps", "2"], only=["x"], seed=3)
    assert sentences == ["--only has no effect with --train-steps: whole steps of training are compared"]
    assert (values["only"], values["seed"]) == ((), 3)


@pytest.mark.parametrize("train", [True, False])
def test_options_of_the_file_give_way_to_what_the_model_is(train: bool) -> None:
    sentences, values = options_of_file("run", ["a.onnx"], train=train)
    mode = "--train" if train else "--eval"
    assert sentences == [f"{mode} has no effect without a model file: there is no torch module in an ONNX file"]
    assert values["train"] is None
    assert options_of_file("run", ["a.py"], train=train)[1]["train"] is train
    sentences, values = options_of_file("compare", ["a.py", "b.py"], inputs="x.npz")
    assert sentences == ["--inputs has no effect without an ONNX file: a model file defines inputs() itself"]


def test_an_option_of_the_file_that_holds_for_some_models_is_refused() -> None:
    with pytest.raises(UsageError, match="--train needs a model file"):
        options_of_file("run", ["a.py", "b.onnx"], train=True)


def test_options_of_the_file_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(UsageError, match="--inputs can't be combined with --shape"):
        options_of_file("run", ["a.onnx"], inputs="x.npz", shapes=["x=1"])


def test_an_option_of_the_file_without_effect_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text("[tool.parity]\nseed = 3\ntrain = true\n")
    lines = CliRunner().invoke(main, ["run", "absent.onnx"]).stderr.splitlines()
    assert lines[:2] == [
        "from pyproject.toml: --seed=3",
        "from pyproject.toml: --train has no effect without a model file: there is no torch module in an ONNX file",
    ]
