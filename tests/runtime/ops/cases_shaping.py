"""Cases of shaping, padding and creation."""

from __future__ import annotations

import numpy as np
import torch
from torch.nn import functional

from tests.runtime.ops.cases import OpCase

_rng = np.random.default_rng(0)
_X = _rng.standard_normal((2, 3, 4))
_IMAGE = _rng.standard_normal((2, 3, 5, 6))
_MATRIX = _rng.standard_normal((3, 5))
_INTEGERS = _rng.integers(-5, 6, (3, 4))

CASES = (
    [
        OpCase("reshape", (_X,), {"shape": (4, 6)}, lambda x: x.reshape(4, 6), "matrix"),
        OpCase("reshape", (_X[:1, :1, :1],), {"shape": ()}, lambda x: x.reshape(()), "scalar"),
        OpCase("reshape", (np.zeros((0, 4)),), {"shape": (2, 0, 3)}, lambda x: x.reshape(2, 0, 3), "empty"),
        OpCase("transpose", (_X,), {"permutation": (2, 0, 1)}, lambda x: x.permute(2, 0, 1), "cycle"),
        OpCase("transpose", (np.array(2.0),), {"permutation": ()}, lambda x: x.clone(), "scalar"),
        OpCase("expand", (_X[:, :1],), {"shape": (5, 2, 3, 4)}, lambda x: x.expand(5, 2, 3, 4), "both"),
        OpCase("expand", (np.array(2.0),), {"shape": (2, 3)}, lambda x: x.expand(2, 3), "scalar"),
        OpCase("concat", (_X, _X[:, :2], -_X), {"axis": 1}, lambda *xs: torch.cat(xs, 1), "three"),
        OpCase("concat", (_X,), {"axis": -1}, lambda x: torch.cat([x], -1), "one"),
        OpCase(
            "slice",
            (_X,),
            {"starts": (1, 0), "stops": (3, 4), "steps": (1, 2), "axes": (1, 2)},
            lambda x: x[:, 1:3, 0:4:2],
            "two_axes",
        ),
        OpCase(
            "slice",
            (_X,),
            {"starts": (1,), "stops": (4,), "steps": (2,), "axes": (-1,)},
            lambda x: x[..., 1:4:2],
            "step_2",
        ),
        OpCase(
            "slice",
            (_IMAGE,),
            {"starts": (1,), "stops": (5,), "steps": (3,), "axes": (2,)},
            lambda x: x[:, :, 1::3],
            "step_3",
        ),
        OpCase(
            "slice", (_X,), {"starts": (2,), "stops": (2,), "steps": (1,), "axes": (1,)}, lambda x: x[:, 2:2], "empty"
        ),
        OpCase("flip", (_X,), {"axes": (0, -1)}, lambda x: x.flip(0, -1), "two"),
        OpCase("flip", (_INTEGERS,), {"axes": (1,)}, lambda x: x.flip(1), "integers", differentiable=False),
        OpCase("tile", (_X,), {"repeats": (2, 1, 3)}, lambda x: x.repeat(2, 1, 3)),
        OpCase("roll", (_X,), {"shifts": (1, -6), "axes": (0, 2)}, lambda x: x.roll((1, -6), (0, 2)), "two"),
        OpCase("roll", (_X,), {"shifts": (4, 1), "axes": (1, 1)}, lambda x: x.roll((4, 1), (1, 1)), "twice_one_axis"),
        OpCase("triangle", (_X,), {"upper": True}, lambda x: x.triu(), "upper"),
        OpCase("triangle", (_MATRIX,), {"k": -1, "upper": False}, lambda x: x.tril(-1), "lower"),
        OpCase("triangle", (_MATRIX,), {"k": 2, "upper": True}, lambda x: x.triu(2), "upper_2"),
        OpCase("triangle", (_INTEGERS,), {"upper": False}, lambda x: x.tril(), "integers", differentiable=False),
        OpCase(
            "pad", (_X,), {"before": (0, 1, 2), "after": (0, 0, 3)}, lambda x: functional.pad(x, (2, 3, 1, 0)), "zeros"
        ),
        OpCase(
            "pad",
            (_X,),
            {"before": (0, 1, 0), "after": (1, 0, 0), "value": -1.5},
            lambda x: functional.pad(x, (0, 0, 1, 0, 0, 1), value=-1.5),
            "constant",
        ),
        OpCase(
            "pad",
            (_X,),
            {"before": (0, -1, -1), "after": (0, 0, -2)},
            lambda x: functional.pad(x, (-1, -2, -1, 0)),
            "crop",
        ),
        OpCase(
            "pad",
            (_X,),
            {"before": (0, -1, 2), "after": (0, 2, -3), "value": 2.0},
            lambda x: functional.pad(x, (2, -3, -1, 2), value=2.0),
            "crop_and_add",
        ),
        OpCase(
            "pad",
            (_INTEGERS,),
            {"before": (1, 0), "after": (0, 1), "value": 7},
            lambda x: functional.pad(x, (0, 1, 1, 0), value=7),
            "integers",
            differentiable=False,
        ),
    ]
    + [
        OpCase(
            "pad",
            (_IMAGE,),
            {"before": (0, 0, top, left), "after": (0, 0, bottom, right), "mode": mode},
            lambda x, mode=mode, amounts=(left, right, top, bottom): functional.pad(x, amounts, mode),
            f"{mode}_{name}",
        )
        for mode in ("reflect", "replicate", "circular")
        for name, (left, right, top, bottom) in {
            "all": (1, 2, 3, 4),
            "left": (5, 0, 0, 0),
            "crop": (-1, 2, 1, -2),
        }.items()
    ]
    + [
        OpCase(
            "full",
            (),
            {"shape": (2, 3), "value": 1.5, "dtype": np.dtype(np.float32)},
            lambda: torch.full((2, 3), 1.5),
            "float",
            differentiable=False,
        ),
        OpCase(
            "full",
            (),
            {"shape": (), "value": True, "dtype": np.dtype(np.bool_)},
            lambda: torch.full((), True),
            "bool",
            differentiable=False,
        ),
        OpCase(
            "arange",
            (),
            {"stop": 5, "dtype": np.dtype(np.int64)},
            lambda: torch.arange(5),
            "stop",
            differentiable=False,
        ),
        OpCase(
            "arange",
            (),
            {"start": 7, "stop": -2, "step": -2, "dtype": np.dtype(np.int32)},
            lambda: torch.arange(7, -2, -2, dtype=torch.int32),
            "down",
            differentiable=False,
        ),
        OpCase(
            "arange",
            (),
            {"start": 0.5, "stop": 2.0, "step": 0.1, "dtype": np.dtype(np.float32)},
            lambda: torch.arange(0.5, 2.0, 0.1),
            "float",
            differentiable=False,
        ),
    ]
)
