"""Cell IR, its ops and autodiff, the interpreter, and the eager Cell API; needs no torch.

    import cellbridge.runtime as ms
    from cellbridge.runtime import nn, ops, Tensor, Parameter

    Program, execute, load, verify     the Cell IR: what a network is converted to, run by the interpreter
    compile, compile_train_step        a program, or a step of training, in ONNX Runtime
    Tensor, Parameter, nn, ops, optim  Cells written by hand, with `grad`, `value_and_grad`, `vmap`, `jit`, `trace`
    amp, train                         loss scales and mixed precision; metrics and checkpoints
    set_context, set_device, set_seed  how and where Cells run

Importing this package is cheap: each name is loaded when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import attachments as attachments
from .lazy import lazy_getattr

if TYPE_CHECKING:
    from . import amp, common, context, nn, ops, optim, train
    from .amp import DynamicLossScaleManager, FixedLossScaleManager, LossScaleManager
    from .common import dtype
    from .common.creation import tensor
    from .common.dtype import (
        bfloat16,
        bool_,
        byte,
        double,
        dtype_to_nptype,
        dtype_to_pytype,
        float16,
        float32,
        float64,
        half,
        int8,
        int16,
        int32,
        int64,
        intc,
        intp,
        long,
        short,
        single,
        ubyte,
        uint8,
        uint16,
        uint32,
        uint64,
        uintc,
        uintp,
        ushort,
    )
    from .common.noop_compat import (
        _no_grad,
        jit_class,
        lazy_inline,
        mutable,
        no_inline,
        recompute,
        set_deterministic,
        set_recursion_limit,
    )
    from .common.parameter import Parameter, ParameterTuple
    from .common.seed import get_seed, set_seed
    from .common.tensor import Tensor
    from .compiled.compiled import Compiled, compile
    from .context import GRAPH_MODE, PYNATIVE_MODE, get_context, set_context, set_device
    from .eager.derivatives import jacfwd, jacrev, jvp, vjp
    from .eager.gradients import GradOperation, get_grad, grad, value_and_grad
    from .errors import (
        CellbridgeError,
        ConversionError,
        ConversionWarning,
        ParityError,
        ProgramError,
        ShapeError,
        TracingError,
        UnknownSize,
        UnknownValue,
        UnsupportedOperators,
        UnsupportedPython,
        UsageError,
    )
    from .functional.mapping import vmap
    from .functional.shapes import is_tensor
    from .graph.compiling import jit
    from .graph.traced import TracedProgram, trace
    from .ir.program import Gradients, Program
    from .programs.interpreter import execute
    from .programs.verify import verify
    from .storage.programs import load
    from .train.model import Model
    from .train.serialization import load_checkpoint, load_param_into_net, save_checkpoint
    from .train_step.train_step import TrainStep, compile_train_step

__all__ = [
    "GRAPH_MODE",
    "PYNATIVE_MODE",
    "CellbridgeError",
    "Compiled",
    "ConversionError",
    "ConversionWarning",
    "DynamicLossScaleManager",
    "FixedLossScaleManager",
    "GradOperation",
    "Gradients",
    "LossScaleManager",
    "Model",
    "Parameter",
    "ParameterTuple",
    "ParityError",
    "Program",
    "ProgramError",
    "ShapeError",
    "Tensor",
    "TracedProgram",
    "TracingError",
    "TrainStep",
    "UnknownSize",
    "UnknownValue",
    "UnsupportedOperators",
    "UnsupportedPython",
    "UsageError",
    "_no_grad",
    "amp",
    "bfloat16",
    "bool_",
    "byte",
    "common",
    "compile",
    "compile_train_step",
    "context",
    "double",
    "dtype",
    "dtype_to_nptype",
    "dtype_to_pytype",
    "execute",
    "float16",
    "float32",
    "float64",
    "get_context",
    "get_grad",
    "get_seed",
    "grad",
    "half",
    "int8",
    "int16",
    "int32",
    "int64",
    "intc",
    "intp",
    "is_tensor",
    "jacfwd",
    "jacrev",
    "jit",
    "jit_class",
    "jvp",
    "lazy_inline",
    "load",
    "load_checkpoint",
    "load_param_into_net",
    "long",
    "mutable",
    "nn",
    "no_inline",
    "ops",
    "optim",
    "recompute",
    "save_checkpoint",
    "set_context",
    "set_deterministic",
    "set_device",
    "set_recursion_limit",
    "set_seed",
    "short",
    "single",
    "tensor",
    "trace",
    "train",
    "ubyte",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "uintc",
    "uintp",
    "ushort",
    "value_and_grad",
    "verify",
    "vjp",
    "vmap",
]

_NAMES = {  # by module; "" for names that are modules themselves
    "": "amp common context nn ops optim train",
    "amp": "DynamicLossScaleManager FixedLossScaleManager LossScaleManager",
    "common": "dtype",
    "common.creation": "tensor",
    "common.dtype": (
        "bfloat16 bool bool_ byte double dtype_to_nptype dtype_to_pytype float float16 float32 float64 half int int16 "
        "int32 int64 int8 intc intp long short single ubyte uint16 uint32 uint64 uint8 uintc uintp ushort"
    ),
    "common.parameter": "Parameter ParameterTuple",
    "common.seed": "get_seed set_seed",
    "common.tensor": "Tensor",
    "compiled.compiled": "Compiled compile",
    "train_step.train_step": "TrainStep compile_train_step",
    "context": "GRAPH_MODE PYNATIVE_MODE get_context set_context set_device",
    "errors": "CellbridgeError ConversionError ConversionWarning ParityError ProgramError ShapeError TracingError "
    "UnknownSize UnknownValue UnsupportedOperators UnsupportedPython UsageError",
    "eager.derivatives": "jacfwd jacrev jvp vjp",
    "functional.mapping": "vmap",
    "functional.shapes": "is_tensor",
    "graph.compiling": "jit",
    "graph.traced": "TracedProgram trace",
    "eager.gradients": "GradOperation get_grad grad value_and_grad",
    "common.noop_compat": "_no_grad jit_class lazy_inline mutable no_inline recompute set_deterministic "
    "set_recursion_limit",
    "programs.interpreter": "execute",
    "ir.program": "Gradients Program",
    "programs.verify": "verify",
    "storage.programs": "load",
    "train.model": "Model",
    "train.serialization": "load_checkpoint load_param_into_net save_checkpoint",
}

# modules of MindSpore 2.10 that don't exist here, with the reason or what to use instead
_ABSENT = {
    "dataset": "any iterable of batches will do, such as a list of tuples of Tensors or arrays",
    "communication": "there is one device, and one process",
    "parallel": "there is one device, and one process",
    "mint": "its functions are in `ops` and `nn`, with MindSpore's own names",
    "numpy": "use NumPy itself outside of Cells, and `ops` within",
    "scipy": "use SciPy itself outside of Cells, and `ops` within",
    "profiler": "use Python's profilers",
    "mindrecord": "any iterable of batches will do",
    "hal": "there is one device, the CPU",
    "experimental": "it is for features that MindSpore itself is trying out",
}

_load = lazy_getattr(__name__, {name: module for module, names in _NAMES.items() for name in names.split()})


def __getattr__(name: str) -> Any:
    if name in _ABSENT:
        raise AttributeError(
            f"module {__name__!r} has no {name!r}: {_ABSENT[name]}. This package has MindSpore 2.10's Tensor, "
            "Parameter, nn, ops, amp, train, context and gradients; README.md lists the modules that it follows"
        )
    return _load(name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
