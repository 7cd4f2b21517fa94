"""Two faults in one copy of a network: in two Cells, or in one."""

from __future__ import annotations

import functools

from .cases import Case, Fault
from .networks import NETWORKS
from .planted import faults_of, faulty_pair

PAIRS = [
    ("bert", "eps", "query transposed"),
    ("bert", "scale left out", "mask left out"),
    ("bert", "q and k exchanged", "residual left out"),
    ("bert", "positions from one", "relu before the decoder"),
    ("convnext", "eps of the stem", "first norm"),
    ("convnext", "layer scale left out", "response before activation"),
    ("convnext", "square kernel transposed", "gelu approximated"),
    ("gpt2", "bias left out", "constant of the gelu"),
    ("gpt2", "mask transposed", "scale left out"),
    ("gpt2", "eps", "element of a weight"),
    ("llama", "rotary base", "mask lets the next token through"),
    ("llama", "gate and up exchanged", "gelu instead of silu"),
    ("llama", "scale left out", "heads repeated in turn"),
    ("lstm_tagger", "input gate forgets", "forget bias"),
    ("lstm_tagger", "gate inverted", "tanh instead of relu"),
    ("lstm_tagger", "gates of the LSTM", "eps"),
    ("mamba", "b and c exchanged", "relu instead of softplus"),
    ("mamba", "eps", "kernels reversed in time"),
    ("mobilenet", "eps", "sigmoid instead of hard sigmoid"),
    ("mobilenet", "kernels flipped", "mean negated"),
    ("mobilenet", "residual left out", "swish instead of hard swish"),
    ("moe", "softmax over tokens", "experts not normalized"),
    ("moe", "slopes", "not squared"),
    ("resnet", "eps", "negative slope"),
    ("resnet", "softmax axis", "padding counted"),
    ("resnet", "residual left out", "kernel transposed"),
    ("resnet", "element of a weight", "detached branch"),
    ("seq2seq", "tanh left out", "scores scaled"),
    ("seq2seq", "gates of the cell", "sum instead of maximum"),
    ("t5", "scaled", "gelu not approximated"),
    ("t5", "causal mask off by one", "eps"),
    ("t5", "biases exchanged", "heads of a projection"),
    ("unet", "scale and shift exchanged", "sum not divided"),
    ("unet", "eps", "corners aligned"),
    ("unet", "period", "thirds exchanged"),
    ("vit", "eps", "scale left out"),
    ("vit", "first residual left out", "gelu approximated"),
    ("vit", "layer scale left out", "norm after"),
    ("vit", "thirds exchanged", "class token last"),
    ("wavenet", "alpha", "dilation with its padding"),
    ("wavenet", "signal and gate exchanged", "sum not scaled"),
]  # fmt: skip
"""Networks, and the labels of two of their faults."""


def cases() -> list[Case]:
    """Return one case for each pair of faults."""
    return [_case(network, _fault(network, one), _fault(network, other)) for network, one, other in PAIRS]


def _fault(network: str, label: str) -> Fault:
    found = [fault for fault in faults_of(network) if fault.label == label]
    if len(found) != 1:
        raise ValueError(f"{network} has {len(found)} faults called {label!r}")
    return found[0]


def _case(network: str, one: Fault, other: Fault) -> Case:
    return Case(
        f"{network}/{one.label} + {other.label}", network, "two", tuple(dict.fromkeys([*one.cells, *other.cells])),
        f"{one.cause} + {other.cause}", (one.expected, other.expected), (*one.words, *other.words),
        functools.partial(faulty_pair, NETWORKS[network], one, other),
    )  # fmt: skip
