"""Networks with weights of their own, for tests of loading."""

from __future__ import annotations

import torch
from torch import nn

from cellbridge.parity.options import OptionKeywords

QUICKLY: OptionKeywords = {"probe": False, "grads": False, "diagnose_seconds": 0}


def drawn(module: nn.Module, seed: int) -> nn.Module:
    """Return a module in eval mode with random numbers in all of its tensors."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for tensor in [*module.parameters(), *(b for b in module.buffers() if b.is_floating_point())]:
            tensor.copy_(torch.rand(tensor.shape, generator=generator) * 0.8 + 0.1)
            if tensor.dim() > 1:
                tensor.copy_(torch.randn(tensor.shape, generator=generator) * 0.4)
    return module.eval()
