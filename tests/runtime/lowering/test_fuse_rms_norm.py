"""A root mean square norm that a model computes step by step is one operator, or what ONNX Runtime makes one of."""

from __future__ import annotations

from collections.abc import Callable

import onnx
import pytest
import torch
from torch import Tensor, nn

from cellbridge.converter import from_torch, to_onnx
from cellbridge.runtime.compiled.session import Session

FUSED = "RMSNormalization"


class Norm(nn.Module):
    """A norm whose steps can be exchanged."""

    def __init__(self, compute: Callable[[Tensor, Tensor], Tensor], size: int = 6) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(size, generator=torch.manual_seed(0)) + 0.5)
        self.compute = compute

    def forward(self, x: Tensor) -> Tensor:
        return self.compute(x, self.weight)


def exported(compute: Callable[[Tensor, Tensor], Tensor], opset: int, x: Tensor) -> tuple[onnx.ModelProto, Tensor]:
    """The model, and the largest relative error of ONNX Runtime's result."""
    module = Norm(compute).to(x.dtype)
    model = to_onnx(from_torch(module, (x,)), opset=opset)
    expected = module(x).detach()
    (result,) = Session(model).run({model.graph.input[0].name: x.numpy()}).values()
    return model, ((torch.from_numpy(result) - expected).abs() / expected.abs()).max()


FORMS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "squares": lambda x, w: w * (x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5)),
    "power": lambda x, w: x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * w,
    "reciprocal": lambda x, w: x * (1e-5 + x.pow(2).mean(2, keepdim=True)).sqrt().reciprocal() * w,
}
OTHERS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "another axis": lambda x, w: w * (x * torch.rsqrt((x * x).mean(1, keepdim=True) + 1e-5)),
    "all axes": lambda x, w: w * (x * torch.rsqrt((x * x).mean((1, 2), keepdim=True) + 1e-5)),
    "a cube": lambda x, w: w * (x * torch.rsqrt(x.abs().pow(3).mean(-1, keepdim=True) + 1e-5)),
    "squares of another tensor": lambda x, w: w * (x * torch.rsqrt((x.exp() * x.exp()).mean(-1, keepdim=True) + 1e-5)),
    "another factor": lambda x, w: w * (x.exp() * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5)),
    "an epsilon for each element": lambda x, w: x * torch.rsqrt((x * x).mean(-1, keepdim=True) + w.detach()) * w,
    "a scale that is computed": lambda x, w: x[0, 0].exp() * (x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5)),
    "used twice": lambda x, w: (lambda y: w * y + y)(x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5)),
}
X = torch.randn(2, 3, 6, generator=torch.manual_seed(1))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.every(2)
def test_the_forms_that_models_have(form: str) -> None:
    model, error = exported(FORMS[form], 23, X)
    assert [node.op_type for node in model.graph.node] == [FUSED]
    assert error < 1e-5
    assert model.graph.node[0].attribute[0].name in ("axis", "epsilon")
    older, error = exported(FORMS[form], 18, X)
    assert [node.op_type for node in older.graph.node] == ["Pow", "ReduceMean", "Add", "Sqrt", "Div", "Mul"]
    assert error < 1e-5


@pytest.mark.parametrize("opset", [18, 23])
@pytest.mark.parametrize("computation", OTHERS)
def test_other_computations_stay(computation: str, opset: int) -> None:
    model, error = exported(OTHERS[computation], opset, X)
    types = {node.op_type for node in model.graph.node}
    assert FUSED not in types
    assert "Div" not in types
    assert error < 1e-5


def test_float64_keeps_its_epsilon() -> None:
    model, error = exported(FORMS["squares"], 23, X.double() * 1e-3)
    assert FUSED not in {node.op_type for node in model.graph.node}
    assert error < 1e-14


def test_it_is_one_node_in_onnxruntime_below_opset_23(tmp_path: object) -> None:
    import onnxruntime

    model, _ = exported(FORMS["power"], 18, X)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.optimized_model_filepath = f"{tmp_path}/optimized.onnx"
    onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    optimized = onnx.load(f"{tmp_path}/optimized.onnx")
    assert [node.op_type for node in optimized.graph.node] == ["SimplifiedLayerNormalization"]
