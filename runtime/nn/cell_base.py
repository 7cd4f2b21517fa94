"""What the parts of a Cell, its call, its hooks and its state, know of the whole."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..common.parameter import Parameter


class CellBase:
    """The base of the parts of a Cell; `cell.Cell` defines what is declared here."""

    if TYPE_CHECKING:
        _params: dict[str, Parameter]
        _cells: dict[str, Any]
        _compute_dtype: Any
        bprop: Any

        @property
        def cls_name(self) -> str:
            """Name of the class."""

        @property
        def bprop_debug(self) -> bool:
            """Whether what `bprop` returns is held against the inputs."""

        def construct(self, *args: Any, **kwargs: Any) -> Any:
            """What the Cell computes."""

        def cells_and_names(self, cells: Any = None, name_prefix: str = "") -> Iterator[tuple[str, Any]]:
            """This Cell and those within, with their paths."""

        def get_parameters(self, expand: bool = True) -> Iterator[Parameter]:
            """The Parameters of this Cell and of those within."""

        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            """Run the hooks and `construct`."""
