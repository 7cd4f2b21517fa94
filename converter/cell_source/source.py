"""`to_cell_source`: a program becomes a Python module of Cells."""

from __future__ import annotations

import re
from typing import Any

from ...runtime.errors import UsageError, require_supported
from ...runtime.ir.program import Program, require_program
from .bodies import Bodies
from .classes import Classes
from .layers.network import Network
from .renaming import with_names_of_cells
from .text.expressions import identifier
from .text.helpers import HELPERS, with_needed

TARGETS = {"cellbridge": "cellbridge.runtime", "mindspore": "mindspore"}


def to_cell_source(program: Program, target: str = "cellbridge") -> str:
    """Write a program as the source of Cells: the first draft of a port.

    The classes are nested as the modules were, under the same attribute names; a module whose ops form a known layer is
    that layer. The class of the whole network comes last, takes no arguments and bears the name of the captured class.
    Modules of one class that differ in numbers only are one class with arguments; those that compute different things
    are numbered. Its weights are those that `to_cell_checkpoint` writes. Batch norm and dropout follow `set_train`,
    whichever mode the program was captured in; what that mode doesn't tell (in eval mode, the rate of a Dropout and the
    momentum of batch norm) has torch's default. A backward that was written by hand isn't written: its Cells have the
    derivative, and the docstring of the module names them.

    Args:
        program: what `from_torch` gives.
        target: "cellbridge", or "mindspore" for source that runs in MindSpore 2.x.

    Returns:
        The text of the module.

    Raises:
        UsageError: it isn't a program, or there is no such target.
        UnsupportedOperators: ops, or uses of them, that can't be written as Cells; all are listed.
        ProgramError: the nodes of one call of a Cell don't stand together in the program.
    """
    require_program(program)
    if target not in TARGETS:
        raise UsageError(f"target must be one of {', '.join(map(repr, TARGETS))}, given {target!r}")
    network = Network(with_names_of_cells(program), target)
    bodies = Bodies(network)
    classes = Classes(network.literals, network.root.class_name)
    bodies.define(classes)
    require_supported(bodies.missing, "the program can't be written as Cells: {} of ops without a form")
    text = "\n\n\n".join([*(HELPERS[name] for name in with_needed(bodies.helpers)), *classes.texts])
    unknown = [] if program.train else _not_told_in_eval_mode(text)
    docstring = _docstring(
        classes.last, has_weights=bool(bodies.arrays()), unknown=unknown, by_hand=_with_backward_by_hand(program)
    )
    return f"{docstring}\n\n{_imports(text, target)}\n\n\n{text}\n"


def _not_told_in_eval_mode(text: str) -> list[str]:
    """What only training uses, and what stands for it in the source."""
    kinds = {
        r"nn\.Dropout": "the rates of Dropout (0.5 here)",
        r"nn\.BatchNorm": "the momentum of BatchNorm (0.9 here)",
        r"def attention\(": "the rates of dropout inside attention (none here)",
    }
    return [words for pattern, words in kinds.items() if re.search(pattern, text)]


def _with_backward_by_hand(program: Program) -> list[str]:
    """Names of the classes of Cells in which a gradient isn't the derivative."""
    calls = [program.calls[node.cell] for node in program.nodes if node.op == "own_gradient"]
    return list(dict.fromkeys(identifier(call.class_name, "Network") for call in calls))


def _docstring(name: str, *, has_weights: bool, unknown: list[str], by_hand: list[str]) -> str:
    lines = [f"{name} as Cells, written from a captured program: the first draft of a port."]
    if by_hand:
        lines += ["", "Their backward was written by hand, and is the derivative here; give these Cells a bprop:"]
        lines += [f"- {words}" for words in by_hand]
    if unknown:
        lines += ["", "It was captured in eval mode, which doesn't tell what only training uses. Set before training:"]
        lines += [f"- {words}" for words in unknown]
    if has_weights:
        lines += [
            "",
            "The weights are in the checkpoint that `cellbridge.converter.to_cell_checkpoint` writes:",
            "",
            f"    network = {name}()",
            f'    load_param_into_net(network, load_checkpoint("{name.lower()}.ckpt"))',
        ]
    return '"""' + "\n".join(lines) + ('"""' if len(lines) == 1 else '\n"""')


def _imports(text: str, target: str) -> str:
    package = TARGETS[target]
    names = [n for n in ("Parameter", "Tensor", "nn", "ops") if re.search(rf"\b{n}[.(]", text)]
    lines: list[Any] = [f"import {package} as ms"] if re.search(r"\bms\.", text) else []
    if "math." in text:
        lines.insert(0, "import math\n")
    lines.append(f"from {package} import {', '.join(names)}")
    if "initializer(" in text:
        lines.append(f"from {package}.common.initializer import initializer")
    return "\n".join(lines)
