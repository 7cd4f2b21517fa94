"""The faults in ONNX files as data; a node is known by its name, which starts with the path of its Cell."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from .cases import ANY_NAME, Either

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class OnnxFault:
    """One change of a file.

    Attributes:
        network: name of the network.
        label: what is wrong, unique within the network.
        cell: path of the Cell that is wrong: the one that the changed node belongs to, or its parent if the node is
            the whole Cell and is left out.
        around: path of the smallest Cell around it that the file computes, if a batch norm was folded into the node.
        cause: what is wrong, in a word.
        expected: as in `Case`.
        words: as in `Case`.
        change: changes a model.
        exporter: what writes the file: "cellbridge", "torch" (the older exporter) or "torch.export" (the newer one).
    """

    network: str
    label: str
    cell: str
    cause: str
    expected: Mapping[str, Any]
    words: tuple[str, ...]
    change: Callable[[onnx.ModelProto], object]
    exporter: str = "cellbridge"
    around: str | None = None


OTHER_NAMES = {  # of attributes, in torch or in a program
    "epsilon": "eps",
    "alpha": f"negative_slope|{ANY_NAME}",  # of a HardSigmoid, a factor in a formula
    "pads": "padding",
    "perm": "permutation",
    "coordinate_transformation_mode": "align_corners",
}


def cell_of(node: str) -> str:
    """The path of the Cell in a node's name: "/layers/0/norm@1/Add" is of "layers.0.norm".

    Torch writes "/layer1/layer1.0/Add" for the Cell "layer1.0".
    """
    parts: list[str] = []
    for part in node.split("/")[1:-1]:
        if parts and part.startswith(f"{parts[-1]}."):
            parts.pop()
        parts.append(part.partition("@")[0])
    return ".".join(parts)


def _node(model: onnx.ModelProto, name: str) -> onnx.NodeProto:
    found = [node for node in model.graph.node if node.name == name]
    if len(found) != 1:
        raise ValueError(f"{len(found)} nodes are called {name}")
    return found[0]


def folded(fault: OnnxFault) -> OnnxFault:
    """The fault of a convolution with a batch norm folded into it: neither of these Cells is computed by itself."""
    return replace(fault, around=fault.cell.rpartition(".")[0])


def attribute(network: str, node: str, name: str, reference: Any, candidate: Any, rank: int | None = None) -> OnnxFault:
    """A node has another value of an attribute; with `rank`, an axis that may be counted from the other end."""

    def change(model: onnx.ModelProto) -> None:
        changed = _node(model, node)
        kept = [one for one in changed.attribute if one.name != name]
        del changed.attribute[:]
        changed.attribute.extend([*kept, helper.make_attribute(name, candidate)])

    def values(given: Any) -> Any:
        if name == "pads":  # all that come before the elements, then all that come after
            pairs = tuple(zip(given[: len(given) // 2], given[len(given) // 2 :], strict=True))
            return Either((given, pairs))
        if rank is not None:
            given = given if isinstance(given, int) else given[0]
            return Either((given, given % rank))
        return Either((given, "replicate")) if given == "edge" else given

    names = f"{name}|{OTHER_NAMES[name]}" if name in OTHER_NAMES else name
    expected = {"kind": "attribute", "name": names, "reference": values(reference), "candidate": values(candidate)}
    return OnnxFault(network, f"{name} of {node}", cell_of(node), name, expected, (names,), change)


def operator(network: str, node: str, operator: str, words: str) -> OnnxFault:
    """A node is of another operator."""

    def change(model: onnx.ModelProto) -> None:
        changed = _node(model, node)
        changed.op_type = operator
        del changed.attribute[:]

    required = tuple(words.split())
    expected = {"kind": "structure", "words": required}
    return OnnxFault(network, f"{operator} for {node}", cell_of(node), operator, expected, required, change)


def exchanged(network: str, node: str) -> OnnxFault:
    """A node gets its first two inputs in the other order."""

    def change(model: onnx.ModelProto) -> None:
        inputs = _node(model, node).input
        inputs[0], inputs[1] = inputs[1], inputs[0]

    words = ("exchange|order|swap",)
    expected = {"kind": "structure", "words": words}
    return OnnxFault(network, f"inputs of {node}", cell_of(node), "exchanged", expected, words, change)


def left_out(network: str, node: str, word: str, cell: str | None = None) -> OnnxFault:
    """A node hands on its first input; `cell` is the parent of the Cell that has no other node."""

    def change(model: onnx.ModelProto) -> None:
        changed = _node(model, node)
        changed.op_type = "Identity"
        del changed.attribute[:]
        del changed.input[1:]

    expected = {"kind": "structure", "words": (word,)}
    wrong = cell_of(node) if cell is None else cell
    return OnnxFault(network, f"{node} left out", wrong, "left out", expected, (word,), change)


def initializer(
    network: str, node: str, position: int, label: str, edit: Callable[[Array], Array], words: str
) -> OnnxFault:
    """An initializer that a node uses has other values."""

    def change(model: onnx.ModelProto) -> None:
        name = _node(model, node).input[position]
        for stored in model.graph.initializer:
            if stored.name == name:
                stored.CopyFrom(
                    numpy_helper.from_array(np.ascontiguousarray(edit(numpy_helper.to_array(stored))), name)
                )
                return
        raise ValueError(f"{name} isn't stored in the file")

    required = tuple(words.split())
    expected = {"kind": ("weight", "layout", "attribute"), "words": required}
    return OnnxFault(network, f"{label} of {node}", cell_of(node), label, expected, required, change)


def element(array: Array) -> Array:
    """The largest element a tenth larger."""
    result = array.copy()
    result.flat[np.abs(array).argmax()] *= 1.1
    return result


FAULTS_OF_OURS = [
    attribute("resnet", "/relu/LeakyRelu", "alpha", 0.1, 0.01),
    attribute("resnet", "/maxpool/MaxPool", "pads", [1, 1, 1, 1], [0, 0, 2, 2]),
    attribute("resnet", "/pool/avg/AveragePool", "count_include_pad", 1, 0),
    folded(attribute("resnet", "/layer2/0/conv2/Conv", "pads", [1, 1, 1, 1], [2, 2, 0, 0])),
    operator("resnet", "/layer1/0/Add", "Sub", "sub add"),
    operator("resnet", "/layer2/0/relu@1/Relu", "Sigmoid", "sigmoid relu"),
    left_out("resnet", "/layer1/1/relu@1/Relu", "relu", "layer1.1"),
    left_out("resnet", "/layer2/1/Add", "add"),
    folded(initializer("resnet", "/layer1/0/conv1/Conv", 1, "kernel flipped", lambda w: w[..., ::-1], "flip|revers")),
    folded(initializer("resnet", "/layer2/1/conv2/Conv", 1, "element", element, "element")),
    initializer("resnet", "/fc/Gemm", 1, "sign", lambda w: -w, "sign|negat|-1"),
    folded(initializer("resnet", "/layer1/1/conv1/Conv", 2, "bias", lambda b: b * 0, "bias")),
    attribute("vit", "/blocks/0/norm1/LayerNormalization", "epsilon", 1e-6, 1e-5),
    attribute("vit", "/blocks/1/mlp/act/Gelu", "approximate", "none", "tanh"),
    attribute("vit", "/blocks/2/attn/Softmax", "axis", -1, -2, rank=4),
    attribute("vit", "/blocks/1/attn/Transpose_2", "perm", [0, 2, 1, 3], [0, 1, 2, 3]),
    exchanged("vit", "/Concat"),
    operator("vit", "/blocks/2/Add_1", "Mul", "mul add"),
    left_out("vit", "/blocks/1/Mul", "mul|gamma"),
    initializer("vit", "/blocks/0/attn/proj/MatMul", 1, "transposed", lambda w: w.T, "transpose"),
    initializer("vit", "/Add", 1, "position", lambda w: np.roll(w, 1, 1), "roll|shift|permut"),
    initializer("vit", "/blocks/2/norm2/LayerNormalization", 2, "bias", lambda b: b * 0, "bias"),
    attribute("bert", "/layers/0/output/norm/LayerNormalization", "epsilon", 1e-12, 1e-5),
    attribute("bert", "/layers/1/attention/Softmax", "axis", -1, 1, rank=4),
    exchanged("bert", "/Sub"),
    exchanged("bert", "/layers/0/attention/Div"),
    operator("bert", "/layers/1/activation/Gelu", "Relu", "relu gelu"),
    operator("bert", "/Tanh", "Sigmoid", "sigmoid tanh"),
    left_out("bert", "/embeddings/Add_1", "add|token_type|position"),
    initializer("bert", "/layers/0/attention/query/MatMul", 1, "transposed", lambda w: w.T, "transpose"),
    initializer("bert", "/Mul", 1, "mask too weak", lambda w: w * 0 - 5, "mask|-5|value"),
    attribute("convnext", "/stage1/0/norm/LayerNormalization", "epsilon", 1e-6, 1e-3),
    attribute("convnext", "/stage2/1/act/Gelu", "approximate", "none", "tanh"),
    attribute("convnext", "/stage1/1/dwconv/Conv", "pads", [3, 3, 3, 3], [2, 3, 4, 3]),
    attribute("convnext", "/stage1/0/Transpose_1", "perm", [0, 3, 1, 2], [0, 3, 2, 1]),
    exchanged("convnext", "/stage2/0/grn/Div"),
    left_out("convnext", "/stage1/1/grn/Add_2", "add"),
    initializer("convnext", "/stage2/0/dwconv/Conv", 1, "transposed", lambda w: w.swapaxes(2, 3), "transpose"),
    initializer("convnext", "/stage1/0/pwconv1/MatMul", 1, "element", element, "element"),
    attribute("gpt2", "/h/0/ln_1/LayerNormalization", "epsilon", 1e-5, 1e-6),
    attribute("gpt2", "/h/1/attn/Transpose_4", "perm", [0, 2, 1, 3], [0, 1, 2, 3]),
    exchanged("gpt2", "/h/0/mlp/act/Pow"),
    operator("gpt2", "/h/1/mlp/act/Tanh", "Sigmoid", "sigmoid tanh"),
    left_out("gpt2", "/h/0/Add", "add"),
    initializer("gpt2", "/h/0/attn/c_proj/MatMul", 1, "transposed", lambda w: w.T, "transpose"),
    initializer("gpt2", "/h/1/mlp/c_fc/Add", 1, "bias", lambda b: b * 0, "bias"),
    attribute("llama", "/layers/0/self_attn/Softmax", "axis", -1, -2, rank=4),
    attribute("llama", "/layers/1/post_norm/ReduceMean", "axes", [-1], [1], rank=3),
    exchanged("llama", "/layers/0/self_attn/rotary/Sub"),
    operator("llama", "/layers/1/self_attn/rotary/Add", "Sub", "sub add"),
    operator("llama", "/layers/0/mlp/Sigmoid", "Tanh", "tanh sigmoid|silu"),
    left_out("llama", "/layers/1/input_norm/Add", "add|eps"),
    initializer("llama", "/layers/0/self_attn/q_proj/MatMul", 1, "transposed", lambda w: w.T, "transpose"),
    initializer("llama", "/layers/1/self_attn/k_proj/MatMul", 1, "heads permuted",
                lambda w: np.roll(w, 4, 1), "permut|roll|exchange|order"),
    attribute("lstm_tagger", "/norm/LayerNormalization", "epsilon", 1e-5, 1e-6),
    attribute("lstm_tagger", "/LogSoftmax", "axis", -1, 1, rank=3),
    exchanged("lstm_tagger", "/highway/0/Sub"),
    operator("lstm_tagger", "/character/Tanh", "Sigmoid", "sigmoid tanh"),
    initializer("lstm_tagger", "/lstm/LSTM_4", 1, "gates in torch's order",
                lambda w: np.concatenate([w[:, :8], w[:, 16:24], w[:, 24:], w[:, 8:16]], 1), "gate|order|permut"),
    attribute("seq2seq", "/encoder/GRU", "linear_before_reset", 1, 0),
    operator("seq2seq", "/attention@1/Add", "Sub", "sub add"),
    operator("seq2seq", "/attention/Tanh", "Sigmoid", "sigmoid tanh"),
    attribute("mamba", "/layers/0/norm/RMSNormalization", "epsilon", 1e-5, 1e-3),
    attribute("mamba", "/layers/1/mixer/conv/Conv", "pads", [3, 3], [2, 4]),
    operator("mamba", "/layers/0/mixer/scan/Softplus", "Relu", "relu softplus"),
    attribute("mobilenet", "/blocks/0/se/HardSigmoid", "alpha", 1 / 6, 0.2),
    folded(attribute("mobilenet", "/blocks/1/depthwise/Conv", "pads", [2, 2, 2, 2], [1, 1, 3, 3])),
    operator("mobilenet", "/blocks/1/se/GlobalAveragePool", "GlobalMaxPool", "max"),
    left_out("mobilenet", "/blocks/2/act/HardSwish", "hardswish|act", "blocks.2"),
    folded(initializer("mobilenet", "/stem/Conv", 1, "colours reversed", lambda w: w[:, ::-1],
                       "flip|revers|permut|order")),
    attribute("moe", "/layers/0/mixture/TopK", "largest", 1, 0),
    attribute("moe", "/layers/1/attention/Attention", "scale", Either((None, 0.5)), 1.0),
    attribute("moe", "/layers/0/mixture/Softmax", "axis", -1, 1, rank=3),
    exchanged("moe", "/layers/1/mixture/Div"),
    attribute("t5", "/encoder/0/Gelu", "approximate", "tanh", "none"),
    attribute("t5", "/decoder/1/cross_attention/Softmax", "axis", -1, -2, rank=4),
    left_out("t5", "/encoder/1/self_attention/Add", "add|bias"),
    attribute("unet", "/down1/norm1/InstanceNormalization", "epsilon", 1e-5, 1e-3),
    attribute("unet", "/upsample/Resize", "coordinate_transformation_mode", "half_pixel", "align_corners"),
    attribute("unet", "/upsample/Resize", "mode", "linear", "nearest"),
    operator("unet", "/time/Sin", "Cos", "cos sin"),
    exchanged("unet", "/time/Concat"),
    attribute("wavenet", "/elu/Elu", "alpha", 0.5, 1.0),
    attribute("wavenet", "/layers/1/conv/Pad", "mode", "constant", "edge"),
    attribute("wavenet", "/norm/InstanceNormalization", "epsilon", 1e-5, 1e-3),
    attribute("wavenet", "/upsample/ConvTranspose", "pads", [2, 2], [3, 1]),
    operator("wavenet", "/layers/0/Tanh", "Relu", "relu tanh"),
    initializer("wavenet", "/layers/1/res/Conv", 1, "transposed", lambda w: w.swapaxes(0, 1), "transpose"),
]  # fmt: skip

FAULTS_OF_TORCHS = [
    attribute("resnet", "/relu/LeakyRelu", "alpha", 0.1, 0.01),
    attribute("resnet", "/pool/avg/AveragePool", "count_include_pad", 1, 0),
    folded(attribute("resnet", "/layer1/layer1.1/conv2/Conv", "pads", [1, 1, 1, 1], [2, 1, 0, 1])),
    operator("resnet", "/layer2/layer2.0/Add", "Sub", "sub add"),
    folded(initializer("resnet", "/layer1/layer1.0/conv1/Conv", 1, "kernel flipped", lambda w: w[..., ::-1],
                       "flip|revers")),
    initializer("resnet", "/fc/Gemm", 1, "sign", lambda w: -w, "sign|negat|-1"),
    attribute("vit", "/blocks.0/norm1/LayerNormalization", "epsilon", 1e-6, 1e-5),
    attribute("vit", "/blocks.1/attn/Softmax", "axis", -1, -2, rank=4),
    operator("vit", "/blocks.2/mlp/act/Erf", "Tanh", "tanh erf|gelu"),
    initializer("vit", "/blocks.0/attn/proj/MatMul", 1, "transposed", lambda w: w.T, "transpose"),
    attribute("gpt2", "/h.1/ln_2/LayerNormalization", "epsilon", 1e-5, 1e-3),
    operator("gpt2", "/h.1/mlp/act/Tanh", "Sigmoid", "sigmoid tanh"),
    left_out("gpt2", "/h.0/Add", "add"),
    initializer("gpt2", "/h.0/attn/c_proj/MatMul", 1, "transposed", lambda w: w.T, "transpose"),
    attribute("unet", "/down1/norm1/InstanceNormalization", "epsilon", 1e-5, 1e-3),
    operator("unet", "/time/Sin", "Cos", "cos sin"),
    attribute("unet", "/attention/Softmax", "axis", 2, 1, rank=3),
    operator("unet", "/down2/Add_1", "Sub", "sub add"),
]  # fmt: skip

FAULTS_OF_TORCHS_NEWER = {  # by the Cell, which the names of nodes don't tell
    "down_norm": [attribute("convnext", "node_layer_norm_3", "epsilon", 1e-6, 1e-4)],
    "stage2.0.grn": [exchanged("convnext", "node_div_2"), left_out("convnext", "node_add_10", "add")],
    "down": [initializer("convnext", "node_conv2d_3", 1, "element", element, "element")],
    "h.1.ln_1": [attribute("gpt2", "node_layer_norm_2", "epsilon", 1e-5, 1e-3)],
    "h.1.attn.c_attn": [initializer("gpt2", "node_matmul_6", 1, "element", element, "element")],
    "h.1.attn": [attribute("gpt2", "node_softmax_1", "axis", -1, -2, rank=4)],
    "h.1": [left_out("gpt2", "node_add_11", "add")],
    "layers.1.self_attn.rotary": [exchanged("llama", "node_sub_2"), left_out("llama", "node_add_7", "add")],
    "layers.1.self_attn.q_proj": [initializer("llama", "node_linear_7", 1, "sign", lambda w: -w, "sign|negat|-1")],
    "layers.1.self_attn": [attribute("llama", "node_softmax_1", "axis", -1, -2, rank=4)],
    "norm": [attribute("lstm_tagger", "node_layer_norm", "epsilon", 1e-5, 1e-3)],
    "layers.1.mixer.in_proj": [initializer("mamba", "node_linear_4", 1, "element", element, "element")],
    "blocks.1.se.expand": [initializer("mobilenet", "node_conv2d_9", 1, "element", element, "element")],
    "layers.1.norm1": [attribute("moe", "node_layer_norm_2", "epsilon", 1e-5, 1e-3)],
    "layers.1.mixture": [exchanged("moe", "node_div_3")],
    "layers.1": [left_out("moe", "node_add_7", "add")],
    "layer2.0": [left_out("resnet", "node_add_2", "add")],
    "attention": [attribute("seq2seq", "node_softmax_2", "axis", -1, -2, rank=2)],
    "decoder.0.cross_attention.q": [initializer("t5", "node_linear_18", 1, "element", element, "element")],
    "decoder.0.cross_attention": [
        attribute("t5", "node_softmax_3", "axis", -1, -2, rank=4),
        left_out("t5", "node_add_21", "add"),
    ],
    "blocks.1.norm2": [attribute("vit", "node_layer_norm_3", "epsilon", 1e-6, 1e-4)],
    "blocks.1.mlp.fc1": [initializer("vit", "node_MatMul_51", 1, "element", element, "element")],
    "blocks.1.attn": [attribute("vit", "node_softmax_1", "axis", -1, -2, rank=4)],
    "blocks.1": [left_out("vit", "node_add_4", "add")],
    "layers.1.res": [initializer("wavenet", "node_conv1d_7", 1, "element", element, "element")],
}

FAULTS = [
    *FAULTS_OF_OURS,
    *(replace(fault, label=f"torch's file, {fault.label}", exporter="torch") for fault in FAULTS_OF_TORCHS),
]
NEWER_FAULTS = [
    replace(fault, label=f"torch's newer file, {fault.label}", cell=cell, exporter="torch.export")
    for cell, faults in FAULTS_OF_TORCHS_NEWER.items()
    for fault in faults
]
"""Faults in files of torch's newer exporter, which needs onnxscript."""
