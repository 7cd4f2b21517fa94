"""A comparison leaves the user's module and Cell unchanged, whatever is raised."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from cellbridge import parity
from cellbridge.runtime import nn
from cellbridge.runtime.common import tape
from cellbridge.runtime.errors import UsageError
from tests.parity.pairing.ports.ports import made


def state(module: torch.nn.Module, cell: nn.Cell) -> list[Any]:
    """The complete state, with arrays as bytes."""
    contents: list[Any] = []
    for path, inner in cell.cells_and_names():
        ids = {name: id(value) for name, value in vars(inner).items()}
        hooks = [list(value) for name, value in vars(inner).items() if name.endswith("_hooks")]
        held = [list(map(id, registered.values())) for registered in (inner._params, inner._cells)]
        contents.append((path, ids, hooks, held, inner.training, inner.phase, inner.requires_grad))
    for name, p in cell.parameters_and_names():
        contents.append((name, p.name, p.dtype, p.requires_grad, p.asnumpy().tobytes()))
    for path, m in module.named_modules():
        contents.append(
            (path, m.training, len(m._forward_hooks), len(m._forward_pre_hooks), list(map(id, m.parameters())))
        )
    for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
        array = tensor.detach().numpy()
        contents.append((name, tensor.dtype, tensor.requires_grad, tensor.grad is None, id(tensor), array.tobytes()))
    return contents


@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("name", ["residual", "lstm", "decoder", "pretrained"])
@pytest.mark.every(9)
def test_after_a_comparison(name: str, train: bool) -> None:
    module, cell, args = made(name)
    cell.set_train(not train)
    module.train(not train)
    cell.set_grad()
    before = state(module, cell)
    parity.compare(module, cell, args, train=train)
    assert state(module, cell) == before


class Boom(Exception):
    pass


def _raise(*_: Any) -> Any:
    raise Boom("here")


@pytest.mark.parametrize("where", ["construct", "forward", "hook", "backward"])
@pytest.mark.every(3)
def test_after_an_exception(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, cell, args = made("residual")
    if where == "construct":
        cell.bn1.__dict__["construct"] = _raise
    elif where == "forward":
        monkeypatch.setattr(type(module), "forward", _raise)
    elif where == "hook":
        cell.conv2.register_forward_hook(_raise)
    else:
        cell.conv2.register_backward_hook(_raise)
    before = state(module, cell)
    if where == "forward":
        with pytest.raises(UsageError, match="Boom"):
            parity.compare(module, cell, args)
    else:
        assert not parity.compare(module, cell, args).ok
    assert state(module, cell) == before
    assert tape.current() is None


def test_the_cell_runs_as_before() -> None:
    module, cell, args = made("encoder")
    from cellbridge.runtime import Tensor

    inputs = [Tensor(a.numpy()) for a in args]
    before = cell(*inputs).asnumpy()
    parity.compare(module, cell, args, train=True)
    after = cell(*inputs)
    assert after.dtype == np.float32
    np.testing.assert_array_equal(after.asnumpy(), before)


def test_the_inputs_are_left_alone() -> None:
    module, cell, (x,) = made("residual")
    x.requires_grad_(True)
    before = x.detach().clone()
    parity.compare(module, cell, (x,), train=True)
    assert torch.equal(x, before)
    assert x.requires_grad
    assert x.grad is None
