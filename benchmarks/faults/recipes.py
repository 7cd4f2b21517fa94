"""How a network is trained, as data, and the scripts that do it: in torch, and with Cells."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from cellbridge.runtime import nn as cells
from cellbridge.runtime import ops, optim, value_and_grad


@dataclass(frozen=True)
class Recipe:
    """How a network is trained.

    Attributes:
        optimizer: "SGD", "Adam" or "AdamW"; for Cells, also a class of `runtime.nn`: "nn.Adam".
        arguments: arguments of the optimizer.
        clip: None, "norm", "value" or "each": the norm of each gradient by itself.
        limit: the limit that gradients are clipped to.
        scale: factor of the loss.
        unscaled: the gradients are divided by it.
        clipped_first: they are clipped before they are divided by the scale.
        accumulate: number of batches per update.
        averaged: their gradients are averaged, not summed.
        zeroed: gradients start at zero in each update.
        reduction: of the loss, "mean" or "sum".
        frozen: prefix of the names of parameters that aren't trained.
        bare: weight decay leaves out vectors.
        factors: what the learning rate is multiplied by in each update.
        train: the network is in train mode.
    """

    optimizer: str = "SGD"
    arguments: Mapping[str, Any] = field(default_factory=lambda: {"lr": 0.1})
    clip: str | None = None
    limit: float = 1.0
    scale: float = 1.0
    unscaled: bool = True
    clipped_first: bool = False
    accumulate: int = 1
    averaged: bool = True
    zeroed: bool = True
    reduction: str = "mean"
    frozen: str | None = None
    bare: bool = False
    factors: tuple[float, ...] = ()
    train: bool = True

    @property
    def divisor(self) -> float:
        """What the sum of the gradients is divided by before the update."""
        return (self.scale if self.unscaled else 1.0) * (self.accumulate if self.averaged else 1)

    def factor(self, update: int) -> float:
        """What the learning rate is multiplied by."""
        return self.factors[min(update, len(self.factors) - 1)] if self.factors else 1.0


def torch_script(recipe: Recipe) -> Callable[..., Iterator[Any]]:
    """Return the script that trains a torch module."""

    def train(network: torch.nn.Module, batches: list[Any]) -> Iterator[Any]:
        network.train(recipe.train)
        for name, parameter in network.named_parameters():
            parameter.requires_grad_(not (recipe.frozen and name.startswith(recipe.frozen)))
        trained = [p for p in network.parameters() if p.requires_grad]
        groups: Any = trained
        if recipe.bare:
            groups = [
                {"params": [p for p in trained if p.dim() > 1]},
                {"params": [p for p in trained if p.dim() == 1], "weight_decay": 0.0},
            ]
        optimizer = getattr(torch.optim, recipe.optimizer)(groups, **recipe.arguments)
        base = recipe.arguments["lr"]
        update, total = 0, 0.0
        for number, (x, y) in enumerate(batches, 1):
            loss = torch.nn.functional.cross_entropy(network(x), y, reduction=recipe.reduction)
            (loss * recipe.scale).backward()
            total = total + loss.detach()
            if number % recipe.accumulate:
                continue
            if recipe.clipped_first:
                _clip_torch(trained, recipe)
            for parameter in trained:
                parameter.grad.div_(recipe.divisor)
            if not recipe.clipped_first:
                _clip_torch(trained, recipe)
            for group in optimizer.param_groups:
                group["lr"] = base * recipe.factor(update)
            optimizer.step()
            update += 1
            if recipe.zeroed:
                optimizer.zero_grad()
            yield total / recipe.accumulate
            total = 0.0

    return train


def _clip_torch(trained: list[torch.nn.Parameter], recipe: Recipe) -> None:
    if recipe.clip == "norm":
        torch.nn.utils.clip_grad_norm_(trained, recipe.limit)
    elif recipe.clip == "value":
        torch.nn.utils.clip_grad_value_(trained, recipe.limit)
    elif recipe.clip == "each":
        for parameter in trained:
            torch.nn.utils.clip_grad_norm_(parameter, recipe.limit)


def cell_script(recipe: Recipe) -> Callable[..., Iterator[Any]]:
    """Return the script that trains a Cell."""

    def train(network: cells.Cell, batches: list[Any]) -> Iterator[Any]:
        network.set_train(recipe.train)
        for parameter in network.get_parameters():
            if parameter.requires_grad and recipe.frozen and parameter.name.startswith(recipe.frozen):
                parameter.requires_grad = False
        trained = list(network.trainable_params())
        optimizer = _cell_optimizer(trained, recipe)
        loss_of = cells.CrossEntropyLoss(reduction=recipe.reduction)

        def forward(x: Any, y: Any) -> tuple[Any, Any]:
            loss = loss_of(network(x), y)
            return loss * recipe.scale, loss

        step = value_and_grad(forward, None, optimizer.parameters, has_aux=True)
        update, total = 0, 0.0
        summed: tuple[Any, ...] | None = None
        for number, (x, y) in enumerate(batches, 1):
            (_, loss), gradients = step(x, y)
            summed = gradients if summed is None else tuple(a + b for a, b in zip(summed, gradients, strict=True))
            total = total + loss
            if number % recipe.accumulate:
                continue
            if recipe.clipped_first:
                summed = _clip_cells(summed, recipe)
            summed = tuple(gradient / recipe.divisor for gradient in summed)
            if not recipe.clipped_first:
                summed = _clip_cells(summed, recipe)
            optimizer(summed)
            update += 1
            if recipe.zeroed:
                summed = None
            yield total / recipe.accumulate
            total = 0.0

    return train


def _cell_optimizer(trained: list[Any], recipe: Recipe) -> Any:
    arguments = dict(recipe.arguments)
    groups: Any = trained
    if recipe.bare:
        groups = [
            {"params": [p for p in trained if len(p.shape) > 1]},
            {"params": [p for p in trained if len(p.shape) == 1], "weight_decay": 0.0},
        ]
    if recipe.factors:
        name = "learning_rate" if recipe.optimizer.startswith("nn.") else "lr"
        arguments[name] = [arguments[name] * recipe.factor(update) for update in range(32)]
    package, _, name = recipe.optimizer.rpartition(".")
    return getattr(cells if package else optim, name)(groups, **arguments)


def _clip_cells(gradients: tuple[Any, ...], recipe: Recipe) -> tuple[Any, ...]:
    if recipe.clip == "norm":
        return tuple(ops.clip_by_norm(gradients, recipe.limit))
    if recipe.clip == "value":
        return tuple(ops.clip_by_value(gradients, -recipe.limit, recipe.limit))
    if recipe.clip == "each":
        return tuple(ops.clip_by_norm(gradient, recipe.limit) for gradient in gradients)
    return gradients
