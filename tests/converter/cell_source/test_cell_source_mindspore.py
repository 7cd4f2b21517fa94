"""Source written for MindSpore runs there, with the weights of the checkpoint, and computes what the original does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils import _pytree as pytree

from cellbridge.converter import from_torch, to_cell_checkpoint, to_cell_source
from cellbridge.parity.inputs import model_file
from cellbridge.runtime import Program
from tests.converter.cell_source.writing import executed

FIXTURES = Path(__file__).parents[3] / "fixtures"
SMALL = ["transformer_encoder", "transformer_encoder_mha", "lstm_classifier", "decoder_lm"]
LARGE = [pytest.param(name, marks=pytest.mark.slow) for name in ("unet", "resnet18")]


def mindspore() -> Any:
    """The package; where it isn't installed, the test is skipped."""
    return pytest.importorskip("mindspore", reason="mindspore is not installed")


def network_there(program: Program, folder: Path) -> Any:
    """The written network in MindSpore, with its weights."""
    ms = mindspore()
    network = executed(to_cell_source(program, target="mindspore"))
    if list(network.get_parameters()):
        to_cell_checkpoint(program, folder / "weights.safetensors")
        loaded = ms.load_checkpoint(str(folder / "weights.safetensors"), format="safetensors")
        assert ms.load_param_into_net(network, loaded) == ([], [])
    return network


def assert_same_outputs(module: nn.Module, folder: Path, *args: Any, **options: Any) -> None:
    ms = mindspore()
    kwargs = options.pop("kwargs", {})
    network = network_there(from_torch(module, args, kwargs, **options), folder)
    given = [ms.Tensor(x.numpy()) for x in pytree.tree_leaves((args, kwargs))]
    outputs = pytree.tree_leaves(network(*given), is_leaf=lambda x: isinstance(x, ms.Tensor))
    with torch.no_grad():
        expected = pytree.tree_leaves(module.eval()(*args, **kwargs))
    assert len(outputs) == len(expected)
    for output, tensor in zip(outputs, expected, strict=True):
        limit = 1e-5 * float(tensor.abs().max())
        np.testing.assert_allclose(output.asnumpy(), tensor.numpy(), rtol=1e-5, atol=limit)


@pytest.mark.parametrize("name", [*SMALL, *LARGE])
def test_fixture(name: str, tmp_path: Path) -> None:
    mindspore()
    model = model_file.load(str(FIXTURES / f"{name}.py"))
    assert_same_outputs(model.module, tmp_path, *model.args, kwargs=model.kwargs, dynamic_shapes=model.dynamic_shapes)


def test_what_mindspore_has_no_kernel_for(tmp_path: Path) -> None:
    """Written in other operators: transposed convolutions with output padding, layer norm without parameters."""

    class Network(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.up = nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1, groups=2)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            y = self.up(x)
            y = nn.functional.conv_transpose2d(y, y[0, :, None, :2, :3], padding=(1, 2), stride=(3, 1), groups=6)
            return nn.functional.layer_norm(y, y.shape[2:])

    assert_same_outputs(Network(), tmp_path, torch.randn(2, 4, 5, 6))


def test_only_imports_and_what_is_not_there_differ() -> None:
    model = model_file.load(str(FIXTURES / "lstm_classifier.py"))
    program = from_torch(model.module, model.args, model.kwargs)
    own_source, mindspore_source = to_cell_source(program), to_cell_source(program, target="mindspore")
    assert own_source.replace("cellbridge.runtime", "mindspore") == mindspore_source
