"""The cause of a wrong result of ONNX Runtime, found by running the model with other settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ...results.cause import Cause
from ..budget import BudgetSpentError
from .experiment import DEFAULT, NOT_OPTIMIZED, Expected, Experiment, Settings
from .nodes import WrongNode, first_wrong_node, interpret
from .optimizers import optimizers_in, responsible

LEVELS = {
    NOT_OPTIMIZED: "ORT_DISABLE_ALL",
    1: "ORT_ENABLE_BASIC",
    2: "ORT_ENABLE_EXTENDED",
    3: "ORT_ENABLE_LAYOUT",
    99: "ORT_ENABLE_ALL",
}
"""The levels of `onnxruntime.GraphOptimizationLevel`, each with the optimizers of those before."""


def find_cause(experiment: Experiment) -> Cause | None:
    """Return what makes ONNX Runtime compute a wrong result, with the option of the session that avoids it.

    If the model itself is wrong, that is the cause. None if the result isn't wrong again, or if time runs out before
    anything is known.
    """
    try:
        if experiment.is_always_right(DEFAULT):
            return None
        cause = _avoidable(experiment) or _unavoidable(experiment)
    except BudgetSpentError:
        return None
    return cause


def _avoidable(experiment: Experiment) -> Cause | None:
    """Return a cause that an option of the session avoids: of optimizers, threads or the provider."""
    alone = Settings(threads=1)
    if experiment.is_always_right(Settings(level=NOT_OPTIMIZED)):
        return _of_optimizers(experiment)
    if experiment.is_always_right(alone):
        return _cause(experiment, "it computes something else on several threads", alone, "intra_op_num_threads", 1)
    if experiment.model.provider != "cpu" and experiment.is_right(Settings(provider="cpu")):
        summary = f"its provider for {experiment.model.provider} computes something else than the one for the CPU"
        return _cause(experiment, summary, Settings(provider="cpu"), "providers", ["CPUExecutionProvider"])
    return None


def _of_optimizers(experiment: Experiment) -> Cause:
    """Return a cause that is gone without optimizations: the optimizers, or else the level, that change the result."""
    right = {level: experiment.is_right(Settings(level=level)) for level in LEVELS}
    lowest = next((LEVELS[level] for level, is_right in right.items() if not is_right), LEVELS[max(LEVELS)])
    names = responsible(experiment, optimizers_in(experiment.log()))
    if not names:
        highest = max(level for level, is_right in right.items() if is_right)
        summary = f"optimizers from level {lowest} on change the result"
        return _cause(experiment, summary, Settings(level=highest), "graph_optimization_level", LEVELS[highest])
    which = f"optimizer {names[0]} changes" if len(names) == 1 else f"optimizers {' and '.join(names)} change"
    summary = f"its {which} the result, from level {lowest} on"
    return _cause(experiment, summary, Settings(disabled=tuple(names)), "disabled_optimizers", names, names)


def _unavoidable(experiment: Experiment) -> Cause | None:
    """Return the kernel that is wrong with every setting, or say that the model is; None if it can't be read."""
    values = interpret(experiment, list(experiment.expected))
    if values is None:
        return None
    wrong = {name: e for name, e in experiment.expected.items() if e.ratio(values.exact[name]) > 1}
    if wrong:
        return _of_model(experiment, {name: replace(e, array=values.exact[name]) for name, e in wrong.items()})
    node = first_wrong_node(experiment)
    where = f"its kernel of {_in_words(node)}" if node else "one of its kernels is wrong"
    summary = f"ONNX Runtime is wrong: {where}, without optimizations and on one thread too"
    return Cause("onnxruntime", summary, op=node.op if node else "", node=node.name if node else "")


def _of_model(experiment: Experiment, interpreted: Mapping[str, Expected]) -> Cause | None:
    """Return that the model is wrong, if ONNX Runtime computes what the interpreter does from it in float64."""
    results = experiment.run(experiment.model.model, list(interpreted), DEFAULT) or {}
    if any(e.ratio(results.get(name)) > 1 for name, e in interpreted.items()):
        return None
    error = max(e.relative(results[name]) for name, e in interpreted.items())
    return Cause("model", "the ONNX model is wrong, and ONNX Runtime computes what it says", error=error)


def _cause(
    experiment: Experiment,
    what: str,
    settings: Settings,
    option: str,
    value: int | str | list[str],
    optimizers: list[str] | None = None,
) -> Cause:
    error = experiment.relative(settings)
    try:
        node = first_wrong_node(experiment)
    except BudgetSpentError:
        node = None
    where = f"; the first wrong node is {_in_words(node)}" if node else ""
    return Cause(
        "onnxruntime",
        f"ONNX Runtime is wrong: {what}{where}",
        f"create the session with {option}={value}",
        error,
        op=node.op if node else "",
        node=node.name if node else "",
        optimizers=tuple(optimizers or ()),
        option=option,
        option_value=value,
    )


def _in_words(node: WrongNode) -> str:
    name = repr(node.name) if node.name else f"with the output {node.output!r}"
    return f"{node.op} {name} (relative error {node.error:.1g})"
