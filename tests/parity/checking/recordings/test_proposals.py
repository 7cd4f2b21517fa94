"""Maps that are proposed from values: which Cells they pair, and what is judged by them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from benchmarks.twins.measuring import faults_of
from benchmarks.twins.twin import twins
from cellbridge import parity
from cellbridge.parity.checking.recordings.proposing import Proposal, propose_names
from cellbridge.recorder import Recorder


def loss(outputs: Any) -> torch.Tensor:
    first = outputs if isinstance(outputs, torch.Tensor) else next(iter(outputs.values()))
    return (first * torch.linspace(-1, 1, first.numel()).reshape(first.shape).to(first.dtype)).sum()


def propose(tmp_path: Path, reference: nn.Module, candidate: nn.Module, args: Any) -> tuple[Proposal, Any]:
    """Record both, the candidate in float32 alone; return what is proposed, and the report by that map."""
    folders = tmp_path / "ref.rec", tmp_path / "other.rec"
    for module, folder in zip((reference, candidate), folders, strict=True):
        parity.record(module, args, folder, loss=loss, float64=module is reference)
    proposal = propose_names(*folders, tmp_path / "map.toml")
    return proposal, parity.judge(*folders, names=tmp_path / "map.toml", diagnose_seconds=0)


def pairs(proposal: Proposal, reference: nn.Module) -> dict[str, str]:
    named = {path: proposal.names.cell(path).name for path, _ in reference.named_modules()}
    return {path: name for path, name in named.items() if name != path}


class Feed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(6, 12), nn.Linear(12, 6)
        self.act, self.dropout = nn.Tanh(), nn.Dropout(0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.dropout(self.down(self.act(self.up(x))))


class Reference(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.feed, self.rest = nn.LayerNorm(6), Feed(), nn.Identity()
        self.layers = nn.ModuleList(Feed() for _ in range(2))
        self.head = nn.Linear(6, 3)
        for parameter in self.norm.parameters():
            nn.init.normal_(parameter)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.rest(x + self.feed(self.norm(x)))
        for layer in self.layers:
            x = x + layer(x)
        return self.head(x)


class Mixer(nn.Module):
    """Like `Feed`, with another activation function; `around` computes what is returned."""

    def __init__(self, feed: Feed, around: Callable[[torch.Tensor, torch.Tensor], torch.Tensor], act: Any) -> None:
        super().__init__()
        self.first, self.second, self.pointwise = feed.up, feed.down, act
        self.around = around

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.around(x, self.second(self.pointwise(self.first(x))))


class Port(nn.Module):
    """The reference with other names, which are those of other Cells of the reference in places."""

    def __init__(self, net: Reference, residual: bool = False, act: Any = None, factor: float = 1.0) -> None:
        super().__init__()
        add = (lambda x, y: x + y) if residual else (lambda x, y: y)
        self.residual, self.factor = residual, factor
        self.scale = net.norm
        self.stages = nn.ModuleList(
            Mixer(feed, add if number else lambda x, y: y, act or nn.Tanh())
            for number, feed in enumerate((net.feed, *net.layers))
        )
        self.dropout, self.norm = nn.Dropout(0.5), net.head

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.stages[0](self.scale(x) * self.factor)
        for stage in list(self.stages)[1:]:
            x = self.dropout(stage(x) if self.residual else x + stage(x))
        return self.norm(x)


@pytest.fixture
def reference() -> Reference:
    torch.manual_seed(0)
    return Reference().eval()


X = torch.linspace(-2, 2, 5 * 6).reshape(5, 6).sin()


def test_a_value_that_is_passed_on_belongs_to_the_outermost_cell_with_parameters(
    reference: Reference, tmp_path: Path
) -> None:
    proposal, report = propose(tmp_path, reference, Port(reference).eval(), (X,))
    assert pairs(proposal, reference) == {
        "norm": "scale",
        **{
            f"{cell}{inner}": f"{stage}{name}"
            for cell, stage in (("feed", "stages.0"), ("layers.0", "stages.1"), ("layers.1", "stages.2"))
            for inner, name in {"": "", ".up": ".first", ".act": ".pointwise", ".down": ".second"}.items()
        },
        "head": "norm",
    }
    assert report.ok, str(report)
    assert {path for path, cell in report.cells.items() if not cell.outputs} == {
        "rest", "feed.dropout", "layers.0.dropout", "layers.1.dropout",
    }  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_port_in_half_precision_is_paired_as_one_in_float32(
    reference: Reference, tmp_path: Path, dtype: torch.dtype
) -> None:
    proposal, _ = propose(tmp_path, reference, Port(reference).eval(), (X,))
    candidate = Port(copy.deepcopy(reference)).eval().to(dtype)
    with Recorder(tmp_path / "half.rec", dtype=str(dtype)[6:]) as recorder, recorder.torch(candidate):
        candidate(X.to(dtype))
    in_half = propose_names(tmp_path / "ref.rec", tmp_path / "half.rec")
    assert pairs(in_half, reference) == pairs(proposal, reference)
    assert in_half.by_structure == []


def test_cells_that_add_the_residual_are_not_those_that_dont(reference: Reference, tmp_path: Path) -> None:
    proposal, report = propose(tmp_path, reference, Port(reference, residual=True).eval(), (X,))
    partners = pairs(proposal, reference)
    assert partners["feed"] == "stages.0"
    assert "layers.0" not in partners
    assert partners["layers.1.up"] == "stages.2.first"
    assert report.ok, str(report)


def test_a_fault_is_placed_in_the_smallest_cell_that_both_have(reference: Reference, tmp_path: Path) -> None:
    proposal, report = propose(tmp_path, reference, Port(reference, act=nn.Softsign()).eval(), (X,))
    assert {"feed", "feed.act", "layers.0", "head"} <= set(proposal.by_structure)
    assert report.failing == ["feed.act"]


def test_a_fault_between_cells_accuses_none_inside(reference: Reference, tmp_path: Path) -> None:
    _, report = propose(tmp_path, reference, Port(reference, factor=1.01).eval(), (X,))
    assert report.failing == [""]


def test_a_cell_of_the_same_name_that_is_another_has_no_counterpart(reference: Reference, tmp_path: Path) -> None:
    class Renamed(Port):
        def __init__(self, net: Reference) -> None:
            super().__init__(net)
            self.feed = self.stages[2]

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = x + self.stages[0](self.scale(x))
            x = x + self.stages[1](x)
            return self.norm(x + self.feed(x))

    candidate = Renamed(reference)
    candidate.stages = candidate.stages[:1].append(candidate.stages[1])
    proposal, report = propose(tmp_path, reference, candidate.eval(), (X,))
    assert pairs(proposal, reference)["layers.1"] == "feed"
    assert report.ok, str(report)
    lines = proposal.text.splitlines()
    assert '"feed" = "stages.0"' in lines


class Shifted(nn.Module):
    def __init__(self, norm: nn.LayerNorm) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(norm.weight.detach() - 1), nn.Parameter(norm.bias.detach())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.layer_norm(x, (6,), 1 + self.weight, self.bias)


def test_a_parameter_in_another_form_is_not_compared_where_its_cell_agrees(
    reference: Reference, tmp_path: Path
) -> None:
    candidate = Port(reference)
    candidate.scale = Shifted(reference.norm)  # type: ignore[assignment]
    proposal, report = propose(tmp_path, reference, candidate.eval(), (X,))
    assert '"norm.weight" = false' in proposal.text.splitlines()
    assert report.ok, str(report)
    assert {c.tensor for c in report.cells["norm"].comparisons if c.kind == "parameter"} == {"norm.bias"}


class Tokens(nn.Module):
    """A network of linear layers on [batch, length, width], or with the length first, or on [tokens, width]."""

    def __init__(self, form: str, act: nn.Module) -> None:
        super().__init__()
        self.form = form
        names = ("one", "act", "two") if form == "batches" else ("a", "b", "c")
        torch.manual_seed(0)
        self.body = nn.Sequential(nn.Linear(4, 6), act, nn.Linear(6, 4))
        for name, inner in zip(names, self.body, strict=True):
            self.add_module(name, inner)
        self.inner = [getattr(self, name) for name in names]
        del self.body

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shape = x.shape
        x = {"batches": x, "length first": x.transpose(0, 1), "tokens": x.reshape(-1, 4)}[self.form]
        for inner in self.inner:
            x = inner(x)
        return x.transpose(0, 1) if self.form == "length first" else x.reshape(shape)


@pytest.mark.parametrize("form", ["length first", "tokens"])
@pytest.mark.parametrize("act", [nn.Tanh(), nn.Softsign()])
@pytest.mark.every(2)
def test_other_layouts_are_read_in_the_references_behind_a_fault_too(tmp_path: Path, form: str, act: Any) -> None:
    x = torch.linspace(-3, 3, 3 * 5 * 4).reshape(3, 5, 4).cos()
    proposal, report = propose(tmp_path, Tokens("batches", nn.Tanh()).eval(), Tokens(form, act).eval(), (x,))
    assert [proposal.names.cell(path).name for path in ("one", "act", "two")] == ["a", "b", "c"]
    assert report.failing == ([] if isinstance(act, nn.Tanh) else ["act"]), str(report)
    assert {c.kind for c in report.cells["two"].comparisons} >= {"output", "input gradient", "parameter gradient"}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gpt2/linear", "gpt2/split"])
@pytest.mark.every(2)
def test_gpt2_of_transformers_and_a_port_with_other_names(tmp_path: Path, name: str) -> None:
    pytest.importorskip("transformers")
    twin = twins()[name]
    reference = twin.reference()
    _, report = propose(tmp_path, reference, twin.candidate(reference), twin.arguments())
    compared = [reference.get_submodule(path) for path, cell in report.cells.items() if cell.outputs]
    assert not any(isinstance(module, nn.Dropout) for module in compared)
    assert report.failing == [], str(report)
    blocks = {f"transformer.h.{i}.{cell}" for i in (0, 1) for cell in ("ln_1", "attn", "attn.c_proj", "ln_2")}
    assert blocks <= {path for path, cell in report.cells.items() if cell.outputs}


@pytest.mark.parametrize(
    ("name", "label", "cell"),
    [
        ("gpt2/linear", "code", "transformer.h.0"),  # whose port has no Cell for the feed-forward part
        ("gpt2/linear", "weights", "transformer.h.0.attn.c_proj"),
        ("gpt2/split", "code", "transformer.h.0.attn"),
        ("gpt2/split", "weights", "transformer.h.0.attn"),
    ],
)
@pytest.mark.every(2)
def test_a_fault_planted_in_the_port_of_gpt2_is_placed(tmp_path: Path, name: str, label: str, cell: str) -> None:
    pytest.importorskip("transformers")
    twin = twins()[name]
    reference = twin.reference()
    candidate = twin.candidate(reference, [faults_of(twin)[label]])
    _, report = propose(tmp_path, reference, candidate, twin.arguments())
    assert report.failing == [cell]


class Skips(nn.Module):
    """Joins two tensors, in one order or the other."""

    def __init__(self, turned: bool, name: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.down, joined = nn.Linear(4, 4), nn.Linear(8, 3)
        self.turned, self.name = turned, name
        if turned:
            joined.weight = nn.Parameter(joined.weight.detach().roll(4, 1))
        self.add_module(name, joined)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = [x, self.down(x).tanh()]
        return self.get_submodule(self.name)(torch.cat(parts[::-1] if self.turned else parts, -1))


def test_what_a_cell_takes_in_another_order_is_left_out(tmp_path: Path) -> None:
    x = torch.linspace(-3, 3, 6 * 4).reshape(6, 4).cos()
    proposal, report = propose(tmp_path, Skips(False, "up").eval(), Skips(True, "joined").eval(), (x,))
    assert '"up" = { cell = "joined", input = false }' in proposal.text.splitlines()
    assert '"up.weight" = false' in proposal.text.splitlines()
    assert report.failing == [], str(report)
    assert {c.kind for c in report.cells["up"].comparisons} == {"output", "parameter", "parameter gradient"}


class Rotated(nn.Module):
    """A product of queries and keys, whose rows may be in another order on both sides."""

    def __init__(self, order: list[int], names: tuple[str, str], scale: float = 1.0) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.names, self.scale = names, scale
        for name in names:
            linear = nn.Linear(4, 6, bias=False)
            linear.weight = nn.Parameter(linear.weight.detach()[order])
            self.add_module(name, linear)
        self.out = nn.Linear(4, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k = (self.get_submodule(name)(x) for name in self.names)
        return self.out((q @ k.mT * self.scale).softmax(-1) @ x)


@pytest.mark.parametrize("scale", [1.0, 1.5])
def test_rows_in_another_order_are_not_accused_of_a_fault_beside_them(tmp_path: Path, scale: float) -> None:
    x = torch.linspace(-3, 3, 2 * 5 * 4).reshape(2, 5, 4).cos()
    reference = Rotated([0, 1, 2, 3, 4, 5], ("query", "key")).eval()
    candidate = Rotated([0, 3, 1, 4, 2, 5], ("wq", "wk"), scale).eval()
    proposal, report = propose(tmp_path, reference, candidate, (x,))
    assert not {"query", "key"} & set(pairs(proposal, reference))
    assert report.failing == ([] if scale == 1 else [""]), str(report)


class Masked(nn.Module):
    def __init__(self, as_numbers: bool) -> None:
        super().__init__()
        self.as_numbers, self.linear = as_numbers, nn.Linear(4, 4)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        keep = mask > -1 if self.as_numbers else mask
        return torch.where(keep[..., None], self.linear(x), 0)


class Masking(nn.Module):
    def __init__(self, as_numbers: bool, name: str) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.as_numbers, self.name = as_numbers, name
        self.add_module(name, Masked(as_numbers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        keep = torch.arange(5).expand(2, 5) < 4
        mask = torch.where(keep, 0.0, -1e9) if self.as_numbers else keep
        return self.get_submodule(self.name)(x, mask)


def test_a_mask_in_another_form_is_not_compared(tmp_path: Path) -> None:
    x = torch.linspace(-3, 3, 2 * 5 * 4).reshape(2, 5, 4).cos()
    _, report = propose(tmp_path, Masking(False, "attend").eval(), Masking(True, "inner").eval(), (x,))
    assert report.failing == [], str(report)
    assert {c.tensor for c in report.cells[""].comparisons if c.kind == "passed value"} == {"attend x"}


class Pixels(nn.Module):
    """A fault in a convolution, followed by linear layers on channels that are last, or by convolutions."""

    def __init__(self, last: bool, names: tuple[str, ...], padding_mode: str = "zeros") -> None:
        super().__init__()
        torch.manual_seed(0)
        self.last, self.names = last, names
        mixing = nn.Conv2d(3, 4, 3, padding=1, padding_mode=padding_mode)
        self.add_module(names[0], mixing)
        for name, sizes in zip(names[1:], ((4, 5), (5, 3)), strict=True):
            torch.manual_seed(sizes[0])
            linear = nn.Linear(*sizes)
            if not last:
                point = nn.Conv2d(*sizes, 1)
                point.load_state_dict({"weight": linear.weight[..., None, None], "bias": linear.bias})
            self.add_module(name, linear if last else point)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        first, *others = (self.get_submodule(name) for name in self.names)
        x = first(x)
        x = x.permute(0, 2, 3, 1) if self.last else x
        for inner in others:
            x = inner(x).tanh()
        return x.permute(0, 3, 1, 2) if self.last else x


@pytest.mark.parametrize("padding", ["zeros", "circular"])
def test_channels_may_be_last_on_one_side_behind_a_fault(tmp_path: Path, padding: str) -> None:
    x = torch.linspace(-3, 3, 2 * 3 * 6 * 7).reshape(2, 3, 6, 7).cos()
    reference = Pixels(True, ("depth", "up", "down")).eval()
    candidate = Pixels(False, ("a", "b", "c"), padding).eval()
    proposal, report = propose(tmp_path, reference, candidate, (x,))
    assert pairs(proposal, reference) == {"depth": "a", "up": "b", "down": "c"}
    assert report.failing == ([] if padding == "zeros" else ["depth"]), str(report)
    assert {c.kind for c in report.cells["up"].comparisons} >= {"output", "input gradient", "parameter gradient"}
