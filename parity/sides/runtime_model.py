"""`RuntimeModel`: an ONNX model as a side runs it in ONNX Runtime, to be run again with other settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...runtime.compiled.isolated import Given
from .onnx_models import OnnxModel
from .records import Key


@dataclass(frozen=True)
class RuntimeModel:
    """A model with its inputs.

    Attributes:
        model: the model, or the path of its file.
        inputs: arrays by the names of its inputs.
        outputs: names of its outputs, by the boundary that they are recorded at.
        provider: name of the execution provider (`runtime.providers`).
    """

    model: OnnxModel
    inputs: Mapping[str, Given]
    outputs: Mapping[Key, str]
    provider: str
