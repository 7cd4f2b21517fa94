"""Normalization layers."""

from __future__ import annotations

from collections.abc import Sequence

from ....runtime.ir.types import Node, Value
from ..text.expressions import call, number, tuple_literal
from .network import Layer
from .table import Leaf, layer


@layer("layer_norm")
def _(m: Leaf) -> Layer | None:
    names = m.parameter_attributes(gamma=1, beta=2)
    if not m.maps_input() or names is None or len(names) != 2:
        return None
    shape = tuple_literal([m.literal(size, "width") for size in m.type(1).shape])
    axis = None if m["axes_count"] == 1 else m.literal(m.type().rank - m["axes_count"], "axis")
    text = call(
        "nn.LayerNorm",
        shape,
        begin_norm_axis=axis,
        begin_params_axis=axis,
        epsilon=_eps(m),
        dtype=m.parameter_dtype(),
    ).text
    return Layer(text, names)


@layer("group_norm")
def _(m: Leaf) -> Layer | None:
    names = m.parameter_attributes(gamma=1, beta=2)
    if not m.maps_input() or names is None or len(names) != 2 or m.type().rank != 4:
        return None
    sizes = m.literal(m["groups"], "num_groups"), m.literal(m.type().shape[1], "num_channels")
    return Layer(call("nn.GroupNorm", *sizes, eps=_eps_unless_default(m), dtype=m.parameter_dtype()).text, names)


@layer("batch_norm")
def _(m: Leaf) -> Layer | None:
    """In eval mode, the momentum is unknown, and the default is used."""
    names = m.parameter_attributes(moving_mean=1, moving_variance=2, gamma=3, beta=4)
    if not m.maps_input() or names is None:
        return None
    return _batch_norm(m, names, _affine(m, 3), None)


@layer("batch_norm_train")
def _(m: Leaf) -> Layer | None:
    names = m.parameter_attributes(gamma=1, beta=2)
    if names is None or m.inputs != [m.node.inputs[0]] or m.outputs != [m.node.outputs[0]]:
        return None
    updates = {name: m.network.program.updates.get(q) for name, q in m.module.state.items()}
    statistics = {"moving_mean": "running_mean", "moving_variance": "running_var"}
    if not any(updates.values()):
        return _batch_norm(m, names, _affine(m, 1), None, always=True) if m.nodes == [m.node] else None
    rates = [_old_weight(m, updates.get(name)) for name in statistics.values()]
    if rates[0] is None or rates[0] != rates[1]:
        return None
    return _batch_norm(m, names | statistics, _affine(m, 1), rates[0])


def _batch_norm(
    m: Leaf, names: dict[str, str], affine: str | None, momentum: float | None, *, always: bool = False
) -> Layer | None:
    rank = m.type().rank
    if rank not in (2, 3, 4) or len([name for name in names if name in ("gamma", "beta")]) == 1:
        return None
    text = call(
        "nn.BatchNorm2d" if rank == 4 else "nn.BatchNorm1d",
        m.literal(m.type().shape[1], "num_features"),
        eps=_eps_unless_default(m),
        momentum=None if momentum in (None, 0.9) else m.literal(momentum, "momentum"),
        affine=affine,
        use_batch_statistics="True" if always else None,
        dtype=m.parameter_dtype(next((i for i, value in enumerate(m.node.inputs) if i and value is not None), 0)),
    ).text
    return Layer(text, names)


def _old_weight(m: Leaf, update: Value | None) -> float | None:
    """The weight w of the old statistic in an update `old * w + new * (1 - w)`; None for other updates."""
    producers = {value: node for node in m.nodes for value in node.outputs}
    total = producers.get(update) if update is not None else None
    if total is None or total.op != "add":
        return None
    old = producers.get(total.inputs[0]) if total.inputs[0] is not None else None
    return _factor(m, old) if old is not None and _is_own(m, old.inputs) else None


def _factor(m: Leaf, node: Node) -> float | None:
    value = node.inputs[1] if node.op == "mul" else None
    factor = None if value is None else m.network.scalar(value)
    return None if factor is None else round(float(factor), 12)


def _is_own(m: Leaf, operands: Sequence[Value | None]) -> bool:
    return operands[0] is not None and any(module is m.module for module, _ in m.network.owners(operands[0]))


def _affine(m: Leaf, weight: int) -> str | None:
    return None if m.node.inputs[weight : weight + 1] not in ((), (None,)) else "False"


def _eps(m: Leaf) -> str:
    return m.literal(m["eps"], "eps")


def _eps_unless_default(m: Leaf) -> str | None:
    return None if number(m["eps"]) == "1e-05" else _eps(m)
