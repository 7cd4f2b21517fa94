"""`parity run model.onnx` and `parity compare a.onnx b.onnx`."""

from __future__ import annotations

import shutil
import zipfile
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
import torch
from click.testing import CliRunner
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor, nn

from cellbridge import converter
from cellbridge.parity.checking.onnx_files.check import check_onnx
from cellbridge.parity.checking.onnx_files.compare import compare_onnx
from cellbridge.parity.cli import main
from cellbridge.parity.inputs.onnx_inputs import generate, generate_inputs
from cellbridge.parity.results.comparison import NOT_KNOWN
from cellbridge.parity.sides.onnxruntime_side import OnnxModelSide
from cellbridge.parity.sides.run import FORWARD, Run
from cellbridge.runtime.errors import UsageError
from cellbridge.runtime.ir.types import Type, Value, as_dtype
from tests.converter.test_onnx_in import model
from tests.limits import limited


class Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(11, 4)
        self.block = nn.Sequential(nn.Linear(4, 6), nn.GELU(), nn.Linear(6, 4))
        self.norm = nn.LayerNorm(4)

    def forward(self, tokens: Tensor, scale: Tensor) -> Tensor:
        return self.norm(self.block(self.table(tokens)) * scale)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    torch.manual_seed(0)
    file = tmp_path_factory.mktemp("onnx") / "net.onnx"
    args = (torch.randint(0, 11, (2, 3)), torch.randn(2, 1, 1))
    shapes = {"tokens": {0: "batch", 1: "length"}, "scale": {0: "batch"}}
    converter.to_onnx(converter.from_torch(Network(), args, dynamic_shapes=shapes), file)
    return str(file)


def test_weights_that_are_stored_transposed_can_be_trained(path: str) -> None:
    program = converter.from_onnx(path)
    names = [name for name, parameter in program.parameters.items() if parameter.trainable]
    assert any(name.startswith("block.0.weight") for name in names)
    _, gradients = program.value_and_grad(*generate_inputs(program, 0))
    assert all(np.abs(gradients.parameters[name]).max() > 0 for name in names if name != "norm.bias")


def changed(path: str, target: Path, change: Any) -> str:
    model = onnx.load(path)
    change(model)
    onnx.save(model, target)
    return str(target)


def other_weight(model: onnx.ModelProto) -> None:
    for tensor in model.graph.initializer:
        if tensor.name.startswith("block.0.weight"):
            array = numpy_helper.to_array(tensor).copy()
            array[1, 2] += 0.5
            tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))


def other_operator(model: onnx.ModelProto) -> None:
    for node in model.graph.node:
        if node.op_type == "Gelu":
            del node.attribute[:]
            node.attribute.append(helper.make_attribute("approximate", "tanh"))


def invoked(*arguments: str) -> Any:
    return CliRunner().invoke(main, arguments)


def test_a_file_is_judged_cell_by_cell(path: str) -> None:
    report = check_onnx(path)
    assert report.ok, str(report)
    assert report.reference == "torch"
    assert report.sides == ["interpreter", "onnxruntime"]
    assert {"block", "block.0", "norm"} <= set(report.cells)
    assert any(c.kind == "parameter gradient" for c in report.cells["block.0"].comparisons)


def test_the_command_says_so(path: str) -> None:
    result = invoked("run", path)
    assert result.exit_code == 0, result.output
    assert "Parity holds" in result.output


@pytest.mark.parametrize("dtype", ["bool", "int64"])
def test_generated_masks_mask_something(dtype: str) -> None:
    mask = [Value("mask", Type(as_dtype(dtype), (1, 2)))]
    for seed in range(20):
        (array,) = generate(mask, seed, {})
        assert array.dtype == dtype
        assert sorted(array.ravel().tolist()) == [0, 1]


def test_inputs_are_generated_of_the_declared_types(path: str) -> None:
    tokens, scale = generate_inputs(converter.from_onnx(path), seed=0)
    assert tokens.shape[0] == scale.shape[0]
    assert tokens.shape[0] != tokens.shape[1]
    assert tokens.dtype == np.int64
    assert 1 < tokens.max() < 11


def test_inputs_from_a_file(path: str, tmp_path: Path) -> None:
    arrays = tmp_path / "inputs.npz"
    np.savez(arrays, tokens=np.array([[1, 10]]), scale=np.ones((1, 1, 1), np.float32))
    assert invoked("run", path, "--inputs", str(arrays)).exit_code == 0
    np.savez(arrays, tokens=np.array([[1, 10]]))
    result = invoked("run", path, "--inputs", str(arrays))
    assert result.exit_code == 2
    assert "the model takes tokens, scale" in result.output
    np.savez(arrays, tokens=np.array([[1.0]]), scale=np.ones((1, 1, 1), np.float32))
    assert "tokens must be int64, given float64" in invoked("run", path, "--inputs", str(arrays)).output


def test_a_file_compared_with_itself(path: str) -> None:
    report = compare_onnx(path, path)
    assert report.ok, str(report)


@pytest.mark.parametrize(("change", "cell"), [(other_weight, "block.0"), (other_operator, "block.1")])
@pytest.mark.every(2)
def test_a_difference_between_two_files_is_found_in_its_cell(path: str, tmp_path: Path, change: Any, cell: str) -> None:
    candidate = changed(path, tmp_path / "other.onnx", change)
    assert compare_onnx(path, candidate).failing == [cell]
    result = invoked("compare", path, candidate)
    assert result.exit_code == 1
    assert f"Parity fails in 1 Cell: {cell}" in result.output


def test_a_parameter_whose_name_tells_of_no_cell_belongs_to_the_one_that_uses_it(tmp_path: Path) -> None:
    network = nn.Sequential(nn.Conv1d(2, 3, 3, padding=1), nn.Tanh(), nn.Conv1d(3, 2, 3))
    first = str(tmp_path / "first.onnx")
    converter.to_onnx(converter.from_torch(network, (torch.randn(2, 2, 7),)), first)

    def named_by_number(model: onnx.ModelProto) -> None:
        del model.metadata_props[:]  # where the names of the parameters are
        names = {tensor.name: f"onnx::Conv_{i}" for i, tensor in enumerate(model.graph.initializer)}
        for tensor in model.graph.initializer:
            tensor.name = names[tensor.name]
        for node in model.graph.node:
            node.input[:] = [names.get(name, name) for name in node.input]

    def dilated(model: onnx.ModelProto) -> None:
        for attribute in model.graph.node[0].attribute:
            if attribute.name in ("pads", "dilations"):
                attribute.ints[:] = [2] * len(attribute.ints)

    first = changed(first, tmp_path / "numbered.onnx", named_by_number)
    report = compare_onnx(first, changed(first, tmp_path / "dilated.onnx", dilated))
    assert report.failing == ["0"]
    assert {c.kind for c in report.cells["0"].failures} == {"output", "input gradient", "parameter gradient"}


@pytest.mark.parametrize(
    ("factor", "slope", "passes"),
    [
        (2**-0.5, 0.5, True),  # 1 / sqrt(2) is rounded in one file, and not in the other
        (2**-0.5 * (1 + 1e-5), 0.5, False),
        (2**-0.5, 0.5 * (1 + 1e-6), False),
    ],
)
@pytest.mark.every(3)
def test_numbers_may_be_rounded_in_files(tmp_path: Path, factor: float, slope: float, passes: bool) -> None:
    class Written(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(4, 6)

        def forward(self, x: Tensor) -> Tensor:
            x = self.linear(x)
            return x * slope * (1 + torch.erf(x * factor))

    class Known(Written):
        def forward(self, x: Tensor) -> Tensor:
            return nn.functional.gelu(self.linear(x))

    files = []
    for network in (Known(), Written()):
        torch.manual_seed(0)
        nn.init.normal_(network.linear.weight)
        nn.init.normal_(network.linear.bias)
        files.append(str(tmp_path / f"{type(network).__name__}.onnx"))
        converter.to_onnx(converter.from_torch(network, (torch.ones(5, 4),)), files[-1])
    assert compare_onnx(*files).ok is passes
    assert compare_onnx(*reversed(files)).ok is passes


def test_a_table_that_several_cells_use_accuses_only_the_one_that_uses_it_wrongly(tmp_path: Path) -> None:
    def file(name: str, *inputs: str) -> str:
        table = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
        nodes = [
            helper.make_node("Mul", ["x", "table"], ["h"], "/first/Mul"),
            helper.make_node("Sub", inputs, ["y"], "/second/Sub"),
        ]
        x, y = (helper.make_tensor_value_info(value, TensorProto.FLOAT, ["n", 3, 4]) for value in "xy")
        graph = helper.make_graph(nodes, "g", [x], [y], [numpy_helper.from_array(table, "table")])
        model_proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
        onnx.save(model_proto, tmp_path / name)
        return str(tmp_path / name)

    right = file("right.onnx", "h", "table")
    assert compare_onnx(right, right).ok
    assert compare_onnx(right, file("wrong.onnx", "table", "h")).failing == ["second"]


@pytest.mark.slow
def test_files_without_common_cells_are_compared_as_a_whole(path: str, tmp_path: Path) -> None:
    def renamed(model: onnx.ModelProto) -> None:
        del model.metadata_props[:]
        for number, node in enumerate(model.graph.node):
            node.name = f"node_{number}"
            del node.metadata_props[:]

    renamed_file = changed(path, tmp_path / "other.onnx", renamed)
    report = compare_onnx(path, renamed_file)
    assert report.ok, str(report)
    assert any("compared as a whole" in note for note in report.notes)
    different = changed(renamed_file, tmp_path / "different.onnx", other_weight)
    assert compare_onnx(path, different).failing == ["block.0"]
    assert compare_onnx(renamed_file, changed(path, tmp_path / "another.onnx", other_weight)).failing == [""]


def written(path: Path, *nodes: onnx.NodeProto, shape: tuple[int, ...] = (0, -1), **outputs: int) -> str:
    """A file that takes x, of shape [batch, time, 4], and has a weight w, a shape s, and these outputs."""
    weight = np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["h"], "/fc/MatMul"), *nodes],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", "time", 4])],
        [helper.make_tensor_value_info(name, kind, None) for name, kind in outputs.items()],
        [numpy_helper.from_array(weight, "w"), numpy_helper.from_array(np.array(shape), "s")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9), path)
    return str(path)


FLOATS, RESHAPED = TensorProto.FLOAT, helper.make_node("Reshape", ["h", "s"], ["y"], "/Reshape")


@pytest.mark.parametrize("grads", [True, False])
@pytest.mark.every(2)
def test_results_of_another_shape_are_told(tmp_path: Path, grads: bool) -> None:
    first = written(tmp_path / "first.onnx", RESHAPED, y=FLOATS)
    second = written(tmp_path / "other.onnx", RESHAPED, shape=(1, -1), y=FLOATS)
    for reference, candidate, reason in (
        (first, second, "shape [1, 60], needed [2, 30]"),
        (second, first, "shape [2, 30], needed [1, 60]"),
    ):
        report = compare_onnx(reference, candidate, grads=grads)
        assert report.failing == [""]
        assert {c.reason for c in report.cells[""].failures if not c.sizes} == {reason}


def test_sizes_that_were_frozen_are_told(tmp_path: Path) -> None:
    first = written(tmp_path / "first.onnx", RESHAPED, y=FLOATS)
    report = compare_onnx(first, written(tmp_path / "same.onnx", RESHAPED, y=FLOATS))
    assert report.ok, str(report)
    assert report.sizes == ["batch=1, time=1", "batch=3, time=7", "batch=9, time=7"]
    batch = written(tmp_path / "batch.onnx", RESHAPED, shape=(2, -1), y=FLOATS)  # as many as are generated at first
    report = compare_onnx(first, batch)
    assert {(c.sizes, c.reason) for c in report.cells[""].failures} == {
        ("batch=1, time=1", "shape [2, 3], needed [1, 6]"),
        ("batch=5, time=7", "shape [2, 105], needed [5, 42]"),
        ("batch=9, time=7", "shape [2, 189], needed [9, 42]"),
    }
    time = written(tmp_path / "time.onnx", RESHAPED, shape=(-1, 30), y=FLOATS)
    report = compare_onnx(first, time)
    assert {c.sizes for c in report.cells[""].failures} == {"batch=1, time=1", "batch=3, time=7", "batch=37, time=39"}
    assert all("doesn't run where" in c.reason for c in report.cells[""].failures)
    report = compare_onnx(time, first)
    assert report.ok
    assert [note.partition(":")[0] for note in report.notes if note.startswith("not compared")] == [
        "not compared at batch=1, time=1",
        "not compared at batch=3, time=7",
        "not compared at batch=37, time=39",
    ]


@pytest.mark.parametrize("grads", [True, False])
@pytest.mark.every(2)
def test_results_of_another_number_or_dtype_are_told(tmp_path: Path, grads: bool) -> None:
    cast = helper.make_node("Cast", ["h"], ["y"], "/Cast", to=TensorProto.INT64)
    one_result = written(tmp_path / "one.onnx", h=FLOATS)
    two_results = written(tmp_path / "two.onnx", RESHAPED, h=FLOATS, y=FLOATS)
    integers = written(tmp_path / "integers.onnx", cast, y=TensorProto.INT64)
    for reference, candidate, reason in (
        (
            one_result,
            two_results,
            "returns {h: tensor, y: tensor} in the candidate, {h: tensor} in the reference: ['y'] is additional",
        ),
        (two_results, one_result, "nothing was recorded here"),
        (one_result, integers, "dtype int64, needed float32"),
        (integers, one_result, "needed int64"),
    ):
        report = compare_onnx(reference, candidate, grads=grads)
        assert report.failing == [""]
        assert any(reason in c.reason for c in report.cells[""].failures)


def test_options_of_torch_models_are_refused(path: str) -> None:
    for option in ("--train", "--round-trip"):
        result = invoked("run", path, option)
        assert result.exit_code == 2
        assert f"{option} needs a model file" in result.output
    result = invoked("run", "fixtures/unet.py", "--inputs", "x.npz")
    assert result.exit_code == 2
    assert "--inputs needs an ONNX file" in result.output


def test_models_with_other_inputs_are_refused(path: str, tmp_path: Path) -> None:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
    onnx.save(helper.make_model(graph), tmp_path / "relu.onnx")
    with pytest.raises(UsageError, match="take 2 and 1 inputs"):
        compare_onnx(path, str(tmp_path / "relu.onnx"))
    assert invoked("run", str(tmp_path / "missing.onnx")).exit_code == 2


def test_models_of_other_dtypes_are_refused(tmp_path: Path) -> None:
    paths = []
    for name, kind in (("floats", TensorProto.FLOAT), ("integers", TensorProto.INT32)):
        x, y = (helper.make_tensor_value_info(n, kind, [2]) for n in "xy")
        graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [x], [y])
        paths.append(str(tmp_path / f"{name}.onnx"))
        onnx.save(helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 20)]), paths[-1])
    with pytest.raises(UsageError, match=r"'x' is float32 in .*floats.onnx and int32 in .*integers.onnx"):
        compare_onnx(*paths)


def test_a_file_in_half_precision_is_judged_in_it(tmp_path: Path) -> None:
    module = nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 3)).half()
    half, wrong = str(tmp_path / "half.onnx"), tmp_path / "wrong.onnx"
    converter.to_onnx(converter.from_torch(module, (torch.randn(4, 8).half(),)), half)
    for report in (check_onnx(half), check_onnx(half, dtype="float16"), compare_onnx(half, half)):
        assert report.ok
        assert report.dtype == "float16"
    assert "the file computes in float16, in which rounding was judged" in check_onnx(half).notes
    assert check_onnx(half, dtype="float64").dtype == "float64"

    def change(model: onnx.ModelProto) -> None:
        weight = next(tensor for tensor in model.graph.initializer if len(tensor.dims) == 2)
        weight.CopyFrom(numpy_helper.from_array(1.02 * numpy_helper.to_array(weight).astype(np.float16), weight.name))

    assert not compare_onnx(half, changed(half, wrong, change)).ok


def test_the_model_file_is_the_reference_of_an_onnx_file(path: str) -> None:
    result = invoked("compare", path, "fixtures/unet.py:model")
    assert result.exit_code == 2
    assert f"parity compare fixtures/unet.py:model {path}" in " ".join(result.output.split())


# ---- bad files ----


def refused(*arguments: str, exit_code: int = 2) -> str:
    """What is said, and nothing is written."""
    with limited(seconds=20):
        result = CliRunner().invoke(main, list(arguments), catch_exceptions=False)
    assert result.exit_code == exit_code, result.output
    assert "Traceback" not in result.output
    return result.output


@pytest.mark.parametrize("content", [b"", b"hello", b"PK\x03\x04", b"\x08\x09:" + b"\xff" * 20])
def test_what_is_no_model(tmp_path: Path, path: str, content: bytes) -> None:
    (tmp_path / "broken.onnx").write_bytes(content)
    assert (
        "broken.onnx" in (message := refused("run", str(tmp_path / "broken.onnx"), exit_code=3))
        or "no graph" in message
    )
    refused("compare", path, str(tmp_path / "broken.onnx"), exit_code=3)


def test_a_device_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "zero.onnx").symlink_to("/dev/zero")
    assert "it isn't a regular file" in refused("run", str(tmp_path / "zero.onnx"))


def npy(header: bytes, content: bytes = b"") -> bytes:
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + content


HEADER = b"{'descr': '<f4', 'fortran_order': False, 'shape': (%s)}\n"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (npy(HEADER % b"10000000000000, 1, 1"), "would take 40 TB"),
        (npy(HEADER % b"3,"), "scale must be float32[batch, 1, 1], given float32[3]"),
        (npy(HEADER % b"1, 1, 1"), "not an .npz file of arrays"),
        (npy(HEADER % b"-1, 1, 1"), "a size is negative"),
        (npy(b"(" * 5000), "not an .npz file of arrays"),
        (npy(b"{'descr': __import__('os').abort(), 'fortran_order': False, 'shape': (1,)}"), "not an .npz file"),
        (npy(b"{'descr': '|O', 'fortran_order': False, 'shape': (1, 1, 1)}\n", b"\x80\x04N."), "given object"),
        (b"\x80\x04N.", "not an .npz file of arrays"),
    ],
)
def test_arrays_that_can_not_be(path: str, tmp_path: Path, content: bytes, message: str) -> None:
    arrays = tmp_path / "inputs.npz"
    np.savez(arrays, tokens=np.array([[1, 10]]))
    with zipfile.ZipFile(arrays, "a") as archive:
        archive.writestr("scale.npy", content)
    assert message in " ".join(refused("run", path, "--inputs", str(arrays)).split())


def test_a_header_without_end(path: str, tmp_path: Path) -> None:
    """A header says how long it is, up to 4 GB, which a few megabytes of zeros in an archive can be."""
    arrays, length = tmp_path / "inputs.npz", 2**28
    with zipfile.ZipFile(arrays, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("scale.npy", b"")
        with archive.open("tokens.npy", "w") as file:
            file.write(b"\x93NUMPY\x02\x00" + length.to_bytes(4, "little"))
            for _ in range(16):
                file.write(bytes(2**24))
    with limited(memory=2**26):
        assert "not an .npz file of arrays" in invoked("run", path, "--inputs", str(arrays)).output


def test_a_bomb_of_arrays(path: str, tmp_path: Path) -> None:
    arrays = tmp_path / "inputs.npz"
    with zipfile.ZipFile(arrays, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("tokens.npy", npy(HEADER % b"5000000, 1, 1", bytes(2 * 10**7)))
        archive.writestr("scale.npy", npy(HEADER % b"5000000, 1, 1", bytes(2 * 10**7)))
    with limited(memory=2**25):
        assert "tokens must be int64, given float32" in invoked("run", path, "--inputs", str(arrays)).output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["run", "net.onnx", "--json", "r", "--junit", "r"],
            "--json and --junit are the same file, r: give --junit another",
        ),
        (["run", "net.onnx", "--json", "net.onnx"], "MODEL and --json are the same file"),
        (["run", "net.onnx", "--json", "link"], "MODEL and --json are the same file"),
        (["run", "net.onnx", "--inputs", "i.npz", "--junit", "./i.npz"], "--inputs and --junit are the same file"),
        (["run", "net.py", "--json", "r", "--save-onnx", "../folder/r"], "--json and --save-onnx are the same file"),
        (["run", "net.py:model", "--save-onnx", "net.py"], "MODEL and --save-onnx are the same file"),
        (["export", "net.py", "-o", "net.py"], "MODEL and --output are the same file"),
        (["compare", "net.onnx", "net.onnx", "--json", "net.onnx"], "and --json are the same file"),
    ],
)
def test_files_are_not_overwritten_by_each_other(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    monkeypatch.chdir(folder)
    shutil.copy(path, "net.onnx")
    Path("link").symlink_to("net.onnx")
    Path("net.py").write_text("raise SystemExit")
    before = sorted(folder.iterdir())
    assert message in " ".join(refused(*arguments).split())
    assert sorted(folder.iterdir()) == before


class CalledByKeywords(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(11, 4)
        self.head = nn.Linear(4, 3)

    def forward(
        self, input_ids: Tensor, mask: Tensor, state: dict[str, Tensor] | None = None, flag: bool = False
    ) -> dict[str, Tensor]:
        hidden = self.table(input_ids) * mask[..., None]
        if state is not None:
            hidden = hidden + state["bias"]
        return {"logits": self.head(hidden), "hidden": hidden.tanh() if flag else hidden}


def test_files_written_from_keyword_inputs(tmp_path: Path) -> None:
    torch.manual_seed(0)
    inputs = {
        "input_ids": torch.randint(0, 11, (2, 3)),
        "flag": True,
        "state": {"bias": torch.randn(4)},
        "mask": torch.rand(2, 3),
    }
    network = CalledByKeywords()
    first, second = str(tmp_path / "first.onnx"), str(tmp_path / "second.onnx")
    converter.to_onnx(converter.from_torch(network, (), inputs), first)
    positional = network.forward(inputs["input_ids"], inputs["mask"], inputs["state"], True)
    args = (inputs["input_ids"], inputs["mask"], inputs["state"], True)
    assert positional["logits"].shape == (2, 3, 3)
    converter.to_onnx(converter.from_torch(network, args), second)
    assert check_onnx(first).ok
    assert compare_onnx(first, first).ok
    report = compare_onnx(first, changed(first, tmp_path / "wrong.onnx", other_bias))
    assert not report.ok
    assert report.cells["head"].status == "fail"
    assert check_onnx(second).ok


def other_bias(model: onnx.ModelProto) -> None:
    for tensor in model.graph.initializer:
        if tensor.name.startswith("head.bias"):
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor) + np.float32(0.01), tensor.name))


@pytest.mark.parametrize("value", [12345.678, 65535.0])
def test_what_the_reference_has_no_digits_of_is_not_compared(tmp_path: Path, value: float) -> None:
    """A constant, normalized: 0, but for the rounding of the mean, divided by nearly nothing."""
    made = model(
        "net (float[1, 3, 31, 9] x) => (float[1, 3, 31, 9] y) { y = InstanceNormalization(x, s, b) }",
        s=np.ones(3, np.float32), b=np.zeros(3, np.float32),
    )  # fmt: skip
    onnx.save(made, tmp_path / "m.onnx")
    np.savez(tmp_path / "x.npz", x=np.full((1, 3, 31, 9), value, np.float32))
    report = check_onnx(str(tmp_path / "m.onnx"), inputs=str(tmp_path / "x.npz"))
    comparisons = [c for c in report.cells[""].comparisons if c.side == "onnxruntime"]
    assert [c.status for c in comparisons] == [NOT_KNOWN]
    assert "too ill-conditioned to be judged" in comparisons[0].reason
    assert not report.ok
    assert not report.failed


def test_digits_that_are_there_are_compared(tmp_path: Path) -> None:
    text = "{ m = ReduceMean<keepdims = 1>(x, a) d = Sub(x, m) y = ReduceSum<keepdims = 1>(d, a) }"
    onnx.save(model(f"net (float[4, 8] x) => (float[4, 1] y) {text}", a=np.array([1])), tmp_path / "m.onnx")
    assert check_onnx(str(tmp_path / "m.onnx")).ok, "a sum that cancels is as precise as what it is computed from"


def test_a_file_that_crashes_onnx_runtime_is_an_error(tmp_path: Path) -> None:
    made = model("net (float[2, 2] x) => (float[2, 2] y) { y = Relu(x) }")
    onnx.save(made, tmp_path / "m.onnx")
    side = OnnxModelSide("onnxruntime", tmp_path / "m.onnx", (torch.ones(2, 2),), {})
    side.session._process.kill()
    ended = r"ONNX Runtime ended with signal 9 \(SIGKILL\) while it (loaded|ran) this file"
    with pytest.raises(UsageError, match=ended):
        side.run(Run("float32", FORWARD))


def named(path: Path, *names: str) -> str:
    """A file whose input has dimensions of these names."""
    made = model(f"net (float[{', '.join('nm'[: len(names)])}] x) => (float[a] y) {{ y = Tanh(x) }}")
    for dim, name in zip(made.graph.input[0].type.tensor_type.shape.dim, names, strict=True):
        dim.dim_param = name
    made.graph.output[0].type.tensor_type.ClearField("shape")
    onnx.save(made, path)
    return str(path)


@pytest.mark.parametrize("names", [("N%s%n",), ("N//2",), ("n", "2*n + 1")])
def test_dimensions_whose_names_are_expressions(names: tuple[str, ...], tmp_path: Path) -> None:
    result = invoked("run", named(tmp_path / "net.onnx", *names))
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("name", ["n - 500000", "3 % (n - 2)"])
def test_sizes_of_no_tensor_are_asked_for(name: str, tmp_path: Path) -> None:
    path = named(tmp_path / "net.onnx", "n", name)
    assert "what to do: give the shapes, --shape x=" in refused("run", path)


def test_sizes_that_an_expression_can_not_have(tmp_path: Path) -> None:
    path = named(tmp_path / "net.onnx", "n", "3 % (n - 2)")
    assert "'x' of the model is float32[n, " in refused("run", path, "--shape", "x=5,1")
    assert "division by 0 for the given sizes" in refused("run", path, "--shape", "x=2,1", exit_code=3)


def test_generated_powers_of_two_are_numbers() -> None:
    dtype = np.dtype(ml_dtypes.float8_e8m0fnu)
    (array,) = generate([Value("x", Type(dtype, (1000,)))], 0, {})
    assert array.dtype == dtype
    assert np.isfinite(array.astype(np.float32)).all()
    assert len(np.unique(array.astype(np.float32))) > 5
