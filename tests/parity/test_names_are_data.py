"""Names are data: none of them runs code, writes files elsewhere, or escapes from a text."""

from __future__ import annotations

import ast
import contextlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import onnx
import pytest
import torch
from click.testing import CliRunner, Result
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from cellbridge import converter, runtime
from cellbridge.parity.cli import main
from cellbridge.runtime.errors import CellbridgeError
from cellbridge.runtime.visible import MAX_LENGTH, encodable_name, shorten_names, visible_name, visible_text
from tests.converter.programs import two_cells
from tests.parity.hostile import FORGED, LONE, OWNED, PAYLOADS, names, onnx_model, renamed_program

slowly = settings(
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # shrinking such models takes minutes
    derandomize=True,
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


def different(data: st.DataObject) -> Callable[[], str]:
    """Draws names, none twice."""
    earlier_names: set[str] = set()

    def name() -> str:
        sampled = data.draw(names)
        while sampled in earlier_names:
            sampled += "_"
        earlier_names.add(sampled)
        return sampled

    return name


@contextlib.contextmanager
def nothing_else(folder: Path, *allowed: str) -> Iterator[None]:
    """Within the context, no file is written but those that were asked for."""
    yield
    files = {file.relative_to(folder.parent).as_posix() for file in folder.parent.rglob("*") if file.is_file()}
    assert files <= {f"{folder.name}/{file}" for file in allowed}
    assert not os.path.exists(f"/tmp/{OWNED}")


def require_tame(text: str) -> None:
    """No character acts on the terminal, and no line is forged."""
    assert all(character.isprintable() or character == "\n" for character in text), ascii(text)
    assert not any(line.lstrip().startswith(FORGED) for line in text.split("\n")), text


def parity(*arguments: str) -> Result:
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code in (0, 1, 2, 3), (result.exit_code, result.output)
    assert isinstance(result.exception, SystemExit | None)
    require_tame(result.stdout)
    require_tame(result.stderr)
    return result


def require_plain_source(text: str) -> None:
    """The source defines classes and functions, and does nothing else when it is imported."""
    tree = ast.parse(text)
    docstring, *others = tree.body
    assert isinstance(docstring, ast.Expr)
    assert isinstance(docstring.value, ast.Constant)
    assert all(
        isinstance(statement, ast.Import | ast.ImportFrom | ast.ClassDef | ast.FunctionDef) for statement in others
    )
    called = [node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    assert not {"__import__", "open", "eval", "exec"} & set(called)
    imported = [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    assert set(imported) <= {"math", "cellbridge.runtime", "mindspore"}
    assert all(character.isprintable() or character == "\n" for character in text)


def try_all(program: Any, folder: Path) -> None:
    """Everything that is written of a program."""
    require_tame(str(program))
    require_tame(repr(program))
    for target in ("cellbridge", "mindspore"):
        with contextlib.suppress(CellbridgeError):
            require_plain_source(converter.to_cell_source(program, target))
    for write in (
        lambda: program.save(folder / "again.cell"),
        lambda: converter.to_onnx(program, folder / "again.onnx"),
        lambda: converter.to_cell_checkpoint(program, folder / "again.ckpt"),
    ):
        try:
            write()
        except CellbridgeError as error:
            require_tame(str(error))
    if (folder / "again.cell").exists():
        runtime.load(folder / "again.cell")
    if (folder / "again.onnx").exists():
        onnx.load(folder / "again.onnx")


WRITTEN = ("m.onnx", "m.cell", "plain.cell", "r.json", "r.xml", "again.cell", "again.onnx", "again.ckpt")


@given(st.data())
@settings(slowly, max_examples=25)
def test_onnx_files_are_inspected(folder: Path, data: st.DataObject) -> None:
    with nothing_else(folder, *WRITTEN):
        (folder / "m.onnx").write_bytes(onnx_model(different(data)).SerializeToString())
        parity("inspect", "m.onnx")
        parity("inspect", "m.onnx", "--ir")
        try:
            program = converter.from_onnx(folder / "m.onnx")
        except CellbridgeError as error:
            require_tame(str(error))
        else:
            try_all(program, folder)


@pytest.mark.slow
@given(st.data())
@settings(slowly, max_examples=6)
def test_onnx_files_are_judged(folder: Path, data: st.DataObject) -> None:
    with nothing_else(folder, *WRITTEN):
        for name in ("r.json", "r.xml"):
            (folder / name).unlink(missing_ok=True)
        (folder / "m.onnx").write_bytes(onnx_model(different(data)).SerializeToString())
        result = parity("run", "m.onnx", "--json", "r.json", "--junit", "r.xml", "--no-grad")
        assert (folder / "r.json").exists() == (result.exit_code in (0, 1))
        if (folder / "r.json").exists():
            json.loads((folder / "r.json").read_bytes())
            (folder / "r.xml").read_bytes().decode()
            ElementTree.parse(folder / "r.xml")
        parity("compare", "m.onnx", "m.onnx", "--no-grad")


@given(st.data())
@settings(slowly, max_examples=15)
def test_saved_programs(folder: Path, data: st.DataObject) -> None:
    two_cells().save(folder / "plain.cell")
    with nothing_else(folder, *WRITTEN):
        renamed_program(folder / "plain.cell", folder / "m.cell", different(data))
        try:
            program = runtime.load(folder / "m.cell")
        except CellbridgeError as error:
            require_tame(str(error))
        else:
            try_all(program, folder)


class Keyed(torch.nn.Module):
    """Takes and gives dicts with the keys, and has parameters, buffers and modules of the names."""

    def __init__(self, given: list[str]) -> None:
        super().__init__()
        self.given = given
        for i, name in enumerate(given):
            with contextlib.suppress(KeyError):  # torch itself refuses it
                if i % 3 == 0:
                    self.register_parameter(name, torch.nn.Parameter(torch.ones(2)))
                elif i % 3 == 1:
                    self.register_buffer(name, torch.ones(2))
                else:
                    self.add_module(name, torch.nn.Linear(2, 2))

    def forward(self, x: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        total = sum(self._parameters.values()) + sum(self._buffers.values())
        for module in self._modules.values():
            total = module(total)
        return {name: value + total for name, value in x.items()}


@pytest.mark.slow
@given(st.lists(names, min_size=6, max_size=6, unique=True))
@settings(slowly, max_examples=15)
def test_torch_modules(folder: Path, given_names: list[str]) -> None:
    with nothing_else(folder, *WRITTEN):
        try:
            module = Keyed(given_names)
        except (TypeError, ValueError, AttributeError):
            return
        try:
            program = converter.from_torch(module, ({name: torch.ones(2) for name in given_names},))
        except CellbridgeError as error:
            require_tame(str(error))
        else:
            try_all(program, folder)


@given(st.lists(names, min_size=3, max_size=3, unique=True))
@settings(slowly, max_examples=25)
def test_checkpoints(folder: Path, given_names: list[str]) -> None:
    files = ("w.pt", "w.safetensors", "w.ckpt", "back.pt", "map.toml")
    with nothing_else(folder, *files):
        for file in files:
            (folder / file).unlink(missing_ok=True)
        torch.save({name: torch.ones(2, 3) for name in given_names}, folder / "w.pt")
        first = parity("weights", "w.pt", "-o", "w.ckpt", "-v")
        if first.exit_code == 0:
            parity("weights", "w.ckpt", "-o", "back.pt", "-v")
        lines = [f"{json.dumps(name)} = {{ drop = true }}" for name in given_names[1:]]
        (folder / "map.toml").write_text("\n".join(lines), encoding="utf-8", errors="backslashreplace")
        parity("weights", "w.pt", "-o", "w.ckpt", "-v", "--map", "map.toml")


def test_lone_surrogates_are_written_as_numbers(folder: Path) -> None:
    """ONNX, JSON and XML can't hold them; they may come from torch."""
    module = torch.nn.Linear(2, 2)
    program = converter.from_torch(module, (torch.ones(1, 2),))
    (_, parameter), *others = program.parameters.items()
    program = program.replace(parameters={LONE: parameter, **dict(others)})
    model = converter.to_onnx(program)
    assert encodable_name(LONE) in {tensor.name for tensor in model.graph.initializer} | {
        name.removesuffix(".transpose") for name in (tensor.name for tensor in model.graph.initializer)
    }
    require_tame(str(program))
    with pytest.raises(CellbridgeError, match="isn't valid Unicode"):
        program.save(folder / "m.cell")
    assert not list(folder.iterdir())


@pytest.mark.parametrize("payload", PAYLOADS)
def test_what_is_visible_is_one_line_and_printable(payload: str) -> None:
    assert visible_name(payload).isprintable()
    require_tame(visible_text("a\n" + visible_name(payload)))
    assert visible_name("größe 名 ✓") == "größe 名 ✓"


def test_long_names_are_shortened_for_people_alone(folder: Path) -> None:
    name = "begin" + "n" * 10_000 + "end"
    text = "{ a = Relu(x) y = Neg(a) }"
    model = onnx.parser.parse_model(f'<ir_version: 9, opset_import: ["" : 20]> net (float[2] x) => (float[2] y) {text}')
    model.graph.name = name
    onnx.save(model, "long.onnx")
    for arguments in (("inspect", "--ir", "long.onnx"), ("run", "long.onnx", "--json", "long.json")):
        result = parity(*arguments)
        assert result.exit_code == 0, result.output
        assert max(map(len, result.output.splitlines())) < 1000
    assert name in Path("long.json").read_text()
    model.graph.node[0].op_type = name
    onnx.save(model, "long.onnx")
    result = parity("inspect", "long.onnx")
    assert result.exit_code == 3
    assert max(map(len, result.output.splitlines())) < 1000
    assert " more characters)…" in result.output
    assert shorten_names("a" * MAX_LENGTH + " b") == "a" * MAX_LENGTH + " b"


def test_the_check_finds_what_breaks_out() -> None:
    for text in ("\x1b[2J", "a\rb", "\u202e", f"x\n  {FORGED}"):
        with pytest.raises(AssertionError):
            require_tame(text)
    for source in ('"""x"""\nprint(1)\n', '"""x"""\nclass A:\n    x = __import__("os")\n', '"""x"""\nimport os\n'):
        with pytest.raises(AssertionError):
            require_plain_source(source)
