"""Checkpoints are opened by their suffix, and quantized ones give the values that they stand for."""

from __future__ import annotations

import json
from pathlib import Path

import gguf
import numpy as np
import pytest
from safetensors.numpy import save_file

from cellbridge.parity.weights.readers.opening import open_checkpoint
from cellbridge.runtime.errors import UsageError
from tests.parity.weights.readers.packed.test_gptq import ROWS, VALUES, gptq, step


def packed(folder: Path, offset: int, config: str) -> str:
    save_file(
        {name: np.ascontiguousarray(array) for name, array in gptq(offset=offset).items()}, folder / "a.safetensors"
    )
    (folder / "config.json").write_text(config)
    return str(folder / "a.safetensors")


@pytest.mark.parametrize(("checkpoint_format", "offset"), [("gptq", 1), ("gptq_v2", 0)])
def test_a_packed_checkpoint_is_read_as_the_configuration_beside_it_says(
    tmp_path: Path, checkpoint_format: str, offset: int
) -> None:
    settings = {"quant_method": "gptq", "bits": 4, "checkpoint_format": checkpoint_format}
    stored = open_checkpoint(packed(tmp_path, offset, json.dumps({"quantization_config": settings})))
    assert set(stored.tensors) == {"l.bias", "l.weight"}
    assert (np.abs(stored.tensors["l.weight"].read() - VALUES) < 1.01 * step(4)).all()


def test_a_configuration_that_is_not_json_matters_to_packed_weights_only(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"it is packed, and its config\.json isn't JSON"):
        open_checkpoint(packed(tmp_path, 1, "{"))
    save_file({"w": VALUES}, tmp_path / "a.safetensors")
    np.testing.assert_array_equal(open_checkpoint(str(tmp_path / "a.safetensors")).tensors["w"].read(), VALUES)


def test_a_gguf_file_is_opened(tmp_path: Path) -> None:
    writer = gguf.GGUFWriter(tmp_path / "a.gguf", "llama")
    writer.add_tensor(
        "l.weight", gguf.quantize(VALUES, gguf.GGMLQuantizationType.Q8_0), raw_dtype=gguf.GGMLQuantizationType.Q8_0
    )
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    stored = open_checkpoint(str(tmp_path / "a.gguf"))
    assert stored.metadata["general.architecture"] == "llama"
    assert stored.tensors["l.weight"].shape == (ROWS, 64)
    assert np.abs(stored.tensors["l.weight"].read() - VALUES).max() < 0.02
