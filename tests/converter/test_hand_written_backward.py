"""The backward of a `torch.autograd.Function` is part of the program."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from cellbridge.converter import from_torch, to_torch
from cellbridge.runtime import compile as compiled
from cellbridge.runtime import load

X = torch.tensor([[0.4, -1.3, 2.2], [1.7, 0.6, -0.2]])


class StraightThrough(Function):
    @staticmethod
    def forward(ctx: Any, x):
        return x.round()

    @staticmethod
    def backward(ctx: Any, g):
        return g


class Reversed(Function):
    @staticmethod
    def forward(ctx: Any, x, alpha):
        ctx.alpha = alpha
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, g):
        return -ctx.alpha * g, None


class SeveralOutputs(Function):
    """With `setup_context`, saved intermediates, an integer output and one that gets no gradient."""

    @staticmethod
    def forward(x, weight, power):
        product = x * weight
        return product, (x > 0).sum(), product**power, x.abs()

    @staticmethod
    def setup_context(ctx: Any, inputs, output):
        x, weight, ctx.power = inputs
        ctx.save_for_backward(x, weight, output[0])
        ctx.mark_non_differentiable(output[3])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, g, count, h, _):
        x, weight, product = ctx.saved_tensors
        total = g + 2 * h * ctx.power * product ** (ctx.power - 1)  # not the derivative
        return total * weight if ctx.needs_input_grad[0] else None, total * x, None


class NoGradient(Function):
    @staticmethod
    def forward(ctx: Any, x):
        return x.sin()

    @staticmethod
    def backward(ctx: Any, g):
        return None


class Clipped(Function):
    """A backward with numbers of its own, in a loop over the axes; `backward` calls another function."""

    @staticmethod
    def forward(ctx: Any, x):
        ctx.kept = x * 2  # in an attribute, as people do
        return x.clone()

    @staticmethod
    def backward(ctx: Any, g):
        return Reversed.apply(g.clamp(-0.5, 0.5) * ctx.kept, 3.0)


class Network(nn.Module):
    def __init__(self, function) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.weight = nn.Parameter(torch.tensor([0.5, -1.0, 2.0]))
        self.function = function

    def forward(self, x):
        return self.function(self.linear(x), self.weight)


FUNCTIONS = {
    "straight through": lambda y, w: StraightThrough.apply(3 * y) * w,
    "reversed": lambda y, w: Reversed.apply(y * w, 0.3).sin(),
    "twice": lambda y, w: Reversed.apply(Reversed.apply(y, 2.0), 0.3) * Reversed.apply(w, 1.0),
    "several outputs": lambda y, w: [x * 1.5 if x.ndim else x for x in SeveralOutputs.apply(y, w, 3)],
    "broadcast": lambda y, w: SeveralOutputs.apply(y, w, 2)[2].sum(0),
    "no gradient": lambda y, w: NoGradient.apply(y) * w,
    "clipped": lambda y, w: Clipped.apply(y).cos() * w,
}


@pytest.mark.parametrize("dynamic", [False, True], ids=["fixed", "dynamic"])
@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
@pytest.mark.every(18)
def test_gradients_are_those_of_the_backward(function, dynamic, tmp_path):
    module = Network(function)
    x = X.clone().requires_grad_()
    outputs = module(x)
    roots = [y for y in (outputs if isinstance(outputs, list) else [outputs]) if y.requires_grad]
    torch.autograd.backward(roots, [torch.ones_like(y) for y in roots])
    program = from_torch(module, (X,), dynamic_shapes=({0: "batch"},) if dynamic else None)
    program.save(tmp_path / "net.cell")
    ways = {
        "program": program,
        "saved": load(tmp_path / "net.cell"),
        "torch and back": from_torch(to_torch(program), (X,)),
        "compiled": compiled(program),
    }
    for name, way in ways.items():
        _, grads = way.value_and_grad(X.numpy())
        of_input = torch.zeros_like(x) if x.grad is None else x.grad
        np.testing.assert_allclose(grads.inputs[0], of_input, rtol=1e-5, atol=1e-6, err_msg=name)
        for parameter, tensor in module.named_parameters():
            expected = torch.zeros_like(tensor) if tensor.grad is None else tensor.grad
            given = grads.parameters[parameter]
            np.testing.assert_allclose(
                0 if given is None else given, expected, rtol=1e-5, atol=1e-6, err_msg=f"{name} {parameter}"
            )


def test_a_stored_apply_is_captured_too():
    apply = StraightThrough.apply  # before any capture
    program = from_torch(Network(lambda y, w: apply(y) * w), (X,))
    assert any(node.op == "own_gradient" for node in program.nodes)
    assert "apply" not in vars(torch.autograd.function._SingleLevelFunction)


class Computed(Function):
    @staticmethod
    def forward(ctx: Any, x):
        return 2 * x

    @staticmethod
    def backward(ctx: Any, g):
        return torch.from_numpy(np.negative(g.numpy()))


class InPlace(Function):
    @staticmethod
    def forward(ctx: Any, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx: Any, g):
        return -g


@pytest.mark.parametrize("function", [Computed, InPlace])
@pytest.mark.every(2)
def test_a_backward_that_cannot_be_captured_is_told(function):
    with pytest.warns(UserWarning, match=rf"the backward of {function.__name__}, .* isn't captured"):
        program = from_torch(Network(lambda y, w: function.apply(y + 0) * w), (X,))
    np.testing.assert_allclose(program(X.numpy()).shape, (2, 3))


def test_the_derivative_takes_its_place_where_that_is_asked_for():
    program = from_torch(Network(FUNCTIONS["no gradient"]), (X,), differentiated=["NoGradient"])
    assert not any(node.op == "own_gradient" for node in program.nodes)
