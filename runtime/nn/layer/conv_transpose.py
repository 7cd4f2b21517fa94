"""Transposed convolution layers."""

from __future__ import annotations

from typing import Any

from ... import checks
from ...common.dtype import float32
from ...functional.convolution import check_output_padding, convolve_transposed
from ...ops.windows import window_span
from .conv import ConvBase


class _ConvTranspose(ConvBase):
    """The common part of the transposed convolution layers."""

    transposes = True

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any, pad_mode: str, padding: Any,
        output_padding: Any, dilation: Any, group: int, has_bias: bool, weight_init: Any, bias_init: Any, dtype: Any,
    ) -> None:  # fmt: skip
        super().__init__(
            in_channels, out_channels, kernel_size, stride, pad_mode, padding, dilation, group, has_bias, weight_init,
            bias_init, dtype,
        )  # fmt: skip
        self.output_padding = output_padding
        extra = check_output_padding(output_padding, self.stride, self.dilation, of=self.cls_name)
        if any(extra) and pad_mode != "pad":
            raise ValueError(
                f"For '{self.cls_name}', 'output_padding' must be 0 unless 'pad_mode' is 'pad', but got "
                f"{output_padding} with {pad_mode!r}"
            )
        spans = [window_span(k, d) for k, d in zip(self.kernel_size, self.dilation, strict=True)]
        if pad_mode != "pad":  # at least `stride` output elements for each input element
            extra = tuple(max(s - span, 0) for span, s in zip(spans, self.stride, strict=True))
        if pad_mode == "same":  # exactly `stride` elements: crop the padding of a "same" convolution
            totals = [max(span - s, 0) for span, s in zip(spans, self.stride, strict=True)]
            self._padding = tuple((total // 2, total - total // 2) for total in totals)
        self._output_padding = extra

    def construct(self, x: Any) -> Any:
        """(N, in_channels, *spatial), of the dtype of the weight; returns (N, out_channels, *spatial)."""
        return convolve_transposed(
            x, self._kernel(), self.bias, stride=self.stride, padding=self._padding,
            output_padding=self._output_padding, dilation=self.dilation, groups=self.group, of=self.cls_name,
        )  # fmt: skip


class Conv2dTranspose(_ConvTranspose):
    """Transposed convolution of an image (Zeiler et al. 2010): the gradient of `Conv2d` with respect to its input.

    Args:
        in_channels: channels of the input.
        out_channels: channels of the output.
        kernel_size: height and width of the kernel, an int for both or a tuple.
        stride: the step between windows in the output, an int or one for each axis.
        pad_mode: "same": `stride` output elements for each input element. "valid": nothing is cropped. "pad": `padding`
            is cropped.
        padding: an int or (top, bottom, left, right); 0 unless `pad_mode` is "pad".
        output_padding: elements of output added at the bottom and on the right, an int or one for each axis; 0 unless
            `pad_mode` is "pad", and below the stride or the dilation.
        dilation: the step between the elements of a window, an int or one for each axis.
        group: the number of independent groups of channels.
        has_bias: whether there is a bias; not by default.
        weight_init: see `Conv2d`. The weight is (in_channels, out_channels / group, *kernel_size).
        bias_init: see `Conv2d`.
        dtype: dtype of the Parameters.

    Inputs:
        x: (N, in_channels, H, W), of the dtype of the weight.

    Outputs:
        (N, out_channels, H_out, W_out); along an axis of `size`, with `span = dilation * (kernel_size - 1) + 1`:
        `size * stride` with "same", `size * stride + max(span - stride, 0)` with "valid", else
        `(size - 1) * stride + span - before - after + output_padding`.

    Raises:
        TypeError: an argument has the wrong type; in a call, the dtype of `x` isn't that of the weight.
        ValueError: an argument is out of range, see `Conv2d`.
    """

    axes = 2

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1, pad_mode: str = "same",
        padding: Any = 0, output_padding: Any = 0, dilation: Any = 1, group: int = 1, has_bias: bool = False,
        weight_init: Any = None, bias_init: Any = None, dtype: Any = float32,
    ) -> None:  # fmt: skip
        super().__init__(
            in_channels, out_channels, kernel_size, stride, pad_mode, padding, output_padding, dilation, group,
            has_bias, weight_init, bias_init, dtype,
        )  # fmt: skip


class Conv1dTranspose(_ConvTranspose):
    """Transposed convolution of a sequence.

    Arguments, defaults and errors are those of `Conv2dTranspose`, except that sizes and padding are ints and that there
    is no `output_padding`. The weight is (in_channels, out_channels / group, 1, kernel_size).

    Inputs:
        x: (N, in_channels, L).

    Outputs:
        (N, out_channels, L_out).
    """

    axes = 1

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: int, stride: int = 1, pad_mode: str = "same",
        padding: int = 0, dilation: int = 1, group: int = 1, has_bias: bool = False, weight_init: Any = None,
        bias_init: Any = None, dtype: Any = float32,
    ) -> None:  # fmt: skip
        checks.of_type(padding, "padding", int, of=self.cls_name)
        super().__init__(
            in_channels, out_channels, kernel_size, stride, pad_mode, padding, 0, dilation, group, has_bias,
            weight_init, bias_init, dtype,
        )  # fmt: skip


class Conv3dTranspose(_ConvTranspose):
    """Transposed convolution of a volume.

    Arguments, defaults and errors are those of `Conv2dTranspose`, with three axes instead of two and `output_padding`
    after `group`; `padding` is an int or (front, back, top, bottom, left, right).

    Inputs:
        x: (N, in_channels, D, H, W).

    Outputs:
        (N, out_channels, D_out, H_out, W_out).
    """

    axes = 3

    def __init__(
        self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1, pad_mode: str = "same",
        padding: Any = 0, dilation: Any = 1, group: int = 1, output_padding: Any = 0, has_bias: bool = False,
        weight_init: Any = None, bias_init: Any = None, data_format: str = "NCDHW", dtype: Any = float32,
    ) -> None:  # fmt: skip
        super().__init__(
            in_channels, out_channels, kernel_size, stride, pad_mode, padding, output_padding, dilation, group,
            has_bias, weight_init, bias_init, dtype,
        )  # fmt: skip
        checks.one_of(data_format, "data_format", ("NCDHW",), of=self.cls_name)
