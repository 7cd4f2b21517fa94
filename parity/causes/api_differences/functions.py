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
        calls = [call for call in code_of(pair.cell, "construct") if call.name in self.names]
        if self.alone:
            yield from (finding for call in calls if (finding := self.compare(call, None)))
            return
        original_calls = [call for call in code_of(pair.module, "forward") if call.name in self.originals]
        if self.absent and original_calls and not calls:
            location = f"{original_calls[0].name}() in {original_calls[0].place}"
            yield Finding(f"{self.names[0]}=nowhere", location, self.absent)
        if len(calls) == len(original_calls):  # in the order of the source
            yield from (finding for a, b in zip(calls, original_calls, strict=True) if (finding := self.compare(a, b)))


def _argument(
    names: tuple[str, ...],
    originals: tuple[str, ...],
    rule: str,
    cell_argument: ArgumentSpec,
    original_argument: ArgumentSpec,
    needed: Callable[[Any], Any] = lambda value: value,
) -> FunctionDifference:
    """Return an entry about an argument; each side has its name, the parameters after the tensor, and its default.

    A default may be a function of the call.
    """

    def value(call: Call, side: ArgumentSpec) -> Any:
        name, parameters, default = side
        return call.argument(parameters, name, default(call) if callable(default) else default)

    def compare(call: Call, original: Call | None) -> Finding | None:
        assert original is not None
        call_value, original_value = value(call, cell_argument), value(original, original_argument)
        if any(isinstance(x, SourceExpression) or x is None for x in (call_value, original_value)):
            return None
        right = needed(original_value)
        if right is None or same(call_value, right):
            return None
        return Finding(
            f"{call.name}({cell_argument[0]}={format_value(call_value)}) in {call.place}",
            f"{original.name}({original_argument[0]}={format_value(original_value)}) in {original.place}",
            f"{cell_argument[0]}={code(right)}",
        )

    return FunctionDifference(names, originals, rule, compare)


def _correction(call: Call) -> Any:
    """The correction that `unbiased` means, by default 1."""
    unbiased = call.argument(("dim", "unbiased"), "unbiased", True)
    return int(unbiased) if isinstance(unbiased, bool) else unbiased


def _training(call: Call, original: Call | None) -> Finding | None:
    """Find a functional dropout that is also active in eval mode."""
    assert original is not None
    parameters = ("p", "training")
    flag, original_flag = call.argument(parameters, "training", True), original.argument(parameters, "training", True)
    if flag is not True or not isinstance(original_flag, SourceExpression) or original_flag.text != "self.training":
        return None
    return Finding(
        f"{call.name}(training=True) in {call.place}",
        f"{original.name}(training=self.training) in {original.place}",
        "training=self.training",
    )


def _same_end(call: Call, original: Call | None) -> Finding | None:
    """Find different axes of softmax, if both are counted from the same end."""
    assert original is not None
    axis, dim = call.argument(("axis",), "axis", -1), original.argument(("dim",), "dim", None)
    if not isinstance(axis, int) or not isinstance(dim, int) or axis == dim or (axis < 0) != (dim < 0):
        return None
    return Finding(
        f"{call.name}(axis={axis}) in {call.place}",
        f"{original.name}(dim={dim}) in {original.place}",
        f"axis={dim}",
    )


def _stride_of_mean(call: Call, original: Call | None) -> Finding | None:
    assert original is not None
    parameters = ("kernel_size", "stride")
    stride = call.argument(parameters, "stride", 1)
    kernel = original.argument(parameters, "kernel_size", None)
    original_stride = original.argument(parameters, "stride", None)
    original_stride = kernel if original_stride is None else original_stride
    if (
        any(isinstance(x, SourceExpression) or x is None for x in (stride, original_stride))
        or stride == original_stride
    ):
        return None
    return Finding(
        f"{call.name}(stride={stride}) in {call.place}",
        f"{original.name}(stride={original_stride}) in {original.place}",
        f"stride={original_stride}",
    )


def _values_alone(call: Call, original: Call | None) -> Finding | None:
    """Find the method that returns only values; with an axis, torch's returns indices too."""
    assert original is not None
    pair = "return_indices" in call.keywords or "dim" in call.keywords
    if not call.method or pair or not call.unpacked or not original.unpacked or not (call.positional or call.keywords):
        return None
    return Finding(
        f"x.{call.name}(axis)=values in {call.place}",
        f"x.{original.name}(dim)=(values, indices) in {original.place}",
        f"x.{call.name}(axis, return_indices=True)",
    )


def _size_method(call: Call, _: Call | None) -> Finding | None:
    if not call.method or call.receiver.startswith("self."):
        return None
    inner = format_value(call.positional[0]) if call.positional and isinstance(call.positional[0], int) else ""
    return Finding(
        f"x.size=the number of elements in {call.place}",
        "x.size()=the shape",
        f"x.shape[{inner}]" if inner else "x.shape",
    )


def _half_pixels(call: Call, original: Call | None) -> Finding | None:
    assert original is not None
    corners = original.argument(("size", "scale_factor", "mode", "align_corners"), "align_corners", None)
    if isinstance(corners, SourceExpression):
        return None
    name = "align_corners" if corners else "half_pixel_centers"
    if call.keywords.get(name) is True or isinstance(call.keywords.get(name), SourceExpression):
        return None
    return Finding(
        f"{call.name}({name}=False) in {call.place}",
        f"{original.name}(align_corners={bool(corners)}) in {original.place}",
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
        lambda call, original: None, absent="ops.stop_gradient(x)",
    ),
    FunctionDifference(
        ("size",), ("size",), "`x.size` is the number of elements; the shape is `x.shape`.", _size_method, alone=True
    ),
)  # fmt: skip
