"""In-place operators become functional ones, with or without torch tracing a second time: the numbers are torch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from cellbridge.converter import to_torch
from cellbridge.converter.capture import torch_graph
from cellbridge.converter.capture.export import from_torch
from cellbridge.converter.capture.functional import functionalize
from cellbridge.runtime.programs.interpreter import execute
from tests.converter.capturing import Function, assert_close, assert_matches_torch

X = torch.linspace(-1, 2, 16).reshape(4, 4)


def traced_once(module: nn.Module, *args: Tensor, **options: Any) -> bool:
    """Whether torch traced only once; the program computes what torch does, with its gradients."""
    rewritten: list[bool] = []

    def spy(exported: torch.export.ExportedProgram) -> bool:
        rewritten.append(functionalize(exported))
        return rewritten[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch_graph, "functionalize", spy)
        assert_matches_torch(module, *args, **options)
    (once,) = rewritten
    return once


def residual(x: Tensor) -> Tensor:
    y = nn.functional.dropout(x * 2, 0.5, training=False)
    y += x
    return y.relu_()


def written_into(x: Tensor) -> Tensor:
    y = torch.zeros_like(x)
    y.copy_(x)
    y[torch.tensor([0, 2])] = 7.0
    return y


def changed_after_use(x: Tensor) -> tuple[Tensor, Tensor]:
    y = x + 1
    before = y * 3
    y.mul_(2)
    return before, y


def changed_result_of_several(x: Tensor) -> tuple[Tensor, Tensor]:
    values, places = x.topk(2, dim=1)
    values /= values.sum(1, keepdim=True)
    return values, places


@pytest.mark.parametrize("function", [residual, written_into, changed_after_use, changed_result_of_several])
def test_in_place_operators_on_tensors_of_one_name_are_rewritten(function: Callable[..., Any]) -> None:
    assert traced_once(Function(function), X)


def test_a_net_in_eval_mode_is_traced_once() -> None:
    net = nn.Sequential(
        *(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(inplace=True), nn.Dropout(0.2, inplace=True)),
        *(nn.Flatten(), nn.Linear(8, 3), nn.Hardswish(inplace=True)),
    )
    nn.init.uniform_(net[1].running_mean)
    assert traced_once(net, X.reshape(1, 1, 4, 4))


def test_regions_without_gradients_are_written_in_place_with_what_they_hold() -> None:
    class Regions(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(4, 4)

        def forward(self, x: Tensor) -> Tensor:
            with torch.no_grad():
                y = self.inner(x)
                with torch.enable_grad():
                    z = self.inner(y) * x
                    with torch.no_grad():
                        w = self.inner(z)
                y = torch.cond(y.sum() > 0, lambda a: a * 2, lambda a: a - 1, (y,))
            return z + self.inner(y) * w

    module = Regions()
    program = from_torch(module, (X,))
    assert_close("the result", program(X), module(X).detach().numpy(), 1e-5)
    assert all("eval_with_key" not in str(node.source) for node in program.nodes)


class ViewOfChanged(nn.Module):
    """Hands a view of what it changed to a Cell: torch makes the view anew where the Cell takes it."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(2)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        y = x * 2
        y.t().mul_(0.5)  # so that torch has to trace again
        y *= 3
        return self.norm(y.reshape(4, 2, 2)), y


def test_the_view_that_a_cell_takes_is_made_outside_of_it() -> None:
    assert not traced_once(ViewOfChanged(), X)
    program = from_torch(ViewOfChanged(), (X,))
    assert [str(program.calls[node.cell]) for node in program.nodes if node.op == "reshape"] == ["(root)"]
    assert torch.allclose(to_torch(program)(X)[0], ViewOfChanged()(X)[0])


def view_changed(x: Tensor) -> Tensor:
    y = x * 2
    y.t()[0].add_(1)
    return y


def changed_with_view(x: Tensor) -> tuple[Tensor, Tensor]:
    y = x * 2
    rows = y.view(2, 8)
    y.mul_(0.5)
    return y, rows


def maybe_view(x: Tensor) -> tuple[Tensor, Tensor]:
    y = x * 2
    same = y.to(torch.float32).contiguous()
    y.neg_()
    return y, same


def cast_back(x: Tensor) -> Tensor:
    y = (x * 4).to(torch.int64) + 1
    return y.ge_(2)


@pytest.mark.parametrize("function", [view_changed, changed_with_view, maybe_view, cast_back])
@pytest.mark.every(2)
def test_what_has_more_names_than_one_is_left_to_torch(function: Callable[..., Any]) -> None:
    assert not traced_once(Function(function), X)


class Trained(nn.Module):
    """Layers that draw and update in train mode; the norm is called twice."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(4)
        self.bare = nn.BatchNorm1d(4, affine=False)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = nn.functional.dropout(self.norm(self.bare(self.norm(x))), 0.3, self.training)
        return y


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(4))
        self.register_buffer("last", torch.zeros(4, 4), persistent=False)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        before = self.count * 2
        self.count.add_(1).mul_(3)
        self.last.copy_(x)
        return before + self.last, self.count


@pytest.mark.parametrize("module", [Trained(), Counting(), nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.every(2)
def test_in_train_mode_buffers_are_updated_and_torch_traces_once(module: nn.Module, dtype: torch.dtype) -> None:
    assert traced_once(module, X, train=True, dtype=dtype)


class ViewOfBuffer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.ones(4, 4))

    def forward(self, x: Tensor) -> Tensor:
        self.table[1].add_(1)
        return x + self.table


class Tied(nn.Module):
    """Both names are one tensor: what changes one changes the other."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("a", torch.ones(4))
        self.register_buffer("b", self.a)

    def forward(self, x: Tensor) -> Tensor:
        self.a.add_(1)
        return x * self.b


@pytest.mark.parametrize("module", [ViewOfBuffer(), nn.Sequential(nn.AlphaDropout(0.5))])
@pytest.mark.every(2)
def test_other_changes_in_train_mode_are_left_to_torch(module: nn.Module) -> None:
    assert not traced_once(module, X, train=True)


def test_buffers_that_share_their_memory_are_left_to_torch() -> None:
    exported = torch.export.export(Tied(), (X,), strict=False)
    assert not functionalize(exported)


def test_what_a_cell_changes_in_place_is_changed_for_its_caller() -> None:
    class Changing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Function(lambda x: x.mul_(2))

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            y = x + 1
            return self.inner(y), y

    assert traced_once(Changing(), X)


STEPS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "view": lambda x, y: x.view(2, 2, 4).view(4, 4),
    "transposed": lambda x, y: x.t(),
    "maybe the same": lambda x, y: x.contiguous(),
    "dropout in eval mode": lambda x, y: nn.functional.dropout(x, 0.5, training=False),
    "detached": lambda x, y: x.detach(),
    "new": lambda x, y: x * y,
    "add_": lambda x, y: x.add_(y * 1),
    "copy_": lambda x, y: x.copy_(y.clone()),
    "copy_ of one number": lambda x, y: x.copy_(y.sum()),
    "sigmoid_": lambda x, y: x.sigmoid_(),
    "row": lambda x, y: x[1].neg_().expand(4, 4).clone(),
    "masked_fill_": lambda x, y: x.masked_fill_(y > 0, 0.25),
}


INDEX = st.integers(0, 7)


class Sequence(nn.Module):
    """Applies steps to tensors and buffers that it holds; all of them are results."""

    def __init__(self, steps: list[tuple[str, int, int]]) -> None:
        super().__init__()
        self.steps = steps
        self.cell = Function(lambda x: x.mul_(0.5) + 1)
        self.register_buffer("stored", X + 2)
        self.register_buffer("passing", X - 1, persistent=False)

    def forward(self, x: Tensor) -> list[Tensor]:
        held = [x * 1, x + 0.5, self.stored, self.passing]
        for name, i, j in self.steps:
            # torch's decompositions forget to broadcast what is copied into a buffer
            count = 2 if name == "copy_ of one number" else len(held)
            operands = held[i % count], held[j % len(held)]
            held.append(self.cell(operands[0]) if name == "in a Cell" else STEPS[name](*operands))
        return [tensor * 1 for tensor in held]


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["in a Cell", *STEPS]), INDEX, INDEX), min_size=2, max_size=7))
def test_any_sequence_of_views_and_changes_computes_what_torch_does(steps: list[tuple[str, int, int]]) -> None:
    module = Sequence(steps)
    program = from_torch(module, (X,))
    changed = {name: buffer.update for name, buffer in program.buffers.items() if buffer.update is not None}
    updates = dict(zip(changed, execute(program, [X.numpy()], wanted=[*changed.values()]), strict=True))
    with torch.no_grad():
        expected = module(X.clone())
    for name, buffer in module.named_buffers():
        if name in program.buffers:
            assert_close(name, updates.get(name, program.buffers[name].data), buffer.numpy(), 1e-5)
    for actual, tensor in zip(program(X), expected, strict=True):
        assert_close("a tensor", actual, tensor.numpy(), 1e-5)
