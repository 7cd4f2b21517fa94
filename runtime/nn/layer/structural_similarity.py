"""Structural similarity of images, at one scale and at several scales."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import checks
from ...common.dtype import float32
from ...common.tensor import Tensor
from ...functional.joining import stack
from ...functional.losses import comparable_pair
from ...functional.pooling import avg_pool2d
from ...ops import elementwise, rectifier, shaping
from ...ops.products import reduce_prod
from ...ops.reduction import reduce_mean
from ..cell import Cell
from .container import CellList
from .conv import Conv2d


class _Similarity(Cell):
    """The common part: the window, its constants, and the similarity at one scale."""

    def __init__(self, max_val: float, filter_size: int, filter_sigma: float, k1: float, k2: float) -> None:
        super().__init__()
        of = self.cls_name
        self.max_val = checks.in_range(max_val, "max_val", "(0, inf)", of=of)
        self.filter_size = checks.positive_int(filter_size, "filter_size", of=of)
        self.filter_sigma = checks.in_range(filter_sigma, "filter_sigma", "(0, inf)", of=of)
        self.k1 = checks.of_type(k1, "k1", float, of=of)
        self.k2 = checks.of_type(k2, "k2", float, of=of)

    def _window(self) -> Conv2d:
        """Return an untrained convolution of one channel with a Gaussian."""
        places = np.arange(-self.filter_size // 2 + 1, self.filter_size // 2 + 1)
        squares = (places[:, None] ** 2 + places[None, :] ** 2).astype(np.float32)
        gaussian = np.exp(-squares / (2 * self.filter_sigma**2))
        weight = Tensor((gaussian / gaussian.sum()).astype(np.float32)[None, None])
        conv = Conv2d(1, 1, self.filter_size, pad_mode="valid", weight_init=weight)
        conv.weight.requires_grad = False
        return conv

    def _images(self, img1: Any, img2: Any) -> tuple[Any, Any, float]:
        """Return both images in float32, and their largest value; integers are divided by the maximum of the dtype."""
        of = self.cls_name
        dtype = getattr(img1, "dtype", float32)
        most = float(np.iinfo(dtype).max) if dtype.kind in "iu" else 1.0
        a, b = comparable_pair(img1, img2, ("img1", "img2"), of=of)
        if a.ndim != 4 or min(a.shape[2:]) < self.filter_size:
            raise ValueError(
                f"For '{of}', 'img1' must be (N, C, H, W), height and width at least 'filter_size' "
                f"{self.filter_size}, but got {tuple(a.shape)}"
            )
        a, b = (x if x.dtype == float32 else elementwise.cast(x, dtype=float32) for x in (a, b))
        return (a, b, self.max_val) if most == 1.0 else (a / most, b / most, self.max_val / most)

    def _compare(self, a: Any, b: Any, max_val: float, window: Any) -> tuple[Any, Any]:
        """Return the means over each channel (N, C) of the similarity, and of its part without luminance."""
        batch, channels, *spatial = a.shape
        c1, c2 = (self.k1 * max_val) ** 2, (self.k2 * max_val) ** 2
        a, b = (shaping.reshape(x, shape=(batch * channels, 1, *spatial)) for x in (a, b))
        mean_a, mean_b = window(a), window(b)
        variances = window(a * a) - mean_a * mean_a + window(b * b) - mean_b * mean_b
        covariance = window(a * b) - mean_a * mean_b
        structure = (covariance * 2.0 + c2) / (variances + c2)
        brightness = (mean_a * mean_b * 2.0 + c1) / (mean_a * mean_a + mean_b * mean_b + c1)
        values = (reduce_mean(x, axes=(1, 2, 3)) for x in (brightness * structure, structure))
        whole, part = (shaping.reshape(x, shape=(batch, channels)) for x in values)
        return whole, part

    def extend_repr(self) -> str:
        """The arguments."""
        names = ("max_val", "filter_size", "filter_sigma", "k1", "k2")
        return ", ".join(f"{name}={getattr(self, name)}" for name in names)


class SSIM(_Similarity):
    """Structural similarity of two images (Wang et al. 2004), 1 if they are equal.

    With means, variances and covariance under a Gaussian window, C1 = (k1 * max_val)^2 and C2 = (k2 * max_val)^2:

        (2 mean_a mean_b + C1) (2 covariance + C2) / ((mean_a^2 + mean_b^2 + C1) (variance_a + variance_b + C2))

    Args:
        max_val: the largest value that a pixel can have, above 0.
        filter_size: size of the window.
        filter_sigma: standard deviation of the Gaussian, above 0.
        k1: keeps the quotient of the means finite.
        k2: keeps the quotient of the variances finite.

    Raises:
        TypeError: an argument has the wrong type; in a call, the dtypes differ.
        ValueError: an argument is out of range; in a call, the shapes differ, or an image is smaller than the window.
    """

    def __init__(
        self, max_val: float = 1.0, filter_size: int = 11, filter_sigma: float = 1.5, k1: float = 0.01, k2: float = 0.03
    ) -> None:
        super().__init__(max_val, filter_size, filter_sigma, k1, k2)
        self.conv = self._window()

    def construct(self, img1: Any, img2: Any) -> Any:
        """Two images (N, C, H, W); returns (N,), float32."""
        a, b, max_val = self._images(img1, img2)
        return reduce_mean(self._compare(a, b, max_val, self.conv)[0], axes=(1,))


class MSSSIM(_Similarity):
    """Structural similarity at several scales (Wang et al. 2003): the product of its powers over the scales.

    Each scale is half the previous one; the luminance counts only at the last one.

    Args:
        max_val: see `SSIM`, also for the other arguments.
        power_factors: the exponents, one for each scale.
        filter_size: size of the window.
        filter_sigma: standard deviation of the Gaussian.
        k1: keeps the quotient of the means finite.
        k2: keeps the quotient of the variances finite.

    Errors are those of `SSIM`; images must be as large as the window at every scale.
    """

    def __init__(
        self, max_val: float = 1.0, power_factors: Any = (0.0448, 0.2856, 0.3001, 0.2363, 0.1333),
        filter_size: int = 11, filter_sigma: float = 1.5, k1: float = 0.01, k2: float = 0.03,
    ) -> None:  # fmt: skip
        super().__init__(max_val, filter_size, filter_sigma, k1, k2)
        self.power_factors = checks.of_type(power_factors, "power_factors", (tuple, list), of=self.cls_name)
        self.multi_convs_list = CellList([self._window() for _ in power_factors])

    def construct(self, img1: Any, img2: Any) -> Any:
        """Two images (N, C, H, W); returns (N,), float32."""
        a, b, max_val = self._images(img1, img2)
        values = []
        for scale, window in enumerate(self.multi_convs_list):
            if scale:
                a, b = avg_pool2d(a, 2, 2), avg_pool2d(b, 2, 2)
            whole, part = self._compare(a, b, max_val, window)
            values.append(rectifier.relu(whole if scale == len(self.power_factors) - 1 else part))
        powers = stack(values, -1) ** Tensor(np.asarray(self.power_factors, np.float32))
        return reduce_mean(reduce_prod(powers, axes=(2,)), axes=(1,))
