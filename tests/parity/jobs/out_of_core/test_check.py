"""Networks in parts: the same verdicts, Cell by Cell, as of the whole."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from cellbridge.parity import check
from cellbridge.parity.jobs.out_of_core import division, repeated
from cellbridge.parity.jobs.out_of_core.boundaries import run_in_parts
from cellbridge.parity.jobs.out_of_core.check import check_out_of_core
from cellbridge.parity.jobs.out_of_core.division import divide
from cellbridge.parity.options import Options
from cellbridge.parity.results.comparison import NOT_REACHED, SKIPPED
from cellbridge.runtime.errors import UsageError

from .decoders import Decoder, allow_one_block, decoder


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> int:
    return allow_one_block(monkeypatch)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.every(2)
def test_every_cell_of_the_whole_is_judged_in_parts(memory: int, dtype: str) -> None:
    module, args = decoder()
    module = module.to(getattr(torch, dtype))
    report = check_out_of_core(module, args, memory=memory, dtype=dtype)
    whole = check(module, args, dtype=dtype)
    assert report.ok, str(report)
    assert list(report.cells) == list(whole.cells)
    assert {path: cell.class_name for path, cell in report.cells.items()} == {
        path: cell.class_name for path, cell in whole.cells.items()
    }
    for path, cell in whole.cells.items():
        assert {(c.kind, c.tensor) for c in cell.comparisons if c.feeding == "isolated" and path} <= {
            (c.kind, c.tensor) for c in report.cells[path].comparisons
        }, path
    assert report.network_verdict.verdict == "not known"
    assert any("judged in 5 parts" in note for note in report.notes), report.notes


@pytest.mark.parametrize("place", ["blocks.1", ""])
@pytest.mark.every(2)
def test_a_fault_is_found_in_a_part_and_around_the_parts(memory: int, place: str) -> None:
    module, args = decoder()
    module.get_submodule(place).wrong = True
    report = check_out_of_core(module, args, memory=memory)
    assert report.failed
    assert report.failing == check(module, args).failing == [place]


@pytest.mark.slow
def test_a_fault_of_a_conversion_is_found_in_a_part(memory: int, monkeypatch: pytest.MonkeyPatch) -> None:
    module, args = decoder()
    capture_program = repeated.capture_program

    def capture(around: nn.Module, *rest: object, **more: object) -> object:
        program = capture_program(around, *rest, **more)  # type: ignore[arg-type]
        if "blocks.2.down.weight" in program.parameters:
            weight = program.parameters["blocks.2.down.weight"]
            data = weight.data.copy()
            data[0, 0] += 1.0
            parameters = program.parameters | {"blocks.2.down.weight": replace(weight, data=data)}
            return program.replace(parameters=parameters)
        return program

    module.blocks[2].up.note = "not equal to the others"  # type: ignore[assignment]
    monkeypatch.setattr(repeated, "capture_program", capture)
    report = check_out_of_core(module, args, memory=memory)
    assert report.failed
    assert report.failing == ["blocks.2.down"]


def test_the_values_at_boundaries_are_those_of_the_whole(memory: int, tmp_path: object) -> None:
    module, args = decoder()
    parts = divide(module, memory, grads=True)
    assert [part.path for part in parts] == ["embed", "blocks.0", "blocks.1", "blocks.2", "head"]
    options = Options(loss=lambda y: y.square().sum())
    call = run_in_parts(module, args, {}, parts, options, tmp_path, None, lambda: None)  # type: ignore[arg-type]
    tensors_at_boundaries: dict[str, tuple[Tensor, Tensor]] = {}

    def keep(path: str) -> object:
        def hook(_: nn.Module, args: tuple[Tensor, ...], output: Tensor) -> Tensor:
            used, result = args[0], output
            result.register_hook(lambda gradient: tensors_at_boundaries.update({path: (used.detach(), gradient)}))
            return result

        return hook

    handles = [part.module.register_forward_hook(keep(part.path)) for part in parts]  # type: ignore[arg-type]
    y = module.eval()(*args)
    y.square().sum().backward()
    for handle in handles:
        handle.remove()
    for part_call in call.calls:
        (given,), keywords = part_call.inputs()
        used, gradient = tensors_at_boundaries[part_call.path]
        torch.testing.assert_close(given, used)
        (cotangent,) = part_call.cotangents()
        torch.testing.assert_close(cotangent, gradient)
        assert keywords == ({"scale": 0.5} if "blocks" in part_call.path else {})
    torch.testing.assert_close(call.calls[-1].outputs(), y)
    assert all(p.requires_grad for p in module.parameters())


def test_equal_parts_are_captured_once(memory: int, monkeypatch: pytest.MonkeyPatch) -> None:
    captured: list[list[str]] = []
    capture_program = repeated.capture_program

    def capture(around: nn.Module, *rest: object, **more: object) -> object:
        captured.append([name for name, _ in around.named_parameters()])
        return capture_program(around, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(repeated, "capture_program", capture)
    module, args = decoder(blocks=4)
    module.blocks[3].number = 3  # type: ignore[assignment]  # its code may depend on it
    assert check_out_of_core(module, args, memory=memory).ok
    blocks = [names[0].split(".")[1] for names in captured if names[0].startswith("blocks")]
    assert blocks == ["0", "3"]


class Signed(nn.Module):
    """x to its products with weights, with a sign that stands in the code's attributes."""

    def __init__(self, sign: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(300))
        self.sign = sign

    def forward(self, x: Tensor) -> Tensor:
        return self.sign * x * self.weight


def test_a_program_that_was_moved_and_fails_is_captured_anew(memory: int, monkeypatch: pytest.MonkeyPatch) -> None:
    module = nn.Sequential(Signed(1.0), Signed(-1.0), Signed(1.0))
    monkeypatch.setattr(repeated, "_are_equal", lambda first, second: True)  # whatever else makes parts differ
    report = check_out_of_core(module, (torch.randn(2, 300),), memory=memory)
    assert report.ok, str(report)


@pytest.mark.slow
def test_only_what_is_selected_is_judged(memory: int, monkeypatch: pytest.MonkeyPatch) -> None:
    module, args = decoder()
    report = check_out_of_core(module, args, memory=memory, only=["blocks.1*"])
    judged = [path for path, cell in report.cells.items() if cell.comparisons]
    assert judged == ["blocks.1", "blocks.1.norm", "blocks.1.up", "blocks.1.down"]
    assert report.cells["blocks.0"].status == SKIPPED
    with pytest.raises(UsageError, match="no Cell is left by --only nothing"):
        check_out_of_core(module, args, memory=memory, only=["nothing"])


def test_a_part_that_is_not_called_is_not_reached(memory: int) -> None:
    module, args = decoder()
    module.unused = nn.Linear(8, 8)
    report = check_out_of_core(module, args, memory=memory)
    assert report.cells["unused"].status == NOT_REACHED
    assert report.ok


def test_a_part_that_is_called_twice_is_judged_on_both(memory: int) -> None:
    module = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8))
    module.append(module[0])
    report = check_out_of_core(module, (torch.randn(2, 8),), memory=memory // 4)
    assert report.ok, str(report)
    assert {c.input for c in report.cells["0"].comparisons} <= {1, 2}


@pytest.mark.slow
def test_several_inputs_and_no_gradients(memory: int) -> None:
    module, args = decoder()
    more = [((torch.randint(0, 11, (1, 3)),), {})]
    report = check_out_of_core(module, args, memory=memory, more_inputs=more, grads=False)
    assert report.ok
    assert report.inputs == 2
    assert not any(c.kind.endswith("gradient") for cell in report.cells.values() for c in cell.comparisons)


def test_what_fits_is_judged_as_a_whole() -> None:
    module, args = decoder()
    report = check_out_of_core(module, args, memory=8 * 10**9)
    assert report.ok
    assert report.network_verdict.verdict == "the same function"
    assert any("in memory at most; 8 GB were allowed" in note for note in report.notes)


def test_a_cell_that_does_not_fit_is_named(memory: int) -> None:
    module, args = decoder()
    with pytest.raises(UsageError, match=r"the Cell \(root\) \(Decoder\) has 128 parameters of its own(?s:.)*--memory"):
        check_out_of_core(module, args, memory=memory // 10)


def test_values_that_do_not_fit_are_named(memory: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from cellbridge.parity.jobs.out_of_core import check as module_of_check

    monkeypatch.setattr(module_of_check, "BASE", 0)
    module, args = decoder()
    with pytest.raises(
        UsageError, match=r"judging the Cell blocks.0 on these inputs takes about .* for values that it"
    ):
        check_out_of_core(module, args, memory=memory)


def test_a_network_that_raises_says_where(memory: int) -> None:
    module, _ = decoder()
    with pytest.raises(UsageError, match=r"the model doesn't run on its inputs"):
        check_out_of_core(module, (torch.full((2, 5), 11),), memory=memory)


@pytest.mark.slow
def test_a_parameter_used_outside_its_part(memory: int) -> None:
    class Tied(Decoder):
        def forward(self, ids: Tensor) -> Tensor:
            x = self.embed(ids)
            for block in self.blocks:
                x = block(x)
            return x @ self.embed.weight.T

    report = check_out_of_core(Tied(), (torch.randint(0, 11, (2, 5)),), memory=memory)
    assert report.ok, str(report)


class Positions(nn.Module):
    """A table of angles for the places of x, of which it takes the dtype alone, as a rotary embedding does."""

    frequencies: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("frequencies", torch.linspace(0.1, 1.0, 300))

    def forward(self, x: Tensor, places: Tensor) -> Tensor:
        return (places[:, None] * self.frequencies).cos().to(x.dtype)


class Rotated(nn.Module):
    """Products of a linear map and a table that no gradient reaches."""

    def __init__(self) -> None:
        super().__init__()
        self.positions, self.fc = Positions(), nn.Linear(300, 300)

    def forward(self, x: Tensor) -> Tensor:
        return self.fc(x) * self.positions(x, torch.arange(x.shape[0]))


@pytest.mark.slow
def test_a_part_without_gradients(monkeypatch: pytest.MonkeyPatch) -> None:
    allow_one_block(monkeypatch)
    module = Rotated()
    of_linear = sum(p.numel() for p in module.parameters())
    memory = of_linear * (division.JUDGING_WITH_GRADIENTS + 4) + 300 * 4 + 5000
    report = check_out_of_core(module, (torch.randn(2, 300),), memory=memory)
    assert report.ok, str(report)
    assert any("judged in 2 parts" in note for note in report.notes), report.notes


class Masked(Decoder):
    """It gives its blocks a scale as a tensor while it is traced, and a number otherwise."""

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        scale = torch.tensor(0.5) if torch.compiler.is_compiling() else 0.5
        for block in self.blocks:
            x = block(x, scale=scale)
        return self.head(x)


@pytest.mark.slow
def test_what_is_passed_in_tracing_alone_is_no_difference(memory: int) -> None:
    report = check_out_of_core(Masked(), (torch.randint(0, 11, (2, 5)),), memory=memory)
    assert report.ok, str(report)


class Caching(nn.Module):
    """x to a linear map of it, which it also appends to a list that it is given."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8, 8), CachingLinear()

    def forward(self, x: Tensor) -> Tensor:
        cache: list[Tensor] = []
        return self.second(self.first(x), cache) + cache[0]


class CachingLinear(nn.Linear):
    def __init__(self) -> None:
        super().__init__(8, 8)

    def forward(self, x: Tensor, cache: list[Tensor]) -> Tensor:
        cache.append(x)
        return super().forward(x)


@pytest.mark.parametrize("grads", [True, False])
def test_a_part_that_changes_its_arguments_is_refused(memory: int, grads: bool) -> None:
    with pytest.raises(UsageError, match=r"the Cell second puts tensors into its argument .*(?s:.)*use_cache = False"):
        check_out_of_core(Caching(), (torch.randn(2, 8),), memory=memory // 6, grads=grads)


def test_a_cell_that_does_not_fit_may_be_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    allow_one_block(monkeypatch)
    module = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 300))
    held = sum(p.nbytes for p in module.parameters())
    memory = held + 80 * division.JUDGING_WITH_GRADIENTS
    with pytest.raises(UsageError, match=r"the Cell 2 \(Linear\) has 2\.7e\+03 parameters (?s:.)*--skip"):
        check_out_of_core(module, (torch.randn(2, 8),), memory=memory)
    report = check_out_of_core(module, (torch.randn(2, 8),), memory=memory, skip=["2"])
    assert report.ok, str(report)
    assert report.cells["2"].status == SKIPPED
    assert report.cells["0"].comparisons
