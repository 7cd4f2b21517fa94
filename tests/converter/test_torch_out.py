"""Programs as torch modules: their structure, their state, and that they compute and train as the originals do."""

from __future__ import annotations

import copy
import io
import pickle
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.export import Dim
from torch.utils import _pytree as pytree

from cellbridge.converter import from_torch, to_cell_source, to_onnx, to_torch
from cellbridge.converter.capture.cell_hooks import watch
from cellbridge.converter.torch_out.modules import VaryingCell
from cellbridge.runtime.errors import ConversionError, UsageError
from cellbridge.runtime.ir.types import BFLOAT16, CellCall
from cellbridge.runtime.programs.gradient_program import differentiate
from cellbridge.runtime.tree import TENSOR, Structure
from tests.converter.capturing import Function
from tests.converter.test_control_flow import MODULES as CONTROL_FLOW
from tests.converter.test_control_flow import Branches
from tests.converter.test_data_dependent import CASES as DATA_DEPENDENT


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.layers = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
        self.scale = nn.Parameter(torch.tensor(0.5))

    def forward(self, x: Tensor, *, mask: Tensor | None = None) -> Tensor:
        y: Tensor = self.layers(self.norm(x)) * self.scale
        return x + (y if mask is None else y * mask[..., None])


class Tied(nn.Module):
    """Shares a parameter between two modules, calls one twice, and takes and gives structured values."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(10, 8)
        self.blocks = nn.ModuleList(Block(8) for _ in range(2))
        self.head = nn.Linear(8, 10, bias=False)
        self.head.weight = self.embedding.weight
        self.register_buffer("positions", torch.randn(16, 8))
        self.blocks[1].norm.weight.requires_grad_(False)

    def forward(self, inputs: dict[str, Tensor], others: tuple[Tensor, Tensor], scale: float = 2.0) -> dict[str, Any]:
        x = self.embedding(inputs["ids"]) + self.positions[: inputs["ids"].shape[1]]
        for block in (*self.blocks, self.blocks[0]):
            x = block(x, mask=inputs["mask"])
        return {"logits": self.head(x * scale), "rest": (x, [others[0] + others[1].long()])}


def tied_arguments(batch: int = 3, time: int = 5) -> tuple[Any, ...]:
    generator = torch.Generator().manual_seed(batch)
    ids = torch.randint(0, 10, (batch, time), generator=generator)
    mask = torch.rand(batch, time, generator=generator)
    return {"ids": ids, "mask": mask}, (torch.arange(4), torch.ones(4))


def leaves(tree: Any) -> list[Tensor]:
    return [leaf for leaf in pytree.tree_leaves(tree) if isinstance(leaf, Tensor)]


def assert_same_step(
    original: nn.Module, made: nn.Module, args: tuple[Any, ...], *, absent_is_zero: bool = False, **kwargs: Any
) -> None:
    """Outputs, gradients and buffers after a step forward and backward.

    `absent_is_zero`: torch.cond gives zeros to the branch that wasn't taken, plain Python nothing.
    """
    results = []
    for module in (original, made):
        module.zero_grad()
        torch.manual_seed(0)
        outputs = leaves(module(*args, **kwargs))
        differentiable = [y for y in outputs if y.requires_grad]
        if differentiable:
            torch.autograd.backward(differentiable, [torch.cos(torch.arange(y.numel()).reshape(y.shape).to(y.dtype))
                                                     for y in differentiable])  # fmt: skip
        results.append((outputs, {n: p.grad for n, p in module.named_parameters()}, dict(module.named_buffers())))
    (outputs, gradients, buffers), (made_outputs, made_gradients, made_buffers) = results
    for expected, actual in zip(outputs, made_outputs, strict=True):
        assert expected.dtype == actual.dtype
        torch.testing.assert_close(actual, expected)
    assert made_gradients.keys() == gradients.keys()
    for name, gradient in gradients.items():
        if absent_is_zero and made_gradients[name] is None:
            assert gradient is None or not gradient.any()
            continue
        assert (made_gradients[name] is None) == (gradient is None), name
        if gradient is not None:
            torch.testing.assert_close(made_gradients[name], gradient)
    for name, buffer in buffers.items():
        torch.testing.assert_close(made_buffers[name], buffer)


class Visits:
    """What hooks at the boundaries of modules see."""

    def __init__(self) -> None:
        self.calls: list[CellCall] = []
        self.tensors: list[tuple[int, str, Tensor]] = []

    def enter(self, number: int, call: CellCall, module: nn.Module, slots: Sequence[str]) -> None:
        self.calls.append(call)

    def input(self, number: int, position: int, slot: str, tensor: Tensor) -> Tensor:
        self.tensors.append((number, f"input {slot}", tensor.detach().clone()))
        return tensor.clone()

    def returns(self, number: int, result: Any, slots: Sequence[str]) -> None:
        pass

    def output(self, number: int, position: int, slot: str, tensor: Tensor) -> Tensor:
        self.tensors.append((number, f"output {slot}", tensor.detach().clone()))
        return tensor.clone()

    def leave(self, number: int, module: nn.Module) -> None:
        pass


def visits_of(module: nn.Module, *args: Any, **kwargs: Any) -> Visits:
    visitor = Visits()
    with watch(module, visitor):
        module(*args, **kwargs)
    return visitor


@pytest.fixture(scope="module")
def tied() -> Tied:
    torch.manual_seed(1)
    return Tied().eval()


@pytest.fixture(scope="module")
def made(tied: Tied) -> nn.Module:
    return to_torch(from_torch(tied, tied_arguments()))


def test_it_computes_and_trains_as_the_original(tied: Tied, made: nn.Module) -> None:
    assert_same_step(tied, made, tied_arguments())


def test_its_state_dict_is_the_originals(tied: Tied, made: nn.Module) -> None:
    assert list(made.state_dict()) == list(tied.state_dict())
    assert made.head.weight is made.embedding.weight
    assert [n for n, p in made.named_parameters() if not p.requires_grad] == ["blocks.1.norm.weight"]
    source = Tied()
    made_copy = copy.deepcopy(made)
    made_copy.load_state_dict(source.state_dict())
    assert_same_step(source.eval(), made_copy, tied_arguments())


def test_hooks_at_its_modules_see_what_they_see_at_the_originals(tied: Tied, made: nn.Module) -> None:
    expected, actual = visits_of(tied, *tied_arguments()), visits_of(made, *tied_arguments())
    assert actual.calls == expected.calls
    assert [(n, slot) for n, slot, _ in actual.tensors] == [(n, slot) for n, slot, _ in expected.tensors]
    for (_, _, a), (_, _, b) in zip(actual.tensors, expected.tensors, strict=True):
        torch.testing.assert_close(a, b)


def test_its_code_is_readable(made: nn.Module) -> None:
    block = made.get_submodule("blocks.0")
    assert "def forward(self, x, mask)" in block.code
    assert "norm = self.norm(x)" in block.code
    assert "self.scale" in block.code


def test_its_parameters_are_copies(tied: Tied) -> None:
    program = from_torch(tied, tied_arguments())
    module = to_torch(program)
    with torch.no_grad():
        module.embedding.weight.zero_()
    assert np.any(program.parameters["embedding.weight"].data)
    assert torch.any(tied.embedding.weight)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))], ids=["copied", "pickled"])
def test_a_copy_is_whole_and_apart(tied: Tied, made: nn.Module, copied: Callable[[nn.Module], nn.Module]) -> None:
    twin = copied(made)
    assert list(twin.state_dict()) == list(made.state_dict())
    assert twin.head.weight is twin.embedding.weight
    assert type(twin).__name__ == "Tied"
    assert_same_step(tied, twin, tied_arguments())
    with torch.no_grad():
        twin.embedding.weight.zero_()
    assert_same_step(tied, made, tied_arguments())


def test_it_is_saved_and_loaded_by_torch(tied: Tied, made: nn.Module) -> None:
    file = io.BytesIO()
    torch.save(made, file)
    file.seek(0)
    assert_same_step(tied, torch.load(file, weights_only=False), tied_arguments())


@pytest.mark.slow
def test_it_is_captured_again(tied: Tied, made: nn.Module) -> None:
    first, second = from_torch(tied, tied_arguments()), from_torch(made, tied_arguments())
    assert list(second.parameters) == list(first.parameters)
    assert [(c.path, c.class_name, c.index) for c in second.calls] == [
        (c.path, c.class_name, c.index) for c in first.calls
    ]
    assert [node.op for node in second.nodes] == [node.op for node in first.nodes]
    assert_same_step(tied, to_torch(second), tied_arguments())


@pytest.mark.slow
def test_torch_compile_takes_it(tied: Tied, made: nn.Module) -> None:
    compiled: Any = torch.compile(made, backend="eager")
    torch.testing.assert_close(leaves(compiled(*tied_arguments())), leaves(tied(*tied_arguments())))


@pytest.mark.slow
def test_sizes_stay_dynamic(tied: Tied) -> None:
    batch, time = Dim("batch"), Dim("time", max=16)
    shapes = {"inputs": {"ids": {0: batch, 1: time}, "mask": {0: batch, 1: time}}, "others": (None, None)}
    module = to_torch(from_torch(tied, tied_arguments(), dynamic_shapes=shapes))
    for sizes in ((3, 5), (1, 1), (2, 13)):
        assert_same_step(tied, module, tied_arguments(*sizes))


def test_another_value_of_what_was_fixed_is_refused(tied: Tied) -> None:
    module = to_torch(from_torch(tied, tied_arguments(), {"scale": 3.0}))
    assert_same_step(tied, module, tied_arguments(), scale=3.0)
    with pytest.raises(ValueError, match=r"'scale': the program was captured with 3.0, given 2.0; capture it again"):
        module(*tied_arguments(), scale=2.0)


class Statistics(nn.Module):
    """In train mode: statistics, counts, dropout, a module called twice whose second call goes on from the first."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, padding="same")
        self.norm = nn.BatchNorm2d(4)
        self.dropout = nn.Dropout(0.4)
        self.register_buffer("calls", torch.tensor(0))

    def forward(self, x: Tensor) -> Tensor:
        self.calls.add_(1)
        y: Tensor = self.norm(self.conv(x))
        return self.dropout(self.norm(y.relu()))


def test_train_mode_updates_buffers_and_draws() -> None:
    torch.manual_seed(2)
    original, x = Statistics(), torch.randn(4, 3, 6, 6)
    module = to_torch(from_torch(original, (x,), train=True))
    assert isinstance(module.norm, VaryingCell)
    assert module.training
    for _ in range(3):
        assert_same_step(original, module, (x,))
    assert int(module.calls) == 3
    assert int(module.norm.num_batches_tracked) == 6
    for variant in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        reference = copy.deepcopy(original)
        assert list(variant.state_dict()) == list(reference.state_dict())
        assert_same_step(reference, variant, (x,))


class Pyramid(nn.Module):
    """A head on maps of several sizes: its calls differ in sizes that are fixed."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Sequential(nn.Conv2d(2, 3, 1), nn.Flatten(2))

    def forward(self, maps: list[Tensor]) -> Tensor:
        return torch.cat([self.head(x) for x in maps], -1)


def test_calls_that_differ() -> None:
    original, maps = Pyramid(), [torch.randn(2, 2, n, n) for n in (4, 2, 4)]
    module = to_torch(from_torch(original, (maps,)))
    assert isinstance(module.get_submodule("head.1"), VaryingCell)
    assert len(module.get_submodule("head.1").variants) == 2
    assert list(module.state_dict()) == list(original.state_dict())
    assert [name for name, _ in module.named_modules()] == ["", "head", "head.0", "head.1"]
    assert [call.path for call in visits_of(module, maps).calls] == [
        call.path for call in visits_of(original, maps).calls
    ]
    assert_same_step(original, module, (maps,))


class Pair(NamedTuple):
    first: Tensor
    second: Tensor


class Lender(nn.Module):
    """Modules that are called by others than those that hold them, and a value that passes beside a boundary."""

    def __init__(self) -> None:
        super().__init__()
        self.shared = nn.Linear(4, 4)
        self.activation = nn.Tanh()
        self.first, self.second = Borrower(self), Borrower(self)
        self.alias = self.shared

    def forward(self, x: Tensor) -> Pair:
        return Pair(self.second(self.first(x)), self.alias(x))


class Borrower(nn.Module):
    def __init__(self, lender: Lender) -> None:
        super().__init__()
        self.lender = [lender]  # not registered
        self.gain = nn.Parameter(torch.ones(4))

    def forward(self, x: Tensor) -> Tensor:
        lender = self.lender[0]
        y: Tensor = lender.activation(lender.shared(x)) * lender.shared.bias
        return y * self.gain


def test_modules_that_others_hold() -> None:
    original, x = Lender(), torch.randn(3, 4)
    module = to_torch(from_torch(original, (x,)))
    assert list(module.state_dict()) == list(original.state_dict())
    assert [call.path for call in visits_of(module, x).calls] == [call.path for call in visits_of(original, x).calls]
    assert module(x)._fields == ("first", "second")
    for variant in (module, copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert_same_step(original, variant, (x,))


class Stash(nn.Module):
    """One module keeps a tensor that another one reads."""

    def __init__(self) -> None:
        super().__init__()
        self.writer, self.reader = Writer(), Reader()

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.writer(x)
        return self.reader(y, self.writer)


class Writer(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        self.kept = x.exp()
        return x + 1


class Reader(nn.Module):
    def forward(self, x: Tensor, writer: Writer) -> Tensor:
        return x * writer.kept


def test_a_value_that_passes_beside_the_boundaries_is_carried_unseen() -> None:
    original, x = Stash(), torch.randn(3, requires_grad=True)
    module = to_torch(from_torch(original, (x.detach(),)))
    for (n, _, actual), (m, _, expected) in zip(
        visits_of(module, x).tensors, visits_of(original, x).tensors, strict=True
    ):
        assert n == m
        torch.testing.assert_close(actual, expected)
    torch.testing.assert_close(torch.autograd.grad(module(x).sum(), x), torch.autograd.grad(original(x).sum(), x))


QUICK = ("rows", "put", "unique", "item_as_size")


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in DATA_DEPENDENT]
)
@pytest.mark.every(3)
def test_sizes_that_depend_on_data(name: str) -> None:
    function = DATA_DEPENDENT[name]
    x, mask = torch.randn(6, 4), torch.tensor([True, False, True, True, False, True])
    module = to_torch(from_torch(Function(function), (x, mask)))
    for other_mask in (mask, torch.ones(6, dtype=torch.bool), torch.arange(6) == 2):
        for actual, expected in zip(leaves(module(x, other_mask)), leaves(function(x, other_mask)), strict=True):
            torch.testing.assert_close(actual, expected, equal_nan=True)  # the variance of one row


def test_a_size_found_in_one_cell_is_told_to_another() -> None:
    class Finder(nn.Module):
        def forward(self, mask: Tensor) -> Any:
            return mask.sum().item()

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.finder, self.filler = Finder(), Filler()

        def forward(self, mask: Tensor) -> Tensor:
            count = self.finder(mask)
            torch._check(count >= 0)
            return self.filler(mask, count)

    class Filler(nn.Module):
        def forward(self, mask: Tensor, count: int) -> Tensor:
            return torch.zeros(count) + 1.0

    module = to_torch(from_torch(Model(), (torch.tensor([True, False, True]),)))
    assert module(torch.tensor([True, True, True])).tolist() == [1.0, 1.0, 1.0]
    assert module(torch.tensor([False, True, False])).tolist() == [1.0]


def test_a_gradient_program() -> None:
    torch.manual_seed(4)
    original, x = Block(4), torch.randn(3, 4)
    program = from_torch(original, (x,))
    backward = differentiate(program)
    gradients = [value for value in (*backward.input_gradients, *backward.parameter_gradients.values()) if value]
    whole = backward.program.replace(outputs=(*program.outputs, *gradients))
    module = to_torch(whole)
    y, *actual_gradients = module(x, torch.ones(3, 4))
    inputs = x.clone().requires_grad_()
    expected = original(inputs)
    expected_gradients = torch.autograd.grad(expected.sum(), [inputs, *original.parameters()])
    torch.testing.assert_close(y, expected)
    for actual, gradient in zip(actual_gradients, expected_gradients, strict=True):
        torch.testing.assert_close(actual, gradient)


def test_a_saved_program_and_half_precision() -> None:
    original = nn.Linear(3, 2).bfloat16()
    x = torch.randn(4, 3).bfloat16()
    program = from_torch(original, (x,))
    assert program.inputs[0].dtype == BFLOAT16
    module = to_torch(program)
    assert torch.equal(module.weight, original.weight)
    assert torch.equal(module(x), original(x))


def test_powers_of_negative_numbers() -> None:
    x = torch.tensor([2.0, 3.0, -4.0])
    module = to_torch(from_torch(Function(lambda x: (-2.0) ** x), (x,)))
    assert torch.equal(module(x), (-2.0) ** x)


def test_the_gradient_of_absolute_values_of_complex_numbers_is_zero_at_zero() -> None:
    original = Function(lambda x, y: torch.complex(x, y).abs())
    args = torch.tensor([0.0, 3.0], requires_grad=True), torch.tensor([0.0, -4.0], requires_grad=True)
    made = to_torch(from_torch(original, args))
    for module in (original, made):
        gradients = torch.autograd.grad(module(*args).sum(), args)
        assert [g.tolist() for g in gradients] == [[0.0, pytest.approx(0.6)], [0.0, pytest.approx(-0.8)]]


def test_a_program_without_a_structure_takes_and_gives_tensors_in_order() -> None:
    program = from_torch(nn.Linear(3, 2), (torch.ones(1, 3),))
    flat = program.replace(arguments=Structure("tuple", (Structure("tuple"), Structure("dict"))), result=TENSOR)
    (y,) = to_torch(flat)(torch.ones(1, 3))
    assert y.shape == (1, 2)


def test_keywords_come_in_the_order_of_the_originals_parameters() -> None:
    class Ordered(nn.Module):
        def forward(self, first: Tensor, second: Tensor, flag: bool = True) -> Tensor:
            return first - second if flag else second

    original, a, b = Ordered(), torch.randn(2), torch.randn(2)
    module = to_torch(from_torch(original, (), {"second": b, "flag": True, "first": a}))
    torch.testing.assert_close(module(second=b, first=a), a - b)
    assert [s for _, s, _ in visits_of(module, first=a, second=b).tensors][:2] == ["input first", "input second"]


def test_an_argument_that_no_default_can_be_is_refused() -> None:
    program = from_torch(nn.Linear(3, 2), (torch.ones(1, 3),))
    positional = Structure("tuple", (TENSOR, Structure("constant", constant=object())))
    with pytest.raises(ConversionError, match="can't be a default argument"):
        to_torch(program.replace(arguments=Structure("tuple", (positional, Structure("dict")))))


@pytest.mark.parametrize("module_class", CONTROL_FLOW)
@pytest.mark.every(12)
def test_control_flow(module_class: type[nn.Module]) -> None:
    torch.manual_seed(1)
    original = module_class().double()
    rows = Dim("rows", min=2, max=64)
    module = to_torch(from_torch(original, (torch.randn(5, 3).double(),), dynamic_shapes=({0: rows},)))
    assert list(module.state_dict()) == list(original.state_dict())
    for variant in (module, copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        for shift, size in ((1.0, 5), (-1.0, 3)):
            x = torch.randn(size, 3).double() + shift
            assert_same_step(original, variant, (x,), absent_is_zero=True)


@pytest.mark.slow
def test_branches_are_exported_again() -> None:
    original, x = Branches(), torch.randn(5, 3)
    exported_twice = to_torch(from_torch(to_torch(from_torch(original, (x,))), (x,)))
    for sign in (1, -1):
        assert_same_step(original, exported_twice, (sign * x.abs(),), absent_is_zero=True)


def test_a_parameter_does_not_hide_what_code_uses() -> None:
    class Inner(nn.Module):
        def forward(self, slice: Tensor) -> Tensor:
            return slice[:, 1:]

    class Outer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Inner()

        def forward(self, x: Tensor) -> Tensor:
            return self.inner(x * 2)[1:]

    x = torch.randn(3, 3)
    assert torch.equal(to_torch(from_torch(Outer(), (x,)))(x), Outer()(x))


def test_what_a_cell_without_gradients_gives_to_the_next() -> None:
    class Frozen(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.frozen, self.head = nn.Linear(3, 3), nn.Linear(3, 2)

        def forward(self, x: Tensor) -> Tensor:
            with torch.no_grad():
                y = self.frozen(x)
            return self.head(y)

    net, x = Frozen(), torch.randn(4, 3)
    program = from_torch(net, (x,))
    assert [str(program.calls[node.cell]) for node in program.nodes if node.op == "stop_gradient"] == ["(root)"]
    assert torch.allclose(to_torch(program)(x), net(x))


@pytest.mark.parametrize("write", [to_torch, to_onnx, to_cell_source])
def test_only_programs_are_written(write: Any) -> None:
    with pytest.raises(UsageError, match=r"needed a program, given Linear: `converter\.from_torch"):
        write(nn.Linear(3, 3))


def test_a_value_is_let_go_when_nothing_needs_it_any_more(made: nn.Module) -> None:
    alive: list[weakref.ref[Tensor]] = []
    most = 0

    def after(module: nn.Module, args: Any, result: Any) -> None:
        nonlocal most
        most = max(most, sum(reference() is not None for reference in alive))
        alive.append(weakref.ref(result))

    chain = nn.Sequential(*(nn.Tanh() for _ in range(8)))
    module = to_torch(from_torch(chain, (torch.randn(3),)))
    for inner in module.children():
        inner.register_forward_hook(after)
    with torch.no_grad():
        module(torch.randn(3))
    assert len(alive) == 8
    assert most == 1
    for graph in (vars(inner)["_cell"].graph for inner in made.modules() if "_cell" in vars(inner)):
        let_go = [place for step in graph.steps for place in step.unneeded]
        assert len(let_go) == len(set(let_go))
        assert {step.result for step in graph.steps} - set(let_go) == {graph.result}
