"""Modules that compute what a scripted or traced module computes, with the same parameters and buffers."""

from __future__ import annotations

import functools
import inspect
import re
from typing import Any

import torch

from ...runtime.errors import UsageError
from .interpreter import run

_MANGLED = re.compile(r"___torch_mangle_\d+\.")  # which TorchScript puts into the name of each further form of a class


def _place(tensor: torch.Tensor) -> Any:
    """Where a tensor's elements lie, and how: tensors that a script and its file share have equal places."""
    data = tensor.data_ptr()
    return (data, tensor.dtype, tensor.shape, tensor.stride()) if data else id(tensor)


def _tensors(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in torch.utils._pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


class Source:
    """A scripted module that a part stands for; copies of the part share it, as they only read its settings."""

    def __init__(self, script: Any) -> None:
        self.script = script

    def __deepcopy__(self, memo: Any) -> Source:
        return self


class Part(torch.nn.Module):
    """A part of a TorchScript module: its parameters, buffers and parts. Other attributes are the original's."""

    def __init__(self, script: Any, parameters: dict[Any, torch.nn.Parameter]) -> None:
        super().__init__()
        vars(self)["source"] = Source(script)
        for name, parameter in script.named_parameters(recurse=False, remove_duplicate=False):
            storage = _place(parameter)  # parts that share a parameter do so here
            if not isinstance(parameter, torch.nn.Parameter):  # as in one that was read from a file
                parameter = torch.nn.Parameter(parameter, requires_grad=parameter.requires_grad)
            self.register_parameter(name, parameters.setdefault(storage, parameter))
        for name, buffer in script.named_buffers(recurse=False, remove_duplicate=False):
            self.register_buffer(name, buffer)
        for name, part in script._modules.items():
            self.add_module(name, _named(Part, part, parameters))
        self.training = getattr(script, "training", False)  # a frozen one has no mode

    def attribute(self, name: str) -> Any:
        """The value of an attribute in the graph."""
        if name == "training":
            return self.training
        for members in (self._parameters, self._buffers, self._modules):
            if name in members:
                return members[name]
        script = vars(self)["source"].script
        value = script._c.getattr(name)
        if isinstance(value, torch.Tensor) or not _tensors(value):
            return value
        # nn.LSTM keeps its weights in a list, too; within a run in float64, data_ptr would be that of a copy
        with torch._C.DisableTorchFunction():
            names = {_place(parameter): key for key, parameter in script.named_parameters()}
            return torch.utils._pytree.tree_map_only(torch.Tensor, functools.partial(self._parameter, names), value)

    def _parameter(self, names: dict[Any, str], x: torch.Tensor) -> torch.Tensor:
        """The parameter of this part for one that the script keeps in a container; another tensor itself."""
        name = names.get(_place(x))
        if name is None:
            return x
        part, _, own_name = name.rpartition(".")
        parameter = self.get_submodule(part)._parameters[own_name]  # in a run in float64 it is a tensor
        assert parameter is not None
        return parameter


class ScriptPart(Part):
    """A TorchScript module: a call runs its graph, in which its parts are inlined."""

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the scripted module returns."""
        script = vars(self)["source"].script
        arguments = script.forward.schema.arguments[1:]
        bound = _signature(arguments).bind(*args, **kwargs)
        bound.apply_defaults()
        return run(script.inlined_graph, [self, *(bound.arguments[argument.name] for argument in arguments)])


def module_of_script(script: torch.jit.ScriptModule) -> torch.nn.Module:
    """A module of torch that computes what a scripted or traced one does; it is one Cell.

    Raises:
        UsageError: it has no method `forward`, as a scripted nn.LSTM has not, which TorchScript compiles once per form.
    """
    if not hasattr(script, "forward"):
        raise UsageError(
            f"the TorchScript module {script.original_name} has no method forward\n"
            "  what to do: pass the nn.Module that was scripted, or script one that calls it"
        )
    return _named(ScriptPart, script, {})


def _named(base: type[Part], script: Any, parameters: dict[Any, torch.nn.Parameter]) -> Part:
    """A part whose class has the name of the module that was compiled."""
    members: dict[str, Any] = {}
    if base is ScriptPart:
        arguments = script.forward.schema.arguments[1:]

        def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
            return ScriptPart.forward(self, *args, **kwargs)

        kinds = inspect.Parameter
        self_parameter = kinds("self", kinds.POSITIONAL_ONLY)
        vars(forward)["__signature__"] = inspect.Signature([self_parameter, *_signature(arguments).parameters.values()])
        members["forward"] = forward
    members["__module__"] = _MANGLED.sub("", script._c.qualified_name).rpartition(".")[0]
    part: Part = type(script.original_name, (base,), members)(script, parameters)
    return part


def _signature(arguments: Any) -> inspect.Signature:
    kinds = inspect.Parameter
    return inspect.Signature(
        [
            kinds(
                argument.name,
                kinds.KEYWORD_ONLY if argument.kwarg_only else kinds.POSITIONAL_OR_KEYWORD,
                default=argument.default_value if argument.has_default_value() else kinds.empty,
            )
            for argument in arguments
        ]
    )
