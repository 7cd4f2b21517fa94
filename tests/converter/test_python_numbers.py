"""Numbers that Python makes of tensors have no history: no gradient passes by way of them."""

import numpy as np
import pytest
import torch
from torch import nn

from cellbridge import parity
from cellbridge.converter import from_onnx, from_torch, to_onnx, to_torch

X = torch.tensor([[1.0, -2.0, 3.0], [0.5, 4.0, -1.5]])


class Scaled(nn.Module):
    def __init__(self, function) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor(2.0))
        self.function = function

    def forward(self, x):
        return self.function(self.weight, x)


FUNCTIONS = {
    "item of a parameter": lambda w, x: x * w.exp().item() + w,
    "item of an input": lambda w, x: x * x.max().item() * w,
    "arithmetic on an item": lambda w, x: x + (x.abs().sum().item() * 2 + 1) * w,
    "tolist": lambda w, x: x * torch.tensor(x[0].tolist()) * w,
    "a tensor of an item": lambda w, x: x * torch.tensor([w.item(), 1.0, 2.0]) + w,
    "full of an item": lambda w, x: x * torch.full_like(x, w.item() * 3) * w,
    "detach of a parameter": lambda w, x: x * w.detach() * w,
    "detach of what is computed of a parameter": lambda w, x: x * (w * 2).detach() * w,
    "detach of an input": lambda w, x: (x.detach() + x) * w,
    "detach between changes of shape": lambda w, x: x.reshape(6).detach().reshape(2, 3) * x * w,
    "detach of a result": lambda w, x: (x * w).detach() * w + x,
}


@pytest.mark.every(2)
@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_gradients_stop_at_python_numbers(function):
    module = Scaled(function)
    x = X.clone().requires_grad_()
    module(x).sum().backward()
    program = from_torch(module, (X,))
    ways = {
        "program": program,
        "torch and back": from_torch(to_torch(program), (X,)),
        "ONNX and back": from_onnx(to_onnx(program, optimize=False)),
        "optimized ONNX and back": from_onnx(to_onnx(program)),
    }
    for name, way in ways.items():
        grads = way.value_and_grad(X)[1]
        np.testing.assert_allclose(grads.inputs[0], x.grad, rtol=1e-6, err_msg=name)
        np.testing.assert_allclose(grads.parameters["weight"], module.weight.grad, rtol=1e-6, err_msg=name)


def test_a_side_that_lets_gradients_pass_by_a_number_is_found():
    """The checker sees it: the same network that multiplies by the tensor itself."""
    report = parity.compare(Scaled(FUNCTIONS["item of an input"]), Scaled(lambda w, x: x * x.max() * w), (X,))
    assert not report.ok
