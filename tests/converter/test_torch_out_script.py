"""The text of a program as a function that needs torch alone: run without cellbridge, it computes the same."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from cellbridge import converter
from cellbridge.converter.torch_out.script import FunctionText, function_text
from cellbridge.runtime.errors import ConversionError
from cellbridge.runtime.ir.program import Program
from cellbridge.runtime.ir.types import CellCall, Value
from cellbridge.runtime.tree import positional_arguments


class Parts(nn.Module):
    """Layers with and without a single function of torch, constants, and an infinite number."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.norm, self.lstm = nn.Conv1d(3, 4, 3), nn.BatchNorm1d(4), nn.LSTM(4, 5, batch_first=True)
        self.head = nn.Linear(5, 2)
        self.kept = torch.tensor([[True, False]])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = functional.pad(self.norm(self.conv(x)), (1, 2), mode="replicate").transpose(1, 2)
        scores = self.head(self.lstm(y)[0])
        return torch.softmax(scores.masked_fill(~self.kept, -math.inf), -1) + scores.clamp(-1, 1)


class Choice(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x - 1, (x,))
        return y


def flat(module: nn.Module, args: tuple[torch.Tensor, ...]) -> Program:
    """The program of a module as one call without boundaries, with the names `x0`, `w0`, `b0`, `c0`."""
    program = converter.from_torch(module, args)
    (given,) = program.inputs
    names = {given: "x0"} | {constant.value: f"c{i}" for i, constant in enumerate(program.constants)}
    new = {value: Value(name, value.type) for value, name in names.items()}
    same = {node.outputs[0]: node.inputs[0] for node in program.nodes if node.op == "boundary"}

    def known(value: Value | None) -> Value | None:
        while value in same:
            value = same[value]
        return None if value is None else new.get(value, value)

    nodes = (node for node in program.nodes if node.op != "boundary")
    return program.replace(
        inputs=(new[given],),
        outputs=tuple(value for value in map(known, program.outputs) if value is not None),
        nodes=tuple(replace(node, cell=0, inputs=tuple(map(known, node.inputs))) for node in nodes),
        calls=(CellCall("", "Cell"),),
        parameters={f"w{i}": parameter for i, parameter in enumerate(program.parameters.values())},
        buffers={f"b{i}": buffer for i, buffer in enumerate(program.buffers.values())},
        constants=tuple(replace(constant, value=new[constant.value]) for constant in program.constants),
        arguments=positional_arguments(1),
    )


def run(text: FunctionText, *args: torch.Tensor) -> Any:
    """Run the text as a script does, in a namespace with torch alone."""
    names: dict[str, Any] = {"torch": torch}
    exec("\n\n".join([*text.imports, *text.helpers, text.text]), names)
    return names["reference"](*args, *text.tensors.values())


def test_a_text_computes_what_the_module_computes() -> None:
    module, args = Parts().eval(), (torch.randn(2, 3, 7),)
    text = function_text(flat(module, args), "reference")
    assert "cellbridge" not in "\n".join([*text.imports, *text.helpers, text.text])
    assert "float('-inf')" in text.text
    torch.testing.assert_close(run(text, *args), module(*args))


def test_results_have_made_up_names() -> None:
    text = function_text(flat(nn.Linear(3, 2), (torch.randn(1, 3),)), "reference").text
    assert text == ("def reference(x0, w0, w1):\n    v0 = torch.nn.functional.linear(x0, w0, w1)\n    return v0")


@pytest.mark.parametrize("name", ["weight", "torch", "v0", "a b", "x0):\n    import os\n#", "class", ""])
def test_a_name_that_was_not_made_up_is_refused(name: str) -> None:
    program = flat(nn.Linear(3, 2), (torch.randn(1, 3),))
    with pytest.raises(ConversionError, match="can't be the name of a parameter"):
        function_text(
            program.replace(parameters={name: program.parameters["w0"], "w1": program.parameters["w1"]}), "reference"
        )
    with pytest.raises(ConversionError, match="can't be the name of a function"):
        function_text(program, f"{name} ")


def test_branches_are_refused() -> None:
    with pytest.raises(ConversionError, match="branches and loops"):
        function_text(flat(Choice(), (torch.randn(3),)), "reference")


def test_what_needs_cellbridge_is_refused() -> None:
    class Exponential(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.linalg.matrix_exp(x)

    with pytest.raises(ConversionError, match="taylor is code of cellbridge"):
        function_text(flat(Exponential(), (torch.randn(2, 2),)), "reference")
