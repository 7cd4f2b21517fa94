"""Fuzz target: quantized checkpoints, of which the header, the values or the configuration are changed."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from safetensors.numpy import save

from cellbridge.parity.weights.readers.opening import open_checkpoint
from tests.mutation import mutate_bytes, mutate_json
from tests.parity.weights.readers.packed import (
    test_awq,
    test_bitsandbytes,
    test_compressed_integers,
    test_fp4,
    test_gptq,
)
from tests.parity.weights.readers.test_gguf import entry, floats, header, number, texts


@functools.cache
def _packed() -> list[bytes]:
    layers = [
        test_gptq.gptq(), test_awq.gemm(), test_awq.gemv(), test_bitsandbytes.packed(nested=True),
        test_compressed_integers.packed(), test_fp4.mxfp4(), test_fp4.gpt_oss(),
    ]  # fmt: skip
    return [save({name: np.ascontiguousarray(array) for name, array in arrays.items()}) for arrays in layers]


@functools.cache
def _gguf() -> bytes:
    about = [number("general.alignment", 32), texts("tokenizer.ggml.tokens", "a", "b"), floats("scores", 1, 2, 3)]
    tensors = [entry("w", (2, 64), 2, 0), entry("v", (3, 32), 8, 96), entry("b", (5,), 0, 224)]
    return header(about, tensors) + bytes(range(256))


_SETTINGS: dict[str, Any] = {
    "bits": 4, "group_size": 128, "sym": False, "checkpoint_format": "gptq", "quant_method": "gptq",
    "config_groups": {"group_0": {"weights": {"num_bits": 4, "group_size": 24, "symmetric": False}}},
}  # fmt: skip


def quantized(random: Random, folder: Path) -> None:
    """Open a mutated quantized checkpoint, and read its values."""
    if random.random() < 0.3:
        path, data = folder / "c.gguf", mutate_bytes(_gguf(), random)
    else:
        path, data = folder / "c.safetensors", random.choice(_packed())
        length = int.from_bytes(data[:8], "little")
        if random.random() < 0.6:
            text = json.dumps(mutate_json(json.loads(data[8 : 8 + length]), random)).encode()
            data = len(text).to_bytes(8, "little") + text + data[8 + length :]
        else:
            values = bytearray(data[8 + length :])
            values[random.randrange(len(values))] ^= 1 << random.randrange(8)
            data = data[: 8 + length] + values
        config = json.dumps(mutate_json({"quantization_config": _SETTINGS}, random))
        (folder / "config.json").write_text(config, errors="surrogatepass")
    path.write_bytes(data)
    for tensor in open_checkpoint(str(path)).tensors.values():
        for _, values in tensor.chunks():
            str(values)
