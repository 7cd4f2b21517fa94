"""Programs of torch.export as modules: their Cells, arguments, modes and sizes."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from cellbridge import converter
from cellbridge.converter.exported.modules import module_of_program, sizes_of_inputs
from cellbridge.parity import assert_parity


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x: torch.Tensor, scale: float = 2.0, *, bias: torch.Tensor | None = None) -> torch.Tensor:
        y = torch.relu(self.norm(self.linear(x))) * scale
        return y if bias is None else y + bias


class Network(nn.Module):
    """Calls one block twice."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Block(), Block()])
        self.drop = nn.Dropout(0.5)
        self.rnn = nn.LSTM(4, 3, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x, scale=1.5)
        return self.rnn(self.drop(self.blocks[0](x, bias=x))[None])[0]


@pytest.fixture(params=[False, True], ids=["as exported", "decomposed"])
def program(request: pytest.FixtureRequest) -> torch.export.ExportedProgram:
    exported = torch.export.export(Network().eval(), (torch.randn(3, 4),))
    return exported.run_decompositions() if request.param else exported


@pytest.mark.every(2)
def test_a_program_has_the_cells_of_its_module(program: torch.export.ExportedProgram) -> None:
    captured = converter.from_torch(module_of_program(program), (torch.randn(3, 4),))
    cells = {call.path: call.class_name for call in captured.calls}
    assert cells.items() >= {"": "Network", "blocks.0": "Block", "blocks.0.linear": "Linear", "rnn": "LSTM"}.items()


@pytest.mark.parametrize("form", ["program", "module", "part"])
@pytest.mark.every(6)
def test_exported_programs_are_judged(program: torch.export.ExportedProgram, form: str) -> None:
    x = torch.randn(3, 4)
    model = program if form == "program" else program.module()
    model = nn.Sequential(nn.Linear(4, 4), model) if form == "part" else model
    assert_parity(model, copy.deepcopy(model), (x,), probe=False)
    expected = (model if form == "part" else program.module())(x).detach()
    result = converter.from_torch(model, (x,))(x.numpy())
    torch.testing.assert_close(torch.from_numpy(result), expected)


@pytest.mark.slow
def test_another_weight_in_an_exported_program_fails() -> None:
    program = torch.export.export(Network().eval(), (torch.randn(3, 4),))
    changed = copy.deepcopy(program)
    changed.state_dict["blocks.1.linear.weight"].data[0, 0] += 0.1
    with pytest.raises(AssertionError, match=r"blocks\.1\.linear"):
        assert_parity(program, changed, (torch.randn(3, 4),), probe=False)


def test_arguments_have_their_names() -> None:
    x = torch.randn(3, 4)
    program = torch.export.export(Block().eval(), (x,), {"bias": torch.ones(4)})
    module = module_of_program(program)
    torch.testing.assert_close(module(x=x, bias=torch.ones(4)), program.module()(x, bias=torch.ones(4)))
    captured = converter.from_torch(copy.deepcopy(module), (x,), {"bias": torch.ones(4)})
    assert [value.name for value in captured.inputs] == ["x", "bias"]


def test_sizes_vary_as_in_the_program() -> None:
    x, limits = torch.randn(3, 4), {"min": 2, "max": 8}
    shapes = {
        "x": {0: torch.export.Dim("rows", **limits)},
        "scale": None,
        "bias": {0: torch.export.Dim("rows", **limits)},
    }
    program = torch.export.export(Block().eval(), (x, 1.5), {"bias": torch.ones(3, 1)}, dynamic_shapes=shapes)
    sizes = sizes_of_inputs(program)
    assert (sizes["x"][0].min, sizes["x"][0].max, sizes["scale"]) == (2, 8, None)
    assert sizes["x"][0].__name__ == sizes["bias"][0].__name__
    captured = converter.from_torch(program, (x, 1.5), {"bias": torch.ones(3, 1)}, dynamic_shapes=sizes)
    assert not isinstance(captured.inputs[0].shape[0], int)
    assert sizes_of_inputs(torch.export.export(Block().eval(), (x,))) is None
