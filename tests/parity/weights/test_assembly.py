"""Tensors that a map file makes of rows of others, or computes of them."""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.utils.parametrizations import weight_norm

from cellbridge.parity.weights.assembly import Assembly, Grid, grids_of
from cellbridge.parity.weights.checkpoints import convert_checkpoint
from cellbridge.parity.weights.map_file import parse
from cellbridge.parity.weights.map_text import map_text
from cellbridge.runtime.errors import UsageError

A = np.arange(24.0).reshape(4, 6)
B = 100 + np.arange(12.0).reshape(2, 6)


def assembled(line: str, **arrays: np.ndarray) -> np.ndarray:
    weight_map = parse(tomllib.loads(line), "map.toml")
    (assembly,) = weight_map.assemblies_for(None, []).values()
    return assembly.assemble({"a": A, "b": B, "v": np.arange(4.0), **arrays})


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ('x = { from = ["a", "b"] }', np.concatenate([A, B])),
        ('x = { from = "v", rows = [[2, 4], [0, 1]] }', np.array([2.0, 3, 0])),
        ('x = { from = ["a"], from_axes = [1], rows = [[0, 2]] }', A[:, :2].T),
        ('x = { from = ["v"], rows = [[2, 3]], shape = [] }', np.array(2.0)),
        ('x = { from = ["a"], columns = [[3, 6], [0, 3]] }', A[:, [3, 4, 5, 0, 1, 2]]),
        ('x = { from = ["a"], rows = [{ start = 0, sizes = [2, 2], strides = [1, 2] }] }', A[[0, 2, 1, 3]]),
        ('x = { from = ["a", "b"], axes = [0, 2], shape = [3, 6, 2] }',
         np.concatenate([A, B]).reshape(3, 2, 6).transpose(0, 2, 1)),
        ('x = { from = ["v"], shape = [4, 1, 1] }', np.arange(4.0).reshape(4, 1, 1)),
        ('x = { from = [{ computed = "affine", of = ["a"], times = 2, plus = 1 }] }', 2 * A + 1),
        ('x = { from = [{ computed = "affine", of = ["v"], plus = [1, 0, 0, 1] }] }', np.array([1.0, 1, 2, 4])),
        ('x = { from = [{ computed = "sum", of = ["a", "a"] }] }', 2 * A),
        ('x = { from = [{ computed = "exp", of = ["v"] }] }', np.exp(np.arange(4.0))),
    ],
)  # fmt: skip
def test_a_line_makes_a_tensor(line: str, expected: np.ndarray) -> None:
    np.testing.assert_array_equal(assembled(line), expected)


def test_forms_compute_what_torch_does() -> None:
    normed = weight_norm(torch.nn.Conv1d(3, 4, 2))
    gain, direction = (p.detach().numpy() for p in normed.parametrizations.weight.parameters())
    line = 'x = { from = [{ computed = "weight_norm", of = ["g", "d"] }], shape = [4, 3, 2] }'
    np.testing.assert_allclose(assembled(line, g=gain, d=direction), normed.weight.detach().numpy(), rtol=1e-6)
    conv, norm = torch.nn.Conv2d(3, 4, 2), torch.nn.BatchNorm2d(4).eval()
    for tensor in norm.state_dict().values():
        if tensor.is_floating_point():
            tensor.uniform_(0.5, 2)
    folded = torch.nn.utils.fuse_conv_bn_eval(conv.eval(), norm)
    arrays = {f"norm.{name}": value.numpy() for name, value in norm.state_dict().items()}
    arrays |= {f"conv.{name}": value.detach().numpy() for name, value in conv.state_dict().items()}
    of = {
        "batch_norm": '["conv.weight", "norm.weight", "norm.running_var"]',
        "batch_norm_bias": '["norm.bias", "norm.weight", "norm.running_mean", "norm.running_var", "conv.bias"]',
    }
    for name, (form, names) in zip(("weight", "bias"), of.items(), strict=True):
        line = f'x = {{ from = [{{ computed = "{form}", of = {names}, eps = 1e-5 }}] }}'
        np.testing.assert_allclose(
            assembled(line, **arrays), getattr(folded, name).detach().numpy(), rtol=1e-5, atol=1e-6
        )
    scaled = assembled('x = { from = [{ computed = "scaled", of = ["a", "v"] }] }')
    np.testing.assert_array_equal(scaled, A * np.arange(4.0)[:, None])
    up, down = np.ones((4, 2)), np.full((2, 6), 3.0)
    lora = assembled('x = { from = [{ computed = "lora", of = ["a", "u", "d"], times = 0.5 }] }', u=up, d=down)
    np.testing.assert_allclose(lora, A + 3)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("x = { from = [] }", "`from` must be a name or a list of names"),
        ('x = { from = ["a"], row = [[0, 1]] }', "beside `from`, given row"),
        ('x = { from = ["a"], rows = [[0, 9]] }', "there are rows 0 to 3, and rows 0 to 8 are asked for"),
        ('x = { from = ["a"], rows = [[2, 1]] }', "'rows' has [start, stop]"),
        ('x = { from = ["a"], columns = [{ start = -1, sizes = [1], strides = [1] }] }', "there are columns 0 to 5"),
        ('x = { from = ["a"], rows = [{ start = 0, sizes = [99999, 99999], strides = [0, 0] }] }', "for more than"),
        ('x = { from = ["a"], shape = [5, 5] }', "4 rows of 6 don't fit the shape [5, 5]"),
        ('x = { from = ["a"], from_axes = [2] }', "rows along axes [2] need as many axes"),
        ('x = { from = ["a"], axes = [3], shape = [4, 6] }', "`axes` [3] don't fit the shape [4, 6]"),
        ('x = { from = ["a", "v"] }', "their rows differ in length: a [4, 6], v [4]"),
        ('x = { from = [{ computed = "eval", of = ["a"] }] }', "`computed` must be one of"),
        ('x = { from = [{ computed = "lora", of = ["a"], times = 1 }] }', "`of` must be a list of 3 names"),
        ('x = { from = [{ computed = "batch_norm", of = ["a", "v", "v"] }] }', "batch_norm needs eps"),
        ('x = { from = [{ computed = "affine", of = ["a"], times = inf }] }', "'times' must be a finite number"),
        ('x = { from = [{ computed = "affine", of = ["a"], power = 2 }] }', "affine has no 'power'"),
        ('x = { from = [{ computed = "scaled", of = ["v", "b"] }] }', "the shapes don't fit: v [4], b [2, 6]"),
        ('x = { from = [{ computed = "sum", of = ["a", "b"] }] }', "the shapes don't fit: a [4, 6], b [2, 6]"),
    ],
)  # fmt: skip
def test_a_line_is_refused(line: str, message: str) -> None:
    with pytest.raises(UsageError) as error:
        assembled(line)
    assert message in str(error.value)


@given(st.lists(st.integers(0, 40), min_size=1, max_size=40))
def test_numbers_are_the_grids_that_they_are_written_as(numbers: list[int]) -> None:
    array = np.asarray(numbers)
    grids = grids_of(array)
    np.testing.assert_array_equal(np.concatenate([grid.numbers() for grid in grids]), array)


def test_rows_of_heads_are_written_as_one_grid() -> None:
    pairs = np.arange(32).reshape(4, 2, 4).transpose(0, 2, 1).reshape(-1)
    assert grids_of(pairs) == (Grid(0, (4, 4, 2), (8, 1, 4)),)
    assert grids_of(np.r_[8:16, 0:8]) == (Grid(8, (8,), (1,)), Grid(0, (8,), (1,)))


def test_a_map_is_read_as_it_was_written() -> None:
    assemblies = {
        "mine": Assembly(("theirs",)),
        'quoted "name"\n': Assembly(("a",), from_axes=(1,)),
        "part": Assembly(("a",), rows=(Grid(0, (2,), (1,)),)),
    }
    text = map_text(assemblies, {"part": "two\nlines"}, ["not loaded: x"], ["gone"])
    weight_map = parse(tomllib.loads(text), "map.toml")
    assert weight_map.assemblies == {"part": assemblies["part"]}
    assert [entry.torch for entry in weight_map.entries] == ["theirs", "a", "gone"]
    assert "# two\n# lines\n" in text
    written_map = parse(tomllib.loads(map_text(assemblies | {"copy": Assembly(("theirs",))}, {})), "map.toml")
    assert written_map.assemblies.keys() == {*assemblies, "copy"}


def test_a_checkpoint_is_converted_to_that_of_a_port(tmp_path: Path) -> None:
    source, target, file = tmp_path / "there.pt", tmp_path / "here.pt", tmp_path / "map.toml"
    torch.save(
        {"q": torch.ones(2, 3), "k": torch.zeros(2, 3), "same": torch.arange(3.0), "gone": torch.ones(1)}, source
    )
    file.write_text('"qk" = { from = ["q", "k"] }\n"gone" = { drop = true }')
    result = convert_checkpoint(str(source), str(target), str(file))
    made = torch.load(target)
    assert made.keys() == {"qk", "same"}
    torch.testing.assert_close(made["qk"], torch.cat([torch.ones(2, 3), torch.zeros(2, 3)]))
    assert [(drop.name, drop.why) for drop in result.drops] == [("gone", "by the map")]
    with pytest.raises(UsageError, match="'qk': a line with `from` says what a tensor of a port in torch is made of"):
        convert_checkpoint(str(source), str(tmp_path / "here.ckpt"), str(file))
    with pytest.raises(UsageError, match="for a port in torch, give --map"):
        convert_checkpoint(str(source), str(target))
    for text in ("", '"backbone." = ""', '"nothing" = { drop = true }'):
        file.write_text(text)
        with pytest.raises(UsageError, match="no line is about a tensor of the checkpoint"):
            convert_checkpoint(str(source), str(tmp_path / "copy.pt"), str(file))
    assert not (tmp_path / "copy.pt").exists()
