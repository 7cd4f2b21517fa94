"""Batch normalization layers. See `normalization` for the other ones."""

from __future__ import annotations

from typing import Any

from ... import checks
from ...common.dtype import float32
from ...common.initializer import initialize_argument
from ...common.parameter import Parameter
from ...common.tensor import Tensor
from ...functional.normalization import batch_norm
from ...ops import shaping
from ..cell import Cell


class _BatchNorm(Cell):
    """The common part of the batch normalization layers."""

    ranks: tuple[int, ...]

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float = 0.9, affine: bool = True,
        gamma_init: Any = "ones", beta_init: Any = "zeros", moving_mean_init: Any = "zeros",
        moving_var_init: Any = "ones", use_batch_statistics: bool | None = None, data_format: str = "NCHW",
        dtype: Any = float32,
    ) -> None:  # fmt: skip
        super().__init__()
        of = self.cls_name
        self.num_features = checks.positive_int(num_features, "num_features", of=of)
        self.eps = checks.of_type(eps, "eps", (float, int), of=of)
        self.momentum = checks.in_range(momentum, "momentum", "[0, 1]", of=of)
        checks.of_type(affine, "affine", bool, of=of)
        checks.one_of(use_batch_statistics, "use_batch_statistics", (None, True, False), of=of)
        checks.one_of(data_format, "data_format", ("NCHW",), of=of)
        self.use_batch_statistics = use_batch_statistics

        def initial(init: Any, argument: str) -> Tensor:
            return initialize_argument(init, (num_features,), dtype, argument, of=of)

        self.moving_mean = Parameter(initial(moving_mean_init, "moving_mean_init"), "mean", requires_grad=False)
        self.moving_variance = Parameter(initial(moving_var_init, "moving_var_init"), "variance", requires_grad=False)
        self.moving_mean._is_buffer = self.moving_variance._is_buffer = True
        self.gamma = Parameter(initial(gamma_init, "gamma_init"), name="gamma", requires_grad=affine)
        self.beta = Parameter(initial(beta_init, "beta_init"), name="beta", requires_grad=affine)

    def construct(self, x: Any) -> Any:
        """(N, num_features, ...), floating-point; returns the same shape."""
        check_rank(x, self.ranks, of=self.cls_name)
        in_batch_mode = self.training if self.use_batch_statistics is None else self.use_batch_statistics
        return batch_norm(
            x, self.moving_mean, self.moving_variance, self.gamma, self.beta, in_batch_mode, 1.0 - self.momentum,
            self.eps,
        )  # fmt: skip

    def extend_repr(self) -> str:
        """Channels, eps and momentum."""
        return f"num_features={self.num_features}, eps={self.eps}, momentum={self.momentum}"


class BatchNorm2d(_BatchNorm):
    """Normalizes each channel to mean 0 and variance 1, then scales and shifts it (Ioffe and Szegedy 2015).

        y = (x - mean) / sqrt(variance + eps) * gamma + beta

    In training, mean and (biased) variance are those of the batch, and the moving statistics are updated:

        moving = momentum * moving + (1 - momentum) * batch statistic, with the unbiased variance

    Otherwise they are the moving statistics. In half precision, statistics and Parameters stay in float32.

    Args:
        num_features: number of channels.
        eps: added to the variance.
        momentum: the factor of the OLD moving statistic, in [0, 1]; in other frameworks it is that of the new one.
        affine: whether gamma and beta are trained.
        gamma_init: an initializer (see `common.initializer.initializer`), as are the following.
        beta_init: likewise.
        moving_mean_init: likewise.
        moving_var_init: likewise.
        use_batch_statistics: whether to use the statistics of the batch. None: only in training.
        data_format: "NCHW".
        dtype: dtype of the Parameters.

    Inputs:
        x: (N, num_features, H, W), floating-point.

    Outputs:
        The same shape and dtype.

    Raises:
        TypeError: an argument has a wrong type.
        ValueError: an argument is out of range; in a call, the input has other dimensions or another number of
            channels, or a batch in training has only one element per channel.
    """

    ranks = (4,)


class BatchNorm1d(_BatchNorm):
    """Batch normalization of (N, num_features) or (N, num_features, L); see `BatchNorm2d`."""

    ranks = (2, 3)


class BatchNorm3d(Cell):
    """Batch normalization of (N, num_features, D, H, W); see `BatchNorm2d`, its child `bn2d`."""

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float = 0.9, affine: bool = True,
        gamma_init: Any = "ones", beta_init: Any = "zeros", moving_mean_init: Any = "zeros",
        moving_var_init: Any = "ones", use_batch_statistics: bool | None = None, dtype: Any = float32,
    ) -> None:  # fmt: skip
        super().__init__()
        self.bn2d = BatchNorm2d(
            num_features, eps, momentum, affine, gamma_init, beta_init, moving_mean_init, moving_var_init,
            use_batch_statistics, dtype=dtype,
        )  # fmt: skip

    def construct(self, x: Any) -> Any:
        """(N, num_features, D, H, W), floating-point; returns the same shape."""
        check_rank(x, (5,), of=self.cls_name)
        batch, channels, depth, height, width = x.shape
        planes = shaping.reshape(x, shape=(batch, channels, depth * height, width))
        return shaping.reshape(self.bn2d(planes), shape=tuple(x.shape))


class SyncBatchNorm(_BatchNorm):
    """Batch normalization over all processes. There is only one, so it is `BatchNorm2d`, or `BatchNorm1d` for (N, C).

    Args:
        process_groups: None, or a list of lists of ranks; the only rank is 0.

    The other arguments are those of `BatchNorm2d`. `ValueError` for other ranks.
    """

    ranks = (2, 4)

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float = 0.9, affine: bool = True,
        gamma_init: Any = "ones", beta_init: Any = "zeros", moving_mean_init: Any = "zeros",
        moving_var_init: Any = "ones", use_batch_statistics: bool | None = None, process_groups: Any = None,
        dtype: Any = float32,
    ) -> None:  # fmt: skip
        super().__init__(
            num_features, eps, momentum, affine, gamma_init, beta_init, moving_mean_init, moving_var_init,
            use_batch_statistics, dtype=dtype,
        )  # fmt: skip
        checks.one_of(process_groups, "process_groups", (None, [[0]]), of=self.cls_name)


def check_rank(x: Any, allowed: tuple[int, ...], *, of: str) -> None:
    """Raise `ValueError` unless `x` has one of the allowed numbers of dimensions."""
    if x.ndim not in allowed:
        needed = " or ".join(map(str, allowed))
        raise ValueError(f"For '{of}', the input must have {needed} dimensions, but got shape {tuple(x.shape)}")
