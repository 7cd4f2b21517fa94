"""Ops of neural networks, where they aren't a layer of their own."""

from __future__ import annotations

from ....runtime.ir.types import INT64
from ..expressions import COMPARISON, PRODUCT, SUM, Expression, call, infix, method
from .table import Cannot, Operation, Several, form

Padding = tuple[tuple[int, int], ...]


@form("linear")
def _(o: Operation) -> Expression:
    bias = [o.x(2).text] if o.given(2) else []
    return call("ops.dense", o.x(0).text, o.x(1).text, *bias)


@form("embedding")
def _(o: Operation) -> Expression:
    found = call("ops.gather", o.x(0).text, o.x(1).text, "0")
    padding = o["padding_index"]
    if padding is None:
        return found
    is_padding = method(infix("==", COMPARISON, o.x(1), Expression(o.literal(padding, "padding_idx"))), "expand_dims", "-1")
    return call("ops.where", is_padding.text, call("ops.stop_gradient", found.text).text, found.text)


@form("scaled_dot_product_attention")
def _(o: Operation) -> Expression:
    o.scope.use("attention")
    dropout = o["dropout"] if o.given(4) else 0.0
    return call(
        "attention",
        *(o.x(i).text for i in range(3)),
        mask=o.optional(3),
        causal="True" if o["causal"] else None,
        scale=None if o["scale"] is None else o.literal(o["scale"], "scale"),
        dropout=o.literal(dropout, "dropout") if dropout else None,
        training="self.training" if dropout else None,
    )


@form("dropout")
def _(o: Operation) -> Expression:
    """Not an op: what `idioms` make of a draw, a division and a product."""
    return call("ops.dropout", o.x().text, p=o.literal(o["p"], "p"), training="self.training")


# ---- activations ----


@form("gelu")
def _(o: Operation) -> Expression:
    return call("ops.gelu", o.x().text, approximate=None if o["approximate"] == "none" else '"tanh"')


@form("leaky_relu")
def _(o: Operation) -> Expression:
    return call("ops.leaky_relu", o.x().text, o.literal(o["negative_slope"], "alpha"))


@form("elu")
def _(o: Operation) -> Expression:
    alpha, scale, input_scale = o["alpha"], o["scale"], o["input_scale"]
    if scale == 1.0 and input_scale == 1.0:
        return elu(o, alpha)
    if scale == 1.0 and input_scale == 1.0 / alpha:
        return call("ops.celu", o.x().text, o.literal(alpha, "alpha"))
    raise Cannot("other scales than those of ELU and CELU")


def elu(o: Operation, alpha: float) -> Expression:
    """ELU; where alpha isn't 1 it is written out, since not every device has it."""
    if alpha == 1.0:
        return call("ops.elu", o.x().text)
    x = o.x()
    below = call("ops.expm1", call("ops.minimum", x.text, "0.0").text)
    above = call("ops.relu", x.text)
    return infix("+", SUM, above, infix("*", PRODUCT, Expression(o.literal(alpha, "alpha")), below))


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


@form("binary_cross_entropy")
def _(o: Operation) -> Expression:
    return call("ops.binary_cross_entropy", o.x(0).text, o.x(1).text, reduction='"none"')


# ---- convolution and pooling ----


def flat_padding(o: Operation, padding: Padding) -> str:
    """Padding before and after each axis: one number if all are the same, else all in the order of the axes."""
    return o.each([size for pair in padding for size in pair], "padding")


def symmetric(padding: Padding) -> list[int]:
    """Padding on both sides of each axis; `Cannot` where the sides differ."""
    if any(before != after for before, after in padding):
        raise Cannot("padding that isn't the same on both sides")
    return [before for before, _ in padding]


@form("conv")
def _(o: Operation) -> Expression:
    padded = any(size for pair in o["padding"] for size in pair)
    return call(
        f"ops.conv{o.type().rank - 2}d",
        o.x(0).text,
        o.x(1).text,
        bias=o.optional(2),
        stride=unless(o, "stride", o["stride"], 1),
        pad_mode='"pad"' if padded else None,
        padding=o.each(symmetric(o["padding"]), "padding") if padded else None,
        dilation=unless(o, "dilation", o["dilation"], 1),
        groups=None if o["groups"] == 1 else o.literal(o["groups"], "groups"),
    )


def unless(o: Operation, name: str, values: tuple[int, ...], default: int) -> str | None:
    """Numbers of each axis, None where all are the default."""
    return None if set(values) == {default} else o.each(values, name)


@form("conv_transpose")
def _(o: Operation) -> Expression:
    return call(
        f"ops.conv_transpose{o.type().rank - 2}d",
        o.x(0).text,
        o.x(1).text,
        bias=o.optional(2),
        stride=unless(o, "stride", o["stride"], 1),
        padding=unless(o, "padding", tuple(symmetric(o["padding"])), 0),
        output_padding=unless(o, "output_padding", o["output_padding"], 0),
        groups=None if o["groups"] == 1 else o.literal(o["groups"], "groups"),
        dilation=unless(o, "dilation", o["dilation"], 1),
    )


@form("max_pool")
def _(o: Operation) -> Several:
    """A pool along one axis is one along two, of which the first has one element."""
    count = o.type().rank - 2
    if count == 1:
        raise Cannot("outside of nn.MaxPool1d")
    found = call(
        f"ops.max_pool{count}d",
        o.x().text,
        o.each(o["kernel"], "kernel_size"),
        stride=o.each(o["stride"], "stride"),
        padding=unless(o, "padding", tuple(symmetric(o["padding"])), 0),
        dilation=unless(o, "dilation", o["dilation"], 1),
        ceil_mode="True" if o["ceil_mode"] else None,
        return_indices="True",
    )
    return Several(found, (None, lambda indices: method(indices, "astype", o.dtype(INT64))))


@form("avg_pool")
def _(o: Operation) -> Expression:
    count = o.type().rank - 2
    return call(
        f"ops.avg_pool{count}d",
        o.x().text,
        o.each(o["kernel"], "kernel_size"),
        stride=o.each(o["stride"], "stride"),
        padding=unless(o, "padding", tuple(symmetric(o["padding"])), 0),
        ceil_mode="True" if o["ceil_mode"] else None,
        count_include_pad=None if o["count_include_pad"] else "False",
        divisor_override=None if o["divisor_override"] is None else o.literal(o["divisor_override"], "divisor"),
    )


@form("adaptive_avg_pool")
def _(o: Operation) -> Expression:
    size = o["output_size"]
    return call(f"ops.adaptive_avg_pool{len(size)}d", o.x().text, _output_size(o))


@form("adaptive_max_pool")
def _(o: Operation) -> Several:
    size = o["output_size"]
    found = call(f"ops.adaptive_max_pool{len(size)}d", o.x().text, _output_size(o), return_indices="True")
    return Several(found, (None, lambda indices: method(indices, "astype", o.dtype(INT64))))


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
    """The mode by its name, which says how many axes there are."""
    if not o["half_pixel"]:
        raise Cannot("sizes that aren't measured between the centres of pixels")
    mode: str = o["mode"]
    if mode in ("bilinear", "linear", "trilinear"):
        return {1: "linear", 2: "bilinear", 3: "trilinear"}[o.type().rank - 2]
    return mode


def resize_size(o: Operation) -> dict[str, str]:
    """The size, or the scale where that was given and isn't the ratio of the sizes."""
    scales, before, after = o["scales"], o.type().shape[2:], o["size"]
    if scales is not None and any(s is not None for s in scales):
        exact = all(s is None or (isinstance(a, int) and isinstance(b, int) and a == b * s)
                    for s, a, b in zip(scales, after, before, strict=True))  # fmt: skip
        if not exact:
            return {"scale_factor": o.scope.literals.hole(str(tuple(float(s) for s in scales)), "scale_factor")}
    return {"size": o.sizes(after)}


# ---- normalization ----


@form("layer_norm")
def _(o: Operation) -> Expression:
    shape = o.type().shape[-o["axes_count"] :]
    return call(
        "ops.layer_norm",
        o.x().text,
        o.sizes(shape, "normalized_shape"),
        weight=o.optional(1),
        bias=o.optional(2),
        eps=o.literal(o["eps"], "eps"),
    )


@form("group_norm")
def _(o: Operation) -> Expression:
    return call(
        "ops.group_norm",
        o.x().text,
        o.literal(o["groups"], "num_groups"),
        weight=o.optional(1),
        bias=o.optional(2),
        eps=o.literal(o["eps"], "eps"),
    )


@form("rms_norm")
def _(o: Operation) -> Expression:
    """Written out: x / sqrt(mean(x^2) + eps) * weight."""
    x = o.x()
    axes = tuple(range(-o["axes_count"], 0))
    axis = "-1" if axes == (-1,) else str(axes)
    mean = method(call("ops.square", x.text), "mean", axis=axis, keep_dims="True")
    normal = infix("*", PRODUCT, x, call("ops.rsqrt", infix("+", SUM, mean, Expression(o.literal(o["eps"], "eps"))).text))
    return infix("*", PRODUCT, normal, o.x(1)) if o.given(1) else normal


@form("batch_norm")
def _(o: Operation) -> Expression:
    """Written out, with statistics that are given: (x - mean) / sqrt(variance + eps) * weight + bias."""
    rank = o.type().rank
    mean, variance, weight, bias = (_per_channel(o, i, rank) for i in (1, 2, 3, 4))
    assert mean is not None
    assert variance is not None
    scale = call("ops.rsqrt", infix("+", SUM, variance, Expression(o.literal(o["eps"], "eps"))).text)
    result = infix("*", PRODUCT, infix("-", SUM, o.x(), mean), scale)
    result = result if weight is None else infix("*", PRODUCT, result, weight)
    return result if bias is None else infix("+", SUM, result, bias)


@form("batch_norm_train")
def _(o: Operation) -> Several:
    o.scope.use("batch_norm")
    eps = o.literal(o["eps"], "eps")
    found = call("batch_norm", o.x().text, weight=o.optional(1), bias=o.optional(2), eps=eps)
    return Several(found, (None, None, None))


def _per_channel(o: Operation, i: int, rank: int) -> Expression | None:
    """A vector of the channels, shaped to stand beside (batch, channels, ...)."""
    if not o.given(i):
        return None
    return method(o.x(i), "reshape", "1", "-1", *["1"] * (rank - 2)) if rank > 2 else o.x(i)
