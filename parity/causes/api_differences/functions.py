"""The table: functions and methods that the user's blocks call in `construct` and `forward`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from .calls import Call, SourceExpression, code_of
from .entry import Finding, LayerPair
from .reading import code, format_value, same

ArgumentSpec = tuple[str, tuple[str, ...], Any]


@dataclass(frozen=True)
class FunctionDifference:
    """An entry of the table about a function.

    Attributes:
        names: names of the Cell's function, method or operator object.
        originals: names of torch's.
        rule: how they correspond, for the documentation.
        compare: returns the difference between a Cell's call and the corresponding torch call, or None.
        alone: whether a Cell's call is wrong regardless of torch's calls.
        absent: code to write if torch's block calls it and the Cell calls none of `names`; empty if that is right.
    """

    names: tuple[str, ...]
    originals: tuple[str, ...]
    rule: str
    compare: Callable[[Call, Call | None], Finding | None]
    alone: bool = False
    absent: str = ""

    def find(self, pair: LayerPair) -> Iterator[Finding]:
        """Yield the differences between the calls of a block and of its original."""
        here = [call for call in code_of(pair.cell, "construct") if call.name in self.names]
        if self.alone:
            yield from (finding for call in here if (finding := self.compare(call, None)))
            return
        there = [call for call in code_of(pair.module, "forward") if call.name in self.originals]
        if self.absent and there and not here:
            place = f"{there[0].name}() in {there[0].place}"
            yield Finding(f"{self.names[0]}=nowhere", place, self.absent)
        if len(here) == len(there):  # in the order of the source
            yield from (finding for a, b in zip(here, there, strict=True) if (finding := self.compare(a, b)))


def _argument(
    names: tuple[str, ...],
    originals: tuple[str, ...],
    rule: str,
    here: ArgumentSpec,
    there: ArgumentSpec,
    needed: Callable[[Any], Any] = lambda value: value,
) -> FunctionDifference:
    """Return an entry about an argument; each side has its name, the parameters after the tensor, and its default.

    A default may be a function of the call.
    """

    def value(call: Call, side: ArgumentSpec) -> Any:
        name, parameters, default = side
        return call.argument(parameters, name, default(call) if callable(default) else default)

    def compare(ours: Call, theirs: Call | None) -> Finding | None:
        assert theirs is not None
        value_here, value_there = value(ours, here), value(theirs, there)
        if any(isinstance(one, SourceExpression) or one is None for one in (value_here, value_there)):
            return None
        right = needed(value_there)
        if right is None or same(value_here, right):
            return None
        return Finding(
            f"{ours.name}({here[0]}={format_value(value_here)}) in {ours.place}",
            f"{theirs.name}({there[0]}={format_value(value_there)}) in {theirs.place}",
            f"{here[0]}={code(right)}",
        )

    return FunctionDifference(names, originals, rule, compare)


def _correction(call: Call) -> Any:
    """The correction that `unbiased` means, by default 1."""
    unbiased = call.argument(("dim", "unbiased"), "unbiased", True)
    return int(unbiased) if isinstance(unbiased, bool) else unbiased


def _training(ours: Call, theirs: Call | None) -> Finding | None:
    """Find a functional dropout that is also active in eval mode."""
    assert theirs is not None
    parameters = ("p", "training")
    here, there = ours.argument(parameters, "training", True), theirs.argument(parameters, "training", True)
    if here is not True or not isinstance(there, SourceExpression) or there.text != "self.training":
        return None
    return Finding(
        f"{ours.name}(training=True) in {ours.place}",
        f"{theirs.name}(training=self.training) in {theirs.place}",
        "training=self.training",
    )


def _same_end(ours: Call, theirs: Call | None) -> Finding | None:
    """Find different axes of softmax, if both are counted from the same end."""
    assert theirs is not None
    here, there = ours.argument(("axis",), "axis", -1), theirs.argument(("dim",), "dim", None)
    if not isinstance(here, int) or not isinstance(there, int) or here == there or (here < 0) != (there < 0):
        return None
    return Finding(
        f"{ours.name}(axis={here}) in {ours.place}",
        f"{theirs.name}(dim={there}) in {theirs.place}",
        f"axis={there}",
    )


def _stride_of_mean(ours: Call, theirs: Call | None) -> Finding | None:
    assert theirs is not None
    parameters = ("kernel_size", "stride")
    here = ours.argument(parameters, "stride", 1)
    kernel = theirs.argument(parameters, "kernel_size", None)
    there = theirs.argument(parameters, "stride", None)
    there = kernel if there is None else there
    if any(isinstance(one, SourceExpression) or one is None for one in (here, there)) or here == there:
        return None
    return Finding(
        f"{ours.name}(stride={here}) in {ours.place}",
        f"{theirs.name}(stride={there}) in {theirs.place}",
        f"stride={there}",
    )


def _values_alone(ours: Call, theirs: Call | None) -> Finding | None:
    """Find the method that returns only values; with an axis, torch's returns indices too."""
    assert theirs is not None
    pair = "return_indices" in ours.keywords or "dim" in ours.keywords
    if not ours.method or pair or not ours.unpacked or not theirs.unpacked or not (ours.positional or ours.keywords):
        return None
    return Finding(
        f"x.{ours.name}(axis)=values in {ours.place}",
        f"x.{theirs.name}(dim)=(values, indices) in {theirs.place}",
        f"x.{ours.name}(axis, return_indices=True)",
    )


def _size_method(ours: Call, _: Call | None) -> Finding | None:
    if not ours.method or ours.receiver.startswith("self."):
        return None
    inner = format_value(ours.positional[0]) if ours.positional and isinstance(ours.positional[0], int) else ""
    return Finding(
        f"x.size=the number of elements in {ours.place}",
        "x.size()=the shape",
        f"x.shape[{inner}]" if inner else "x.shape",
    )


def _half_pixels(ours: Call, theirs: Call | None) -> Finding | None:
    assert theirs is not None
    corners = theirs.argument(("size", "scale_factor", "mode", "align_corners"), "align_corners", None)
    if isinstance(corners, SourceExpression):
        return None
    name = "align_corners" if corners else "half_pixel_centers"
    if ours.keywords.get(name) is True or isinstance(ours.keywords.get(name), SourceExpression):
        return None
    return Finding(
        f"{ours.name}({name}=False) in {ours.place}",
        f"{theirs.name}(align_corners={bool(corners)}) in {theirs.place}",
        f"{name}=True",
    )


FUNCTIONS = (
    _argument(
        ("std", "var", "std_mean", "var_mean"), ("std", "var", "std_mean", "var_mean"),
        "Divides by n by default here (`ddof=0`), by n - 1 in torch.",
        ("ddof", ("axis", "ddof"), lambda call: call.keywords.get("correction", 0)), ("correction", (), _correction),
    ),
    _argument(
        ("gelu", "GeLU"), ("gelu",), "`ops.gelu` is exact by default, like torch's; the object `ops.GeLU()` uses tanh.",
        ("approximate", ("approximate",), lambda call: "tanh" if call.name == "GeLU" else "none"),
        ("approximate", ("approximate",), "none"),
    ),
    _argument(
        ("leaky_relu",), ("leaky_relu",), "Another default: 0.2 here, 0.01 in torch.",
        ("alpha", ("alpha",), 0.2), ("negative_slope", ("negative_slope",), 0.01),
    ),
    FunctionDifference(("softmax", "log_softmax", "Softmax", "LogSoftmax"), ("softmax", "log_softmax"),
        "`axis=-1` by default; torch requires `dim`.", _same_end),
    _argument(
        ("smooth_l1_loss",), ("smooth_l1_loss",), "'none' by default, in torch 'mean'.",
        ("reduction", ("target", "beta", "reduction"), "none"),
        ("reduction", ("target", "size_average", "reduce", "reduction", "beta"), "mean"),
    ),
    FunctionDifference(
        ("avg_pool1d", "avg_pool2d", "avg_pool3d"), ("avg_pool1d", "avg_pool2d", "avg_pool3d"),
        "`stride=1` by default, in torch `kernel_size`. (`ops.max_pool2d` is like torch's.)", _stride_of_mean,
    ),
    _argument(
        ("dropout",), ("dropout",),
        "p is the probability of dropping an element, unlike the first argument of nn.Dropout.",
        ("p", ("p", "training"), 0.5), ("p", ("p", "training"), 0.5),
    ),
    FunctionDifference(
        ("dropout",), ("dropout",), "It drops by default; write `training=self.training`, as in torch.", _training
    ),
    _argument(
        ("Dropout",), ("dropout",),
        "The operator object takes the probability of keeping an element, and also returns the mask.",
        ("keep_prob", (), 0.5), ("p", ("p", "training"), 0.5), needed=lambda p: 1 - p,
    ),
    _argument(
        ("LayerNorm",), ("layer_norm",),
        "The operator object's default is 1e-7; that of `ops.layer_norm` is 1e-5, like torch's.",
        ("epsilon", (), 1e-7), ("eps", ("normalized_shape", "weight", "bias", "eps"), 1e-5),
    ),
    _argument(
        ("flatten",), ("flatten",), "The function starts at axis 1 by default, torch's at 0; both methods start at 0.",
        ("start_dim", (), lambda call: 0 if call.method else 1), ("start_dim", ("start_dim",), 0),
    ),
    FunctionDifference(
        ("ResizeBilinearV2",), ("interpolate", "upsample"),
        "The operator object takes positions as `index * scale` by default; torch has half-pixel centres.",
        _half_pixels,
    ),
    FunctionDifference(
        ("max", "min"), ("max", "min"),
        "`x.max(axis)` returns only values; `ops.max(x, axis)` returns values and indices, like torch's.",
        _values_alone,
    ),
    FunctionDifference(
        ("stop_gradient", "asnumpy"), ("detach",), "A tensor has no method for it: `ops.stop_gradient(x)`.",
        lambda ours, theirs: None, absent="ops.stop_gradient(x)",
    ),
    FunctionDifference(
        ("size",), ("size",), "`x.size` is the number of elements; the shape is `x.shape`.", _size_method, alone=True
    ),
)  # fmt: skip
