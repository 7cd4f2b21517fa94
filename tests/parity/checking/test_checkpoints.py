"""`parity checkpoint`: the verdict, its exit codes and formats; the map that it writes converts other checkpoints."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
from click.testing import CliRunner, Result

from cellbridge.parity import assert_checkpoint, check_checkpoint
from cellbridge.parity.cli import main
from cellbridge.parity.weights.arrangements import Array, Arrays
from cellbridge.parity.weights.audit.names import last_of, parent_of
from cellbridge.parity.weights.checkpoint_files import read_checkpoint, write_torch
from cellbridge.parity.weights.port_map import PortPlan
from tests.parity.weights.audit.test_derivation import network, port


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def parity(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


def write(name: str, arrays: dict[str, Array]) -> None:
    write_torch(name, {key: np.ascontiguousarray(array) for key, array in arrays.items()})


def conversion(seed: int = 0) -> tuple[dict[str, Array], dict[str, Array]]:
    before = {name: array + np.float32(seed) * (np.ptp(array) > 0) for name, array in network().items()}
    after = port(before)[0]
    return before, {name: np.asarray(array, np.float32) for name, array in after.items() if not name.endswith("ff2")}


def test_a_right_conversion_passes() -> None:
    before, after = conversion()
    write("before.safetensors", {name: array for name, array in before.items() if "down" not in name})
    write("after.safetensors", after)
    result = parity("checkpoint", "before.safetensors", "after.safetensors")
    assert result.exit_code == 0, result.output
    assert "The weights arrived whole: 19 of 19 tensors of after.safetensors come from" in " ".join(
        result.output.split()
    )
    assert "layers.*.qkv.kernel ×3  h.*.{q,k,v}.weight  joined along axis 1" in result.output
    assert max(map(len, result.output.splitlines())) <= 80


def test_a_mistake_is_said_in_all_formats() -> None:
    before, after = conversion()
    after["layers.1.ff1"], after["layers.2.ff1"] = after["layers.2.ff1"], after["layers.1.ff1"]
    write("before.safetensors", before)
    write("after.safetensors", after)
    files = ("--json", "r.json", "--junit", "r.xml", "--html", "r.html")
    result = parity("checkpoint", "before.safetensors", "after.safetensors", *files)
    assert result.exit_code == 1
    text = "layers.1.ff1, layers.2.ff1 are exchanged"
    assert text in result.output
    report = json.loads(Path("r.json").read_text())
    assert (report["ok"], report["headline"]) == (False, text)
    assert report["findings"][0]["tensors"] == ["layers.1.ff1", "layers.2.ff1"]
    assert report["tensors"]["layers.1.ff1"]["sources"] == ["h.2.up.weight"]
    assert f'message="{text}"' in Path("r.xml").read_text()
    assert text in Path("r.html").read_text()
    with pytest.raises(AssertionError, match="are exchanged"):
        assert_checkpoint("before.safetensors", Path("after.safetensors"))


def test_the_map_converts_another_checkpoint() -> None:
    before, after = conversion()
    other, expected = conversion(seed=3)
    write("before.pt", before)
    write("after.safetensors", after)
    write("other.safetensors", other)
    assert parity("checkpoint", "before.pt", "after.safetensors", "--write-map", "map.toml").exit_code == 0
    result = parity("weights", "other.safetensors", "-o", "converted.safetensors", "--map", "map.toml")
    assert result.exit_code == 0, result.output
    converted = read_checkpoint("converted.safetensors").arrays
    assert converted.keys() == expected.keys()
    for name, array in expected.items():
        np.testing.assert_array_equal(converted[name], array)


@pytest.mark.parametrize("name", ["nothere.safetensors", "text.safetensors", "empty.pt", "model.txt"])
def test_what_is_no_checkpoint_is_refused(name: str) -> None:
    write("before.safetensors", network())
    for file, content in (("text.safetensors", "no"), ("empty.pt", ""), ("model.txt", "1")):
        Path(file).write_text(content)
    result = parity("checkpoint", "before.safetensors", name)
    assert result.exit_code == 2
    assert name in result.output
    assert "Traceback" not in result.output


def test_a_checkpoint_is_judged_by_a_map() -> None:
    """What the map says is meant, even two layers exchanged; anything else is wrong, even where values can't tell."""
    write("before.safetensors", {name: np.full((4, 4), n, np.float32) + np.eye(4, dtype=np.float32) * k
                                 for n in range(3) for k, name in enumerate((f"h.{n}.a", f"h.{n}.b"))})  # fmt: skip
    before = read_checkpoint("before.safetensors").arrays
    lines = ['"h.0.a" = "l.1.a"', '"h.1.a" = "l.0.a"', '"h.2.a" = "l.2.a"', '"h.*.b" = { drop = true }']
    Path("map.toml").write_text("\n".join(lines))
    exchanged = {"l.1.a": before["h.0.a"], "l.0.a": before["h.1.a"], "l.2.a": before["h.2.a"]}
    write("meant.safetensors", exchanged)
    assert_checkpoint("before.safetensors", "meant.safetensors", map="map.toml")
    write("straight.safetensors", {f"l.{n}.a": before[f"h.{n}.a"] for n in range(3)})
    with pytest.raises(AssertionError, match=r"l\.0\.a isn't what the map makes of h\.1\.a"):
        assert_checkpoint("before.safetensors", "straight.safetensors", map="map.toml")
    write("less.safetensors", {name: array for name, array in exchanged.items() if name != "l.2.a"})
    result = parity("checkpoint", "before.safetensors", "less.safetensors", "--map", "map.toml")
    assert result.exit_code == 1
    assert "l.2.a is missing" in result.output
    assert "the map makes it of h.2.a" in result.output
    write("more.safetensors", {**exchanged, "step": np.ones(1, np.float32)})
    result = parity("checkpoint", "before.safetensors", "more.safetensors", "--map", "map.toml")
    assert result.exit_code == 0
    assert "the map doesn't make step" in result.output


def test_a_conversion_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    before, after = conversion()
    write("before.safetensors", before)
    write("after.safetensors", after)
    parity("checkpoint", "before.safetensors", "after.safetensors", "--write-map", "map.toml")
    words = ("checkpoint", "convert", "before.safetensors", "-o", "made.safetensors", "--map", "map.toml", "--check")
    result = parity(*words)
    assert result.exit_code == 0, result.output
    assert "The weights arrived whole" in result.output

    def damaged(plan: PortPlan, name: str, arrays: Arrays) -> Array:
        return np.zeros_like(plan.assemblies[name].assemble(arrays))

    monkeypatch.setattr(PortPlan, "make", damaged)
    result = parity(*words)
    assert result.exit_code == 1
    assert "isn't what the map makes" in " ".join(result.output.split())


def test_any_checkpoint_is_converted_by_a_map() -> None:
    arrays = {"w": np.arange(6, dtype=np.float32).reshape(2, 3), "n": np.arange(3), "flag": np.ones(3, bool)}
    np.savez("before.npz", **arrays)
    Path("map.toml").write_text('"w" = { to = "kernel", transpose = true }')
    result = parity("checkpoint", "convert", "before.npz", "-o", "after.safetensors", "--map", "map.toml", "--check")
    assert result.exit_code == 0, result.output
    made = safetensors.torch.load_file("after.safetensors")
    assert made.keys() == {"kernel", "n", "flag"}
    np.testing.assert_array_equal(made["kernel"].numpy(), arrays["w"].T)
    assert str(made["flag"].dtype) == "torch.bool"


def test_infinite_numbers_give_no_warnings() -> None:
    before, after = conversion()
    after = {name: array.astype(np.float16) for name, array in after.items()}
    after["layers.1.ff1"][0, 0], after["layers.2.ff1"][0, 0] = np.inf, np.nan
    write("before.safetensors", before)
    write("after.safetensors", after)
    with warnings.catch_warnings(action="error"):
        report = check_checkpoint("before.safetensors", "after.safetensors")
    assert [finding.kind for finding in report.wrong] == ["not finite", "not finite"]


def test_slashes_divide_names_as_dots_do() -> None:
    assert (parent_of("layer_1/norm/gamma"), last_of("layer_1/norm/gamma")) == ("layer_1/norm", "gamma")
    ones = {f"l.{n}.{part}": np.ones(4, np.float32) for n in range(2) for part in ("scale", "mean", "var")}
    kernels = {f"l.{n}.w": np.random.default_rng(n).normal(size=(4, 4)).astype(np.float32) for n in range(2)}
    write("before.safetensors", ones | kernels)
    write("after.safetensors", {name.replace(".", "/"): array for name, array in (ones | kernels).items()})
    report = check_checkpoint("before.safetensors", "after.safetensors")
    assert {name: origin.sources for name, origin in report.derivation.origins.items()} == {
        name.replace(".", "/"): (name,) for name in ones | kernels
    }
