"""What the reference shows, in which order, and on which page."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any


class Unplaced(LookupError):
    """Public names that no group has."""


@dataclass(frozen=True)
class Group:
    """A section of a page, or a page of its own.

    Attributes:
        title: its heading.
        entries: public names, and modules behind `cellbridge.` all of whose public names belong to it, in this order.
    """

    title: str
    entries: tuple[str, ...]

    @property
    def page(self) -> str:
        """Name of its file, where it is a page."""
        return re.sub(r"\W+", "_", self.title.lower())


@dataclass(frozen=True)
class Package:
    """A page, or a list of pages.

    Attributes:
        module: the package, behind `cellbridge.`.
        sentence: what it is for.
        groups: its sections. What another package's groups have is documented there.
        paged: whether every group is a page.
        unexported: classes, behind `cellbridge.`, whose fields functions of the package take as keywords.
    """

    module: str
    sentence: str
    groups: tuple[Group, ...]
    paged: bool = False
    unexported: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """As it is imported."""
        return f"cellbridge.{self.module}"

    def values(self) -> dict[str, Any]:
        """What it offers, by name."""
        module = importlib.import_module(self.name)
        values = {name: getattr(module, name) for name in public_names(module)}
        for path in self.unexported:
            place, _, name = path.rpartition(".")
            values[name] = getattr(importlib.import_module(f"cellbridge.{place}"), name)
        return values


def _functional(title: str, *modules: str) -> Group:
    return Group(title, tuple(f"runtime.functional.{module}" for module in modules))


def _layers(title: str, *modules: str) -> Group:
    return Group(title, tuple(f"runtime.nn.layer.{module}" for module in modules))


PACKAGES = {  # by the name of the page
    "parity": Package(
        "parity",
        "Judging from Python and from tests.",
        (
            Group(
                "Check and compare",
                ("check", "compare", "assert_parity", "check_training", "assert_training_parity"),
            ),
            Group("Checkpoints", ("check_checkpoint", "assert_checkpoint", "CheckpointReport")),
            Group("What runs elsewhere", ("record", "judge", "compare_training", "jax_side", "explain_optimizer")),
            Group("Options", ("Options", "TrainingConfig")),
            Group("Progress", ("ProgressDisplay",)),
            Group("Reports", ("Report", "TrainingReport", "CellReport", "Comparison")),
        ),
        unexported=("parity.options.Options", "parity.jobs.training.training_config.TrainingConfig"),
    ),
    "converter": Package(
        "converter",
        "From torch and ONNX to programs, and from programs to ONNX, torch and Cells.",
        (
            Group("To programs", ("from_torch", "from_onnx", "from_jax")),
            Group("From programs", ("converter",)),
        ),
    ),
    "runtime": Package(
        "runtime",
        "Programs, the interpreter, compiled programs, and what Cells are written with.",
        (
            Group(
                "Programs",
                (
                    "load",
                    "compile",
                    "trace",
                    "execute",
                    "verify",
                    "runtime.ir",
                    "runtime.compiled",
                    "runtime.graph.traced",
                ),
            ),
            Group("Gradients", ("value_and_grad", "grad", "get_grad", "runtime.eager")),
            Group("Training steps", ("runtime.train_step",)),
            Group("Graph mode", ("runtime.graph.compiling", "runtime.common.noop_compat")),
            Group("Tensors, dtypes and settings", ("tensor", "runtime.common.dtype", "runtime.context")),
            Group("Errors", ("runtime.errors",)),
        ),
    ),
    "nn": Package(
        "runtime.nn",
        "Cells: layers, losses, optimizers, schedules and wrappers.",
        (
            Group(
                "Cells",
                (
                    "runtime.nn.cell",
                    "runtime.nn.graph_cell",
                    "runtime.nn.layer.container",
                    "runtime.nn.layer.timedistributed",
                ),
            ),
            _layers("Dense layers and embeddings", "dense", "basic", "combined", "embedding", "math"),
            _layers(
                "Convolution and pooling", "conv", "conv_transpose", "pooling", "adaptive_pooling", "special_pooling"
            ),
            _layers("Activations", "activation", "rectifier"),
            _layers("Normalization", "batch_norm", "normalization"),
            _layers(
                "Padding and images", "padding", "image", "rearranging", "channel_shuffle", "structural_similarity"
            ),
            _layers("Recurrent layers and attention", "rnns", "rnn_cells", "multihead_attention", "transformer"),
            Group("Losses", ("runtime.nn.loss",)),
            Group("Optimizers", ("Optimizer", "runtime.nn.optim")),
            Group("Learning rates", ("runtime.nn.learning_rate_schedule", "runtime.nn.dynamic_lr")),
            Group("Wrappers and metrics", ("runtime.nn.wrap", "get_metrics")),
        ),
        paged=True,
    ),
    "ops": Package(
        "runtime.ops",
        "Operators on tensors. An operator object, such as `ReLU`, is described with its function.",
        (
            _functional("Arithmetic", "arithmetic", "compound", "roundings", "clipping"),
            _functional("Mathematical functions", "mathematics", "trigonometry"),
            _functional("Comparison and logic", "comparisons", "logic"),
            _functional("Reductions", "reductions", "extremes", "statistics", "norms", "scanning", "counting"),
            _functional("Sorting and searching", "sorting", "searching"),
            _functional(
                "Linear algebra", "linear_algebra", "inverting", "matrices", "combining", "bilinear", "distances"
            ),
            _functional("Shapes", "shapes", "permuting", "conversion"),
            _functional("Joining, splitting and padding", "joining", "padding", "patches"),
            _functional("Indexing", "indexing", "subscripts", "segments", "sequences"),
            _functional("Scattering and updating", "scattering", "updating"),
            _functional("Creation and random numbers", "creation", "random", "windows"),
            _functional("Activations", "activations", "rectifiers", "gates"),
            _functional(
                "Convolution and pooling",
                "convolution",
                "convolution_objects",
                "pooling",
                "adaptive_pooling",
                "special_pooling",
            ),
            _functional("Normalization and dropout", "normalization", "dropout"),
            _functional("Losses", "losses", "margin_losses", "cross_entropy", "ctc"),
            _functional("Images and boxes", "images", "resizing", "sampling", "boxes", "regions"),
            Group(
                "Mapping, tracking and status",
                ("runtime.functional.mapping", "runtime.functional.tracking", "runtime.functional.status", "constexpr"),
            ),
            Group("The ops of programs", ("runtime.ops.registry",)),
        ),
        paged=True,
    ),
    "optim": Package(
        "runtime.optim", "Optimizers with the formulas of `torch.optim`.", (Group("Optimizers", ("runtime.optim",)),)
    ),
    "amp": Package(
        "runtime.amp",
        "Mixed precision and loss scales.",
        (
            Group("Networks in half precision", ("runtime.amp.mixed_precision", "runtime.amp.training")),
            Group("Loss scales", ("runtime.nn.wrap.loss_scalers", "runtime.amp.managers")),
        ),
    ),
    "train": Package(
        "runtime.train",
        "Training loops, callbacks, metrics and checkpoints.",
        (
            Group("Training loop", ("runtime.train.model",)),
            Group("Callbacks", ("runtime.train.callbacks",)),
            Group("Checkpoints", ("runtime.train.serialization",)),
            Group("Metrics", ("runtime.train.metrics",)),
        ),
    ),
    "common": Package(
        "runtime.common",
        "Tensors, Parameters and random seeds.",
        (Group("Tensors", ("Tensor", "Parameter", "ParameterTuple")), Group("Random seeds", ("runtime.common.seed",))),
    ),
}
_PROGRAMMING = ("cellbridge.runtime.lazy",)  # how packages load their names


def public_names(module: ModuleType) -> list[str]:
    """What a package offers: what it lists, without modules, dtypes and private names."""
    names = {*dir(module), *getattr(module, "__all__", ())}
    return sorted(name for name in names if not name.startswith("_") and _is_public(getattr(module, name)))


def _is_public(value: Any) -> bool:
    origin = getattr(value, "__module__", None) or ""
    described = inspect.isclass(value) or inspect.isroutine(value)
    return described and origin.startswith("cellbridge") and origin not in _PROGRAMMING


def origin(value: Any) -> str:
    """The module behind `cellbridge.` that defines a value; that of its function for an operator object."""
    function = vars(value).get("_function") if inspect.isclass(value) else None
    return str((function.__func__ if function else value).__module__).removeprefix("cellbridge.")


def members(package: Package) -> dict[Group, list[str]]:
    """The names that a package documents, by group. A name belongs to the first group that has it."""
    values = package.values()
    rest = dict(values)
    listed: dict[Group, list[str]] = {group: [] for group in package.groups}
    named = {entry for group in package.groups for entry in group.entries if entry in values}
    for group in package.groups:
        for entry in group.entries:
            chosen = (
                [entry]
                if entry in values
                else [
                    name
                    for name in sorted(rest, key=lambda name: (name.lower(), name))
                    if name not in named and f"{origin(rest[name])}.".startswith(f"{entry}.")
                ]
            )
            listed[group] += chosen
            for name in chosen:
                del rest[name]
    return listed


def homes(packages: Mapping[str, Package]) -> dict[int, str]:
    """The qualified name under which a value is documented, by its id.

    Raises:
        Unplaced: a public name isn't in any group.
    """
    found: dict[int, str] = {}
    for package in packages.values():
        values = package.values()
        for names in members(package).values():
            for name in sorted(names, key=lambda name: values[name].__name__ != name):  # its own name before others
                found.setdefault(id(values[name]), f"{package.name}.{name}")
    lost = [
        f"{package.name}.{name}"
        for package in packages.values()
        for name, value in package.values().items()
        if id(value) not in found
    ]
    if lost:
        raise Unplaced(f"no group of docs/site_pages/contents.py has {', '.join(lost)}")
    return found
