"""Makes torchvision importable where its compiled operators don't load.

transformers and timm import torchvision for its image transforms, and it registers shapes for two compiled operators as
it is imported. A wheel that was built for another torch (a CUDA build beside a CPU torch, say) doesn't load them, and
the import raises. No model here uses the operators, so that their schemas are all that is needed.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import torch

_SCHEMAS = (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
)
_LIBRARIES: list[torch.library.Library] = []


def declare() -> None:
    """Declare the schemas that torchvision misses, if its compiled library doesn't load."""
    spec = importlib.util.find_spec("torchvision")
    if spec is None or spec.origin is None or hasattr(torch.ops.torchvision, "nms"):
        return
    compiled = next(Path(spec.origin).parent.glob("_C.*so"), None)
    try:
        if compiled is not None:
            torch.ops.load_library(compiled)
            return
    except OSError:
        pass  # it was linked against another torch
    library = torch.library.Library("torchvision", "FRAGMENT")
    for schema in _SCHEMAS:
        library.define(schema)
    _LIBRARIES.append(library)
