"""Normalization layers. See `batch_norm` for those that normalize over a batch."""

from __future__ import annotations

from typing import Any

from ... import checks
from ...common.dtype import float32
from ...common.initializer import initialize_argument, initializer
from ...common.parameter import Parameter
from ...functional.normalization import group_norm, instance_norm, layer_norm_from
from ..cell import Cell
from .batch_norm import check_rank


class LayerNorm(Cell):
    """Normalizes the last axes to mean 0 and variance 1, then scales and shifts them (Ba et al. 2016).

        y = (x - mean) / sqrt(variance + epsilon) * gamma + beta

    Args:
        normalized_shape: sizes of the axes from `begin_params_axis`, a tuple or list.
        begin_norm_axis: the first axis to normalize.
        begin_params_axis: the first axis to scale and shift.
        gamma_init: an initializer; see `common.initializer.initializer`.
        beta_init: likewise.
        epsilon: added to the variance. Note that the default is 1e-7; other frameworks have 1e-5.
        dtype: dtype of the Parameters.

    Inputs:
        input_x: floating-point, any shape that ends in `normalized_shape`.

    Outputs:
        The same shape and dtype.

    Raises:
        TypeError: `normalized_shape` is neither a tuple nor a list.
        ValueError: `normalized_shape` is empty, or at a call differs from the shape of the axes from
            `begin_params_axis`.
    """

    def __init__(
        self, normalized_shape: Any, begin_norm_axis: int = -1, begin_params_axis: int = -1, gamma_init: Any = "ones",
        beta_init: Any = "zeros", epsilon: float = 1e-7, dtype: Any = float32,
    ) -> None:  # fmt: skip
        super().__init__()
        of = self.cls_name
        checks.of_type(normalized_shape, "normalized_shape", (tuple, list), of=of)
        if not normalized_shape:
            raise ValueError(
                f"For '{of}', 'normalized_shape' must hold at least one size, but got {normalized_shape!r}"
            )
        self.normalized_shape = normalized_shape
        self.begin_norm_axis = checks.of_type(begin_norm_axis, "begin_norm_axis", int, of=of)
        self.begin_params_axis = checks.of_type(begin_params_axis, "begin_params_axis", int, of=of)
        self.epsilon = checks.of_type(epsilon, "epsilon", (float, int), of=of)
        self.gamma = Parameter(
            initialize_argument(gamma_init, normalized_shape, dtype, "gamma_init", of=of), name="gamma"
        )
        self.beta = Parameter(initialize_argument(beta_init, normalized_shape, dtype, "beta_init", of=of), name="beta")

    def construct(self, input_x: Any) -> Any:
        """(..., *normalized_shape), floating-point; returns the same shape."""
        return layer_norm_from(
            input_x, self.gamma, self.beta, self.begin_norm_axis, self.begin_params_axis, self.epsilon
        )

    def extend_repr(self) -> str:
        """Axes and epsilon."""
        return (
            f"normalized_shape={self.normalized_shape}, begin_norm_axis={self.begin_norm_axis}, "
            f"begin_params_axis={self.begin_params_axis}, epsilon={self.epsilon}"
        )


class _InstanceNorm(Cell):
    """The common part of the instance normalization layers."""

    rank: int

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float = 0.1, affine: bool = True,
        gamma_init: Any = "ones", beta_init: Any = "zeros", dtype: Any = float32,
    ) -> None:  # fmt: skip
        super().__init__()
        of = self.cls_name
        self.num_features = checks.positive_int(num_features, "num_features", of=of)
        self.eps = checks.of_type(eps, "eps", float, of=of)
        self.momentum = checks.in_range(momentum, "momentum", "[0, 1]", of=of)
        checks.of_type(affine, "affine", bool, of=of)
        shape = (num_features,)
        self.moving_mean = Parameter(initializer("zeros", shape, dtype), name="mean", requires_grad=False)
        self.moving_variance = Parameter(initializer("ones", shape, dtype), name="variance", requires_grad=False)
        self.moving_mean._is_buffer = self.moving_variance._is_buffer = True
        gamma = initialize_argument(gamma_init, shape, dtype, "gamma_init", of=of)
        self.gamma = Parameter(gamma, name="gamma", requires_grad=affine)
        beta = initialize_argument(beta_init, shape, dtype, "beta_init", of=of)
        self.beta = Parameter(beta, name="beta", requires_grad=affine)

    def construct(self, x: Any) -> Any:
        """(N, num_features, *spatial), floating-point; returns the same shape."""
        check_rank(x, (self.rank,), of=self.cls_name)
        return instance_norm(
            x, self.moving_mean, self.moving_variance, self.gamma, self.beta, self.training, 1.0 - self.momentum,
            self.eps,
        )  # fmt: skip

    def extend_repr(self) -> str:
        """Channels, eps and momentum."""
        return f"num_features={self.num_features}, eps={self.eps}, momentum={self.momentum}"


class InstanceNorm2d(_InstanceNorm):
    """Normalizes each channel of each image to mean 0 and variance 1, then scales and shifts it (Ulyanov et al. 2016).

    The statistics are always those of the image itself. Training updates moving statistics of them:

        moving = momentum * moving + (1 - momentum) * mean of the image statistics over the batch

    Args:
        num_features: number of channels.
        eps: added to the variance, a float.
        momentum: the factor of the old moving statistic, in [0, 1].
        affine: whether gamma and beta are trained.
        gamma_init: an initializer; see `common.initializer.initializer`.
        beta_init: likewise.
        dtype: dtype of the Parameters.

    Inputs:
        x: (N, num_features, H, W), floating-point.

    Outputs:
        The same shape and dtype.

    Raises:
        TypeError: an argument has a wrong type.
        ValueError: an argument is out of range; in a call, the input has other dimensions or channels.
    """

    rank = 4


class InstanceNorm1d(_InstanceNorm):
    """Instance normalization of (N, num_features, L); see `InstanceNorm2d`."""

    rank = 3


class InstanceNorm3d(_InstanceNorm):
    """Instance normalization of (N, num_features, D, H, W); see `InstanceNorm2d`."""

    rank = 5


class GroupNorm(Cell):
    """Normalizes each group of channels of each sample, then scales and shifts (Wu and He 2018).

    Args:
        num_groups: number of groups; divides `num_channels`.
        num_channels: number of channels.
        eps: added to the variance, a float.
        affine: whether gamma and beta are trained.
        gamma_init: an initializer; see `common.initializer.initializer`.
        beta_init: likewise.
        dtype: dtype of the Parameters.

    Inputs:
        x: (N, num_channels, ...), floating-point.

    Outputs:
        The same shape and dtype.

    Raises:
        TypeError: an argument has a wrong type.
        ValueError: an argument is out of range, or the groups don't divide the channels; in a call, there are other
            channels.
    """

    def __init__(
        self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True, gamma_init: Any = "ones",
        beta_init: Any = "zeros", dtype: Any = float32,
    ) -> None:  # fmt: skip
        super().__init__()
        of = self.cls_name
        self.num_groups = checks.positive_int(num_groups, "num_groups", of=of)
        self.num_channels = checks.positive_int(num_channels, "num_channels", of=of)
        if num_channels % num_groups:
            raise ValueError(
                f"For '{of}', 'num_channels' must be divisible by 'num_groups' {num_groups}, but got {num_channels}"
            )
        self.eps = checks.of_type(eps, "eps", float, of=of)
        self.affine = checks.of_type(affine, "affine", bool, of=of)
        gamma = initialize_argument(gamma_init, (num_channels,), dtype, "gamma_init", of=of)
        self.gamma = Parameter(gamma, name="gamma", requires_grad=affine)
        beta = initialize_argument(beta_init, (num_channels,), dtype, "beta_init", of=of)
        self.beta = Parameter(beta, name="beta", requires_grad=affine)

    def construct(self, x: Any) -> Any:
        """(N, num_channels, ...), floating-point; returns the same shape."""
        return group_norm(x, self.num_groups, self.gamma, self.beta, self.eps)

    def extend_repr(self) -> str:
        """Groups and channels."""
        return f"num_groups={self.num_groups}, num_channels={self.num_channels}"
