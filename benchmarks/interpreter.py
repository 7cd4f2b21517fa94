"""The interpreter against eager torch, forward and forward plus backward, each in a separate process.

    python -m benchmarks.interpreter MODEL_FILE REPETITIONS

measures one model file and prints the times as JSON: seconds of cellbridge and of torch by quantity.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import verdicts
from .sides import THREAD_VARIABLES
from .tables import Row

TITLE = "The interpreter"
THREADS = 2
EXPLANATION = (
    "A captured program run in float32 by the interpreter, `program(...)` and `program.value_and_grad(...)`, against "
    "the module in eager torch: forward under `no_grad`, and forward plus the gradients of inputs and parameters. Both "
    f"on {THREADS} threads (torch's and those of NumPy's BLAS), in one process."
)
TARGETS = {"resnet18": 1.0, "minilm": 1.0} | dict.fromkeys(verdicts.NAMES, 2.0)
WARM_UP = 3


def measure(root: Path, model: str, repetitions: int) -> list[Row]:
    """Return rows for one model file, measured in a new process, since BLAS reads its thread count at import."""
    file = f"benchmarks/timm_models.py:{model}" if model in verdicts.NAMES else f"fixtures/{model}.py"
    command = [sys.executable, "-m", "benchmarks.interpreter", file, str(repetitions)]
    environment = os.environ | dict.fromkeys(THREAD_VARIABLES, str(THREADS))
    done = subprocess.run(command, cwd=root, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    times = json.loads(done.stdout.splitlines()[-1])
    return [
        Row(model, quantity, "ms", [1e3 * t for t in cellbridge], [1e3 * t for t in peer], TARGETS.get(model))
        for quantity, (cellbridge, peer) in times.items()
    ]


def times(model_file: str, repetitions: int) -> dict[str, tuple[list[float], list[float]]]:
    """Return seconds of cellbridge and of torch by quantity; the two take turns."""
    import torch
    from torch.utils import _pytree as pytree

    from cellbridge.converter import from_torch
    from cellbridge.parity.inputs.model_file import load

    torch.set_num_threads(THREADS)
    user_file = load(model_file)
    module = user_file.module.eval()
    program = from_torch(module, user_file.args, user_file.kwargs)
    args, kwargs = pytree.tree_map_only(torch.Tensor, lambda t: t.numpy(), (user_file.args, user_file.kwargs))
    leaves: list[torch.Tensor] = [p for p in module.parameters() if p.requires_grad]

    def leaf(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.is_floating_point():
            tensor = tensor.detach().clone().requires_grad_()
            leaves.append(tensor)
        return tensor

    torch_args, torch_kwargs = pytree.tree_map_only(torch.Tensor, leaf, (user_file.args, user_file.kwargs))

    def torch_forward() -> None:
        with torch.no_grad():
            module(*torch_args, **torch_kwargs)

    def torch_backward() -> None:
        result = pytree.tree_leaves(module(*torch_args, **torch_kwargs))
        outputs = [x for x in result if isinstance(x, torch.Tensor) and x.requires_grad]
        torch.autograd.grad(outputs, leaves, [torch.ones_like(x) for x in outputs], allow_unused=True)

    return {
        "forward": in_turns(lambda: program(*args, **kwargs), torch_forward, repetitions),
        "forward and backward": in_turns(lambda: program.value_and_grad(*args, **kwargs), torch_backward, repetitions),
    }


def in_turns(
    cellbridge: Callable[[], Any], peer: Callable[[], Any], repetitions: int
) -> tuple[list[float], list[float]]:
    seconds: tuple[list[float], list[float]] = ([], [])
    for turn in range(WARM_UP + repetitions):
        for function, times_of_side in zip((cellbridge, peer), seconds, strict=True):
            start = time.perf_counter()
            function()
            if turn >= WARM_UP:
                times_of_side.append(time.perf_counter() - start)
    return seconds


if __name__ == "__main__":
    print(json.dumps(times(sys.argv[1], int(sys.argv[2]))))
