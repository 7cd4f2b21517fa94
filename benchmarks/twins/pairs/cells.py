"""Networks of transformers, against ports to Cells with other names: three products for one, and one for three."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from torch import nn as torch_nn

from cellbridge.runtime import Parameter, Tensor, nn, ops

from ..twin import Twin
from . import gpt2, vit

EPS = 1e-5


def with_weights(cell: nn.Cell, arrays: dict[str, Any]) -> nn.Cell:
    """Write arrays into all Parameters of a Cell."""
    parameters = cell.parameters_dict()
    assert parameters.keys() == arrays.keys(), parameters.keys() ^ arrays.keys()
    for name, parameter in parameters.items():
        parameter.set_data(Tensor(np.array(arrays[name])))
    return cell


class Heads(nn.Cell):
    """Causal attention with three projections."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.wq, self.wk, self.wv, self.wo = (nn.Dense(width, width) for _ in range(4))

    def split(self, x: Tensor) -> Tensor:
        return x.reshape(x.shape[0], x.shape[1], self.heads, -1).transpose(0, 2, 1, 3)

    def construct(self, x: Tensor) -> Tensor:
        q, k, v = self.split(self.wq(x)), self.split(self.wk(x)), self.split(self.wv(x))
        scores = ops.matmul(q, k.swapaxes(-2, -1)) / math.sqrt(q.shape[-1])
        future = Tensor(np.triu(np.ones((x.shape[1], x.shape[1]), bool), 1))
        weights = ops.softmax(ops.masked_fill(scores, future, -1e30), axis=-1)
        return self.wo(ops.matmul(weights, v).transpose(0, 2, 1, 3).reshape(x.shape))


class DecoderLayer(nn.Cell):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.norm_a, self.norm_b = (nn.LayerNorm((width,), epsilon=EPS) for _ in range(2))
        self.heads = Heads(width, heads)
        self.wide, self.narrow = nn.Dense(width, 4 * width), nn.Dense(4 * width, width)

    def construct(self, x: Tensor) -> Tensor:
        x = x + self.heads(self.norm_a(x))
        return x + self.narrow(ops.gelu(self.wide(self.norm_b(x)), approximate="tanh"))


class Decoder(nn.Cell):
    """The head is the table of words."""

    def __init__(self) -> None:
        super().__init__()
        width = gpt2.WIDTH
        self.words = Parameter(Tensor(np.zeros((gpt2.WORDS, width), np.float32)), name="words")
        self.places = Parameter(Tensor(np.zeros((gpt2.LENGTH, width), np.float32)), name="places")
        self.layers = nn.CellList([DecoderLayer(width, gpt2.HEADS) for _ in range(gpt2.DEPTH)])
        self.last = nn.LayerNorm((width,), epsilon=EPS)

    def construct(self, ids: Tensor) -> Tensor:
        x = self.words[ids] + self.places[: ids.shape[1]]
        for layer in self.layers:
            x = layer(x)
        return ops.matmul(self.last(x), self.words.swapaxes(0, 1))


def port_decoder(reference: torch_nn.Module) -> nn.Cell:
    w = {name.removeprefix("transformer."): value.numpy() for name, value in reference.state_dict().items()}
    arrays = {"words": w["wte.weight"], "places": w["wpe.weight"]}
    arrays |= {"last.gamma": w["ln_f.weight"], "last.beta": w["ln_f.bias"]}
    for i in range(gpt2.DEPTH):
        target, source = f"layers.{i}", f"h.{i}"
        matrices = np.split(w[f"{source}.attn.c_attn.weight"], 3, axis=1)
        for name, matrix, bias in zip("qkv", matrices, np.split(w[f"{source}.attn.c_attn.bias"], 3), strict=True):
            arrays |= {f"{target}.heads.w{name}.weight": matrix.T, f"{target}.heads.w{name}.bias": bias}
        for target_name, name in (("heads.wo", "attn.c_proj"), ("wide", "mlp.c_fc"), ("narrow", "mlp.c_proj")):
            arrays[f"{target}.{target_name}.weight"] = w[f"{source}.{name}.weight"].T
            arrays[f"{target}.{target_name}.bias"] = w[f"{source}.{name}.bias"]
        for target_name, name in (("norm_a", "ln_1"), ("norm_b", "ln_2")):
            arrays[f"{target}.{target_name}.gamma"] = w[f"{source}.{name}.weight"]
            arrays[f"{target}.{target_name}.beta"] = w[f"{source}.{name}.bias"]
    return with_weights(Decoder(), arrays)


class Vision(nn.Cell):
    """A vision transformer without layers: all weights are Parameters, matrices with their outputs last."""

    def __init__(self, arrays: dict[str, Any]) -> None:
        super().__init__()
        for name, array in arrays.items():
            setattr(self, name, Parameter(Tensor(np.array(array)), name=name))

    def norm(self, x: Tensor, name: str) -> Tensor:
        y = x - x.mean(-1, keep_dims=True)
        y = y / ops.sqrt((y * y).mean(-1, keep_dims=True) + vit.EPS)
        return y * getattr(self, f"{name}_gain") + getattr(self, f"{name}_shift")

    def product(self, x: Tensor, name: str) -> Tensor:
        return ops.matmul(x, getattr(self, f"{name}_w")) + getattr(self, f"{name}_b")

    def attention(self, x: Tensor, i: int) -> Tensor:
        b, n, c = x.shape
        q, k, v = ops.split(self.product(x, f"qkv{i}"), c, axis=-1)
        q, k, v = (y.reshape(b, n, vit.HEADS, -1).transpose(0, 2, 1, 3) for y in (q, k, v))
        shares = ops.softmax(ops.matmul(q, k.swapaxes(-2, -1)) * (c // vit.HEADS) ** -0.5, axis=-1)
        return self.product(ops.matmul(shares, v).transpose(0, 2, 1, 3).reshape(b, n, c), f"merge{i}")

    def construct(self, images: Tensor) -> Tensor:
        b, grid = images.shape[0], vit.SIDE // vit.PATCH
        x = images.reshape(b, 3, grid, vit.PATCH, grid, vit.PATCH).transpose(0, 2, 4, 1, 3, 5)
        x = self.product(x.reshape(b, grid * grid, -1), "patches")
        first = ops.broadcast_to(self.first, (b, 1, vit.WIDTH))
        x = ops.concat((first, x), axis=1) + self.places
        for i in range(vit.DEPTH):
            x = x + self.attention(self.norm(x, f"before{i}"), i)
            y = ops.gelu(self.product(self.norm(x, f"after{i}"), f"wide{i}"), approximate="none")
            x = x + self.product(y, f"narrow{i}")
        return self.product(self.norm(x, "last")[:, 0], "classes")


def port_vision(reference: torch_nn.Module) -> nn.Cell:
    w = {name.removeprefix("vit."): value.numpy() for name, value in reference.state_dict().items()}
    arrays = {"first": w["embeddings.cls_token"], "places": w["embeddings.position_embeddings"]}
    stem = "embeddings.patch_embeddings.projection"
    arrays |= {"patches_w": w[f"{stem}.weight"].reshape(vit.WIDTH, -1).T, "patches_b": w[f"{stem}.bias"]}

    def norm(name: str, source: str) -> dict[str, Any]:
        return {f"{name}_gain": w[f"{source}.weight"], f"{name}_shift": w[f"{source}.bias"]}

    def product(name: str, *source: str) -> dict[str, Any]:
        matrix = np.concatenate([w[f"{each}.weight"] for each in source])
        return {f"{name}_w": matrix.T, f"{name}_b": np.concatenate([w[f"{each}.bias"] for each in source])}

    for i in range(vit.DEPTH):
        source = f"layers.{i}"
        arrays |= norm(f"before{i}", f"{source}.layernorm_before") | norm(f"after{i}", f"{source}.layernorm_after")
        arrays |= product(f"qkv{i}", *(f"{source}.attention.{letter}_proj" for letter in "qkv"))
        arrays |= product(f"merge{i}", f"{source}.attention.o_proj")
        arrays |= product(f"wide{i}", f"{source}.mlp.fc1") | product(f"narrow{i}", f"{source}.mlp.fc2")
    return Vision(arrays | norm("last", "layernorm") | product("classes", "classifier"))


TWINS = [
    Twin("cells/gpt2 split", gpt2.build_without_cache, port_decoder, gpt2.inputs, rounding=1e-6),
    Twin("cells/vit fused", vit.build, port_vision, vit.inputs, rounding=1e-6),
]
