"""What exported models lose on the way: each pass on graphs of its own, with numbers; folding on all ops."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from torch import nn

from cellbridge.converter import from_torch, to_onnx
from cellbridge.parity.inputs.model_file import load
from cellbridge.runtime.compiled.session import run_model
from cellbridge.runtime.errors import ConversionError
from cellbridge.runtime.ir.types import Constant
from cellbridge.runtime.lowering import opsets
from cellbridge.runtime.lowering.passes import fold
from cellbridge.runtime.tree import Structure
from tests.converter.programs import checked, names
from tests.runtime.ops.checks import ORT_LACKS, assert_close, check_onnx, inputs_of, one_node_program, run_kernel
from tests.runtime.ops.test_all_ops import IN_ONNX

FIXTURES = ["decoder_lm", "lstm_classifier", "resnet18", "transformer_encoder", "transformer_encoder_mha", "unet"]


class Function(nn.Module):
    def __init__(self, function: Callable[..., Any], **tensors: torch.Tensor) -> None:
        super().__init__()
        self.function = function
        for name, tensor in tensors.items():
            self.register_parameter(name, nn.Parameter(tensor))

    def forward(self, *args: Any) -> Any:
        return self.function(self, *args)


class First(nn.Sequential):
    def forward(self, x: Any) -> Any:
        return super().forward(x)[0]


def exported(module: nn.Module, *args: torch.Tensor, **options: Any) -> onnx.ModelProto:
    """The model, checked, which computes what torch does, and what it does when nothing is left out."""
    module.eval()
    program = from_torch(module, args)
    model = checked(to_onnx(program, **options))
    plain = checked(to_onnx(program, optimize=False, **options))
    feeds = dict(zip(names(model.graph.input), (x.numpy() for x in args), strict=True))
    with torch.no_grad():
        expected = module(*args)
    for actual, whole, tensor in zip(
        run_model(model, feeds).values(),
        run_model(plain, feeds).values(),
        expected if isinstance(expected, tuple) else (expected,),
        strict=True,
    ):
        np.testing.assert_allclose(actual, tensor.numpy(), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(actual, whole, rtol=1e-4, atol=1e-5)
    assert len(model.graph.node) <= len(plain.graph.node)
    return model


def counts(model: onnx.ModelProto) -> dict[str, int]:
    return dict(Counter(node.op_type for node in model.graph.node))


X = torch.randn(2, 3, 8)


def masked(self: Any, x: Any) -> Any:
    ones = torch.ones(3, 3, dtype=torch.bool)
    return x.softmax(-1).masked_fill(~ones.tril()[:, :1], 0.0) + x.softmax(-1)


def used_twice(self: Any, x: Any) -> Any:
    y = nn.functional.conv1d(x, self.w)
    return y + nn.functional.batch_norm(y, torch.arange(4.0), torch.arange(1.0, 5.0))


def there_and_back(self: Any, x: Any) -> Any:
    return x.transpose(1, 2).exp().transpose(1, 2).transpose(1, 2)


def product_and_bias(self: Any, x: Any) -> Any:
    return x @ self.w + self.b


def known_offset(self: Any, x: Any) -> Any:
    return x + torch.arange(8).float().cos() @ self.w.T.exp()


@pytest.mark.parametrize(
    ("module", "args", "expected"),
    [
        # 1: what is computed twice is computed once
        (Function(lambda self, x: x.exp() * x.exp()), (X,), {"Exp": 1, "Mul": 1}),
        # 2: attributes tell nodes apart
        (Function(lambda self, x: x.softmax(1) + x.softmax(2)), (X,), {"Softmax": 2, "Add": 1}),
        # 3: transpositions that undo each other
        (Function(there_and_back), (X,), {"Transpose": 1, "Exp": 1}),
        # 4: shapes that are changed again
        (Function(lambda self, x: x.reshape(6, 8).unsqueeze(0).reshape(2, 24).exp()), (X,), {"Reshape": 1, "Exp": 1}),
        # 5: what changes nothing
        (Function(lambda self, x: x.reshape(2, 3, 8).expand(2, 3, 8)[:, :].exp().float()), (X,), {"Exp": 1}),
        # 6: a slice that turns around isn't nothing
        (Function(lambda self, x: x.flip(1)), (X,), {"Slice": 1}),
        # 7: a weight is transposed when the model is written
        (nn.Linear(8, 4), (X,), {"MatMul": 1, "Add": 1}),
        # 8: a bias joins the product of matrices
        (Function(product_and_bias, w=torch.randn(8, 4), b=torch.randn(4)), (X[0],), {"Gemm": 1}),
        # 9: a bias that isn't one row doesn't
        (Function(product_and_bias, w=torch.randn(8, 3), b=torch.randn(3, 3)), (X[0],), {"MatMul": 1, "Add": 1}),
        # 10: a normalization joins its convolution
        (nn.Sequential(nn.Conv1d(3, 4, 3), nn.BatchNorm1d(4), nn.ReLU()), (X,), {"Conv": 1, "Relu": 1}),
        # 11: a transposed convolution too
        (nn.Sequential(nn.ConvTranspose1d(3, 4, 3), nn.BatchNorm1d(4)), (X,), {"ConvTranspose": 1}),
        # 12: but not one with groups, whose weight has its channels along two axes
        (
            nn.Sequential(nn.ConvTranspose1d(4, 4, 3, groups=2), nn.BatchNorm1d(4)),
            (torch.randn(2, 4, 5),),
            {"ConvTranspose": 1, "BatchNormalization": 1},
        ),
        # 13: nor one whose result is used elsewhere
        (Function(used_twice, w=torch.randn(4, 3, 3)), (X,), {"Conv": 1, "BatchNormalization": 1, "Add": 1}),
        # 14: a normalization before anything else stays
        (nn.BatchNorm1d(3), (X,), {"BatchNormalization": 1}),
        # 15: what depends on no input is computed when the model is written
        (Function(known_offset, w=torch.randn(8, 8)), (X,), {"Add": 1}),
        # 16: a mask is shared by all that use it
        (Function(masked), (X,), {"Softmax": 1, "Where": 1, "Add": 1}),
        # 17: weights of a recurrent layer are arranged when the model is written
        (First(nn.LSTM(8, 5)), (X,), {"LSTM": 1, "Squeeze": 1}),
        # 18: one element of an axis is taken at once
        (Function(lambda self, x: (x[:, 1].exp(), x[0, -1])), (X,), {"Gather": 3, "Exp": 1}),
        # 19: a part that keeps its axis isn't, nor one whose axis comes back
        (Function(lambda self, x: (x[:, 1:2].exp(), x[:, 1].unsqueeze(1) + x)), (X,), {"Slice": 1, "Exp": 1, "Add": 1}),
    ],
    ids=range(1, 20),
)  # fmt: skip
@pytest.mark.every(2)
def test_a_graph_becomes_smaller(module: nn.Module, args: tuple[Any, ...], expected: dict[str, int]) -> None:
    bn_buffers = [m for m in module.modules() if isinstance(m, nn.BatchNorm1d)]
    for m in bn_buffers:
        torch.nn.init.normal_(m.running_mean)
        torch.nn.init.uniform_(m.running_var, 0.5, 2.0)
        torch.nn.init.normal_(m.weight)
    node_counts = counts(exported(module, *args))
    for kind, count in expected.items():
        assert node_counts.pop(kind, 0) == count
    assert (
        node_counts.keys() <= {"Squeeze", "Unsqueeze", "Reshape", "Transpose"}
        if "LSTM" in expected
        else node_counts == {}
    )


def test_results_are_handed_out_whatever_is_merged() -> None:
    class Results(nn.Module):
        def forward(self, x: Any) -> Any:
            y = x.transpose(1, 2)
            return y, y.transpose(1, 2), x.reshape(2, 3, 8), x.exp(), x.exp(), torch.arange(3) * 2

    model = exported(Results(), X)
    assert len(model.graph.output) == 6
    assert counts(model)["Exp"] == 1


def test_a_table_that_is_used_twice_is_not_stored_twice() -> None:
    """A tied embedding: the model would grow by its transpose, which is computed at run time instead."""

    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Parameter(torch.randn(2000, 300) / 300**0.5)

        def forward(self, ids: Any) -> Any:
            return nn.functional.embedding(ids, self.table) @ self.table.T

    model = exported(Tied(), torch.tensor([[1, 5]]))
    assert names(model.graph.initializer) == ["table"]
    assert counts(model) == {"Gather": 1, "Transpose": 1, "MatMul": 1}


def test_a_large_tensor_that_is_expanded_stays_small() -> None:
    module = Function(lambda self, x: torch.zeros(1, 1).expand(2000, 2000) @ x)
    model = exported(module, torch.randn(2000, 1))
    assert sum(tensor.ByteSize() for tensor in model.graph.initializer) < 2**20


def test_folded_weights_say_what_they_are_of() -> None:
    program = from_torch(nn.Sequential(nn.Linear(80, 40)), (torch.randn(2, 3, 80),))
    assert "0.weight.transpose" in names(to_onnx(program).graph.initializer)
    assert names(to_onnx(program, optimize=False).graph.initializer) == ["0.weight", "0.bias"]


def test_draws_are_not_shared() -> None:
    module = Function(lambda self, x: torch.rand_like(x) - torch.rand_like(x))
    model = to_onnx(from_torch(module, (torch.ones(50),)))
    (result,) = run_model(model, dict.fromkeys(names(model.graph.input), np.ones(50, np.float32))).values()
    assert model.opset_import[0].version <= opsets.WITH_DRAWS, "ONNX Runtime has no kernel of a newer one"
    assert np.abs(result).max() > 0


def test_a_folded_tensor_of_another_type_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    class Wrong(onnx.reference.ReferenceEvaluator):
        def run(self, *args: Any, **kwargs: Any) -> Any:
            return [array.astype(np.float64) for array in super().run(*args, **kwargs)]

    module = importlib_fold()
    monkeypatch.setattr(module, "ReferenceEvaluator", Wrong)
    with pytest.raises(RuntimeError, match="onnx's reference of Transpose computed float64"):
        to_onnx(from_torch(nn.Linear(8, 4), (X,)))


def importlib_fold() -> Any:
    import importlib

    return importlib.import_module(fold.__module__)


def with_constants(case: Any, dtype: str) -> Any:
    """The case's program, with its inputs as constants."""
    program = one_node_program(case, dtype)
    arrays = [array for array in inputs_of(case, dtype) if array is not None]
    constants = tuple(Constant(value, array) for value, array in zip(program.inputs, arrays, strict=True))
    arguments = Structure("tuple", (Structure("tuple"), Structure("dict")))
    return program.replace(inputs=(), constants=program.constants + constants, arguments=arguments)


def check_folded(case: Any, dtype: str, opset: int) -> None:
    model = to_onnx(with_constants(case, dtype), opset=opset)
    onnx.checker.check_model(model, full_check=True)
    if {node.op_type for node in model.graph.node} & ORT_LACKS.get(dtype, set()):
        return
    for actual, expected in zip(run_model(model, {}).values(), run_kernel(case, inputs_of(case, dtype)), strict=True):
        assert_close(actual, expected, dtype)


@pytest.mark.parametrize("case", IN_ONNX, ids=str)
@pytest.mark.every(8)
def test_every_op_on_constants_is_folded_rightly(case: Any) -> None:
    check_folded(case, "float32", opsets.BEST)


@pytest.mark.slow
@pytest.mark.parametrize("case", IN_ONNX, ids=str)
def test_every_op_on_constants_is_folded_rightly_elsewhere(case: Any, subtests: pytest.Subtests) -> None:
    for dtype, opset in (("float64", 20), ("float16", 23), ("float16", 18), ("float32", 18)):
        with subtests.test(dtype=dtype, opset=opset):
            check_folded(case, dtype, opset)


@pytest.mark.slow
@pytest.mark.parametrize("case", IN_ONNX, ids=str)
def test_every_op_holds_in_every_opset(case: Any, subtests: pytest.Subtests) -> None:
    for opset in range(opsets.OLDEST, opsets.newest() + 1):
        for dtype in ("float32", "float16", "float64"):
            with subtests.test(opset=opset, dtype=dtype):
                check_at_opset(case, opset, dtype)


def check_at_opset(case: Any, opset: int, dtype: str) -> None:
    if opset == 17 and (case.op.startswith("bitwise_") or case.attributes.get("reduction") in ("max", "min")):
        if case.op.startswith("bitwise_") and any(np.asarray(x).dtype == bool for x in case.inputs):
            check_onnx(case, dtype, [opset])
            return
        with pytest.raises(ConversionError, match="from opset 18 on"):
            check_onnx(case, dtype, [opset])
        return
    check_onnx(case, dtype, [opset])


@pytest.mark.slow
@pytest.mark.parametrize("fixture", FIXTURES)
@pytest.mark.every(6)
def test_fixtures_pass_the_full_checker(fixture: str, tmp_path: Any) -> None:
    user_file = load(f"fixtures/{fixture}.py")
    program = from_torch(user_file.module, user_file.args, user_file.kwargs, dynamic_shapes=user_file.dynamic_shapes)
    model = checked(to_onnx(program))
    to_onnx(program, tmp_path / "model.onnx", external_data=True)
    onnx.checker.check_model(str(tmp_path / "model.onnx"), full_check=True)
    cells = {
        entry.value for node in model.graph.node for entry in node.metadata_props if entry.key == "cellbridge.cell"
    }
    assert cells <= {str(call) for call in program.calls}
    assert len(cells) > 3
    plain = to_onnx(program, optimize=False)
    assert set(program.parameters) <= set(names(plain.graph.initializer))
    assert len(model.graph.node) <= len(plain.graph.node)


def test_two_draws_of_one_shape_stay_two() -> None:
    class Masks(nn.Module):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return nn.functional.dropout(x, 0.5), nn.functional.dropout(x, 0.5)

    x = torch.ones(64, 64)
    model = to_onnx(from_torch(Masks(), (x,), train=True))
    first, second = run_model(model, {"x": x.numpy()}).values()
    assert (first != second).mean() == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize(
    ("name", "operators"),
    [
        ("many-channels", {"Conv"}),
        ("many-channels-1x1", {"Conv"}),
        ("many-channels-cut", {"ConvTranspose"}),  # the convolution would need a negative padding
        ("3x3", {"ConvTranspose"}),
        ("depthwise-1d", {"Conv"}),
        ("depthwise", {"ConvTranspose"}),
    ],
)
def test_a_transposed_convolution_by_single_steps_is_a_convolution(name: str, operators: set[str]) -> None:
    (case,) = (case for case in IN_ONNX if (case.op, case.name) == ("conv_transpose", name))
    model = to_onnx(one_node_program(case, np.float32))
    assert {node.op_type for node in model.graph.node} & {"Conv", "ConvTranspose"} == operators


def test_a_transposed_convolution_keeps_a_weight_that_the_model_holds() -> None:
    for module in (nn.ConvTranspose2d(2, 64, 3), nn.ConvTranspose2d(2, 2, 3, groups=2)):
        model = exported(module, torch.randn(1, 2, 4, 4))
        assert [node.op_type for node in model.graph.node] == ["ConvTranspose"]


def test_a_cast_to_float32_comes_before_a_transposition() -> None:
    def multiplied(_: Any, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = x.half().transpose(0, 1).float()
        return y @ x.transpose(1, 2), x.reshape(-1, 4)

    model = exported(Function(multiplied), torch.randn(2, 3, 4), torch.randn(3, 5, 4))
    operators = [node.op_type for node in model.graph.node]
    assert operators.index("Transpose") > operators.index("Cast") + 1
    assert operators.count("Transpose") == 2


@pytest.mark.parametrize("train", [False, True], ids=["outputs", "states"])
@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
@pytest.mark.every(6)
def test_the_directions_of_a_recurrent_layer_are_one_node(kind: str, train: bool) -> None:
    class Layers(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.layer = getattr(nn, kind)(3, 4, num_layers=2, bidirectional=True, batch_first=True)

        def forward(self, x: torch.Tensor) -> Any:
            y, states = self.layer(x)
            return (y, states) if train else y

    x = torch.randn(2, 5, 3)
    module = Layers().eval()
    model = to_onnx(from_torch(module, (x,)))
    counts = Counter(node.op_type for node in model.graph.node)
    assert counts[kind] == 2
    if not train:
        assert not counts["Split"]
        assert not counts["Concat"]
    results = list(run_model(model, {"x": x.numpy()}).values())
    expected_results = torch.utils._pytree.tree_leaves(module(x))
    for actual, expected in zip(results, expected_results, strict=True):
        np.testing.assert_allclose(actual, expected.detach().numpy(), rtol=1e-5, atol=1e-6)


def test_directions_over_different_sequences_stay_apart() -> None:
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.GRU(3, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layer(x)[0] + self.layer(2 * x.flip(0))[0].flip(0)

    x = torch.randn(5, 2, 3)
    module = Two().eval()
    model = to_onnx(from_torch(module, (x,)))
    (result,) = run_model(model, {"x": x.numpy()}).values()
    np.testing.assert_allclose(result, module(x).detach().numpy(), rtol=1e-5, atol=1e-6)
