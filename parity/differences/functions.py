"""The table: functions and methods, as blocks of the user's call them in `construct` and `forward`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from .calls import Call, Expression, code_of
from .entry import Finding, Pair
from .reading import code, same, shown

Side = tuple[str, tuple[str, ...], Any]


@dataclass(frozen=True)
class FunctionDifference:
    """An entry of the table about a function.

    Attributes:
        names: of the function, method or operator object here.
        originals: of torch's.
        rule: how they correspond, for the documentation.
        compare: what differs in a call here and the call there that it stands for; None if nothing does.
        alone: whether a call here is wrong whatever there is called there.
        absent: what to write where torch's block calls it and the Cell nothing of `names`; empty where that is right.
    """

    names: tuple[str, ...]
    originals: tuple[str, ...]
    rule: str
    compare: Callable[[Call, Call | None], Finding | None]
    alone: bool = False
    absent: str = ""

    def find(self, pair: Pair) -> Iterator[Finding]:
        """What differs in the calls of a block and of its original."""
        here = [call for call in code_of(pair.cell, "construct") if call.name in self.names]
        if self.alone:
            yield from (found for call in here if (found := self.compare(call, None)))
            return
        there = [call for call in code_of(pair.module, "forward") if call.name in self.originals]
        if self.absent and there and not here:
            place = f"{there[0].name}() in {there[0].place}"
            yield Finding(f"{self.names[0]}=nowhere", place, self.absent)
        if len(here) == len(there):  # in the order of the source
            yield from (found for a, b in zip(here, there, strict=True) if (found := self.compare(a, b)))


def _argument(
    names: tuple[str, ...],
    originals: tuple[str, ...],
    rule: str,
    here: Side,
    there: Side,
    needed: Callable[[Any], Any] = lambda value: value,
) -> FunctionDifference:
    """An entry about an argument: for each side, its name, the parameters behind the tensor, and its default.

    A default may be a function of the call.
    """

    def value(call: Call, side: Side) -> Any:
        name, parameters, default = side
        return call.argument(parameters, name, default(call) if callable(default) else default)

    def compare(ours: Call, theirs: Call | None) -> Finding | None:
        assert theirs is not None
        given, wanted = value(ours, here), value(theirs, there)
        if any(isinstance(one, Expression) or one is None for one in (given, wanted)):
            return None
        right = needed(wanted)
        if right is None or same(given, right):
            return None
        return Finding(
            f"{ours.name}({here[0]}={shown(given)}) in {ours.place}",
            f"{theirs.name}({there[0]}={shown(wanted)}) in {theirs.place}",
            f"{here[0]}={code(right)}",
        )

    return FunctionDifference(names, originals, rule, compare)


def _unbiased(call: Call) -> Any:
    """The correction that `unbiased` stands for, by default 1."""
    found = call.argument(("dim", "unbiased"), "unbiased", True)
    return int(found) if isinstance(found, bool) else found


def _training(ours: Call, theirs: Call | None) -> Finding | None:
    """Functional dropout that drops in eval mode too."""
    assert theirs is not None
    parameters = ("p", "training")
    given, wanted = ours.argument(parameters, "training", True), theirs.argument(parameters, "training", True)
    if given is not True or not isinstance(wanted, Expression) or wanted.text != "self.training":
        return None
    return Finding(
        f"{ours.name}(training=True) in {ours.place}",
        f"{theirs.name}(training=self.training) in {theirs.place}",
        "training=self.training",
    )


def _same_end(ours: Call, theirs: Call | None) -> Finding | None:
    """Axes of softmax, where both are counted from the same end."""
    assert theirs is not None
    given, wanted = ours.argument(("axis",), "axis", -1), theirs.argument(("dim",), "dim", None)
    if not isinstance(given, int) or not isinstance(wanted, int) or given == wanted or (given < 0) != (wanted < 0):
        return None
    return Finding(
        f"{ours.name}(axis={given}) in {ours.place}",
        f"{theirs.name}(dim={wanted}) in {theirs.place}",
        f"axis={wanted}",
    )


def _stride_of_mean(ours: Call, theirs: Call | None) -> Finding | None:
    assert theirs is not None
    parameters = ("kernel_size", "stride")
    given = ours.argument(parameters, "stride", 1)
    kernel = theirs.argument(parameters, "kernel_size", None)
    wanted = theirs.argument(parameters, "stride", None)
    wanted = kernel if wanted is None else wanted
    if any(isinstance(one, Expression) or one is None for one in (given, wanted)) or given == wanted:
        return None
    return Finding(
        f"{ours.name}(stride={given}) in {ours.place}",
        f"{theirs.name}(stride={wanted}) in {theirs.place}",
        f"stride={wanted}",
    )


def _values_alone(ours: Call, theirs: Call | None) -> Finding | None:
    """The method gives values; with an axis, torch's gives indices too."""
    assert theirs is not None
    pair = "return_indices" in ours.keywords or "dim" in ours.keywords
    if not ours.method or pair or not ours.unpacked or not theirs.unpacked or not (ours.positional or ours.keywords):
        return None
    return Finding(
        f"x.{ours.name}(axis)=values in {ours.place}",
        f"x.{theirs.name}(dim)=(values, indices) in {theirs.place}",
        f"x.{ours.name}(axis, return_indices=True)",
    )


def _size_called(ours: Call, _: Call | None) -> Finding | None:
    if not ours.method or ours.receiver.startswith("self."):
        return None
    inner = shown(ours.positional[0]) if ours.positional and isinstance(ours.positional[0], int) else ""
    return Finding(
        f"x.size=the number of elements in {ours.place}",
        "x.size()=the shape",
        f"x.shape[{inner}]" if inner else "x.shape",
    )


def _half_pixels(ours: Call, theirs: Call | None) -> Finding | None:
    assert theirs is not None
    corners = theirs.argument(("size", "scale_factor", "mode", "align_corners"), "align_corners", None)
    if isinstance(corners, Expression):
        return None
    name = "align_corners" if corners else "half_pixel_centers"
    if ours.keywords.get(name) is True or isinstance(ours.keywords.get(name), Expression):
        return None
    return Finding(
        f"{ours.name}({name}=False) in {ours.place}",
        f"{theirs.name}(align_corners={bool(corners)}) in {theirs.place}",
        f"{name}=True",
    )


FUNCTIONS = (
    _argument(
        ("std", "var", "std_mean", "var_mean"), ("std", "var", "std_mean", "var_mean"),
        "By default divided by n here (`ddof=0`), by n - 1 in torch.",
        ("ddof", ("axis", "ddof"), lambda call: call.keywords.get("correction", 0)), ("correction", (), _unbiased),
    ),
    _argument(
        ("gelu", "GeLU"), ("gelu",), "`ops.gelu` is exact by default, as torch's; the object `ops.GeLU()` is tanh's.",
        ("approximate", ("approximate",), lambda call: "tanh" if call.name == "GeLU" else "none"),
        ("approximate", ("approximate",), "none"),
    ),
    _argument(
        ("leaky_relu",), ("leaky_relu",), "Another default: 0.2 here, 0.01 in torch.",
        ("alpha", ("alpha",), 0.2), ("negative_slope", ("negative_slope",), 0.01),
    ),
    FunctionDifference(("softmax", "log_softmax", "Softmax", "LogSoftmax"), ("softmax", "log_softmax"),
        "`axis=-1` by default; torch wants `dim`.", _same_end),
    _argument(
        ("smooth_l1_loss",), ("smooth_l1_loss",), "'none' by default, in torch 'mean'.",
        ("reduction", ("target", "beta", "reduction"), "none"),
        ("reduction", ("target", "size_average", "reduce", "reduction", "beta"), "mean"),
    ),
    FunctionDifference(
        ("avg_pool1d", "avg_pool2d", "avg_pool3d"), ("avg_pool1d", "avg_pool2d", "avg_pool3d"),
        "`stride=1` by default, in torch `kernel_size`. (`ops.max_pool2d` is as torch's.)", _stride_of_mean,
    ),
    _argument(
        ("dropout",), ("dropout",), "p is the probability to be dropped, unlike the first argument of nn.Dropout.",
        ("p", ("p", "training"), 0.5), ("p", ("p", "training"), 0.5),
    ),
    FunctionDifference(
        ("dropout",), ("dropout",), "It drops by default; write `training=self.training`, as in torch.", _training
    ),
    _argument(
        ("Dropout",), ("dropout",), "The operator object takes the probability to be kept, and gives the mask too.",
        ("keep_prob", (), 0.5), ("p", ("p", "training"), 0.5), needed=lambda p: 1 - p,
    ),
    _argument(
        ("LayerNorm",), ("layer_norm",), "The operator object has 1e-7; `ops.layer_norm` 1e-5, as torch's.",
        ("epsilon", (), 1e-7), ("eps", ("normalized_shape", "weight", "bias", "eps"), 1e-5),
    ),
    _argument(
        ("flatten",), ("flatten",), "The function starts at axis 1 by default, torch's at 0; the methods at 0 both.",
        ("start_dim", (), lambda call: 0 if call.method else 1), ("start_dim", ("start_dim",), 0),
    ),
    FunctionDifference(
        ("ResizeBilinearV2",), ("interpolate", "upsample"),
        "The operator object takes positions as `index * scale` by default; torch has half-pixel centres.",
        _half_pixels,
    ),
    FunctionDifference(
        ("max", "min"), ("max", "min"),
        "`x.max(axis)` gives values only; `ops.max(x, axis)` values and indices, as torch's.", _values_alone,
    ),
    FunctionDifference(
        ("stop_gradient", "asnumpy"), ("detach",), "A tensor has no method for it: `ops.stop_gradient(x)`.",
        lambda ours, theirs: None, absent="ops.stop_gradient(x)",
    ),
    FunctionDifference(
        ("size",), ("size",), "`x.size` is the number of elements; the shape is `x.shape`.", _size_called, alone=True
    ),
)  # fmt: skip
