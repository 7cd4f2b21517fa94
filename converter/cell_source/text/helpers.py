"""Helper functions of a generated source, for ops without a single operator."""

from __future__ import annotations

from collections.abc import Iterable

from .recurrent_helpers import RECURRENT

HELPERS = {
    "attention": '''def attention(query, key, value, mask=None, causal=False, scale=None, dropout=0.0, training=False):
    """dropout(softmax(query @ key^T * scale + mask)) @ value."""
    weights = attention_weights(query, key, mask, causal, scale)
    if training and dropout:
        weights = ops.dropout(weights, p=dropout)
    return ops.matmul(weights, value)''',
    "attention_weights": '''def attention_weights(query, key, mask=None, causal=False, scale=None):
    """softmax(query @ key^T * scale + mask); a query that may attend to nothing has weights 0."""
    scores = ops.matmul(query, key.swapaxes(-2, -1)) * (scale or query.shape[-1] ** -0.5)
    allowed = None
    if mask is not None and mask.dtype == ms.bool_:
        allowed = mask
    elif mask is not None:
        scores = scores + mask
        allowed = mask != float("-inf")
    if causal:
        lower = ops.tril(ops.ones((query.shape[-2], key.shape[-2]), ms.int32)) != 0
        allowed = lower if allowed is None else ops.logical_and(allowed, lower)
    if allowed is None:
        return ops.softmax(scores, axis=-1)
    scores = ops.where(allowed, scores, -6e4 if scores.dtype == ms.float16 else -1e30)
    return ops.softmax(scores, axis=-1) * allowed.any(axis=-1, keep_dims=True)''',
    "batch_norm": '''def batch_norm(x, weight=None, bias=None, eps=1e-05):
    """Normalized over all axes but the second, by statistics that are returned, too."""
    axes = (0, *range(2, x.ndim))
    shape = (1, -1, *(1 for _ in axes[1:]))
    mean = x.mean(axis=axes)
    variance = ops.square(x - mean.reshape(shape)).mean(axis=axes)
    y = (x - mean.reshape(shape)) * ops.rsqrt(variance + eps).reshape(shape)
    y = y if weight is None else y * weight.reshape(shape)
    return (y if bias is None else y + bias.reshape(shape)), mean, variance''',
    "conv_transpose2d": '''def conv_transpose2d(
    x, weight, bias=None, *, stride, padding, output_padding, dilation, groups=1
):
    """A convolution with the kernel turned around, of x with zeros between its elements."""
    around = []
    for axis in (3, 2):
        zeros = [ops.zeros_like(x.expand_dims(axis + 1))] * (stride[axis - 2] - 1)
        spread = ops.cat((x.expand_dims(axis + 1), *zeros), axis=axis + 1)
        x = spread.flatten(start_dim=axis, end_dim=axis + 1)
        reach = dilation[axis - 2] * (weight.shape[axis] - 1) - padding[axis - 2]
        around += [reach, reach + output_padding[axis - 2] - stride[axis - 2] + 1]
    x = ops.pad(x, [max(size, 0) for size in around])
    left, right, top, bottom = (max(-size, 0) for size in around)
    x = x[:, :, top : x.shape[2] - bottom, left : x.shape[3] - right]
    kernels = ops.flip(weight, (2, 3)).reshape(groups, -1, *weight.shape[1:]).swapaxes(1, 2)
    kernels = kernels.flatten(start_dim=0, end_dim=1)
    return ops.conv2d(x, kernels, bias=bias, dilation=dilation, groups=groups)''',
    "embedding": '''def embedding(weight, indices, padding_idx):
    """Rows of the weight; that of the padding gets no gradient."""
    rows = ops.gather(weight, indices, 0)
    return ops.where((indices == padding_idx).expand_dims(-1), ops.stop_gradient(rows), rows)''',
    "layer_norm": '''def layer_norm(x, axes, weight=None, bias=None, eps=1e-05):
    """Normalized by statistics over some axes."""
    y = standardize(x, axes, eps)[0]
    y = y if weight is None else y * weight
    return y if bias is None else y + bias''',
    "roll": '''def roll(x, shift, axis):
    """Elements moved along an axis; those that leave at its end come in at its start."""
    size = x.shape[axis]
    indices = ops.cat((ops.arange(size - shift, size), ops.arange(size - shift)))
    return ops.gather(x, indices, axis)''',
    "scatter": '''def scatter(x, indices, updates, axis, how):
    """Updates go where the indices say along an axis, and where they stand along the others."""
    places = []
    for i, size in enumerate(indices.shape):
        shape = [size if i == k else 1 for k in range(indices.ndim)]
        place = indices if i == axis else ops.arange(size).reshape(shape).broadcast_to(indices.shape)
        places.append(place.astype(ms.int64))
    return how(x, ops.stack(places, axis=-1), updates)''',
    "standardize": '''def standardize(x, axes, eps):
    """(x - mean) * r and r = 1 / sqrt(variance + eps), with statistics over some axes."""
    centred = x - x.mean(axis=axes, keep_dims=True)
    r = ops.rsqrt(ops.square(centred).mean(axis=axes, keep_dims=True) + eps)
    return centred * r, r''',
    **RECURRENT,
}
"""The helper functions by name; a source contains those that it uses."""


def with_dependencies(names: Iterable[str]) -> list[str]:
    """The names, with those of the helpers that they call, sorted."""
    needed = set(names)
    for name in names:
        needed |= {other for other in HELPERS if f"{other}(" in HELPERS[name]}
    return sorted(needed)
