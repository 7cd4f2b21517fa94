"""What goes on around training: checkpoints."""

from __future__ import annotations

from .serialization import load_checkpoint, load_param_into_net, save_checkpoint

__all__ = ["load_checkpoint", "load_param_into_net", "save_checkpoint"]
