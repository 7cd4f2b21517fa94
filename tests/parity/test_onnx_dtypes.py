"""Every dtype of ONNX through every command for files, with probes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from click.testing import CliRunner
from onnx import TensorProto, helper

from cellbridge import parity
from cellbridge.converter import from_onnx, to_torch
from cellbridge.parity.checking.onnx_files.check import check_onnx
from cellbridge.parity.checking.onnx_files.compare import compare_onnx
from cellbridge.parity.cli import main
from cellbridge.parity.report.report import Report
from cellbridge.runtime.errors import CellbridgeError, UsageError

DTYPES = [
    "FLOAT", "DOUBLE", "FLOAT16", "BFLOAT16", "INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64",
    "BOOL",
]  # fmt: skip
SHAPE = (2, 3)


def save(path: Path, nodes: list[onnx.NodeProto], given: int, returned: int) -> str:
    x = helper.make_tensor_value_info("x", given, SHAPE)
    y = helper.make_tensor_value_info("y", returned, SHAPE)
    graph = helper.make_graph(nodes, path.stem, [x], [y])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnx.save(model, path)
    return str(path)


def as_input(path: Path, dtype: int) -> str:
    """Computes in float32 from inputs of the dtype."""
    nodes = [helper.make_node("Cast", ["x"], ["f"], to=TensorProto.FLOAT), helper.make_node("Sin", ["f"], ["y"])]
    return save(path, nodes, dtype, TensorProto.FLOAT)


def as_output(path: Path, dtype: int) -> str:
    """Returns what it computes in float32 in the dtype."""
    nodes = [helper.make_node("Abs", ["x"], ["a"]), helper.make_node("Cast", ["a"], ["y"], to=dtype)]
    return save(path, nodes, TensorProto.FLOAT, dtype)


def inside(path: Path, dtype: int) -> str:
    """Has a part in the dtype."""
    nodes = [
        helper.make_node("Abs", ["x"], ["a"]),
        helper.make_node("Cast", ["a"], ["c"], to=dtype),
        helper.make_node("Cast", ["c"], ["y"], to=TensorProto.FLOAT),
    ]
    return save(path, nodes, TensorProto.FLOAT, TensorProto.FLOAT)


def throughout(path: Path, dtype: int) -> str:
    """Computes in the dtype."""
    op = "Xor" if dtype == TensorProto.BOOL else "Add"
    return save(path, [helper.make_node(op, ["x", "x"], ["y"])], dtype, dtype)


KINDS: tuple[Callable[[Path, int], str], ...] = (as_input, as_output, inside, throughout)
COMMANDS: dict[str, Callable[[str], Report]] = {
    "run": lambda path: check_onnx(path, probe=True),
    "compare": lambda path: compare_onnx(path, path, probe=True),
}


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.every(10)
def test_every_dtype(dtype: str, kind: Callable[[Path, int], str], command: str, tmp_path: Path) -> None:
    path = kind(tmp_path / "m.onnx", TensorProto.DataType.Value(dtype))
    if (dtype, kind) == ("BFLOAT16", throughout):
        with pytest.raises(UsageError, match="no kernel for these dtypes"):
            COMMANDS[command](path)
        return
    report = COMMANDS[command](path)
    assert not report.failed, str(report)


def given_to(kind: Callable[[Path, int], str], dtype: str) -> torch.Tensor:
    """The input of a file of this kind as a tensor."""
    if kind not in (as_input, throughout):
        return torch.linspace(-1, 1, 6).reshape(SHAPE)
    torch_dtype = {"FLOAT": torch.float32, "DOUBLE": torch.float64, "BOOL": torch.bool}.get(dtype)
    return (torch.arange(6).reshape(SHAPE) % 5).to(torch_dtype or getattr(torch, dtype.lower()))


MODULE_COMMANDS: dict[str, Callable[..., Report]] = {
    "compare with a file": lambda module, path, x, dtype: parity.compare(module, path, (x,), dtype=dtype),
    "export": lambda module, path, x, dtype: parity.check(module, (x,), save_onnx=f"{path}.export", probe=True),
}


@pytest.mark.parametrize("command", MODULE_COMMANDS)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.every(10)
def test_every_dtype_of_a_module(dtype: str, kind: Callable[[Path, int], str], command: str, tmp_path: Path) -> None:
    path = kind(tmp_path / "m.onnx", TensorProto.DataType.Value(dtype))
    module, x = to_torch(from_onnx(path)), given_to(kind, dtype)
    working = "float16" if (dtype, kind) == ("FLOAT16", throughout) else "float32"
    if kind == throughout and dtype in ("UINT16", "UINT32", "UINT64"):
        with pytest.raises(UsageError, match="doesn't run on its inputs"):  # torch has no kernel
            MODULE_COMMANDS[command](module, path, x, working)
        return
    if (dtype, kind, command) == ("BFLOAT16", throughout, "compare with a file"):
        with pytest.raises(CellbridgeError, match="Could not find an implementation for Add"):
            MODULE_COMMANDS[command](module, path, x, working)
        return
    report = MODULE_COMMANDS[command](module, path, x, working)
    assert not report.failed, str(report)


SMALL_FLOATS = ["FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ"]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("kind", [as_input, as_output, inside], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("dtype", SMALL_FLOATS)
@pytest.mark.every(4)
def test_every_float_of_8_bits(dtype: str, kind: Callable[[Path, int], str], command: str, tmp_path: Path) -> None:
    report = COMMANDS[command](kind(tmp_path / "m.onnx", TensorProto.DataType.Value(dtype)))
    assert not report.failed, str(report)


@pytest.mark.parametrize("dtype", SMALL_FLOATS)
def test_a_float_of_8_bits_is_written_in_an_opset_that_has_it(dtype: str, tmp_path: Path) -> None:
    module, x = to_torch(from_onnx(inside(tmp_path / "m.onnx", TensorProto.DataType.Value(dtype)))), torch.ones(SHAPE)
    report = parity.check(module, (x,), save_onnx=tmp_path / "out.onnx", grads=False)
    assert report.ok, str(report)
    assert onnx.load(tmp_path / "out.onnx").opset_import[0].version == 19


PACKED = ["INT4", "UINT4", "INT2", "UINT2"]


def packed(path: Path, dtype: int, *, out: bool, how: str = "Floor") -> str:
    """Makes whole numbers of 0 to 1 of less than 8 bits, and returns them in that dtype or in float32."""
    nodes = [
        helper.make_node("Sigmoid", ["x"], ["s"]),
        helper.make_node(how, ["s"], ["f"]),
        helper.make_node("Cast", ["f"], ["y" if out else "c"], to=dtype),
        *([] if out else [helper.make_node("Cast", ["c"], ["y"], to=TensorProto.FLOAT)]),
    ]
    path = Path(save(path, nodes, TensorProto.FLOAT, dtype if out else TensorProto.FLOAT))
    model = onnx.load(path)
    model.opset_import[0].version = 25
    model.ir_version = 11
    onnx.save(model, path)
    return str(path)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("out", [True, False])
@pytest.mark.parametrize("dtype", PACKED)
@pytest.mark.every(4)
def test_numbers_of_less_than_8_bits_are_judged(dtype: str, out: bool, command: str, tmp_path: Path) -> None:
    report = COMMANDS[command](packed(tmp_path / "m.onnx", TensorProto.DataType.Value(dtype), out=out))
    assert report.ok, str(report)


@pytest.mark.parametrize("out", [True, False])
def test_other_numbers_of_4_bits_fail(out: bool, tmp_path: Path) -> None:
    paths = [packed(tmp_path / f"{how}.onnx", TensorProto.INT4, out=out, how=how) for how in ("Floor", "Ceil")]
    assert compare_onnx(*paths).failed


@pytest.mark.causes
def test_a_kernel_that_rounds_to_4_bits_is_named(tmp_path: Path) -> None:
    """ONNX Runtime rounds to the nearest, where ONNX says that a cast rounds towards zero."""
    report = check_onnx(inside(tmp_path / "m.onnx", TensorProto.INT4))
    assert "ONNX Runtime is wrong: its kernel of Cast with the output 'c'" in " ".join(str(report).split())


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("dtype", ["INT4", "UINT4"])
@pytest.mark.every(2)
def test_inputs_of_4_bits_are_refused(dtype: str, command: str, tmp_path: Path) -> None:
    path = as_input(tmp_path / "m.onnx", TensorProto.DataType.Value(dtype))
    with pytest.raises(
        UsageError, match=rf"is a tensor\({dtype.lower()}\).*\n  what to do: declare it as int8 or uint8"
    ):
        COMMANDS[command](path)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_dtype_without_kernels_is_refused_with_its_operator(command: str, tmp_path: Path) -> None:
    path = packed(tmp_path / "m.onnx", TensorProto.FLOAT4E2M1, out=False)
    with pytest.raises(CellbridgeError, match="operator Cast with the output 'c': float4e2m1\n  what to do: "):
        COMMANDS[command](path)


@pytest.mark.parametrize("given", ["float16", "float32"])
@pytest.mark.parametrize("dtype", ["FLOAT16", "DOUBLE"])
def test_a_module_without_parameters_is_compared_in_the_dtype_of_the_file(
    dtype: str, given: str, tmp_path: Path
) -> None:
    element, x = TensorProto.DataType.Value(dtype), torch.linspace(-1, 1, 6, dtype=getattr(torch, given)).reshape(SHAPE)
    path = save(tmp_path / "m.onnx", [helper.make_node("Relu", ["x"], ["y"])], element, element)
    report = parity.compare(torch.nn.ReLU(), path, (x,))
    assert report.ok, str(report)
    assert report.dtype == {"FLOAT16": "float16", "DOUBLE": "float64"}[dtype]
    assert f"the file takes numbers in {report.dtype}, in which both were compared" in report.notes
    assert parity.compare(torch.nn.Sigmoid(), path, (x,)).failed


MODEL = """
from tests.parity.test_onnx_dtypes import {kind}, from_onnx, given_to, to_torch

def model():
    return to_torch(from_onnx({path!r}))

def inputs():
    return (given_to({kind}, {dtype!r}),)
"""


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.every(10)
def test_every_dtype_by_parity_export(dtype: str, kind: Callable[[Path, int], str], tmp_path: Path) -> None:
    path, out = kind(tmp_path / "m.onnx", TensorProto.DataType.Value(dtype)), tmp_path / "out.onnx"
    (tmp_path / "model.py").write_text(MODEL.format(kind=kind.__name__, path=path, dtype=dtype))
    result = CliRunner().invoke(main, ["export", str(tmp_path / "model.py"), "-o", str(out), "--no-probe"])
    if kind == throughout and dtype in ("UINT16", "UINT32", "UINT64"):
        assert result.exit_code == 2, result.output
        assert "doesn't run on its inputs" in result.output  # torch has no kernel
        return
    assert (result.exit_code, out.exists()) == (0, True), result.output


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.every(2)
def test_a_float64_part_of_a_float32_file(command: str, tmp_path: Path) -> None:
    """Most numbers are of float64, and the input is of float32."""
    weight = onnx.numpy_helper.from_array(np.linspace(-1, 1, 9).reshape(3, 3), "w")
    nodes = [
        helper.make_node("Cast", ["x"], ["d"], to=TensorProto.DOUBLE),
        helper.make_node("MatMul", ["d", "w"], ["p"]),
        helper.make_node("Cast", ["p"], ["y"], to=TensorProto.FLOAT),
    ]
    path = save(tmp_path / "m.onnx", nodes, TensorProto.FLOAT, TensorProto.FLOAT)
    model = onnx.load(path)
    model.graph.initializer.append(weight)
    onnx.save(model, path)
    report = COMMANDS[command](path)
    assert not report.failed, str(report)
    assert report.dtype == "float32"


@pytest.mark.parametrize("dtype", ["UINT16", "UINT32", "UINT64", "DOUBLE", "FLOAT16"])
@pytest.mark.parametrize("kind", [as_input, as_output], ids=lambda kind: kind.__name__)
def test_a_file_that_differs_fails(dtype: str, kind: Callable[[Path, int], str], tmp_path: Path) -> None:
    path = kind(tmp_path / "m.onnx", TensorProto.DataType.Value(dtype))
    model = onnx.load(path)
    changed = next(node for node in model.graph.node if node.op_type in ("Sin", "Abs"))
    changed.op_type = "Exp"
    onnx.save(model, tmp_path / "other.onnx")
    assert compare_onnx(path, str(tmp_path / "other.onnx"), probe=True).failed


def of_two_inputs(path: Path, second: int, op: str = "Sin") -> str:
    """Computes in float32 from an input in float32 and one in another dtype."""
    path = Path(as_input(path, second))
    model = onnx.load(path)
    model.graph.input.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, SHAPE))
    model.graph.node[-1].output[0] = "s"
    model.graph.node[-1].op_type = op
    model.graph.node.append(helper.make_node("Mul", ["s", "z"], ["y"]))
    onnx.save(model, path)
    return str(path)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("dtype", ["FLOAT16", "DOUBLE", "BFLOAT16"])
@pytest.mark.every(2)
def test_inputs_in_two_floating_dtypes(dtype: str, command: str, tmp_path: Path) -> None:
    path = of_two_inputs(tmp_path / "m.onnx", TensorProto.DataType.Value(dtype))
    report = COMMANDS[command](path)
    assert report.ok, str(report)
    assert report.probing_seconds
    candidate = of_two_inputs(tmp_path / "other.onnx", TensorProto.DataType.Value(dtype), "Cos")
    assert compare_onnx(path, candidate).failed
