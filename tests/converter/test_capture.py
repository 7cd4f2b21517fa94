"""`from_torch`: what is captured, what is left alone, and what is refused, with a reason."""

from __future__ import annotations

import contextlib
import copy
import logging
from collections import OrderedDict, defaultdict, namedtuple
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from cellbridge import runtime
from cellbridge.converter import from_torch, to_onnx, to_torch
from cellbridge.converter.capture.tables.table import TABLE
from cellbridge.runtime import ConversionError, Program, UnsupportedOperators, UsageError, load
from cellbridge.runtime.nn import GraphCell
from cellbridge.runtime.programs.call import as_array
from tests.converter.capturing import Function, assert_matches_torch

X, Y = torch.tensor([[0.5, -1.0, 2.0], [3.0, 0.25, -0.5]]), torch.tensor([[1.0, 2.0, 3.0], [-1.0, 0.5, 4.0]])
Point = namedtuple("Point", "x y")


@dataclass
class Batch:
    second: Tensor
    first: Tensor
    mask: Tensor | None = None


torch.export.register_dataclass(Batch)


def nodes_of(program: Program, op: str) -> list[str]:
    """The Cell calls that the nodes of an op belong to."""
    return [str(program.calls[node.cell]) for node in program.nodes if node.op == op]


class Twice(nn.Module):
    """Calls one module twice, the second time by another of its names."""

    def __init__(self) -> None:
        super().__init__()
        self.block = nn.Sequential(nn.Linear(3, 3))
        self.again = self.block

    def forward(self, x: Tensor) -> Tensor:
        return self.again(torch.tanh(self.block(x)))


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.every(2)
def test_the_module_is_left_as_it_was(train: bool) -> None:
    module = nn.Sequential(nn.BatchNorm1d(3), nn.Dropout(0.5))
    module[1].eval()
    before, modes = copy.deepcopy(module.state_dict()), [m.training for m in module.modules()]
    assert from_torch(module, (X,), train=train).train is train
    assert [m.training for m in module.modules()] == modes
    assert not module._forward_hooks
    assert not module[0]._forward_pre_hooks
    for name, tensor in module.state_dict().items():
        assert torch.equal(tensor, before[name]), name
    assert all(p.grad is None for p in module.parameters())


def test_a_failed_capture_restores_the_module_too() -> None:
    module = nn.Sequential(nn.Linear(4, 4)).train()
    with pytest.raises(UsageError):
        from_torch(module, (X,))
    assert module.training
    assert not module._forward_hooks


def test_parameters_are_copies() -> None:
    module = nn.Linear(3, 2)
    program = from_torch(module, (X,))
    before = program(X)
    with torch.no_grad():
        module.weight.zero_()
    np.testing.assert_array_equal(program(X), before)


RESULTS: dict[str, Callable[[Tensor], Any]] = {
    "nested": lambda x: {"a": x + 1, "b": None, "c": [x, (x * 2, 3)]},
    "named tuple": lambda x: (Point(x, x + 1), x),
    "torch's named tuple": lambda x: torch.max(x, dim=1),
    "ordered dict": lambda x: OrderedDict(b=x, a=x + 1),
    "keys that are no strings": lambda x: {1: x, ("a", 2): x + 1},
    "the input itself": lambda x: (x, x),
    "a constant tensor": lambda x: (torch.ones(2), x),
}


@pytest.mark.parametrize("case", RESULTS)
def test_results_keep_their_structure(case: str, tmp_path: Any) -> None:
    program = from_torch(Function(RESULTS[case]), (X,))
    program.save(tmp_path / "p")
    expected = RESULTS[case](X)
    torch_leaves = pytree.tree_leaves(list(expected.values()) if isinstance(expected, dict) else list(expected))
    for candidate in (program, load(tmp_path / "p")):
        result = candidate(X)
        leaves = pytree.tree_leaves(list(result.values()) if isinstance(result, dict) else list(result))
        assert len(leaves) == len(torch_leaves)
        for a, b in zip(leaves, torch_leaves, strict=True):
            assert isinstance(a, np.ndarray) == isinstance(b, Tensor)
            np.testing.assert_array_equal(a, b.numpy() if isinstance(b, Tensor) else b)
    if isinstance(expected, dict):
        assert list(result) == list(expected)


def test_containers_that_only_torch_knows_become_dicts() -> None:
    def grouped(batch: Batch) -> Any:
        groups = defaultdict(list)
        groups["k"].append(batch.second - batch.first)
        return Batch(batch.first, batch.second), groups

    program = from_torch(Function(grouped), (Batch(X, Y),))
    batch, groups = program(Batch(X, Y))
    np.testing.assert_array_equal(batch["second"], Y)
    np.testing.assert_array_equal(batch["first"], X)
    np.testing.assert_array_equal(groups["k"][0], X - Y)
    np.testing.assert_array_equal(program({"first": Y, "second": X})[1]["k"][0], X - Y)


def test_arguments_by_keyword_in_any_order() -> None:
    program = from_torch(Function(lambda x, *, b, a: x + 2 * b - a["deep"][0]), (X,), {"b": Y, "a": {"deep": [X]}})
    np.testing.assert_array_equal(program(X, a={"deep": [X]}, b=Y), 2 * Y)


def test_arguments_that_are_no_tensors_are_frozen() -> None:
    program = from_torch(Function(lambda x, scale, mode: x * scale if mode == "a" else x), (X, 2.0), {"mode": "a"})
    np.testing.assert_array_equal(program(X, 2.0, mode="a"), X * 2)
    with pytest.raises(UsageError, match=r"argument 1: the program was captured with 2.0, given 3.0; capture it again"):
        program(X, 3.0, mode="a")
    with pytest.raises(UsageError, match="argument mode: the program was captured with 'a', given 'b'"):
        program(X, 2.0, mode="b")


def test_inputs_of_every_kind_and_unused_ones() -> None:
    program = from_torch(
        Function(lambda i, flag, x, unused: (x[i] * flag, i + 1, ~flag)),
        (torch.tensor([1, 0]), torch.tensor([True, False, True]), X, Y),
    )
    args = (torch.tensor([0, 1]), torch.tensor([False, True, True]), X, Y)
    (picked, plus, negated), gradients = program.value_and_grad(*args)
    np.testing.assert_array_equal(picked, X * args[1])
    assert (plus.tolist(), negated.tolist()) == ([1, 2], [True, False, False])
    assert [g is None for g in gradients.inputs] == [True, True, False, False]
    assert not gradients.inputs[3].any()


def test_a_module_called_twice_under_two_names() -> None:
    module = Twice()
    program = assert_matches_torch(module, X)
    assert nodes_of(program, "linear") == ["block.0", "block.0@1"]
    assert [str(c) for c in program.calls] == ["(root)", "block", "block.0", "block@1", "block.0@1"]
    assert list(program.parameters) == ["block.0.weight", "block.0.bias"]
    assert program.parameters["block.0.weight"].aliases == ("again.0.weight",)


def test_tied_parameters_are_one() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)
            self.b.weight = self.a.weight

        def forward(self, x: Tensor) -> Any:
            return self.b(self.a(x))

    program = assert_matches_torch(Tied(), X)
    assert list(program.parameters) == ["a.weight", "a.bias", "b.bias"]


def test_another_method_than_forward_runs_in_the_caller() -> None:
    class Other(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.twice = Twice()

        def forward(self, x: Tensor) -> Any:
            return self.twice.block(x) * 2 + self.twice(x)

    program = assert_matches_torch(Other(), X)
    assert nodes_of(program, "linear") == ["twice.block.0", "twice.block.0@1", "twice.block.0@2"]
    assert nodes_of(program, "tanh") == ["twice"]


def test_a_module_without_tensor_inputs_is_a_cell() -> None:
    class Positions(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(3))

        def forward(self) -> Tensor:
            return self.weight.exp()

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.positions = Positions()

        def forward(self, x: Tensor) -> Tensor:
            return x.sin() + self.positions() + self.positions()

    program = assert_matches_torch(Model(), X)
    assert nodes_of(program, "exp") == ["positions", "positions@1"]
    assert nodes_of(program, "sin") == ["(root)"]


def test_in_place_modules_keep_what_they_do() -> None:
    class InPlace(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.relu = nn.ReLU(inplace=True)

        def forward(self, x: Tensor) -> Any:
            y, z = x * 2, x * 3
            self.relu(y)
            self.relu(z[0])
            return y, z

    assert_matches_torch(InPlace(), X)


def test_no_gradient_through_what_runs_without_it() -> None:
    class Cut(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(3, 3)

        def forward(self, x: Tensor) -> Any:
            with torch.no_grad():
                h = self.inner(x)
                with torch.enable_grad():
                    z = self.inner(x) * 2
            return h * x, z, x.detach() * x

    program = assert_matches_torch(Cut(), X)
    assert nodes_of(program, "linear") == ["inner", "inner@1"]


def test_nodes_of_a_call_stand_together_where_its_results_are_detached() -> None:
    """Of a region without gradients, torch says that it ends where it began: in a call that has ended long since."""

    class Steps(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.utils.parametrizations.spectral_norm(nn.Linear(3, 3))

        def forward(self, x: Tensor) -> Tensor:
            with torch.no_grad():
                z = self.inner(x)
            return self.inner(z) + x

    torch.manual_seed(0)
    module = Steps()
    program = from_torch(module, (X,), train=True)
    cell = GraphCell(program)
    np.testing.assert_allclose(cell(runtime.Tensor(X.numpy())).asnumpy(), as_array(module(X)), atol=1e-6)
    assert nodes_of(program, "linear") == ["inner", "inner@1"]


@pytest.mark.filterwarnings("ignore:.*weight_norm` is deprecated")
def test_what_is_refused_of_a_module_that_keeps_computed_tensors_is_told() -> None:
    """`copy.deepcopy` refuses the old weight_norm, so that the module seemed not to run."""

    class Branches(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.utils.weight_norm(nn.Linear(3, 3))

        def forward(self, x: Tensor) -> Tensor:
            return self.inner(x) if x.sum() > 0 else x

    with pytest.raises(ConversionError, match="branches on the value of a tensor"):
        from_torch(Branches(), (X,))


def test_data_is_read_as_what_is_detached() -> None:
    assert_matches_torch(Function(lambda x: x + x.sin() * (x * 2).data), X)


class Tripled(torch.autograd.Function):
    """A hand-written gradient that isn't the derivative."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.exp()

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:  # type: ignore[override]
        return g * 3


def test_of_a_hand_written_function_both_directions_are_captured() -> None:
    program = from_torch(Function(Tripled.apply), (X,))
    result, gradients = program.value_and_grad(X)
    np.testing.assert_allclose(result, X.exp(), rtol=1e-6)
    np.testing.assert_allclose(gradients.inputs[0], np.full(X.shape, 3.0), rtol=1e-6)


class Halved(torch.autograd.Function):
    """After its inner `no_grad`, gradients stay switched off for all that torch.export sees."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        with torch.no_grad():
            half = x / 2
        return half.exp()

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:  # type: ignore[override]
        return g / 2


@pytest.mark.filterwarnings("ignore:the backward of Halved")
def test_what_a_model_hands_out_is_marked_where_gradients_stay_off() -> None:
    program = from_torch(Function(Halved.apply), (X,))
    (result,) = program.outputs
    assert program.producers[result].op == "boundary"
    np.testing.assert_allclose(program(X), (X / 2).exp(), rtol=1e-6)


def test_buffers_are_updated_in_train_mode_alone() -> None:
    module = nn.Sequential(nn.BatchNorm1d(3))
    program = assert_matches_torch(module, torch.cat([X, Y]), train=True)
    assert sorted(program.updates) == ["0.num_batches_tracked", "0.running_mean", "0.running_var"]
    assert not from_torch(module, (X,)).updates


@pytest.mark.parametrize("rows", [1, 2, 7])
@pytest.mark.every(2)
def test_named_dimensions_end_to_end(rows: int) -> None:
    class Model(nn.Module):
        def forward(self, x: Tensor, *, other: Tensor) -> Tensor:
            return torch.cat([x, other]).reshape(-1).unsqueeze(0) * x.shape[0]

    shapes = {"x": {0: torch.export.Dim("rows")}, "other": {0: torch.export.Dim.AUTO}}
    program = from_torch(Model(), (X,), {"other": Y}, dynamic_shapes=shapes)
    assert str(program.inputs[0].type) == "float32[rows, 3]"
    x, other = torch.randn(rows, 3), torch.randn(5, 3)
    np.testing.assert_array_equal(program(x, other=other), Model()(x, other=other))


class Hashed(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.hash_tensor(x).float() + torch.linalg.ldl_factor(x @ x.T)[0]


class Unsupported(nn.Module):
    """Two Cells that use operators without a translation, and one use that depends on another."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Hashed()

    def forward(self, x: Tensor) -> Any:
        y = self.inner(x).sin() + 1
        image = x[None, None].to(torch.uint8)
        return y, torch.nn.functional.interpolate(image, scale_factor=0.5, mode="bilinear", antialias=True)


def test_all_unsupported_operators_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(TABLE, "aten.linalg_ldl_factor_ex.default")
    with pytest.raises(UnsupportedOperators) as refusal:
        from_torch(Unsupported(), (X[:, :2],))
    unsupported = {(name, cell) for name, cell, _ in refusal.value.operators}
    assert {("aten.hash_tensor.default", "inner"), ("aten.linalg_ldl_factor_ex.default", "inner")} <= unsupported
    assert any(name.startswith("aten._upsample_bilinear2d_aa") and cell == "(root)" for name, cell in unsupported)
    assert all("test_capture.py:" in source for _, _, source in refusal.value.operators)
    assert "in Cell inner" in str(refusal.value)
    assert refusal.value.exit_code == 3


REFUSED: dict[str, tuple[Callable[[Tensor], Any], str]] = {
    "a branch on a tensor": (lambda x: x if x.sum() > 0 else -x, r"test_capture\.py:\d+: .*what to do: .*torch\.where"),
    "a size from a tensor": (lambda x: x[: int(x.abs().sum().item())], r"test_capture\.py:\d+: .*what to do: .*"),
}


class Counting(nn.Module):
    """Changes a parameter of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.calls = nn.Parameter(torch.zeros(()), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x * self.calls


def test_a_parameter_changed_in_place_is_refused() -> None:
    with pytest.raises(ConversionError, match="changes 'calls', a parameter, in place"):
        from_torch(Counting(), (X,))


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_a_quantized_module_is_refused() -> None:
    module = torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.Linear(3, 2)), {nn.Linear})
    with pytest.raises(ConversionError, match=r"what to do: .*pass the model that was quantized"):
        from_torch(module, (X,))


@pytest.mark.parametrize("case", REFUSED)
def test_what_can_not_be_captured(case: str) -> None:
    function, message = REFUSED[case]
    with pytest.raises(ConversionError, match=f"(?s){message}"):
        from_torch(Function(function), (X.clone(),))


@pytest.mark.parametrize(
    ("module", "args", "kwargs", "message"),
    [
        (nn.Linear(4, 3), (X,), {}, r"doesn't run on its inputs \(float32\[2, 3\]\): .*(2x3 and 4x3)"),
        (nn.Linear(3, 3), (X, X), {}, "doesn't run on its inputs .*positional arguments"),
        (
            nn.Linear(3, 3),
            (),
            {"y": X},
            r"\(y=float32\[2, 3\]\): .*unexpected keyword argument 'y'\n  in Cell \(root\)",
        ),
        (nn.Linear(3, 3), (X.numpy(),), {}, r"inputs \(NumPy array float32\[2, 3\]\): "),
        (nn.Linear(3, 3), ([X, {"mask": X}],), {}, r"inputs \(\[float32\[2, 3\], \{mask=float32\[2, 3\]\}\]\): "),
        (
            nn.Sequential(nn.ReLU(), nn.Linear(4, 3)),
            (X,),
            {},
            r"in Cell 1, Linear\(in_features=4, out_features=3, ",
        ),
        (nn.Linear(3, 3), X, {}, "args must be a tuple of the positional inputs, given Tensor"),
        (nn.LazyLinear(3), (X,), {}, "no shape yet: weight, bias\n  what to do: call the model once"),
        (Function(lambda x: None), (X,), {}, "returns no tensor: None"),
        (Function(lambda x: {"size": x.shape[0]}), (X,), {}, "returns no tensor: {'size': 2}"),
        (torch.sin, (X,), {}, r"needed a torch\.nn\.Module, given builtin"),
    ],
)
def test_what_is_used_wrongly(module: Any, args: Any, kwargs: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        from_torch(module, args, kwargs)


@contextlib.contextmanager
def log_records() -> Iterator[list[logging.LogRecord]]:
    """What is logged, by loggers that don't propagate too, as torch's."""
    loggers = [log for log in logging.Logger.manager.loggerDict.values() if isinstance(log, logging.Logger)]
    loggers = [logging.getLogger(), *(log for log in loggers if not log.propagate)]
    records: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = records.append  # type: ignore[method-assign]
    for log in loggers:
        log.addHandler(handler)
    try:
        yield records
    finally:
        for log in loggers:
            log.removeHandler(handler)


def test_torch_logs_nothing_about_inputs_that_do_not_fit() -> None:
    with log_records() as records, pytest.raises(UsageError):
        from_torch(nn.Linear(4, 3), (X,))
    assert not [record for record in records if record.name == "torch._subclasses.fake_tensor"]


@pytest.mark.parametrize("shapes", [({0: "n"}, {0: "n"}, None), ({0: "n"}, ({0: "n"}, None))])
@pytest.mark.every(2)
def test_dynamic_shapes_of_arguments_that_are_taken_together(shapes: Any) -> None:
    class Model(nn.Module):
        def forward(self, first: Tensor, *others: Tensor) -> Tensor:
            return first * others[0] + others[1]

    program = from_torch(Model(), (torch.ones(2, 3), torch.ones(2, 3), torch.ones(3)), dynamic_shapes=shapes)
    assert [str(value.shape[0]) for value in program.inputs] == ["n", "n", "3"]


def test_dynamic_shapes_of_another_kind_are_refused() -> None:
    with pytest.raises(UsageError, match=r"dynamic_shapes must be a tuple .* given 'batch'"):
        from_torch(nn.Linear(3, 3), (X,), dynamic_shapes="batch")


@pytest.mark.parametrize("shapes", [({5: "batch"},), {"input": {5: "batch"}}])
def test_an_axis_that_a_tensor_has_not_is_refused(shapes: Any) -> None:
    with pytest.raises(UsageError, match=r"5 is no axis of a tensor of shape \[2, 3\], .* from 0 to 1"):
        from_torch(nn.Linear(3, 3), (torch.ones(2, 3),), dynamic_shapes=shapes)


def test_a_graph_module_is_captured_with_its_cells() -> None:
    traced = torch.fx.symbolic_trace(nn.Sequential(nn.Linear(3, 2), nn.ReLU()))
    program = from_torch(traced, (torch.ones(1, 3),))
    assert [call.path for call in program.calls] == ["", "0", "1"]


@pytest.mark.parametrize(
    ("function", "advice"),
    [
        (lambda x: x * float(x.max()), "converts a tensor's element to a Python number"),
        (lambda x: x + torch.from_numpy(x.numpy()), "NumPy computes outside of torch"),
        (lambda x: x if x.sum() > 0 else -x, "branches on the value of a tensor"),
    ],
)
def test_a_refusal_says_what_to_do(function, advice):
    with pytest.raises(ConversionError) as refusal:
        from_torch(Function(function), (torch.rand(3),))
    assert advice in str(refusal.value)
    assert "test_capture.py" in str(refusal.value)


def test_a_refusal_is_told_by_the_error_alone(capfd):
    with log_records() as records, pytest.raises(ConversionError):
        from_torch(Function(lambda x: x if x.sum() > 0 else -x), (torch.rand(3),))
    assert capfd.readouterr() == ("", "")
    assert not [record for record in records if record.levelname != "DEBUG"]


def _scaled(x: Tensor) -> Tensor:
    with torch.no_grad():
        x.mul_(2.0)
    return x * x


def _scaled_in_part(x: Tensor) -> Tensor:
    with torch.no_grad():
        part = x[:, 1:]
        part.clamp_(max=0.1)
        x.add_(1.0)
        scale = part.abs()
        scale.add_(0.5)
    return x.exp() * scale.sum()


def _scaled_by_its_values(x: Tensor) -> Tensor:
    x.detach()[0].mul_(3.0)
    return x * x


def _masked_twice(x: Tensor) -> Tensor:
    x = x.masked_fill(x > 0.5, -torch.inf)
    with torch.no_grad():
        x[:, 0] = -torch.inf
    return x.softmax(0).nan_to_num() * x.detach().exp()


@pytest.mark.parametrize("change", [_scaled, _scaled_in_part, _scaled_by_its_values, _masked_twice])
@pytest.mark.every(3)
def test_gradients_pass_changes_in_place_that_torch_does_not_record(change: Callable[[Tensor], Tensor]) -> None:
    generator = torch.Generator().manual_seed(0)
    weight, x = (torch.randn(3, 3, generator=generator) for _ in range(2))
    assert_matches_torch(Function(lambda w, x: change(x @ w), weight), x)


class Slope(nn.Module):
    """The gradient of what an inner module gives."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(3, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = x.detach().requires_grad_()
        return torch.autograd.grad(self.inner(x).sum(), x)[0]


class SlopeOfFunction(Slope):
    def forward(self, x: Tensor) -> Tensor:
        return torch.func.grad(lambda y: self.inner(y).sum())(x)  # type: ignore[no-any-return]


class StepOfDescent(Slope):
    """What comes out after a step of descent, as in meta-learning."""

    def forward(self, x: Tensor) -> Tensor:
        (slope,) = torch.autograd.grad(self.inner(x).square().sum(), self.inner.weight, create_graph=True)
        return x @ (self.inner.weight - slope).T


@pytest.mark.parametrize("module", [Slope, SlopeOfFunction, StepOfDescent])
@pytest.mark.every(2)
def test_a_gradient_in_forward_is_what_is_refused(module: type[nn.Module]) -> None:
    with pytest.raises(ConversionError, match=r"(?s)torch.export refuses.*takes a gradient in forward") as caught:
        from_torch(module(), (torch.rand(2, 3),))
    assert max(map(len, str(caught.value).splitlines())) < 700  # torch prints what it knows of a tensor


def test_a_program_has_its_own_parameters_or_reads_the_modules() -> None:
    module, x = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3)).eval(), torch.ones(2, 3)
    copied, shared = from_torch(module, (x,)), from_torch(module, (x,), copy=False)
    before = copied(x)
    np.testing.assert_array_equal(shared(x), before)
    with torch.no_grad():
        module[0].weight.mul_(2)
        module[1].running_mean.add_(1)
    np.testing.assert_array_equal(copied(x), before)
    array = shared.parameters["0.weight"].data
    np.testing.assert_array_equal(array, module[0].weight.detach().numpy())
    assert np.shares_memory(array, module[0].weight.detach().numpy())
    np.testing.assert_array_equal(shared.buffers["1.running_mean"].data, copied.buffers["1.running_mean"].data)
    with pytest.raises(ValueError, match="read-only"):
        array += 1


@pytest.mark.filterwarnings("error")
def test_what_is_made_of_a_program_that_reads_a_module_leaves_the_module_alone(tmp_path: Path) -> None:
    module, x = nn.Linear(3, 3), torch.ones(2, 3)
    weight = module.weight.detach().clone()
    program = from_torch(module, (x,), copy=False)
    to_onnx(program, tmp_path / "model.onnx", external_data=True)
    copied = to_torch(program)
    step = runtime.compile_train_step(
        program, runtime.nn.MSELoss(), lambda p: runtime.optim.SGD(p, 0.1), provider="cpu"
    )
    step(x, torch.zeros(2, 3))
    step.write_back()
    cell = GraphCell(program)
    for parameter in cell.trainable_params():
        parameter.set_data(parameter + 1)
    with torch.no_grad():
        for parameter in copied.parameters():
            parameter.add_(1)
    assert torch.equal(module.weight, weight)
    np.testing.assert_allclose(program(x), module(x).detach().numpy(), rtol=1e-5)  # a sum of three in any order
