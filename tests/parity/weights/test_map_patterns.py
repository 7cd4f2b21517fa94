"""Written maps, in which lines that differ in numbers alone are one line with a `*`."""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cellbridge.parity.weights.assembly import Assembly, Grid
from cellbridge.parity.weights.checkpoints import convert_checkpoint
from cellbridge.parity.weights.computed import Computed
from cellbridge.parity.weights.map_file import parse
from cellbridge.parity.weights.map_text import map_text
from cellbridge.parity.weights.port_map import plan_port
from cellbridge.runtime.errors import UsageError

LAYERS = range(12)
ROWS = {"q": Grid(0, (2,), (1,)), "k": Grid(2, (2,), (1,)), "v": Grid(4, (2,), (1,))}


def lines_of(text: str) -> list[str]:
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def port() -> tuple[dict[str, np.ndarray], dict[str, Assembly]]:
    """A decoder with one matrix for q, k and v, and its port with three, under other names."""
    reference = {f"h.{n}.{name}": np.full((6, 2), n + len(name)) for n in LAYERS for name in ("qkv", "up", "idle")}
    assemblies = {f"layers.{n}.mlp.up": Assembly((f"h.{n}.up",), from_axes=(1,)) for n in LAYERS}
    assemblies |= {
        f"layers.{n}.{x}": Assembly((f"h.{n}.qkv",), rows=(rows,)) for n in LAYERS for x, rows in ROWS.items()
    }
    reference |= {"wte": np.ones(3), "h.bias": np.ones(1)}
    return reference, assemblies | {"words": Assembly(("wte",))}


def test_layers_are_one_line_and_say_the_same() -> None:
    reference, assemblies = port()
    dropped = [f"h.{n}.idle" for n in LAYERS]
    text = map_text(assemblies, {"layers.3.q": "a remark"}, [], dropped, reference, assemblies)
    assert lines_of(text) == [
        '"h.*.up" = { to = "layers.*.mlp.up", transpose = true }',
        '"layers.*.q" = { from = ["h.*.qkv"], rows = [[0, 2]] }',
        '"layers.*.k" = { from = ["h.*.qkv"], rows = [[2, 4]] }',
        '"layers.*.v" = { from = ["h.*.qkv"], rows = [[4, 6]] }',
        '"wte" = "words"',
        '"h.*.idle" = { drop = true }',
    ]
    assert "# a remark\n" in text
    weight_map = parse(tomllib.loads(text), "map.toml")
    for port_names in (assemblies.keys(), None):  # as for a network, and for a checkpoint, that of the reference alone
        plan = plan_port(weight_map, {name: array.shape for name, array in reference.items()}, port_names)
        of = {name: assembly.names for name, assembly in assemblies.items()}
        expected = of | ({"h.bias": ("h.bias",)} if port_names is None else {})
        assert {name: made.names for name, made in plan.assemblies.items()} == expected
        for name, assembly in assemblies.items():
            np.testing.assert_array_equal(plan.make(name, reference), assembly.assemble(reference))


def test_a_checkpoint_is_converted_by_a_line_with_stars(tmp_path: Path) -> None:
    torch.save({f"h.{n}.qkv": torch.full((6, 2), float(n)) for n in range(3)}, tmp_path / "there.pt")
    (tmp_path / "map.toml").write_text('"layers.*.q" = { from = ["h.*.qkv"], rows = [[0, 2]] }')
    convert_checkpoint(str(tmp_path / "there.pt"), str(tmp_path / "here.pt"), str(tmp_path / "map.toml"))
    made = torch.load(tmp_path / "here.pt")
    assert {name: (list(t.shape), float(t[0, 0])) for name, t in made.items()} == {
        f"layers.{n}.q": ([2, 2], float(n)) for n in range(3)
    }
    (tmp_path / "map.toml").write_text('"layers.*.q" = { from = ["qkv"] }')
    with pytest.raises(UsageError, match="each `\\*` must be in the first name of `from`, too"):
        convert_checkpoint(str(tmp_path / "there.pt"), str(tmp_path / "here.pt"), str(tmp_path / "map.toml"))


def test_a_pattern_says_nothing_of_other_names() -> None:
    assemblies = {f"layers.{n}.w": Assembly((f"h.{n}.w",)) for n in range(3)}
    reference = [assembly.names[0] for assembly in assemblies.values()]
    assert lines_of(map_text(assemblies, {}, [], [], reference)) == ['"h.*.w" = "layers.*.w"']
    for reference_names, port_names in (([*reference, "h.3.w"], []), (reference, ["layers.7.w"])):
        assert len(lines_of(map_text(assemblies, {}, [], [], reference_names, port_names))) == 3


def test_layers_that_are_made_otherwise_keep_their_lines() -> None:
    assemblies = {f"layers.{n}.w": Assembly((f"h.{n}.w",), from_axes=(n % 2,)) for n in range(4)}
    assert len(lines_of(map_text(assemblies, {}))) == 4
    crossed = {f"layers.{n}.w": Assembly((f"h.{3 - n}.w",)) for n in range(4)}
    assert len(lines_of(map_text(crossed, {}))) == 4


def test_experts_of_layers_have_two_stars() -> None:
    assemblies = {f"b.{n}.e.{m}.w": Assembly((f"h.{n}.experts.{m}.w",)) for n in range(4) for m in range(3)}
    assert lines_of(map_text(assemblies, {})) == ['"h.*.experts.*.w" = "b.*.e.*.w"']


def test_what_is_computed_of_several_tensors_is_one_line() -> None:
    norm = (("eps", 1e-5),)
    assemblies = {
        f"c.{n}.w": Assembly((Computed("batch_norm", tuple(f"l.{n}.{x}" for x in ("w", "g", "v")), norm),))
        for n in range(3)
    }
    (line,) = lines_of(map_text(assemblies, {}))
    assert line.startswith('"c.*.w" = { from = [{ computed = "batch_norm", of = ["l.*.w", "l.*.g", "l.*.v"]')


NAME = st.lists(st.sampled_from(["a", "b", "0", "1", "2", "10", "n1", "n2"]), min_size=1, max_size=4).map(".".join)


@given(st.dictionaries(NAME, NAME, min_size=1, max_size=12), st.lists(NAME, max_size=6, unique=True))
def test_whatever_is_written_is_read_as_the_same(pairs: dict[str, str], others: list[str]) -> None:
    assemblies = {name: Assembly((source,)) for name, source in pairs.items()}
    reference = {*pairs.values(), *others}
    dropped = [name for name in sorted(reference) if name not in pairs.values()]
    text = map_text(assemblies, {}, [], dropped, reference, pairs)
    plan = plan_port(parse(tomllib.loads(text), "map.toml"), dict.fromkeys(sorted(reference), ()), pairs.keys())
    assert {name: made.names for name, made in plan.assemblies.items() if name in pairs} == {
        name: (source,) for name, source in pairs.items()
    }
