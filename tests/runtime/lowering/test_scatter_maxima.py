"""Unpooled values are scattered where ONNX Runtime has no MaxUnpool; the same numbers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from cellbridge.converter import from_torch
from cellbridge.runtime.compiled.executable import lower_values
from cellbridge.runtime.compiled.session import run_model
from cellbridge.runtime.lowering.writing import add_references
from cellbridge.runtime.programs.call import gradient_program


@pytest.mark.parametrize("kernel", [2, 3])
def test_the_gradient_of_a_max_pool_is_scattered(kernel: int) -> None:
    x = torch.randn(2, 3, 7, 6, generator=torch.Generator().manual_seed(0)).mul(2).round().requires_grad_()
    network = nn.Sequential(nn.ReLU(), nn.MaxPool2d(kernel), nn.ReLU())
    gradients = gradient_program(from_torch(network, (x,)))
    gradient = gradients.input_gradients[0]
    assert gradient is not None
    on_cpu, lowering = (lower_values(gradients.program, [gradient], [], provider) for provider in ("cpu", "cuda"))
    assert "MaxUnpool" in {node.op_type for node in on_cpu.graph.nodes}
    model = lowering.model()
    assert "MaxUnpool" not in {node.op_type for node in model.graph.node}

    y = network(x)
    g = torch.randn(y.shape, generator=torch.Generator().manual_seed(1))
    (expected,) = torch.autograd.grad(y, x, g)
    names = [node.name for node in model.graph.input]
    given = dict(zip(names, [x.detach().numpy(), g.numpy()], strict=True))
    (result,) = run_model(model, given, tensors=add_references(model, lowering.initializers())).values()
    np.testing.assert_array_equal(result, expected.numpy())
