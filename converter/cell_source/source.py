"""`to_cell_source`: converts a program to the source of a Python module of Cells."""

from __future__ import annotations

import re
from typing import Any

from ...runtime.errors import UsageError, require_supported
from ...runtime.ir.program import Program, require_program
from ...runtime.programs.subprograms import inline_functions
from .bodies import Bodies
from .classes import Classes
from .layers.network import CellNetwork
from .renaming import rename_for_cells
from .text.expressions import identifier
from .text.helpers import HELPERS, with_dependencies

TARGETS = {"cellbridge": "cellbridge.runtime", "mindspore": "mindspore"}


def to_cell_source(program: Program, target: str = "cellbridge") -> str:
    """Generate the source of Cells for a program: the first draft of a port.

    The classes are nested like the modules, with the same attribute names; a module whose ops form a known layer
    becomes that layer. The class of the whole network comes last, takes no arguments and has the name of the captured
    class. Modules of one class that differ only in numbers share one class with arguments; classes of modules that
    compute different things are numbered. `to_cell_checkpoint` writes the weights. Batch norm and dropout follow
    `set_train`, whatever the mode of capture; settings that the mode hides (in eval mode, the rate of Dropout and the
    momentum of batch norm) have torch's defaults. Custom backward passes aren't generated: their Cells have the
    derivative, and the docstring of the module names them.

    Args:
        program: a program from `from_torch`.
        target: "cellbridge", or "mindspore" for source that runs in MindSpore 2.x.

    Returns:
        The text of the module.

    Raises:
        UsageError: it isn't a program, or the target is unknown.
        UnsupportedOperators: ops, or uses of them, that can't be written as Cells; all are listed.
        ProgramError: the nodes of one Cell call aren't contiguous in the program.
    """
    require_program(program)
    if target not in TARGETS:
        raise UsageError(f"target must be one of {', '.join(map(repr, TARGETS))}, given {target!r}")
    network = CellNetwork(rename_for_cells(inline_functions(program)), target)
    bodies = Bodies(network)
    classes = Classes(network.literals, network.root.class_name)
    bodies.define(classes)
    require_supported(bodies.missing, "the program can't be written as Cells: {} of ops without a form")
    text = "\n\n\n".join([*(HELPERS[name] for name in with_dependencies(bodies.helpers)), *classes.texts])
    unknown = [] if program.train else _settings_hidden_in_eval_mode(text)
    docstring = _docstring(
        classes.last,
        has_weights=bool(bodies.arrays()),
        unknown=unknown,
        custom_backward=_cells_with_custom_backward(program),
    )
    return f"{docstring}\n\n{_imports(text, target)}\n\n\n{text}\n"


def _settings_hidden_in_eval_mode(text: str) -> list[str]:
    """Descriptions of the settings in a source that only training uses, with their defaults."""
    kinds = {
        r"nn\.Dropout": "the rates of Dropout (0.5 here)",
        r"nn\.BatchNorm": "the momentum of BatchNorm (0.9 here)",
        r"def attention\(": "the rates of dropout inside attention (none here)",
    }
    return [words for pattern, words in kinds.items() if re.search(pattern, text)]


def _cells_with_custom_backward(program: Program) -> list[str]:
    """Class names of Cells with a custom gradient."""
    calls = [program.calls[node.cell] for node in program.nodes if node.op == "own_gradient"]
    return list(dict.fromkeys(identifier(call.class_name, "Network") for call in calls))


def _docstring(name: str, *, has_weights: bool, unknown: list[str], custom_backward: list[str]) -> str:
    lines = [f"{name} as Cells, written from a captured program: the first draft of a port."]
    if custom_backward:
        lines += ["", "Their backward was written by hand, and is the derivative here; give these Cells a bprop:"]
        lines += [f"- {words}" for words in custom_backward]
    if unknown:
        lines += [
            "",
            "It was captured in eval mode, which doesn't show settings that only training uses. Set before training:",
        ]
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
