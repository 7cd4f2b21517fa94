"""`Options`: the settings of a comparison."""

from __future__ import annotations

import difflib
import fnmatch
import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict, TypeVar

from ..runtime.errors import UnknownOption, UsageError
from .dtypes import dtype_name


class OptionKeywords(TypedDict, total=False):
    """The fields of `Options` as keyword-only parameters of the public functions."""

    grads: bool
    train: bool | None
    dtype: Any
    rtol: float | None
    atol: float | None
    only: Sequence[str]
    skip: Sequence[str]
    fail_fast: bool
    diagnose_seconds: float | None
    provider: str
    seed: int
    loss: Callable[[Any], Any] | None
    model: str
    strict: bool
    probe: bool


@dataclass(frozen=True)
class Options:
    """What a run compares and how.

    Attributes:
        grads: compare gradients too.
        train: run in train mode, with random draws replayed and buffer updates compared, or in eval mode. None: as the
            modules say. Where some parts of a module are in train mode and others aren't, each keeps its mode, and the
            run has that of the reference; modules of one mode throughout, as their constructors leave them, run in eval
            mode. True keeps the modes of such parts, too; False puts all into eval mode.
        dtype: working dtype, "float32", "float64", "float16" or "bfloat16", or a dtype of torch or NumPy.
        rtol: relative tolerance, which replaces the computed bars together with `atol`.
        atol: absolute tolerance, which replaces the computed bars together with `rtol`.
        only: globs of Cell paths; others are skipped.
        skip: globs of Cell paths to skip.
        fail_fast: stop after the first comparison of a side that fails.
        diagnose_seconds: the longest search for the causes of failures, in seconds; 0 for none. None: 600 s. The search
            itself is bounded by what it computes, so that it finds the same on a slow machine; a note says if it is
            cut.
        provider: ONNX Runtime's execution provider, by its name in `runtime.providers`.
        seed: seed of the cotangents and of torch's random numbers.
        loss: maps the module's outputs to a scalar, whose gradients are the cotangents.
        model: name of the network in the report.
        strict: fail if the networks are divided differently, even if they compute the same: a Cell that one side
            inlines, a parameter or a Cell that one side alone has.
        probe: if everything agrees, compare on further inputs, derived from the given ones, too; where two networks are
            compared, and not a module with its conversion, that is the default.
    """

    grads: bool = True
    train: bool | None = None
    dtype: str = "float32"
    rtol: float | None = None
    atol: float | None = None
    only: Sequence[str] = ()
    skip: Sequence[str] = ()
    fail_fast: bool = False
    diagnose_seconds: float | None = None
    provider: str = "cpu"
    seed: int = 0
    loss: Callable[[Any], Any] | None = None
    model: str = ""
    strict: bool = False
    probe: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", dtype_name(self.dtype))
        for name in ("rtol", "atol", "diagnose_seconds"):
            value = getattr(self, name)
            if value is not None and not (value >= 0 and math.isfinite(value)):
                raise UsageError(f"{name} must be a number of at least 0, given {value!r}")

    def selects(self, path: str) -> bool:
        """Whether the Cell at `path` is to be judged."""
        included = not self.only or any(fnmatch.fnmatchcase(path, glob) for glob in self.only)
        return included and not any(fnmatch.fnmatchcase(path, glob) for glob in self.skip)


Kind = TypeVar("Kind")


def from_keywords(kind: Callable[..., Kind], function: Callable[..., Any], keywords: Mapping[str, Any]) -> Kind:
    """Create `Options` or another such dataclass from the keywords of a public function.

    Raises:
        UnknownOption: a keyword is neither a field nor a parameter of the function.
    """
    require_known(function, keywords, list(inspect.signature(kind).parameters))
    return kind(**keywords)


def require_known(function: Callable[..., Any], keywords: Iterable[str], fields: Sequence[str] = ()) -> None:
    """Raise `UnknownOption`, with the closest valid name, for a keyword that a public function doesn't take.

    Args:
        function: function whose keyword-only parameters are valid.
        keywords: the names of the keywords.
        fields: other valid names.
    """
    own = [p.name for p in inspect.signature(function).parameters.values() if p.kind is p.KEYWORD_ONLY]
    for name in keywords:
        if name not in fields and name not in own:
            close = difflib.get_close_matches(name, [*own, *fields], n=1)
            hint = f"did you mean {close[0]}=?" if close else f"there are {', '.join(sorted([*own, *fields]))}"
            raise UnknownOption(f"{function.__name__}() has no option {name}=; {hint}")
