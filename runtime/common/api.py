"""`jit` under the import path that scripts use: `from cellbridge.runtime.common.api import jit`."""

from ..graph.compiling import jit
from .noop_compat import jit_class

__all__ = ["jit", "jit_class"]
