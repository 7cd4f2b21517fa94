"""Models of timm at 224x224, with random weights, for `parity run benchmarks/timm_models.py:NAME`.

    python -m benchmarks.timm_models NAME THREADS

prints the seconds of torch's forward and backward pass in float32, the least of several, and the peak memory in MiB, as
JSON.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from functools import partial

import timm
import torch
from torch import nn

REPETITIONS = 5


def inputs() -> tuple[torch.Tensor]:
    return (torch.randn(1, 3, 224, 224),)


def make(name: str) -> nn.Module:
    torch.manual_seed(0)
    module: nn.Module = timm.create_model(name)
    return module.eval()


efficientnet_b0 = partial(make, "efficientnet_b0")
mobilenetv3_large_100 = partial(make, "mobilenetv3_large_100")
convnext_tiny = partial(make, "convnext_tiny")
swin_tiny_patch4_window7_224 = partial(make, "swin_tiny_patch4_window7_224")
maxvit_tiny_tf_224 = partial(make, "maxvit_tiny_tf_224")
mvitv2_small = partial(make, "mvitv2_small")


def seconds(name: str) -> float:
    """Return the seconds of a forward and a backward pass."""
    module, (x,) = make(name), inputs()
    x.requires_grad_()
    times = []
    for _ in range(REPETITIONS):
        start = time.perf_counter()
        module(x).sum().backward()
        times.append(time.perf_counter() - start)
    return min(times)


if __name__ == "__main__":
    torch.set_num_threads(int(sys.argv[2]))
    from .whole_process import MAXRSS_UNIT, MEBIBYTE

    least = seconds(sys.argv[1])
    print(json.dumps([least, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * MAXRSS_UNIT / MEBIBYTE]))
