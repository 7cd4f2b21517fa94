"""A recording with other names, fused and stacked layers, and other layouts: `--map`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from torch import nn

from cellbridge import parity
from cellbridge.parity.checking.recordings.names import read_names
from cellbridge.parity.checking.recordings.proposing import propose_names
from cellbridge.parity.checking.recordings.views import STAR, View, parse_index
from cellbridge.parity.cli import main
from cellbridge.recorder import Recorder
from cellbridge.runtime.errors import ShapeError, UsageError
from tests.parity.checking.recordings.networks import after, make, record_reference

MAP = """
[cells]
"blocks.*.attention.query" = "layer_*.qkv[..., 0:16]"
"blocks.*.attention.key" = "layer_*.qkv[..., 16:32]"
"blocks.*.attention.value" = "layer_*.qkv[..., 32:48]"
"blocks.*.attention.out" = "layer_*.project"
"blocks.*.norm" = { cell = "norms", output = "[*]", input = "[*]" }
"blocks.*" = "layer_*"
"head" = { cell = "classifier", transpose = [1, 0, 2] }

[parameters]
"blocks.*.attention.query.weight" = { parameter = "layer_*.qkv.kernel[:, 0:16]", transpose = [1, 0] }
"blocks.*.attention.key.weight" = { parameter = "layer_*.qkv.kernel[:, 16:32]", transpose = [1, 0] }
"blocks.*.attention.value.weight" = { parameter = "layer_*.qkv.kernel[:, 32:48]", transpose = [1, 0] }
"blocks.*.attention.query.bias" = "layer_*.qkv.bias[0:16]"
"blocks.*.attention.key.bias" = "layer_*.qkv.bias[16:32]"
"blocks.*.attention.value.bias" = "layer_*.qkv.bias[32:48]"
"blocks.*.norm.weight" = "norms.scale[*]"
"blocks.*.norm.bias" = "norms.offset[*]"
"head.weight" = { parameter = "classifier.kernel", transpose = [1, 0] }
"""


def test_names_by_habit_are_used_and_shown(tmp_path: Path) -> None:
    net, x = make()
    record_reference(tmp_path / "ref.rec")
    leaves = {"norm.weight": "norm.gamma", "norm.bias": "norm.beta"}
    with Recorder(tmp_path / "port.rec") as recorder, torch.no_grad():
        recorder.cell("", inputs=x, outputs=net(x))
        for i, block in enumerate(net.blocks):
            for name, parameter in block.named_parameters():
                recorder.parameter(f"blocks_{i}.{leaves.get(name, name)}", parameter + (i == 1 and name == "norm.bias"))
    report = parity.judge(tmp_path / "ref.rec", tmp_path / "port.rec")
    failures = [(c.kind, c.tensor) for cell in report.cells.values() for c in cell.failures]
    assert failures == [("parameter", "blocks.1.norm.bias")]
    assert "names by habit: *.weight = *.gamma and *.bias = *.beta" in report.notes
    carried = {weight.source: (weight.parameter, weight.how) for weight in report.correspondence.parameters}
    assert carried["blocks.0.norm.weight"] == ("blocks_0.norm.gamma", "habit")


def record_port(path: Path, fault: Any = None) -> None:
    """Record the network as a port with fused projections, stacked norms and a time-major head would be."""
    net, x = make()
    if fault is not None:
        fault(net)
    values: dict[str, Any] = {}

    def keep(name: str) -> Any:
        def hook(module: nn.Module, args: Any, output: Any) -> None:
            values[name] = args[0].detach().numpy(), (output if isinstance(output, torch.Tensor) else None)

        return hook

    for name, module in net.named_modules():
        module.register_forward_hook(keep(name))
    outputs = net(x)
    array = {name: out.detach().numpy() for name, (_, out) in values.items() if out is not None}
    with Recorder(path, framework="port") as recorder:
        for i, block in enumerate(net.blocks):
            attention = block.attention
            parts = (attention.query, attention.key, attention.value)
            joined = np.concatenate([array[f"blocks.{i}.attention.{n}"] for n in ("query", "key", "value")], -1)
            recorder.cell(f"layer_{i}.qkv", inputs=values[f"blocks.{i}.attention"][0], outputs=joined)
            recorder.parameter(f"layer_{i}.qkv.kernel", np.concatenate([p.weight.detach().numpy().T for p in parts], 1))
            recorder.parameter(f"layer_{i}.qkv.bias", np.concatenate([p.bias.detach().numpy() for p in parts]))
            recorder.cell(f"layer_{i}.project", outputs=array[f"blocks.{i}.attention.out"])
            recorder.cell(f"layer_{i}", inputs=values[f"blocks.{i}"][0], outputs=array[f"blocks.{i}"])
        norms = [f"blocks.{i}.norm" for i in range(3)]
        recorder.cell(
            "norms", inputs=np.stack([values[n][0] for n in norms]), outputs=np.stack([array[n] for n in norms])
        )
        recorder.parameter("norms.scale", np.stack([b.norm.weight.detach().numpy() for b in net.blocks]))
        recorder.parameter("norms.offset", np.stack([b.norm.bias.detach().numpy() for b in net.blocks]))
        recorder.cell("classifier", outputs=array["head"].transpose(1, 0, 2))
        recorder.parameter("classifier.kernel", net.head.weight.detach().numpy().T)
        recorder.cell("", inputs=x.numpy(), outputs={n: y.detach().numpy() for n, y in outputs.items()})


def off(path: str) -> Any:
    return lambda net: after(net.get_submodule(path), lambda y: y * 1.001)


@pytest.fixture
def reference(tmp_path: Path) -> Path:
    record_reference(tmp_path / "ref.rec")
    (tmp_path / "names.toml").write_text(MAP)
    return tmp_path / "ref.rec"


def test_a_port_with_other_names_and_layouts_agrees(reference: Path, tmp_path: Path) -> None:
    record_port(tmp_path / "port.rec")
    report = parity.judge(reference, tmp_path / "port.rec", names=tmp_path / "names.toml")
    assert report.ok, str(report)
    compared = {(path, c.kind) for path, cell in report.cells.items() for c in cell.comparisons}
    for path in ("blocks.1.attention.key", "blocks.2.norm", "head", "blocks.0.attention.out"):
        assert (path, "output") in compared
    assert ("blocks.2.norm", "parameter") in compared
    pairs = {pair.module: pair for pair in report.correspondence.cells}
    key, head = pairs["blocks.1.attention.key"], pairs["head"]
    assert (key.cell, key.how, key.is_part) == ("layer_1.qkv", "given", True)
    assert (head.cell, head.layout, head.is_part) == ("classifier", "another layout", False)
    carried = {weight.source: weight for weight in report.correspondence.parameters}
    assert carried["blocks.0.attention.key.weight"].layout == "a part, transposed"


@pytest.mark.parametrize("path", ["blocks.1.attention.key", "blocks.2.norm", "head"])
@pytest.mark.every(3)
@pytest.mark.every(2)
def test_a_fault_is_placed_in_the_references_names(reference: Path, tmp_path: Path, path: str) -> None:
    record_port(tmp_path / "bad.rec", off(path))
    assert path in parity.judge(reference, tmp_path / "bad.rec", names=tmp_path / "names.toml").failing
    module, x = make()
    report = parity.compare(module, tmp_path / "bad.rec", (x,), names=tmp_path / "names.toml", diagnose_seconds=0)
    assert report.failing == [path]


def test_a_wrong_parameter_is_found_in_a_part_of_a_fused_one(reference: Path, tmp_path: Path) -> None:
    text = MAP.replace('kernel[:, 16:32]", transpose = [1, 0]', 'kernel[:, 17:33]", transpose = [1, 0]')
    (tmp_path / "names.toml").write_text(text)
    record_port(tmp_path / "port.rec")
    report = parity.judge(reference, tmp_path / "port.rec", names=tmp_path / "names.toml")
    assert report.failing == [f"blocks.{i}.attention.key" for i in range(3)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[cells]\nx.y = 1", "needed a name, a table with cell, input, output, transpose, or false"),
        ('[cells]\n"a" = "b[0;1]"', "needed numbers, a:b"),
        ('[cells]\n"a" = "b[..., ...]"', r"may have one \.\.\."),
        ('[cells]\n"a" = "b*"', "has more `\\*`"),
        ('[cells]\n"a." = "b"', "a prefix, which ends in a dot"),
        ('[cells]\n"a" = { cell = "b", transpose = [0, 0] }', "needed all axes in their order"),
        ('[other]\n"a" = "b"', r"needed the tables \[cells\], \[parameters\] and \[tokens\]"),
        ("a b", "is not TOML"),
        ('[cells]\n"nothing.*" = "layer_*"', "matches nothing in the reference"),
        ('[cells]\n"head" = "nowhere"', "head would be nowhere, which isn't in the recording; it has layer_0"),
    ],
)
@pytest.mark.every(6)
def test_a_wrong_map_is_refused(reference: Path, tmp_path: Path, text: str, message: str) -> None:
    record_port(tmp_path / "port.rec")
    (tmp_path / "names.toml").write_text(text)
    with pytest.raises(UsageError, match=message):
        parity.judge(reference, tmp_path / "port.rec", names=tmp_path / "names.toml")


def test_what_has_no_counterpart_and_what_a_cell_takes_are_left_out(reference: Path, tmp_path: Path) -> None:
    record_port(tmp_path / "bad.rec", off("blocks.1.attention.out"))
    (tmp_path / "names.toml").write_text(MAP)
    assert (
        "blocks.1.attention.out" in parity.judge(reference, tmp_path / "bad.rec", names=tmp_path / "names.toml").failing
    )
    lines = MAP.replace("[cells]", '[cells]\n"blocks.1.attention.out" = false').replace(
        '"blocks.*" = "layer_*"', '"blocks.*" = { cell = "layer_*", input = false }'
    )
    (tmp_path / "names.toml").write_text(lines)
    report = parity.judge(reference, tmp_path / "bad.rec", names=tmp_path / "names.toml")
    assert report.failing == ["blocks.1"]
    assert not report.cells["blocks.1.attention.out"].comparisons


def test_a_part_that_is_not_there_is_named(reference: Path, tmp_path: Path) -> None:
    record_port(tmp_path / "port.rec")
    (tmp_path / "names.toml").write_text('[cells]\n"head" = "classifier[9, 9]"')
    with pytest.raises(ShapeError, match=r"head output result, of shape \[7, 2, 5\], has no part \[9, 9\]"):
        parity.judge(reference, tmp_path / "port.rec", names=tmp_path / "names.toml")


def test_values_propose_a_map_that_judges(reference: Path, tmp_path: Path) -> None:
    record_port(tmp_path / "port.rec")
    proposal = propose_names(reference, tmp_path / "port.rec", tmp_path / "found.toml")
    lines = proposal.text.splitlines()
    for line in (
        '"blocks.*.attention.key" = "layer_*.qkv[..., 16:32]"',
        '"blocks.*.norm" = { cell = "norms", output = "[*]", input = "[*]" }',
        '"head" = { cell = "classifier", transpose = [1, 0, 2] }',
        '"blocks.*.attention.key.weight" = { parameter = "layer_*.qkv.kernel[..., 16:32]", transpose = [1, 0] }',
    ):
        assert line in lines
    report = parity.judge(reference, tmp_path / "port.rec", names=tmp_path / "found.toml")
    assert report.ok, str(report)
    assert {"blocks.1.attention.query", "blocks.2.norm", "head"} <= {p for p, c in report.cells.items() if c.outputs}


@pytest.mark.slow
def test_a_map_proposed_for_a_wrong_network_covers_what_is_wrong(reference: Path, tmp_path: Path) -> None:
    record_port(tmp_path / "bad.rec", off("blocks.1.norm"))
    proposal = propose_names(reference, tmp_path / "bad.rec", tmp_path / "found.toml")
    assert "blocks.1.norm" in proposal.unsupported
    assert parity.judge(reference, tmp_path / "bad.rec", names=tmp_path / "found.toml").failing == ["blocks.1.norm"]


def test_recordings_without_a_value_in_common_give_no_proposal(reference: Path, tmp_path: Path) -> None:
    with Recorder(tmp_path / "other.rec") as recorder:
        recorder.cell("a", outputs=np.random.default_rng(0).standard_normal((2, 7, 16)))
    with pytest.raises(UsageError, match="no two Cells of the recordings returned the same values"):
        propose_names(reference, tmp_path / "other.rec")


@pytest.mark.slow
def test_the_command_proposes(reference: Path, tmp_path: Path) -> None:
    record_port(tmp_path / "port.rec")
    paths = [str(tmp_path / name) for name in ("ref.rec", "port.rec", "found.toml")]
    run = CliRunner().invoke
    proposed = run(main, ["judge", *paths[:2], "--propose-map", paths[2]], catch_exceptions=False)
    assert proposed.exit_code == 0, proposed.output
    assert "values support" in proposed.output
    assert run(main, ["judge", *paths[:2], "--map", paths[2]], catch_exceptions=False).exit_code == 0
    refused = run(main, ["judge", *paths[:2]], catch_exceptions=False)
    assert refused.exit_code == 0  # by the outputs of the network, which both have


def test_indices_are_parsed_strictly() -> None:
    assert parse_index("[..., 0:4, -1, *, :]", "") == (..., slice(0, 4), -1, STAR, slice(None))
    for text in ("[__import__('os')]", "[0:1:2]", "[", "[]", "[,]", "[1e3]"):
        with pytest.raises(UsageError):
            parse_index(text, "here")
    assert View((STAR,)).filled(("layers", "3"), "here") == View((3,))


def test_a_map_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="can't read the map"):
        read_names(tmp_path / "none.toml")
