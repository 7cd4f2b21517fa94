"""ONNX files that hold the same network: other opsets, without optimization, with other names."""

from __future__ import annotations

import functools
from collections.abc import Callable

import onnx

from cellbridge import converter

from ..cases import SOUND, Case
from ..networks import NETWORKS
from ..onnx_faults import HAS_NEWER_EXPORTER, exported, pair_of_files
from ..pairs import Pair


def file_cases() -> list[Case]:
    """Return cases for each network and way to write it, against the module and, for some, against the file."""
    result = []
    for network in NETWORKS:
        for label, make, kinds in WAYS:
            for kind in kinds if (network, label) not in REFUSED else ():
                pair = functools.partial(_pair, network, make, kind)
                name = f"{network}/{kind} {label}"
                result.append(Case(name, network, SOUND, (), label, (), (), pair))
    return result


def _pair(network: str, make: Callable[[str], onnx.ModelProto], kind: str) -> Pair:
    return pair_of_files(network, make(network), kind)


def _as_written(network: str) -> onnx.ModelProto:
    return exported(network)


def _not_optimized(network: str) -> onnx.ModelProto:
    one = NETWORKS[network]
    return converter.to_onnx(converter.from_torch(one.module(), one.inputs()), optimize=False)


def _newer_opset(network: str) -> onnx.ModelProto:
    one = NETWORKS[network]
    return converter.to_onnx(converter.from_torch(one.module(), one.inputs()), opset=23)


def _renamed(network: str) -> onnx.ModelProto:
    """Initializers, values and nodes have numbers for names, as some exporters give them."""
    model = onnx.ModelProto()
    model.CopyFrom(exported(network))
    kept = {value.name for value in [*model.graph.input, *model.graph.output]} | {""}
    names: dict[str, str] = {}

    def rename(name: str) -> str:
        return name if name in kept else names.setdefault(name, f"t{len(names)}")

    for initializer in model.graph.initializer:
        initializer.name = rename(initializer.name)
    for number, node in enumerate(model.graph.node):
        node.name = f"n{number}"
        node.input[:] = [rename(name) for name in node.input]
        node.output[:] = [rename(name) for name in node.output]
    del model.graph.value_info[:]
    return model


def _by_torch(network: str) -> onnx.ModelProto:
    return exported(network, "torch")


def _by_torch_export(network: str) -> onnx.ModelProto:
    return exported(network, "torch.export")


WAYS = [
    ("as written", _as_written, ("onnx",)),
    ("not optimized", _not_optimized, ("onnx", "files")),
    ("opset 23", _newer_opset, ("onnx", "files")),
    ("renamed", _renamed, ("onnx", "files")),
    ("by torch", _by_torch, ("onnx", "files")),
    *([("by torch.export", _by_torch_export, ("onnx", "files"))] if HAS_NEWER_EXPORTER else []),
]
REFUSED = [
    ("mamba", "by torch"),  # it has no RMS norm
    ("efficientnet", "by torch"),  # it is wrong: see `onnx_faults`
    ("bert", "by torch.export"),  # its conversion of a subtraction from a number fails
    ("unet", "by torch.export"),  # it has no attention of three dimensions
]
