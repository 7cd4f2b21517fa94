"""`compare` and `check`: pairs, messages without a pair, and options."""

from __future__ import annotations

import copy
import gc
import warnings
import weakref
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import cellbridge.runtime as ms
from cellbridge import converter, parity
from cellbridge.parity.results.comparison import PASS, SKIPPED, UNPAIRED
from cellbridge.parity.sides import torch_program
from cellbridge.runtime.errors import ParityError, UsageError
from tests.parity.networks import mixed


def _with_axis_fault() -> tuple[nn.Module, nn.Module, tuple[Tensor, ...]]:
    module, args = mixed()
    faulty = copy.deepcopy(module)
    faulty.softmax.dim = 2
    return module, faulty, args


class Renamed(nn.Module):
    """`Mixed` with another name for its convolution, and for its argument."""

    def __init__(self, mixed: nn.Module) -> None:
        super().__init__()
        self.convolution = mixed.conv
        for name in ("bn", "act1", "norm", "act2", "softmax", "head"):
            setattr(self, name, getattr(mixed, name))

    def forward(self, images: Tensor) -> Tensor:
        y = self.act1(self.bn(self.convolution(images)))
        return self.head(self.softmax(self.act2(self.norm(y))) + 0.5 * y)


class OtherArgument(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, other: Tensor) -> Tensor:
        return self.linear(other)


def test_a_cell_without_counterpart_does_not_pass_in_silence() -> None:
    module, args = mixed()
    report = parity.compare(module, Renamed(module).eval(), args)
    assert report.cells["conv"].status == UNPAIRED
    assert {"conv", "conv.weight", "conv.bias"} <= {difference.name for difference in report.structure}


class Linear(nn.Module):
    def __init__(self, results: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.results = nn.Linear(3, 3), results

    def forward(self, x: Tensor) -> Any:
        y = self.layer(x)
        return y if self.results == 1 else (y, y * 2)


@pytest.mark.parametrize("grads", [True, False])
@pytest.mark.every(2)
def test_results_of_another_number(grads: bool) -> None:
    one_result, two_results, args = Linear(1), Linear(2), (torch.randn(2, 3),)
    program = converter.from_torch(two_results, args)
    report = parity.compare(one_result, two_results, args, grads=grads)  # of two modules, what both return is compared
    assert report.ok is not parity.compare(one_result, two_results, args, grads=grads, strict=True).ok
    assert "of the candidate has no partner and was not compared" in report.structure[0].text
    for candidate in (program, converter.to_onnx(program)):
        report = parity.compare(one_result, candidate, args, grads=grads)
        assert report.failing == [""]
        assert all(c.reason.startswith("returns ") for c in report.cells[""].failures)
    report = parity.compare(two_results, one_result, args, grads=grads)
    assert report.ok
    assert "in 1 of 2 results" in report.conditions_in_words
    assert not parity.compare(two_results, one_result, args, grads=grads, strict=True).ok


class Reshaped(Linear):
    def __init__(self, how: str) -> None:
        super().__init__(1)
        self.how = how

    def forward(self, x: Tensor) -> Any:
        y = super().forward(x)
        return {"as it is": y, "flat": y.flatten(), "kept": y[:, :, None], "complex": torch.complex(y, y)}[self.how]


@pytest.mark.parametrize("how", ["flat", "kept", "complex"])
@pytest.mark.every(3)
def test_results_of_another_shape(how: str) -> None:
    plain, reshaped, args = Reshaped("as it is"), Reshaped(how), (torch.randn(2, 3),)
    for reference, candidate in ((plain, reshaped), (reshaped, plain)):
        report = parity.compare(reference, candidate, args)
        assert report.failing == [""]
        assert all(c.reason.startswith("shape [") for c in report.cells[""].failures)
        assert report.cells["layer"].status == PASS


@pytest.mark.parametrize("reference", [3, ms.nn.Dense(3, 3)])
def test_what_can_not_be_the_reference(reference: Any) -> None:
    with pytest.raises(UsageError, match=r"^the reference must be a torch module or a program, given (int|Dense)$"):
        parity.compare(reference, Linear(1), (torch.randn(2, 3),))


def test_arguments_are_paired_by_position() -> None:
    class Argument(OtherArgument):
        def forward(self, x: Tensor) -> Tensor:
            return self.linear(x)

    reference, candidate = Argument(), OtherArgument()
    candidate.load_state_dict(reference.state_dict())
    assert parity.compare(reference, candidate, (torch.randn(2, 3),)).ok


def test_a_parameter_that_one_side_lacks() -> None:
    reference, args = mixed()
    candidate = copy.deepcopy(reference)
    candidate.extra = nn.Parameter(torch.ones(2))
    for report in (parity.compare(reference, candidate, args), parity.compare(candidate, reference, args)):
        assert report.ok
        assert [difference.name for difference in report.structure] == ["extra"]


def test_a_frozen_parameter() -> None:
    reference, args = mixed()
    candidate = copy.deepcopy(reference)
    candidate.head.weight.requires_grad_(False)
    assert parity.compare(reference, candidate, args).failing == ["head"]
    assert parity.compare(candidate, reference, args).failing == ["head"]
    assert parity.compare(reference, converter.from_torch(candidate, args), args).failing == ["head"]
    assert parity.check(candidate, args).ok


def test_a_buffer_that_differs() -> None:
    reference, args = mixed()
    candidate = copy.deepcopy(reference)
    candidate.bn.running_var.mul_(1.01)
    assert parity.compare(reference, candidate, args).failing == ["bn"]


class Calls(nn.Module):
    """Calls one Cell twice; `fault` is the error of the second call."""

    class Scale(nn.Module):
        def forward(self, x: Tensor, factor: float) -> Tensor:
            return x * factor

    def __init__(self, fault: float = 1.0) -> None:
        super().__init__()
        self.scale = self.Scale()
        self.fault = fault

    def forward(self, x: Tensor) -> Tensor:
        return self.scale(self.scale(x, 2.0), 3.0 * self.fault)


def test_a_fault_in_the_second_call() -> None:
    report = parity.compare(Calls(), Calls(1.001), (torch.randn(3),))
    assert {
        (path, c.call) for path in report.failing for c in report.cells[path].failures if c.feeding == "isolated"
    } == {("scale", 1)}


class Tied(nn.Module):
    """An embedding and a head with one weight; `function` multiplies by it in the head."""

    class Head(nn.Linear):
        function: Any = None

        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x) if self.function is None else self.function.apply(x, self.weight)

    class DoubledGradient(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, weight: Tensor) -> Tensor:
            ctx.save_for_backward(x, weight)
            return x @ weight.T

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> tuple[Tensor, Tensor]:
            x, weight = ctx.saved_tensors
            return g @ weight, 2 * torch.einsum("bo,bi->oi", g, x)

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(7, 5)
        self.head = self.Head(5, 7, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(torch.tanh(self.embedding(ids)))


def test_a_shared_weight_with_a_fault_in_one_of_its_users() -> None:
    reference, args = Tied(), (torch.tensor([1, 2, 3]),)
    candidate = copy.deepcopy(reference)
    assert parity.compare(reference, candidate, args).ok
    candidate.head.function = Tied.DoubledGradient
    assert parity.compare(reference, candidate, args).failing == ["head"]


class Logarithm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.relu, self.inner = nn.ReLU(), nn.ModuleList([nn.Identity(), self.Log()])

    class Log(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.log(x - 100)

    def forward(self, x: Tensor) -> Tensor:
        return self.inner[0](self.inner[1](self.relu(x))) + 1


def test_outputs_that_are_nan_name_the_first_cell_that_makes_them() -> None:
    with pytest.raises(UsageError, match=r"NaN.*\n.*inner\.1 "):
        parity.compare(Logarithm(), Logarithm(), (torch.randn(3),))


def test_inputs_of_no_sample_are_refused() -> None:
    with pytest.raises(UsageError, match=r"no elements.*shape is \[0, 2\]\n.*at least one sample"):
        parity.check(nn.Linear(2, 2), (torch.ones(0, 2),))


def test_infinity_inside_and_on_both_sides_is_compared() -> None:
    class Masked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mask, self.softmax = nn.Identity(), nn.Softmax(-1)

        def forward(self, x: Tensor) -> Tensor:
            above = torch.ones(4, 4, dtype=torch.bool).triu(1)
            return self.softmax(self.mask(x.masked_fill(above, float("-inf"))))

    args = (torch.randn(4, 4),)
    assert parity.compare(Masked(), Masked(), args).ok
    assert parity.check(Masked(), args).ok


def test_integer_outputs_are_compared() -> None:
    class Best(nn.Module):
        def __init__(self, shift: int = 0) -> None:
            super().__init__()
            self.shift = shift

        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            return x * 2, x.argmax(-1) + self.shift

    args = (torch.randn(4, 6),)
    assert parity.check(Best(), args).ok
    report = parity.compare(Best(), Best(1), args)
    assert {c.tensor for c in report.cells[""].failures} == {"[1]"}


class Dropouts(nn.Module):
    """Two linear Cells with dropouts; `late` drops after the linear, else before it."""

    def __init__(self, p: float = 0.1, late: bool = True) -> None:
        super().__init__()
        self.linear, self.drop, self.after, self.drop2 = (
            nn.Linear(6, 6),
            nn.Dropout(p),
            nn.Linear(6, 6),
            nn.Dropout(0.1),
        )
        self.late = late

    def forward(self, x: Tensor) -> Tensor:
        y = self.drop(self.linear(x)) if self.late else self.linear(self.drop(x))
        return self.drop2(self.after(y))


@pytest.mark.parametrize(("fault", "failing"), [({}, []), ({"p": 0.2}, ["drop"]), ({"late": False}, [""])])
@pytest.mark.every(3)
def test_dropout(fault: dict[str, Any], failing: list[str]) -> None:
    reference, candidate, args = Dropouts(), Dropouts(**fault), (torch.randn(8, 6),)
    candidate.load_state_dict(reference.state_dict())
    assert parity.compare(reference, candidate, args, train=True).failing == failing
    program = converter.from_torch(candidate, args, train=True)
    assert parity.compare(reference, program, args, train=True).failing == failing


def test_a_dropout_that_draws_nothing_is_the_only_one_named() -> None:
    reference, candidate, args = Dropouts(), Dropouts(p=0.0), (torch.randn(8, 6),)
    candidate.load_state_dict(reference.state_dict())
    assert parity.compare(reference, candidate, args, train=True).failing == ["drop"]


def test_a_module_that_draws_in_eval_mode_is_replayed() -> None:
    class Noisy(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x + torch.rand(x.shape[0], 1)

    assert parity.check(Noisy(), (torch.randn(4, 6),)).ok


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
@pytest.mark.every(3)
def test_dtypes(dtype: str) -> None:
    reference, candidate, args = _with_axis_fault()
    assert parity.compare(reference, copy.deepcopy(reference), args, dtype=dtype).ok
    assert parity.compare(reference, candidate, args, dtype=dtype).failing == ["softmax"]


def test_no_gradients() -> None:
    reference, candidate, args = _with_axis_fault()
    report = parity.compare(reference, candidate, args, grads=False)
    assert report.failing == ["softmax"]
    assert not any(cell.gradients for cell in report.cells.values())


def test_loss() -> None:
    reference, candidate, args = _with_axis_fault()
    assert parity.compare(reference, reference, args, loss=lambda outputs: outputs.square().mean()).ok
    assert parity.compare(reference, candidate, args, loss=lambda outputs: outputs.square().mean()).failing == [
        "softmax"
    ]


def test_only_and_skip() -> None:
    reference, candidate, args = _with_axis_fault()
    report = parity.compare(reference, candidate, args, only=["soft*"])
    assert report.failing == ["softmax"]
    assert report.cells["norm"].status == SKIPPED
    assert parity.compare(reference, candidate, args, skip=["softmax"]).cells["softmax"].status == SKIPPED
    with pytest.raises(UsageError, match="nothing\\*"):
        parity.compare(reference, candidate, args, only=["nothing*"])


def test_fail_fast_stops_and_says_so() -> None:
    reference, candidate, args = _with_axis_fault()
    report = parity.compare(reference, candidate, args, fail_fast=True)
    whole = parity.compare(reference, candidate, args)
    assert report.failing == ["softmax"]
    assert any("fail-fast" in note for note in report.notes)
    assert len(report.cells["softmax"].comparisons) < len(whole.cells["softmax"].comparisons)


def test_assert_parity() -> None:
    reference, candidate, args = _with_axis_fault()
    parity.assert_parity(reference, reference, args)
    with pytest.raises(ParityError, match="softmax"):
        parity.assert_parity(reference, candidate, args)


def test_the_modules_are_left_as_they_were() -> None:
    module, args = mixed()
    module.train()
    before = copy.deepcopy(module.state_dict())
    parity.check(module, args, train=True)
    parity.compare(module, module, args)
    assert module.training
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    assert all(p.grad is None for p in module.parameters())


class Negated(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return 2 * x

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:  # type: ignore[override]
        return -g


class WithBackward(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        warnings.warn("of the user's own", UserWarning, stacklevel=1)
        return Negated.apply(x)


def test_what_a_conversion_warns_of_is_a_note() -> None:
    with pytest.warns(UserWarning, match="of the user's own"):
        report = parity.check(WithBackward(), (torch.randn(2, 3),))
    assert not report.ok
    (note,) = report.notes
    assert "the backward of Negated (torch.autograd.Function) isn't the derivative of its forward" in note


def test_a_judged_network_is_let_go() -> None:
    module, args = mixed()
    parity.check(module, args)
    held = [weakref.ref(parameter) for parameter in module.parameters()]
    del module
    gc.collect()
    assert [reference() for reference in held] == [None] * len(held)


class HooksItself(nn.Module):
    """Installs a hook at its first call, and records that, as transformers does to record hidden states."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        if not getattr(self, "hooked", False):
            self.inner.register_forward_hook(lambda module, args, result: 2 * result)
            self.hooked = True
        return self.inner(x)


def test_hooks_that_the_first_call_installs_are_not_left_behind() -> None:
    module = HooksItself()
    assert parity.check(module, (torch.randn(2, 3),)).ok
    assert not module.inner._forward_hooks


class InDouble(nn.Module):
    """Computes a part in float64, with a buffer of its own for it."""

    def __init__(self, scale: float = 1.0) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("transform", torch.linspace(-1, 1, 16, dtype=torch.float64).reshape(4, 4) * scale)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (self.linear(x).double() @ self.transform).float()


def test_a_buffer_of_another_dtype_is_computed_with_as_it_is() -> None:
    torch.manual_seed(0)
    x = torch.randn(3, 4)
    right, wrong = InDouble(), InDouble(scale=1 + 1e-4)
    wrong.linear.load_state_dict(right.linear.state_dict())
    assert parity.check(right, (x,), round_trip=True).ok
    assert parity.compare(right, right, (x,)).ok
    assert not parity.compare(right, wrong, (x,)).ok


class Sorted(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x.argsort(dim=0, stable=True), x.sort(1, descending=True)[1], x.nanmedian(1)[0]


def test_what_sorts_equal_elements_comes_back_by_onnx() -> None:
    ties = torch.arange(64.0).reshape(4, 16) % 5
    report = parity.check(Sorted(), (ties,), round_trip=True, grads=False)
    assert report.ok, str(report)


class Counting(nn.Module):
    """Changes a buffer in eval mode, too."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("seen", torch.zeros(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            self.seen.add_(x.sum(0))
        return self.linear(x) + self.seen


def test_a_buffer_changed_in_eval_mode_comes_back_by_the_program_alone() -> None:
    report = parity.check(Counting(), (torch.randn(3, 4),), round_trip=True)
    assert report.ok, str(report)
    updates = {c.side for c in report.cells[""].comparisons if c.kind == "buffer update"}
    assert updates == {"interpreter", "onnxruntime", "torch from IR"}


def test_tensors_of_a_call_are_paired_by_name_where_one_side_has_more() -> None:
    class Inner(nn.Module):
        def forward(self, x: Tensor, mask: Tensor | None = None, scale: Tensor | None = None) -> Tensor:
            return (x if mask is None else x * mask) * scale

    class Outer(nn.Module):
        def __init__(self, *, masked: bool) -> None:
            super().__init__()
            self.inner = Inner()
            self.masked = masked

        def forward(self, x: Tensor) -> Tensor:
            return self.inner(x, torch.ones(3, 1) if self.masked else None, scale=x.sum(0))

    assert parity.compare(Outer(masked=False), Outer(masked=True), (torch.randn(3, 4),)).ok


@pytest.mark.parametrize("judge", [parity.check, parity.check_training])
def test_parameters_without_a_shape_are_refused(judge: Any) -> None:
    with pytest.raises(UsageError, match="no shape yet: weight, bias"):
        judge(nn.LazyLinear(3), (torch.ones(1, 2),))


class Recurrent(nn.Module):
    """The parts of a recurrent layer's result that are used: output, last state, last memory."""

    def __init__(self, read: int) -> None:
        super().__init__()
        self.rnn, self.fc = nn.LSTM(4, 5), nn.Linear(5, 3)
        self.read = read

    def forward(self, x: Tensor) -> Tensor:
        y, (h, c) = self.rnn(x)
        return self.fc((y[-1], h[-1], c[-1])[self.read])


@pytest.mark.parametrize("read", [0, 2])
@pytest.mark.every(2)
def test_who_reads_another_output_is_at_fault_and_not_who_makes_it(read: int) -> None:
    reference, candidate = Recurrent(1), Recurrent(read)
    candidate.load_state_dict(reference.state_dict())
    args = (torch.randn(3, 2, 4),)
    assert parity.compare(reference, candidate, args).failing == [""]
    assert parity.compare(
        converter.from_torch(reference, args), converter.from_torch(candidate, args), args
    ).failing == [""]


@pytest.mark.parametrize("asked", [{}, {"dim": 0}, {"largest": False}, {"sorted": False, "dim": 1}])
@pytest.mark.every(3)
def test_the_indices_of_equal_elements_are_the_first_on_every_side(asked: dict[str, Any]) -> None:
    class Top(nn.Module):
        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            values, indices = torch.topk(x.relu(), 5, **asked)
            return values, indices

    class Other(Top):
        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            values, indices = super().forward(x)
            return values, indices + (values == 0)

    args = (torch.randn(20, 20, generator=torch.Generator().manual_seed(0)),)
    assert parity.check(Top(), args).ok
    assert parity.compare(Top(), Other(), args).ok is ((torch.topk(args[0].relu(), 5, **asked)[0] != 0).all().item())


class TripledGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return gradient * 3


class WithWrongGradient(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = TripledGradient.apply(x)
        return y


@pytest.mark.causes
def test_causes_are_looked_for_in_the_program_that_was_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    captures = []

    def counted(*args: Any, **kwargs: Any) -> Any:
        captures.append(kwargs.get("differentiated"))
        return converter.from_torch(*args, **kwargs)

    monkeypatch.setattr(torch_program, "from_torch", counted)
    report = parity.check(WithWrongGradient(), (torch.randn(3, 4),))
    assert report.failing
    assert [bool(differentiated) for differentiated in captures] == [False, True]


class HalfPrecisionResult(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).half()


def test_a_dtype_that_double_precision_hides_is_found() -> None:
    """In float64, casts have no effect, so the dtypes of outputs are compared in a run in float32, too."""
    module = nn.Linear(3, 2)
    candidate = nn.Sequential(copy.deepcopy(module))
    x = torch.randn(4, 3)
    assert parity.compare(nn.Sequential(module), candidate, (x,), dtype="float64").ok
    half = HalfPrecisionResult(3, 2)
    half.load_state_dict(module.state_dict())
    report = parity.compare(module, half, (x,), dtype="float64")
    (failure,) = [c for cell in report.cells.values() for c in cell.failures]
    assert "dtype float16, needed float32" in (failure.reason or "")
