"""Files that compute what the module computes hold, however they were written."""

from __future__ import annotations

import math
import warnings
from pathlib import Path

import onnx
import onnxruntime
import pytest
import torch
from onnx import helper, numpy_helper
from torch import Tensor, nn

from cellbridge import converter, parity
from cellbridge.parity.inputs import affordable
from cellbridge.parity.report.report import Report
from cellbridge.parity.results.comparison import UNPAIRED

from .networks import (
    Images,
    Layers,
    Steps,
    Words,
    network,
    own_export,
    stripped,
    with_paths_in_names,
    with_scopes_of_torch,
)

KINDS = [Images, Layers, Steps, Words]


def apart(report: Report) -> list[str]:
    """The Cells that are judged in the Cells around them."""
    return [path for path, cell in report.cells.items() if cell.presence == UNPAIRED]


def require_sound(report: Report) -> None:
    assert report.ok, str(report)
    assert report.failing == []
    assert not any(cell.status == "not compared" for cell in report.cells.values())


@pytest.mark.parametrize(
    "form",
    [
        lambda model: model,
        stripped,
        *(pytest.param(form, marks=pytest.mark.slow) for form in (with_scopes_of_torch, with_paths_in_names)),
    ],
)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.every(9)
def test_a_file(kind: type[nn.Module], form: object) -> None:
    module, args = network(kind)
    assert callable(form)
    report = parity.compare(module, form(own_export(module, args)), args)
    require_sound(report)
    assert report.sides == ["candidate", "candidate in onnxruntime"]
    assert report.correspondence.cells
    assert all(pair.is_by_values for pair in report.correspondence.cells if pair.module)
    for path, cell in report.cells.items():
        if cell.presence is None:
            checks = {(c.check, c.kind) for c in cell.comparisons if c.side == "candidate"}
            assert ("meaning", "output") in checks, path
            assert ("rounding", "output") in checks, path
    assert any(c.kind == "input gradient" for c in report.cells[list(report.cells)[-1]].comparisons)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.every(4)
def test_the_program_of_a_file(kind: type[nn.Module]) -> None:
    module, args = network(kind)
    model = own_export(module, args)
    for program in (converter.from_onnx(model), converter.from_onnx(stripped(model))):
        report = parity.compare(module, program, args)
        if kind is Layers and program.result.kind != "dict":  # without metadata, the program has no names of results
            assert {c.reason for c in report.cells[""].failures if c.kind == "call"}
        else:
            require_sound(report)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.every(4)
def test_a_file_that_onnxruntime_optimized(kind: type[nn.Module], tmp_path: Path) -> None:
    module, args = network(kind)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    model = own_export(module, args).SerializeToString()
    onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    require_sound(parity.compare(module, tmp_path / "optimized.onnx", args))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.every(4)
def test_a_file_of_the_older_exporter_of_torch(kind: type[nn.Module], tmp_path: Path) -> None:
    module, args = network(kind)
    try:
        torch.onnx.export(module, args, str(tmp_path / "model.onnx"), dynamo=False)
    except ImportError as error:
        pytest.skip(str(error))
    require_sound(parity.compare(module, tmp_path / "model.onnx", args))


def test_a_batch_norm_is_judged_beside_its_convolution() -> None:
    module, args = network(Images)
    report = parity.compare(module, own_export(module, args), args)
    assert apart(report) == []
    assert {report.cells[path].status for path in ("first", "first.0", "first.1", "second.1")} == {"pass"}
    (note,) = [note for note in report.notes if "merged" in note]
    assert note.endswith("as these parameters: first.0, first.1, second.0, second.1")
    compared = {c.tensor for cell in report.cells.values() for c in cell.comparisons if c.kind == "parameter gradient"}
    assert {"first.0.weight", "second.1.bias"} <= compared


def test_gradients_of_transposed_and_renamed_weights() -> None:
    module, args = network(Words)
    model = own_export(module, args)
    assert any(tensor.name == "blocks.0.attention.query.weight.transpose" for tensor in model.graph.initializer)
    report = parity.compare(module, stripped(model), args)
    compared = {c.tensor for cell in report.cells.values() for c in cell.comparisons if c.kind == "parameter gradient"}
    assert {"blocks.0.attention.query.weight", "blocks.1.mlp.3.bias", "embed.weight"} <= compared


class Shared(nn.Module):
    """A Cell that is called twice, a tied weight, and an input that is passed twice."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.norm = nn.Linear(5, 5), nn.LayerNorm(5)
        self.tied = nn.Linear(5, 5, bias=False)
        self.tied.weight = self.layer.weight
        self.product = Product()

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        z = self.norm(self.layer(x))
        z = self.tied(self.layer(z.tanh()))
        result: Tensor = self.product(z, z) * y
        return result


class Product(nn.Module):
    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return (a @ b.transpose(0, 1)).softmax(-1) @ a


@pytest.mark.parametrize("form", [lambda model: model, stripped])
@pytest.mark.every(2)
def test_shared_cells_weights_and_tensors(form: object) -> None:
    torch.manual_seed(0)
    module, x = Shared().eval(), torch.randn(2, 5)
    assert callable(form)
    report = parity.compare(module, form(own_export(module, (x, x.clone()))), (x, x.clone()))  # two equal inputs
    require_sound(report)
    assert apart(report) == []
    assert report.cells["layer"].calls == 2


def test_half_precision() -> None:
    module, args = network(Layers)
    half, inputs = module.half(), tuple(x.half() for x in args)
    model = converter.to_onnx(converter.from_torch(half, inputs))
    report = parity.compare(half, model, inputs, dtype="float16")
    require_sound(report)
    assert {c.check for c in report.cells["second"].comparisons} == {"meaning", "rounding"}
    report_of_half = parity.compare(half, model, inputs)
    assert any("--dtype float16 compares its Cells" in note for note in report_of_half.notes)


def test_dynamic_axes_are_tried_at_other_sizes() -> None:
    module, args = network(Layers)
    model = converter.to_onnx(converter.from_torch(module, args, dynamic_shapes=({0: torch.export.Dim("batch")},)))
    report = parity.compare(module, model, args)
    require_sound(report)
    assert report.sizes == ["batch=1", "batch=7"]
    assert {c.sizes for c in report.cells["second"].comparisons} == {"", "batch=1", "batch=7"}


def test_a_frozen_size_is_found_at_other_sizes() -> None:
    x = torch.randn(3, 4)
    float_type = onnx.TensorProto.FLOAT
    nodes = [helper.make_node("Reshape", ["x", "shape"], ["r"]), helper.make_node("ReduceSum", ["r"], ["y"])]
    graph = helper.make_graph(
        nodes,
        "Frozen",
        [helper.make_tensor_value_info("x", float_type, ["batch", 4])],
        [helper.make_tensor_value_info("y", float_type, None)],
        [numpy_helper.from_array(torch.tensor([3, 4]).numpy(), "shape")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    report = parity.compare(Sum(), model, (x,))
    assert not report.ok
    assert {c.sizes for c in report.cells[""].failures} == {"batch=1", "batch=5"}


class Sum(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.sum((0, 1), keepdim=True)


def test_a_file_that_is_no_program_is_compared_at_its_outputs(tmp_path: Path) -> None:
    text = """<ir_version: 9, opset_import: ["" : 17, "com.microsoft" : 1]>
        net (float[3, 3] x) => (float[3, 3] y) { y = com.microsoft.Inverse(x) }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
    report = parity.compare(Inverse(), tmp_path / "m.onnx", (torch.randn(3, 3),))
    assert report.ok, str(report)
    assert report.sides == ["candidate"]
    (note,) = [note for note in report.notes if note.startswith("only its results in ONNX Runtime were compared")]
    assert "for lack of com.microsoft.Inverse" in note


class Inverse(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.linalg.inv(x)


def test_a_file_that_needs_too_much_memory_is_compared_at_its_outputs(monkeypatch: pytest.MonkeyPatch) -> None:
    module, args = network(Layers)
    monkeypatch.setattr(affordable, "memory_size", lambda: 1000)
    report = parity.compare(module, own_export(module, args), args)
    assert report.ok
    assert report.sides == ["candidate"]
    assert any("this machine has 1 KB of memory" in note for note in report.notes), report.notes


@pytest.mark.parametrize("form", [lambda model: model, stripped])
@pytest.mark.every(2)
def test_numbers_that_a_file_rounds(form: object) -> None:
    module, x = Numbers().eval(), torch.randn(2, 3, 8)
    assert callable(form)
    require_sound(parity.compare(module, form(own_export(module, (x,))), (x,)))


class Numbers(nn.Module):
    """A scale, constants of a GELU and a norm whose weight is one in every element."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = Norm()
        self.query, self.key = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(x)
        y = nn.functional.scaled_dot_product_attention(self.query(x), self.key(x), x, scale=8**-0.5)
        return 0.5 * y * (1 + torch.tanh(math.sqrt(2 / math.pi) * (y + 0.044715 * y**3)))


class Norm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(8))

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6))


class Tied(nn.Module):
    """Whole numbers in; a weight that is used twice, once without its Cell."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.norm, self.inner = nn.Embedding(11, 6), nn.LayerNorm(6), nn.Linear(6, 6)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.inner(self.embedding(ids)))
        return nn.functional.linear(x, self.embedding.weight)


def test_weights_whose_names_say_nothing() -> None:
    torch.manual_seed(0)
    module, ids = Tied().eval(), torch.randint(0, 11, (2, 5))
    model = own_export(module, (ids,))
    names: dict[str, str] = {}
    kept = {value.name for value in (*model.graph.input, *model.graph.output)}
    for initializer in model.graph.initializer:
        initializer.name = names.setdefault(initializer.name, f"t{len(names)}")  # as exporters name constants
    for node in model.graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
    del model.graph.value_info[:]
    assert not kept & names.keys()
    report = parity.compare(module, model, (ids,))
    require_sound(report)
    assert report.cells["inner"].gradients


def test_a_row_that_is_not_trained_is_told_and_not_judged(tmp_path: Path) -> None:
    class Table(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.head = nn.Embedding(5, 4, padding_idx=0), nn.Linear(4, 2)

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            y: torch.Tensor = self.head(self.table(ids))
            return y

    module, ids = Table().eval(), torch.tensor([[1, 0, 2], [0, 3, 0]])
    file = str(tmp_path / "table.onnx")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(module, (ids,), file, dynamo=False)
    report = parity.compare(module, file, (ids,))
    assert report.ok, str(report)
    assert any("table.weight[0]" in note for note in report.notes)
    model = onnx.load(file)
    (table,) = [initializer for initializer in model.graph.initializer if initializer.dims == [5, 4]]
    values = numpy_helper.to_array(table).copy()
    values[3] *= 1.1
    table.CopyFrom(numpy_helper.from_array(values, table.name))
    assert parity.compare(module, model, (ids,)).failing == ["table"]
