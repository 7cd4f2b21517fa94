"""`parity checkpoint`: the verdict, its exit codes and formats; the map that it writes converts other checkpoints."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from cellbridge.parity import assert_checkpoint
from cellbridge.parity.cli import main
from cellbridge.parity.weights.arrangements import Array
from cellbridge.parity.weights.checkpoint_files import read_checkpoint, write_torch
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
