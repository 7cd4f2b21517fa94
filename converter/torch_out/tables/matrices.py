"""Linear algebra other than matrix products, and Fourier transforms."""

from __future__ import annotations

from typing import Any

from ...rows import Row
from ..calls import matrices
from .table import Context, no_torch_form, pass_on, torch_form, torch_function

torch_function("magnitude", matrices.magnitude)
no_torch_form("cofactors", "it occurs in gradients of determinants only, which torch computes by itself")


def _form_of(function: Any, count: int) -> Any:
    """A form for an op with `count` outputs, whose attributes the function takes by name."""

    def form(context: Context, *operands: Any, **attributes: Any) -> Any:
        result = context.call(function, *operands, **attributes)
        return tuple(result[i] for i in range(count)) if count > 1 else result

    return form


for _name, _count in {
    "inverse": 1, "determinant": 1, "log_determinant": 2, "cholesky": 1, "solve": 1,
    "eig": 2, "eigh": 2, "svd": 3, "qr": 2, "householder_qr": 2, "lu": 2, "permutation": 1, "matrix_exp": 1,
    "cholesky_solve": 1, "solve_triangular": 1, "pseudo_inverse": 1, "ldl": 2, "ldl_solve": 1,
}.items():  # fmt: skip
    torch_form(_name)(_form_of(getattr(matrices, _name), _count))


ROWS: dict[str, Row] = {
    "dft": (matrices.dft, "x, axes, inverse, norm"),
}
pass_on(ROWS)
