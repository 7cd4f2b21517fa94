"""Small networks, their ONNX files, and faults to plant in these."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import torch
from onnx import helper, numpy_helper
from torch import Tensor, nn

from cellbridge import converter


class Images(nn.Module):
    """Convolutions with batch norms, which exporters fold."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU())
        self.second = nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU6())
        self.pool = nn.MaxPool2d(2)
        self.head = nn.Linear(4, 4)

    def forward(self, images: Tensor) -> Tensor:
        y: Tensor = self.head(self.pool(self.second(self.first(images))).mean((2, 3)))
        return y


class Attention(nn.Module):
    def __init__(self, width: int = 8, heads: int = 2) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        shape = batch, length, self.heads, width // self.heads
        q, k, v = (layer(x).view(shape).transpose(1, 2) for layer in (self.query, self.key, self.value))
        weights = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(width // self.heads), -1)
        y: Tensor = self.out((weights @ v).transpose(1, 2).reshape(batch, length, width))
        return y


class Block(nn.Module):
    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width)
        self.mlp = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Dropout(0.1), nn.Linear(width, width))

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        y: Tensor = x + self.mlp(self.norm2(x))
        return y


class Words(nn.Module):
    """A transformer of two blocks."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 8)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.norm, self.head = nn.LayerNorm(8), nn.Linear(8, 11)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        y: Tensor = self.head(self.norm(x))
        return y


class Steps(nn.Module):
    """Recurrent layers."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.gru, self.head = nn.LSTM(4, 5), nn.GRU(5, 3), nn.Linear(3, 3)

    def forward(self, x: Tensor) -> Tensor:
        y, _ = self.lstm(x)
        y, state = self.gru(y)
        z: Tensor = self.head(state[-1]) + y.mean(0)
        return z


class Layers(nn.Module):
    """Linear layers, and a result with names."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 2)
        self.relu, self.clip = nn.ReLU(), nn.Hardtanh(-0.5, 0.5)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {"scores": self.last(self.clip(self.second(self.relu(self.first(x))))), "twice": x * 2}


def network(kind: type[nn.Module]) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """A network with weights that aren't the initial ones, and its inputs."""
    torch.manual_seed(0)
    module = kind().eval()
    for layer in module.modules():
        if isinstance(layer, (nn.BatchNorm2d, nn.LayerNorm)):
            layer.weight.data.normal_()
            layer.bias.data.normal_()
        if isinstance(layer, nn.BatchNorm2d):
            assert layer.running_mean is not None
            assert layer.running_var is not None
            layer.running_mean.normal_()
            layer.running_var.uniform_(0.5, 2)
    inputs: dict[Any, tuple[Tensor, ...]] = {
        Images: (torch.randn(2, 3, 8, 8),),
        Words: (torch.randint(0, 11, (2, 5)),),
        Steps: (torch.randn(6, 2, 4),),
        Layers: (torch.randn(3, 6),),
    }
    return module, inputs[kind]


def own_export(module: nn.Module, args: tuple[Tensor, ...]) -> onnx.ModelProto:
    return converter.to_onnx(converter.from_torch(module, args))


@functools.cache
def _own_export_of(kind: type[nn.Module]) -> bytes:
    return own_export(*network(kind)).SerializeToString()


def own_export_of(kind: type[nn.Module]) -> onnx.ModelProto:
    """Return a copy of our export of a network of this kind, which is made once."""
    return onnx.load_from_string(_own_export_of(kind))


def stripped(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model without metadata, and with other names for everything but inputs and outputs."""
    result = onnx.ModelProto()
    result.CopyFrom(model)
    del result.metadata_props[:]
    kept = {value.name for value in (*result.graph.input, *result.graph.output)}
    names: dict[str, str] = {}
    for tensor in result.graph.initializer:
        tensor.name = names.setdefault(tensor.name, f"c{len(names)}")
    for node in result.graph.node:
        del node.metadata_props[:]
        node.name = ""
        node.input[:] = [names.get(name, name) for name in node.input]
        for name in node.output:
            if name not in kept:
                names[name] = f"t{len(names)}"
        node.output[:] = [names.get(name, name) for name in node.output]
    return result


def with_scopes_of_torch(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with the metadata that torch.onnx writes instead of cellbridge's."""
    result = stripped(model)
    for node, original in zip(result.graph.node, model.graph.node, strict=True):
        path = next((e.value for e in original.metadata_props if e.key == "cellbridge.cell"), "").partition("@")[0]
        parts = path.split(".") if path else []
        scopes = ["", *(".".join(parts[: i + 1]) for i in range(len(parts))), f"node_{original.op_type}"]
        node.metadata_props.add(key="pkg.torch.onnx.name_scopes", value=str(scopes))
        node.metadata_props.add(key="pkg.torch.onnx.class_hierarchy", value=str(["Module"] * len(scopes)))
    return result


def with_paths_in_names(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with the paths of Cells in the names of nodes alone."""
    result = stripped(model)
    for number, (node, original) in enumerate(zip(result.graph.node, model.graph.node, strict=True)):
        path = next((e.value for e in original.metadata_props if e.key == "cellbridge.cell"), "").partition("@")[0]
        node.name = f"{'/' + path.replace('.', '/') if path else ''}/{node.op_type}_{number}"
    return result


Fault = Callable[[onnx.ModelProto], None]


def nodes_of(model: onnx.ModelProto, op_type: str) -> list[onnx.NodeProto]:
    return [node for node in model.graph.node if node.op_type == op_type]


def set_attribute(op_type: str, which: int, name: str, value: Any) -> Fault:
    def fault(model: onnx.ModelProto) -> None:
        node = nodes_of(model, op_type)[which]
        others = [attribute for attribute in node.attribute if attribute.name != name]
        del node.attribute[:]
        node.attribute.extend([*others, helper.make_attribute(name, value)])

    return fault


def set_operator(op_type: str, which: int, new_op_type: str, **attributes: Any) -> Fault:
    def fault(model: onnx.ModelProto) -> None:
        node = nodes_of(model, op_type)[which]
        node.op_type = new_op_type
        names = onnx.defs.get_schema(new_op_type, 17).attributes
        kept = [attribute for attribute in node.attribute if attribute.name in names]
        del node.attribute[:]
        node.attribute.extend(kept)
        node.attribute.extend(helper.make_attribute(name, value) for name, value in attributes.items())

    return fault


def change_operand(op_type: str, which: int, operand: int, change: Callable[[Any], Any]) -> Fault:
    """Change the initializer that is an operand of a node, for that node alone."""

    def fault(model: onnx.ModelProto) -> None:
        node = nodes_of(model, op_type)[which]
        data = next(numpy_helper.to_array(t) for t in model.graph.initializer if t.name == node.input[operand])
        changed = np.ascontiguousarray(change(data.copy())).astype(data.dtype)
        shared = sum(list(user.input).count(node.input[operand]) for user in model.graph.node) > 1
        name = f"{node.input[operand]}_changed" if shared else node.input[operand]
        for tensor in [t for t in model.graph.initializer if t.name == name]:
            model.graph.initializer.remove(tensor)
        model.graph.initializer.append(numpy_helper.from_array(changed, name))
        node.input[operand] = name

    return fault


def change_element(data: Any) -> Any:
    data.reshape(-1)[3] += 0.5
    return data


def remove_residual(which: int) -> Fault:
    """Remove an addition of two computed values; the second stays."""

    def fault(model: onnx.ModelProto) -> None:
        stored = {tensor.name for tensor in model.graph.initializer}
        node = [node for node in nodes_of(model, "Add") if not stored.intersection(node.input)][which]
        for user in model.graph.node:
            user.input[:] = [node.input[1] if name == node.output[0] else name for name in user.input]
        model.graph.node.remove(node)

    return fault


def change_bound(value: float) -> Fault:
    def fault(model: onnx.ModelProto) -> None:
        model.graph.initializer.append(numpy_helper.from_array(np.float32(value), "bound"))
        nodes_of(model, "Clip")[0].input[2] = "bound"

    return fault
