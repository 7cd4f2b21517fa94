"""Ops of neural networks that aren't a known layer."""

from __future__ import annotations

from ..text.expressions import ATOM, PRODUCT, SUM, Expression, call, infix, method, tuple_literal
from .table import Attributes, MultiOutput, Operation, UnsupportedForm, form

Padding = tuple[tuple[int, int], ...]


@form("linear")
def _(o: Operation) -> Expression:
    bias = [o.x(2).text] if o.has(2) else []
    return call("ops.dense", o.x(0).text, o.x(1).text, *bias)


@form("embedding")
def _(o: Operation) -> Expression:
    padding = o["padding_index"]
    if padding is None:
        return call("ops.gather", o.x(0).text, o.x(1).text, "0")
    o.scope.use("embedding")
    return call("embedding", o.x(0).text, o.x(1).text, o.literal(padding, "padding_idx"))


@form("scaled_dot_product_attention")
def _(o: Operation) -> Expression:
    o.scope.use("attention")
    dropout = o["dropout"]
    return call(
        "attention",
        *(o.x(i).text for i in range(3)),
        mask=o.optional(3),
        causal="True" if o["causal"] else None,
        scale=None if o["scale"] is None else o.literal(o["scale"], "scale"),
        dropout=o.literal(dropout, "dropout") if dropout else None,
        training="self.training" if dropout else None,
    )


@form("attention_weights")
def _(o: Operation) -> Expression:
    o.scope.use("attention_weights")
    return call(
        "attention_weights",
        *(o.x(i).text for i in range(2)),
        mask=o.optional(2),
        causal="True" if o["causal"] else None,
        scale=None if o["scale"] is None else o.literal(o["scale"], "scale"),
    )


@form("dropout")
def _(o: Operation) -> Expression:
    """Not an op of the IR: `merge_idioms` makes this node from a random draw, a division and a product."""
    return call("ops.dropout", o.x().text, p=o.literal(o["p"], "p"), training="self.training")


# ---- activations ----


@form("leaky_relu")
def _(o: Operation) -> Expression:
    return call("ops.leaky_relu", o.x().text, o.literal(o["negative_slope"], "alpha"))


@form("elu")
def _(o: Operation) -> Expression:
    alpha, scale, input_scale = o["alpha"], o["scale"], o["input_scale"]
    if (alpha, scale, input_scale) == (1.0, 1.0, 1.0):
        return call("ops.elu", o.x().text)
    if scale == 1.0 and alpha != 0.0 and input_scale == 1.0 / alpha:
        return call("ops.celu", o.x().text, o.literal(alpha, "alpha"))
    negative = call("ops.minimum", o.x().text, "0.0")
    below = call("ops.expm1", _multiply(o, negative, input_scale, "input_scale").text)
    total = infix("+", SUM, call("ops.relu", o.x().text), _multiply(o, below, alpha, "alpha"))
    return _multiply(o, total, scale, "scale")


def _multiply(o: Operation, x: Expression, factor: float, name: str) -> Expression:
    return x if factor == 1.0 else infix("*", PRODUCT, x, Expression(o.literal(factor, name)))


@form("softplus")
def _(o: Operation) -> Expression:
    beta = None if o["beta"] == 1 else o.literal(o["beta"], "beta")
    threshold = None if o["threshold"] == 20 else o.literal(o["threshold"], "threshold")
    return call("ops.softplus", o.x().text, beta=beta, threshold=threshold)


@form("prelu")
def _(o: Operation) -> Expression:
    return call("ops.prelu", o.x(0).text, o.x(1).text)


@form("softmax", "log_softmax")
def _(o: Operation) -> Expression:
    return call(f"ops.{o.node.op}", o.x().text, axis=o.literal(o["axis"], "axis"))


@form("ctc_loss")
def _(o: Operation) -> Expression:
    operands = (o.x(i).text for i in range(4))
    both = call("ops.ctc_loss", *operands, o.literal(o["blank"], "blank"), '"none"')
    return Expression(f"{both.text}[0]", ATOM)


@form("binary_cross_entropy")
def _(o: Operation) -> Expression:
    return call("ops.binary_cross_entropy", o.x(0).text, o.x(1).text, reduction='"none"')


# ---- convolution and pooling ----


def flat_padding(o: Attributes, padding: Padding) -> str:
    """Padding before and after each axis: one number if all are equal, else all in the order of the axes."""
    return o.each([size for pair in padding for size in pair], "padding")


def symmetric_padding(padding: Padding) -> list[int]:
    """Padding of each axis; `UnsupportedForm` if the two sides differ."""
    if any(before != after for before, after in padding):
        raise UnsupportedForm("asymmetric padding")
    return [before for before, _ in padding]


@form("conv")
def _(o: Operation) -> Expression:
    """Asymmetric padding is a separate op before the convolution."""
    x, padding = o.x(0).text, o["padding"]
    if any(before != after for before, after in padding):
        x = call("ops.pad", x, o.sizes([size for pair in reversed(padding) for size in pair], "padding")).text
        padding = ((0, 0),) * len(padding)
    padded = any(size for pair in padding for size in pair)
    return call(
        f"ops.conv{o.type().rank - 2}d",
        x,
        o.x(1).text,
        bias=o.optional(2),
        stride=o.unless(1, o["stride"], "stride"),
        pad_mode='"pad"' if padded else None,
        padding=o.each(symmetric_padding(padding), "padding") if padded else None,
        dilation=o.unless(1, o["dilation"], "dilation"),
        groups=None if o["groups"] == 1 else o.literal(o["groups"], "groups"),
    )


@form("conv_transpose")
def _(o: Operation) -> Expression:
    if o.scope.target == "mindspore":
        return _conv_transpose_by_conv(o)
    return call(
        f"ops.conv_transpose{o.type().rank - 2}d",
        o.x(0).text,
        o.x(1).text,
        bias=o.optional(2),
        stride=o.unless(1, o["stride"], "stride"),
        padding=o.unless(0, tuple(symmetric_padding(o["padding"])), "padding"),
        output_padding=o.unless(0, o["output_padding"], "output_padding"),
        groups=None if o["groups"] == 1 else o.literal(o["groups"], "groups"),
        dilation=o.unless(1, o["dilation"], "dilation"),
    )


def _conv_transpose_by_conv(o: Operation) -> Expression:
    """Use a helper function: MindSpore lacks kernels of the operator on some devices."""
    if o.type().rank != 4:
        raise UnsupportedForm("in MindSpore along one or three axes")
    o.scope.use("conv_transpose2d")
    sizes = {"stride": o["stride"], "padding": symmetric_padding(o["padding"]), "output_padding": o["output_padding"]}
    return call(
        "conv_transpose2d",
        o.x(0).text,
        o.x(1).text,
        bias=o.optional(2),
        **{name: o.sizes(each, name) for name, each in sizes.items()},
        dilation=o.sizes(o["dilation"], "dilation"),
        groups=o.unless(1, o["groups"], "groups"),
    )


@form("max_pool")
def _(o: Operation) -> MultiOutput:
    """A pool along one axis is written as a pool along two, of which the first has size 1."""
    kernel, stride, dilation = o["kernel"], o["stride"], o["dilation"]
    padding, x = tuple(symmetric_padding(o["padding"])), o.x()
    along_one = len(kernel) == 1
    if along_one:
        kernel, stride, dilation, padding = (1, *kernel), (1, *stride), (1, *dilation), (0, *padding)
        x = method(x, "expand_dims", "2")
    pooled = call(
        f"ops.max_pool{len(kernel)}d",
        x.text,
        o.each(kernel, "kernel_size"),
        stride=o.each(stride, "stride"),
        padding=o.unless(0, padding, "padding"),
        dilation=o.unless(1, dilation, "dilation"),
        ceil_mode="True" if o["ceil_mode"] else None,
        return_indices="True",
    )
    if not along_one:
        return MultiOutput(pooled, (None, _as_int64))
    return MultiOutput(pooled, (_without_axis_2, lambda indices: _as_int64(_without_axis_2(indices))))


def _without_axis_2(x: Expression) -> Expression:
    return method(x, "squeeze", "2")


def _as_int64(indices: Expression) -> Expression:
    return method(indices, "astype", "ms.int64")


@form("avg_pool")
def _(o: Operation) -> Expression:
    count = o.type().rank - 2
    return call(
        f"ops.avg_pool{count}d",
        o.x().text,
        o.each(o["kernel"], "kernel_size"),
        stride=o.each(o["stride"], "stride"),
        padding=o.unless(0, tuple(symmetric_padding(o["padding"])), "padding"),
        ceil_mode="True" if o["ceil_mode"] else None,
        count_include_pad=None if o["count_include_pad"] else "False",
        divisor_override=None if o["divisor_override"] is None else o.literal(o["divisor_override"], "divisor"),
    )


@form("adaptive_avg_pool")
def _(o: Operation) -> Expression:
    size = o["output_size"]
    return call(f"ops.adaptive_avg_pool{len(size)}d", o.x().text, _output_size(o))


@form("adaptive_max_pool")
def _(o: Operation) -> MultiOutput:
    size = o["output_size"]
    if len(size) == 1:  # as a pool along two axes, which returns indices
        x, sizes = method(o.x(), "expand_dims", "2"), tuple_literal(["1", o.size(size[0], "output_size")])
        pooled = call("ops.adaptive_max_pool2d", x.text, sizes, return_indices="True")
        return MultiOutput(pooled, (_without_axis_2, lambda indices: _as_int64(_without_axis_2(indices))))
    pooled = call(f"ops.adaptive_max_pool{len(size)}d", o.x().text, _output_size(o), return_indices="True")
    return MultiOutput(pooled, (None, _as_int64))


def _output_size(o: Operation) -> str:
    size = o["output_size"]
    return o.size(size[0], "output_size") if len(size) == 1 else o.sizes(size, "output_size")


@form("resize")
def _(o: Operation) -> Expression:
    """Interpolation."""
    mode = resize_mode(o)
    corners = ("True" if o["align_corners"] else "False") if mode not in ("nearest", "nearest-exact") else None
    return call("ops.interpolate", o.x().text, **resize_size(o), mode=f'"{mode}"', align_corners=corners)


def resize_mode(o: Operation) -> str:
    """The name of the mode, which includes the number of axes."""
    if not o["half_pixel"]:
        raise UnsupportedForm("coordinates that aren't those of pixel centres")
    mode: str = o["mode"]
    if mode in ("bilinear", "linear", "trilinear"):
        return {1: "linear", 2: "bilinear", 3: "trilinear"}[o.type().rank - 2]
    return mode


def resize_size(o: Operation) -> dict[str, str]:
    """The size, or the scale if it was given and isn't the ratio of the sizes."""
    scales, before, after = o["scales"], o.type().shape[2:], o["size"]
    if scales is not None and any(s is not None for s in scales):
        exact = all(s is None or (isinstance(a, int) and isinstance(b, int) and a == b * s)
                    for s, a, b in zip(scales, after, before, strict=True))  # fmt: skip
        if not exact:
            return {"scale_factor": o.literals.hole(str(tuple(float(s) for s in scales)), "scale_factor")}
    return {"size": o.sizes(after)}
