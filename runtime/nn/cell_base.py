"""The interface of a Cell for its parts: calls, hooks and state."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..common.parameter import Parameter


class CellBase:
    """The base class of the parts of a Cell; `cell.Cell` defines the members declared here."""

    if TYPE_CHECKING:
        _params: dict[str, Parameter]
        _cells: dict[str, Any]
        _compute_dtype: Any
        bprop: Any

        @property
        def cls_name(self) -> str:
            """The name of the class."""

        @property
        def bprop_debug(self) -> bool:
            """Whether error messages about `bprop` show its arguments."""

        def construct(self, *args: Any, **kwargs: Any) -> Any:
            """Compute the outputs."""

        def cells_and_names(self, cells: Any = None, name_prefix: str = "") -> Iterator[tuple[str, Any]]:
            """Yield this Cell and all Cells in it, with their paths."""

        def get_parameters(self, expand: bool = True) -> Iterator[Parameter]:
            """Yield the Parameters of this Cell and of all Cells in it."""

        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            """Run the hooks and `construct`."""
