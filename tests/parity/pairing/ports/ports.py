"""Networks and their right ports, with inputs, which must never fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tests.parity.pairing.ports import sequence_ports as s
from tests.parity.pairing.ports import vision_ports as v

Made = tuple[torch.nn.Module, Any, tuple[Any, ...]]


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(*shape)


def ids(*shape: int) -> torch.Tensor:
    return torch.randint(0, 11, shape)


PORTS: dict[str, tuple[type[torch.nn.Module], type[Any], Callable[[], tuple[Any, ...]]]] = {
    "residual": (v.TorchResidual, v.Residual, lambda: (normal(2, 4, 6, 6),)),
    "inverted residual": (v.TorchInvertedResidual, v.InvertedResidual, lambda: (normal(2, 4, 5, 5),)),
    "u-net": (v.TorchUpBlock, v.UpBlock, lambda: (normal(2, 3, 8, 8),)),
    "convnext": (v.TorchConvNeXt, v.ConvNeXt, lambda: (normal(2, 6, 5, 5),)),
    "mixer": (v.TorchMixer, v.Mixer, lambda: (normal(2, 5, 6),)),
    "lenet": (v.TorchLeNet, v.LeNet, lambda: (normal(3, 1, 16, 16),)),
    "conv1d": (v.TorchConv1d, v.Conv1d, lambda: (normal(2, 3, 7),)),
    "encoder": (s.TorchEncoderLayer, s.EncoderLayer, lambda: (normal(2, 5, 8), ids(2, 1, 1, 5) > 3)),
    "decoder": (s.TorchDecoder, s.Decoder, lambda: (ids(2, 6),)),
    "lstm": (s.TorchLSTMClassifier, s.LSTMClassifier, lambda: (ids(3, 5) + 1,)),
    "seq2seq": (s.TorchSeq2Seq, s.Seq2Seq, lambda: (normal(2, 5, 4), normal(2, 3))),
    "pretrained": (s.TorchPretrained, s.Pretrained, lambda: (normal(2, 4, 5),)),
    "vae": (s.TorchVAE, s.VAE, lambda: (normal(4, 6),)),
}


def made(name: str, seed: int = 0) -> Made:
    """A network whose normalizations and statistics aren't the defaults, its port, and arguments."""
    of_module, of_cell, inputs = PORTS[name]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module, args = of_module(), inputs()
        for inner in module.modules():
            if "Norm" in type(inner).__name__ and getattr(inner, "bias", None) is not None:
                torch.nn.init.normal_(inner.weight, 1.0, 0.2)
                torch.nn.init.normal_(inner.bias, 0.0, 0.2)
            if isinstance(inner, torch.nn.modules.batchnorm._BatchNorm):
                torch.nn.init.normal_(inner.running_mean, 0.0, 0.2)
                torch.nn.init.uniform_(inner.running_var, 0.5, 1.5)
        return module, of_cell(), args
