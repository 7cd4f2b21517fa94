"""Differences between the supported versions of torch, and faults in all of them.

`CHANGES` lists changes of behaviour in newer versions: code that must follow the installed torch asks `has_change`.
`FAULTS` lists faults with workarounds. tests/converter/test_torch_version.py tests each entry on torch itself, and
fails for one that is no longer needed or that names a wrong version.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

import torch

Version = tuple[int, int]


@dataclass(frozen=True)
class Change:
    """A change of torch's behaviour.

    Attributes:
        since: the first version with the change.
        what: the new behaviour.
        followed_in: the modules that follow the installed torch, or support both.
    """

    since: Version
    what: str
    followed_in: tuple[str, ...]


@dataclass(frozen=True)
class Fault:
    """A fault or a gap in every supported version of torch.

    Attributes:
        what: torch's behaviour.
        avoided_in: the module with the workaround.
    """

    what: str
    avoided_in: str


CHANGES = {
    "gradient at bounds": Change(
        (2, 14),
        "`clamp` passes no gradient to an element that equals a bound, or half of it if the bound is a tensor",
        ("converter/capture/tables/choice.py", "converter/torch_out/tables/elementwise.py"),
    ),
    "gradient of equal operands": Change(
        (2, 14),
        "`fmax` and `fmin` share the gradient between equal operands",
        ("converter/capture/tables/elementwise.py",),
    ),
    "exponential of small matrices": Change(
        (2, 15),
        "`matrix_exp` of a single matrix with a norm up to 0.05 is fully precise, not just to ten digits",
        ("converter/capture/tables/decompositions.py", "converter/torch_out/calls/matrices.py"),
    ),
    "assigned numbers": Change(
        (2, 15),
        "the exported graph of `x[i] = 0.1` contains the number itself; before, it contained a float32 tensor",
        ("parity/sides/precision.py",),
    ),
    "no aten.cholesky": Change(
        (2, 14), "`torch.cholesky` and `aten.cholesky` are gone; `torch.linalg.cholesky` stays",
        ("converter/capture/tables/linear_algebra.py",),
    ),
    "axis of dropout masks": Change(
        (2, 14), "attention of three dimensions draws its dropout mask with an axis of size 1 in front, in eager mode",
        ("parity/sides/interpreter_side.py",),
    ),
    "Function.apply in C++": Change(
        (2, 14), "`torch.autograd.Function.apply` is written in C++, and looks up only `forward`",
        ("converter/capture/custom_backward.py",),
    ),
    "split checkpoint": Change(
        (2, 14), "`torch.utils.checkpoint` runs its non-reentrant form in a second function",
        ("converter/capture/checkpoints.py",),
    ),
    "ShapesSpec": Change(
        (2, 14), "`torch.export` takes a `ShapesSpec` or `ParamsSpec` for `dynamic_shapes`; there is `@dynamic_spec`",
        ("converter/capture/shapes_spec.py", "parity/inputs/sizes.py"),
    ),
}  # fmt: skip

FAULTS = {
    "chunks of open sizes": Fault(
        "`torch.export` fixes a symbolic size that `chunk` or `split` divides into a known number of parts",
        "converter/capture/data_dependence.py",
    ),
    "distances of open sizes": Fault(
        "`torch.export` restricts a symbolic number of points of `cdist` to the range of one of its two algorithms",
        "converter/capture/data_dependence.py",
    ),
    "covariance": Fault("`torch.export` refuses `cov` and `corrcoef`", "converter/capture/data_dependence.py"),
    "no_grad within autocast": Fault(
        "`torch.export` drops a `torch.no_grad()` inside an autocast region",
        "converter/capture/autocast_regions.py",
    ),
    "einsum within autocast": Fault(
        "`torch.export` keeps `einsum` whole, which autocast doesn't cast then",
        "converter/capture/autocast_regions.py",
    ),
    "batch norm of one image": Fault(
        "the backward pass of `batch_norm` and `instance_norm` on the CPU is wrong for a batch of 1 whose input or "
        "gradient has permuted strides, such as (30, 1, 30, 6) for (1, 6, 4, 5)",
        "parity/sides/operator_faults.py",
    ),
    "data in place": Fault("`torch.export` fails where a model sets `x.data`", "converter/capture/unrecorded.py"),
}


@functools.cache
def torch_version() -> Version:
    """Major and minor version of the installed torch; a pre-release counts as its release."""
    match = re.match(r"(\d+)\.(\d+)", torch.__version__)
    assert match is not None, f"torch has the version {torch.__version__!r}"
    return int(match[1]), int(match[2])


def has_change(name: str) -> bool:
    """Whether the installed torch has one of the `CHANGES`."""
    return torch_version() >= CHANGES[name].since
