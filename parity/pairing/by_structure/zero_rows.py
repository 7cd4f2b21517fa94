"""Matrices that multiply nothing but zeros on these inputs: no value tells their rows apart, but their places do.

A decoder starts with zeros in place of what was decoded before, and the values of its first attention are zeros times a
matrix, plus a bias. The row belongs to the bias; without one, the products come in the same order.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...sides.records import Array
from .network import Network, Trace
from .reference import Reference
from .zeros import ZeroProduct

BY_PLACE = "loaded by place alone, since no value tells what multiplies only zeros on these inputs"
"""What a report says of such a tensor, before its name."""


def with_zero_rows(reference: Reference, network: Network, numbers: Mapping[str, Array]) -> dict[str, Array]:
    """Return the elements of the candidate's tensors that multiply zeros, by name; none that were chosen before.

    Args:
        reference: the reference.
        network: the candidate.
        numbers: for each element of a tensor of the candidate, the number of the reference's; -1 if not chosen.
    """
    of_candidate = [
        (product, trace)
        for product in network.zero_products
        if (trace := _trace(network, product)) is not None and np.all(_at(numbers, trace) < 0)
    ]
    if not of_candidate:
        return {}
    of_reference = [(p, t) for p in reference.network.zero_products if (t := _trace(reference.network, p)) is not None]
    result: dict[str, Array] = {}
    by_bias: dict[int, Array] = {}
    without_bias: list[Array] = []
    chosen = np.unique(np.concatenate([array.reshape(-1) for array in numbers.values()]))
    for product, trace in of_reference:
        weight = _rows(product, reference.sources.numbers(trace.name, trace.places))
        if np.isin(weight, chosen).any():
            continue
        bias = _bias(reference.network, product, len(weight))
        if bias is None:
            without_bias.append(weight)
        else:
            by_bias |= dict(
                zip(reference.sources.numbers(bias.name, bias.places).reshape(-1).tolist(), weight, strict=True)
            )
    plain = [_rows(p, t.places) for p, t in of_candidate if _bias(network, p, len(_rows(p, t.places))) is None]
    are_alike = [weight.shape for weight in plain] == [weight.shape for weight in without_bias]
    for product, trace in of_candidate:
        places = _rows(product, trace.places)
        bias = _bias(network, product, len(places))
        if bias is not None:
            rows = [by_bias.get(number) for number in _at(numbers, bias).reshape(-1).tolist()]
        else:
            rows = list(without_bias.pop(0)) if are_alike else [None]
        whole = [row for row in rows if row is not None and row.shape == places.shape[1:]]
        if len(whole) == len(places):
            filled = result.get(trace.name, numbers[trace.name]).copy()
            filled.reshape(-1)[places] = np.stack(whole)
            result[trace.name] = filled
    return result


def _trace(network: Network, product: ZeroProduct) -> Trace | None:
    """Return the trace of a product's matrix; None if it isn't one that is stored."""
    weight = product.node.inputs[1]
    trace = None if weight is None or len(weight.shape) != 2 else network.trace(weight)
    return trace if trace is not None and not trace.signature else None


def _bias(network: Network, product: ZeroProduct, size: int) -> Trace | None:
    trace = None if product.bias is None else network.trace(product.bias)
    return trace if trace is not None and not trace.signature and trace.places.size == size else None


def _rows(product: ZeroProduct, places: Array) -> Array:
    """Return a row of a matrix for each feature of the product."""
    return places.T if product.node.op == "matmul" else places


def _at(numbers: Mapping[str, Array], trace: Trace) -> Array:
    return numbers[trace.name].reshape(-1)[trace.places]
