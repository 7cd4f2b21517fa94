"""Files with batch norms folded into the preceding weights, compared with files without folding."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from cellbridge import converter
from cellbridge.parity.checking.onnx_files.compare import compare_onnx
from cellbridge.parity.sides.rounded_numbers import perturb_program, weights_of_one
from cellbridge.runtime.ir.types import Constant

INPUT = (torch.linspace(-1, 1, 2 * 3 * 64).reshape(2, 3, 8, 8),)


def network(seed: int = 0) -> nn.Sequential:
    torch.manual_seed(seed)
    layers = nn.Sequential(
        nn.Conv2d(3, 6, 3, padding=1, bias=False), nn.BatchNorm2d(6), nn.ReLU(),
        nn.Conv2d(6, 6, 3, groups=6), nn.BatchNorm2d(6), nn.SiLU(),
        nn.Conv2d(6, 8, 1), nn.BatchNorm2d(8),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4),
    )  # fmt: skip
    for norm in norms(layers):
        nn.init.normal_(norm.running_mean)
        nn.init.uniform_(norm.running_var, 0.3, 2)
        nn.init.uniform_(norm.weight, 0.5, 1.5)
        nn.init.normal_(norm.bias)
    return layers.eval()


def norms(layers: nn.Module) -> list[nn.BatchNorm2d]:
    return [each for each in layers if isinstance(each, nn.BatchNorm2d)]


def own_export(layers: nn.Module, path: Path) -> str:
    converter.to_onnx(converter.from_torch(layers, INPUT), path)
    return str(path)


def fused(layers: nn.Module, path: Path) -> str:
    layers = copy.deepcopy(layers)
    for at in (0, 3, 6):
        layers[at] = nn.utils.fuse_conv_bn_eval(layers[at], layers[at + 1])
        layers[at + 1] = nn.Identity()
    return own_export(layers, path)


def by_exporter(layers: nn.Module, path: Path, *, dynamo: bool) -> str:
    if dynamo:
        pytest.importorskip("onnxscript")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(layers, INPUT, str(path), dynamo=dynamo, verbose=False)
    return str(path)


def exported(layers: nn.Module, path: Path) -> str:
    return by_exporter(layers, path, dynamo=True)


def scripted(layers: nn.Module, path: Path) -> str:
    return by_exporter(layers, path, dynamo=False)


def eps(layers: nn.Module) -> None:
    norms(layers)[1].eps = 1e-3


def twice_the_eps(layers: nn.Module) -> None:
    for norm in norms(layers):
        norm.eps = 2e-5


def one_element(layers: nn.Module) -> None:
    layers[0].weight[2, 1, 1, 1] *= 1.001


def scale(layers: nn.Module) -> None:
    norms(layers)[2].weight *= 1 + 1e-5


def exchanged_channels(layers: nn.Module) -> None:
    norms(layers)[0].weight[:2] = norms(layers)[0].weight[:2].flip(0)


def mean(layers: nn.Module) -> None:
    norms(layers)[0].running_mean += 1e-4


def linear(layers: nn.Module) -> None:
    layers[-1].weight *= 1 + 1e-5


def momentum_for_the_variance(layers: nn.Module) -> None:
    """What one more batch of training with another momentum makes of the statistics."""
    norms(layers)[1].running_var.lerp_(torch.ones(6), 1e-3)


FAULTS = {
    eps: {"3"},
    twice_the_eps: {"0", "3", "6"},
    one_element: {"0"},
    scale: {"6"},
    exchanged_channels: {"0"},
    mean: {"0"},
    linear: {"10"},
    momentum_for_the_variance: {"3"},
}
"""The Cells that are wrong: a convolution computes its norm too."""


@pytest.mark.parametrize("write", [fused, exported, scripted])
@pytest.mark.every(4)
def test_a_rounding_of_folded_weights_is_no_fault(write: Callable[[nn.Module, Path], str], tmp_path: Path) -> None:
    first, second = own_export(network(), tmp_path / "first.onnx"), write(network(), tmp_path / "second.onnx")
    for files in ((first, second), (second, first)):
        report = compare_onnx(*files)
        assert report.ok, str(report)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.every(12)
def test_faults_in_what_was_folded_are_told(fault: Callable[[nn.Module], None], tmp_path: Path) -> None:
    wrong = network()
    with torch.no_grad():
        fault(wrong)
    report = compare_onnx(own_export(network(), tmp_path / "first.onnx"), fused(wrong, tmp_path / "second.onnx"))
    assert {*report.failing} == FAULTS[fault], str(report)
    assert all(any(c.check == "meaning" for c in report.cells[path].failures) for path in FAULTS[fault])


@pytest.mark.slow
def test_an_eps_of_a_file_by_an_exporter_is_told(tmp_path: Path) -> None:
    wrong = network()
    eps(wrong)
    files = scripted(wrong, tmp_path / "first.onnx"), own_export(network(), tmp_path / "second.onnx")
    assert not compare_onnx(*files).ok


def test_weights_that_both_files_hold_stay_what_they_are() -> None:
    programs = []
    for bias in (0.3, 0.31):
        torch.manual_seed(0)
        layers = nn.Linear(4, 3)
        nn.init.constant_(layers.bias, bias)
        program = converter.from_torch(layers, (torch.ones(2, 4),))
        fixed = [Constant(parameter.value, parameter.data) for parameter in program.parameters.values()]
        programs.append(program.replace(parameters={}, constants=(*program.constants, *fixed)))
    first, second = programs
    names = weights_of_one(first, second)
    before = {each.value.name: each.data for each in first.constants}
    assert [before[name].shape for name in names] == [(3,)]
    after = {each.value.name: each.data for each in perturb_program(first, names).constants}
    for name, data in after.items():
        apart = np.abs(data / before[name] - 1)
        assert (apart > 0).all() == (name in names)
        assert apart.max() < 2.0**-26


def test_infinities_among_the_weights_stay() -> None:
    mask = np.array([[0.1, -np.inf], [0.3, 0.7]], np.float32)
    program = converter.from_torch(Masked(torch.from_numpy(mask)), (torch.ones(2, 2),))
    (constant,) = [each for each in program.constants if each.data.shape == (2, 2)]
    (after,) = [each.data for each in perturb_program(program, [constant.value.name]).constants if each.data.ndim]
    assert after[0, 1] == -np.inf
    finite = np.isfinite(mask)
    assert (after[finite] != mask[finite]).all()
    np.testing.assert_allclose(after[finite], mask[finite], rtol=1e-7)


class Masked(nn.Module):
    def __init__(self, mask: torch.Tensor) -> None:
        super().__init__()
        self.mask = [mask]  # a constant of the program

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.mask[0]
