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
    matrices,
    normalization,
    pooling,
    random,
    recurrent,
    reduction,
    resize,
    same_names,
    scanning,
    shaping,
    sorting,
    special,
)

same_names.register()  # those that the other modules leave
