"""The cause of a wrong result of ONNX Runtime, found by running the model with other settings."""

from __future__ import annotations

from ...results.cause import Cause
from .experiment import DEFAULT, NOT_OPTIMIZED, BudgetSpentError, Experiment, Settings
from .nodes import WrongNode, first_wrong_node, is_model_right
from .optimizers import optimizers_in, responsible

LEVELS = {
    NOT_OPTIMIZED: "ORT_DISABLE_ALL",
    1: "ORT_ENABLE_BASIC",
    2: "ORT_ENABLE_EXTENDED",
    3: "ORT_ENABLE_LAYOUT",
    99: "ORT_ENABLE_ALL",
}
"""The levels of `onnxruntime.GraphOptimizationLevel`, each with the optimizers of those before."""

REPEATS = 3
"""Number of runs after which a result that isn't wrong again is left unexplained."""


def find_cause(experiment: Experiment) -> Cause | None:
    """Return what makes ONNX Runtime compute a wrong result, with the option of the session that avoids it.

    None if the result isn't wrong again, if the model itself is wrong, or if time runs out before anything is known.
    """
    try:
        if not any(not experiment.is_right(DEFAULT) for _ in range(REPEATS)):
            return None
        cause = _avoidable(experiment) or _unavoidable(experiment)
    except BudgetSpentError:
        return None
    return cause


def _avoidable(experiment: Experiment) -> Cause | None:
    """Return a cause that an option of the session avoids: of optimizers, threads or the provider."""
    alone = Settings(threads=1)
    if experiment.is_right(Settings(level=NOT_OPTIMIZED)):
        return _of_optimizers(experiment)
    if experiment.is_right(alone):
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
    """Return the kernel that is wrong with every setting; None if the model itself may be wrong."""
    if not is_model_right(experiment):
        return None
    node = first_wrong_node(experiment)
    where = f"its kernel of {_in_words(node)}" if node else "one of its kernels is wrong"
    summary = f"ONNX Runtime is wrong: {where}, without optimizations and on one thread too"
    return Cause("onnxruntime", summary, op=node.op if node else "", node=node.name if node else "")


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
