"""The user's entries for weights: `weights={...}`.

Keys are paths of the Cell's Parameters, in which each `*` matches any text, which the value may repeat, or classes of
Cells, whose value is a dict by the names of their Parameters. A value is

- `"fc.weight"`: the module's parameter or buffer, unchanged (for a class key, relative to the module of the pair);
- `("fc.weight", "transpose")`: with its last two axes exchanged, or `("fc.weight", (2, 0, 1))`, with that axis order;
- `("fc.weight", function)`: the function's result for that array;
- a function: its result for the dict of all the module's arrays by name;
- an array, tensor or number: that value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ...runtime.errors import UsageError
from ...runtime.programs.call import as_array
from ..correspondence.cells import Pair
from ..correspondence.name_patterns import did_you_mean, fill_pattern, match_pattern
from .arrangements import Arrangement, Array, Axes, FixedValue, UserFunction


class Overrides:
    """The user's entries, resolved for each Parameter."""

    def __init__(
        self,
        weights: Mapping[Any, Any],
        parameters: Mapping[str, Any],
        alias: Mapping[str, str],
        arrays: Mapping[str, Array],
    ) -> None:
        self.weights = weights
        self.alias = alias
        self.arrays = arrays
        self._used: set[Any] = set()
        for key in weights:
            if isinstance(key, str) and not any(match_pattern(key, path) is not None for path in parameters):
                self._refuse(key, parameters)
            if not isinstance(key, (str, type)):
                raise UsageError(f"weights=: a key is the path of a Parameter or a class of Cells, given {key!r}")

    def of(self, pair: Pair, cell: Any, paths: list[str]) -> dict[str, Arrangement]:
        """Return the arrangements that the entries give for the Parameters at `paths` of a pair's Cell."""
        result: dict[str, Arrangement] = {}
        prefix = f"{pair.cell}." if pair.cell else ""
        for key, value in self.weights.items():
            if isinstance(key, type):
                if isinstance(cell, key):
                    self._used.add(key)
                    for name, form in self._of_class(key, value).items():
                        if prefix + name in paths:
                            result[prefix + name] = self._arrangement(prefix + name, form, pair.module)
            else:
                for path in paths:
                    texts = match_pattern(key, path)
                    if texts is not None:
                        result[path] = self._arrangement(path, value, None, key, texts)
        return result

    def require_used(self) -> None:
        """Raise `UsageError` for a class key without any Cell."""
        for key in self.weights:
            if isinstance(key, type) and key not in self._used:
                raise UsageError(f"weights=: there is no Cell of class {key.__name__} that is the port of a module")

    def _of_class(self, key: type, value: Any) -> Mapping[str, Any]:
        if not isinstance(value, Mapping):
            raise UsageError(
                f"weights={{{key.__name__}: ...}}: needed a dict by the names of its Parameters, given {value!r}"
            )
        return value

    def _arrangement(
        self, path: str, form: Any, module: str | None, key: str = "", texts: tuple[str, ...] = ()
    ) -> Arrangement:
        name, how = form if isinstance(form, tuple) and len(form) == 2 else (form, None)
        if isinstance(name, str):
            source = fill_pattern(name, texts, key) if module is None else f"{module}.{name}" if module else name
            return self._of_one(path, self._resolve(path, source), how)
        if callable(form):
            return UserFunction(form, {n: a.shape for n, a in self.arrays.items()})
        if isinstance(form, (bool, int, float)):
            return FixedValue(np.asarray(form), f"{form}, as given")
        if hasattr(form, "shape"):
            return FixedValue(as_array(form) if not hasattr(form, "asnumpy") else form.asnumpy(), "the array given")
        raise UsageError(
            f"weights={{{path!r}: ...}}: needed a name, a pair of a name and 'transpose', axes or a function, "
            f"a function alone, or an array; given {form!r}"
        )

    def _of_one(self, path: str, name: str, how: Any) -> Arrangement:
        shape = self.arrays[name].shape
        if how is None:
            return Axes(name, shape)
        if callable(how):
            function: Callable[[Any], Any] = how
            return UserFunction(lambda arrays: function(arrays[name]), {name: shape})
        axes = tuple(range(len(shape)))
        if how == "transpose" and len(shape) > 1:
            return Axes(name, shape, (*axes[:-2], axes[-1], axes[-2]))
        if isinstance(how, (tuple, list)) and sorted(how) == list(axes):
            return Axes(name, shape, tuple(how))
        raise UsageError(
            f"weights={{{path!r}: ({name!r}, {how!r})}}: needed 'transpose' (of two or more axes), an order of "
            f"the axes {axes}, or a function; {name} has shape {list(shape)}"
        )

    def _resolve(self, path: str, name: str) -> str:
        if name not in self.alias:
            raise UsageError(
                f"weights={{{path!r}: ...}}: the module has no parameter or buffer {name!r}"
                f"{did_you_mean(name, self.alias)}"
            )
        return self.alias[name]

    def _refuse(self, key: str, parameters: Mapping[str, Any]) -> None:
        value = self.weights[key]
        name = value[0] if isinstance(value, tuple) and value else value
        if key in self.alias and name in parameters:
            raise UsageError(
                f"weights={{{key!r}: {name!r}}} is the wrong way round: the Cell's Parameter comes first, "
                f"weights={{{name!r}: {key!r}}}"
            )
        raise UsageError(f"weights=: the Cell has no Parameter {key!r}{did_you_mean(key, parameters)}")
