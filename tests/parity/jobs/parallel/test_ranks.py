"""`parity run --ranks`: parallel networks agree with one process, and planted faults are found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from cellbridge.parity.cli import main
from cellbridge.parity.jobs.parallel.assemble import _whole
from cellbridge.parity.jobs.parallel.check import explain_gradients

HEAD = """
import torch
from torch import nn
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
DDP = nn.parallel.DistributedDataParallel

def model():
    return nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 3))

def inputs():
    return (torch.randn(6, 6),)

def loss(outputs):
    return outputs.square().mean()
"""
REDUCE = """
splits_batch = True
def parallelize(module, mesh):
    def reduce(parameter):
        dist.all_reduce(parameter.grad)
        parameter.grad.mul_(FACTOR)
    for parameter in PARAMETERS:
        parameter.register_post_accumulate_grad_hook(reduce)
"""
BATCH_NORM = """
def model():
    return nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 3))
def parallelize(module, mesh):
    return DDP(module)
"""
TENSOR_PARALLEL = """
def model():
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
def parallelize(module, mesh):
    parallelize_module(module, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
"""


def run(tmp_path: Path, text: str, *options: str) -> tuple[Result, dict[str, Any]]:
    (tmp_path / "net.py").write_text(HEAD + text)
    arguments = ["run", str(tmp_path / "net.py"), "--ranks", "2", "--json", str(tmp_path / "out.json"), *options]
    result = CliRunner().invoke(main, arguments, catch_exceptions=False)
    report = tmp_path / "out.json"
    return result, json.loads(report.read_text()) if report.exists() else {}


SOUND = {
    "DDP": "def parallelize(module, mesh):\n    return DDP(module)\n",
    "FSDP": "def parallelize(module, mesh):\n    fully_shard(module[0], mesh=mesh)\n    fully_shard(module)",
    "tensor parallel": TENSOR_PARALLEL,
    "by hand": REDUCE.replace("FACTOR", "0.5").replace("PARAMETERS", "module.parameters()"),
}


@pytest.mark.parametrize(
    "name", ["DDP", *(pytest.param(name, marks=pytest.mark.slow) for name in SOUND if name != "DDP")]
)
def test_a_parallel_network_agrees_with_one_process(tmp_path: Path, name: str) -> None:
    result, report = run(tmp_path, SOUND[name])
    assert result.exit_code == 0, result.output
    assert report["sides"] == ["2 ranks"]
    checked = {(c["kind"], c["tensor"]) for cell in report["cells"] for c in cell["comparisons"]}
    last = "2.weight" if name == "tensor parallel" else "3.weight"
    assert {("output", "result"), ("parameter gradient", last), ("parameter", "0.bias")} <= checked


WRONG_BIAS = TENSOR_PARALLEL.replace("mesh, {", "mesh, {").replace(
    '"2": RowwiseParallel()})\n',
    '"2": RowwiseParallel()})\n    with torch.no_grad():\n        bias = module[0].bias.to_local()\n'
    "        if dist.get_rank() == 1:\n            bias.copy_(bias.flip(0))\n",
)
FAULTS: dict[str, tuple[str, list[str], str]] = {
    "no reduction": (
        REDUCE.replace("FACTOR", "0.5").replace("PARAMETERS", "[]"),
        ["0", "1", "3"],
        "whose mean is right: they aren't reduced",
    ),
    "a sum for a mean": (
        REDUCE.replace("FACTOR", "1.0").replace("PARAMETERS", "module.parameters()"),
        ["0", "1", "3"],
        "the gradients are 2 times what they must be",
    ),
    "divided twice": (
        REDUCE.replace("FACTOR", "0.25").replace("PARAMETERS", "module.parameters()"),
        ["0", "1", "3"],
        "the gradients are 1/2 of what they must be",
    ),
    "one layer forgotten": (
        REDUCE.replace("FACTOR", "0.5").replace("PARAMETERS", "[*module[0].parameters(), *module[1].parameters()]"),
        ["3"],
        "they aren't reduced",
    ),
    "a bias that is wrongly sharded": (WRONG_BIAS, ["0"], ""),
}


@pytest.mark.parametrize(
    "name", ["a sum for a mean", *(pytest.param(n, marks=pytest.mark.slow) for n in FAULTS if n != "a sum for a mean")]
)
def test_a_fault_is_placed_and_explained(tmp_path: Path, name: str) -> None:
    text, cells, words = FAULTS[name]
    result, report = run(tmp_path, text, "--diagnose-seconds", "0")
    assert result.exit_code == 1, result.output
    assert report["failing"] == cells, result.output
    assert words in " ".join(result.output.split())


@pytest.mark.slow
def test_statistics_of_a_part_of_the_batch_fail_in_their_norm(tmp_path: Path) -> None:
    result, report = run(tmp_path, BATCH_NORM, "--train", "--diagnose-seconds", "0")
    assert result.exit_code == 1
    assert report["failing"] == ["1"], result.output
    assert run(tmp_path, BATCH_NORM)[0].exit_code == 0


@pytest.mark.slow
def test_dropout_that_is_alike_in_all_processes_fails(tmp_path: Path) -> None:
    text = SOUND["DDP"] + "def model():\n    return nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.5), nn.Linear(8, 3))\n"
    result, report = run(tmp_path, text, "--train")
    assert report["failing"] == ["1"], result.output
    assert "seed them by rank" in " ".join(result.output.split())
    sound = text.replace("    return DDP", "    torch.manual_seed(dist.get_rank())\n    return DDP")
    result, _ = run(tmp_path, sound, "--train")
    assert result.exit_code == 0, result.output
    assert "dropout was left out" in " ".join(result.output.split())


@pytest.mark.slow
def test_steps_of_training_agree(tmp_path: Path) -> None:
    result, _ = run(tmp_path, SOUND["DDP"], "--train-steps", "3", "--clip-norm", "0.1")
    assert result.exit_code == 0, result.output
    text, _, _ = FAULTS["a sum for a mean"]
    assert run(tmp_path, text, "--train-steps", "2", "--optimizer", "sgd")[0].exit_code == 1


@pytest.mark.parametrize(
    ("text", "options", "message"),
    [
        ("", [], "defines no parallelize(module, mesh)"),
        (SOUND["DDP"], ["--round-trip"], "--ranks can't be combined with --round-trip"),
        (SOUND["DDP"], ["--dtype", "float16"], "compares in float32 or float64"),
    ],
)
def test_what_cannot_be_compared_is_said(tmp_path: Path, text: str, options: list[str], message: str) -> None:
    result, _ = run(tmp_path, text, *options)
    assert result.exit_code == 2
    assert message in result.output


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("def parallelize(module, mesh):\n    raise ValueError('no')\n", "ValueError: no"),
        ("def parallelize(module, mesh):\n    return 3\n", "must return an nn.Module; it returned int"),
        (SOUND["DDP"] + "def inputs():\n    return (torch.randn(5, 6),)\n", "can't be split into 2 equal parts"),
    ],
)
def test_an_error_in_a_process_is_one_message(tmp_path: Path, text: str, message: str) -> None:
    result, _ = run(tmp_path, text)
    assert result.exit_code == 2, result.output
    assert message in result.output


def test_parts_are_put_together_along_the_axis_that_they_share() -> None:
    expected = np.arange(24.0).reshape(4, 6)
    for axis in (0, 1):
        whole = _whole(np.split(expected, 2, axis), expected)
        np.testing.assert_array_equal(whole, expected)
    assert _whole([expected[:2, :3], expected[2:, 3:]], expected) is None
    assert _whole([expected[:2], expected[:1]], expected) is None
    np.testing.assert_array_equal(_whole([expected, expected + 1], expected), expected + 1)


def test_gradients_without_a_simple_relation_are_not_explained() -> None:
    random = np.random.default_rng(0)
    expected, unrelated = {"w": random.normal(size=5)}, random.normal(size=5)
    assert explain_gradients(expected, {"w": [unrelated, unrelated]}, 2) == ()
    assert explain_gradients({}, {}, 2) == ()


CLIPPING = """
def clip_gradients(module, max_norm):
    parts = [parameter.grad.to_local() for parameter in module.parameters()]
    square = torch.stack([part.square().sum() for part in parts]).sum()
    REDUCTION
    for part in parts:
        part.mul_((max_norm / (square.sqrt() + 1e-6)).clamp(max=1.0))
"""


@pytest.mark.slow
def test_clipping_by_the_norm_of_a_part_is_a_wrong_update(tmp_path: Path) -> None:
    options = ("--train-steps", "2", "--clip-norm", "0.1")
    right = SOUND["FSDP"] + "\n" + CLIPPING.replace("REDUCTION", "dist.all_reduce(square)")
    result, _ = run(tmp_path, right, *options)
    assert result.exit_code == 0, result.output
    result, _ = run(tmp_path, right.replace("dist.all_reduce(square)", "pass"), *options)
    assert result.exit_code == 1, result.output
    assert "update" in " ".join(result.output.split()), result.output
