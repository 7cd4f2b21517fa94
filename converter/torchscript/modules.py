"""Modules that compute what a scripted or traced module computes, with the same parameters and buffers."""

from __future__ import annotations

import inspect
from typing import Any

import torch

from ...runtime.errors import UsageError
from .interpreter import run


class Source:
    """A scripted module that a part stands for; copies of the part share it, as they only read its settings."""

    def __init__(self, script: Any) -> None:
        self.script = script

    def __deepcopy__(self, memo: Any) -> Source:
        return self


class Part(torch.nn.Module):
    """A part of a TorchScript module: its parameters, buffers and parts. Other attributes are the original's."""

    def __init__(self, script: Any, parameters: dict[int, torch.nn.Parameter]) -> None:
        super().__init__()
        vars(self)["source"] = Source(script)
        for name, parameter in script.named_parameters(recurse=False):
            place = parameter.data_ptr() or id(parameter)  # parts that share a parameter do so here
            if not isinstance(parameter, torch.nn.Parameter):  # as in one that was read from a file
                parameter = torch.nn.Parameter(parameter, requires_grad=parameter.requires_grad)
            self.register_parameter(name, parameters.setdefault(place, parameter))
        for name, buffer in script.named_buffers(recurse=False):
            self.register_buffer(name, buffer)
        for name, part in script.named_children():
            self.add_module(name, _named(Part, part, parameters))
        self.training = getattr(script, "training", False)  # a frozen one has no mode

    def attribute(self, name: str) -> Any:
        """The value of an attribute in the graph."""
        if name == "training":
            return self.training
        for own in (self._parameters, self._buffers, self._modules):
            if name in own:
                return own[name]
        script = vars(self)["source"].script
        value = script._c.getattr(name)
        if isinstance(value, list) and value and all(isinstance(item, torch.Tensor) for item in value):
            names = {parameter.data_ptr(): key for key, parameter in script.named_parameters(recurse=False)}
            return [self._parameters[names[x.data_ptr()]] if x.data_ptr() in names else x for x in value]
        return value


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


def _named(base: type[Part], script: Any, parameters: dict[int, torch.nn.Parameter]) -> Part:
    """A part whose class has the name of the module that was compiled."""
    members: dict[str, Any] = {}
    if base is ScriptPart:
        arguments = script.forward.schema.arguments[1:]

        def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
            return ScriptPart.forward(self, *args, **kwargs)

        kinds = inspect.Parameter
        own = kinds("self", kinds.POSITIONAL_ONLY)
        vars(forward)["__signature__"] = inspect.Signature([own, *_signature(arguments).parameters.values()])
        members["forward"] = forward
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
