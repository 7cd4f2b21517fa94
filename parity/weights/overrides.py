"""What a user says about weights: `weights={...}`.

Keys are paths of the Cell's Parameters, in which each `*` stands for any text that the value repeats, or classes of
Cells, whose value is a dict by the names of their Parameters. A value is

- `"fc.weight"`: the module's parameter or buffer, as it is (for a class key relative to the module of the pair);
- `("fc.weight", "transpose")`: with its last two axes exchanged, or `("fc.weight", (2, 0, 1))`, in that order;
- `("fc.weight", function)`: what the function makes of that array;
- a function: what it makes of the dict of all the module's arrays by name;
- an array, tensor or number: that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ...runtime.errors import UsageError
from ...runtime.programs.call import as_array
from ..pairing.cells import Pair
from .arrangements import Arrangement, Array, Axes, Computed, Constant
from .rules import did_you_mean, filled, matched


class Overrides:
    """What was given, resolved Parameter by Parameter."""

    def __init__(
        self,
        given: Mapping[Any, Any],
        parameters: Mapping[str, Any],
        alias: Mapping[str, str],
        arrays: Mapping[str, Array],
    ) -> None:
        self.given = given
        self.alias = alias
        self.arrays = arrays
        self._used: set[Any] = set()
        for key in given:
            if isinstance(key, str) and not any(matched(key, path) is not None for path in parameters):
                self._refuse(key, parameters)
            if not isinstance(key, (str, type)):
                raise UsageError(f"weights=: a key is the path of a Parameter or a class of Cells, given {key!r}")

    def of(self, pair: Pair, cell: Any, paths: list[str]) -> dict[str, Arrangement]:
        """How the Parameters at `paths`, those of the Cell of the pair, are made, as far as that was given."""
        found: dict[str, Arrangement] = {}
        prefix = f"{pair.cell}." if pair.cell else ""
        for key, value in self.given.items():
            if isinstance(key, type):
                if isinstance(cell, key):
                    self._used.add(key)
                    for name, form in self._of_class(key, value).items():
                        if prefix + name in paths:
                            found[prefix + name] = self._arranged(prefix + name, form, pair.module)
            else:
                for path in paths:
                    texts = matched(key, path)
                    if texts is not None:
                        found[path] = self._arranged(path, value, None, key, texts)
        return found

    def require_used(self) -> None:
        """Raise `UsageError` for a class that no Cell is of."""
        for key in self.given:
            if isinstance(key, type) and key not in self._used:
                raise UsageError(f"weights=: there is no Cell of class {key.__name__} that is the port of a module")

    def _of_class(self, key: type, value: Any) -> Mapping[str, Any]:
        if not isinstance(value, Mapping):
            raise UsageError(
                f"weights={{{key.__name__}: ...}}: needed a dict by the names of its Parameters, given {value!r}"
            )
        return value

    def _arranged(
        self, path: str, form: Any, module: str | None, key: str = "", texts: tuple[str, ...] = ()
    ) -> Arrangement:
        name, how = form if isinstance(form, tuple) and len(form) == 2 else (form, None)
        if isinstance(name, str):
            wanted = filled(name, texts, key) if module is None else f"{module}.{name}" if module else name
            return self._of_one(path, self._known(path, wanted), how)
        if callable(form):
            return Computed(form, {n: a.shape for n, a in self.arrays.items()})
        if isinstance(form, (bool, int, float)):
            return Constant(np.asarray(form), f"{form}, as given")
        if hasattr(form, "shape"):
            return Constant(as_array(form) if not hasattr(form, "asnumpy") else form.asnumpy(), "the array given")
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
            return Computed(lambda arrays: function(arrays[name]), {name: shape})
        axes = tuple(range(len(shape)))
        if how == "transpose" and len(shape) > 1:
            return Axes(name, shape, (*axes[:-2], axes[-1], axes[-2]))
        if isinstance(how, (tuple, list)) and sorted(how) == list(axes):
            return Axes(name, shape, tuple(how))
        raise UsageError(
            f"weights={{{path!r}: ({name!r}, {how!r})}}: needed 'transpose' (of two or more axes), an order of "
            f"the axes {axes}, or a function; {name} has shape {list(shape)}"
        )

    def _known(self, path: str, name: str) -> str:
        if name not in self.alias:
            raise UsageError(
                f"weights={{{path!r}: ...}}: the module has no parameter or buffer {name!r}"
                f"{did_you_mean(name, self.alias)}"
            )
        return self.alias[name]

    def _refuse(self, key: str, parameters: Mapping[str, Any]) -> None:
        value = self.given[key]
        name = value[0] if isinstance(value, tuple) and value else value
        if key in self.alias and name in parameters:
            raise UsageError(
                f"weights={{{key!r}: {name!r}}} is the wrong way round: the Cell's Parameter comes first, "
                f"weights={{{name!r}: {key!r}}}"
            )
        raise UsageError(f"weights=: the Cell has no Parameter {key!r}{did_you_mean(key, parameters)}")
