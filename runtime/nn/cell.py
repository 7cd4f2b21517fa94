"""`Cell`: a layer or block that has Parameters and child Cells, and computes in `construct`."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from .. import checks, context
from ..common import tape
from ..common.dtype import bfloat16, float16, float32, to_dtype
from ..common.parameter import DEFAULT_NAME, Parameter, ParameterTuple
from ..common.tensor import Tensor
from ..current_trace import current
from ..eager.backward import Forward
from ..per_thread import PerThread
from . import cell_call
from .cell_hooks import Hookable
from .cell_state import Stateful


class Cell(Hookable, Stateful):
    """The base class of all layers and networks.

    A subclass declares its Parameters and child Cells as attributes in `__init__`, after `super().__init__()`, and
    computes in `construct`. Calling the Cell runs its hooks and `construct`.

    Args:
        auto_prefix: whether to prefix the names of the Parameters of child Cells with the path of attributes.
        flags: attributes to set.

    Attributes:
        training: whether layers such as Dropout and BatchNorm behave as in training; initially False.
        phase: 'train' or 'predict', as set by the last `set_train` on this Cell itself.
        requires_grad: whether a call records the forward run for a later gradient request; see `set_grad`.
        internal_params: the Parameters whose gradients `bprop` returns.
    """

    internal_params: list[Parameter]
    bprop: Any = None
    _shares_parameters = False  # whether its ParameterTuples hold other Cells' Parameters, whose names may clash
    _forward_run = PerThread[cell_call.RecordedForward | None](None)
    _params: dict[str, Parameter]
    _cells: dict[str, Cell]
    _auto_prefix: bool
    _parameter_prefix: str

    def __init__(self, auto_prefix: bool = True, flags: dict[str, Any] | None = None) -> None:
        trace = current()
        if trace is not None:
            trace.guard.on_cell_created(self)
        state = self.__dict__
        state["_params"] = {}
        state["_cells"] = {}
        state["_auto_prefix"] = auto_prefix
        state["_parameter_prefix"] = ""
        self.training = False
        self.phase = "train"
        self.requires_grad = False
        self._bprop_debug = False
        self._compute_dtype: Any = None
        self._amp_level: str | None = None
        self._init_hooks()
        if flags:
            self.add_flags(**flags)

    # ---- running ----

    def construct(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the outputs; a subclass defines it."""
        raise AttributeError(
            f"For '{self.cls_name}', the method 'construct' is not defined: a Cell computes in construct(self, ...)"
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the hooks and `construct`."""
        if "_cells" not in self.__dict__:
            raise AttributeError(f"call super().__init__() in {self.cls_name}.__init__() before anything else")
        if (compiler := context.compiler()) is not None:
            return compiler.in_graph_mode(self, None, self, args, kwargs)
        if self.requires_grad and tape.current() is None:
            self._drop_forward()
            self._forward_run = cell_call.record_forward(self, args, kwargs)
            return self._forward_run.forward.outputs
        return cell_call.run(self, args, kwargs)

    def take_forward(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], weights: Iterable[Parameter]
    ) -> Forward | None:
        """Return and forget the recorded forward run if it is valid for these arguments; otherwise return None."""
        run = self._forward_run
        if run is None or not run.is_valid_for(self, args, kwargs, weights):
            self._drop_forward()
            return None
        self._forward_run = None
        return run.forward

    def _drop_forward(self) -> None:
        if self._forward_run is not None:
            self._forward_run.forward.recording.clear()
            self._forward_run = None

    def __getstate__(self) -> dict[str, Any]:
        """Return the state that `copy.deepcopy` copies: all attributes except a recorded forward run."""
        return {name: value for name, value in self.__dict__.items() if name != "_forward_run"}

    # ---- attributes ----

    @property
    def cls_name(self) -> str:
        """The name of the class."""
        return type(self).__name__

    @property
    def class_name_in_trace(self) -> str:
        """The class name of its calls in a program."""
        return self.cls_name

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, (Parameter, ParameterTuple, Cell)) and "_params" not in self.__dict__:
            raise AttributeError(
                f"cannot assign '{name}' ({type(value).__name__}) yet: call super().__init__() in "
                f"{self.cls_name}.__init__() first"
            )
        parameters = self.__dict__.get("_params", {})
        trace = current()
        if trace is not None and not (name in parameters and isinstance(value, Tensor)):
            trace.guard.on_attribute_set(self, name, value)
        cells = self.__dict__.get("_cells", {})
        if name in cells and value is not None and not isinstance(value, Cell):
            raise TypeError(
                f"Sub cell '{name}' already exists in {self.cls_name}: it can be replaced by a Cell or None, "
                f"but got {type(value)}"
            )
        if name in parameters and not isinstance(value, Parameter):
            self._assign_over_parameter(parameters, name, value)
        elif isinstance(value, Parameter):
            self.__dict__.pop(name, None)
            self.insert_param_to_cell(name, value, check_name_contain_dot=False)
        elif isinstance(value, Cell):
            self.__dict__.pop(name, None)
            cells[name] = value
            if self._auto_prefix:
                value.update_parameters_name(name + ".")
        else:
            cells.pop(name, None)
            if isinstance(value, ParameterTuple):
                for parameter in value:
                    apart = self._shares_parameters and "." not in parameter.name
                    key = f"{name}.{parameter.name}" if apart else parameter.name
                    self.insert_param_to_cell(key, parameter, check_name_contain_dot=False)
            object.__setattr__(self, name, value)

    def _assign_over_parameter(self, parameters: dict[str, Parameter], name: str, value: Any) -> None:
        if value is None:
            del parameters[name]
            object.__setattr__(self, name, None)
        elif isinstance(value, Tensor):
            parameters[name].set_data(value)
        else:
            raise TypeError(
                f"Parameter '{name}' already exists in {self.cls_name}: it can be replaced by a Parameter, a Tensor or "
                f"None, but got {type(value)}"
            )

    def __getattr__(self, name: str) -> Any:
        for registry in ("_params", "_cells"):
            items = self.__dict__.get(registry, {})
            if name in items:
                return items[name]
        raise AttributeError(f"The '{type(self).__name__}' object has no attribute '{name}'.")

    def __delattr__(self, name: str) -> None:
        for registry in (self._params, self._cells):
            if name in registry:
                del registry[name]
                return
        object.__delattr__(self, name)

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._params, *self._cells]

    def insert_param_to_cell(self, param_name: str, param: Parameter, check_name_contain_dot: bool = True) -> None:
        """Register a Parameter under a name.

        Raises:
            KeyError: the name is empty, contains a dot, or belongs to another attribute.
            TypeError: the name isn't a string, or `param` isn't a Parameter.
        """
        of = "insert_param_to_cell"
        self._check_new_name(param_name, "param_name", self._params, "." if check_name_contain_dot else None, of=of)
        checks.of_type(param, "param", Parameter, of=of)
        if param.name == DEFAULT_NAME:
            param.name = param_name
        self._params[param_name] = param

    def insert_child_to_cell(self, child_name: str, child_cell: Cell) -> None:
        """Register a child Cell under a name.

        Raises:
            KeyError: the name is empty, contains a dot, or belongs to another attribute.
            TypeError: the name isn't a string, or `child_cell` isn't a Cell.
        """
        of = "insert_child_to_cell"
        self._check_new_name(child_name, "child_name", self._cells, ".", of=of)
        self._cells[child_name] = checks.of_type(child_cell, "child_cell", Cell, of=of)

    def _check_new_name(
        self, name: Any, argument: str, registry: dict[str, Any], forbidden: str | None, *, of: str
    ) -> None:
        checks.of_type(name, argument, str, of=of)
        if not name or (forbidden is not None and forbidden in name):
            raise KeyError(f"For '{of}', '{argument}' must be a name without dots, and not empty, but got '{name}'")
        if hasattr(self, name) and name not in registry:
            raise KeyError(f"For '{of}', '{argument}' must be new, but {self.cls_name} has an attribute '{name}'")

    # ---- Parameters and child Cells ----

    def cells_and_names(self, cells: set[Cell] | None = None, name_prefix: str = "") -> Iterator[tuple[str, Cell]]:
        """Yield `(path, Cell)` for this Cell (at `name_prefix`) and all Cells in it, depth first, each Cell once."""
        visited = set() if cells is None else cells
        if self in visited:
            return
        visited.add(self)
        yield name_prefix, self
        for name, cell in self._cells.items():
            if cell is not None:
                yield from cell.cells_and_names(visited, f"{name_prefix}.{name}" if name_prefix else name)

    def cells(self) -> Iterable[Cell]:
        """Return the child Cells, each once."""
        return self.name_cells().values()

    def name_cells(self) -> OrderedDict[str, Cell]:
        """Return the child Cells by name, each once."""
        result: OrderedDict[str, Cell] = OrderedDict()
        for name, cell in self._cells.items():
            if cell is not None and not any(cell is other for other in result.values()):
                result[name] = cell
        return result

    def parameters_and_names(self, name_prefix: str = "", expand: bool = True) -> Iterator[tuple[str, Parameter]]:
        """Yield `(path, Parameter)` for the Parameters of this Cell and, if `expand`, of all Cells in it, each once."""
        visited: set[int] = set()
        cells = self.cells_and_names(name_prefix=name_prefix) if expand else [(name_prefix, self)]
        for prefix, cell in cells:
            for name, parameter in cell._params.items():
                if id(parameter) not in visited:
                    visited.add(id(parameter))
                    yield f"{prefix}.{name}" if prefix else name, parameter

    def get_parameters(self, expand: bool = True) -> Iterator[Parameter]:
        """Yield all Parameters, each once; with `expand=False`, only those of this Cell itself."""
        return (parameter for _, parameter in self.parameters_and_names(expand=expand))

    def trainable_params(self, recurse: bool = True) -> list[Parameter]:
        """Return the Parameters with `requires_grad`."""
        return [parameter for parameter in self.get_parameters(recurse) if parameter.requires_grad]

    def untrainable_params(self, recurse: bool = True) -> list[Parameter]:
        """Return the Parameters without `requires_grad`: frozen ones, moving statistics."""
        return [parameter for parameter in self.get_parameters(recurse) if not parameter.requires_grad]

    def parameters_dict(self, recurse: bool = True) -> OrderedDict[str, Parameter]:
        """Return the Parameters by name."""
        return OrderedDict((parameter.name, parameter) for parameter in self.get_parameters(recurse))

    @property
    def param_prefix(self) -> str:
        """The prefix of the names of this Cell's own Parameters, without the last dot."""
        return self._parameter_prefix.removesuffix(".")

    def update_parameters_name(self, prefix: str = "", recurse: bool = True) -> None:
        """Name every Parameter by `prefix` and its path from this Cell."""
        if not checks.of_type(prefix, "prefix", str, of="update_parameters_name"):
            return
        for path, cell in self.cells_and_names() if recurse else [("", self)]:
            cell._parameter_prefix = f"{prefix}{path}." if path else prefix
        for path, parameter in self.parameters_and_names(expand=recurse):
            parameter.name = prefix + path

    def apply(self, fn: Callable[[Cell], Any]) -> Cell:
        """Call `fn` on every inner Cell and then on this one. Returns this Cell."""
        for cell in self.cells():
            cell.apply(fn)
        fn(self)
        return self

    def extend_repr(self) -> str:
        """Return the main arguments for `repr`; a subclass defines it."""
        return ""

    def __repr__(self) -> str:
        lines = [f"({name}): {cell!r}" for name, cell in self._cells.items()]
        arguments = self.extend_repr()
        if not lines:
            return f"{self.cls_name}({arguments})"
        indented = "\n".join(([arguments] if arguments else []) + lines).replace("\n", "\n  ")
        return f"{self.cls_name}(\n  {indented}\n)"

    # ---- phase and flags ----

    def set_train(self, mode: bool = True) -> Cell:
        """Set `training` of this Cell and all Cells in it, and its own `phase`. Returns the Cell."""
        self.phase = "train" if mode else "predict"
        for _, cell in self.cells_and_names():
            cell.training = bool(mode)
        return self

    def set_grad(self, requires_grad: bool = True) -> Cell:
        """Let calls record their forward run, so that a later gradient needn't run it again.

        The first gradient computed for this Cell with the same argument objects uses and drops the recording. The next
        call drops it, too, and so does any change to an argument, a Parameter or a flag of a Cell. Returns the Cell.
        """
        for _, cell in self.cells_and_names():
            cell.requires_grad = bool(requires_grad)
            cell._drop_forward()
        return self

    def recompute(self, *, mp_comm_recompute: bool = True, parallel_optimizer_comm_recompute: bool = False) -> None:
        """Do nothing: intermediate results are kept for the gradient, not recomputed."""

    def add_flags(self, **flags: Any) -> Cell:
        """Set attributes. Returns the Cell."""
        for name, value in flags.items():
            setattr(self, name, value)
        self.__dict__.setdefault("_flags", {}).update(flags)
        return self

    def add_flags_recursive(self, **flags: Any) -> Cell:
        """Set attributes of this Cell and all Cells in it. Returns the Cell."""
        for _, cell in self.cells_and_names():
            cell.add_flags(**flags)
        return self

    def get_flags(self) -> dict[str, Any]:
        """Return the attributes that `add_flags` set."""
        return dict(self.__dict__.get("_flags", {}))

    def to_float(self, dst_type: Any) -> Cell:
        """Let operators in this Cell and the Cells in it cast their floating-point operands to `dst_type`.

        Parameters and their gradients keep their dtype. A later call on a child or a parent overrides this one. Returns
        the Cell.

        Raises:
            ValueError: `dst_type` is neither float16, float32 nor bfloat16.
        """
        allowed = (float16, float32, bfloat16)
        try:
            dtype = to_dtype(dst_type)
        except TypeError:
            dtype = None
        if dtype not in allowed:
            raise ValueError(f"For 'to_float', `dst_type` must be float16, float32 or bfloat16, but got {dst_type!r}")
        if self._amp_level is not None:
            warnings.warn(
                f"Cell.to_float overrides amp level {self._amp_level} of auto_mixed_precision: use one of the two",
                stacklevel=2,
            )
        for _, cell in self.cells_and_names():
            cell._compute_dtype = dtype
        return self

    @property
    def bprop_debug(self) -> bool:
        """Whether error messages about `bprop` show its arguments; its result is always checked."""
        return self._bprop_debug

    @bprop_debug.setter
    def bprop_debug(self, value: bool) -> None:
        if not isinstance(value, bool):
            raise TypeError(f"For 'Cell', `bprop_debug` must be bool, but got {type(value).__name__}: {value!r}")
        self._bprop_debug = value
