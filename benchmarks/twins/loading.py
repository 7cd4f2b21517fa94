"""Loading the reference's weights into a candidate that has others, and comparing it with those that the port has."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from cellbridge import parity
from cellbridge.parity.pairing.by_structure.loading import Loading, load_by_structure
from cellbridge.parity.pairing.by_structure.ports import ModulePort
from cellbridge.parity.support.messages import first_line
from cellbridge.runtime.errors import CellbridgeError

from ..faults.tools.cellbridge_tool import MAX_SAID
from .measuring import CODE, FOLDERS, faults_of
from .table import MARKS
from .twin import SEED, STATISTICS, twins

ENOUGH = 0.9
ROUNDED = 1e-5
"""How far a weight that is computed may be from the port's own, relative to its largest element."""


def torch_pairs() -> list[str]:
    """Return the names of the pairs of two torch modules."""
    return [name for name, twin in twins().items() if isinstance(twin.candidate(twin.reference()), nn.Module)]


def measure_loading(name: str) -> dict[str, Any]:
    """Load weights into a sound candidate, and into one with a mistake in its code; return JSON values.

    `right` is the number of tensors that have the port's numbers, and the number of all; `complete` is whether that is
    all of them, but for those that the report says nothing distinguishes, and the comparison holds.
    """
    twin = twins()[name]
    reference = twin.reference()
    candidate = twin.candidate(reference)
    expected = tensors_of(candidate)
    draw_others(candidate)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.process_time()
        try:
            loading = load_by_structure(reference, ModulePort(candidate), twin.arguments(), {})
        except CellbridgeError as refusal:
            return _refused(name, list(expected), refusal)
        seconds = time.process_time() - start
        with ModulePort(candidate).given(loading.arrays):
            try:
                report = parity.compare(reference, candidate, twin.arguments(), probe=False, grads=False)
                holds, error = report.ok, ""
            except CellbridgeError as refusal:
                holds, error = False, str(refusal)[:MAX_SAID]
        wrong = wrong_tensors(expected, loading.arrays)
        faulty = twin.candidate(reference, [faults_of(twin)[CODE]])
        of_faulty = tensors_of(faulty)
        draw_others(faulty)
        beside_a_fault = load_by_structure(reference, ModulePort(faulty), twin.arguments(), {})
    exchangeable = {tensor for tensor in wrong if any(tensor in note for note in _equal(loading))}
    return {
        "pair": name,
        "holds": holds,
        "complete": holds and exchangeable == set(wrong),
        "right": [len(expected) - len(wrong), len(expected)],
        "beside a fault": [len(of_faulty) - len(wrong_tensors(of_faulty, beside_a_fault.arrays)), len(of_faulty)],
        "wrong": wrong,
        "said": loading.notes[0],
        "error": error,
        "seconds": round(seconds, 1),
    }


def _refused(name: str, tensors: list[str], refusal: CellbridgeError) -> dict[str, Any]:
    none = [0, len(tensors)]
    return {
        "pair": name, "holds": False, "complete": False, "right": none, "beside a fault": none, "wrong": tensors,
        "said": "", "error": FOLDERS.sub("", first_line(refusal)),
        "seconds": 0.0,
    }  # fmt: skip


def _equal(loading: Loading) -> list[str]:
    return [note for note in loading.notes if note.startswith("nothing distinguishes")]


def tensors_of(module: nn.Module) -> dict[str, torch.Tensor]:
    """Return copies of a module's parameters, and of the statistics of its norms, by name."""
    buffers = {n: b for n, b in module.named_buffers() if _is_statistic(n, b)}
    return {name: tensor.detach().clone() for name, tensor in {**dict(module.named_parameters()), **buffers}.items()}


def _is_statistic(name: str, buffer: torch.Tensor) -> bool:
    leaf = name.rpartition(".")[2]
    return buffer.is_floating_point() and (leaf in STATISTICS or leaf.endswith(("mean", "variance")))


def draw_others(module: nn.Module) -> None:
    """Give all parameters, and the statistics of norms, other random numbers."""
    statistics = [buffer for name, buffer in module.named_buffers() if _is_statistic(name, buffer)]
    generator = torch.Generator().manual_seed(SEED + 7)
    with torch.no_grad():
        for tensor in [*module.parameters(), *statistics]:
            tensor.copy_(0.5 * torch.rand(tensor.shape, generator=generator) + 0.1)


def wrong_tensors(expected: Mapping[str, torch.Tensor], arrays: Mapping[str, np.ndarray[Any, Any]]) -> list[str]:
    """Return the names of the tensors that weren't loaded, or have other numbers than expected."""
    wrong = []
    for name, tensor in expected.items():
        array = arrays.get(name)
        bound = ROUNDED * float(tensor.abs().max())
        if (
            array is None
            or array.shape != tuple(tensor.shape)
            or np.abs(array - tensor.numpy()).max(initial=0.0) > bound
        ):
            wrong.append(name)
    return wrong


def text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return a line for each pair, and the totals."""
    width = max(len(row["pair"]) for row in rows)
    lines = [f"{'':<{width}}  complete  right  beside a fault  seconds"]
    for row in rows:
        right, beside = (f"{row[key][0]}/{row[key][1]}" for key in ("right", "beside a fault"))
        lines.append(f"{row['pair']:<{width}}  {MARKS[row['complete']]:^8}{right:>7}{beside:>16}{row['seconds']:>9.1f}")
    complete = sum(row["complete"] for row in rows)
    share = complete / len(rows)
    met = "met" if share >= ENOUGH else "not met"
    lines += [
        "",
        f"{'complete and right':<34}{f'{complete}/{len(rows)}':>9}  {share:>6.1%}  target {ENOUGH:>5.0%}  {met}",
    ]
    for what, key in (("tensors right", "right"), ("tensors right beside a fault", "beside a fault")):
        number, of = map(sum, zip(*(row[key] for row in rows), strict=True))
        lines.append(f"{what:<34}{f'{number}/{of}':>9}  {number / of:>6.1%}")
    return "\n".join(lines)


def misses(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return a line for each pair that isn't loaded completely, with what was said."""
    return [
        f"{row['pair']}: wrong or not loaded: {', '.join(row['wrong']) or 'nothing'}; "
        f"{'holds' if row['holds'] else row['error'] or 'does not hold'}; {row['said']}"
        for row in rows
        if not row["complete"]
    ]


def page(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the page of figures."""
    lines = "\n".join(f"- {line}" for line in misses(rows)) or "Nothing."
    return f"""# Weights loaded by structure

What `python -m benchmarks.twins --load-weights` wrote; [README.md](README.md) says what the figures mean.

```text
{text(rows)}
```

## What is missing

{lines}
"""
