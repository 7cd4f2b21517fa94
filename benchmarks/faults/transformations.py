"""Ways to change a network that change nothing: the wrappers and rewritings that any network can get."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Wrapper(nn.Module):
    """A network inside another module, with a prefix before all its names."""

    def __init__(self, inner: nn.Module, name: str) -> None:
        super().__init__()
        self.inner_name = name
        self.add_module(name, inner)

    def forward(self, *args: Any) -> Any:
        return self.get_submodule(self.inner_name)(*args)


def data_parallel(network: nn.Module) -> nn.Module:
    """As `DataParallel` and `DistributedDataParallel` wrap it: every name starts with `module.`."""
    return Wrapper(network, "module")


def compiled_names(network: nn.Module) -> nn.Module:
    """As `torch.compile` wraps it: every name starts with `_orig_mod.`."""
    return torch.compile(network, backend="eager")  # type: ignore[return-value]


def parent(network: nn.Module) -> nn.Module:
    """Inside a larger module that hands everything on."""
    return Wrapper(network, "backbone")


def channels_last(network: nn.Module) -> nn.Module:
    """The weights of convolutions in another memory layout."""
    return network.to(memory_format=torch.channels_last)  # type: ignore[call-overload, no-any-return]


def non_contiguous(network: nn.Module) -> nn.Module:
    """Matrices stored column by column."""
    for parameter in network.parameters():
        if parameter.dim() == 2:
            parameter.data = parameter.data.T.contiguous().T
    return network


def checkpointed(network: nn.Module) -> nn.Module:
    """Every module of a list or sequence runs again in the backward pass."""
    for container in list(network.modules()):
        if isinstance(container, (nn.ModuleList, nn.Sequential)):
            for inner in container:
                _checkpoint(inner)
    return network


def _checkpoint(module: nn.Module) -> None:
    original = type(module)

    def forward(self: nn.Module, *args: Any) -> Any:
        if torch.is_grad_enabled():
            return checkpoint(original.forward, self, *args, use_reentrant=False)
        return original.forward(self, *args)

    module.__class__ = type(original.__name__, (original,), {"forward": forward, "__module__": original.__module__})


def with_dropout(network: nn.Module) -> nn.Module:
    """Dropout of 0 and identities behind every linear layer."""

    class Linear(nn.Linear):
        def __init__(self, inner: nn.Linear) -> None:
            nn.Module.__init__(self)
            self.in_features, self.out_features = inner.in_features, inner.out_features
            self.weight, self.bias = inner.weight, inner.bias

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return nn.functional.dropout(x @ self.weight.T + (0.0 if self.bias is None else self.bias), 0.5, False)

    for path, module in list(network.named_modules()):
        if type(module) is nn.Linear and path:
            above, _, name = path.rpartition(".")
            setattr(network.get_submodule(above), name, Linear(module))
    return network


class OwnLayerNorm(nn.LayerNorm):
    """A layer norm from its formula."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        axes = tuple(range(-len(self.normalized_shape), 0))
        centred = x - x.mean(axes, keepdim=True)
        return centred / torch.sqrt((centred**2).mean(axes, keepdim=True) + self.eps) * self.weight + self.bias


class OwnBatchNorm(nn.BatchNorm2d):
    """A batch norm in eval mode as one factor and one offset."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        factor = self.weight / torch.sqrt(self.running_var + self.eps)  # type: ignore[operator]
        offset = self.bias - self.running_mean * factor
        return x * factor[:, None, None] + offset[:, None, None]


class OwnGelu(nn.GELU):
    """A GELU from its formula."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return 0.5 * x * (1 + torch.erf(x * 0.5**0.5))


class OwnGroupNorm(nn.GroupNorm):
    """A group norm from its formula."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        groups = x.reshape(x.shape[0], self.num_groups, -1)
        variance, mean = torch.var_mean(groups, dim=-1, keepdim=True, correction=0)
        y = ((groups - mean) * torch.rsqrt(variance + self.eps)).reshape(x.shape)
        shape = (1, -1, *[1] * (x.dim() - 2))
        return y * self.weight.view(shape) + self.bias.view(shape)


class OwnConv(nn.Conv2d):
    """A convolution as a product with the unfolded windows."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.groups != 1:
            return super().forward(x)
        windows = nn.functional.unfold(x, self.kernel_size, self.dilation, self.padding, self.stride)
        y = self.weight.flatten(1) @ windows
        sizes = [
            (n + 2 * p - d * (k - 1) - 1) // s + 1
            for n, p, d, k, s in zip(
                x.shape[-2:], self.padding, self.dilation, self.kernel_size, self.stride, strict=True
            )
        ]
        y = y.unflatten(-1, sizes)
        return y if self.bias is None else y + self.bias[:, None, None]


class OwnEmbedding(nn.Embedding):
    """An embedding as a product with one-hot vectors; not for one with a row that isn't trained."""

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return nn.functional.one_hot(ids, self.num_embeddings).to(self.weight.dtype) @ self.weight


OWN = {
    nn.LayerNorm: OwnLayerNorm,
    nn.BatchNorm2d: OwnBatchNorm,
    nn.GELU: OwnGelu,
    nn.GroupNorm: OwnGroupNorm,
    nn.Conv2d: OwnConv,
    nn.Embedding: OwnEmbedding,
}


def from_formulas(network: nn.Module) -> nn.Module:
    """Layers computed from their formulas, under the same names."""
    for module in network.modules():
        if isinstance(module, nn.GELU) and module.approximate != "none":
            continue
        if getattr(module, "padding_mode", "zeros") == "zeros" and getattr(module, "padding_idx", None) is None:
            module.__class__ = OWN.get(type(module), type(module))
    return network


def in_place(network: nn.Module) -> nn.Module:
    """Copies of all modules with their parameters made anew, and activations that overwrite their input."""
    network = copy.deepcopy(network)
    for module in network.modules():
        if hasattr(module, "inplace"):
            module.inplace = True
    return network


def renamed_classes(network: nn.Module) -> nn.Module:
    """Every class of the network's own has another name."""
    for module in network.modules():
        if not type(module).__module__.startswith("torch."):
            module.__class__ = type(f"My{type(module).__name__}", (type(module),), {})
    return network


TRANSFORMATIONS = {
    "copied": lambda network: network,
    "prefix module.": data_parallel,
    "prefix _orig_mod.": compiled_names,
    "inside another module": parent,
    "channels last": channels_last,
    "matrices by column": non_contiguous,
    "gradient checkpointing": checkpointed,
    "linear layers rewritten": with_dropout,
    "layers from their formulas": from_formulas,
    "in place": in_place,
    "classes renamed": renamed_classes,
}
