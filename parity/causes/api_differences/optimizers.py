"""The table: optimizers."""

from __future__ import annotations

import math
from typing import Any

from .entry import Difference, Finding, LayerPair, argument, torch_class_name
from .reading import MISSING, format_value, is_mindspore, plain_value, read_argument, same

PORTS = {
    "SGD": ("SGD", "Momentum"),
    "Adam": ("Adam",),
    "AdamW": ("AdamWeightDecay",),
    "RMSprop": ("RMSProp",),
    "Adagrad": ("Adagrad",),
    "Adadelta": ("Adadelta",),
    "Adamax": ("AdaMax",),
    "Rprop": ("Rprop",),
    "ASGD": ("ASGD",),
}
"""The runtime's optimizers that use the formula of torch's."""

ADAMS = ("Adam", "AdamWeightDecay", "AdaMax")
OPTIMIZERS_HERE = tuple(dict.fromkeys(name for names in PORTS.values() for name in names))
OPTIMIZERS_THERE = tuple(PORTS)
WITH_LOSS_SCALE = tuple(name for name in OPTIMIZERS_HERE if name not in ("AdamWeightDecay", "Rprop", "ASGD"))


def setting(pair: LayerPair, name: str) -> Any:
    """Return a setting of torch's optimizer; `MISSING` if its groups have different values."""
    values = [plain_value(group.get(name, MISSING)) for group in pair.module.param_groups]
    return values[0] if all(same(value, values[0]) for value in values) else MISSING


def _setting(
    layers: tuple[str, ...], cell_argument: str, module_argument: str = "", rule: str = "", **more: Any
) -> Difference:
    """Return an entry about an argument of both."""
    more.setdefault("of_module", lambda pair: setting(pair, module_argument or cell_argument))
    originals = tuple(name for name, ports in PORTS.items() if set(ports) & set(layers))
    return argument(layers, cell_argument, module_argument, rule, originals=originals, **more)


def _other_optimizer(pair: LayerPair) -> Finding | None:
    original = torch_class_name(pair.module)
    ports = PORTS.get(original, ())
    decay = setting(pair, "weight_decay")
    if not ports or pair.name in ports or (original == "AdamW" and pair.name == "Adam" and decay == 0):
        return None
    if setting(pair, "momentum") not in (0, MISSING):
        ports = ports[::-1]  # Momentum for SGD
    return Finding(pair.name, original, f"nn.{ports[0]}")


def _learning_rate(pair: LayerPair) -> Any:
    rate = pair.cell.get_lr() if hasattr(pair.cell, "get_lr") else MISSING
    rates = plain_value(rate)
    if isinstance(rates, tuple):
        return rates[0] if all(same(rate, rates[0]) for rate in rates) else MISSING
    return rates


def _beta(index: int) -> Any:
    def of_module(pair: LayerPair) -> Any:
        betas = setting(pair, "betas")
        return MISSING if betas is MISSING else betas[index]

    return of_module


def _decay(pair: LayerPair) -> Any:
    decay = read_argument(pair.cell, "weight_decay")
    if is_mindspore(pair.cell) and isinstance(decay, float):
        return decay / read_argument(pair.cell, "loss_scale")  # it stores the product
    if isinstance(decay, tuple):
        return decay[0] if all(same(value, decay[0]) for value in decay) else MISSING
    return decay if isinstance(decay, (int, float)) else MISSING


def _undecayed(pair: LayerPair) -> Finding | None:
    """Find norms that aren't decayed, since there are no parameter groups."""
    decay = _decay(pair)
    module_decay = setting(pair, "weight_decay")
    if (
        MISSING in (decay, module_decay)
        or not decay
        or not module_decay
        or read_argument(pair.cell, "is_group") is True
    ):
        return None
    undecayed = [p.name for p in pair.cell.parameters if "beta" in p.name or "gamma" in p.name]
    if not undecayed:
        return None
    names = ", ".join(undecayed[:2]) + (f" and {len(undecayed) - 2} more" if len(undecayed) > 2 else "")
    return Finding(
        f"weight_decay={format_value(decay)} (0 for {names})",
        f"weight_decay={format_value(module_decay)} (for all)",
        f'[{{"params": net.trainable_params(), "weight_decay": {format_value(module_decay)}}}]',
    )


def _eps_beside_root(pair: LayerPair) -> Finding | None:
    eps, beta2 = read_argument(pair.cell, "eps"), read_argument(pair.cell, "beta2")
    module_eps = setting(pair, "eps")
    if MISSING in (eps, beta2, module_eps):
        return None
    return Finding(
        f"eps={format_value(eps)} (beside the uncorrected root: {eps / math.sqrt(1 - beta2):.3g} at step 1)",
        f"eps={format_value(module_eps)} (at every step)",
        "an eps far below the gradients on both sides: none is right at every step",
    )


def _no_correction(pair: LayerPair) -> Finding | None:
    beta1, beta2 = read_argument(pair.cell, "beta1"), read_argument(pair.cell, "beta2")
    if MISSING in (beta1, beta2):
        return None
    return Finding(
        f"bias correction=none (step 1 is {(1 - beta1) / math.sqrt(1 - beta2):.3g} times as long)",
        "bias correction=by sqrt(1 - beta2**t) / (1 - beta1**t)",
        "this factor into a LearningRateSchedule, and its inverse into weight_decay",
    )


def _loss_scale(pair: LayerPair) -> Finding | None:
    scale = read_argument(pair.cell, "loss_scale")
    if scale is MISSING or same(scale, 1):
        return None
    return Finding(
        f"loss_scale={format_value(scale)} (gradients are divided by it)",
        "loss_scale=1",
        f"sens={format_value(scale)} for TrainOneStepCell, or loss_scale=1.0",
    )


def _first_square(pair: LayerPair) -> Finding:
    return Finding(
        "mean square=1 at first",
        "mean square=0 at first",
        "for p in optimizer.ms: p.set_data(ops.zeros_like(p))",
    )


def _eps_in_root(pair: LayerPair) -> Finding | None:
    eps, module_eps = read_argument(pair.cell, "epsilon"), setting(pair, "eps")
    if MISSING in (eps, module_eps) or same(math.sqrt(eps), module_eps):
        return None
    return Finding(
        f"epsilon={format_value(eps)} (in the root: sqrt(v + epsilon))",
        f"eps={format_value(module_eps)} (beside it: sqrt(v) + eps)",
        f"epsilon={format_value(module_eps**2)}, the same where v is 0",
    )


def _no_eps(pair: LayerPair) -> Finding | None:
    eps = setting(pair, "eps")
    if eps in (0, MISSING):
        return None
    return Finding("eps=0 (there is no other)", f"eps={format_value(eps)}", "eps=0 in torch, and a start above 0")


def _start_of_sum(pair: LayerPair) -> Any:
    """The initial value of the sums, which is known only before the first step."""
    if read_argument(pair.cell, "global_step") != 0:
        return MISSING
    return float(pair.cell.accum[0].asnumpy().flat[0])


def _only_in_torch(layers: tuple[str, ...], name: str, default: Any, write: str, rule: str) -> Difference:
    def find(pair: LayerPair) -> Finding | None:
        value = setting(pair, name)
        if value is MISSING or same(value, default):
            return None
        return Finding(f"{name}={format_value(default)} (there is no other)", f"{name}={format_value(value)}", write)

    originals = tuple(original for original, ports in PORTS.items() if set(ports) & set(layers))
    return Difference(layers, "", name, find, rule, originals)


def _other_count(pair: LayerPair) -> Finding | None:
    cell_count = len(pair.cell.parameters)
    module_count = sum(p.requires_grad for group in pair.module.param_groups for p in group["params"])
    if cell_count == module_count:
        return None
    return Finding(
        f"parameters={cell_count}", f"parameters={module_count} (that are trained)", "net.trainable_params()"
    )


OPTIMIZERS = (
    Difference(
        OPTIMIZERS_HERE, "the class", "the class", _other_optimizer,
        "SGD is nn.SGD or nn.Momentum, AdamW nn.AdamWeightDecay.", OPTIMIZERS_THERE,
    ),
    Difference(
        OPTIMIZERS_HERE, "params", "params", _other_count,
        "Freeze before the optimizer is made: it updates what it was given, and weight decay shrinks frozen "
        "Parameters too.", OPTIMIZERS_THERE,
    ),
    _setting(
        OPTIMIZERS_HERE, "learning_rate", "lr", "Another name; a number, one for each step, or a schedule.",
        of_cell=_learning_rate,
    ),
    _setting(("SGD", "Momentum"), "momentum"),
    _setting(("SGD",), "dampening"),
    _only_in_torch(("Momentum",), "dampening", 0, "nn.SGD(dampening=...)", "nn.SGD has it."),
    _setting(("SGD",), "nesterov"),
    _setting(("Momentum",), "use_nesterov", "nesterov", "Another name."),
    _setting(ADAMS, "beta1", "betas[0]", "Two arguments for torch's pair.", of_module=_beta(0)),
    _setting(ADAMS, "beta2", "betas[1]", "Two arguments for torch's pair.", of_module=_beta(1)),
    _setting(
        ("AdamWeightDecay",), "eps", rule="Another default: **1e-6** here, 1e-8 in torch."
    ),
    Difference(
        ("AdamWeightDecay",), "bias correction", "bias correction", _no_correction,
        "`m / (sqrt(v) + eps)` of the uncorrected averages; torch divides them by `1 - beta**t` first.", ("AdamW",),
    ),
    _setting(("Adam", "AdaMax"), "eps"),
    Difference(
        ("Adam",), "eps", "eps", _eps_beside_root,
        "`lr * sqrt(1 - beta2**t) / (1 - beta1**t) * m / (sqrt(v) + eps)`; torch corrects v before eps is added, so "
        "eps counts `1 / sqrt(1 - beta2**t)` times as much here.", ("Adam",),
    ),
    _setting(("Adam",), "use_amsgrad", "amsgrad", "Another name."),
    _setting(
        OPTIMIZERS_HERE, "weight_decay", of_cell=_decay,
        rule="Added to the gradient as in torch, after the loss scale is divided out.",
    ),
    Difference(
        OPTIMIZERS_HERE, "weight_decay", "weight_decay", _undecayed,
        'Parameters whose name contains "beta" or "gamma" are decayed only in parameter groups, biases always.',
        OPTIMIZERS_THERE,
    ),
    Difference(
        ("RMSProp",), "mean square", "mean square", _first_square,
        "The mean of squares starts at **1**, in torch at 0.", ("RMSprop",),
    ),
    _setting(("RMSProp",), "decay", "alpha", "Another name and default: 0.9 here, 0.99 in torch."),
    Difference(
        ("RMSProp",), "epsilon", "eps", _eps_in_root,
        "Inside the root: `sqrt(v + epsilon)`; torch adds eps to the root.", ("RMSprop",),
    ),
    _setting(("RMSProp",), "momentum"),
    _setting(("RMSProp",), "centered"),
    _setting(
        ("Adagrad",), "accum", "initial_accumulator_value", "The sum of squares starts at 0.1, in torch at 0.",
        of_cell=_start_of_sum,
    ),
    Difference(("Adagrad",), "", "eps", _no_eps, "`g / sqrt(a)`, without eps.", ("Adagrad",)),
    _only_in_torch(
        ("Adagrad",), "lr_decay", 0, "nn.InverseDecayLR as learning_rate",
        "A schedule does that: nn.InverseDecayLR.",
    ),
    _setting(("Adadelta",), "rho"),
    _setting(("Adadelta",), "epsilon", "eps", "Another name."),
    _setting(("Rprop",), "etas"),
    _setting(("Rprop",), "step_sizes"),
    _setting(("ASGD",), "lambd"),
    _setting(("ASGD",), "alpha"),
    _only_in_torch(OPTIMIZERS_HERE, "maximize", False, "-loss", "Negate the loss."),
    Difference(
        WITH_LOSS_SCALE, "loss_scale", "", _loss_scale,
        "Gradients are divided by it first: it must be the `sens` of TrainOneStepCell, by which the loss is scaled.",
        OPTIMIZERS_THERE,
    ),
)  # fmt: skip
