"""Ports with special features of Cells: keywords, hooks, custom backward passes, casts, programs, exceptions."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn as tnn

from cellbridge import converter, parity
from cellbridge.parity.report.terminal import failure_text
from cellbridge.runtime import Tensor, float16, nn, ops
from cellbridge.runtime.errors import UsageError
from tests.parity.pairing.ports.faults import Gelu
from tests.parity.pairing.ports.ports import made


class TorchMasked(tnn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.fc = tnn.Embedding(9, 4), tnn.Linear(4, 3)

    def forward(self, ids: torch.Tensor, *, mask: torch.Tensor | None = None, scale: float = 1.0) -> dict[str, Any]:
        x = self.embedding(ids) * scale
        if mask is not None:
            x = x * mask[..., None]
        return {"logits": self.fc(x), "states": [x, (x.mean(1), ids + 1)], "scale": scale, "none": None}


class Masked(nn.Cell):
    def __init__(self, more: int = 1) -> None:
        super().__init__()
        self.embedding, self.fc = nn.Embedding(9, 4), nn.Dense(4, 3)
        self.more = more

    def construct(self, ids: Tensor, attention: Any = None, scale: float = 1.0) -> dict[str, Any]:
        x = self.embedding(ids) * scale
        if attention is not None:
            x = x * ops.expand_dims(attention, -1)
        return {"logits": self.fc(x), "states": [x, (x.mean(1), ids + self.more)], "scale": scale, "none": None}


INPUTS = {"ids": torch.tensor([[1, 2, 3], [4, 5, 6]]), "mask": torch.rand(2, 3), "scale": 0.5}


@pytest.mark.parametrize("options", [{}, {"loss": lambda out: out["logits"].square().sum() + out["states"][0].sum()}])
@pytest.mark.every(2)
def test_keywords_integers_and_nested_results(options: dict[str, Any]) -> None:
    report = parity.compare(TorchMasked(), Masked(), INPUTS, **options)
    assert report.ok, failure_text(report)
    outputs = {c.tensor for c in report.cells[""].comparisons if c.kind == "output"}
    assert outputs == {"['logits']", "['states'][0]", "['states'][1][0]", "['states'][1][1]"}
    assert parity.compare(TorchMasked(), Masked(more=2), INPUTS, **options).failing == [""]


def test_arguments_that_construct_does_not_take() -> None:
    class One(nn.Cell):
        def construct(self, x: Tensor) -> Tensor:
            return x

    with pytest.raises(UsageError, match=r"One.construct\(x: .*doesn't take the arguments of"):
        parity.compare(TorchMasked(), One(), INPUTS)


# ---- backward passes by hand ----


def test_backward_by_hand_that_is_right() -> None:
    module, cell, args = made("convnext")
    cell.act = Gelu()
    report = parity.compare(module, cell, args)
    assert report.ok, failure_text(report)


class Scaled(nn.Cell):
    """A block with Parameters and a backward of its own that knows of them, or doesn't."""

    def __init__(self, knows: bool) -> None:
        super().__init__()
        self.fc = nn.Dense(4, 4, has_bias=False)
        if knows:
            self.internal_params = [self.fc.weight]

    def construct(self, x: Tensor) -> Tensor:
        return self.fc(x)

    def bprop(self, x: Tensor, out: Tensor, dout: Tensor) -> Any:
        of_input = ops.matmul(dout, self.fc.weight)
        return (
            ((of_input,), {self.fc.weight: ops.matmul(dout.T, x)}) if hasattr(self, "internal_params") else (of_input,)
        )


@pytest.mark.parametrize("knows", [True, False])
def test_backward_by_hand_of_a_block_with_parameters(knows: bool) -> None:
    class Torch(tnn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.block = tnn.Sequential()
            self.block.add_module("fc", tnn.Linear(4, 4, bias=False))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.block(x).tanh()

    class Port(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.block = Scaled(knows)

        def construct(self, x: Tensor) -> Tensor:
            return ops.tanh(self.block(x))

    report = parity.compare(Torch(), Port(), torch.randn(3, 4))
    assert report.ok == knows, failure_text(report)
    if not knows:
        assert report.failing == ["block"]
        assert {c.kind for c in report.cells["block"].failures} == {"parameter gradient"}


class Boom(Exception):
    pass


def _raise(*_: Any, **__: Any) -> Any:
    raise Boom("not today")


def test_an_exception_is_the_failure_of_its_cell() -> None:
    module, cell, args = made("encoder")
    cell.attention.value.construct = _raise
    report = parity.compare(module, cell, args)
    assert report.failing == ["attention.value"]
    failure = report.cells["attention.value"].failures[0]
    assert (failure.kind, failure.reason) == ("call", "raises Boom: not today")
    assert "test_ported_specials.py" in failure.source
    text = failure_text(report)
    assert "raises Boom: not today" in text
    assert "Traceback" not in text
    assert report.cells["norm2"].status == "pass"


def test_an_exception_in_a_backward_by_hand() -> None:
    module, cell, args = made("convnext")
    cell.act = Gelu()
    cell.act.bprop = lambda x, out, dout: (dout.reshape(-1),)
    report = parity.compare(module, cell, args)
    assert report.failing == ["act"]
    reasons = {c.reason for c in report.cells["act"].failures}
    assert any("RuntimeError" in reason and "in its backward pass" in reason for reason in reasons)


def test_an_exception_in_the_root() -> None:
    module, cell, args = made("vae")
    cell.construct = _raise
    report = parity.compare(module, cell, args)
    assert report.failing == [""]
    assert not report.ok


# ---- hooks ----


def test_hooks_of_the_user_that_look_change_nothing() -> None:
    module, cell, args = made("residual")
    calls: list[str] = []
    cell.conv1.register_forward_pre_hook(lambda c, x: calls.append("pre"))
    cell.conv1.register_forward_hook(lambda c, x, y: calls.append("forward"))
    cell.bn1.register_backward_hook(lambda c, gi, go: calls.append("backward"))
    report = parity.compare(module, cell, args, train=True)
    assert report.ok, failure_text(report)
    assert {"pre", "forward", "backward"} <= set(calls)


@pytest.mark.parametrize("kind", ["register_forward_pre_hook", "register_forward_hook", "register_backward_hook"])
@pytest.mark.every(3)
def test_a_hook_that_changes_something_is_part_of_its_cell(kind: str) -> None:
    module, cell, args = made("residual")
    hooks: dict[str, Any] = {
        "register_forward_pre_hook": lambda c, x: 1.1 * x[0],
        "register_forward_hook": lambda c, x, y: y + 0.1,
        "register_backward_hook": lambda c, gi, go: tuple(g if g is None else 2 * g for g in gi),
    }
    getattr(cell.conv2, kind)(hooks[kind])
    report = parity.compare(module, cell, args)
    assert report.failing == ["conv2"]


# ---- casts ----


def test_to_float_is_less_precise_and_means_the_same() -> None:
    module, cell, args = made("mixer")
    cell.tokens.to_float(float16)
    report = parity.compare(module, cell, args)
    assert not report.ok
    assert {c.check for each in report.cells.values() for c in each.failures} == {"rounding"}
    assert all(path.startswith("tokens") for path in report.failing)
    assert any("to_float" in line for path in report.failing for line in report.cells[path].explanations)
    assert parity.compare(module, cell, args, dtype="float16").ok


# ---- programs as Cells ----


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("name", ["residual", "encoder", "lstm", "decoder", "u-net"])
@pytest.mark.every(12)
def test_a_captured_program_is_a_right_port(name: str, train: bool) -> None:
    module, _, args = made(name)
    cell = nn.GraphCell(converter.from_torch(module.train(train), args, train=train))
    report = parity.compare(module, cell, args, train=train)
    assert report.ok, failure_text(report)


class WithProgram(nn.Cell):
    """A port by hand around a program."""

    def __init__(self, tokens: nn.Cell) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm([6], epsilon=1e-5)
        self.tokens = tokens
        self.norm2 = nn.LayerNorm([6], epsilon=1e-5)
        self.channels = nn.SequentialCell(nn.Dense(6, 12), nn.GELU(approximate=False), nn.Dense(12, 6))

    def construct(self, x: Tensor) -> Tensor:
        x = x + self.tokens(self.norm1(x).swapaxes(1, 2)).swapaxes(1, 2)
        return x + self.channels(self.norm2(x))


@pytest.mark.slow
def test_a_program_among_cells_by_hand() -> None:
    module, _, args = made("mixer")
    tokens = nn.GraphCell(converter.from_torch(module.tokens, (torch.randn(2, 6, 5),)))
    cell = WithProgram(tokens)
    report = parity.compare(module, cell, args)
    assert report.ok, failure_text(report)
    tokens.register_forward_hook(lambda c, x, y: 1.01 * y)
    assert parity.compare(module, cell, args).failing == ["tokens"]
