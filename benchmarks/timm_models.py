"""Models of timm at 224x224, with random weights, for `parity run benchmarks/timm_models.py:NAME`.

    python -m benchmarks.timm_models NAME THREADS

prints the seconds of torch's forward and backward pass in float32, the least of several, as JSON.
"""

from __future__ import annotations

import json
import sys
import time

import timm
import torch
from torch import nn

REPETITIONS = 5


def inputs() -> tuple[torch.Tensor]:
    return (torch.randn(1, 3, 224, 224),)


def efficientnet_b0() -> nn.Module:
    return make("efficientnet_b0")


def mobilenetv3_large_100() -> nn.Module:
    return make("mobilenetv3_large_100")


def convnext_tiny() -> nn.Module:
    return make("convnext_tiny")


def swin_tiny_patch4_window7_224() -> nn.Module:
    return make("swin_tiny_patch4_window7_224")


def maxvit_tiny_tf_224() -> nn.Module:
    return make("maxvit_tiny_tf_224")


def mvitv2_small() -> nn.Module:
    return make("mvitv2_small")


def make(name: str) -> nn.Module:
    torch.manual_seed(0)
    module: nn.Module = timm.create_model(name)
    return module.eval()


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
    print(json.dumps(seconds(sys.argv[1])))
