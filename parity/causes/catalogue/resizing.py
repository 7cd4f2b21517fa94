"""Images that are resized with other settings: other positions, another kernel, with antialiasing, or without it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from ....runtime.ir.program import Program
from ....runtime.ir.types import Node, Value
from ....runtime.ops import linear, shaping
from ....runtime.programs.interpreter import execute
from ....runtime.tracing import SymbolicTensor
from ...results.cause import Cause
from ...sides.records import Array
from ..cell_program import CellProgram
from ..descriptions import spelling
from ..evidence import Evidence
from ..operators import INTERPOLATE, operators
from .hypothesis import Hypothesis, with_other_value

RESIZES = (INTERPOLATE, "Resize", "Upsample")
"""The operators of torch and ONNX that resize images."""
EQUAL = 1e-9
"""The largest difference of equal images, relative to the largest element."""
RADII = {"linear": 1, "cubic": 2}
"""How far a kernel reaches, in pixels."""


@dataclass(frozen=True)
class Setting:
    """How an axis is resized, in the words of ONNX's Resize.

    Attributes:
        mode: "nearest", "linear", "cubic" or "area" (the mean of the pixels under each new one).
        positions: where the new pixels lie in the old ones, as `coordinate_transformation_mode`.
        rounding: which pixel is the nearest, as `nearest_mode`.
        antialias: whether the kernel is stretched where the image shrinks.
        coefficient: the number of the cubic kernel, as `cubic_coeff_a`.
        exclude_outside: whether pixels beyond the edges count nothing, instead of as those at the edges.
    """

    mode: str
    positions: str = "half_pixel"
    rounding: str = "floor"
    antialias: bool = False
    coefficient: float = -0.75
    exclude_outside: bool = False


POSITIONS = ("half_pixel", "align_corners", "asymmetric")
SETTINGS = (
    *(Setting("linear", positions) for positions in POSITIONS),
    *(Setting("nearest", *how) for how in product(POSITIONS, ("floor", "round_prefer_floor", "round_prefer_ceil"))),
    *(Setting("cubic", positions, coefficient=a) for positions, a in product(POSITIONS, (-0.75, -0.5))),
    *(Setting("cubic", coefficient=a, exclude_outside=True) for a in (-0.75, -0.5)),
    Setting("area"),
    *(Setting("linear", positions, antialias=True) for positions in POSITIONS[:2]),
    *(Setting("cubic", positions, antialias=True, coefficient=-0.5) for positions in POSITIONS[:2]),
)
"""The settings of torch, ONNX, TensorFlow and JAX. Antialiased kernels exclude what is outside of the image."""
OF_TORCH = frozenset(
    s for s in SETTINGS if s.mode != "cubic" or (not s.exclude_outside and (s.coefficient == -0.5) == s.antialias)
)
"""Those of torch, of which the nearest pixels have names of their own."""
LINEAR = {3: "linear", 4: "bilinear", 5: "trilinear"}
"""Torch's names of the linear mode, by the rank of the image."""


def resizes(cell: CellProgram, _: Evidence) -> Iterator[Hypothesis]:
    """Yield each image that the reference resizes, resized with each other setting, those alike first."""
    for name, image, result in _resized(cell.program):
        old, new = image.type.sizes, result.type.sizes
        if old is None or new is None or len(old) != len(new) or old[:2] != new[:2]:
            continue
        before, after = execute(cell.program, cell.arrays, wanted=[image, result])
        makes = {s: [matrix(a, b, s) for a, b in zip(old[2:], new[2:], strict=True)] for s in SETTINGS}
        matching = [setting for setting, matrices in makes.items() if _is_equal(_applied(before, matrices), after)]
        if matching:
            yield from _others(
                cell.program, name, (image, result), (before, after), makes, _of_torch_first(matching)[0]
            )


def _others(
    program: Program, name: str, values: tuple[Value, Value], arrays: tuple[Array, Array],
    makes: dict[Setting, list[Array]], reference_setting: Setting,
) -> Iterator[Hypothesis]:  # fmt: skip
    """Yield an image resized with each setting that gives another result than the reference's own."""
    (image, result), (before, after) = values, arrays
    rank = before.ndim
    shrinks = any(b < a for a, b in zip(before.shape[2:], after.shape[2:], strict=True))
    for setting in _of_torch_first(sorted(makes, key=lambda s: len(_different(reference_setting, s)))):
        is_known = shrinks or not setting.antialias  # which else is another kernel by another name
        if is_known and not _is_equal(_applied(before, makes[setting]), after):
            in_torch = _in_torch(reference_setting, rank), _in_torch(setting, rank)
            names = (
                in_torch if name == INTERPOLATE and all(in_torch) else (_in_onnx(reference_setting), _in_onnx(setting))
            )
            make = partial(with_other_value, program, result, image, partial(_product, makes[setting]))
            yield Hypothesis(_cause(name, *names), make)


def _of_torch_first(settings: Iterable[Setting]) -> list[Setting]:
    return sorted(settings, key=lambda setting: not _in_torch(setting, 4))


def _resized(program: Program) -> Iterator[tuple[str, Value, Value]]:
    """Yield the operator of each resized image, the image, and the result."""
    regions = [(operator.name, operator.nodes) for operator in operators(program) if operator.name in RESIZES]
    in_regions = {id(node) for _, nodes in regions for node in nodes}
    regions += [(INTERPOLATE, (node,)) for node in program.nodes if node.op == "resize" and id(node) not in in_regions]
    for name, nodes in regions:
        images, results = _ends(program, nodes)
        if len(images) == len(results) == 1:
            yield name, images[0], results[0]


def _ends(program: Program, nodes: tuple[Node, ...]) -> tuple[list[Value], list[Value]]:
    """Return the values that some nodes take, other than stored ones, and those that other nodes take from them."""
    inside = {id(node) for node in nodes}
    made = {value for node in nodes for value in node.outputs}
    stored = program.constant_data
    operands = {v: None for node in nodes for v in node.inputs if v is not None and v not in made and v not in stored}
    used_outside = {v for node in program.nodes if id(node) not in inside for v in node.inputs} | {*program.outputs}
    return [*operands], [value for node in nodes for value in node.outputs if value in used_outside]


def matrix(old: int, new: int, setting: Setting) -> Array:
    """Return the weights `(old, new)` with which an axis of pixels is resized, in float64.

    The kernels are those of ONNX's Resize and ATen's UpSample.h; Keys, "Cubic convolution interpolation for digital
    image processing" (1981).
    """
    weights = np.zeros((old, new))
    corners = setting.positions == "align_corners"
    step = ((old - 1) / (new - 1) if new > 1 else 0.0) if corners else old / new
    places = np.arange(new, dtype=np.float64)
    if setting.mode == "area":
        for pixel in range(new):
            start, stop = pixel * old // new, -(-(pixel + 1) * old // new)
            weights[start:stop, pixel] = 1 / (stop - start)
        return weights
    at_centres = setting.positions == "half_pixel" or setting.antialias
    sources = (places + 0.5) * step - 0.5 if at_centres else places * step
    if setting.mode == "nearest":
        roundings = {
            "floor": np.floor(sources),
            "round_prefer_floor": np.ceil(sources - 0.5),
            "round_prefer_ceil": np.floor(sources + 0.5),
        }
        rounded = roundings[setting.rounding]
        weights[rounded.clip(0, old - 1).astype(np.int64), np.arange(new)] = 1
        return weights
    stretch = max(step, 1.0) if setting.antialias else 1.0
    reach = int(np.ceil(RADII[setting.mode] * stretch)) + 1
    taps = np.floor(sources).astype(np.int64) + np.arange(-reach, reach + 1)[:, None]
    kernel = _kernel(np.abs(taps - sources) / stretch, setting)
    if setting.antialias or setting.exclude_outside:
        kernel = np.where((taps >= 0) & (taps < old), kernel, 0.0)
        kernel = kernel / kernel.sum(axis=0)
    np.add.at(weights, (taps.clip(0, old - 1), np.arange(new)[None].repeat(len(taps), 0)), kernel)
    return weights


def _kernel(distance: Array, setting: Setting) -> Array:
    if setting.mode == "linear":
        return np.asarray(np.maximum(1 - distance, 0.0))
    a, d = setting.coefficient, distance
    near = ((a + 2) * d - (a + 3)) * d * d + 1
    weights: Array = np.where(d < 1, near, np.where(d < 2, ((a * d - 5 * a) * d + 8 * a) * d - 4 * a, 0.0))
    return weights


def _applied(image: Array, matrices: list[Array]) -> Array:
    for axis, weights in enumerate(matrices, start=2):
        image = np.moveaxis(np.moveaxis(image, axis, -1) @ weights, -1, axis)
    return image


def _product(matrices: list[Array], image: SymbolicTensor) -> SymbolicTensor:
    """Return the image multiplied by a matrix of weights along each spatial axis."""
    rank = len(image.value.shape)
    for axis, weights in enumerate(matrices, start=2):
        order = list(range(rank))
        order[axis], order[-1] = order[-1], order[axis]
        last = shaping.transpose(image, permutation=tuple(order))
        image = shaping.transpose(
            linear.matmul(last, image.builder.constant(weights, image.dtype)), permutation=tuple(order)
        )
    return image


def _is_equal(array: Array, other: Array) -> bool:
    return bool(np.abs(array - other).max(initial=0.0) <= EQUAL * max(float(np.abs(other).max(initial=0.0)), 1e-300))


def _different(setting: Setting, other: Setting) -> list[str]:
    """Return the names of what two settings differ in."""
    return [field.name for field in fields(setting) if getattr(setting, field.name) != getattr(other, field.name)]


def _in_torch(setting: Setting, rank: int) -> dict[str, Any]:
    """Return a setting as arguments of `interpolate`; none if it isn't one of torch's."""
    if setting.mode == "nearest":
        exact = {("asymmetric", "floor"): "nearest", ("half_pixel", "round_prefer_ceil"): "nearest-exact"}
        mode = exact.get((setting.positions, setting.rounding), "")
        return {"mode": mode, "antialias": False, "align_corners": False} if mode else {}
    if setting.positions == "asymmetric" or setting not in OF_TORCH:
        return {}
    mode = {"linear": LINEAR.get(rank, "linear"), "cubic": "bicubic"}.get(setting.mode, setting.mode)
    return {"mode": mode, "antialias": setting.antialias, "align_corners": setting.positions == "align_corners"}


def _in_onnx(setting: Setting) -> dict[str, Any]:
    """Return a setting as attributes of Resize."""
    attributes: dict[str, Any] = {"mode": setting.mode, "coordinate_transformation_mode": setting.positions}
    if setting.mode == "nearest":
        return attributes | {"nearest_mode": setting.rounding}
    attributes["antialias"] = int(setting.antialias)
    if setting.mode == "cubic":
        attributes |= {"cubic_coeff_a": setting.coefficient, "exclude_outside": int(setting.exclude_outside)}
    return attributes


def _cause(operator: str, in_reference: dict[str, Any], in_candidate: dict[str, Any]) -> Cause:
    """Return the cause: what differs of what both settings have, with the values of both sides."""
    names = [name for name in in_reference if name in in_candidate and in_reference[name] != in_candidate[name]]
    parts = [
        f"{name} is {spelling(in_candidate[name])} in the candidate, {spelling(in_reference[name])} in the reference"
        for name in names
    ]
    fix = ", ".join(f"{name}={spelling(in_reference[name])}" for name in names)
    return Cause(
        "attribute", f"in {operator}, {'; '.join(parts)}", f"use {fix}", op="resize", attribute=names[0],
        reference_value=in_reference[names[0]], candidate_value=in_candidate[names[0]],
    )  # fmt: skip
