"""Parameters that several Cells of a torch module hold."""

from __future__ import annotations

from collections.abc import Collection

import torch

from ...converter.structure.program_names import named_modules, named_parameters


def shared_parameters(
    module: torch.nn.Module, cell_paths: Collection[str] | None, also: Collection[str]
) -> dict[torch.nn.Module, dict[str, str]]:
    """For modules that share parameters with others, the qualified names of these parameters by attribute.

    Args:
        module: the network.
        cell_paths: paths of the modules that are Cells; None for all.
        also: names of parameters that count as shared although a single module holds them.
    """
    names = {p: name for name, p in named_parameters(module)}
    holders: dict[torch.nn.Parameter, list[tuple[torch.nn.Module, str]]] = {}
    for path, _, owner in named_modules(module):
        if cell_paths is not None and path not in cell_paths:
            continue
        for attribute, parameter in owner._parameters.items():
            if parameter is not None and not isinstance(
                owner, torch.nn.RNNBase
            ):  # RNNs keep their own list of parameters
                holders.setdefault(parameter, []).append((owner, attribute))
    shared: dict[torch.nn.Module, dict[str, str]] = {}
    for parameter, places in holders.items():
        if (len(places) > 1 or names[parameter] in also) and parameter.requires_grad:
            for owner, attribute in places:
                shared.setdefault(owner, {})[attribute] = names[parameter]
    return shared
