"""Families with symbolic sizes: captured once, run at others (1 and odd ones) by the interpreter and ONNX Runtime."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from torch.export import Dim
from torch.utils import _pytree as pytree

from tests.coverage import torchvision_operators

torchvision_operators.declare()
pytest.importorskip("timm")
pytest.importorskip("diffusers")
pytest.importorskip("transformers")

from cellbridge import converter  # noqa: E402
from cellbridge.converter.capture.containers import open_containers  # noqa: E402
from cellbridge.runtime import tree  # noqa: E402
from tests.coverage.families import CASES  # noqa: E402
from tests.coverage.tiny import ids, noise  # noqa: E402

BATCH, HEIGHT, WIDTH = Dim("batch"), Dim("height", min=64), Dim("width", min=64)
SEQUENCE = Dim("sequence", max=64)

Inputs = Callable[..., dict[str, Any]]


def _text(batch: int, sequence: int) -> dict[str, Any]:
    return {"input_ids": ids(batch, sequence), "attention_mask": torch.ones(batch, sequence, dtype=torch.int64)}


def _translated(batch: int, sequence: int) -> dict[str, Any]:
    return _text(batch, sequence) | {"decoder_input_ids": ids(batch, 4)}


def _image(batch: int) -> dict[str, Any]:
    return {"pixel_values": noise(batch, 3, 32, 32)}


def _larger_image(batch: int) -> dict[str, Any]:
    return {"pixel_values": noise(batch, 3, 64, 64)}


def _x(batch: int, height: int, width: int) -> dict[str, Any]:
    return {"x": noise(batch, 3, height, width)}


_OF_TEXT: dict[str, Any] = {"input_ids": {0: BATCH, 1: SEQUENCE}, "attention_mask": {0: BATCH, 1: SEQUENCE}}
_LONGER: dict[str, Any] = {name: {0: BATCH, 1: Dim("sequence", min=4, max=64)} for name in _OF_TEXT}
_OF_IMAGES: dict[str, Any] = {"pixel_values": {0: BATCH}}
_OF_X: dict[str, Any] = {"x": {0: BATCH, 2: HEIGHT, 3: WIDTH}}
_SIZES: list[tuple[int, ...]] = [(2, 7), (1, 5), (3, 9)]
_BATCHES: list[tuple[int, ...]] = [(2,), (1,), (3,)]
_AREAS: list[tuple[int, ...]] = [(2, 64, 64), (1, 97, 66)]

DYNAMIC: dict[str, tuple[Inputs, dict[str, Any], list[tuple[int, ...]]]] = {
    "BertModel": (_text, _OF_TEXT, _SIZES),
    "RobertaModel": (_text, _OF_TEXT, _SIZES),
    "DebertaV2Model": (_text, _OF_TEXT, _SIZES),
    "MPNetModel": (_text, _OF_TEXT, _SIZES),
    "GPT2LMHeadModel": (_text, _OF_TEXT, [*_SIZES, (3, 1)]),
    "LlamaForCausalLM": (_text, _OF_TEXT, [*_SIZES, (3, 1)]),
    "MistralForCausalLM": (_text, _LONGER, _SIZES),
    "Qwen3ForCausalLM": (_text, _OF_TEXT, _SIZES),
    "BloomForCausalLM": (_text, _OF_TEXT, _SIZES),
    "MixtralForCausalLM": (_text, _OF_TEXT, _SIZES),
    "T5ForConditionalGeneration": (_translated, _OF_TEXT | {"decoder_input_ids": {0: BATCH}}, _SIZES),
    "BartForConditionalGeneration": (_translated, _OF_TEXT | {"decoder_input_ids": {0: BATCH}}, _SIZES),
    "ViTModel": (_image, _OF_IMAGES, _BATCHES),
    "SwinModel": (_image, _OF_IMAGES, _BATCHES),
    "SegformerForSemanticSegmentation": (_larger_image, _OF_IMAGES, _BATCHES),
    "timm resnet18": (_x, _OF_X, _AREAS),
    "timm convnext_atto": (_x, _OF_X, _AREAS),
    "timm efficientnet_b0": (_x, _OF_X, _AREAS),
    "Wav2Vec2Model": (
        lambda batch, time: {"input_values": noise(batch, time)},
        {"input_values": {0: BATCH}},  # of the time, torch.export can't prove that it is more than one frame
        [(2, 2000), (1, 2000), (3, 2000)],
    ),
    "diffusers UNet2DModel": (
        lambda batch: {"sample": noise(batch, 3, 16, 16), "timestep": torch.arange(batch)},
        {"sample": {0: Dim("batch", max=63)}, "timestep": {0: Dim("batch", max=63)}},
        _BATCHES,
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", DYNAMIC)
def test_other_sizes(name: str, tmp_path: Path) -> None:
    inputs, dynamic_shapes, sizes = DYNAMIC[name]
    module = next(case for case in CASES if case.name == name).build()[0].eval()
    program = converter.from_torch(module, (), inputs(*sizes[0]), dynamic_shapes=dynamic_shapes)
    converter.to_onnx(program, tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx", providers=["CPUExecutionProvider"])
    for size in sizes:
        with torch.no_grad():
            result = module(**inputs(*size))
        open_containers(result)
        expected = [x.numpy() for x in pytree.tree_leaves(result) if isinstance(x, torch.Tensor)]
        arrays = [x.numpy() for x in tree.match(program.arguments, ((), inputs(*size)))]
        feeds = {value.name: array for value, array in zip(session.get_inputs(), arrays, strict=True)}
        of_interpreter = tree.match(program.result, program(**inputs(*size)))
        for side, results in (("interpreter", of_interpreter), ("ONNX Runtime", session.run(None, feeds))):
            for array, expected_array in zip(results, expected, strict=True):
                message = f"{side} at {size}"
                np.testing.assert_allclose(array, expected_array, rtol=1e-3, atol=1e-4, err_msg=message)
