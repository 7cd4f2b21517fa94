"""Faults in training: a step or an optimizer of the port that differs from torch's."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from cellbridge.parity.correspondence.cells import pair_up
from cellbridge.parity.jobs.training.scripts import CellTraining, TorchTraining
from cellbridge.parity.options import Options
from cellbridge.parity.sides.known_frameworks import framework_of
from cellbridge.parity.weights.mapping import carry

from . import trained_networks
from .cases import SOUND, Case
from .pairs import Pair
from .recipes import Recipe, cell_script, torch_script

SGD, MOMENTUM = {"lr": 0.1}, {"lr": 0.1, "momentum": 0.9}
ADAM, DECAYED = {"lr": 0.01}, {"lr": 0.01, "weight_decay": 0.1}


@dataclass(frozen=True)
class TrainingFault:
    """A recipe, and what of it is different in the port.

    Attributes:
        label: what is wrong.
        recipe: how the module is trained.
        changes: fields of the recipe of the port that are different; `arguments` are merged with those of the recipe.
        words: as in `Case`.
        attribute: the argument that is wrong, if it is one, with the values of both sides.
        network: name of the network.
        port: arguments of the port's class.
        tensors: names of the parameters and buffers that are wrong in the first step that differs; empty for all.
        sound: the port's recipe is another way to do the same.
    """

    label: str
    recipe: Recipe
    changes: Mapping[str, Any]
    words: str
    attribute: tuple[str, Any, Any] | None = None
    network: str = "mlp"
    port: Mapping[str, Any] = field(default_factory=dict)
    tensors: tuple[str, ...] = ()
    sound: bool = False

    @property
    def expected(self) -> Mapping[str, Any]:
        """What a tool should say of the cause."""
        if self.attribute is None:
            return {"kind": ("optimizer", "gradient", "state"), "words": tuple(self.words.split())}
        name, reference, candidate = self.attribute
        return {"kind": ("optimizer", "attribute"), "name": name, "reference": reference, "candidate": candidate}

    def pair(self) -> Pair:
        """Return both networks with their scripts."""
        module, cell, data = trained_networks.make(self.network, **self.port)
        changes = dict(self.changes)
        arguments = {**self.recipe.arguments, **changes.pop("arguments", {})}
        arguments = {name: value for name, value in arguments.items() if value is not None}
        theirs = replace(self.recipe, arguments=arguments, **changes)
        scripts = torch_script(self.recipe), cell_script(theirs)
        return Pair(module, cell, scripts=scripts, data=data, options={"difference": _difference})


def _argument(label: str, recipe: Recipe, name: str, value: Any, words: str, network: str = "mlp") -> TrainingFault:
    default = inspect.signature(getattr(torch.optim, recipe.optimizer)).parameters[name].default
    reference, candidate = recipe.arguments.get(name, default), default if value is None else value
    changes = {"arguments": {name: value}}
    if name == "betas":
        index = next(i for i in (0, 1) if reference[i] != candidate[i])
        name, reference, candidate = f"betas[{index}]", reference[index], candidate[index]
    return TrainingFault(label, recipe, changes, words, (name, reference, candidate), network)


VECTORS = ("fc1.bias", "norm.weight", "fc2.bias")  # the norm's bias starts at 0, where nothing decays
STATISTICS = ("bn.running_mean", "bn.running_var")
ADAM_RECIPE, ADAMW = Recipe("Adam", ADAM), Recipe("AdamW", DECAYED)
SGD_RECIPE, HEAVY = Recipe("SGD", SGD), Recipe("SGD", MOMENTUM)
CLIPPED = Recipe("SGD", SGD, clip="norm", limit=0.1)
SCALED = Recipe("Adam", ADAM, scale=128.0)
SUMMED = Recipe("SGD", SGD, accumulate=2)

FAULTS = [
    _argument("sgd/learning rate", SGD_RECIPE, "lr", 0.11, "learning"),
    _argument("adam/learning rate", ADAM_RECIPE, "lr", 0.02, "learning"),
    _argument("adam/learning rate of the cnn", ADAM_RECIPE, "lr", 0.001, "learning", "cnn"),
    _argument("sgd/momentum", HEAVY, "momentum", 0.8, "momentum"),
    _argument("sgd/momentum left out", HEAVY, "momentum", 0.0, "momentum"),
    _argument("sgd/dampening", HEAVY, "dampening", 0.1, "dampening|momentum"),
    _argument("sgd/nesterov", HEAVY, "nesterov", True, "nesterov"),
    TrainingFault("sgd/nesterov left out", replace(HEAVY, arguments={**MOMENTUM, "nesterov": True}),
                  {"arguments": {"nesterov": False}}, "nesterov", ("nesterov", True, False)),
    _argument("sgd/weight decay", SGD_RECIPE, "weight_decay", 0.01, "weight decay"),
    _argument("adam/first beta", ADAM_RECIPE, "betas", (0.8, 0.999), "beta"),
    _argument("adam/second beta", ADAM_RECIPE, "betas", (0.9, 0.99), "beta"),
    _argument("adam/eps", ADAM_RECIPE, "eps", 1e-6, "eps"),
    _argument("adam/amsgrad", ADAM_RECIPE, "amsgrad", True, "amsgrad"),
    _argument("adamw/weight decay", ADAMW, "weight_decay", 0.01, "weight decay"),
    _argument("adamw/weight decay by default", ADAMW, "weight_decay", None, "weight decay"),
    TrainingFault("adam/coupled decay", ADAMW, {"optimizer": "Adam"}, "decay decoupled|coupled",
                  ("optimizer", "AdamW", "Adam")),
    TrainingFault("adam/decoupled decay", Recipe("Adam", DECAYED), {"optimizer": "AdamW"}, "decay decoupled|coupled",
                  ("optimizer", "Adam", "AdamW")),
    TrainingFault("adam/no bias correction", ADAM_RECIPE, {"optimizer": "nn.AdamWeightDecay", "arguments":
                  {"lr": None, "learning_rate": 0.01, "eps": 1e-8}}, "bias correction"),
    TrainingFault("adam/eps before the correction", Recipe("Adam", {"lr": 0.01, "eps": 1e-4}), {"optimizer": "nn.Adam",
                  "arguments": {"lr": None, "learning_rate": 0.01}}, "eps"),
    TrainingFault("adam/sgd instead", ADAM_RECIPE, {"optimizer": "SGD"}, "sgd|optimizer"),
    TrainingFault("sgd/decay of vectors", replace(SGD_RECIPE, arguments={"lr": 0.1, "weight_decay": 0.1}, bare=True),
                  {"bare": False}, "weight decay", tensors=VECTORS),
    TrainingFault("adamw/decay of matrices only", ADAMW, {"bare": True}, "weight decay", tensors=VECTORS),
    TrainingFault("clip/limit", CLIPPED, {"limit": 0.2}, "clip"),
    TrainingFault("clip/left out", CLIPPED, {"clip": None}, "clip"),
    TrainingFault("clip/values", CLIPPED, {"clip": "value"}, "clip"),
    TrainingFault("clip/each by itself", CLIPPED, {"clip": "each"}, "clip"),
    TrainingFault("clip/norm for value", replace(CLIPPED, clip="value", limit=0.05), {"clip": "norm"}, "clip"),
    TrainingFault("clip/before the scale is divided out", replace(CLIPPED, scale=64.0), {"clipped_first": True},
                  "clip scale"),
    TrainingFault("scale/not divided out", replace(SCALED, optimizer="SGD", arguments=SGD), {"unscaled": False},
                  "loss scale"),
    TrainingFault("scale/not divided out of adam", replace(SCALED, arguments={"lr": 0.01, "eps": 1e-4}),
                  {"unscaled": False}, "loss scale"),
    TrainingFault("gradients/not zeroed", SGD_RECIPE, {"zeroed": False}, "gradient zero|accumul|step before"),
    TrainingFault("gradients/not zeroed of adam", ADAM_RECIPE, {"zeroed": False}, "gradient zero|accumul|step before"),
    TrainingFault("accumulation/sum", SUMMED, {"averaged": False}, "sum mean|accumul"),
    TrainingFault("accumulation/sum in adam", replace(SUMMED, optimizer="Adam", arguments={"lr": 0.01, "eps": 1e-3}),
                  {"averaged": False}, "sum mean|accumul"),
    TrainingFault("loss/sum", SGD_RECIPE, {"reduction": "sum"}, "sum mean"),
    TrainingFault("frozen/not", replace(SGD_RECIPE, frozen="fc1"), {"frozen": None}, "frozen",
                  tensors=("fc1.weight", "fc1.bias")),
    TrainingFault("frozen/another group", replace(ADAM_RECIPE, frozen="fc1"), {"frozen": "norm"}, "frozen",
                  tensors=("fc1.weight", "fc1.bias", "norm.weight", "norm.bias")),
    TrainingFault("frozen/too much", ADAM_RECIPE, {"frozen": "conv"}, "frozen", network="cnn",
                  tensors=("conv.weight", "conv.bias")),
    TrainingFault("schedule/late by one", replace(SGD_RECIPE, factors=(0.2, 0.4, 0.6, 0.8, 1.0)),
                  {"factors": (0.2, 0.2, 0.4, 0.6, 0.8)}, "schedule|learning"),
    TrainingFault("schedule/left out", replace(ADAM_RECIPE, factors=(1.0, 1.0, 0.5)), {"factors": ()},
                  "schedule|learning"),
    TrainingFault("statistics/momentum from the other end", SGD_RECIPE, {}, "momentum", ("momentum", 0.1, 0.1), "cnn",
                  {"momentum": 0.1}, STATISTICS),
    TrainingFault("statistics/moving ones used", SGD_RECIPE, {}, "statistics|eval", None, "cnn",
                  {"batch_statistics": False}),
    TrainingFault("statistics/eval mode", SGD_RECIPE, {"train": False}, "eval", None, "cnn"),
    TrainingFault("dropout/rate", SGD_RECIPE, {}, "dropout", ("p", 0.2, 0.4), "cnn", {"dropout": 0.4}),
]  # fmt: skip

SOUND_PAIRS = [
    TrainingFault("sgd", SGD_RECIPE, {}, "", sound=True),
    TrainingFault("momentum", HEAVY, {}, "", network="cnn", sound=True),
    TrainingFault("nesterov", replace(HEAVY, arguments={**MOMENTUM, "nesterov": True}), {}, "", sound=True),
    TrainingFault("adam", ADAM_RECIPE, {}, "", network="cnn", sound=True),
    TrainingFault("adamw", ADAMW, {}, "", sound=True),
    TrainingFault("adamw of matrices", replace(ADAMW, bare=True), {}, "", network="cnn", sound=True),
    TrainingFault("amsgrad", Recipe("Adam", {"lr": 0.01, "amsgrad": True}), {}, "", sound=True),
    TrainingFault("clipped", CLIPPED, {}, "", sound=True),
    TrainingFault("clipped values", replace(CLIPPED, clip="value", limit=0.02), {}, "", network="cnn", sound=True),
    TrainingFault("scaled", SCALED, {}, "", sound=True),
    TrainingFault("scaled here only", SGD_RECIPE, {"scale": 1024.0}, "", sound=True),
    TrainingFault("scaled there only", replace(ADAM_RECIPE, scale=512.0), {"scale": 1.0}, "", network="cnn",
                  sound=True),
    TrainingFault("accumulated", SUMMED, {}, "", sound=True),
    TrainingFault("scheduled", replace(ADAM_RECIPE, factors=(0.2, 0.4, 0.6, 0.8, 1.0)), {}, "", sound=True),
    TrainingFault("frozen", replace(SGD_RECIPE, frozen="fc1"), {}, "", sound=True),
    TrainingFault("nn.Momentum", HEAVY, {"optimizer": "nn.Momentum", "arguments": {"lr": None, "learning_rate": 0.1}},
                  "", sound=True),
    TrainingFault("nn.SGD", SGD_RECIPE, {"optimizer": "nn.SGD", "arguments": {"lr": None, "learning_rate": 0.1}}, "",
                  network="cnn", sound=True),
]  # fmt: skip


def cases() -> list[Case]:
    """Return one case for each fault."""
    return [
        Case(
            f"training/{fault.label}", fault.network, SOUND if fault.sound else "training", fault.tensors, fault.label,
            () if fault.sound else (fault.expected,), tuple(fault.words.split()), fault.pair,
        )
        for fault in [*FAULTS, *SOUND_PAIRS]
    ]  # fmt: skip


def _difference(pair: Pair) -> float:
    """The largest relative difference of any parameter or buffer after any step, in float64."""
    assert pair.scripts is not None
    working = Options().dtype
    batches = [tuple(np.asarray(part) for part in batch) for batch in pair.data]
    weights = carry(pair.reference, pair.candidate, pair_up(pair.reference, pair.candidate, None), None, torch.float32)
    there = TorchTraining(pair.reference, pair.scripts[0], batches, working, 0).run("float64")
    framework = framework_of(pair.candidate)
    assert framework is not None
    port = CellTraining(framework, pair.candidate, pair.scripts[1], batches, weights, working)
    here = port.run("float64", there.draws)
    largest = 0.0
    for one, other in zip(there.steps, here.steps, strict=True):
        for quantity in one.keys() & other.keys():
            a, b = (np.asarray(step[quantity], np.float64) for step in (one, other))
            largest = max(largest, float(np.abs(a - b).max() / (np.abs(a).max() or 1.0)))
    return largest
