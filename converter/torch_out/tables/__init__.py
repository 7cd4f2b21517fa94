"""The forms of all ops, a family a file as in `runtime.ops`; importing this package fills the table."""

from . import (  # noqa: F401
    activation,
    attention,
    comparison,
    control_flow,
    convolution,
    creation,
    data_dependent,
    elementwise,
    indexing,
    linear,
    loss,
    normalization,
    pooling,
    random,
    recurrent,
    reduction,
    resize,
    scanning,
    shaping,
    sorting,
)
