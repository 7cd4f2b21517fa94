"""The source form of each op: one table, filled family by family."""

from __future__ import annotations

from . import arithmetic, gradients, lookups, networks, normalization, random, recurrent, shapes
from .table import FORMS, MultiOutput, Operation, UnsupportedForm

GRADIENTS = "it occurs only in gradient programs"

CONTROL = "branches and loops can't be written as source"
DATA_DEPENDENT_SIZE = "a data-dependent size can't be written as source"
GROUPED = "the generated source has no operator for grouped products"

WITHOUT_FORM = {
    "adaptive_avg_pool_gradient": GRADIENTS,
    "attention_with_weights": GRADIENTS,
    "avg_pool_gradient": GRADIENTS,
    "bitcast": "no captured module has it",
    "boundary": "it marks where a call begins or ends",
    "runtime_shaped": "no captured module has it",
    "runtime_shaped_gradient": GRADIENTS,
    "cond": CONTROL,
    "conv_weight_gradient": GRADIENTS,
    "ctc_loss_gradient": GRADIENTS,
    "ctc_loss_with_alphas": GRADIENTS,
    "group_norm_with_statistics": GRADIENTS,
    "grouped_matmul": GROUPED,
    "grouped_outer": GRADIENTS,
    "gru_gradient": GRADIENTS,
    "gru_with_gates": GRADIENTS,
    "layer_norm_with_statistics": GRADIENTS,
    "guard": "no captured module has it",
    "linear_recurrence": GRADIENTS,
    "loop": CONTROL,
    "lstm_gradient": GRADIENTS,
    "lstm_with_gates": GRADIENTS,
    "max_pool_gradient": GRADIENTS,
    "mish_with_gate": GRADIENTS,
    "nonzero": DATA_DEPENDENT_SIZE,
    "onnx_function": "its definition is written instead",
    "read_sizes": DATA_DEPENDENT_SIZE,
    "resize_gradient": GRADIENTS,
    "rms_norm_with_statistics": GRADIENTS,
    "rnn_gradient": GRADIENTS,
    "scan": CONTROL,
    "unique": DATA_DEPENDENT_SIZE,
}
"""The ops that can't be written, and why."""

RARE = "the generated source has no operator for it"
WITHOUT_FORM |= dict.fromkeys(
    (
        "airy_ai",
        "bessel_j0",
        "bessel_j1",
        "bessel_y0",
        "bessel_y1",
        "binomial",
        "cauchy",
        "cholesky_solve",
        "cofactors",
        "dft",
        "eig",
        "eigh",
        "entr",
        "erfcx",
        "frexp",
        "geometric",
        "householder_qr",
        "i0",
        "i0e",
        "i1",
        "i1e",
        "igamma",
        "igammac",
        "ldl",
        "ldl_solve",
        "log_ndtr",
        "log_normal",
        "lu",
        "magnitude",
        "matrix_exp",
        "modified_bessel_k0",
        "modified_bessel_k1",
        "multinomial",
        "ndtri",
        "nextafter",
        "normal_each",
        "permutation",
        "poisson",
        "pseudo_inverse",
        "qr",
        "random_permutation",
        "scaled_modified_bessel_k0",
        "scaled_modified_bessel_k1",
        "searchsorted",
        "signbit",
        "solve_triangular",
        "spherical_bessel_j0",
        "svd",
        "zeta",
    ),
    RARE,
)

__all__ = [
    "FORMS",
    "WITHOUT_FORM",
    "MultiOutput",
    "Operation",
    "UnsupportedForm",
    "arithmetic",
    "gradients",
    "lookups",
    "networks",
    "normalization",
    "random",
    "recurrent",
    "shapes",
]
